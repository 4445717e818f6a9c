//! The handlers without a listener, for a process that calls them itself: a command of the command
//! line on a store.
//!
//! The process runs no workflows, and joins the store as a member only for a write that needs
//! numbers. The user of the process may do anything: the requests need no token. Only the store
//! bounds them.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use bytes::Bytes;
use tower::ServiceExt as _;
use windlass_model::Clock;
use windlass_runtime::operations::Resources;
use windlass_store::Store;

use crate::app::App;
use crate::live_feed::LiveFeed;
use crate::options::{Bounds, Callers, Options};
use crate::problem::Cause;
use crate::routes;

/// The handlers, on a store.
pub struct InProcess {
    router: Router,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
    /// The cause of a problem.
    pub cause: Option<Cause>,
}

impl InProcess {
    /// The handlers on a store, with the parts that only some requests need.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        resources: Arc<dyn Resources>,
    ) -> Self {
        let app = App::new(Options {
            listen: ([127, 0, 0, 1], 0).into(),
            token: None,
            callers: Callers::default(),
            public_url: None,
            bounds: Bounds::in_process(),
            store,
            store_place: None,
            resources,
            runtime: None,
            clock,
            metrics: Arc::default(),
            live_feed: LiveFeed::new(),
            page: |_| None,
            reload: None,
        });
        Self {
            router: routes::router(&app),
        }
    }

    /// Answers an HTTP request without a connection. `target` is a path with an optional query.
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// The target or a header is malformed, or the body of the answer ends early.
    pub async fn answer(
        &self,
        method: Method,
        target: &str,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, axum::Error> {
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        let request = Request::builder().method(method).uri(target);
        let mut request = request.body(Body::from(body)).map_err(axum::Error::new)?;
        *request.headers_mut() = headers;
        let answered = self.router.clone().oneshot(request).await;
        let mut response = answered.unwrap_or_else(|never| match never {});
        let cause = response.extensions_mut().remove::<Cause>();
        Ok(Answer {
            status: response.status(),
            body: to_bytes(response.into_body(), usize::MAX).await?,
            cause,
        })
    }
}
