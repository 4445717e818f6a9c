//! Resumptions that the store writes to the parent of a child run.

use bytes::Bytes;
use windlass_model::{Class, Failure, Resumption, RunId, Status};

use crate::codes;
use crate::rows::NewRun;
use crate::write::Finish;

/// The resumption that tells a parent how its child ended.
pub(crate) fn ended(run: RunId, status: Status, finish: &Finish) -> Bytes {
    let document = Resumption::Child {
        run,
        status: status.name().to_owned(),
        output: finish.output.clone(),
        failure: finish.failure.clone(),
    };
    document.encode()
}

/// Why a child could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unborn {
    /// Its id or what it reserves is taken.
    Taken,
    /// A run above it was asked to end.
    Ending,
    /// The root of its tree has had as many descendants as it may.
    Bound {
        /// The number of descendants that the root has had.
        born: i64,
    },
}

/// The resumption that tells a parent that its child could not be created.
pub(crate) fn refused(child: &NewRun, why: Unborn) -> Bytes {
    let id = child.id;
    let (class, code, why) = match why {
        Unborn::Taken => (
            Class::Rejected,
            codes::CHILD_REFUSED,
            "its reservation or its name is taken".to_owned(),
        ),
        Unborn::Ending => (
            Class::Cancelled,
            codes::CHILD_ENDING,
            "its parent, or a run above it, is being cancelled".to_owned(),
        ),
        Unborn::Bound { born } => (
            Class::Limit,
            codes::TOO_MANY_DESCENDANTS,
            format!(
                "the run at the root of its tree has had {born} descendants, which is as many as it \
                 may (`max-descendants`)"
            ),
        ),
    };
    let finish = Finish {
        output: None,
        failure: Some(Failure::new(
            class,
            code,
            format!("run {id} cannot begin: {why}"),
        )),
    };
    ended(id, Status::Faulted, &finish)
}
