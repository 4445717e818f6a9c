//! The mark that an import leaves in the journal of a run, and its meaning for people.
//!
//! The newest mark comes from this store. Marks from a document are kept with `carried` set, so
//! that none of them passes for a mark of this store. A single mark without a key means that the
//! history may be forged, and no later signature removes that.

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_keys::minisign::Name;
use windlass_model::{Digest, RunId};
use windlass_store::rows::JournalRow;

use super::IMPORTED;
use crate::error::Error;

/// The member of a mark with the name of the key.
const KEY: &str = "key";
/// The member of a mark that came from a document.
const CARRIED: &str = "carried";

/// The trustworthiness of an imported run's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A known key signed every import of the run; the last one was signed by the key with this
    /// name.
    Signed(String),
    /// At least one import of the run had no signature of a known key.
    Unsigned,
}

impl Origin {
    /// Reads a journal; none for a run that was never imported.
    pub fn of(journal: &[JournalRow]) -> Option<Self> {
        let marks = journal.iter().filter(|entry| entry.kind == IMPORTED);
        let mut origin = None;
        for mark in marks {
            let detail: Value = serde_json::from_slice(&mark.detail).unwrap_or_default();
            let Some(key) = detail.get(KEY).and_then(Value::as_str) else {
                return Some(Self::Unsigned);
            };
            origin = Some(Self::Signed(key.to_owned()));
        }
        origin
    }
}

/// The form that people see: `unsigned`, or `signed by NAME`.
impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Signed(name) => write!(f, "signed by {name}"),
            Self::Unsigned => f.write_str("unsigned"),
        }
    }
}

/// The content of a mark: the document, the exported run, and the key that signed it.
pub(super) fn mark(document: Digest, from: RunId, signer: Option<Name>) -> Bytes {
    let key = signer.map(|name| name.to_string());
    let mark = json!({ "document": document, "from": from, KEY: key });
    mark.to_string().into()
}

/// A journal entry from a document, in the form of this store's journal.
pub(super) fn carried(kind: &str, detail: String) -> Result<Bytes, Error> {
    if kind != IMPORTED {
        return Ok(detail.into());
    }
    let detail: Value = serde_json::from_str(&detail).map_err(Error::bad_export)?;
    let Value::Object(mut mark) = detail else {
        return Err(Error::bad_export(
            "the mark of an earlier import is no object",
        ));
    };
    mark.insert(CARRIED.to_owned(), true.into());
    Ok(Value::Object(mark).to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: &str, detail: &str) -> JournalRow {
        JournalRow {
            at_ms: 1,
            kind: kind.to_owned(),
            detail: Bytes::copy_from_slice(detail.as_bytes()),
        }
    }

    #[test]
    fn one_mark_without_a_key_is_enough() {
        let signed = entry(IMPORTED, r#"{"key":"0A"}"#);
        let newer = entry(IMPORTED, r#"{"key":"0B"}"#);
        let unsigned = entry(IMPORTED, r#"{"key":null}"#);
        let old = entry(IMPORTED, r#"{"document":"x"}"#);
        let odd = entry(IMPORTED, "no JSON");
        let other = entry("incident", "{}");
        let check = |journal: &[&JournalRow], says: Option<&str>| {
            let journal: Vec<_> = journal.iter().copied().cloned().collect();
            let origin = Origin::of(&journal).map(|origin| origin.to_string());
            assert_eq!(origin.as_deref(), says, "{journal:?}");
        };
        check(&[], None);
        check(&[&other], None);
        check(&[&signed, &other, &newer], Some("signed by 0B"));
        for forged in [&unsigned, &old, &odd] {
            check(&[forged], Some("unsigned"));
            check(&[forged, &signed], Some("unsigned"));
            check(&[&signed, forged, &newer], Some("unsigned"));
        }
    }

    #[test]
    fn a_mark_that_comes_with_a_document_is_no_mark_of_this_store() {
        let run = RunId(uuid::Uuid::from_u128(7));
        let own = mark(Digest::of(b"a"), run, None);
        let text = String::from_utf8(own.to_vec()).unwrap();
        let kept = carried(IMPORTED, text).unwrap();
        assert_ne!(kept, own);
        let again = String::from_utf8(kept.to_vec()).unwrap();
        assert_eq!(carried(IMPORTED, again).unwrap(), kept);
        assert_eq!(carried("other", "{ }".to_owned()).unwrap(), "{ }");
        assert!(carried(IMPORTED, "[]".to_owned()).is_err());
    }
}
