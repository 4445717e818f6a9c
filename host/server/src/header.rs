//! Headers that have one value.
//!
//! Of two different values, a proxy in front of the host may have read the other one. So a request
//! that repeats such a header is refused where the header is read, unless the values are equal. The
//! host reads these: `Authorization`, `Content-Type`, `Idempotency-Key`, `If-Match`,
//! `If-None-Match`, `Last-Event-ID`, and those by which hooks verify their requests. `Host` occurs
//! once at all (`host.rs`), and hyper refuses different values of `Content-Length`. Of `Origin` and
//! `Sec-Fetch-Site` every value counts (`origin.rs`), and the other headers that the host reads are
//! lists: `Accept`, `Content-Encoding`, `X-Forwarded-For`, `Access-Control-Request-Headers`,
//! `tracestate`.

use axum::http::{HeaderMap, HeaderValue};

use windlass_model::TraceContext;
use windlass_model::trace::{TRACE_PARENT, TRACE_STATE};

use crate::problem::Problem;

/// The only value of a header; none without the header.
///
/// # Errors
///
/// The header occurs with different values: the problem names it.
pub(crate) fn one<'h>(
    headers: &'h HeaderMap,
    name: &str,
) -> Result<Option<&'h HeaderValue>, Box<Problem>> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.all(|value| Some(value) == first) {
        true => Ok(first),
        false => {
            let detail = format!("the header `{name}` occurs with different values");
            Err(Problem::parameter(detail).help("Send it once."))
        }
    }
}

/// The trace in which a request is made. A `traceparent` that is malformed, or occurs with different
/// values, is ignored, as the specification of W3C demands; the values of `tracestate` are one list.
pub(crate) fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    let value = one(headers, TRACE_PARENT).ok()??;
    let context = TraceContext::read(value.to_str().ok()?)?;
    let values = headers.get_all(TRACE_STATE).iter().map(HeaderValue::to_str);
    let values: Result<Vec<_>, _> = values.collect();
    Some(context.with_state(values.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_from_one_well_formed_header() {
        let (one, other) = (
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-1",
        );
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(TRACE_PARENT, HeaderValue::from_static(value));
            }
            trace(&headers).map(|trace| trace.to_string())
        };
        assert_eq!(of(&[one]).as_deref(), Some(one));
        for wrong in [&[][..], &[other], &[one, other], &[""]] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_state_is_read_from_all_its_headers_if_there_is_a_trace() {
        let parent =
            HeaderValue::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
                headers.append(TRACE_STATE, value);
            }
            assert_eq!(trace(&headers), None);
            headers.append(TRACE_PARENT, parent.clone());
            let state = trace(&headers).unwrap().state;
            state.map(|state| state.as_str().to_owned())
        };
        assert_eq!(of(&["a=1", "b=2,c=3"]).as_deref(), Some("a=1,b=2,c=3"));
        for wrong in [&[][..], &["a"], &["a=1", "b=é"]] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn different_values_of_one_header_are_refused_by_its_name() {
        let mut headers = HeaderMap::new();
        assert_eq!(one(&headers, "if-match").unwrap(), None);
        headers.append("If-Match", HeaderValue::from_static("a"));
        headers.append("if-match", HeaderValue::from_static("a"));
        assert_eq!(one(&headers, "if-match").unwrap().unwrap(), "a");
        for other in ["b", "A", ""] {
            let mut headers = headers.clone();
            headers.append("if-match", HeaderValue::from_static(other));
            let problem = format!("{:?}", one(&headers, "if-match").unwrap_err());
            assert!(problem.contains("`if-match`"), "{problem}");
        }
    }
}
