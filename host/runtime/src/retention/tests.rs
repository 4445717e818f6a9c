//! Rounds over a store in memory, with a clock that only the tests move.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;
use windlass_model::{
    Clock, Digest, ExecutionStatus, Incarnation, Numbers, Payload, RunId, RunNo, Seq, ShortBytes,
    Status, Token, TriggerType,
};
use windlass_store::rows::{
    BORN_EPOCH, BORN_VERSION, Created, DefinitionRow, ExecutionRow, JournalRow, NewRun, NewTrigger,
    PinsRow, TreeBound,
};
use windlass_store::write::{Commit, Committed, Fence, Finish, NewMember, TriggerFence};
use windlass_store::{MemoryStore, Reader as _, Store, Write, Writer as _};

use super::{Options, Round, Sweeper};
use crate::error::Error;

const DAY_MS: i64 = 24 * 3_600_000;

#[derive(Default)]
struct TestClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicU64,
    /// How far each read of the monotonic time advances it.
    step_ms: AtomicU64,
}

impl TestClock {
    fn set(&self, ms: i64) {
        self.wall_ms.store(ms, Ordering::SeqCst);
    }

    /// Advances both times.
    fn pass(&self, ms: u32) {
        self.wall_ms.fetch_add(ms.into(), Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms.into(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        let step_ms = self.step_ms.load(Ordering::SeqCst);
        Duration::from_millis(self.monotonic_ms.fetch_add(step_ms, Ordering::SeqCst))
    }
}

/// A member of a store in memory.
struct World {
    clock: Arc<TestClock>,
    store: Arc<MemoryStore>,
    numbers: Numbers,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(TestClock::default());
        let store = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let numbers = Numbers::new(join(&store));
        Self {
            clock,
            store,
            numbers,
        }
    }

    fn sweeper(&self, archive: Option<&Path>) -> Sweeper {
        let options = Options {
            archive: archive.map(Path::to_owned),
            ..Options::default()
        };
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        Sweeper::new(store, Arc::clone(&self.clock) as Arc<dyn Clock>, options)
    }

    fn round(&self, sweeper: &Sweeper) -> Result<Option<Round>, Error> {
        sweeper.round(self.numbers.incarnation(), &|| false)
    }

    /// A run with this number of executions that ends now.
    fn ended(&self, executions: u32, output: &Payload) -> (RunNo, RunId) {
        let (no, trigger) = (self.numbers.run().unwrap(), self.numbers.trigger().unwrap());
        let id = RunId(Uuid::from_u128(no.0 as u128));
        let at_ms = self.clock.wall_ms();
        let text = "workflow: orders
nodes:
  pack:
    use: data/set@1
";
        let definition = windlass_model::file::read(text, "orders.yaml").canonical();
        let definition = Bytes::from(definition.unwrap());
        let owner = self.numbers.incarnation();
        let new = NewRun {
            no,
            id,
            definition: Arc::new(DefinitionRow {
                digest: Digest::of(&definition),
                name: "orders".into(),
                json: definition,
            }),
            pins: Arc::new(PinsRow {
                digest: Digest::of(b"{}"),
                json: "{}".into(),
            }),
            correlation: Some("order 7".into()),
            tags: windlass_model::Tags::new(),
            request: Digest::of(b"request"),
            owner: Some(owner),
            state: Bytes::new(),
            input: Payload::json("{\n  \"n\": 12345678901234567890123\n}"),
            vars: vec![("v".into(), output.clone())],
            triggers: vec![NewTrigger {
                no: trigger,
                seq: Seq(1),
                kind: TriggerType::Start,
                node: Some(0),
                due_ms: 0,
                claimed: true,
                attempt: 1,
                detail: Bytes::new(),
                payload: None,
                priority: 0,
            }],
            parent: None,
            tree: None,
            keep_ms: None,
            journal: Vec::new(),
            reserves: Vec::new(),
            exclusive: None,
            blobs: Vec::new(),
            as_of: None,
            created_ms: at_ms,
            trace: None,
        };
        assert_eq!(self.store.write(new).unwrap(), Ok(Created::New));
        let mut previous = None;
        let runs = (0..executions).map(|_| {
            let run = self.run(no, previous, output);
            previous = Some(run.no);
            run
        });
        let (kind, detail) = ("completed".into(), "{\"why\":\"done\"}".into());
        let commit = Commit {
            fence: Fence {
                incarnation: owner,
                run: no,
                epoch: BORN_EPOCH,
                version: BORN_VERSION,
            },
            trigger: TriggerFence {
                no: trigger,
                token: Token(1),
            },
            status: Status::Completed,
            state: Bytes::new(),
            executions: runs.collect(),
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
            journal: vec![JournalRow {
                at_ms,
                kind,
                detail,
            }],
            finish: Some(Finish {
                output: Some(output.clone()),
                failure: None,
            }),
            release: false,
            at_ms,
        };
        let committed = self.store.write(commit).unwrap();
        assert_eq!(committed, Ok(Committed { due: false }));
        (no, id)
    }

    fn run(
        &self,
        run: RunNo,
        previous: Option<windlass_model::ExecutionNo>,
        output: &Payload,
    ) -> ExecutionRow {
        ExecutionRow {
            no: self.numbers.execution().unwrap(),
            run,
            previous,
            seq: Seq(1),
            first: Seq(1),
            node: 0,
            kind: TriggerType::Start,
            attempt: 1,
            status: ExecutionStatus::Completed,
            started_ms: 20,
            took_us: 30,
            output: Some(output.clone()),
            failure: None,
            logs: Vec::new(),
            skipped: Vec::new(),
            inputs: ShortBytes::new(),
            event: ShortBytes::new(),
        }
    }

    fn runs(&self) -> u64 {
        self.store.counts().unwrap().runs
    }
}

fn join(store: &Arc<MemoryStore>) -> Incarnation {
    let (name, lease_ms, joined_ms) = ("case".into(), 1, 0);
    let member = NewMember {
        name,
        lease_ms,
        joined_ms,
    };
    store.write(member).unwrap()
}

fn lines(directory: &Path, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(directory.join(file)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or(Value::Null))
        .collect()
}

#[test]
fn ended_runs_are_kept_for_seven_days() {
    let world = World::new();
    let sweeper = world.sweeper(None);
    world.ended(1, &Payload::null());
    world.clock.set(DAY_MS);
    world.ended(1, &Payload::null());
    for (at_ms, left) in [
        (7 * DAY_MS, 2),
        (7 * DAY_MS + 60_000, 1),
        (8 * DAY_MS, 1),
        (9 * DAY_MS, 0),
    ] {
        world.clock.set(at_ms);
        assert!(world.round(&sweeper).unwrap().is_some());
        assert_eq!(world.runs(), left, "after {at_ms} ms");
    }
}

#[test]
fn one_member_does_it_for_all() {
    let world = World::new();
    let (sweeper, other) = (world.sweeper(None), join(&world.store));
    assert!(world.round(&sweeper).unwrap().is_some());
    assert_eq!(sweeper.round(other, &|| false).unwrap(), None);
    world.clock.set(60_000);
    assert!(sweeper.round(other, &|| false).unwrap().is_some());
    assert_eq!(world.round(&sweeper).unwrap(), None);
}

#[test]
fn a_long_round_is_one_members_alone() {
    let world = World::new();
    for _ in 0..20 {
        world.ended(1, &Payload::null());
    }
    let other = join(&world.store);
    let (mine, theirs) = (world.sweeper(None), world.sweeper(None));
    let stop = || {
        world.clock.pass(10_000);
        let theirs = theirs.round(other, &|| true).unwrap();
        assert_eq!(theirs, None);
        false
    };
    world.clock.set(8 * DAY_MS);
    let round = mine.round(world.numbers.incarnation(), &stop).unwrap();
    assert_eq!(round.unwrap().forgotten, 20);
    // A member that is delayed until another member has taken the duty stops between two slices.
    world.ended(1, &Payload::null());
    world.clock.set(17 * DAY_MS);
    let held_up = || {
        world.clock.pass(60_000);
        theirs.round(other, &|| true).unwrap();
        false
    };
    let round = mine.round(world.numbers.incarnation(), &held_up).unwrap();
    assert_eq!(round.unwrap().forgotten, 0);
}

#[test]
fn two_that_write_to_one_archive_do_not_mix_their_lines() {
    let world = World::new();
    let directory = tempfile::tempdir().unwrap();
    world.ended(1, &Payload::null());
    let sweeper = world.sweeper(Some(directory.path()));
    let path = directory.path().join("1970-01-01.ndjson");
    let another = std::fs::File::create(&path).unwrap();
    another.try_lock().unwrap();
    world.clock.set(8 * DAY_MS);
    assert!(matches!(world.round(&sweeper), Err(Error::Archive { .. })));
    another.unlock().unwrap();
    world.clock.set(9 * DAY_MS);
    assert_eq!(world.round(&sweeper).unwrap().unwrap().forgotten, 1);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn large_values_go_once_their_grace_period_is_over() {
    let world = World::new();
    let sweeper = world.sweeper(None);
    world.ended(1, &Payload::json(format!("\"{}\"", "x".repeat(70_000))));
    world.clock.set(8 * DAY_MS);
    assert_eq!(
        world.round(&sweeper).unwrap(),
        Some(Round {
            forgotten: 1,
            ..Round::default()
        })
    );
    world.clock.set(8 * DAY_MS + 3_600_000);
    assert_eq!(world.round(&sweeper).unwrap(), Some(Round::default()));
    world.clock.set(8 * DAY_MS + 3_700_000);
    assert_eq!(
        world.round(&sweeper).unwrap(),
        // The value, and the definition and the pins of the run.
        Some(Round {
            swept: 3,
            ..Round::default()
        })
    );
    assert_eq!(world.store.counts().unwrap().blobs, 0);
}

#[test]
fn a_round_that_is_stopped_leaves_the_rest() {
    let world = World::new();
    let sweeper = world.sweeper(None);
    for _ in 0..5 {
        world.ended(1, &Payload::null());
    }
    world.clock.set(8 * DAY_MS);
    let asked = AtomicI64::new(0);
    let stop = || asked.fetch_add(1, Ordering::SeqCst) > 2;
    let round = sweeper.round(world.numbers.incarnation(), &stop).unwrap();
    assert_eq!(round.unwrap().forgotten + world.runs(), 5);
    assert!(world.runs() > 0);
    world.clock.set(9 * DAY_MS);
    world.round(&sweeper).unwrap();
    assert_eq!(world.runs(), 0);
}

#[test]
fn runs_are_archived_by_the_day_they_ended() {
    let world = World::new();
    let directory = TempDir::new().unwrap();
    let sweeper = world.sweeper(Some(directory.path()));
    let text = Payload {
        content_type: Some("text/plain".into()),
        ..Payload::json("a\nb")
    };
    let (_, first) = world.ended(700, &Payload::json("[1,\n2]"));
    let (_, second) = world.ended(1, &text);
    world.clock.set(DAY_MS);
    let (_, third) = world.ended(1, &Payload::json("no json"));
    world.clock.set(9 * DAY_MS);
    assert_eq!(world.round(&sweeper).unwrap().unwrap().forgotten, 3);
    let found = lines(directory.path(), "1970-01-01.ndjson");
    assert_eq!(found.len(), 2);
    let run = &found[0];
    assert_eq!((&run["v"], &run["id"]), (&json!(1), &json!(first)));
    assert_eq!(
        (&run["workflow"], &run["status"]),
        (&json!("orders"), &json!("completed"))
    );
    assert_eq!(run["correlation"], json!("order 7"));
    assert_eq!(run["vars"]["v"], json!({ "json": [1, 2] }));
    assert_eq!(run["output"], json!({ "json": [1, 2] }));
    assert_eq!(run["journal"][0]["detail"]["json"]["why"], json!("done"));
    let executions = run["executions"].as_array().unwrap();
    assert_eq!(executions.len(), 700);
    assert_eq!(
        (&executions[0]["node"], &executions[0]["status"]),
        (&json!("pack"), &json!("completed"))
    );
    assert_eq!(executions[0]["output"], json!({ "json": [1, 2] }));
    let whole = fs::read_to_string(directory.path().join("1970-01-01.ndjson")).unwrap();
    assert!(
        whole.contains("12345678901234567890123"),
        "numbers are kept to the last digit"
    );
    let wanted = json!({ "base64": "YQpi", "content-type": "text/plain" });
    assert_eq!(
        (&found[1]["id"], &found[1]["output"]),
        (&json!(second), &wanted)
    );
    let found = lines(directory.path(), "1970-01-02.ndjson");
    assert_eq!((&found[0]["id"], found.len()), (&json!(third), 1));
    assert_eq!(found[0]["output"], json!({ "base64": "bm8ganNvbg==" }));
}

#[test]
fn large_values_are_archived_beside_the_lines() {
    let world = World::new();
    let directory = TempDir::new().unwrap();
    let sweeper = world.sweeper(Some(directory.path()));
    let text = format!("\"{}\"", "x".repeat(70_000));
    world.ended(2, &Payload::json(text.clone()));
    world.clock.set(8 * DAY_MS);
    world.round(&sweeper).unwrap();
    let found = lines(directory.path(), "1970-01-01.ndjson");
    let name = Digest::of(text.as_bytes()).hex();
    assert_eq!(
        found[0]["output"],
        json!({ "blob": name, "size": text.len() })
    );
    assert_eq!(found[0]["executions"][1]["output"]["blob"], json!(name));
    let kept = fs::read_to_string(directory.path().join("blobs").join(name)).unwrap();
    assert!(kept == text);
}

#[test]
fn a_torn_line_spoils_only_itself() {
    let world = World::new();
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("1970-01-01.ndjson");
    fs::write(&file, "{\"v\":1,\"id\":\"torn").unwrap();
    let sweeper = world.sweeper(Some(directory.path()));
    let (_, id) = world.ended(1, &Payload::null());
    world.clock.set(8 * DAY_MS);
    world.round(&sweeper).unwrap();
    let found = lines(directory.path(), "1970-01-01.ndjson");
    assert_eq!(found.len(), 2);
    assert_eq!((&found[0], &found[1]["id"]), (&Value::Null, &json!(id)));
}

#[test]
fn runs_that_cannot_be_archived_are_kept() {
    let world = World::new();
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("a file");
    fs::write(&file, "in the way").unwrap();
    let sweeper = world.sweeper(Some(&file));
    world.ended(1, &Payload::null());
    world.clock.set(8 * DAY_MS);
    let error = world.round(&sweeper).unwrap_err();
    assert_eq!(error.code(), crate::codes::ARCHIVE);
    assert_eq!(world.runs(), 1);
}

#[test]
fn slices_become_smaller_while_they_take_long() {
    let world = World::new();
    let sweeper = world.sweeper(None);
    for _ in 0..8 {
        world.ended(1, &Payload::null());
    }
    world.clock.set(8 * DAY_MS);
    let slices = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&slices);
    let clock = Arc::clone(&world.clock);
    world.store.set_faults(Some(Box::new(move |write| {
        if let Write::Forget(forget) = write {
            let mut seen = seen.lock();
            seen.push(forget.rows);
            // The store also reads the time, once for each write.
            clock
                .step_ms
                .store(if seen.len() < 5 { 30 } else { 0 }, Ordering::SeqCst);
        }
        None
    })));
    world.round(&sweeper).unwrap();
    assert_eq!(*slices.lock(), [128, 64, 32, 16, 16, 16, 32, 64]);
}
