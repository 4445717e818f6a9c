//! Reads headers of hooks: a single value of bounded length, tags in hex or Base64, times.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use windlass_model::http::Encoding;

use super::HEADER_BYTES;
use crate::header;

/// The result of HMAC-SHA256.
pub(super) type Tag = [u8; 32];

/// Digits of the longest time, a number of 64 bits.
const TIME_DIGITS: usize = 20;

/// The wall clock, and how far a signed time may differ from it, in both directions.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    now_ms: i64,
    tolerance_ms: u64,
}

impl Clock {
    pub(super) fn new(now_ms: i64, tolerance_ms: u64) -> Self {
        Self {
            now_ms,
            tolerance_ms,
        }
    }

    /// Whether a time is near enough to now: seconds since 1970 as ASCII decimal digits without a
    /// sign. A time that exceeds 64 bits of milliseconds is not.
    pub(super) fn admits(self, time: &[u8]) -> bool {
        let Some(time_ms) = seconds(time).and_then(|seconds| seconds.checked_mul(1000)) else {
            return false;
        };
        self.now_ms.abs_diff(time_ms) <= self.tolerance_ms
    }
}

fn seconds(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > TIME_DIGITS {
        return None;
    }
    text.iter().try_fold(0_i64, |seconds, byte| {
        let digit = byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'))?;
        seconds.checked_mul(10)?.checked_add(i64::from(digit))
    })
}

/// The value of a header that has one value.
pub(super) fn one<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h [u8]> {
    let value = header::one(headers, name).ok()??.as_bytes();
    (value.len() <= HEADER_BYTES).then_some(value)
}

/// The value of a header that has one value or is absent; absent, it is empty.
pub(super) fn one_or_empty<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h [u8]> {
    if headers.contains_key(name) {
        one(headers, name)
    } else {
        Some(&[])
    }
}

/// A tag. Base64 has to be in the form that an encoder writes: padded, without spare bits.
pub(super) fn tag(text: &[u8], encoding: Encoding) -> Option<Tag> {
    match encoding {
        Encoding::Hex => hex(text),
        Encoding::Base64 => {
            // 32 bytes are 44 characters. A text of another length is not decoded.
            let bytes = (text.len() == 44).then(|| STANDARD.decode(text))?.ok()?;
            bytes.try_into().ok()
        }
    }
}

fn hex(text: &[u8]) -> Option<Tag> {
    let mut tag = Tag::default();
    if text.len() != 2 * tag.len() {
        return None;
    }
    for (byte, pair) in tag.iter_mut().zip(text.chunks_exact(2)) {
        *byte = pair
            .iter()
            .try_fold(0_u8, |byte, digit| Some((byte << 4) | nibble(*digit)?))?;
    }
    Some(tag)
}

fn nibble(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}
