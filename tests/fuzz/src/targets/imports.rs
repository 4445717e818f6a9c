//! An exported run. If the first byte is even, the rest is a file. If it is odd, the rest changes a
//! signed file, four bytes for each change: a position, and the new byte.

use std::sync::{Arc, LazyLock};

use serde_json::json;
use windlass_keys::export::ExportKeys;
use windlass_keys::{Keyring, Keys};
use windlass_runtime::transfer::{self, Seal};

use super::KEYRING;

/// A run that a host has exported, without its signature.
const DOCUMENT: &str = include_str!("imports.json");

struct Rig {
    keys: ExportKeys,
    file: String,
}

static RIG: LazyLock<Rig> = LazyLock::new(|| {
    let ring = Keyring::parse(KEYRING).unwrap();
    let keys = ExportKeys::new(Arc::new(Keys::fixed(ring)), Vec::new());
    let document = DOCUMENT.trim();
    let signature = keys.sign(document.as_bytes(), "fuzzed").unwrap();
    let signature = json!(signature.to_string());
    let file =
        format!("{{\"windlass-export\":2,\"document\":{document},\"signature\":{signature}}}");
    let seal = transfer::read(file.as_bytes(), &keys).unwrap();
    assert!(matches!(seal, Seal::Signed(_)), "{seal:?}");
    Rig { keys, file }
});

pub(crate) fn run(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else {
        return;
    };
    let bytes = match mode % 2 {
        0 => rest.to_vec(),
        _ => super::changed(RIG.file.as_bytes(), rest, 3),
    };
    let Ok(Seal::Signed(_)) = transfer::read(&bytes, &RIG.keys) else {
        return;
    };
    let document = DOCUMENT.trim().as_bytes();
    let is_there = bytes
        .windows(document.len())
        .any(|window| window == document);
    assert!(is_there, "it counts as signed, and is another run");
}
