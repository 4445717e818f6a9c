//! Stimuli that wait: in the queue, because they were sent by a node or could not be delivered
//! at once, or kept for a bookmark that is not there yet.

use windlass_model::StimulusNo;
use windlass_store::Store;
use windlass_store::stimuli::{BufferedRow, NewStimulus, QueuedRow, StimulusQuery};

use crate::error::Error;

/// A stimulus that waits.
#[derive(Clone, Debug)]
pub enum Waiting {
    /// To be delivered.
    Queued(QueuedRow),
    /// For its bookmark.
    Buffered(BufferedRow),
}

impl Waiting {
    /// Its number: later ones are larger.
    pub fn no(&self) -> StimulusNo {
        match self {
            Self::Queued(row) => row.no,
            Self::Buffered(row) => row.no,
        }
    }

    /// What waits, without its blobs.
    pub fn stimulus(&self) -> &NewStimulus {
        match self {
            Self::Queued(row) => &row.stimulus,
            Self::Buffered(row) => &row.stimulus,
        }
    }
}

/// Stimuli that wait, the oldest first, from behind a known one; at most `limit`. The two kinds
/// are two reads: what goes from one to the other in between may be in neither.
///
/// # Errors
///
/// The store is in trouble.
pub fn waiting(
    store: &dyn Store,
    after: Option<StimulusNo>,
    limit: u32,
) -> Result<Vec<Waiting>, Error> {
    let query = StimulusQuery {
        after,
        ready_ms: None,
        limit,
    };
    let queued = store.queued(&query)?.into_iter().map(Waiting::Queued);
    let buffered = store.buffered(&query)?.into_iter().map(Waiting::Buffered);
    let mut all: Vec<Waiting> = queued.chain(buffered).collect();
    all.sort_by_key(Waiting::no);
    all.truncate(limit as usize);
    Ok(all)
}
