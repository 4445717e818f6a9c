//! The memory and the blobs that a guest can read: the store, as of the call of the guest.

use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use serde_json::Value;
use windlass_model::{BlobRef, Body, Digest, ExecutionNo, Payload, RunNo, ScopeNo};
use windlass_plugins::{BlobError, Blobs, Memory, MemoryError};
use windlass_store::Store;

use crate::shard::OwnedRun;

/// Memory as one call sees it.
struct View {
    store: Arc<dyn Store>,
    run: RunNo,
    /// The visible scopes, innermost first.
    scopes: Vec<ScopeNo>,
    latest: FxHashMap<String, ExecutionNo>,
}

/// The memory that a guest called for this run can read.
pub(crate) fn memory(owned: &OwnedRun, scope: ScopeNo, store: &Arc<dyn Store>) -> Arc<dyn Memory> {
    let graph = &owned.prepared.graph;
    let named = graph.nodes().filter(|(_, plan)| plan.named);
    let latest = named
        .filter_map(|(node, plan)| {
            let run = owned.state.latest(graph, scope, node)?;
            Some((plan.name.clone(), run))
        })
        .collect();
    Arc::new(View {
        store: Arc::clone(store),
        run: owned.no,
        scopes: owned.state.around(scope).collect(),
        latest,
    })
}

/// The blobs that a guest can read.
pub(crate) fn blobs(store: &Arc<dyn Store>) -> Arc<dyn Blobs> {
    Arc::new(StoredBlobs {
        store: Arc::clone(store),
    })
}

impl Memory for View {
    fn get(&self, path: &str) -> Result<Option<Payload>, MemoryError> {
        let mut parts = path.split('.');
        let failed = |error: windlass_store::Error| MemoryError::Other(error.to_string());
        let root = match parts.next() {
            Some("input") => self.store.input(self.run).map_err(failed)?,
            Some("vars") => {
                let name = parts.next().ok_or_else(|| invalid(path))?;
                self.var(name).map_err(failed)?
            }
            Some("nodes") => {
                let name = parts.next().ok_or_else(|| invalid(path))?;
                if parts.next() != Some("output") {
                    return Err(invalid(path));
                }
                match self.latest.get(name) {
                    Some(run) => self.store.execution_output(*run).map_err(failed)?,
                    None => None,
                }
            }
            _ => return Err(invalid(path)),
        };
        let rest: Vec<&str> = parts.collect();
        match root {
            Some(payload) if !rest.is_empty() => self.inside(&payload, &rest),
            whole => Ok(whole),
        }
    }
}

impl View {
    /// A variable, from the innermost scope that has it.
    fn var(&self, name: &str) -> windlass_store::Result<Option<Payload>> {
        for scope in &self.scopes {
            let vars = self.store.vars(self.run, *scope)?;
            if let Some((_, payload)) = vars.into_iter().find(|(var, _)| var == name) {
                return Ok(Some(payload));
            }
        }
        Ok(None)
    }

    fn inside(&self, payload: &Payload, path: &[&str]) -> Result<Option<Payload>, MemoryError> {
        let bytes = match &payload.body {
            Body::Inline(bytes) => Some(bytes.clone()),
            Body::Blob(blob) => self
                .store
                .blob(*blob)
                .map_err(|error| MemoryError::Other(error.to_string()))?,
        };
        let Some(bytes) = bytes else { return Ok(None) };
        let mut value: Value = serde_json::from_slice(&bytes)
            .map_err(|error| MemoryError::Other(format!("the value is not JSON: {error}")))?;
        for part in path {
            let inner = match &mut value {
                Value::Object(object) => object.remove(*part),
                Value::Array(list) => part
                    .parse::<usize>()
                    .ok()
                    .filter(|index| *index < list.len())
                    .map(|index| list.swap_remove(index)),
                _ => None,
            };
            let Some(inner) = inner else { return Ok(None) };
            value = inner;
        }
        Ok(Some(Payload::of(&value)))
    }
}

fn invalid(path: &str) -> MemoryError {
    MemoryError::InvalidPath(format!(
        "`{path}` is not `input`, `vars.<name>` or `nodes.<id>.output`"
    ))
}

struct StoredBlobs {
    store: Arc<dyn Store>,
}

impl StoredBlobs {
    fn whole(&self, digest: &Digest) -> Result<Option<Bytes>, BlobError> {
        // The size in a reference only serves limits; the digest alone names the blob.
        let blob = BlobRef {
            digest: *digest,
            size: 0,
        };
        self.store
            .blob(blob)
            .map_err(|error| BlobError(error.to_string()))
    }
}

impl Blobs for StoredBlobs {
    fn size(&self, digest: &Digest) -> Result<Option<u64>, BlobError> {
        Ok(self.whole(digest)?.map(|bytes| bytes.len() as u64))
    }

    fn read(&self, digest: &Digest, offset: u64, length: u32) -> Result<Option<Bytes>, BlobError> {
        let Some(bytes) = self.whole(digest)? else {
            return Ok(None);
        };
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let end = start.saturating_add(length as usize).min(bytes.len());
        Ok(Some(bytes.slice(start..end)))
    }
}
