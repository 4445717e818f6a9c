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

/// The resumption that tells a parent that its child could not be created.
pub(crate) fn refused(child: &NewRun) -> Bytes {
    let text = format!(
        "run {} cannot begin: what it reserves, or its name, is taken",
        child.id
    );
    let finish = Finish {
        output: None,
        failure: Some(Failure::new(Class::Rejected, codes::CHILD_REFUSED, text)),
    };
    ended(child.id, Status::Faulted, &finish)
}
