//! `windlass:http`.

use crate::bindings::host::windlass::http::http::{Host, HttpError, Request, Response};
use crate::offer::guest::Guest;
use crate::offer::http::client::{Ask, Bodies};
use crate::offer::http::request::Usable;

impl Host for Guest {
    async fn fetch(&mut self, request: Request) -> Result<Response, HttpError> {
        let (limits, grants) = (&self.terms.limits, &self.terms.grants);
        let file = self.offer.grants_file.as_str();
        let call = self
            .call
            .as_mut()
            .ok_or_else(|| HttpError::Other("no call".to_owned()))?;
        call.pause();
        let account = &mut self.limiter.account;
        // The guest has copied the body of the last response by now.
        account.discharge(std::mem::take(&mut call.bodies));
        let left = call.deadline.saturating_sub(self.offer.clock.monotonic());
        let mut ask = Ask {
            grants,
            package: self.terms.package(),
            grants_file: self.terms.advice().is_none().then_some(file),
            usable: Usable {
                secrets: &self.offer.secrets,
                workflow: &call.cx.workflow,
                named: &call.cx.secrets,
            },
            left,
            trace: call.cx.trace.clone(),
            requests: &mut call.http_requests,
            bodies: Bodies {
                account,
                charged: &mut call.bodies,
            },
            max_requests: limits.http_requests,
            max_body: limits.payload_bytes,
        };
        let sent = self.offer.http.fetch(request, &mut ask).await;
        sent.map_err(|error| match (error, self.terms.advice()) {
            (HttpError::Denied(text), Some(advice)) => {
                HttpError::Denied(format!("{text}: {advice}"))
            }
            (error, _) => error,
        })
    }
}
