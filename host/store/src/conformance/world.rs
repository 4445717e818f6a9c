//! Helpers that the cases are written with.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use uuid::Uuid;
use windlass_model::{
    Digest, ExecutionNo, ExecutionStatus, Incarnation, Numbers, Payload, RunId, RunNo, Seq,
    ShortBytes, Status, Token, TraceContext, TriggerNo, TriggerType,
};

use super::Harness;
use crate::letters::{LetterQuery, LetterRow};
use crate::rows::{
    BORN_EPOCH, BORN_VERSION, Created, DefinitionRow, ExecutionRow, JournalRow, NewRun, NewTrigger,
    PinsRow, RunRow, TreeBound, TriggerRow,
};
use crate::write::{
    Claim, ClaimScope, Claims, Commit, Committed, Fence, Finish, Mark, NewMember, OrFenced, Reap,
    Reaped, TriggerFence,
};
use crate::{Error, Result, Sink, Store, Ticket, Verb, Write, Writer as _, Wrote};

/// The lease of members in the cases, in milliseconds.
pub(crate) const LEASE_MS: u64 = 30_000;

/// A process that has joined as a member.
pub(crate) struct Member {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) incarnation: Incarnation,
    pub(crate) numbers: Numbers,
}

impl Member {
    /// Joins as a new process on the store.
    pub(crate) fn join(harness: &dyn Harness) -> Self {
        Self::of(harness.open())
    }

    /// Joins as one more member in an existing process.
    pub(crate) fn of(store: Arc<dyn Store>) -> Self {
        let new = NewMember {
            name: "case".into(),
            lease_ms: LEASE_MS,
            joined_ms: 5,
        };
        let incarnation = store.write(new).unwrap();
        Self {
            store,
            incarnation,
            numbers: Numbers::new(incarnation),
        }
    }

    pub(crate) fn write<V: Verb>(&self, verb: V) -> V::Answer {
        self.store.write(verb).unwrap()
    }

    /// Dies without releasing its work.
    pub(crate) fn die(&self) {
        self.store.close();
    }

    pub(crate) fn reap(&self, limit: u32) -> u32 {
        self.reap_of(limit).runs
    }

    pub(crate) fn reap_of(&self, limit: u32) -> Reaped {
        self.write(Reap {
            incarnation: self.incarnation,
            limit,
        })
    }

    /// Marks suspects as a group.
    pub(crate) fn mark(&self, group: &[Held]) -> OrFenced<()> {
        self.write(Mark {
            incarnation: self.incarnation,
            triggers: group.iter().map(|held| held.trigger).collect(),
        })
    }

    /// Members claim all due triggers one after another, and die.
    pub(crate) fn after_deaths(&self, harness: &dyn Harness, deaths: u32) {
        for _ in 0..deaths {
            let other = Self::join(harness);
            other.claim_all(1_000);
            other.die();
            self.reap(1_000);
        }
    }

    /// A trigger due at 10.
    pub(crate) fn trigger(&self, seq: u64) -> NewTrigger {
        NewTrigger {
            no: self.numbers.trigger().unwrap(),
            seq: Seq(seq),
            kind: TriggerType::Start,
            node: Some(3),
            due_ms: 10,
            claimed: false,
            attempt: 1,
            detail: Bytes::from_static(b"detail"),
            payload: None,
            priority: 0,
        }
    }

    /// An unowned run with this number of triggers due at 10.
    pub(crate) fn draft(&self, triggers: u64) -> NewRun {
        let no = self.numbers.run().unwrap();
        NewRun {
            no,
            id: RunId(Uuid::from_u128(0xabcd << 112 | no.0 as u128)),
            definition: definition("case"),
            pins: pins(),
            correlation: Some("order 7".into()),
            tags: windlass_model::Tags::new(),
            request: Digest::of(b"request"),
            owner: None,
            state: Bytes::from_static(b"begun"),
            input: Payload::json("{\"a\":1}"),
            vars: vec![("v".into(), Payload::json("1"))],
            triggers: (1..=triggers).map(|seq| self.trigger(seq)).collect(),
            parent: None,
            tree: None,
            keep_ms: None,
            journal: vec![JournalRow::event(7, &[18, 0])],
            reserves: Vec::new(),
            exclusive: None,
            blobs: Vec::new(),
            as_of: None,
            created_ms: 7,
            trace: (no.0 % 2 == 1).then(|| trace(7)),
        }
    }

    /// Creates the run and checks that it exists.
    pub(crate) fn create(&self, new: NewRun) -> RunNo {
        let no = new.no;
        assert_eq!(self.write(new), Ok(Created::New));
        no
    }

    /// A run that this member owns from its creation, with its only trigger claimed.
    pub(crate) fn born(&self) -> Held {
        let mut new = self.draft(1);
        new.owner = Some(self.incarnation);
        new.triggers[0].claimed = true;
        let held = Held::born(&new);
        self.create(new);
        held
    }

    pub(crate) fn claim(&self, now_ms: i64, runs: u32, triggers: u32) -> Claims {
        self.claim_of(now_ms, runs, triggers, ClaimScope::All)
    }

    pub(crate) fn claim_of(
        &self,
        now_ms: i64,
        runs: u32,
        triggers: u32,
        scope: ClaimScope,
    ) -> Claims {
        let incarnation = self.incarnation;
        self.write(Claim {
            incarnation,
            now_ms,
            runs,
            triggers,
            bytes: u64::MAX,
            scope,
        })
    }

    /// Claims until no more work is due, and returns all claimed triggers.
    pub(crate) fn claim_all(&self, now_ms: i64) -> Vec<Held> {
        let mut held = Vec::new();
        for _ in 0..1000 {
            let claims = self.claim(now_ms, 100, 100);
            for claimed in &claims.runs {
                held.extend(
                    claimed
                        .claimed
                        .iter()
                        .map(|row| self.held(&claimed.row, row)),
                );
            }
            if !claims.more {
                return held;
            }
        }
        panic!("a claim never comes to an end")
    }

    pub(crate) fn held(&self, row: &RunRow, trigger: &TriggerRow) -> Held {
        Held {
            fence: Fence {
                incarnation: self.incarnation,
                run: row.no,
                epoch: row.epoch,
                version: row.version,
            },
            trigger: TriggerFence {
                no: trigger.no,
                token: trigger.token,
            },
        }
    }

    /// A record of the execution of the claimed trigger.
    pub(crate) fn run(&self, held: &Held, previous: Option<ExecutionNo>) -> ExecutionRow {
        ExecutionRow {
            no: self.numbers.execution().unwrap(),
            run: held.fence.run,
            previous,
            seq: Seq(1),
            first: Seq(1),
            node: 3,
            kind: TriggerType::Start,
            attempt: 1,
            status: ExecutionStatus::Completed,
            started_ms: 20,
            took_us: 30,
            output: Some(Payload::json("\"out\"")),
            failure: None,
            logs: Vec::new(),
            skipped: Vec::new(),
            inputs: ShortBytes::from_slice(&[1, 0, 255]),
            event: ShortBytes::from_slice(&[0, 7]),
        }
    }

    /// A step that uses up the claimed trigger, with one record and no successor.
    pub(crate) fn step(&self, held: &Held) -> Commit {
        Commit {
            fence: held.fence,
            trigger: held.trigger,
            status: Status::Running,
            state: Bytes::from_static(b"stepped"),
            executions: vec![self.run(held, None)],
            triggers: Vec::new(),
            removed: Vec::new(),
            vars: Vec::new(),
            scopes: Vec::new(),
            items: Vec::new(),
            lists_done: Vec::new(),
            burned: Vec::new(),
            bookmarks: Vec::new(),
            sends: Vec::new(),
            children: Vec::new(),
            tree: TreeBound::NONE,
            cancels: Vec::new(),
            dead: Vec::new(),
            blobs: Vec::new(),
            journal: Vec::new(),
            finish: None,
            release: false,
            at_ms: 40,
        }
    }

    /// A step whose successor is claimed in the same row.
    pub(crate) fn chained(&self, held: &Held, seq: u64) -> Commit {
        let mut successor = self.trigger(seq);
        successor.claimed = true;
        Commit {
            triggers: vec![successor],
            ..self.step(held)
        }
    }

    /// The first ten dead letters.
    pub(crate) fn letters(&self) -> Vec<LetterRow> {
        let query = LetterQuery {
            limit: 10,
            ..LetterQuery::default()
        };
        self.store.dead_letters(&query).unwrap()
    }

    /// The reasons of these dead letters.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let letters = self.letters().into_iter();
        letters.map(|row| row.letter.reason).collect()
    }

    /// A step that ends the run.
    pub(crate) fn last(&self, held: &Held) -> Commit {
        let finish = Some(Finish {
            output: Some(Payload::json("2")),
            failure: None,
        });
        Commit {
            status: Status::Completed,
            finish,
            ..self.step(held)
        }
    }

    pub(crate) fn commit(&self, commit: Commit) -> OrFenced<Committed> {
        self.write(commit)
    }

    pub(crate) fn head(&self, no: RunNo) -> RunRow {
        self.store.run_by_no(no).unwrap().unwrap()
    }

    pub(crate) fn triggers(&self, no: RunNo) -> Vec<TriggerRow> {
        self.store.triggers(no).unwrap()
    }

    pub(crate) fn only_trigger(&self, no: RunNo) -> TriggerRow {
        let triggers = self.triggers(no);
        assert_eq!(triggers.len(), 1, "{triggers:?}");
        triggers[0].clone()
    }
}

/// A claimed trigger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) fence: Fence,
    pub(crate) trigger: TriggerFence,
}

impl Held {
    /// The first trigger of a run that is owned from its creation.
    pub(crate) fn born(new: &NewRun) -> Self {
        let fence = Fence {
            incarnation: new.owner.unwrap(),
            run: new.no,
            epoch: BORN_EPOCH,
            version: BORN_VERSION,
        };
        let trigger = TriggerFence {
            no: new.triggers[0].no,
            token: Token(1),
        };
        Self { fence, trigger }
    }

    /// The same trigger row after a step that turned it into a claimed successor.
    pub(crate) fn next(mut self) -> Self {
        self.fence.version.0 += 1;
        self.trigger.token.0 += 1;
        self
    }

    /// The same fence with another trigger row.
    pub(crate) fn with(mut self, no: TriggerNo, token: i64) -> Self {
        self.trigger = TriggerFence {
            no,
            token: Token(token),
        };
        self
    }
}

pub(crate) fn definition(name: &str) -> Arc<DefinitionRow> {
    let json = Bytes::from(format!("{{\"name\":\"{name}\"}}"));
    Arc::new(DefinitionRow {
        digest: Digest::of(&json),
        name: name.into(),
        json,
    })
}

pub(crate) fn pins() -> Arc<PinsRow> {
    let json = Bytes::from_static(b"{\"pins\":{}}");
    Arc::new(PinsRow {
        digest: Digest::of(&json),
        json,
    })
}

/// The step is durable and made no work due that needs a claim.
pub(crate) const DONE: OrFenced<Committed> = Ok(Committed { due: false });

/// The step is durable and made work due that needs a claim.
pub(crate) const DUE: OrFenced<Committed> = Ok(Committed { due: true });

/// Collects answers, and waits for them.
#[derive(Default)]
pub(crate) struct Answers {
    answers: Mutex<Vec<(Ticket, Result<Wrote>)>>,
    arrived: Condvar,
}

impl Sink for Answers {
    fn answered(&self, answers: Vec<(Ticket, Result<Wrote>)>) {
        self.answers.lock().extend(answers);
        self.arrived.notify_all();
    }
}

impl Answers {
    pub(crate) fn wait(&self, number: usize) -> Vec<(Ticket, Result<Wrote, Error>)> {
        let mut answers = self.answers.lock();
        while answers.len() < number {
            self.arrived.wait(&mut answers);
        }
        std::mem::take(&mut answers)
    }
}

/// Submits writes together and returns their answers.
pub fn batch(store: &dyn Store, writes: Vec<Write>) -> Vec<Result<Wrote>> {
    let answers = Arc::new(Answers::default());
    let sink: Arc<dyn Sink> = Arc::clone(&answers) as Arc<dyn Sink>;
    let number = writes.len();
    store.submit(&sink, (0..).zip(writes).collect());
    let answers = answers.wait(number);
    let tickets: Vec<Ticket> = answers.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(tickets, (0..number as Ticket).collect::<Vec<_>>());
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Submits verbs of one kind together and returns their answers.
pub(crate) fn batch_of<V: Verb>(
    store: &dyn Store,
    verbs: impl IntoIterator<Item = V>,
) -> Vec<Result<V::Answer>> {
    let writes = verbs.into_iter().map(Into::into).collect();
    batch(store, writes).into_iter().map(V::answer).collect()
}

/// A trace context.
pub(crate) fn trace(byte: u8) -> TraceContext {
    TraceContext::sampled([byte; 16], [byte; 8])
}
