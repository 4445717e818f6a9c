//! The web console below `/ui/`: its page and its files.
//!
//! They contain no data of the host, so they need no permission: the page asks the API for data, by
//! the same rules as every client. All addresses of the console are relative to its root.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use windlass_console::File;

use crate::problem::Problem;

/// The address of the console, for people who only know the address of the host.
pub(crate) const ROOT: &str = "/ui/";

/// The addresses at which the console shows a page of its own. It says of every other one below
/// [`ROOT`] that there is no such page.
pub(crate) const PAGES: [&str; 10] = [
    ROOT,
    "/ui/runs",
    "/ui/runs/{id}",
    "/ui/workflows",
    "/ui/workflows/{name}",
    "/ui/schedules",
    "/ui/dead-letters",
    "/ui/plugins",
    "/ui/plugins/{package}",
    "/ui/host",
];

/// Redirect to the console from `/` and from `/ui`, which is no folder. The address is relative to
/// both.
pub(crate) async fn root() -> Response {
    (StatusCode::FOUND, [(header::LOCATION, "ui/")]).into_response()
}

/// The page for one of [`PAGES`].
pub(crate) async fn page(uri: axum::http::Uri, headers: HeaderMap) -> Response {
    shown(uri.path(), &headers, StatusCode::OK)
}

/// The page that says that there is no such page.
pub(crate) async fn no_page(uri: axum::http::Uri, headers: HeaderMap) -> Response {
    shown(uri.path(), &headers, StatusCode::NOT_FOUND)
}

fn shown(path: &str, headers: &HeaderMap, status: StatusCode) -> Response {
    let below = path.strip_prefix(ROOT).unwrap_or_default();
    let page = windlass_console::page(below.matches('/').count());
    let tag = windlass_console::tag(page.as_bytes());
    if status == StatusCode::OK && is_known(headers, &tag) {
        return guarded(not_modified(&tag));
    }
    let mut response = guarded((status, Html(page)).into_response());
    cache(&mut response, &tag);
    response
}

/// A file of the console.
pub(crate) async fn file(
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Box<Problem>> {
    let Some(file) = File::find(&name) else {
        return Err(Problem::not_found("the console has no such file")
            .help("Load the page again: the program of the host may be another one now."));
    };
    let tag = file.tag();
    if is_known(&headers, &tag) {
        return Ok(guarded(not_modified(&tag)));
    }
    let media = [(header::CONTENT_TYPE, file.media)];
    let mut response = match reads_gzip(&headers) {
        true => {
            let coding = [(header::CONTENT_ENCODING, "gzip")];
            (media, coding, file.gzip).into_response()
        }
        false => (media, file.plain()).into_response(),
    };
    let varies = HeaderValue::from_static("accept-encoding");
    response.headers_mut().append(header::VARY, varies);
    cache(&mut response, &tag);
    Ok(guarded(response))
}

fn not_modified(tag: &str) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    cache(&mut response, tag);
    response
}

/// A browser asks each time whether the file is still the same, because another program may answer
/// at this address from one moment to the next.
fn cache(response: &mut Response, tag: &str) {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
}

/// Whether the client has the content of this tag. A proxy may have weakened its copy.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let lines = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut tags = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    tags.any(|known| known.trim().trim_start_matches("W/") == tag)
}

/// Whether the client accepts gzip.
fn reads_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

/// Adds what protects the console from other pages, and other pages from it.
fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(windlass_console::policy()) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
