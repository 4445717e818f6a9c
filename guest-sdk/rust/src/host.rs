//! Calls of the host: to the imports of the component or, natively, to the fake
//! host of the test kit. Both sides have the same signatures.

#[cfg(not(target_arch = "wasm32"))]
use crate::testkit::fake::log as log_import;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testkit::fake::{blobs, clock, context, events, http, memory, random};

#[cfg(target_arch = "wasm32")]
use crate::bindings::node::windlass::log::log as log_import;
#[cfg(target_arch = "wasm32")]
pub(crate) use crate::bindings::node::windlass::{
    blobs::blobs, clock::clock, context::context, events::events, http::http, memory::memory,
    random::random,
};

use crate::Level;

/// Writes one line to the log of the run.
pub fn log(level: Level, message: &str, fields: &[(&str, String)]) {
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    log_import::write(level, message, &fields);
}

/// Makes a panic log its place and message; the trap that follows contains
/// neither.
#[cfg(target_arch = "wasm32")]
pub(crate) fn log_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            log_import::write(Level::Error, &panic.to_string(), &[]);
        }));
    });
}

/// Natively, the test harness reports panics.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn log_panics() {}
