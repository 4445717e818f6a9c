//! What there is of definitions besides published versions: drafts, where versions were read
//! from, and requests to look at them again.
//!
//! A draft is the text of a workflow that somebody is still working on, mistakes and all: one
//! for each name. It becomes a version by being published, in the transaction that removes it.

use bytes::Bytes;
use windlass_model::limits::{WORKFLOW_BYTES, WORKFLOW_NAME_BYTES};
use windlass_model::{Digest, UpkeepNo, valid};

use crate::codes;
use crate::error::{Error, Result};

/// Names that one request is about at most.
pub const UPKEEP_NAMES: usize = 1_000;

/// Requests about some definitions that wait at most: one more makes them one about all.
pub const UPKEEP_ROWS: u32 = 1_000;

/// A draft to be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDraft {
    /// The workflow's name.
    pub name: String,
    /// The text as it was written, at most [`WORKFLOW_BYTES`] of it.
    pub content: Bytes,
    /// The version that it was made from.
    pub based_on: Option<u32>,
    /// Save it only over this revision; 0: only if there is none. None: over whatever there is.
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
    /// Grows with each edit, and is never used again.
    pub revision: u64,
    /// The text as it was written.
    pub content: Bytes,
    /// The version that it was made from.
    pub based_on: Option<u32>,
    /// Epoch milliseconds.
    pub saved_ms: i64,
}

/// What was last published from one place, like a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRow {
    /// The place, like a path.
    pub name: String,
    /// The workflow that was in it.
    pub workflow: String,
    /// The version that it was published as, or was already.
    pub version: u32,
    /// Digest of a [`crate::rows::DefinitionRow`].
    pub definition: Digest,
}

/// What is to be looked at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// Every published definition.
    RefreshAll,
    /// These, at most [`UPKEEP_NAMES`].
    Refresh(Vec<String>),
    /// The places that definitions are read from.
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

/// A request that waits to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpkeepRow {
    /// Its number: later ones are larger.
    pub no: UpkeepNo,
    /// What is to be looked at again.
    pub what: Upkeep,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// Writes a request to look at definitions again. It takes the place of earlier ones that it
/// includes. Answered by its number.
#[derive(Clone, Debug)]
pub struct RequestUpkeep {
    /// What is to be looked at again.
    pub what: Upkeep,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

/// These requests were carried out.
#[derive(Clone, Debug)]
pub struct UpkeepDone(pub Vec<UpkeepNo>);

/// Throws a draft away.
#[derive(Clone, Debug)]
pub struct DiscardDraft {
    /// The workflow.
    pub name: String,
    /// Only this revision.
    pub revision: Option<u64>,
}

/// Forgets a place that a version was published from, and takes that version back if it is still
/// the published one, no other place has it too, and `retract` says so.
#[derive(Clone, Debug)]
pub struct DropSource {
    /// The place, as it was named when it was published.
    pub name: String,
    /// Whether to take it back.
    pub retract: bool,
    /// Epoch milliseconds.
    pub at_ms: i64,
}

fn check_name(name: &str) -> Result<()> {
    let named = valid::Kind::new("the name of a workflow", 1, WORKFLOW_NAME_BYTES).check(name);
    named.map_err(|wrong| Error::new(codes::CONTRADICTION, wrong.to_string()))
}
