//! What is written to a parent of its child.

use bytes::Bytes;
use windlass_model::{Class, Failure, InstanceId, Resumption, Status};

use crate::codes;
use crate::rows::NewInstance;
use crate::write::Finish;

/// What a parent is told of the end of its child.
pub(crate) fn ended(instance: InstanceId, status: Status, finish: &Finish) -> Bytes {
    let document = Resumption::Child {
        instance,
        status: status.name().to_owned(),
        output: finish.output.clone(),
        failure: finish.failure.clone(),
    };
    document.encode()
}

/// What a parent is told of a child that could not be made.
pub(crate) fn refused(child: &NewInstance) -> Bytes {
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
