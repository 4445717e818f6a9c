//! The paths that the API had before runs were called runs, which are accepted for one release.
//!
//! A request to such a path is rewritten before it is routed, so that routes, rules and permissions
//! exist once. The answer names the new path.

use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderName, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::Response;

/// Says since when a path is deprecated (RFC 9745).
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");

/// 2026-11-25T00:00:00Z, when the paths were renamed.
const SINCE: HeaderValue = HeaderValue::from_static("@1795564800");

/// Passes a request on. One to a former path is served as the same request to the present path.
pub(crate) async fn rewrite(mut request: Request, next: Next) -> Response {
    let Some(path) = present(request.uri().path()) else {
        return next.run(request).await;
    };
    // Both fail only for a path that was no valid URI before.
    let (Some(uri), Ok(link)) = (
        with_path(request.uri(), &path),
        HeaderValue::from_str(&format!("<{path}>; rel=\"successor-version\"")),
    ) else {
        return next.run(request).await;
    };
    *request.uri_mut() = uri;
    let mut response = next.run(request).await;
    response.headers_mut().insert(DEPRECATION, SINCE);
    response.headers_mut().append(header::LINK, link);
    response
}

/// The present path for a former one.
fn present(path: &str) -> Option<String> {
    let below = path.strip_prefix("/api/v1/instances")?;
    if below.is_empty() {
        return Some("/api/v1/runs".to_owned());
    }
    let below = below.strip_prefix('/')?;
    let below = match below.split_once('/') {
        Some((id, "run")) => format!("{id}/begin"),
        Some((id, "runs")) => format!("{id}/executions"),
        _ => below.to_owned(),
    };
    Some(format!("/api/v1/runs/{below}"))
}

/// The same URI with another path.
fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_former_path_has_a_present_one() {
        for (former, expected) in [
            ("/api/v1/instances", Some("/api/v1/runs")),
            ("/api/v1/instances/import", Some("/api/v1/runs/import")),
            ("/api/v1/instances/1", Some("/api/v1/runs/1")),
            ("/api/v1/instances/1/run", Some("/api/v1/runs/1/begin")),
            (
                "/api/v1/instances/1/runs",
                Some("/api/v1/runs/1/executions"),
            ),
            ("/api/v1/instances/1/cancel", Some("/api/v1/runs/1/cancel")),
            ("/api/v1/instancesof", None),
            ("/api/v1/runs/1", None),
            ("/hooks/api/v1/instances", None),
        ] {
            assert_eq!(present(former).as_deref(), expected, "{former}");
        }
    }

    #[test]
    fn the_query_and_the_authority_are_kept() {
        let uri = Uri::from_static("http://localhost:1/api/v1/instances?limit=1");
        let rewritten = with_path(&uri, "/api/v1/runs").unwrap();
        assert_eq!(rewritten, "http://localhost:1/api/v1/runs?limit=1");
    }
}
