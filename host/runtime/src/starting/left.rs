//! Runs without an owner, which the next claim of any process takes.

use windlass_model::Numbers;
use windlass_store::rows::NewRun;
use windlass_store::{Store, Writer as _};

use super::{Accepted, Started};
use crate::error::Error;

impl Accepted {
    /// The run, for a transaction that writes more than the run.
    ///
    /// # Errors
    ///
    /// The numbers of the membership are used up.
    pub(crate) fn left(&self, numbers: &Numbers, now_ms: i64) -> Result<NewRun, Error> {
        self.new_run(numbers, None, now_ms).map(|(new, _)| new)
    }

    /// Creates the run. None: nothing was written, and the caller looks the definition up again.
    ///
    /// # Errors
    ///
    /// The id is taken, or the store fails.
    pub(crate) fn leave(
        &self,
        store: &dyn Store,
        numbers: &Numbers,
        now_ms: i64,
    ) -> Result<Option<Started>, Error> {
        let new = self.left(numbers, now_ms)?;
        let no = new.no;
        self.answered(store.write(new)?, no)
    }
}
