//! `windlass:http`.

use crate::bindings::host::windlass::http::http::{Host, HttpError, Request, Response};
use crate::guest::Guest;
use crate::http::client::Ask;

impl Host for Guest {
    async fn fetch(&mut self, request: Request) -> Result<Response, HttpError> {
        let (limits, grants) = (&self.terms.limits, &self.terms.grants);
        let call = self
            .call
            .as_mut()
            .ok_or_else(|| HttpError::Other("no call".to_owned()))?;
        call.pause();
        let left = call.deadline.saturating_sub(self.shared.clock.monotonic());
        let mut ask = Ask {
            grants,
            secrets: &self.shared.options.secrets,
            left,
            requests: &mut call.http_requests,
            max_requests: limits.http_requests,
            max_body: limits.payload_bytes,
        };
        self.shared.http.fetch(request, &mut ask).await
    }
}
