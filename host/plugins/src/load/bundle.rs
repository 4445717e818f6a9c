//! A bundle: the components that are inside a program, with all that a start needs of them.
//!
//! For each component, a bundle has the bytes, the description, and code that was compiled ahead
//! for the baseline of the architecture, so that a first start compiles nothing. The code is
//! trusted because it is in the program. Components and code are compressed by LZMA, which takes a
//! fifth less than deflate.
//!
//! [`Host::pack`](crate::Host::pack) makes a bundle when the program is built, and [`Bundle::read`] reads it in the
//! program.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use lzma_rust2::{LzmaOptions, LzmaReader, LzmaWriter};
use serde::{Deserialize, Serialize};
use windlass_model::Digest;

use super::{LoadShared, engine};
use crate::codes;
use crate::error::{Error, chain};

/// How hard the packing compresses, from 0 to 9.
const LEVEL: u32 = 9;

/// The window of the compression, in bytes. Unpacking allocates as much.
const WINDOW: u32 = 4 * 1024 * 1024;

/// The memory that unpacking may take, in KiB.
const UNPACKING_KIB: u32 = 2 * WINDOW / 1024;

/// The components inside a program.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    entries: Arc<BTreeMap<Digest, Entry<'static>>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry<'a> {
    /// The name of the component's file, without its ending.
    name: &'a str,
    digest: [u8; 32],
    #[serde(borrow)]
    component: Compressed<'a>,
    #[serde(borrow)]
    code: Compressed<'a>,
    /// The description, as JSON.
    description: Cow<'a, [u8]>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Compressed<'a> {
    /// The bytes before the compression.
    size: u32,
    #[serde(borrow)]
    bytes: Cow<'a, [u8]>,
}

/// Makes a bundle of loaded components, each with its name, and compiles them for the baseline.
///
/// # Errors
///
/// A component cannot be compiled for the baseline, or its description was not kept.
pub(crate) fn pack(shared: &LoadShared, components: &[(String, Digest)]) -> Result<Vec<u8>, Error> {
    let elements = shared.rules.most(|limits| limits.table_elements);
    let baseline = engine::baseline(&shared.pool, elements)?;
    let mut entries = Vec::new();
    for (name, digest) in components {
        let component = super::bytes(shared, digest)?;
        let fault = |error| Error::new(codes::COMPILE, name, error);
        let io = |error: std::io::Error| fault(error.to_string());
        let code = baseline.precompile_component(&component);
        let code = code.map_err(|error| fault(chain(&error)))?;
        let description = super::description(shared, digest)
            .ok_or_else(|| fault("its description was not kept".to_owned()))?;
        entries.push(Entry {
            name,
            digest: digest.0,
            component: compress(&component).map_err(io)?,
            code: compress(&code).map_err(io)?,
            description: description.into(),
        });
    }
    postcard::to_stdvec(&entries)
        .map_err(|error| Error::new(codes::COMPILE, "library", error.to_string()))
}

impl Bundle {
    /// Reads the bundle of this program. No bytes are a bundle without components.
    ///
    /// # Errors
    ///
    /// [`codes::MALFORMED`] if these bytes are not a bundle of this version.
    pub fn read(bytes: &'static [u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let entries: Vec<Entry<'_>> = postcard::from_bytes(bytes).map_err(|error| {
            let message = format!("the library in this program is damaged: {error}");
            Error::new(codes::MALFORMED, "library", message)
        })?;
        let entries = entries.into_iter();
        let entries = entries.map(|entry| (Digest(entry.digest), entry));
        Ok(Self {
            entries: Arc::new(entries.collect()),
        })
    }

    /// The digests of the components.
    pub fn digests(&self) -> impl Iterator<Item = Digest> + '_ {
        self.entries.keys().copied()
    }

    /// Whether there are no components.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The components in order of their names, each with the name that replaces its file in
    /// messages.
    pub(crate) fn names(&self) -> Vec<(PathBuf, Digest)> {
        let entries = self.entries.iter();
        let names = entries.map(|(digest, entry)| {
            let file = PathBuf::from(format!("{PREFIX}{}.wasm", entry.name));
            (file, *digest)
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// Whether this bundle has a component.
    pub(crate) fn has(&self, digest: &Digest) -> bool {
        self.entries.contains_key(digest)
    }

    /// The bytes of a component of this bundle.
    pub(crate) fn component(&self, digest: &Digest) -> Option<Vec<u8>> {
        let bytes = self.entries.get(digest)?.component.unpack()?;
        (Digest::of(&bytes) == *digest).then_some(bytes)
    }

    /// The code of a component of this bundle, compiled for the baseline.
    pub(crate) fn code(&self, digest: &Digest) -> Option<Vec<u8>> {
        self.entries.get(digest)?.code.unpack()
    }

    /// The size of a component of this bundle, in bytes.
    pub(crate) fn size(&self, digest: &Digest) -> Option<u64> {
        let entry = self.entries.get(digest)?;
        Some(u64::from(entry.component.size))
    }

    /// The description of a component of this bundle, as JSON.
    pub(crate) fn description(&self, digest: &Digest) -> Option<&[u8]> {
        let entry = self.entries.get(digest)?;
        Some(&entry.description)
    }
}

/// What precedes the name of a component that is in the program and in no file.
const PREFIX: &str = "built-in:";

impl Compressed<'_> {
    fn unpack(&self) -> Option<Vec<u8>> {
        let size = self.size as usize;
        let mut bytes = Vec::with_capacity(size);
        let packed: &[u8] = &self.bytes;
        let reader = LzmaReader::new_mem_limit(packed, UNPACKING_KIB, None).ok()?;
        // One byte more than it may have shows that it has more.
        reader
            .take(u64::from(self.size) + 1)
            .read_to_end(&mut bytes)
            .ok()?;
        (bytes.len() == size).then_some(bytes)
    }
}

fn compress(bytes: &[u8]) -> std::io::Result<Compressed<'static>> {
    let mut options = LzmaOptions::with_preset(LEVEL);
    options.dict_size = WINDOW;
    let size = bytes.len() as u64;
    let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, Some(size))?;
    writer.write_all(bytes)?;
    Ok(Compressed {
        // A component has at most 64 MiB, and its code a small multiple of that.
        size: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        bytes: writer.finish()?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Compressed, WINDOW, compress};

    #[test]
    fn bytes_come_back_as_they_were() {
        let repeated = b"step ".repeat(WINDOW as usize / 2);
        for bytes in [&b""[..], b"x", &repeated] {
            let packed = compress(bytes).unwrap();
            assert!(packed.bytes.len() <= bytes.len() + 32);
            assert_eq!(packed.unpack().as_deref(), Some(bytes));
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let packed = compress(b"a component").unwrap();
        let [shorter, longer] = [1_u32, 100].map(|size| Compressed {
            size,
            bytes: packed.bytes.clone(),
        });
        assert_eq!(shorter.unpack(), None);
        assert_eq!(longer.unpack(), None);
        for end in 0..packed.bytes.len() - 1 {
            let cut = Compressed {
                size: packed.size,
                bytes: packed.bytes[..end].to_vec().into(),
            };
            assert_eq!(cut.unpack(), None, "{end}");
        }
    }
}
