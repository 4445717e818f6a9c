//! Waiting stimuli: queued ones, which a node sent or which could not be delivered at once, and
//! buffered ones, whose bookmark does not exist yet.

use windlass_model::StimulusNo;
use windlass_store::Store;
use windlass_store::stimuli::{BufferedRow, NewStimulus, QueuedRow, StimulusQuery};

use crate::error::Error;

/// A waiting stimulus.
#[derive(Clone, Debug)]
pub enum Waiting {
    /// Queued for delivery.
    Queued(QueuedRow),
    /// Buffered until its bookmark exists.
    Buffered(BufferedRow),
}

impl Waiting {
    /// Its number. Later stimuli have higher numbers.
    pub fn no(&self) -> StimulusNo {
        match self {
            Self::Queued(row) => row.no,
            Self::Buffered(row) => row.no,
        }
    }

    /// The stimulus, without its blobs.
    pub fn stimulus(&self) -> &NewStimulus {
        match self {
            Self::Queued(row) => &row.stimulus,
            Self::Buffered(row) => &row.stimulus,
        }
    }
}

/// Waiting stimuli, the oldest first, after a known one; at most `limit`. The two kinds are two
/// reads: a stimulus that changes its kind in between may be missing.
///
/// # Errors
///
/// The store fails.
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
