//! Operations on a store in a process that runs no workflows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use windlass_keys::link::Target;
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{BookmarkNo, Digest, Payload, RunId};
use windlass_plugins::Host;
use windlass_runtime::operations::{self, Schedule};
use windlass_runtime::{Error, Operations, StartRequest, SystemClock};
use windlass_store::external::Scheduled;
use windlass_store::read::RunQuery;
use windlass_store::rows::DefinitionRow;
use windlass_store::stimuli::Sent;
use windlass_store::{MemoryStore, Reader as _};

const NOW_MS: i64 = 1_700_000_000_000;

struct Desk {
    store: Arc<MemoryStore>,
    host: Arc<Host>,
    client: Operations,
    tokio: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock::new());
        let options = windlass_plugins::Options::in_dir(dir.path());
        let host = Host::start(options, Arc::clone(&clock) as _, tokio.handle().clone()).unwrap();
        let store = MemoryStore::new(Arc::clone(&clock) as _);
        let plugins = Arc::new(Arc::clone(&host));
        Self {
            client: Operations::detached(Arc::clone(&store) as _, clock, plugins),
            store,
            host,
            tokio,
            _dir: dir,
        }
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.tokio.block_on(future)
    }

    fn publish(&self, workflow: &str) -> Result<operations::Published, Error> {
        operations::publish(&*self.store, &self.host, NOW_MS, row(workflow))
    }

    fn retract(&self) -> Option<u32> {
        let retracted = operations::retract_if(&*self.store, NOW_MS, "placed", |_| true);
        retracted.unwrap().unwrap()
    }

    fn send(&self, name: &str, shop: &str, correlation: Option<&str>) -> Result<Sent, Error> {
        let stimulus = Stimulus {
            name: name.to_owned(),
            matches: json!({ "shop": shop }),
            correlation: correlation.map(str::to_owned),
            run: None,
            input: Payload::of(&json!({ "order": 5 })),
            delivery: Delivery::StartAndResume,
            ttl_ms: 1_000,
            trace: None,
        };
        self.block_on(self.client.send(operations::new_stimulus_id(), stimulus))
    }

    fn runs(&self) -> usize {
        let query = RunQuery {
            limit: 10_000,
            ..RunQuery::default()
        };
        self.store.runs(&query).unwrap().len()
    }
}

fn row(workflow: &str) -> DefinitionRow {
    let read = windlass_model::file::read(workflow, "w.yaml");
    assert_eq!(read.diagnostics, []);
    let json = read.canonical().unwrap();
    DefinitionRow {
        digest: Digest::of(&json),
        name: read.definition.unwrap().name,
        json: json.into(),
    }
}

fn placed(options: &str) -> String {
    format!(
        "workflow: placed\ntriggers: {{ placed: {{ event: order.placed, match: {{ shop: berlin }} }}, \
         hourly: {{ every: 1h }} }}\nnodes: {{ a: {{ set: {{ x: 1 }} }} }}\noptions: {options}\n"
    )
}

#[test]
fn versions_are_counted_and_an_unchanged_text_is_no_version() {
    let desk = Desk::new();
    let first = desk.publish(&placed("{}")).unwrap();
    assert_eq!((first.version, first.unchanged), (1, false));
    assert_eq!((first.events, first.schedules), (1, 1));
    let again = desk.publish(&placed("{}")).unwrap();
    assert_eq!((again.version, again.unchanged), (1, true));
    let other = desk.publish(&placed("{ timeout: 5s }")).unwrap();
    assert_eq!((other.version, other.unchanged), (2, false));
    assert_eq!((desk.retract(), desk.retract()), (Some(2), None));
    assert!(desk.store.bindings_of("placed").unwrap().is_empty());
}

#[test]
fn a_schedule_whose_input_does_not_fit_is_not_published() {
    let running = crate::rig::Setup::default().start();
    let workflow = |input: &str| {
        crate::rig::definition(&format!(
            "workflow: planned\ninput: {{ type: object, required: [shop] }}\n\
             triggers: {{ daily: {{ cron: \"0 6 * * *\"{input} }}, now: {{ event: e }} }}\n\
             nodes: {{ only: {{ set: {{ done: true }} }} }}\n"
        ))
    };
    for input in ["", ", input: { shop2: 1 }"] {
        let published = running.try_publish(workflow(input));
        let Err(Error::Definition(wrong)) = published else {
            panic!("{published:?}")
        };
        let found: Vec<_> = wrong.iter().map(|one| one.code.as_str()).collect();
        assert_eq!(found, ["WL-D166"]);
        assert_eq!(wrong[0].place.pointer, "/triggers/daily/input");
    }
    running
        .try_publish(workflow(", input: { shop: b }"))
        .unwrap();
}

#[test]
fn a_workflow_that_cannot_run_is_not_published() {
    let desk = Desk::new();
    desk.publish(&placed("{}")).unwrap();
    let wrong = placed("{}").replace("set: { x: 1 }", "use: no/thing");
    assert!(matches!(desk.publish(&wrong), Err(Error::Definition(_))));
    let published = desk.store.published("placed").unwrap().unwrap();
    assert_eq!(published.version, 1);
}

#[test]
fn a_stimulus_starts_the_workflows_bound_to_it_and_no_other() {
    let desk = Desk::new();
    assert!(desk.send("order.placed", "berlin", None).unwrap().dropped);
    desk.publish(&placed("{}")).unwrap();
    let sent = desk
        .send("order.placed", "berlin", Some("order-5"))
        .unwrap();
    let started: RunId = sent.started[0];
    assert_eq!(sent.started.len(), 1);
    let run = desk.store.run(started).unwrap().unwrap();
    assert_eq!(run.correlation.as_deref(), Some("order-5"));
    let triggers = desk.store.triggers(run.no).unwrap();
    let kinds: Vec<_> = triggers.iter().map(|row| row.kind.name()).collect();
    assert_eq!(kinds, ["event"]);
    assert!(desk.send("order.placed", "paris", None).unwrap().dropped);
    assert!(desk.send("order.paid", "berlin", None).unwrap().dropped);
    assert_eq!(desk.runs(), 1);
}

#[test]
fn an_input_that_does_not_fit_starts_nothing() {
    let desk = Desk::new();
    let workflow = placed("{}") + "input: { required: [customer] }\n";
    desk.publish(&workflow).unwrap();
    let refused = desk.send("order.placed", "berlin", None);
    assert!(matches!(refused, Err(Error::Input(_))));
    assert_eq!(desk.runs(), 0);
}

#[test]
fn a_singleton_is_alone() {
    let desk = Desk::new();
    let workflow = placed("{ activation: singleton }");
    desk.publish(&workflow).unwrap();
    let first = desk.send("order.placed", "berlin", None).unwrap();
    let second = desk.send("order.placed", "berlin", None).unwrap();
    assert_eq!(
        (second.started, second.reserved),
        (vec![], first.started.clone())
    );
    let request = StartRequest {
        workflow: row(&workflow).into(),
        input: Payload::null(),
        id: None,
        correlation: None,
        trace: None,
    };
    match desk.block_on(desk.client.create_and_run(request)) {
        Err(Error::Reserved { by }) => assert_eq!(by, first.started[0]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn correlated_singletons_exclude_those_of_their_correlation() {
    let desk = Desk::new();
    desk.publish(&placed("{ activation: correlated-singleton }"))
        .unwrap();
    let started = |correlation| {
        let sent = desk.send("order.placed", "berlin", correlation).unwrap();
        sent.started.len()
    };
    let all = [Some("a"), Some("b"), Some("a"), None, None].map(started);
    assert_eq!(all, [1, 1, 0, 1, 1]);
}

#[test]
fn publishing_while_sending_starts_each_stimulus_once_or_not_at_all() {
    let desk = Desk::new();
    let done = AtomicBool::new(false);
    let started: usize = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                desk.publish(&placed("{}")).unwrap();
                desk.retract();
            }
        });
        let send = || match desk.send("order.placed", "berlin", None) {
            Ok(sent) => {
                assert_eq!(sent.dropped, sent.started.is_empty());
                sent.started.len()
            }
            // The workflow was published again and again meanwhile: nothing was changed.
            Err(Error::Refused { .. }) => 0,
            Err(error) => panic!("{error}"),
        };
        let started = (0..300).map(|_| send()).sum();
        done.store(true, Ordering::Relaxed);
        started
    });
    assert_eq!(desk.runs(), started);
}

#[test]
fn operations_on_missing_rows_name_them() {
    let desk = Desk::new();
    let unknown = RunId(uuid::Uuid::nil());
    let cancelled = desk.block_on(desk.client.cancel(unknown, Duration::ZERO));
    assert!(matches!(cancelled, Err(Error::NotFound(_))));
    let target = Target::Row(Digest([7; 32]));
    let resumed = desk.block_on(desk.client.resume(target, Payload::null()));
    assert!(resumed.unwrap().dropped);
    let resume = desk.client.resume_bookmark(BookmarkNo(7), Payload::null());
    assert!(desk.block_on(resume).unwrap().dropped);
    let long = "x".repeat(257);
    assert!(matches!(
        desk.send(&long, "berlin", None),
        Err(Error::Refused { .. })
    ));
}

#[test]
fn a_trigger_is_scheduled_once_for_a_node_that_exists() {
    let desk = Desk::new();
    desk.publish(&placed("{}")).unwrap();
    let run = desk.send("order.placed", "berlin", None).unwrap().started[0];
    let mut new = Schedule {
        id: None,
        run,
        node: "b".to_owned(),
        due_ms: Some(NOW_MS + 60_000),
        payload: json!({ "x": 5 }).as_object().cloned(),
        priority: 0,
    };
    let schedule = |new: &Schedule| desk.block_on(desk.client.schedule(new.clone()));
    assert!(matches!(schedule(&new), Err(Error::Refused { .. })));
    new.node = "a".to_owned();
    let (id, scheduled) = schedule(&new).unwrap();
    assert_eq!(scheduled, Scheduled::New);
    new.id = Some(id);
    assert_eq!(schedule(&new).unwrap(), (id, Scheduled::Already));
    new.priority = 5;
    assert_eq!(schedule(&new).unwrap(), (id, Scheduled::Conflict));
    new.run = RunId(uuid::Uuid::nil());
    assert_eq!(schedule(&new).unwrap(), (id, Scheduled::NoRun));
}
