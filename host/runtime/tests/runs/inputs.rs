//! What a trace says that nodes got, compared with what guests received.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_model::{Body, Payload, RunId, Status};
use windlass_runtime::operations::{Given, Inputs, Retry, Schedule, WithVersion, scope_of};
use windlass_runtime::transfer::{Accept, ImportTarget};
use windlass_runtime::{Operations, StartRequest, Started};
use windlass_store::Reader as _;
use windlass_store::rows::{ExecutionRow, RunRow};

use crate::rig::{Running, Setup, definition, json as read};

const PATIENCE: Duration = Duration::from_secs(120);

/// The nodes `e_…` give back what they got, `tries` reports its `with` as details of its failures.
const ALL: &str = r#"
workflow: all
vars: { n: 1, rate: 1.50 }
nodes:
  e_entry: { use: echo/echo }
  first: { set: { n: 2, rate: "{{ input.rate }}" } }
  e_read:
    use: echo/echo
    input: { n: "{{ vars.n }}", rate: "{{ vars.rate }}",
      run: "{{ run.id }} {{ run.correlation }} {{ workflow.name }} {{ trigger.type }}" }
  second: { set: { n: "{{ vars.n + 1 }}", big: "{{ 'x' * 100000 }}" } }
  e_alias: { use: echo/echo, input: "{{ vars.big }}" }
  lines:
    for-each: "{{ input.lines }}"
    nodes:
      e_item: { use: echo/echo }
      mine: { set: { n: "{{ index * 10 }}" } }
      inner:
        for-each: "{{ item }}"
        nodes:
          e_inner:
            use: echo/echo
            input: { item: "{{ item }}", at: "{{ index }}", all: "{{ vars }}", outer: "{{ nodes.e_item.output }}" }
        output: "{{ nodes.e_inner.output.at }}"
    edges: [e_item -> mine, mine -> inner]
    output: "{{ nodes.inner.output }}"
  third: { set: { n: 99 } }
  child: { workflow: small, input: { n: "{{ vars.n }}" } }
  pause: { wait: 30ms }
  fourth: { set: { n: 100 } }
  tries:
    use: steps/fail
    with: { class: retryable, details: { n: "{{ vars.n }}", attempt: "{{ trigger.attempt }}" } }
    retry: { max-attempts: 6, delay: 10ms, backoff: fixed, jitter: false }
    on-error: continue
  e_both: { use: echo/echo }
  e_round: { use: echo/echo, input: "{{ vars.round | default(0) }}" }
  round: { set: { round: "{{ nodes.e_round.output + 1 }}" } }
  e_last: { use: echo/echo, input: "{{ nodes }}" }
edges:
  - e_entry -> first
  - first -> e_read
  - e_read -> second
  - second -> e_alias
  - e_alias -> lines
  - lines -> third
  - third -> child
  - child -> tries
  - child -> pause
  - pause -> fourth
  - tries -> e_both
  - fourth -> e_both
  - e_both -> e_round
  - e_round -> round
  - round -> e_round: vars.round < 3
  - round -> e_last: else
output: "{{ vars.n }}"
"#;

const SMALL: &str = r#"
workflow: small
nodes: { e_only: { use: echo/echo } }
output: "{{ nodes.e_only.output }}"
"#;

fn setup() -> Setup {
    let setup = Setup {
        components: &["echo", "steps"],
        ..Setup::default()
    };
    setup.beside("small", SMALL)
}

fn start(running: &Running, workflow: &str, input: &str) -> Started {
    let request = StartRequest {
        workflow: definition(workflow).into(),
        input: Payload::json(input.to_owned()),
        id: None,
        correlation: Some("c-1".to_owned()),
        trace: None,
    };
    let [client, _] = running.clients();
    running.block_on(client.create_and_run(request)).unwrap()
}

fn run(running: &Running, workflow: &str, input: &str, status: Status) -> RunId {
    let started = start(running, workflow, input);
    let result = running.ended(started.no);
    assert_eq!(result.status, status, "{:?}", result.failure);
    started.id
}

/// The executions of a run, oldest first: the names of their nodes, their records, and what they got.
struct Trace {
    row: RunRow,
    got: Vec<(String, ExecutionRow, Inputs)>,
}

impl Trace {
    fn of(running: &Running, client: &Operations, id: RunId) -> Self {
        let store = running.store.as_ref();
        let row = store.run(id).unwrap().unwrap();
        let stored = store.definition(row.definition).unwrap().unwrap();
        let file = windlass_model::file::read_canonical(&stored.json).unwrap();
        let names = file.node_names();
        let mut got = Vec::new();
        for record in store.executions(row.no, None, 1_000).unwrap() {
            let inputs = client.inputs(&row, &record).unwrap();
            let name = names.get(record.node as usize).unwrap().to_string();
            got.insert(0, (name, record, inputs));
        }
        Self { row, got }
    }

    fn of_node(&self, node: &str) -> Vec<&Inputs> {
        let of = self.got.iter().filter(|(name, ..)| name == node);
        of.map(|(.., inputs)| inputs).collect()
    }

    /// The positions of the items around the executions of a node that ran in a body. The list is
    /// the execution of the for-each around it.
    fn scopes(&self, node: &str) -> Vec<Vec<u32>> {
        let of = self.got.iter().filter(|(name, ..)| name == node);
        let scopes = of.filter_map(|(_, record, _)| scope_of(record));
        let scopes = scopes.inspect(|scope| {
            let list = self
                .got
                .iter()
                .find(|(_, record, _)| record.no == scope.list);
            let around = if node == "e_inner" { "inner" } else { "lines" };
            assert_eq!(list.unwrap().0, around);
        });
        scopes.map(|scope| scope.item).collect()
    }

    /// Compares the inputs of the trace with those that the guests report. Returns their number.
    fn agrees(&self, running: &Running, from: fn(Payload) -> Given) -> usize {
        let mut compared = 0;
        for (name, record, inputs) in &self.got {
            let value = |payload: &Payload| match &payload.body {
                Body::Inline(_) => read(payload),
                Body::Blob(blob) => {
                    let bytes = running.store.blob(*blob).unwrap().unwrap();
                    serde_json::from_slice(&bytes).unwrap()
                }
            };
            let (given, got) = if name.starts_with("e_") {
                (&inputs.input, value(record.output.as_ref().unwrap()))
            } else if name == "tries" {
                let failure = record.failure.as_ref().unwrap();
                let details = failure.details.as_ref().unwrap().value().unwrap();
                (
                    &inputs.with,
                    json!({ "class": "retryable", "details": details }),
                )
            } else {
                continue;
            };
            let (Some(Given::Recorded(shown) | Given::Recomputed(shown)), Some(given)) =
                (given, given)
            else {
                panic!("{name}: {given:?}, and it got {got}");
            };
            assert_eq!(*given, from(shown.clone()), "{name}");
            let mut shown = value(shown);
            if let Some(with) = shown.as_object_mut().filter(|_| name == "tries") {
                with.retain(|key, _| ["class", "details"].contains(&key.as_str()));
            }
            assert_eq!(shown, got, "{name}");
            compared += 1;
        }
        compared
    }
}

/// Rounds, two lists of items, six attempts, and the others once.
const COMPARED: usize = 3 + 2 + 3 + 6 + 5;

const INPUT: &str = r#"{"rate":2.50,"lines":[["a","b"],["c"]]}"#;

#[test]
fn a_trace_shows_the_inputs_that_the_guests_received() {
    let running = setup().start();
    let id = run(&running, ALL, INPUT, Status::Completed);
    for client in running.clients() {
        let trace = Trace::of(&running, &client, id);
        assert_eq!(trace.agrees(&running, Given::Recomputed), COMPARED);
        // Nodes that take no input have their scopes, too.
        let wanted: [(&str, &[&[u32]]); 5] = [
            ("e_inner", &[&[0, 0], &[0, 1], &[1, 0]]),
            ("inner", &[&[0], &[0], &[1], &[1]]),
            ("e_item", &[&[0], &[1]]),
            ("mine", &[&[0], &[1]]),
            ("lines", &[]),
        ];
        for (node, items) in wanted {
            let mut found = trace.scopes(node);
            found.sort_unstable();
            assert_eq!(found, items, "{node}");
        }
        for node in ["first", "lines", "pause"] {
            for inputs in trace.of_node(node) {
                assert_eq!(*inputs, Inputs::default(), "{node}");
            }
        }
        // A child got what its run has as its input.
        let children = running.store.children(trace.row.no, None, 10).unwrap();
        let child = running.store.input(children.first().unwrap().no).unwrap();
        let given = trace.of_node("child").first().unwrap().input.clone();
        assert_eq!(given, child.map(Given::Recomputed));
        let small = Trace::of(&running, &client, children.first().unwrap().id);
        assert_eq!(small.agrees(&running, Given::Recomputed), 1);
    }
}

#[test]
fn an_imported_run_shows_the_same_but_for_its_id() {
    let running = setup().start();
    let id = run(&running, ALL, INPUT, Status::Completed);
    let [client, _] = running.clients();
    let document = running.block_on(client.export(id)).unwrap();
    let before = Trace::of(&running, &client, id);
    let other = RunId(uuid::Uuid::from_u128(77));
    let place = ImportTarget::As(other);
    let imported = client.import(document, place, Accept::Unsigned);
    running.block_on(imported).unwrap();
    let after = Trace::of(&running, &client, other);
    let mut others = 0;
    for ((name, _, was), (_, _, now)) in before.got.iter().zip(&after.got) {
        if name == "e_read" {
            let why = "the run had another id".to_owned();
            assert_eq!(now.input, Some(Given::Missing(why)));
            others += 1;
        } else {
            assert_eq!(was, now, "{name}");
        }
    }
    assert_eq!((others, before.got.len()), (1, after.got.len()));
}

#[test]
fn inputs_are_recorded_whole_in_the_commit_of_their_execution() {
    let running = setup().start();
    let workflow = format!("{ALL}options: {{ record: inputs }}\n");
    let id = run(&running, &workflow, INPUT, Status::Completed);
    let [client, _] = running.clients();
    let trace = Trace::of(&running, &client, id);
    assert_eq!(trace.agrees(&running, Given::Recorded), COMPARED);
    // Over 64 KiB it is a blob of the same commit, and equal values are one blob.
    let given = trace.of_node("e_alias").first().unwrap().input.clone();
    let Some(Given::Recorded(Payload {
        body: Body::Blob(blob),
        ..
    })) = given
    else {
        panic!("{given:?}");
    };
    let (_, record, _) = trace
        .got
        .iter()
        .find(|(name, ..)| name == "e_alias")
        .unwrap();
    let commits = running.commits();
    let by = commits.iter().find(|commit| {
        let mut records = commit.executions.iter();
        records.any(|it| it.no == record.no)
    });
    let blobs = &by.unwrap().blobs;
    assert!(blobs.iter().any(|it| it.digest == blob.digest));
    assert!(record.inputs.len() < 200, "{}", record.inputs.len());
}

#[test]
fn a_value_that_cannot_be_known_is_missing_and_never_another() {
    let running = setup().start();
    // The variable comes with triggers from outside, so no record has it.
    let workflow = "workflow: late\nvars: { n: 0 }\nnodes:\n  wait: { event: over }\n  \
                    e_read: { use: echo/echo, input: \"{{ vars.n }}\" }\nedges: [wait -> e_read]\n";
    let started = start(&running, workflow, "null");
    let [client, _] = running.clients();
    for n in 1..=3 {
        let schedule = Schedule {
            id: None,
            run: started.id,
            node: "e_read".to_owned(),
            due_ms: None,
            payload: json!({ "n": n }).as_object().cloned(),
            priority: 0,
        };
        running.block_on(client.schedule(schedule)).unwrap();
        running.until("it has read the variable", |store| {
            store.executions(started.no, None, 10).unwrap().len() > n
        });
    }
    let trace = Trace::of(&running, &client, started.id);
    let inputs: Vec<_> = trace.of_node("e_read").into_iter().collect();
    let shown = |inputs: &Inputs| inputs.input.clone().unwrap();
    let missing = Given::Missing(
        "the variable `n` had another value then, and it is not found any more".to_owned(),
    );
    let all: Vec<Given> = inputs.into_iter().map(shown).collect();
    assert_eq!(
        all,
        [
            missing.clone(),
            missing,
            Given::Recomputed(Payload::json("3"))
        ]
    );
}

#[test]
fn a_link_is_neither_shown_nor_recorded() {
    let workflow = |options: &str| {
        format!(
            "workflow: ask\nnodes:\n  e_tell: {{ use: echo/echo, input: {{ to: \"{{{{ \
             nodes.ask.link }}}}\" }} }}\n  ask: {{ event: answered }}\nedges: [e_tell -> ask]\n\
             {options}"
        )
    };
    let running = setup().start();
    let [client, _] = running.clients();
    for options in ["", "options: { record: inputs }\n"] {
        let started = start(&running, &workflow(options), "null");
        running.suspended(started.no);
        let trace = Trace::of(&running, &client, started.id);
        let given = trace.of_node("e_tell").first().unwrap().input.clone();
        let Some(Given::Missing(why)) = given else {
            panic!("{given:?}");
        };
        assert!(why.contains("link"), "{why}");
        let stored = trace.got.iter().map(|(_, record, _)| &record.inputs);
        assert!(stored.into_iter().all(|bytes| bytes.len() < 8), "{options}");
    }
}

#[test]
fn a_retry_does_not_change_the_inputs_of_earlier_executions() {
    let old = "workflow: order\nnodes:\n  e_one: { use: echo/echo, input: { a: \"{{ input.a }}\", v: \
               1 } }\n  two: { fail: bad }\nedges: [e_one -> two]\n";
    let new = old
        .replace("v: 1", "v: 2")
        .replace("fail: bad", "set: { x: 1 }");
    let running = setup().start();
    let [client, _] = running.clients();
    running.publish(old);
    let id = run(&running, old, r#"{"a":1}"#, Status::Faulted);
    running.publish(&new);
    let retry = |retry: Retry| {
        let standing = running.block_on(client.retry(id, retry, PATIENCE));
        standing.unwrap();
    };
    retry(Retry {
        from: Some("e_one".to_owned()),
        definition: Some(WithVersion::Number(1)),
        ..Retry::default()
    });
    retry(Retry {
        from: Some("e_one".to_owned()),
        definition: Some(WithVersion::Latest),
        input: None,
        run_input: Some(Payload::json(r#"{"a":2}"#)),
    });
    let trace = Trace::of(&running, &client, id);
    let shown: Vec<Value> = trace
        .of_node("e_one")
        .into_iter()
        .map(|inputs| match inputs.input.as_ref().unwrap() {
            Given::Recomputed(payload) | Given::Recorded(payload) => read(payload),
            Given::Missing(why) => Value::String(why.clone()),
        })
        .collect();
    let replaced = json!("a retry replaced the input of the run");
    assert_eq!(
        shown,
        [replaced.clone(), replaced, json!({ "a": 2, "v": 2 })]
    );
    assert_eq!(trace.row.status, Status::Completed);
    // An edited input is stored.
    let edited = run(&running, old, r#"{"a":1}"#, Status::Faulted);
    let again = Retry {
        from: Some("e_one".to_owned()),
        input: Some(Payload::json("[7]")),
        definition: Some(WithVersion::Latest),
        ..Retry::default()
    };
    running
        .block_on(client.retry(edited, again, PATIENCE))
        .unwrap();
    let trace = Trace::of(&running, &client, edited);
    let given = trace.of_node("e_one");
    let given: Vec<_> = given.iter().map(|it| it.input.clone().unwrap()).collect();
    let first = Given::Recomputed(Payload::json(r#"{"a":1,"v":1}"#));
    assert_eq!(given, [first, Given::Recorded(Payload::json("[7]"))]);
}
