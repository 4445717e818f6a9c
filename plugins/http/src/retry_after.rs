//! The header `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date.

use std::time::{Duration, UNIX_EPOCH};

/// The delay from now; none if the value is malformed.
pub(crate) fn parse(value: &str, now_ms: u64) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let date = date.duration_since(UNIX_EPOCH).ok()?;
    Some(date.saturating_sub(Duration::from_millis(now_ms)))
}
