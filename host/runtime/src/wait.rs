//! How a run ended, as those who wait for it hear of it.

use windlass_model::{Code, Failure, InstanceId, Payload, Status};

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResult {
    /// Which run.
    pub id: InstanceId,
    /// One of the final statuses.
    pub status: Status,
    /// What came out, if it completed.
    pub output: Option<Payload>,
    /// Why it faulted.
    pub failure: Option<Failure>,
}

/// What a waiter in this process hears.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// The run has ended, durably.
    Finally(RunResult),
    /// The process cannot go on with it; the run itself is not lost.
    Interrupted {
        code: Code,
        message: String,
        help: Option<String>,
    },
    /// The process does not run it any more; somebody else may.
    GivenBack,
}
