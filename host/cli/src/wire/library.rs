//! The node library inside this program.
//!
//! `cargo xtask` builds the components, packs them into a bundle, and passes its location to
//! `build.rs`. A program that plain cargo builds has no library.

use std::sync::OnceLock;

use windlass_plugins::Bundle;

/// The message of a program without a library.
pub(crate) const UNKNOWN: &str = "this program was built without its node library, so that no \
    component of the library is known: no run finds its consumer, and no grant applies without a \
    `digest`, `key` or `file`; build it by `cargo xtask build`";

const BYTES: &[u8] = include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// The library. A damaged one is empty, and the log says so.
pub(crate) fn bundle() -> &'static Bundle {
    static BUNDLE: OnceLock<Bundle> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        Bundle::read(BYTES).unwrap_or_else(|error| {
            tracing::error!(code = %error.code, "{}", error.message);
            Bundle::default()
        })
    })
}
