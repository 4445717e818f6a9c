//! The transition table of runs, pair by pair.

use windlass_model::Status;

/// The statuses that may follow each status.
const MAY: [(Status, &[Status]); 7] = {
    use Status::{Cancelled, Completed, Faulted, Paused, Pending, Running, Suspended};
    [
        (
            Pending,
            &[Running, Suspended, Paused, Completed, Faulted, Cancelled],
        ),
        (Running, &[Suspended, Paused, Completed, Faulted, Cancelled]),
        (Suspended, &[Running, Paused, Completed, Faulted, Cancelled]),
        // Executions in progress finish after the pause, and may be the last ones.
        (Paused, &[Running, Suspended, Completed, Faulted, Cancelled]),
        (Completed, &[]),
        // A retry: all its remaining executions may be waits.
        (Faulted, &[Running, Suspended]),
        (Cancelled, &[Running, Suspended]),
    ]
};

#[test]
fn every_pair_is_as_the_table_says() {
    for (status, may) in MAY {
        for next in Status::ALL {
            let expected = may.contains(&next);
            assert_eq!(status.may_become(next), expected, "{status} to {next}");
        }
    }
    assert_eq!(MAY.map(|(status, _)| status), Status::ALL);
}

#[test]
fn only_ended_runs_can_be_reopened() {
    for status in Status::ALL {
        let back = Status::ALL
            .into_iter()
            .any(|next| status.may_become(next) && !next.is_final());
        assert_eq!(back, status != Status::Completed, "{status}");
    }
}
