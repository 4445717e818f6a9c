//! Hosts that die with thousands of claimed triggers: which of these run side by side afterwards,
//! and how many hosts die before the one poisonous trigger is found.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde_json::json;
use windlass_model::{Class, Clock, Digest, Payload, RunNo};
use windlass_plugins::Disposition;
use windlass_store::rows::{DefinitionRow, Suspicion};
use windlass_store::{MemoryStore, Reader as _, Store as _, Writer as _};

use super::clock::SimClock;
use super::graphs::ALL;
use super::guests::back;
use crate::catalog::{Catalog, Prepared};
use crate::options::{Options, Scope};
use crate::parts::Parts;
use crate::scheduler::core::Settings;
use crate::shard::BurstBounds;
use crate::shard::work::{Answer, Ask, Returned, Work};
use crate::starting::{Cause, Start};
use crate::topology::Topology;

/// The default number of triggers in flight.
const MANY: usize = 4_096;

/// The bound of triggers in flight with which a host claims as many: an eighth is left to new runs.
const IN_FLIGHT: u32 = 4_682;

/// The size of a group after two deaths.
const GROUP: usize = Suspicion::WIDEST as usize / 2;

/// A process that does all its work at once; only its calls wait.
struct Host {
    store: Arc<MemoryStore>,
    clock: Arc<SimClock>,
    parts: Parts,
    /// The calls that have begun.
    calls: VecDeque<Work>,
}

impl Host {
    fn start(root: &Arc<MemoryStore>, clock: &Arc<SimClock>) -> Self {
        let store = root.another();
        let options = Options {
            store: Arc::<MemoryStore>::clone(&store),
            plugins: Arc::clone(&ALL.host),
            clock: Arc::clone(clock) as Arc<dyn Clock>,
            io: ALL.tokio.handle().clone(),
            name: "process".to_owned(),
            scope: Scope::All,
            scheduler: Settings {
                in_flight: IN_FLIGHT,
                ..Settings::default()
            },
            workers: 2,
            spare_workers: 0,
            burst: BurstBounds::default(),
            beside: None,
            links: Arc::new(crate::Links::of_test()),
            exports: Arc::new(windlass_keys::export::ExportKeys::of_test()),
            topology: Topology::Local,
            max_steps: 1_000,
            max_descendants: 10_000,
            evaluation: crate::options::EvaluationMemory::default(),
            run_data_bytes: 0,
            run_state_bytes: 1 << 26,
            unwritten_bytes: u64::MAX,
            definition_bytes: 64 << 20,
            spans: None,
            observer: None,
            plugin_folders: None,
        };
        let mut parts = Parts::join(options, |_, work| work.here()).unwrap();
        let catalog = &parts.shared.base.catalog;
        catalog.keep(Arc::clone(&ALL.workflows[0]));
        catalog.keep(Arc::clone(&CHAIN));
        parts.driver.begin();
        let clock = Arc::clone(clock);
        let mut host = Self {
            store,
            clock,
            parts,
            calls: VecDeque::new(),
        };
        host.work();
        host
    }

    /// Writes a run, which no process owns.
    fn create(&self) -> RunNo {
        self.create_of(&ALL.workflows[0])
    }

    fn create_of(&self, prepared: &Arc<Prepared>) -> RunNo {
        let numbers = self.parts.membership.numbers();
        let start = Start {
            prepared: Arc::clone(prepared),
            input: Payload::null(),
            cause: Cause::Event {
                correlation: None,
                trace: None,
            },
        };
        let now_ms = self.clock.wall_ms();
        let new = start.accepted().unwrap().left(&numbers, now_ms).unwrap();
        let no = new.no;
        self.store.write(new).unwrap().unwrap();
        no
    }

    /// Does everything that needs no answer of a guest.
    fn work(&mut self) {
        let shared = Arc::clone(&self.parts.shared);
        loop {
            let mail: Vec<_> = std::iter::from_fn(|| self.parts.inbox.next()).collect();
            let mut idle = mail.is_empty();
            for mail in mail {
                self.parts.driver.take(mail);
            }
            for shard in &shared.shards {
                let mut messages = Vec::new();
                shard.take(&mut messages);
                idle &= messages.is_empty();
                let mut state = shard.state.lock();
                for message in messages {
                    state.take(message, &shared);
                }
                while let Some(next) = state.next(&shared) {
                    self.calls.push_back(next);
                }
                let writes = state.take_out();
                drop(state);
                idle &= writes.0.is_empty() && writes.1.is_empty();
                shard.submit(writes, self.store.as_ref());
            }
            if idle {
                return;
            }
        }
    }

    /// Ends the oldest call.
    fn end_one(&mut self) {
        let Some(work) = self.calls.pop_front() else {
            return;
        };
        assert!(matches!(work.ask, Ask::Accept(_)), "each call is handled");
        let answer = Answer::Accepted(back(Ok(Disposition::Handled), None));
        let shared = &self.parts.shared;
        let shard = shared.shard(work.to.run).unwrap();
        let returned = Returned {
            to: work.to,
            answer,
        };
        shard.state.lock().returned(returned, shared);
    }

    /// Ends the oldest call, whose step is not durable afterwards. Whether the next call has begun.
    fn runs_ahead(&mut self) -> bool {
        self.store.defer();
        self.end_one();
        self.work();
        assert_eq!(self.store.deferred_steps(), 1);
        !self.calls.is_empty()
    }

    fn calls(&self, run: RunNo) -> bool {
        self.calls.iter().any(|call| call.to.run == run)
    }

    /// Dies, with all its calls.
    fn die(self) {
        self.store.close();
    }
}

fn place() -> (Arc<MemoryStore>, Arc<SimClock>) {
    let clock = SimClock::new();
    let root = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
    (root, clock)
}

/// Creates runs by a process that leaves them to others.
fn with_runs(root: &Arc<MemoryStore>, clock: &Arc<SimClock>, count: usize) -> Vec<RunNo> {
    let maker = Host::start(root, clock);
    let runs = (0..count).map(|_| maker.create()).collect();
    maker.die();
    runs
}

#[test]
fn after_one_death_all_runs_side_by_side_and_after_two_in_groups_beside_other_work() {
    let (root, clock) = place();
    with_runs(&root, &clock, MANY);
    for _ in 0..2 {
        let host = Host::start(&root, &clock);
        assert_eq!(host.calls.len(), MANY);
        host.die();
    }
    let mut host = Host::start(&root, &clock);
    assert_eq!(host.calls.len(), GROUP);
    // The suspects that wait leave room for other work.
    let fresh = host.create();
    host.parts
        .shared
        .intake
        .scheduler
        .send(crate::scheduler::core::Event::Woken);
    host.work();
    assert!(host.calls(fresh), "other work runs beside the group");
    // The place of a suspect that has ended is taken by another one.
    let before = host.calls.len();
    host.end_one();
    host.work();
    assert!(host.calls.len() >= before);
    let all: usize = std::iter::from_fn(|| {
        host.end_one();
        host.work();
        (!host.calls.is_empty()).then_some(1)
    })
    .take(10 * MANY)
    .sum();
    assert!(all > MANY - GROUP, "all suspects have run");
    assert_eq!(host.parts.shared.intake.flow.in_flight(), 0);
}

/// A workflow of three nodes without effects.
static CHAIN: LazyLock<Arc<Prepared>> = LazyLock::new(|| {
    let node = json!({ "use": "sim/work" });
    let definition = json!({
        "workflow": "chain",
        "nodes": { "a": node, "b": node, "c": node },
        "edges": ["a -> b", "b -> c"],
    });
    let read = windlass_model::file::read(&definition.to_string(), "chain.json");
    let json: Bytes = read.canonical().unwrap().into();
    let row = DefinitionRow {
        digest: Digest::of(&json),
        name: "chain".to_owned(),
        json,
    };
    Catalog::default().prepare(row, &ALL.host).unwrap()
});

#[test]
fn a_run_whose_host_died_waits_at_each_node() {
    let (root, clock) = place();
    let maker = Host::start(&root, &clock);
    maker.create_of(&CHAIN);
    maker.die();
    let mut host = Host::start(&root, &clock);
    assert!(host.runs_ahead());
    host.die();

    let mut host = Host::start(&root, &clock);
    for _ in 0..2 {
        assert!(!host.runs_ahead(), "its next death would blame this node");
        host.store.carry_on(usize::MAX);
        host.store.deliver(usize::MAX);
        host.work();
        assert_eq!(host.calls.len(), 1);
    }
}

/// Takes some seconds: thousands of triggers are claimed again after each death.
#[test]
fn one_poisonous_trigger_among_thousands_is_found_within_14_deaths() {
    for poison in [0, MANY / 3, MANY - 1] {
        let (root, clock) = place();
        let runs = with_runs(&root, &clock, MANY);
        let poison = runs[poison];
        let mut deaths = 0;
        let lost = |no| {
            let executions = root.executions(no, None, u32::MAX).unwrap();
            let failures = executions.into_iter().filter_map(|one| one.failure);
            failures
                .map(|it| it.class)
                .any(|class| class == Class::Lost)
        };
        while !lost(poison) {
            let mut host = Host::start(&root, &clock);
            // Others end only if the poisonous trigger does not run beside them.
            while !host.calls(poison) && !host.calls.is_empty() && !lost(poison) {
                host.end_one();
                host.work();
            }
            deaths += u32::from(!lost(poison));
            assert!(deaths <= 14, "hosts die for ever");
            host.die();
        }
        assert!(deaths >= 12, "found after {deaths} deaths");
        for no in runs {
            assert!(no == poison || !lost(no), "a neighbour is blamed");
        }
    }
}
