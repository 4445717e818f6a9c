//! Triggers that a consumer fails to take, and the consumer that comes after it.

use windlass_model::{Class, Clock as _, Failure, RunNo, Seq, TriggerState};
use windlass_store::external::{Reschedule, Touched, TriggerTarget};
use windlass_store::{Reader as _, Writer as _};

use super::guests::back;
use super::overtaking::Process;
use crate::shard::Message;
use crate::shard::work::{Answer, Ask, Returned};

/// A process whose consumer has failed to take the only trigger of a run, so often.
fn failing(times: usize) -> (Process, RunNo) {
    let process = Process::new();
    let id = process.run(0);
    let no = process.store.run(id).unwrap().unwrap().no;
    for _ in 0..times {
        let (_, due_ms) = trigger(&process, no);
        let wait_ms = (due_ms - process.clock.wall_ms()).max(0);
        process.clock.advance(wait_ms.unsigned_abs());
        process.arrive(process.claim(64));
        let work = process.next().unwrap();
        assert!(matches!(work.ask, Ask::Accept(_)));
        let failure = Failure::new(Class::Retryable, crate::codes::RENDER, "not today");
        process.take(Message::Returned(Box::new(Returned {
            to: work.to,
            answer: Answer::Accepted(back(Err(failure), None)),
        })));
        assert!(process.next().is_none());
        process.write();
        process.write();
    }
    (process, no)
}

/// The number and the due time of the only trigger.
fn trigger(process: &Process, no: RunNo) -> (Seq, i64) {
    let rows = process.store.triggers(no).unwrap();
    let [row] = &rows[..] else {
        panic!("{rows:#?}")
    };
    assert_eq!(row.state, TriggerState::Pending);
    (row.seq, row.due_ms)
}

#[test]
fn another_consumer_is_offered_at_once_the_triggers_that_the_last_one_failed_to_take() {
    let (process, no) = failing(10);
    let now_ms = process.clock.wall_ms();
    assert!(trigger(&process, no).1 > now_ms + 200_000);
    process.is_due();
    process.take(Message::Consumer);
    process.write();
    assert_eq!(trigger(&process, no).1, now_ms);
    assert!(process.is_due(), "the scheduler is told");
    process.arrive(process.claim(64));
    assert!(process.next().is_some());
}

#[test]
fn another_consumer_hastens_no_trigger_that_waits_for_its_time() {
    let (process, no) = failing(1);
    let (seq, due_ms) = trigger(&process, no);
    let target = TriggerTarget::Row(no, seq);
    let later = Reschedule {
        target,
        due_ms: due_ms + 10,
    };
    assert_eq!(process.store.write(later).unwrap(), Touched::Done);
    process.is_due();
    process.take(Message::Consumer);
    process.write();
    assert_eq!(trigger(&process, no), (seq, due_ms + 10));
    assert!(!process.is_due());
}
