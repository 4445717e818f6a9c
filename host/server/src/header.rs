//! Headers that have one value.
//!
//! Of two different values, a proxy in front of the host may have read the other one. So a request
//! that repeats such a header is refused where the header is read, unless the values are equal. The
//! host reads these: `Authorization`, `Content-Type`, `Idempotency-Key`, `If-Match`,
//! `If-None-Match`, `Last-Event-ID`, and those by which hooks verify their requests. `Host` occurs
//! once at all (`host.rs`), and hyper refuses different values of `Content-Length`. Of `Origin` and
//! `Sec-Fetch-Site` every value counts (`origin.rs`), and the other headers that the host reads are
//! lists: `Accept`, `Content-Encoding`, `X-Forwarded-For`, `Access-Control-Request-Headers`.

use axum::http::{HeaderMap, HeaderValue};

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

#[cfg(test)]
mod tests {
    use super::*;

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
