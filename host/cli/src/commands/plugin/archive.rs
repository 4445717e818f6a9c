//! The SDKs of guests inside this program, from which projects are made: the files of the repository
//! that an author needs, as `build.rs` packs them.

use std::collections::BTreeMap;

use crate::error::{Expected, bug};

static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guests.bin"));

/// The most bytes of the unpacked archive.
const MAX_BYTES: usize = 8 << 20;

/// Files by their path in the repository.
pub(super) struct Archive(BTreeMap<String, Vec<u8>>);

/// A file to write: its path in a project, with `/` between names, and its content.
pub(super) type NewFile = (String, Vec<u8>);

impl Archive {
    /// Unpacks the archive.
    pub(super) fn open() -> Result<Self, Expected> {
        let bytes = miniz_oxide::inflate::decompress_to_vec_with_limit(PACKED, MAX_BYTES);
        let files = bytes.ok().and_then(|bytes| read(&bytes));
        Ok(Self(
            files.ok_or_else(|| bug("the SDKs in it are damaged"))?,
        ))
    }

    /// The file of this path; empty if there is none.
    pub(super) fn text(&self, path: &str) -> String {
        let bytes = self.0.get(path).map(Vec::as_slice).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// The files below a folder, without those below `except`, with `to` in place of the folder.
    pub(super) fn below(&self, folder: &str, except: &str, to: &str) -> Vec<NewFile> {
        let within = |path: &str, folder: &str| {
            let rest = path.strip_prefix(folder)?.strip_prefix('/')?;
            Some(rest.to_owned())
        };
        let files = self.0.iter().filter_map(|(path, bytes)| {
            let rest = within(path, folder)?;
            if within(path, except).is_some() {
                return None;
            }
            let path = match to {
                "" => rest,
                to => format!("{to}/{rest}"),
            };
            Some((path, bytes.clone()))
        });
        files.collect()
    }
}

/// Splits the archive: each file is its path and its length on two lines, and its bytes.
fn read(mut bytes: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    while !bytes.is_empty() {
        let mut line = || {
            let end = bytes.iter().position(|byte| *byte == b'\n')?;
            let (line, rest) = bytes.split_at_checked(end)?;
            bytes = rest.get(1..)?;
            String::from_utf8(line.to_vec()).ok()
        };
        let (path, length) = (line()?, line()?);
        let (content, rest) = bytes.split_at_checked(length.parse().ok()?)?;
        files.insert(path, content.to_vec());
        bytes = rest;
    }
    Some(files)
}

/// Replaces the placeholder of templates in the text files among these.
pub(super) fn named(files: Vec<NewFile>, name: &str) -> Vec<NewFile> {
    const PLACEHOLDER: &str = "__NAME__";
    let files = files.into_iter().map(|(path, bytes)| {
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => text.replace(PLACEHOLDER, name).into_bytes(),
            Err(binary) => binary.into_bytes(),
        };
        (path, bytes)
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_has_the_sdk_and_the_contract() {
        let archive = Archive::open().unwrap();
        let sdk = archive.below("guest-sdk/rust", "guest-sdk/rust/template", "vendor");
        let paths: Vec<&str> = sdk.iter().map(|(path, _)| path.as_str()).collect();
        assert!(paths.contains(&"vendor/Cargo.toml"), "{paths:?}");
        assert!(paths.contains(&"vendor/src/testkit/mod.rs"), "{paths:?}");
        assert!(
            !paths.iter().any(|path| path.contains("template")),
            "{paths:?}"
        );
        assert!(
            archive
                .text("wit/node/0.1.0/node.wit")
                .contains("interface node")
        );
        assert_eq!(archive.text("wit/frozen.txt"), "");
    }

    #[test]
    fn the_archive_is_small() {
        // All of it is in the program of each user.
        assert!(PACKED.len() < 400_000, "{} bytes", PACKED.len());
    }
}
