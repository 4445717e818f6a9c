//! HTTP requests: `http/request` makes one request.

mod body;
mod check;
mod config;
mod headers;
mod retry_after;

use config::{Config, HeaderSource};
use headers::Headers;
use windlass::http::{RequestBuilder, Response, shown_url};
use windlass::prelude::*;

/// The limit of browsers and most clients.
const REDIRECTS: u32 = 10;
/// How much of an unexpected response an error repeats.
const EXCERPT_CHARS: usize = 200;
/// The longest body of an unexpected response that is part of the details of the failure: escaped
/// as JSON, it can double, and the host keeps 16 KiB.
const DETAILS_BYTES: usize = 4 * 1024;

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The status of the response.
    status: u16,
    /// Its headers, by name in lower case. `set-cookie`, `www-authenticate` and
    /// `proxy-authenticate` are lists; the values of any other are joined by ", ".
    headers: Headers,
    /// Its body without content codings: parsed if the response declares JSON, otherwise its text,
    /// and `{ base64: … }` if the bytes are no text.
    body: Value,
}

struct Request;

impl Node for Request {
    type Config = Config;
    type Input = Ignored;
    type Output = Output;
    const NAME: &'static str = "request";
    const TITLE: &'static str = "HTTP request";
    const DESCRIPTION: &'static str = "Makes one HTTP request and gives its response.";
    const ICON: &'static str = "globe";
    const CAPABILITIES: &'static [&'static str] = &["http", "secrets"];

    fn run(config: Config, _: Ignored, cx: &Context) -> Result<Outcome<Output>> {
        let request = request(&config, cx)?;
        let response = request.send()?;
        if !config.expects(response.status) {
            return Err(unexpected(&config, &response, cx.now_ms()));
        }
        Ok(output(&response)?.into())
    }
}

fn request(config: &Config, cx: &Context) -> Result<RequestBuilder> {
    let mut request = cx.http(config.method(), config.url()?);
    for (name, value) in &config.headers {
        request = match value {
            HeaderSource::Plain(value) => request.header(name, value),
            HeaderSource::Secret(secret) => request.secret_header(name, secret),
        };
    }
    // With the key, the other system can distinguish a repetition after a crash from a second
    // request; repeating other methods is harmless.
    let repeats_matter = matches!(config.method().as_str(), "POST" | "PATCH");
    if repeats_matter && !request.has_header("idempotency-key") {
        request = request.header("idempotency-key", cx.idempotency_key());
    }
    if let Some((content_type, bytes)) = body::encode(config)? {
        if !request.has_header("content-type") {
            request = request.header("content-type", content_type);
        }
        request = request.body(bytes);
    }
    if let Some(timeout) = config.timeout()? {
        request = request.timeout(timeout);
    }
    if let Some(bytes) = config.max_response_bytes {
        request = request.max_response_bytes(bytes);
    }
    if config.follow_redirects {
        request = request.max_redirects(REDIRECTS);
    }
    Ok(request)
}

/// The failure for an unexpected status: retryable if the status may change by itself, permanent
/// otherwise.
fn unexpected(config: &Config, response: &Response, now_ms: u64) -> Error {
    let status = response.status;
    let text = response.text().unwrap_or_default();
    let excerpt: String = text.trim().chars().take(EXCERPT_CHARS).collect();
    let message = format!(
        "{} {} answered {status}, where {} was expected: {excerpt}",
        config.method(),
        shown_url(&config.url),
        config.expected(),
    );
    let details = details(response);
    if !matches!(status, 408 | 425 | 429 | 500..=599) {
        return Error::permanent(message).details(details);
    }
    let after = response.header("retry-after");
    let after = after.and_then(|value| retry_after::parse(value, now_ms));
    let error = Error::retryable(message).details(details);
    match after {
        Some(delay) => error.after(delay),
        None => error,
    }
}

/// The response for conditions: its status, and its body if that is short.
fn details(response: &Response) -> Value {
    let mut details = json!({ "status": response.status });
    if response.body.len() <= DETAILS_BYTES
        && let Ok(body) = body::decode(response)
        && let Some(members) = details.as_object_mut()
    {
        members.insert("body".to_owned(), body);
    }
    details
}

fn output(response: &Response) -> Result<Output> {
    Ok(Output {
        status: response.status,
        headers: Headers::of(&response.headers),
        body: body::decode(response)?,
    })
}

windlass::plugin! {
    package: "http",
    title: "HTTP",
    nodes: [Request],
    checks: [Request],
}

#[cfg(test)]
mod tests;
