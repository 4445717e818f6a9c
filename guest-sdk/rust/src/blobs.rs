//! Large values, read and written in ranges.

use crate::bindings::node::windlass::blobs::blobs::{BlobError, Writer as WriterId};
use crate::bindings::node::windlass::types::types::{Body, Payload};
use crate::data::Raw;
use crate::error::{Error, Result};
use crate::host;

/// The length of a blob in bytes.
pub fn size(blob: &str) -> Result<u64> {
    host::blobs::size(blob).map_err(failed)
}

/// At most `length` bytes from `offset`; fewer at the end.
pub fn read(blob: &str, offset: u64, length: u32) -> Result<Vec<u8>> {
    host::blobs::read(blob, offset, length).map_err(failed)
}

/// A blob being written. It exists once the call's outcome is kept.
#[derive(Debug)]
pub struct Writer(WriterId);

impl Writer {
    /// Begins a blob.
    pub fn begin() -> Result<Self> {
        host::blobs::begin().map(Self).map_err(failed)
    }

    /// Adds bytes to it.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        host::blobs::append(self.0, bytes).map_err(failed)
    }

    /// Ends it and makes a value from it, of this media type; none means JSON.
    pub fn finish(self, content_type: Option<String>) -> Result<Raw> {
        let reference = host::blobs::finish(self.0).map_err(failed)?;
        Ok(Raw(Payload {
            content_type,
            body: Body::Blob(reference),
        }))
    }
}

fn failed(error: BlobError) -> Error {
    Error::other(match error {
        BlobError::NotFound(what) => format!("there is no blob {what}"),
        BlobError::Limit(why) => format!("blob limit: {why}"),
        BlobError::Other(why) => format!("blob: {why}"),
    })
}
