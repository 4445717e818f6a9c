//! What a start costs once its definition is prepared: reads of the store, and claims.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Map;
use windlass_model::{Digest, Payload, RunId, http};
use windlass_runtime::operations::{Delivered, Delivery, Expected, Expects};
use windlass_runtime::{Operations, StartRequest, Topology, Workflow};
use windlass_store::published::Edition;
use windlass_store::rows::BORN_EPOCH;
use windlass_store::{Reader as _, Store as _, Write};

use crate::rig::{Running, Setup, definition};

const LEAF: &str = r#"
workflow: leaf
triggers:
  hook: { http: { method: POST, path: "/leaf/{id}" } }
  word: { event: go }
nodes:
  a: { set: { x: 1 } }
  skipped: { set: { x: 1 } }
edges:
  - { from: a, to: skipped, when: "trigger.type == 'cron'" }
"#;

const PARENT: &str = r#"
workflow: parent
nodes:
  call: { workflow: leaf }
"#;

/// Longer than any test takes.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// How long a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(120);

/// The readers that find definitions and runs. Threads of the process call the others at any time.
const FINDING: [&str; 5] = ["bindings", "definition", "pins", "published", "run"];

/// A process whose reads and creations are recorded.
struct Watched {
    running: Running,
    client: Operations,
    reads: Arc<Mutex<Vec<&'static str>>>,
    /// Of each written run, whether a process owned it from the beginning.
    owned: Arc<Mutex<Vec<bool>>>,
}

impl Watched {
    fn new(setup: &Setup) -> Self {
        let running = setup.start();
        let [client, _] = running.clients();
        running.publish(LEAF);
        running.publish(PARENT);
        let (reads, owned) = (Arc::default(), Arc::default());
        let (noted, seen) = (Arc::clone(&reads), Arc::clone(&owned));
        let witness = move |name: &'static str| {
            let noted: &Mutex<Vec<&'static str>> = &noted;
            noted.lock().extend(FINDING.contains(&name).then_some(name));
        };
        running.store.set_read_witness(Some(Box::new(witness)));
        running.store.set_witness(Some(Box::new(move |write| {
            let seen: &Mutex<Vec<bool>> = &seen;
            match write.write {
                Write::Create(new) => seen.lock().push(new.owner.is_some()),
                Write::Commit(step) => {
                    let children = step.children.iter();
                    seen.lock()
                        .extend(children.map(|child| child.owner.is_some()));
                }
                _ => {}
            }
        })));
        Self {
            running,
            client,
            reads,
            owned,
        }
    }

    /// Starts a run, waits for its end, and returns it with the reads and creations meanwhile.
    fn cost(&self, start: impl Fn(&Self) -> RunId) -> (RunId, Vec<&'static str>, Vec<bool>) {
        let store = &self.running.store;
        self.reads.lock().clear();
        self.owned.lock().clear();
        let id = start(self);
        // The look for the number is the last read of a run.
        let reads = std::mem::take(&mut *self.reads.lock());
        let no = store.run(id).unwrap().unwrap().no;
        self.reads.lock().clear();
        self.running.ended(no);
        let later = std::mem::take(&mut *self.reads.lock());
        let all = [reads, later].concat();
        (id, all, std::mem::take(&mut *self.owned.lock()))
    }

    fn call(&self, workflow: &str) -> RunId {
        let request = StartRequest {
            workflow: Workflow::Published(workflow.to_owned()),
            input: Payload::null(),
            id: None,
            correlation: None,
            trace: None,
        };
        let started = self.client.create_and_run(request);
        self.running.block_on(started).unwrap().id
    }

    fn deliver(&self, delivery: &[u8]) -> (RunId, bool) {
        let delivered = self.client.deliver(of_leaf(delivery));
        let delivered = self.running.block_on(delivered).unwrap();
        (delivered.id, delivered.existed)
    }

    /// Delivers to the trigger as it was looked up in the current edition.
    fn deliver_known(
        &self,
        delivery: &[u8],
        expects: Expects<'_>,
    ) -> Option<(Delivered, Expected)> {
        let edition = self.running.store.edition().unwrap();
        self.deliver_as_of(delivery, edition, expects)
    }

    fn deliver_as_of(
        &self,
        delivery: &[u8],
        edition: Edition,
        expects: Expects<'_>,
    ) -> Option<(Delivered, Expected)> {
        let delivery = of_leaf(delivery);
        let delivered = self.client.deliver_known(&delivery, edition, expects);
        self.running.block_on(delivered).unwrap()
    }
}

/// A delivery to the hook of the leaf.
fn of_leaf(delivery: &[u8]) -> Delivery {
    let request = http::Request {
        method: "POST".to_owned(),
        path: "/leaf/7".to_owned(),
        query: Map::new(),
        headers: Map::new(),
        body: http::Body {
            json: "{}".into(),
            payload: None,
            sent: "{}".into(),
            is_form: false,
        },
    };
    Delivery {
        definition: definition(LEAF).digest,
        workflow: "leaf".to_owned(),
        trigger: "hook".to_owned(),
        delivery: Some(Digest::of(delivery)),
        request: Arc::new(request),
        params: http::parameters("/leaf/{id}", "/leaf/7").unwrap(),
        trace: None,
    }
}

#[test]
fn a_warm_start_reads_no_definition_and_its_creation_is_its_claim() {
    let watched = Watched::new(&Setup::default());
    watched.cost(|it| it.call("parent"));
    watched.cost(|it| it.call("leaf"));
    let check = |name: &str, start: &dyn Fn(&Watched) -> RunId, reads: &[&str], owned: &[bool]| {
        let (id, read, of) = watched.cost(start);
        assert_eq!(read, reads, "{name}");
        assert_eq!(of, owned, "{name}");
        let row = watched.running.store.run(id).unwrap().unwrap();
        assert_eq!(row.epoch, BORN_EPOCH, "{name}: no claim was needed");
    };
    check("a call", &|it| it.call("leaf"), &[], &[true]);
    let deliver = |it: &Watched| it.deliver(b"one").0;
    check("a delivery", &deliver, &["run"], &[true]);
    let known = |it: &Watched| it.deliver_known(b"two", Expects::Nothing).unwrap().0.id;
    check("a delivery to a known trigger", &known, &[], &[true]);
    let child = |it: &Watched| it.call("parent");
    let reads = ["published"];
    let (_, read, owned) = watched.cost(child);
    assert_eq!(read, reads, "a parent and its child");
    assert_eq!(owned, [true, false]);
}

#[test]
fn a_delivery_that_comes_twice_starts_one_run_and_costs_one_read() {
    let watched = Watched::new(&Setup::default());
    let (first, existed) = watched.deliver(b"one");
    assert!(!existed);
    watched.cost(|it| {
        let (again, existed) = it.deliver(b"one");
        assert!(existed && again == first);
        again
    });
    let (_, reads, owned) = watched.cost(|it| it.deliver(b"one").0);
    assert_eq!((reads, owned), (vec!["run"], Vec::new()));
    // Deliveries at the same time do not find the run of each other: the store decides.
    let watched = Arc::new(watched);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| watched.deliver(b"two")))
            .collect();
        let delivered: Vec<_> = callers.into_iter().map(|it| it.join().unwrap()).collect();
        let new = delivered.iter().filter(|(_, existed)| !existed);
        assert_eq!(new.count(), 1);
        assert!(delivered.iter().all(|(id, _)| *id == delivered[0].0));
    });
}

#[test]
fn a_full_process_leaves_the_runs_that_it_creates_to_the_next_claim() {
    let full = Setup {
        in_flight: 0,
        ..Setup::default()
    };
    let watched = Watched::new(&full);
    let id = watched.call("leaf");
    let delivered = watched.deliver(b"one").0;
    assert_eq!(*watched.owned.lock(), [false, false]);
    for id in [id, delivered] {
        let row = watched.running.store.run(id).unwrap().unwrap();
        assert_eq!(row.owner, None);
    }
}

#[test]
fn a_known_delivery_starts_a_run_unless_it_is_repeated_or_a_workflow_was_published_since() {
    let watched = Watched::new(&Setup::default());
    watched.cost(|it| it.call("leaf"));
    let edition = watched.running.store.edition().unwrap();
    let known = |delivery| watched.deliver_as_of(delivery, edition, Expects::Nothing);
    assert!(known(b"one").is_some());
    assert!(known(b"one").is_none(), "only the store knows that run");
    assert!(watched.deliver(b"one").1);
    watched.running.publish(&LEAF.replace("x: 1", "x: 2"));
    assert!(known(b"two").is_none());
    assert!(!watched.deliver(b"two").1, "nothing was written before");
}

#[test]
fn the_sender_of_a_known_delivery_gets_an_output_or_the_end_without_a_read() {
    let watched = Watched::new(&Setup::default());
    watched.cost(|it| it.call("leaf"));
    let client = &watched.client;
    watched.cost(|it| {
        let (run, expected) = it.deliver_known(b"one", Expects::Output("a")).unwrap();
        let output = it.running.block_on(expected.output(FOR_EVER));
        let output = output.unwrap().unwrap();
        assert_eq!(output.inline().unwrap(), r#"{"x":1}"#);
        assert_eq!(*it.reads.lock(), [""; 0]);
        run.id
    });
    watched.cost(|it| {
        let (run, expected) = it.deliver_known(b"two", Expects::End).unwrap();
        let ended = it
            .running
            .block_on(client.result_of(run, expected, FOR_EVER));
        assert!(ended.unwrap().done);
        assert_eq!(*it.reads.lock(), [""; 0]);
        run.id
    });
    // Without an output of such a node, only the store knows more about the run.
    for node in ["skipped", "unknown"] {
        watched.cost(|it| {
            let expects = Expects::Output(node);
            let (run, expected) = it.deliver_known(node.as_bytes(), expects).unwrap();
            let output = it.running.block_on(expected.output(FOR_EVER));
            assert_eq!(output, None);
            run.id
        });
    }
}

#[test]
fn the_sender_of_a_known_delivery_waits_no_longer_than_its_run_though_another_process_has_it() {
    let full = Setup {
        in_flight: 0,
        ..Setup::default()
    };
    let watched = Watched::new(&full);
    let second = watched.running.second(Topology::Local);
    watched.cost(|it| it.call("leaf"));
    let expects = Expects::Output("a");
    let (_, expected) = watched.deliver_known(b"one", expects).unwrap();
    let output = watched.running.block_on(expected.output(FOR_EVER));
    assert_eq!(output, None, "only the store knows it");
    let (run, expected) = watched.deliver_known(b"two", Expects::End).unwrap();
    let wait = watched.client.result_of(run, expected, FOR_EVER);
    let wait = async { tokio::time::timeout(PATIENCE, wait).await };
    let ended = watched.running.block_on(wait).expect("it waits in vain");
    assert!(ended.unwrap().done);
    assert_eq!(*watched.owned.lock(), [false, false]);
    drop(second);
}
