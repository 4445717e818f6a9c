//! `windlass:memory`.

use std::sync::Arc;

use crate::bindings::host::windlass::memory::memory::{Host, MemoryError};
use crate::bindings::host::windlass::types::types::Payload;
use crate::offer::context;
use crate::offer::guest::Guest;
use crate::offer::imports::context::hand_over;

/// The longest path, in bytes.
const MAX_PATH: usize = 1024;

impl Host for Guest {
    async fn get(&mut self, path: String) -> Result<Option<Payload>, MemoryError> {
        let root = path.split('.').next().unwrap_or_default();
        if path.len() > MAX_PATH || !matches!(root, "input" | "vars" | "nodes") {
            let message = "a path begins with `input`, `vars` or `nodes`, and is not over 1 KiB";
            return Err(MemoryError::InvalidPath(message.to_owned()));
        }
        let max = self.terms.limits.payload_bytes;
        let Some(call) = &mut self.call else {
            return Ok(None);
        };
        let Some(memory) = call.cx.memory.as_ref().map(Arc::clone) else {
            return Ok(None);
        };
        call.pause();
        let found = super::read(move || memory.get(&path)).await;
        let found =
            found.ok_or_else(|| MemoryError::Other("the host failed to read".to_owned()))?;
        let payload = match found {
            Ok(Some(payload)) => payload,
            Ok(None) => return Ok(None),
            Err(context::MemoryError::InvalidPath(text)) => {
                return Err(MemoryError::InvalidPath(text));
            }
            Err(context::MemoryError::Other(text)) => return Err(MemoryError::Other(text)),
        };
        match payload.inline() {
            Some(bytes) if bytes.len() > max => Err(MemoryError::TooLarge(bytes.len() as u64)),
            _ => Ok(Some(hand_over(call, &payload))),
        }
    }
}
