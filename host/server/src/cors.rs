//! Answers for pages of listed origins: the protocol by which a browser lets a page send requests
//! to this host and read the answers (CORS, in the Fetch standard).
//!
//! Only origins that the configuration lists are answered, each by its own name and never by `*`.
//! `Access-Control-Allow-Credentials` is never sent: a browser then sends such a request without
//! cookies and stored passwords, or hides the answer from the page. A token and a signature are
//! headers that the page itself knows.
//!
//! This lets pages read answers. Which pages may change something is decided in `gate.rs`, for
//! every request again: a browser asks before some requests only.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::rules::Rules;

/// For how long a browser may remember an answer about a path, in seconds.
const MAX_AGE_S: u64 = 600;

/// How many headers a request may ask for.
const HEADERS: usize = 32;

/// How many bytes of header names an answer lists.
const HEADER_BYTES: usize = 2048;

/// Headers of an answer that every page reads, or none.
const NOT_NAMED: [&str; 12] = [
    "cache-control",
    "connection",
    "content-language",
    "content-length",
    "content-type",
    "expires",
    "last-modified",
    "pragma",
    "set-cookie",
    "transfer-encoding",
    "upgrade",
    "vary",
];

/// Answers the question of a browser whether a listed page may send a request, and names the page
/// in every answer to it. For a host that lists pages.
pub(crate) async fn cors(
    State((app, rules)): State<(App, Arc<Rules>)>,
    request: Request,
    next: Next,
) -> Response {
    let page = app.names().listed_page(request.headers()).cloned();
    let mut response = match (&page, methods(&rules, &request)) {
        (Some(_), Some(methods)) => permitted(&methods, request.headers()),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(page) = page {
        let is_named = |name: &&HeaderName| {
            let name = name.as_str();
            !NOT_NAMED.contains(&name) && !name.starts_with("access-control-")
        };
        if let Some(names) = list(headers.keys().filter(is_named)) {
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, names);
        }
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
    }
    response
}

/// The methods of the path, if a browser asks whether a page may send a request.
fn methods(rules: &Rules, request: &Request) -> Option<Vec<Method>> {
    let is_question = request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let methods = is_question.then(|| rules.methods(request))?;
    (!methods.is_empty()).then_some(methods)
}

/// The answer to a browser that asks: the methods of the path, and the headers that it asks for.
fn permitted(methods: &[Method], asked: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let methods: Vec<_> = methods.iter().map(Method::as_str).collect();
    if let Ok(methods) = HeaderValue::from_str(&methods.join(", ")) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    }
    let asked = asked.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS);
    let asked = asked.iter().filter_map(|value| value.to_str().ok());
    let asked: Vec<_> = asked
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse::<HeaderName>().ok())
        .take(HEADERS)
        .collect();
    if let Some(names) = list(asked.iter()) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_S.into());
    let by = "Access-Control-Request-Method, Access-Control-Request-Headers";
    headers.append(header::VARY, HeaderValue::from_static(by));
    response
}

/// A list of names; none without a name.
fn list<'n>(names: impl Iterator<Item = &'n HeaderName>) -> Option<HeaderValue> {
    let mut list = String::new();
    for name in names.map(HeaderName::as_str) {
        if list.len() + name.len() > HEADER_BYTES {
            break;
        }
        if !list.is_empty() {
            list.push_str(", ");
        }
        list.push_str(name);
    }
    let value = HeaderValue::from_str(&list).ok();
    value.filter(|value| !value.is_empty())
}
