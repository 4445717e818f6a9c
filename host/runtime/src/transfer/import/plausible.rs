//! Checks for times and ids that an imported run cannot have, even if it is signed.

use windlass_model::RunId;

use super::ImportTarget;
use crate::codes;
use crate::derived::{DERIVED, is_derived};
use crate::error::Error;
use crate::transfer::document::{Document, Record};
use crate::transfer::envelope::Seal;

/// The largest accepted difference between the clocks of two hosts, in milliseconds.
pub(super) const SKEW_MS: i64 = 10 * 60 * 1000;

/// The longest accepted execution of a node, in microseconds: 1,000 years.
const LONGEST_US: u64 = 31_536_000_000_000_000;

impl Document {
    /// Refuses times in the future, negative times, and times that contradict each other.
    pub(super) fn check_times(&self, now_ms: i64) -> Result<(), Error> {
        let past = 0..=now_ms.saturating_add(SKEW_MS);
        let check = |what: &str, at_ms: i64| match past.contains(&at_ms) {
            true => Ok(()),
            false => Err(Error::bad_export(format!(
                "{what} is at {at_ms} ms, which is before 1970 or in the future of this host"
            ))),
        };
        let head = &self.run;
        check("its export", self.exported_ms)?;
        check("its beginning", head.created_ms)?;
        if let Some(finished_ms) = head.finished_ms {
            check("its end", finished_ms)?;
            if finished_ms.saturating_add(SKEW_MS) < head.created_ms {
                return Err(Error::bad_export("it ended before it began"));
            }
        }
        for entry in &self.journal {
            check("an entry of its journal", entry.at_ms)?;
        }
        for bookmark in &self.bookmarks {
            check("a bookmark", bookmark.created_ms)?;
        }
        self.records
            .iter()
            .try_for_each(|record| check_record(record, head.created_ms, check))
    }
}

fn check_record(
    record: &Record,
    created_ms: i64,
    check: impl Fn(&str, i64) -> Result<(), Error>,
) -> Result<(), Error> {
    check("a record", record.started_ms)?;
    if record.started_ms.saturating_add(SKEW_MS) < created_ms {
        return Err(Error::bad_export("a record is older than the run"));
    }
    if record.took_us > LONGEST_US {
        return Err(Error::bad_export("a record took longer than there is time"));
    }
    Ok(())
}

/// Refuses an id that a host derives from a request key, a schedule or the parent of a run, unless
/// a known key has signed the run under this id. Otherwise a later start with that name would find
/// the imported run.
pub(super) fn check_id(from: RunId, place: ImportTarget, seal: Seal) -> Result<(), Error> {
    let id = match place {
        ImportTarget::As(id) => id,
        ImportTarget::Free | ImportTarget::Replace => from,
    };
    if !is_derived(id) || keeps_its_name(from, id, seal) {
        return Ok(());
    }
    Err(Error::Refused {
        code: codes::DERIVED_ID,
        message: format!("the run cannot be imported as {id}: {DERIVED}"),
        help: Some("give it a new id with `--new-id` (over HTTP `?as=ID`)".to_owned()),
    })
}

/// Whether a start request with the name of the run finds it: a known key has signed the run, and
/// it keeps its id.
pub(super) fn keeps_its_name(from: RunId, id: RunId, seal: Seal) -> bool {
    seal.signer().is_some() && id == from
}
