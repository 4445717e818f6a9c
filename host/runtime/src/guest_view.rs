//! The memory and the blobs that a guest can read: the store, as of the call of the guest.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
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
            if let Some(found) = self.store.var(self.run, *scope, name)? {
                return Ok(Some(found));
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
        inside(&bytes, path)
    }
}

/// A value inside of JSON text. The text is not parsed as a whole, which could take many times its
/// size.
fn inside(json: &[u8], path: &[&str]) -> Result<Option<Payload>, MemoryError> {
    let no_json = |error| MemoryError::Other(format!("the value is not JSON: {error}"));
    let mut found: &RawValue = serde_json::from_slice(json).map_err(no_json)?;
    for part in path {
        let text = found.get();
        let mut content = serde_json::Deserializer::from_str(text);
        let picked = match text.as_bytes().first() {
            Some(b'{') => content.deserialize_map(Pick(part)),
            Some(b'[') => content.deserialize_seq(Pick(part)),
            // Everything else has no parts.
            _ => return Ok(None),
        };
        match picked.map_err(no_json)? {
            Some(inner) => found = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(Payload::json(found.get().to_owned())))
}

/// Picks a member of an object or an element of a list, as text.
struct Pick<'p>(&'p str);

impl<'de> Visitor<'de> for Pick<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            // Of several members with one name the last counts.
            if key == self.0 {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let Ok(wanted) = self.0.parse::<usize>() else {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(None);
        };
        let (mut index, mut found) = (0, None);
        loop {
            if index == wanted {
                found = list.next_element()?;
                if found.is_none() {
                    return Ok(None);
                }
            } else if list.next_element::<IgnoredAny>()?.is_none() {
                return Ok(found);
            }
            index += 1;
        }
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
        // A slice would keep all the bytes alive.
        let part = bytes.get(start..end).unwrap_or_default();
        Ok(Some(Bytes::copy_from_slice(part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(json: &str, path: &str) -> Option<String> {
        let path: Vec<&str> = path.split('.').collect();
        let found = inside(json.as_bytes(), &path).unwrap()?;
        Some(String::from_utf8(found.inline().unwrap().to_vec()).unwrap())
    }

    #[test]
    fn a_path_leads_into_objects_and_lists() {
        let json = r#" { "a": [ 1, {"b": 1.50, "b": "x\n"}, [] ], "\u0063": null } "#;
        for (path, found) in [
            ("a", Some(r#"[ 1, {"b": 1.50, "b": "x\n"}, [] ]"#)),
            ("a.0", Some("1")),
            ("a.1.b", Some(r#""x\n""#)),
            ("a.2", Some("[]")),
            ("a.3", None),
            ("a.2.0", None),
            ("a.x", None),
            ("a.0.0", None),
            ("a.1.b.0", None),
            ("c", Some("null")),
            ("c.a", None),
            ("d", None),
        ] {
            assert_eq!(at(json, path).as_deref(), found, "{path}");
        }
        assert!(inside(b"{\"a\":", &["a"]).is_err());
        assert!(inside(b"no", &["a"]).is_err());
    }
}
