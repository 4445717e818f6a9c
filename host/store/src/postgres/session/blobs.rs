//! Large values, and the runs that refer to them.
//!
//! A transaction that refers to a blob holds its row FOR KEY SHARE, or has written the row, until
//! it ends. A transaction that removes blobs locks them first and looks for references in a later
//! statement, which then sees all references.

use windlass_model::{Body, Digest, Payload};

use super::{Done, Session};
use crate::rows::NewBlob;

impl Session<'_> {
    /// Writes blobs, and notes that the run refers to them.
    pub(super) async fn put_blobs(&mut self, run: i64, blobs: &[NewBlob], at_ms: i64) -> Done<()> {
        let sql = "INSERT INTO blob (digest, touched_ms, content) VALUES ($1, $2, $3) \
            ON CONFLICT (digest) DO UPDATE \
            SET touched_ms = greatest(blob.touched_ms, excluded.touched_ms)";
        for blob in blobs {
            let (digest, bytes): (&[u8], &[u8]) = (&blob.digest.0, &blob.bytes);
            self.later(sql, &[&digest, &at_ms, &bytes]).await?;
            self.hold_blob(run, &blob.digest).await?;
        }
        Ok(())
    }

    /// Notes that a run refers to the blob of a payload, if the payload has one.
    pub(super) async fn refer(&mut self, run: i64, payload: &Payload) -> Done<()> {
        match &payload.body {
            Body::Inline(_) => Ok(()),
            Body::Blob(blob) => self.hold_blob(run, &blob.digest).await,
        }
    }

    pub(super) async fn hold_blob(&mut self, run: i64, digest: &Digest) -> Done<()> {
        let sql = "WITH held AS (SELECT no FROM blob WHERE digest = $2 FOR KEY SHARE) \
            INSERT INTO blob_ref (run, blob) SELECT $1, no FROM held ON CONFLICT DO NOTHING";
        let digest: &[u8] = &digest.0;
        self.later(sql, &[&run, &digest]).await?;
        Ok(())
    }
}
