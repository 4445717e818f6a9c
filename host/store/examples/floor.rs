//! Measures the cost of a step in the store alone: no run can be faster.
//!
//! The benchmark commits chains of steps in groups of several sizes, with 300,000 other triggers
//! pending, once with every group flushed and once without. The difference is the cost of the disk.
//!
//! `cargo run --release --example floor [-- DIRECTORY]`

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for measuring"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;
use windlass_model::{
    Clock, Digest, Epoch, ExecutionNo, ExecutionStatus, Incarnation, Numbers, Payload, RunId,
    RunNo, Seq, ShortBytes, Status, Token, TriggerNo, TriggerType, Version,
};
use windlass_store::rows::{
    BORN_EPOCH, Created, DefinitionRow, ExecutionRow, NewRun, NewTrigger, PinsRow, TreeBound,
};
use windlass_store::write::{Commit, Committed, Fence, NewMember, TriggerFence};
use windlass_store::{
    Durability, Result, Sink, SqliteOptions, SqliteStore, Store as _, Ticket, Write, Writer as _,
    Wrote,
};

const PENDING: usize = 300_000;
const STEPS: usize = 100_000;

struct Machine;

impl Clock for Machine {
    fn wall_ms(&self) -> i64 {
        now(rustix::time::ClockId::Realtime).as_millis() as i64
    }

    fn monotonic(&self) -> Duration {
        now(rustix::time::ClockId::Monotonic)
    }
}

fn now(clock: rustix::time::ClockId) -> Duration {
    let now = rustix::time::clock_gettime(clock);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// CPU time of all other threads of this process, of which only the writer thread works.
fn writer_time() -> Duration {
    now(rustix::time::ClockId::ProcessCPUTime) - now(rustix::time::ClockId::ThreadCPUTime)
}

type Answered = Vec<(Ticket, Result<Wrote>)>;

struct Answers(parking_lot::Mutex<Sender<Answered>>);

impl Sink for Answers {
    fn answered(&self, answers: Answered) {
        let _ = self.0.lock().send(answers);
    }
}

fn main() {
    let place = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    for durability in [Durability::Normal, Durability::Full] {
        let directory = tempfile::tempdir_in(&place).unwrap();
        measure(directory.path(), durability);
    }
}

fn measure(directory: &Path, durability: Durability) {
    let mut options = SqliteOptions::new(Arc::new(Machine));
    options.durability = durability;
    let store = SqliteStore::open(directory.join("floor.db"), options).unwrap();
    let member = NewMember {
        name: "floor".into(),
        lease_ms: 30_000,
        joined_ms: 0,
    };
    let incarnation = store.write(member).unwrap();
    let numbers = Numbers::new(incarnation);
    let (sender, receiver) = channel();
    let sink: Arc<dyn Sink> = Arc::new(Answers(parking_lot::Mutex::new(sender)));

    let begun = now(rustix::time::ClockId::Monotonic);
    for _ in 0..PENDING / 1000 {
        let creates = (0..10)
            .map(|ticket| (ticket, create(&numbers, None, 100).into()))
            .collect();
        submit(&store, &sink, &receiver, creates);
    }
    let took = now(rustix::time::ClockId::Monotonic) - begun;
    println!("{durability:?}: {PENDING} triggers pending after {took:.1?}");

    for size in [1, 16, 128, 512] {
        let steps = if size == 1 { STEPS / 50 } else { STEPS };
        let mut chains: Vec<Chain> = Vec::new();
        let creates = (0..size)
            .map(|ticket| {
                let new = create(&numbers, Some(incarnation), 1);
                chains.push(Chain::new(
                    incarnation,
                    new.no,
                    new.triggers.first().unwrap().no,
                ));
                (ticket as Ticket, new.into())
            })
            .collect();
        submit(&store, &sink, &receiver, creates);
        let groups = steps / size;
        let mut times = Vec::with_capacity(groups);
        let worked = writer_time();
        for _ in 0..groups {
            let writes = chains
                .iter_mut()
                .map(|chain| (0, chain.step(&numbers).into()))
                .collect();
            let begun = now(rustix::time::ClockId::Monotonic);
            submit(&store, &sink, &receiver, writes);
            times.push(now(rustix::time::ClockId::Monotonic) - begun);
        }
        let worked = writer_time() - worked;
        let total: Duration = times.iter().sum();
        times.sort();
        let median = times.get(groups / 2).copied().unwrap_or_default();
        println!(
            "{durability:?} {size:>4} per group: {:>6.2} µs of the processor per step, \
             {:>7.2} µs on the clock; group {median:>9.1?} median",
            worked.as_secs_f64() * 1e6 / (groups * size) as f64,
            total.as_secs_f64() * 1e6 / (groups * size) as f64,
        );
    }
}

fn submit(
    store: &SqliteStore,
    sink: &Arc<dyn Sink>,
    receiver: &Receiver<Answered>,
    writes: Vec<(Ticket, Write)>,
) {
    let mut left = writes.len();
    store.submit(sink, writes);
    while left > 0 {
        for (_, answer) in receiver.recv().unwrap() {
            assert!(
                matches!(
                    answer,
                    Ok(Wrote::Commit(Ok(Committed { due: false }))
                        | Wrote::Create(Ok(Created::New)))
                ),
                "{answer:?}"
            );
            left -= 1;
        }
    }
}

fn create(numbers: &Numbers, owner: Option<Incarnation>, triggers: u64) -> NewRun {
    let json = Bytes::from_static(b"{}");
    let trigger = |seq| NewTrigger {
        no: numbers.trigger().unwrap(),
        seq: Seq(seq),
        kind: TriggerType::Start,
        node: Some(0),
        due_ms: 1_000_000 + (seq * 7919 % 100_000) as i64,
        claimed: owner.is_some(),
        attempt: 1,
        detail: Bytes::from_static(b"12345678"),
        payload: None,
        priority: 0,
    };
    let digest = Digest::of(&json);
    let no = numbers.run().unwrap();
    NewRun {
        no,
        id: RunId(Uuid::from_u128((no.0 as u128) << 64)),
        definition: Arc::new(DefinitionRow {
            digest,
            name: "chain".into(),
            json: json.clone(),
        }),
        pins: Arc::new(PinsRow { digest, json }),
        correlation: None,
        tags: windlass_model::Tags::new(),
        request: digest,
        owner,
        state: Bytes::from_static(&[7; 48]),
        input: Payload::null(),
        vars: Vec::new(),
        triggers: (1..=triggers).map(trigger).collect(),
        parent: None,
        tree: None,
        keep_ms: None,
        journal: Vec::new(),
        reserves: Vec::new(),
        exclusive: None,
        blobs: Vec::new(),
        as_of: None,
        created_ms: 0,
        trace: None,
    }
}

/// A run whose every step has one successor, which the same member runs.
struct Chain {
    fence: Fence,
    trigger: TriggerFence,
    seq: u64,
    last_execution: Option<ExecutionNo>,
    output: Bytes,
}

impl Chain {
    fn new(incarnation: Incarnation, run: RunNo, trigger: TriggerNo) -> Self {
        let epoch: Epoch = BORN_EPOCH;
        Self {
            fence: Fence {
                incarnation,
                run,
                epoch,
                version: Version(0),
            },
            trigger: TriggerFence {
                no: trigger,
                token: Token(1),
            },
            seq: 1,
            last_execution: None,
            output: Bytes::from(format!("\"{}\"", "x".repeat(118))),
        }
    }

    fn step(&mut self, numbers: &Numbers) -> Commit {
        let no = numbers.execution().unwrap();
        let run = ExecutionRow {
            no,
            run: self.fence.run,
            previous: self.last_execution,
            seq: Seq(self.seq),
            first: Seq(self.seq),
            node: 1,
            kind: TriggerType::Next,
            attempt: 1,
            status: ExecutionStatus::Completed,
            started_ms: 1_790_000_000_000,
            took_us: 5,
            output: Some(Payload::json(self.output.clone())),
            failure: None,
            logs: Vec::new(),
            skipped: Vec::new(),
            inputs: ShortBytes::from_slice(&[1]),
            event: ShortBytes::from_slice(&[0, 0, 1, 2, 3]),
        };
        let successor = NewTrigger {
            no: self.trigger.no,
            seq: Seq(self.seq + 1),
            kind: TriggerType::Next,
            node: Some(1),
            due_ms: 1_790_000_000_000,
            claimed: true,
            attempt: 1,
            detail: Bytes::from_static(b"12345678"),
            payload: None,
            priority: 0,
        };
        let step = Commit {
            fence: self.fence,
            trigger: self.trigger,
            status: Status::Running,
            state: Bytes::from_static(&[7; 48]),
            executions: vec![run],
            triggers: vec![successor],
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
            at_ms: 1_790_000_000_000,
        };
        self.fence.version.0 += 1;
        self.trigger.token.0 += 1;
        self.seq += 1;
        self.last_execution = Some(no);
        step
    }
}
