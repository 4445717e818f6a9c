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

/// The failure of a birth for which a tree has no room.
pub(crate) fn too_many(what: &str, born: i64) -> Failure {
    let message = format!(
        "{what}: the run at the root of its tree has had {born} descendants, and it may not have \
         more (`max-descendants`)"
    );
    Failure::new(Class::Limit, codes::TOO_MANY_DESCENDANTS, message)
}

/// The resumption that tells a parent that its child could not be created.
pub(crate) fn refused(child: &NewRun, why: Unborn) -> Bytes {
    let what = format!("run {} cannot begin", child.id);
    let failed = |class, code, why: &str| Failure::new(class, code, format!("{what}: {why}"));
    let failure = match why {
        Unborn::Taken => failed(
            Class::Rejected,
            codes::CHILD_REFUSED,
            "its reservation or its name is taken",
        ),
        Unborn::Ending => failed(
            Class::Cancelled,
            codes::CHILD_ENDING,
            "its parent, or a run above it, is being cancelled",
        ),
        Unborn::Bound { born } => too_many(&what, born),
    };
    let finish = Finish {
        output: None,
        failure: Some(failure),
    };
    ended(child.id, Status::Faulted, &finish)
}
