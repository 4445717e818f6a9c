//! Unpublished definitions: drafts, the sources of versions, and upkeep requests.
//!
//! A draft is the text of a workflow that is being edited and may contain mistakes. There is at
//! most one draft for each name. Publishing turns it into a version, in the transaction that
//! removes it.

use bytes::Bytes;
use windlass_model::limits::{WORKFLOW_BYTES, WORKFLOW_NAME_BYTES};
use windlass_model::{Digest, UpkeepNo, valid};

use crate::codes;
use crate::error::{Error, Result};

/// The maximum number of names in one request.
pub const UPKEEP_NAMES: usize = 1_000;

/// The maximum number of pending requests about some definitions: one more replaces them by one
/// request about all.
pub const UPKEEP_ROWS: u32 = 1_000;

/// A draft to be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDraft {
    /// The workflow's name.
    pub name: String,
    /// The text, unchanged. At most [`WORKFLOW_BYTES`].
    pub content: Bytes,
    /// The version that the draft is based on.
    pub based_on: Option<u32>,
    /// The revision that the draft must have; 0: there must be no draft. None: the draft is
    /// overwritten in any case.
    pub expected: Option<u64>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

impl NewDraft {
    pub(crate) fn check(&self) -> Result<()> {
        if self.content.len() > WORKFLOW_BYTES {
            let text = format!("a draft has at most {WORKFLOW_BYTES} bytes");
            return Err(Error::new(codes::CONTRADICTION, text));
        }
        check_name(&self.name)
    }
}

/// A draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftRow {
    /// The workflow's name.
    pub name: String,
    /// Grows with each edit, and is never reused.
    pub revision: u64,
    /// The text, unchanged.
    pub content: Bytes,
    /// The version that the draft is based on.
    pub based_on: Option<u32>,
    /// Epoch milliseconds.
    pub saved_ms: i64,
}

/// The version that was last published from one source, like a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRow {
    /// The name of the source, like a path.
    pub name: String,
    /// The workflow that the source contained.
    pub workflow: String,
    /// The version that was published from the source, or that already had this content.
    pub version: u32,
    /// Digest of a [`crate::rows::DefinitionRow`].
    pub definition: Digest,
}

/// The subject of an upkeep request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// Every published definition.
    RefreshAll,
    /// The definitions with these names, at most [`UPKEEP_NAMES`].
    Refresh(Vec<String>),
    /// The sources of definitions: they are read again.
    Reload,
}

impl Upkeep {
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Refresh(names) if names.len() > UPKEEP_NAMES => {
                let text = format!("a request is about {UPKEEP_NAMES} workflows at most");
                Err(Error::new(codes::CONTRADICTION, text))
            }
            Self::Refresh(names) => names.iter().try_for_each(|name| check_name(name)),
            Self::RefreshAll | Self::Reload => Ok(()),
        }
    }
}

/// A pending upkeep request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpkeepRow {
    /// Its number: later ones are larger.
    pub no: UpkeepNo,
    /// The subject of the request.
    pub what: Upkeep,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Writes an upkeep request. It replaces earlier requests that it includes. Answered by its number.
#[derive(Clone, Debug)]
pub struct RequestUpkeep {
    /// The subject of the request.
    pub what: Upkeep,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Deletes requests that were carried out.
#[derive(Clone, Debug)]
pub struct UpkeepDone(pub Vec<UpkeepNo>);

/// Deletes a draft.
#[derive(Clone, Debug)]
pub struct DiscardDraft {
    /// The workflow.
    pub name: String,
    /// Delete the draft only if it has this revision.
    pub revision: Option<u64>,
}

/// Deletes a source. Retracts the version that was published from it if `retract` is set, the
/// version is still the published one, and no other source has it.
#[derive(Clone, Debug)]
pub struct DropSource {
    /// The source's name at the time of publishing.
    pub name: String,
    /// Whether to retract the version.
    pub retract: bool,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

fn check_name(name: &str) -> Result<()> {
    let named = valid::Kind::new("the name of a workflow", 1, WORKFLOW_NAME_BYTES).check(name);
    named.map_err(|wrong| Error::new(codes::CONTRADICTION, wrong.to_string()))
}
