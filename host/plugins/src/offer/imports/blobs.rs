//! `windlass:blobs`.
//!
//! The blobs that a call writes stay here until the call ends; if it succeeds, its caller gets
//! them.

use std::sync::Arc;

use bytes::Bytes;
use windlass_model::Digest;

use crate::bindings::host::windlass::blobs::blobs::{BlobError, Host};
use crate::offer::context::Blobs;
use crate::offer::guest::{BlobWork, Guest};

/// The most bytes of one read.
const MAX_READ: u32 = 1024 * 1024;

impl Host for Guest {
    async fn size(&mut self, blob: String) -> Result<u64, BlobError> {
        let digest = digest(&blob)?;
        if let Some(bytes) = self.written(&digest) {
            return Ok(bytes.len() as u64);
        }
        let size = self.blocking(move |blobs| blobs.size(&digest)).await?;
        size.ok_or(BlobError::NotFound(blob))
    }

    async fn read(&mut self, blob: String, offset: u64, length: u32) -> Result<Vec<u8>, BlobError> {
        let digest = digest(&blob)?;
        let length = length.min(MAX_READ);
        if let Some(bytes) = self.written(&digest) {
            let from = usize::try_from(offset)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            let to = from.saturating_add(length as usize).min(bytes.len());
            return Ok(bytes.slice(from..to).to_vec());
        }
        let bytes = self
            .blocking(move |blobs| blobs.read(&digest, offset, length))
            .await?;
        bytes
            .map(|bytes| bytes.to_vec())
            .ok_or(BlobError::NotFound(blob))
    }

    async fn begin(&mut self) -> Result<u32, BlobError> {
        let max = self.terms.limits.blob_writers;
        let work = self.work()?;
        if work.writers.len() >= max {
            return Err(BlobError::Limit(format!("{max} writers at once")));
        }
        work.next = work.next.wrapping_add(1);
        let writer = work.next;
        work.writers.push((writer, Vec::new()));
        Ok(writer)
    }

    async fn append(&mut self, writer: u32, bytes: Vec<u8>) -> Result<(), BlobError> {
        let max = self.terms.limits.blob_bytes;
        let account = &mut self.limiter.account;
        let call = self.call.as_deref_mut();
        let call = call.ok_or_else(|| BlobError::Other("no call".to_owned()))?;
        let work = &mut call.blobs;
        if work.bytes.saturating_add(bytes.len()) > max {
            return Err(BlobError::Limit(format!("{max} bytes in one call")));
        }
        let there = work.writers.iter_mut().find(|(name, _)| *name == writer);
        let Some((_, written)) = there else {
            return Err(no_writer(writer));
        };
        let more = bytes.len() as u64;
        if !account.charge(more) {
            return Err(BlobError::Other("there is no memory for it".to_owned()));
        }
        call.charged += more;
        written.extend_from_slice(&bytes);
        work.bytes += bytes.len();
        Ok(())
    }

    async fn finish(&mut self, writer: u32) -> Result<String, BlobError> {
        let secrets = self.offer.secrets.clone();
        let work = self.work()?;
        let place = work.writers.iter().position(|(name, _)| *name == writer);
        let Some(place) = place else {
            return Err(no_writer(writer));
        };
        let (_, written) = work.writers.swap_remove(place);
        // Clean the whole blob, regardless of the pieces in which it was written.
        let bytes = Bytes::from(secrets.clean(written));
        let digest = Digest::of(&bytes);
        if !work.finished.iter().any(|(known, _)| *known == digest) {
            work.finished.push((digest, bytes));
        }
        Ok(digest.to_string())
    }
}

impl Guest {
    fn work(&mut self) -> Result<&mut BlobWork, BlobError> {
        let call = self.call.as_deref_mut();
        call.map(|call| &mut call.blobs)
            .ok_or_else(|| BlobError::Other("no call".to_owned()))
    }

    fn written(&self, digest: &Digest) -> Option<Bytes> {
        let finished = &self.call.as_ref()?.blobs.finished;
        finished
            .iter()
            .find(|(known, _)| known == digest)
            .map(|(_, bytes)| bytes.clone())
    }

    async fn blocking<T: Send + 'static>(
        &mut self,
        ask: impl FnOnce(&dyn Blobs) -> Result<T, crate::offer::context::BlobError> + Send + 'static,
    ) -> Result<T, BlobError> {
        let call = self
            .call
            .as_deref()
            .ok_or_else(|| BlobError::Other("no call".to_owned()))?;
        let blobs = call.cx.blobs.as_ref().map(Arc::clone);
        let blobs = blobs.ok_or_else(|| BlobError::NotFound("there are no blobs".to_owned()))?;
        call.pause();
        let answer = super::read(move || ask(&*blobs)).await;
        let answer =
            answer.ok_or_else(|| BlobError::Other("the host failed to read".to_owned()))?;
        answer.map_err(|error| BlobError::Other(error.0))
    }
}

fn digest(blob: &str) -> Result<Digest, BlobError> {
    blob.parse()
        .map_err(|_| BlobError::NotFound(blob.chars().take(80).collect()))
}

fn no_writer(writer: u32) -> BlobError {
    BlobError::NotFound(format!("writer {writer}"))
}
