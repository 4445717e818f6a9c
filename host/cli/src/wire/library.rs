//! The digests of the components of the library that this program was built with.
//!
//! `build.rs` generates them: `cargo xtask` builds the library before the program, and passes its
//! location. A program that plain cargo builds recognises no component.

use std::collections::BTreeSet;

use windlass_model::Digest;

/// The message of a program without digests.
pub(crate) const UNKNOWN: &str = "this program was built without the digests of its library, so \
    that none of its components is known: no run finds its consumer, and no grant applies without \
    a `digest`, `key` or `file`; build it by `cargo xtask`, or with WINDLASS_BUILD_LIBRARY set";

/// Digests of components, as 64 hexadecimal digits.
const DIGESTS: &[&str] = include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// The components of the library.
pub(crate) fn digests() -> BTreeSet<Digest> {
    DIGESTS
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect()
}
