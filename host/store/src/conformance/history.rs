//! Random histories, carried out on the store under test and on the memory store, which is the
//! model: every answer and every readable row must be equal.
//!
//! proptest shrinks a failing history and prints it with its seed.

use std::cell::Cell;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
#[cfg(test)]
use proptest::test_runner::{RngAlgorithm, TestRng};
use windlass_model::{Incarnation, ScopeNo, Status};
use windlass_test_seeds::Seeds;

use super::history_external::{self, ExternalStep};
use super::history_kept::{self, PublishingStep};
use super::history_set::{self, Set};
use super::world::{DUE, Held, LEASE_MS, Member, batch};
use super::{Harness, TestClock};
use crate::published::{Planned, StartedNow};
use crate::rows::Created;
use crate::stimuli::SendOutcome;
use crate::write::{
    Claim, ClaimScope, ClaimedRun, Commit, Leave, Mark, Park, Reap, Release, Renew, Unpark,
};
use crate::{MemoryStore, Result, Store, Write, Wrote};

/// Histories. Their deliberate mistakes are the mutants of the shared statements in
/// `sqlite/tests/mutating.rs`.
pub(crate) const HISTORIES: Seeds = Seeds::new(48, 96);

/// One operation of a history. The numbers choose among the existing members, runs and rows.
#[derive(Clone, Debug)]
enum Op {
    Join,
    Leave(usize),
    Renew(usize),
    Reap(usize),
    Advance(u64),
    Create {
        owner: Option<usize>,
        triggers: u64,
        same: bool,
        reserve: usize,
    },
    Claim {
        by: usize,
        now_ms: i64,
        runs: u32,
        triggers: u32,
        only: bool,
    },
    Step {
        held: usize,
        kind: Kind,
        stale: bool,
        dress: usize,
    },
    Mark(usize),
    Release(usize),
    Park(usize),
    Unpark,
    Publishing(usize, PublishingStep),
    External(usize, ExternalStep),
    Set(Set),
}

/// How a step continues.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Chained,
    Pending,
    Fork,
    Leaf,
    Release,
    Suspend(usize),
    Finish,
}

/// The unit in which time passes. One stride stays well within a lease and two are well beyond it:
/// the clock of a database server also advances while the history is carried out.
const STRIDE_MS: u64 = LEASE_MS / 15 * 8;

fn op() -> impl Strategy<Value = Op> {
    let which = 0..64_usize;
    let kind = prop_oneof![
        4 => Just(Kind::Chained),
        1 => Just(Kind::Pending),
        2 => Just(Kind::Fork),
        1 => Just(Kind::Leaf),
        1 => Just(Kind::Release),
        8 => (0..65_536_usize).prop_map(Kind::Suspend),
        1 => Just(Kind::Finish),
    ];
    let claim = (which.clone(), 0..40_i64, 1..4_u32, 1..4_u32, any::<bool>());
    prop_oneof![
        2 => Just(Op::Join),
        1 => which.clone().prop_map(Op::Leave),
        1 => which.clone().prop_map(Op::Renew),
        2 => which.clone().prop_map(Op::Reap),
        1 => (1..3_u64).prop_map(|strides| Op::Advance(strides * STRIDE_MS)),
        6 => (proptest::option::of(which.clone()), 1..5_u64, proptest::bool::weighted(0.1), 0..8_usize)
            .prop_map(|(owner, triggers, same, reserve)| Op::Create { owner, triggers, same, reserve }),
        6 => claim.prop_map(|(by, now_ms, runs, triggers, only)| Op::Claim {
            by, now_ms, runs, triggers, only,
        }),
        16 => (which.clone(), kind, proptest::bool::weighted(0.15), which.clone())
            .prop_map(|(held, kind, stale, dress)| Op::Step { held, kind, stale, dress }),
        6 => (which.clone(), super::history_kept::op()).prop_map(|(by, op)| Op::Publishing(by, op)),
        16 => (which.clone(), history_external::op()).prop_map(|(by, op)| Op::External(by, op)),
        4 => history_set::op().prop_map(Op::Set),
        2 => which.clone().prop_map(Op::Mark),
        1 => which.clone().prop_map(Op::Release),
        2 => which.prop_map(Op::Park),
        1 => Just(Op::Unpark),
    ]
}

/// Takes up to a minute on PostgreSQL: each operation of each history is a transaction.
pub(super) fn random_histories_agree_with_the_model(harness: &dyn Harness) {
    let clock = Arc::new(TestClock::default());
    let model = MemoryStore::new(Arc::clone(&clock) as Arc<dyn windlass_model::Clock>);
    agree(harness, &(model as Arc<dyn Store>), &clock);
}

/// The same comparison, with any store as the model.
#[cfg(all(test, feature = "postgres"))]
pub(crate) fn random_histories_agree(tested: &dyn Harness, model: &dyn Harness) {
    agree(tested, &model.open(), model.clock());
}

/// Carries out a fixed sequence of histories: each is the same whenever this is called. Before each
/// one, `begin` gets its number, from 1. Whether all agree with the model; one that does not is not
/// shrunk.
#[cfg(test)]
pub(crate) fn fixed_histories_agree(
    harness: &dyn Harness,
    histories: u32,
    begin: impl Fn(u64),
) -> bool {
    let clock = Arc::new(TestClock::default());
    let model = MemoryStore::new(Arc::clone(&clock) as Arc<dyn windlass_model::Clock>);
    let config = Config {
        cases: histories,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Config::default()
    };
    let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, seed);
    let model = model as Arc<dyn Store>;
    run(&mut runner, harness, &model, &clock, begin).is_ok()
}

fn agree(harness: &dyn Harness, model: &Arc<dyn Store>, clock: &TestClock) {
    let mut runner = TestRunner::new(Config {
        cases: HISTORIES.cases(),
        failure_persistence: None,
        ..Config::default()
    });
    run(&mut runner, harness, model, clock, |_| {}).unwrap();
}

fn run(
    runner: &mut TestRunner,
    harness: &dyn Harness,
    model: &Arc<dyn Store>,
    clock: &TestClock,
    begin: impl Fn(u64),
) -> std::result::Result<(), TestError<Vec<Vec<Op>>>> {
    // Each history starts from the state in which the last one ended. Its own members and runs
    // keep it apart, and the model stays in step.
    let tested = harness.open();
    let history = proptest::collection::vec(proptest::collection::vec(op(), 1..8), 1..30);
    let begun = Cell::new(0);
    runner.run(&history, |history| {
        begun.set(begun.get() + 1);
        begin(begun.get());
        let mut run = History {
            model: Arc::clone(model),
            tested: Arc::clone(&tested),
            harness,
            clock,
            members: Vec::new(),
            runs: Vec::new(),
            held: Vec::new(),
        };
        run.join();
        for ops in &history {
            run.carry_out(ops);
        }
        run.end();
        Ok(())
    })
}

struct History<'a> {
    model: Arc<dyn Store>,
    tested: Arc<dyn Store>,
    harness: &'a dyn Harness,
    clock: &'a TestClock,
    members: Vec<Member>,
    runs: Vec<crate::rows::NewRun>,
    /// The triggers that a simulated owner believes to have claimed.
    held: Vec<Held>,
}

impl History<'_> {
    fn carry_out(&mut self, ops: &[Op]) {
        let mut writes = Vec::new();
        for op in ops {
            match op {
                Op::Join => self.join(),
                Op::Advance(ms) => {
                    self.clock.advance(*ms);
                    self.harness.clock().advance(*ms);
                }
                _ => writes.extend(self.write_of(op)),
            }
        }
        let modelled = batch(&*self.model, writes.clone());
        let answered = batch(&*self.tested, writes.clone());
        for ((write, modelled), answered) in writes.iter().zip(&modelled).zip(&answered) {
            assert_eq!(told(answered), told(modelled), "{write:#?}");
            self.learn(write, modelled);
        }
        self.compare();
    }

    fn join(&mut self) {
        let (model, tested) = (
            Member::of(Arc::clone(&self.model)),
            Member::of(Arc::clone(&self.tested)),
        );
        assert_eq!(model.incarnation, tested.incarnation);
        self.members.push(tested);
    }

    fn member(&self, which: usize) -> &Member {
        &self.members[which % self.members.len()]
    }

    fn holder(&self, held: &Held) -> Option<&Member> {
        self.members
            .iter()
            .find(|member| member.incarnation == held.fence.incarnation)
    }

    fn write_of(&mut self, op: &Op) -> Option<Write> {
        let held = |which: &usize| {
            let number = self.held.len().max(1);
            self.held.get(which % number).copied()
        };
        Some(match op {
            Op::Join | Op::Advance(_) => return None,
            Op::Leave(which) => Write::Leave(Leave {
                incarnation: self.member(*which).incarnation,
            }),
            Op::Renew(which) => Write::Renew(Renew {
                incarnation: self.member(*which).incarnation,
            }),
            Op::Reap(which) => Write::Reap(Reap {
                incarnation: self.member(*which).incarnation,
                limit: 1000,
            }),
            Op::Create {
                owner,
                triggers,
                same,
                reserve,
            } => {
                let mut new = self.member(0).draft(*triggers);
                new.owner = owner.map(|owner| self.member(owner).incarnation);
                for (place, trigger) in (0_i64..).zip(&mut new.triggers) {
                    trigger.due_ms = place * 10;
                    trigger.claimed = place % 2 == 0;
                }
                if let (true, Some(first)) = (*same, self.runs.first()) {
                    new.id = first.id;
                }
                history_kept::reserve(&mut new, *reserve);
                Write::Create(Box::new(new))
            }
            Op::Claim {
                by,
                now_ms,
                runs,
                triggers,
                only,
            } => {
                let numbers = self.runs.iter().map(|new| new.no).take(3).collect();
                Write::Claim(Claim {
                    incarnation: self.member(*by).incarnation,
                    now_ms: *now_ms,
                    runs: *runs,
                    triggers: *triggers,
                    // Half of the claims end with the run that has a few rows.
                    bytes: [u64::MAX, u64::from(*triggers) * 1_000][*now_ms as usize % 2],
                    scope: if *only {
                        ClaimScope::Only(numbers)
                    } else {
                        ClaimScope::All
                    },
                })
            }
            Op::Step {
                held: which,
                kind,
                stale,
                dress,
            } => {
                let held = held(which)?;
                let mut step = self.step(&held, *kind)?;
                if dress & 32 != 0 {
                    history_kept::dress(&mut step, *dress);
                    history_external::dress(&mut step, &self.runs, *dress);
                }
                if !*stale {
                    self.expect(&held, *kind);
                }
                Write::Commit(Box::new(step))
            }
            Op::Mark(which) => {
                let Held { fence, trigger } = held(which)?;
                Write::Mark(Mark {
                    incarnation: fence.incarnation,
                    triggers: vec![trigger],
                })
            }
            Op::Release(which) => Write::Release(Release {
                fence: held(which)?.fence,
            }),
            Op::Park(which) => {
                let Held { fence, trigger } = held(which)?;
                Write::Park(Park {
                    fence,
                    trigger,
                    reason: "a case".into(),
                })
            }
            Op::Unpark => Write::Unpark(Unpark),
            Op::Publishing(by, op) => op.write(self.member(*by), &*self.model, &self.runs)?,
            Op::External(by, op) => op.write(self.member(*by), &*self.model, &self.runs)?,
            Op::Set(op) => op.write(&*self.model),
        })
    }

    fn step(&self, held: &Held, kind: Kind) -> Option<Commit> {
        let member = self.holder(held)?;
        let mut step = member.step(held);
        step.vars = vec![(
            ScopeNo::ROOT,
            format!("v{}", held.fence.version),
            windlass_model::Payload::null(),
        )];
        match kind {
            Kind::Leaf => {}
            Kind::Chained => step = member.chained(held, 2),
            Kind::Pending => step.triggers = vec![member.trigger(2)],
            Kind::Fork => {
                step = member.chained(held, 2);
                step.triggers.push(member.trigger(3));
            }
            Kind::Release => step.release = true,
            Kind::Suspend(bits) => history_external::suspend(&mut step, held, member, bits),
            Kind::Finish => step = member.last(held),
        }
        if !matches!(kind, Kind::Finish) {
            step.status = Status::Suspended;
        }
        Some(step)
    }

    /// Advances the expected fence as if the step had been committed, as a runtime does before the
    /// answer arrives.
    fn expect(&mut self, held: &Held, kind: Kind) {
        for other in &mut self.held {
            if other.fence == held.fence {
                other.fence.version.0 += 1;
                if other.trigger == held.trigger && matches!(kind, Kind::Chained | Kind::Fork) {
                    other.trigger.token.0 += 1;
                }
            }
        }
    }

    fn learn(&mut self, write: &Write, answer: &Result<Wrote>) {
        match (write, answer) {
            (Write::Create(new), Ok(Wrote::Create(Ok(Created::New)))) => {
                self.runs.push((**new).clone());
                let Some(incarnation) = new.owner else { return };
                for trigger in new.triggers.iter().filter(|trigger| trigger.claimed) {
                    let run = new.no;
                    let (epoch, version) = (crate::rows::BORN_EPOCH, crate::rows::BORN_VERSION);
                    let fence = crate::write::Fence {
                        incarnation,
                        run,
                        epoch,
                        version,
                    };
                    let token = windlass_model::Token(1);
                    let trigger = crate::write::TriggerFence {
                        no: trigger.no,
                        token,
                    };
                    self.held.push(Held { fence, trigger });
                }
            }
            (Write::Commit(commit), Ok(Wrote::Commit(DUE))) => self.find(&commit.children),
            (Write::Send(send), Ok(Wrote::Send(SendOutcome::Sent(sent)))) => {
                let starts = send.starts.iter().map(|(_, new)| new.clone());
                self.find(&starts.collect::<Vec<_>>());
                self.hold(
                    send.claim_for.map(|claim_for| claim_for.incarnation),
                    &sent.taken,
                );
            }
            (Write::Resume(resume), Ok(Wrote::Resume(sent))) => {
                self.hold(
                    resume.claim_for.map(|claim_for| claim_for.incarnation),
                    &sent.taken,
                );
            }
            (Write::Plan(plan), Ok(Wrote::Plan(Ok(Planned::Created(_))))) => {
                let new = plan.create.iter().map(|new| (**new).clone());
                self.runs.extend(new);
            }
            (
                Write::StartSchedule(start),
                Ok(Wrote::StartSchedule(Ok(StartedNow::Created(Created::New)))),
            ) => self.runs.push((*start.create).clone()),
            (Write::Claim(claim), Ok(Wrote::Claim(claims))) => {
                self.hold(Some(claim.incarnation), &claims.runs);
            }
            _ => {}
        }
    }

    /// Records the triggers that a member has claimed.
    fn hold(&mut self, by: Option<Incarnation>, claimed: &[ClaimedRun]) {
        let mut members = self.members.iter();
        let Some(member) = members.find(|member| Some(member.incarnation) == by) else {
            return;
        };
        for claimed in claimed {
            let rows = claimed.claimed.iter();
            self.held
                .extend(rows.map(|row| member.held(&claimed.row, row)));
        }
    }

    /// Records runs that a verb created as a side effect, if it did create them.
    fn find(&mut self, new: &[crate::rows::NewRun]) {
        for new in new {
            if self.model.run_by_no(new.no).unwrap().is_some() {
                self.runs.push(new.clone());
            }
        }
    }

    fn compare(&self) {
        let (model, tested) = (&self.model, &self.tested);
        assert_eq!(tested.counts().unwrap(), model.counts().unwrap());
        history_kept::compare(&**tested, &**model);
        history_external::compare(&**tested, &**model);
        history_set::compare(&**tested, &**model);
        for no in self.runs.iter().map(|new| new.no) {
            history_kept::compare_run(&**tested, &**model, no);
            history_external::compare_run(&**tested, &**model, no);
            let row = model.run_by_no(no).unwrap();
            assert_eq!(tested.run_by_no(no).unwrap(), row);
            assert_eq!(tested.triggers(no).unwrap(), model.triggers(no).unwrap());
            assert_eq!(
                tested.vars(no, ScopeNo::ROOT).unwrap(),
                model.vars(no, ScopeNo::ROOT).unwrap()
            );
            assert_eq!(tested.output(no).unwrap(), model.output(no).unwrap());
            let runs = |store: &Arc<dyn Store>| store.executions(no, None, 100).unwrap();
            assert_eq!(runs(tested), runs(model));
        }
    }

    /// Ends all memberships and runs, so that the next history is undisturbed.
    fn end(&mut self) {
        self.join();
        let last = self.members.last().unwrap();
        let incarnation = last.incarnation;
        let mut writes = vec![Write::Unpark(Unpark)];
        let leave = |member: &Member| {
            Write::Leave(Leave {
                incarnation: member.incarnation,
            })
        };
        writes.extend(
            self.members
                .iter()
                .filter(|m| m.incarnation != incarnation)
                .map(leave),
        );
        writes.push(Write::Reap(Reap {
            incarnation,
            limit: 1000,
        }));
        self.both(writes);
        for no in self.runs.iter().map(|new| new.no).collect::<Vec<_>>() {
            let scope = ClaimScope::Only(vec![no]);
            let (runs, triggers, now_ms) = (1, 1, i64::MAX);
            let claim = Claim {
                incarnation,
                now_ms,
                runs,
                triggers,
                bytes: 0,
                scope,
            };
            let answers = self.both(vec![Write::Claim(claim)]);
            let Ok(Wrote::Claim(claims)) = &answers[0] else {
                panic!("{answers:?}")
            };
            for claimed in &claims.runs {
                let last = self.members.last().unwrap();
                let held = last.held(&claimed.row, &claimed.claimed[0]);
                let finish = last.last(&held);
                self.both(vec![Write::Commit(Box::new(finish))]);
            }
        }
        self.both(vec![Write::Leave(Leave { incarnation })]);
        self.compare();
    }

    fn both(&self, writes: Vec<Write>) -> Vec<Result<Wrote>> {
        let modelled = batch(&*self.model, writes.clone());
        let answered = batch(&*self.tested, writes);
        let texts = |answers: &[Result<Wrote>]| answers.iter().map(told).collect::<Vec<_>>();
        assert_eq!(texts(&answered), texts(&modelled));
        modelled
    }
}

/// The answer as text, without the error message, which may differ between stores.
fn told(answer: &Result<Wrote>) -> String {
    match answer {
        Ok(wrote) => format!("{wrote:?}"),
        Err(error) => format!("{:?}", error.code),
    }
}
