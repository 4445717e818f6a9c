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
pub(crate) mod schemas;
pub(crate) mod trust;
pub(crate) mod workflows;

/// The bytes before the first NUL, and those behind it.
fn halves(data: &[u8]) -> (&[u8], &[u8]) {
    let mut halves = data.splitn(2, |byte| *byte == 0);
    (
        halves.next().unwrap_or_default(),
        halves.next().unwrap_or_default(),
    )
}
