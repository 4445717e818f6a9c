//! Verbs on a run as a whole: begin, pause, unpause, delete.

use std::io::Write as _;

use windlass_model::stimulus::Delivery;
use windlass_model::{RunId, RunNo, ScopeNo, Status, TriggerState, TriggerType};
use windlass_test_seeds::Seeds;

use super::Harness;
use super::forgetting::full;
use super::waiting::stimulus;
use super::world::{DONE, Member};
use crate::external::{Control, Touched};
use crate::lives::{Clear, LifeOp, Lived};
use crate::retention::{Forget, Forgotten};
use crate::rows::Created;
use crate::stimuli::NewStimulus;
use crate::write::{Commit, Fenced, Removed, Unpark};

impl Member {
    pub(super) fn begin(&self, run: RunId) -> Lived {
        let at_ms = 20;
        self.write(LifeOp::Begin { run, at_ms })
    }

    pub(super) fn delete(&self, run: RunId) -> Lived {
        self.write(LifeOp::Delete {
            run,
            no: self.numbers.trigger().unwrap(),
            at_ms: 50,
        })
    }

    pub(crate) fn asked(&self, run: RunId, kind: TriggerType, at_ms: i64) -> Touched {
        let no = self.numbers.trigger().unwrap();
        self.write(Control {
            run,
            no,
            kind,
            at_ms,
        })
    }

    /// Claims the work due at 30, which is one control trigger, and commits its step.
    pub(super) fn carry_out(&self, expected: TriggerType, status: Status) {
        let claims = self.claim(30, 10, 10);
        let claimed = &claims.runs[0];
        let row = &claimed.claimed[0];
        assert_eq!((row.kind, claimed.claimed.len()), (expected, 1));
        let step = Commit {
            status,
            executions: Vec::new(),
            release: true,
            ..self.step(&self.held(&claimed.row, row))
        };
        let done = self.commit(step);
        assert!(done.is_ok(), "{done:?}");
    }

    pub(super) fn states(&self, no: RunNo) -> Vec<TriggerState> {
        self.triggers(no).iter().map(|row| row.state).collect()
    }
}

pub(super) fn a_created_run_begins_when_it_is_begun(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut new = member.draft(2);
    for trigger in &mut new.triggers {
        trigger.due_ms = i64::MAX;
    }
    let id = new.id;
    let no = member.create(new);
    assert_eq!(member.claim_all(1_000_000).len(), 0);
    assert_eq!(
        member.begin(RunId(uuid::Uuid::from_u128(9))),
        Lived::NotFound
    );
    assert_eq!(member.begin(id), Lived::Done);
    assert_eq!(member.begin(id), Lived::Already);
    assert_eq!(member.claim(19, 10, 10).runs.len(), 0);
    let claims = member.claim(20, 10, 10);
    assert_eq!(claims.runs[0].claimed.len(), 2);
    assert_eq!(member.begin(id), Lived::Already);
    let held = member.held(&claims.runs[0].row, &claims.runs[0].claimed[0]);
    assert_eq!(member.commit(member.last(&held)), DONE);
    assert_eq!(member.begin(id), Lived::Ended);
    assert_eq!(member.triggers(no), []);
}

pub(super) fn a_run_for_later_begins_at_once_when_it_is_begun(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut new = member.draft(1);
    for trigger in &mut new.triggers {
        trigger.due_ms = 1_000;
    }
    let id = new.id;
    member.create(new);
    assert_eq!(member.claim(999, 10, 10).runs.len(), 0);
    assert_eq!(member.begin(id), Lived::Done);
    assert_eq!(member.begin(id), Lived::Already);
    assert_eq!(member.claim(20, 10, 10).runs.len(), 1);
}

pub(super) fn nothing_of_a_paused_run_is_claimed(harness: &dyn Harness) {
    let member = Member::join(harness);
    let new = member.draft(3);
    let id = new.id;
    let no = member.create(new);
    assert_eq!(member.asked(id, TriggerType::Pause, 5), Touched::Done);
    // A control trigger is claimed before other due work. A bound of one trigger claims it alone.
    let claims = member.claim(10, 10, 1);
    let (row, pause) = (&claims.runs[0].row, &claims.runs[0].claimed[0]);
    assert_eq!(pause.kind, TriggerType::Pause);
    let step = Commit {
        status: Status::Paused,
        executions: Vec::new(),
        release: true,
        ..member.step(&member.held(row, pause))
    };
    assert_eq!(member.commit(step), DONE);
    assert_eq!(member.head(no).status, Status::Paused);
    let other = Member::join(harness);
    for member in [&other, &member] {
        let claims = member.claim(30, 10, 10);
        assert!(claims.runs.is_empty(), "{claims:?}");
        assert_eq!(claims.next_due_ms, None);
    }
    assert_eq!(member.states(no), [TriggerState::Parked; 3]);
    // Triggers that become pending while the run is paused are parked at the next claim.
    assert_eq!(member.write(Unpark), 3);
    // They do not count as runs of the claim: it takes a run behind them.
    let behind = other.create(other.draft(1));
    let claims = other.claim(30, 1, 10);
    let runs: Vec<RunNo> = claims.runs.iter().map(|claimed| claimed.row.no).collect();
    assert_eq!(runs, [behind]);
    assert_eq!(member.states(no), [TriggerState::Parked; 3]);
    assert_eq!(member.asked(id, TriggerType::Unpause, 20), Touched::Done);
    other.carry_out(TriggerType::Unpause, Status::Running);
    assert_eq!(other.claim(30, 10, 10).runs[0].claimed.len(), 3);
}

pub(super) fn an_execution_is_kept_when_its_run_is_paused(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let no = held.fence.run;
    let id = member.head(no).id;
    assert_eq!(member.asked(id, TriggerType::Pause, 5), Touched::Done);
    let claims = member.claim(10, 10, 10);
    let pause = &claims.runs[0].claimed[0];
    let step = Commit {
        status: Status::Paused,
        executions: Vec::new(),
        ..member.step(&member.held(&claims.runs[0].row, pause))
    };
    assert_eq!(member.commit(step), DONE);
    let mut held = held;
    held.fence.version.0 += 1;
    let mut result = member.step(&held);
    result.status = Status::Paused;
    result.triggers = vec![member.trigger(2)];
    result.release = true;
    assert_eq!(member.commit(result), DONE);
    assert!(member.claim(30, 10, 10).runs.is_empty());
    assert_eq!(member.states(no), [TriggerState::Parked]);
    assert_eq!(member.asked(id, TriggerType::Cancel, 20), Touched::Done);
    let claims = member.claim(30, 10, 10);
    let cancel = member.held(&claims.runs[0].row, &claims.runs[0].claimed[0]);
    assert_eq!(member.commit(member.last(&cancel)), DONE);
    assert_eq!(member.triggers(no), []);
}

pub(super) fn of_pausing_and_going_on_the_last_counts(harness: &dyn Harness) {
    use TriggerType::{Pause, Unpause};
    let member = Member::join(harness);
    let mut new = member.draft(1);
    new.triggers[0].due_ms = i64::MAX;
    let id = new.id;
    let no = member.create(new);
    for (kind, at_ms) in [
        (Pause, 9),
        (Pause, 9),
        (Unpause, 3),
        (Pause, 9),
        (Pause, 30),
    ] {
        assert_eq!(member.asked(id, kind, at_ms), Touched::Done);
    }
    let claims = member.claim(30, 10, 10);
    let kinds: Vec<_> = claims.runs[0].claimed.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [Pause, Unpause, Pause]);
    assert_eq!(member.triggers(no).len(), 4);
}

pub(super) fn a_pause_that_a_claim_passed_by_does_not_undo_its_end(harness: &dyn Harness) {
    use TriggerType::{Pause, Unpause};
    let (member, other) = (Member::join(harness), Member::join(harness));
    let no = other.born().fence.run;
    let id = member.head(no).id;
    assert_eq!(member.asked(id, Pause, 5), Touched::Done);
    for at_ms in [6, 7] {
        let mut new = member.draft(1);
        new.triggers[0].due_ms = i64::MAX;
        let id = new.id;
        member.create(new);
        assert_eq!(member.asked(id, Pause, at_ms), Touched::Done);
    }
    // The walk skips runs that another member owns, and stops when the bound is reached.
    let claims = member.claim(30, 1, 1);
    assert_eq!(claims.runs[0].claimed[0].due_ms, 6);
    other.die();
    assert_eq!(member.reap(10), 1);
    assert_eq!(member.asked(id, Unpause, 20), Touched::Done);
    let claims = member.claim(30, 10, 10);
    let claimed = claims.runs.iter().find(|claimed| claimed.row.no == no);
    let kind = claimed.unwrap().claimed[0].kind;
    assert_eq!(kind, Unpause);
    let others = &claimed.unwrap().others;
    let rows = member.triggers(no);
    for row in others.iter().chain(&rows) {
        assert_ne!(row.kind, Pause, "{row:?}");
    }
}

pub(super) fn a_deleted_run_is_found_by_no_reader(harness: &dyn Harness) {
    let member = Member::join(harness);
    let payload = windlass_model::Payload::json(format!("\"{}\"", "x".repeat(70_000)));
    let no = full(&member, 5, &payload);
    let row = member.head(no);
    assert_eq!(member.delete(row.id), Lived::Gone(no));
    assert_eq!(member.delete(row.id), Lived::NotFound);
    assert_eq!(member.begin(row.id), Lived::NotFound);
    let store = &*member.store;
    assert_eq!(store.run(row.id).unwrap(), None);
    assert_eq!(store.run_by_no(no).unwrap(), None);
    assert_eq!(
        store.runs_by_prefix(&row.id.to_string()[..6], 10).unwrap(),
        []
    );
    let asked = member.asked(row.id, TriggerType::Cancel, 60);
    assert!(
        matches!(asked, Touched::NotFound | Touched::Closed),
        "{asked:?}"
    );
    // The stimulus is not buffered: the deleted run never waits for it.
    let late = NewStimulus {
        run: Some(row.id),
        ..stimulus("ok", Delivery::Buffer)
    };
    assert!(member.send(late).dropped);
    let mut slices = 0;
    let clear = Clear {
        run: no,
        rows: 3,
        at_ms: 60,
    };
    while member.write(clear).more {
        slices += 1;
        assert!(slices < 100);
    }
    assert_eq!(store.executions(no, None, 100).unwrap(), []);
    assert_eq!(store.vars(no, ScopeNo(1)).unwrap(), []);
    // The id stays reserved until the run is forgotten.
    let again = || {
        let mut again = member.draft(1);
        again.id = row.id;
        member.write(again)
    };
    assert_eq!(again(), Ok(Created::Deleted));
    assert_eq!(store.expired(50, 0, 10).unwrap(), []);
    let expired = store.expired(51, 0, 10).unwrap();
    assert_eq!(expired.len(), 1);
    let forget = Forget {
        run: expired[0].no,
        before_ms: 51,
        rows: 100,
        at_ms: 70,
    };
    assert_eq!(member.write(forget), Forgotten { more: false });
    assert_eq!(again(), Ok(Created::New));
}

pub(super) fn deleting_ends_a_run_that_has_not_ended(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let row = member.head(held.fence.run);
    assert_eq!(member.delete(row.id), Lived::Done);
    assert_eq!(member.delete(row.id), Lived::Done);
    let claims = member.claim(60, 10, 10);
    let kinds: Vec<_> = claims.runs[0].claimed.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [TriggerType::Delete]);
    let delete = member.held(&claims.runs[0].row, &claims.runs[0].claimed[0]);
    let mut end = member.last(&delete);
    end.status = Status::Cancelled;
    assert_eq!(member.commit(end), DONE);
    assert_eq!(member.store.run(row.id).unwrap(), None);
    // Commits of the former owner are fenced.
    assert_eq!(member.commit(member.chained(&held, 7)), Err(Fenced));
    let mut again = member.draft(1);
    again.id = row.id;
    let again = member.write(again);
    assert_eq!(again, Ok(Created::Deleted));
    assert_eq!(member.delete(row.id), Lived::NotFound);
}

/// How often two callers, or a caller and a run, act at the same moment.
pub(super) const RACES: Seeds = Seeds::new(500, 1_000);

/// A commit ends a run while another caller deletes it. In either order the run is
/// deleted, and every caller gets a correct answer.
pub(super) fn deleting_races_the_last_commit(harness: &dyn Harness) {
    let member = Member::join(harness);
    let other = Member::join(harness);
    for _ in RACES.range() {
        let held = member.born();
        let no = held.fence.run;
        let id = member.head(no).id;
        let (ended, deleted) = std::thread::scope(|scope| {
            let end = scope.spawn(|| member.commit(member.last(&held)));
            let delete = scope.spawn(|| other.delete(id));
            (end.join().unwrap(), delete.join().unwrap())
        });
        assert_eq!(ended, DONE);
        assert!(
            matches!(deleted, Lived::Gone(_) | Lived::Done),
            "{deleted:?}"
        );
        assert_eq!(member.store.run(id).unwrap(), None);
        assert_eq!(member.triggers(no), []);
    }
}

/// Writes to stdout directly: a lint forbids `println!` in this library.
fn tell(what: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{what}");
}

/// A commit ends a run while another caller cancels it. The run completes in any case;
/// the canceller is told either that its request was written or that the run had ended.
pub(super) fn cancelling_races_the_last_commit(harness: &dyn Harness) {
    let member = Member::join(harness);
    let other = Member::join(harness);
    let mut late = 0;
    for _ in RACES.range() {
        let held = member.born();
        let no = held.fence.run;
        let id = member.head(no).id;
        let (ended, asked) = std::thread::scope(|scope| {
            let end = scope.spawn(|| member.commit(member.last(&held)));
            let cancel = scope.spawn(|| other.asked(id, TriggerType::Cancel, 50));
            (end.join().unwrap(), cancel.join().unwrap())
        });
        assert_eq!(ended, DONE);
        assert!(
            matches!(asked, Touched::Done | Touched::Closed),
            "{asked:?}"
        );
        late += u32::from(asked == Touched::Closed);
        assert_eq!(member.head(no).status, Status::Completed);
        assert_eq!(member.triggers(no), []);
    }
    tell(format_args!("{late} cancelled too late"));
}

/// A run is cancelled while it is resumed. The sender of the stimulus is told that no bookmark
/// matched, or finds its stimulus among the dead letters.
pub(super) fn resuming_races_cancelling(harness: &dyn Harness) {
    let member = Member::join(harness);
    let other = Member::join(harness);
    let mut heard = 0;
    for _ in RACES.range() {
        let (no, id) = member.waiting_for(|held| vec![member.bookmark(held, "go")]);
        let waits = member.only_trigger(no);
        assert_eq!(member.asked(id, TriggerType::Cancel, 50), Touched::Done);
        let cancel = member.claim_all(60)[0];
        let mut end = member.last(&cancel);
        end.status = Status::Cancelled;
        end.removed = vec![Removed::unused(waits.no)];
        let (ended, sent) = std::thread::scope(|scope| {
            let end = scope.spawn(|| member.commit(end));
            let send = scope.spawn(|| other.send(stimulus("go", Delivery::Resume)));
            (end.join().unwrap(), send.join().unwrap())
        });
        assert_eq!(ended, DONE);
        heard += sent.resumed.len() as u64;
        assert_eq!(member.head(no).status, Status::Cancelled);
        let counts = member.store.counts().unwrap();
        let left = (counts.triggers, counts.bookmarks, counts.dead_letters);
        assert_eq!(left, (0, 0, heard), "{sent:?}");
    }
    tell(format_args!("{heard} resumed in time"));
}
