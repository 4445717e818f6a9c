//! The targets, one file each.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a target reports a broken promise by a panic"
)]

pub(crate) mod bodies;
pub(crate) mod components;
pub(crate) mod diagnostics;
pub(crate) mod expressions;
pub(crate) mod grants;
pub(crate) mod hooks;
pub(crate) mod imports;
pub(crate) mod schemas;
pub(crate) mod tokens;
pub(crate) mod trust;
pub(crate) mod workflows;

/// A constant keyring, so that an input has the same meaning in each run.
const KEYRING: &str = "4b32324b BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc";

/// Valid bytes with changes: each is a position of `place_bytes` bytes, and the new byte.
fn changed(good: &[u8], changes: &[u8], place_bytes: usize) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for change in changes.chunks_exact(place_bytes + 1) {
        let (byte, place) = change.split_last().unwrap();
        let place = place
            .iter()
            .fold(0, |place, byte| place << 8 | usize::from(*byte));
        let length = bytes.len().max(1);
        if let Some(at) = bytes.get_mut(place % length) {
            *at = *byte;
        }
    }
    bytes
}

/// The bytes before the first NUL, and those behind it.
fn halves(data: &[u8]) -> (&[u8], &[u8]) {
    let mut halves = data.splitn(2, |byte| *byte == 0);
    (
        halves.next().unwrap_or_default(),
        halves.next().unwrap_or_default(),
    )
}
