//! Steps that wait for an evaluation after their node, while their run or their process ends. The
//! evaluation ends only when the test lets it.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_model::{Class, Clock, Digest, ExecutionStatus, Seq, Status, TriggerType};
use windlass_plugins::Disposition;
use windlass_store::external::{Control, Touched};
use windlass_store::rows::DefinitionRow;
use windlass_store::write::Commit;
use windlass_store::{MemoryStore, Reader as _, Write, Writer as _};

use super::clock::SimClock;
use super::graphs::ALL;
use super::guests::back;
use super::overtaking::Process;
use crate::catalog::{Catalog, Prepared};
use crate::shard::work::{Answer, Ask, Returned};
use crate::shard::{Message, evaluate_aside};

/// An expression during which an interrupt is noticed.
const LONG: &str = "(range(9000) | map('string') | join('') | length) > 10";

/// Each waits after its node `a`.
const WORKFLOWS: [(&str, &str); 4] = [
    (
        "the output of the run",
        "nodes: { s: { set: { z: 1 } }, a: { set: { x: 8 } } }\nedges: [s -> a]\noutput: \"{{ [vars.x, LONG] }}\"",
    ),
    (
        "the condition of an edge",
        "nodes: { s: { set: { z: 1 } }, a: { set: { x: 8 } }, b: { set: { y: 1 } } }\n\
         edges: [s -> a, { from: a, to: b, when: \"vars.x == 8 and LONG\" }]",
    ),
    (
        "what follows a failure",
        "nodes: { s: { set: { z: 1 } }, a: { fail: no, on-error: [{ when: \"vars.x == 7 and LONG\", do: continue }] } }\n\
         edges: [s -> a]",
    ),
    (
        "the output of an item",
        "nodes: { s: { set: { z: 1 } }, a: { for-each: [1], nodes: { b: { set: { x: 8 } } }, \
         output: \"{{ [vars.x, LONG] }}\" } }\nedges: [s -> a]",
    ),
];

type Work = Box<dyn FnOnce() + Send>;

thread_local! {
    static HELD: RefCell<Vec<Work>> = const { RefCell::new(Vec::new()) };
}

fn held() -> usize {
    HELD.with_borrow(Vec::len)
}

/// A run whose step waits.
struct Waiting {
    process: Process,
    prepared: Arc<Prepared>,
    id: windlass_model::RunId,
    no: windlass_model::RunNo,
    commits: Vec<Commit>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        evaluate_aside(false);
        HELD.take();
    }
}

impl Waiting {
    fn begin(workflow: &str) -> Self {
        evaluate_aside(true);
        let clock = SimClock::new();
        let store = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let process = on(store, clock);
        let text =
            format!("workflow: w\noptions: {{ timeout: 10s }}\nvars: {{ x: 7 }}\n{workflow}\n")
                .replace("LONG", LONG);
        let read = windlass_model::file::read(&text, "w.yaml");
        assert!(read.diagnostics.is_empty(), "{:?}", read.diagnostics);
        let json = read.canonical().unwrap();
        let row = DefinitionRow {
            digest: Digest::of(&json),
            name: "w".to_owned(),
            json: json.into(),
        };
        let prepared = Catalog::default().prepare(row, &ALL.host).unwrap();
        let id = process.run_of(&prepared);
        let no = process.store.run(id).unwrap().unwrap().no;
        let mut waiting = Self {
            process,
            prepared,
            id,
            no,
            commits: Vec::new(),
        };
        waiting.claim();
        waiting
    }

    /// Claims due triggers, and goes on.
    fn claim(&mut self) {
        let claimed = self.process.claim(64);
        self.process.arrive_of(claimed, &self.prepared);
        self.go_on();
    }

    /// Goes on as far as that is possible without the evaluations that are held.
    fn go_on(&mut self) {
        loop {
            self.execute();
            let written = self.process.write();
            if written.is_empty() && self.process.parts.shared.shards[0].is_idle() {
                return;
            }
            for write in written {
                if let Write::Commit(commit) = write {
                    self.commits.push(*commit);
                }
            }
        }
    }

    /// Lets the consumer admit all that is ready.
    fn execute(&self) {
        let shared = &self.process.parts.shared;
        let mut state = shared.shards[0].state.lock();
        let mut next = None;
        while let Some(work) = next.take().or_else(|| state.next(shared)) {
            let Ask::Accept(_) = work.ask else {
                panic!("there is no such node");
            };
            let answer = Answer::Accepted(back(Ok(Disposition::Execute { vars: None }), None));
            let to = work.to;
            next = state.returned(Returned { to, answer }, shared);
        }
    }

    /// Lets the held evaluations end.
    fn let_go(&mut self) {
        while held() > 0 {
            HELD.take().into_iter().for_each(|work| work());
            self.go_on();
        }
    }

    fn status(&self) -> Status {
        self.process.store.run(self.id).unwrap().unwrap().status
    }

    /// Checks that the run is over, with this status, and that nothing is lost or done twice.
    fn has_ended(&mut self, status: Status) {
        assert_eq!(self.status(), status);
        self.let_go();
        assert_eq!(self.status(), status);
        assert!(self.process.store.triggers(self.no).unwrap().is_empty());
        assert_eq!(self.process.in_flight(), 0);
        assert_eq!(
            self.process
                .parts
                .shared
                .base
                .metrics
                .evaluations_waiting
                .get(),
            0
        );
        let executions = self.commits.iter().flat_map(|commit| &commit.executions);
        let mut seen = HashSet::new();
        for row in executions.filter(|row| row.status != ExecutionStatus::Suspended) {
            assert!(seen.insert(row.seq), "{:?} was executed twice", row.seq);
        }
        let stored = self.process.store.executions(self.no, None, 100).unwrap();
        let stored: HashSet<Seq> = stored.iter().map(|row| row.seq).collect();
        assert!(seen.is_subset(&stored));
    }
}

fn on(store: Arc<MemoryStore>, clock: Arc<SimClock>) -> Process {
    Process::on(store, clock, (u64::MAX, u64::MAX), |_, work| {
        HELD.with_borrow_mut(|held| held.push(Box::new(|| work.here())));
    })
}

fn each(test: impl Fn(&mut Waiting)) {
    for (what, workflow) in WORKFLOWS {
        println!("{what}");
        let mut waiting = Waiting::begin(workflow);
        assert_eq!(held(), 1, "{what}");
        assert!(!waiting.status().is_final(), "{what}");
        test(&mut waiting);
    }
}

#[test]
fn a_step_that_has_waited_is_committed_once() {
    each(|waiting| {
        waiting.let_go();
        waiting.has_ended(Status::Completed);
    });
}

#[test]
fn the_timeout_of_a_run_does_not_wait_for_a_step() {
    each(|waiting| {
        waiting.process.clock.advance(10_000);
        waiting.claim();
        if !waiting.status().is_final() {
            // The burst is over as well: the run was given back, and is claimed once more.
            assert_eq!(waiting.process.owner(waiting.no), None);
            waiting.claim();
        }
        let failure = waiting
            .process
            .store
            .run(waiting.id)
            .unwrap()
            .unwrap()
            .failure;
        assert_eq!(failure.unwrap().class, Class::Deadline);
        waiting.has_ended(Status::Faulted);
    });
}

#[test]
fn a_cancellation_does_not_wait_for_a_step() {
    each(|waiting| {
        let control = Control {
            run: waiting.id,
            no: waiting
                .process
                .parts
                .membership
                .numbers()
                .trigger()
                .unwrap(),
            kind: TriggerType::Cancel,
            at_ms: waiting.process.clock.wall_ms(),
        };
        assert_eq!(waiting.process.store.write(control).unwrap(), Touched::Done);
        waiting.claim();
        waiting.has_ended(Status::Cancelled);
    });
}

#[test]
fn a_drain_that_is_over_gives_the_step_back() {
    each(|waiting| {
        let before = waiting.commits.len();
        let shared = Arc::clone(&waiting.process.parts.shared);
        shared.intake.draining.store(true, Ordering::Release);
        waiting.process.take(Message::Drain);
        waiting.go_on();
        assert!(waiting.process.owner(waiting.no).is_some(), "it may end");
        shared.base.overdue.store(true, Ordering::Release);
        waiting.process.take(Message::Interrupt);
        waiting.let_go();
        assert_eq!(waiting.process.owner(waiting.no), None);
        assert!(shared.shards[0].is_empty());
        assert_eq!(waiting.process.in_flight(), 0);
        assert_eq!(waiting.commits.len(), before);
        // Another process executes the node again.
        let store = waiting.process.store.another();
        waiting.process = on(store, Arc::clone(&waiting.process.clock));
        waiting.claim();
        waiting.let_go();
        waiting.has_ended(Status::Completed);
    });
}

#[test]
fn a_drain_waits_for_a_step() {
    each(|waiting| {
        let shared = Arc::clone(&waiting.process.parts.shared);
        shared.intake.draining.store(true, Ordering::Release);
        waiting.process.take(Message::Drain);
        let before = waiting.commits.len();
        waiting.let_go();
        assert!(shared.shards[0].is_empty());
        assert_eq!(waiting.commits.len(), before + 1);
    });
}
