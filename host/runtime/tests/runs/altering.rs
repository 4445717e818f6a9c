//! Failed runs that continue with another version of their workflow, by a client in the process that
//! runs them and by one in another.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_model::{Payload, RunId, Status};
use windlass_runtime::operations::{Retry, Schedule, Standing, WithVersion};
use windlass_runtime::{Error, Operations, StartRequest};
use windlass_store::Reader as _;
use windlass_store::rows::{ExecutionRow, RunRow};

use crate::rig::{Running, Setup, definition, json as read};

const PATIENCE: Duration = Duration::from_secs(120);

/// A run of the first text fails. Then the second is published, and the run is retried with it.
struct Tried {
    running: Running,
    client: Operations,
    id: RunId,
}

impl Tried {
    fn new(old: &str) -> Self {
        Self::by(old, 0)
    }

    fn by(old: &str, client: usize) -> Self {
        let running = Setup::default().start();
        let client = running.clients().into_iter().nth(client).unwrap();
        let request = StartRequest {
            workflow: definition(old).into(),
            input: Payload::json(r#"{"a":1}"#),
            id: Some(RunId(uuid::Uuid::from_u128(7))),
            correlation: None,
            trace: None,
        };
        let started = running.block_on(client.create_and_run(request)).unwrap();
        let ended = running.block_on(client.result(started.id, PATIENCE));
        assert_eq!(ended.unwrap().status, Status::Faulted);
        Self {
            running,
            client,
            id: started.id,
        }
    }

    fn retry(&self, from: Option<&str>, definition: WithVersion) -> Result<Standing, Error> {
        let retry = Retry {
            from: from.map(str::to_owned),
            input: None,
            run_input: None,
            definition: Some(definition),
        };
        self.running
            .block_on(self.client.retry(self.id, retry, PATIENCE))
    }

    fn with(&self, new: &str, from: Option<&str>) -> Result<Standing, Error> {
        self.running.publish(new);
        self.retry(from, WithVersion::Latest)
    }

    fn row(&self) -> RunRow {
        self.running.store.run(self.id).unwrap().unwrap()
    }

    /// The names of the executed nodes, by the definition that the run has now.
    fn executed(&self) -> Vec<String> {
        let row = self.row();
        let stored = self.running.store.definition(row.definition).unwrap();
        let read = windlass_model::file::read_canonical(&stored.unwrap().json).unwrap();
        let names = read.node_names();
        let records = self.running.store.executions(row.no, None, 100).unwrap();
        let records = records.iter().rev();
        records
            .map(|record| names.get(record.node as usize).unwrap().to_string())
            .collect()
    }

    /// The last report in the journal.
    fn report(&self) -> Value {
        let journal = self.running.store.journal(self.row().no).unwrap();
        let last = journal.iter().rfind(|row| row.kind == "retried").unwrap();
        let detail: Value = serde_json::from_slice(&last.detail).unwrap();
        detail.get("definition").unwrap().clone()
    }
}

fn output_of(standing: &Standing) -> Value {
    let result = standing.result.as_ref().unwrap();
    assert_eq!(result.status, Status::Completed, "{:?}", result.failure);
    read(result.output.as_ref().unwrap())
}

/// The run completes with this output.
#[track_caller]
fn completes(old: &str, new: &str, from: Option<&str>, expected: &Value) {
    for client in [0, 1] {
        let tried = Tried::by(old, client);
        let done = tried.with(new, from).unwrap();
        assert_eq!(output_of(&done), *expected);
    }
}

/// The retry is refused with a message that has this part, and the run is as it was.
#[track_caller]
fn refuses(old: &str, new: &str, from: Option<&str>, part: &str) {
    let tried = Tried::new(old);
    let before = tried.row();
    let refused = tried.with(new, from).unwrap_err();
    assert!(matches!(refused, Error::NotNow { .. }), "{refused:?}");
    assert!(refused.to_string().contains(part), "{refused}");
    assert_eq!(tried.row(), before);
    // The run can still be retried as it is.
    let plain = tried.client.retry(tried.id, Retry::default(), PATIENCE);
    let again = tried.running.block_on(plain).unwrap();
    assert_eq!(again.status, Status::Faulted);
}

const OLD: &str = r#"
workflow: w
nodes:
  first: { set: { n: 1 } }
  list:
    for-each: "{{ [1, 2] }}"
    nodes: { inner: { set: { y: 1 } } }
    output: "{{ item }}"
  bad: { set: { m: "{{ input.a + 'x' }}" } }
  last: { set: { z: 1 } }
edges: [first -> list, list -> bad, bad -> last]
"#;

#[test]
fn a_run_continues_with_a_repaired_definition() {
    let new = r#"
workflow: w
nodes:
  first: { set: { n: 1 } }
  list:
    for-each: "{{ [1, 2] }}"
    nodes: { inner: { set: { y: 1 } } }
    output: "{{ item }}"
  bad: { set: { m: "{{ input.a + 1 }}" } }
  added: { set: { k: 5 } }
  last: { set: { z: 1 } }
edges: [first -> list, list -> bad, bad -> added, added -> last]
output: ["{{ nodes.list.output }}", "{{ vars.m }}", "{{ vars.k }}", "{{ vars.n }}"]
"#;
    // `nodes.list.output` was made before any expression named it.
    completes(OLD, new, None, &json!([[1, 2], 2, 5, 1]));
    let tried = Tried::new(OLD);
    let before = tried.row().definition;
    tried.with(new, None).unwrap();
    // `added` comes before all others by its name, and takes no number from them.
    let executed = tried.executed();
    assert_eq!(
        executed,
        [
            "first", "list", "inner", "inner", "list", "bad", "bad", "added", "last"
        ]
    );
    let report = tried.report();
    let row = tried.row();
    assert_eq!(report["version"], 1);
    assert_eq!(report["before"], before.to_string());
    assert_eq!(report["now"], row.definition.to_string());
    assert_eq!(report["new_nodes"], json!(["added"]));
    assert_eq!(report["changed_nodes"], json!(["bad"]));
    assert_eq!(report["changed"], json!(["edges", "output"]));
    // It has ended, so it is not retried again.
    let again = tried.retry(None, WithVersion::Latest);
    assert!(matches!(again, Err(Error::NotNow { .. })), "{again:?}");
}

#[test]
fn a_version_can_be_named_and_each_repair_builds_on_the_one_before() {
    let bad = OLD.replace("input.a + 'x'", "input.a + 'y'");
    let more = bad.replace("last: {", "also: { set: { k: 1 } }\n  last: {");
    let more = more.replace("bad -> last]", "bad -> also, also -> last]");
    let good = more.replace("input.a + 'y'", "input.a + 1");
    let good = good.replace("also: { set", "aaa: { set: { q: 1 } }\n  also: { set");
    let good = good.replace("bad -> also,", "bad -> aaa, aaa -> also,");
    let tried = Tried::new(OLD);
    for text in [&bad, &more, &good] {
        tried.running.publish(text);
    }
    let missing = tried.retry(None, WithVersion::Number(9)).unwrap_err();
    assert!(missing.to_string().contains("no version 9"), "{missing}");
    for version in [1, 2] {
        let failed = tried.retry(None, WithVersion::Number(version)).unwrap();
        assert_eq!(failed.status, Status::Faulted);
        assert_eq!(tried.report()["version"], version);
    }
    // The published version leaves nothing out that the run has.
    let done = tried.retry(None, WithVersion::Number(3)).unwrap();
    assert_eq!(done.status, Status::Completed);
    let executed = tried.executed();
    let last: Vec<_> = executed.iter().skip(executed.len() - 4).collect();
    assert_eq!(last, ["bad", "aaa", "also", "last"]);
    assert_eq!(executed.iter().filter(|name| *name == "bad").count(), 4);
}

#[test]
fn an_execution_without_an_equal_place_is_refused_with_its_node() {
    let good = OLD.replace("input.a + 'x'", "input.a + 1");
    // A node with another name is another node.
    refuses(
        OLD,
        &good
            .replace("first: {", "other: {")
            .replace("first ->", "other ->"),
        None,
        "node `other`: it is new, and the run would never reach it",
    );
    refuses(
        OLD,
        &good
            .replace("bad: {", "other: {")
            .replace("-> bad", "-> other")
            .replace("bad ->", "other ->"),
        None,
        "node `bad`: the run ended in it, and the new version does not have it",
    );
    // The run would end without `last` in silence.
    let elsewhere = good.replace("bad -> last]", "first -> last]");
    refuses(
        OLD,
        &elsewhere,
        None,
        "node `last`: no node that runs again leads to it",
    );
    // The finished `list` would run again.
    let again = good.replace(
        "first -> list, list -> bad,",
        "first -> list, list -> bad, bad -> list,",
    );
    refuses(OLD, &again, None, "node `bad`: it is in another loop");
    // A way from a node that has ended would never be taken.
    let edge = good.replace("bad -> last]", "bad -> last, first -> last]");
    refuses(
        OLD,
        &edge,
        None,
        "node `last`: its edge from `first` is new",
    );
    let new = good.replace("last: {", "also: { set: { k: 1 } }\n  last: {");
    let new = new.replace("bad -> last]", "bad -> last, first -> also]");
    refuses(
        OLD,
        &new,
        None,
        "node `also`: it is new, and the run would never reach it",
    );
    let moved = good
        .replace(
            "nodes: { inner: { set: { y: 1 } } }",
            "nodes: { other: { set: { y: 1 } } }",
        )
        .replace("last: {", "inner: { set: { y: 1 } }\n  last: {")
        .replace("bad -> last]", "bad -> inner, inner -> last]");
    refuses(OLD, &moved, None, "node `inner`: it is in another for-each");
    let edge = good.replace("list -> bad,", "{ id: renamed, from: list, to: bad },");
    refuses(OLD, &edge, None, "node `bad`: the edge that led to it");
    let var = format!("{good}vars: {{ fresh: 1 }}\n");
    refuses(OLD, &var, None, "the variable `fresh` is new");
    let schema = format!("{good}input: {{ type: object, required: [b] }}\n");
    refuses(OLD, &schema, None, "refuses the input of the run");
    // Where the run starts over, no edge has been decided.
    let edge = good.replace("bad -> last]", "bad -> last, first -> last]");
    completes(OLD, &format!("{edge}output: 7\n"), Some("list"), &json!(7));
    // A mistake of the new version is no matter of the state.
    let tried = Tried::new(OLD);
    let none = tried.retry(None, WithVersion::Latest).unwrap_err();
    assert!(none.to_string().contains("no version of `w`"), "{none}");
}

#[test]
fn nodes_that_do_not_run_again_may_be_removed() {
    let good = OLD.replace("input.a + 'x'", "input.a + 1");
    let output = "output: \"{{ vars.m }}\"\n";
    // It has run.
    let without_first = good
        .replace("  first: { set: { n: 1 } }\n", "")
        .replace("first -> list, ", "");
    completes(OLD, &format!("{without_first}{output}"), None, &json!(2));
    // It has not run yet.
    let without_last = good
        .replace("  last: { set: { z: 1 } }\n", "")
        .replace(", bad -> last", "");
    completes(OLD, &format!("{without_last}{output}"), None, &json!(2));
    // A for-each with its nodes.
    let (before, rest) = good.split_once("  list:\n").unwrap();
    let (_, after) = rest.split_once("  bad:").unwrap();
    let without_list = format!("{before}  bad:{after}");
    let removed = without_list.replace("first -> list, list -> bad,", "");
    refuses(
        OLD,
        &removed,
        None,
        "node `bad`: the edge that led to it does not exist any more",
    );
    let led = without_list.replace("first -> list, list -> bad,", "first -> bad,");
    completes(OLD, &format!("{led}{output}"), Some("first"), &json!(2));
    // A start over abandons the node that failed.
    let without_bad = good
        .replace("  bad: { set: { m: \"{{ input.a + 1 }}\" } }\n", "")
        .replace("list -> bad, bad -> last", "list -> last");
    completes(
        OLD,
        &format!("{without_bad}output: 7\n"),
        Some("list"),
        &json!(7),
    );

    // The records of a removed node keep its name, and a later version may have it again.
    let tried = Tried::new(OLD);
    let bad = without_first.replace("input.a + 1", "input.a + 'y'");
    let failed = tried.with(&bad, None).unwrap();
    assert_eq!(failed.status, Status::Faulted);
    assert_eq!(tried.report()["removed_nodes"], json!(["first"]));
    let before = ["first", "list", "inner", "inner", "list", "bad", "bad"];
    assert_eq!(tried.executed(), before);
    let missing = tried.retry(Some("first"), WithVersion::Latest).unwrap_err();
    let text = missing.to_string();
    assert!(text.contains("no node `first`"), "{text}");
    let back = good.replace("first -> list,", "bad -> first,");
    let back = back.replace("list -> bad,", "list -> bad, first -> last,");
    let done = tried.with(&format!("{back}{output}"), None).unwrap();
    assert_eq!(output_of(&done), json!(2));
    assert_eq!(tried.report()["new_nodes"], json!(["first"]));
    let executed = tried.executed();
    assert_eq!(
        executed.get(before.len()..).unwrap(),
        ["bad", "first", "last"]
    );
}

#[test]
fn a_node_that_is_removed_in_the_middle_of_a_round_is_refused() {
    let join = r#"
workflow: j
nodes:
  first: { set: { n: 1 } }
  x: { set: { m: 1 } }
  # `x` runs before `bad` fails.
  later: { wait: 30ms }
  bad: { set: { k: "{{ input.a + 'x' }}" } }
  both: { set: { z: 1 } }
  last: { set: { y: 1 } }
edges: [first -> x, x -> both, first -> later, later -> bad, bad -> both, both -> last]
"#;
    let good = join.replace("input.a + 'x'", "input.a + 1");
    let without_x = good
        .replace("  x: { set: { m: 1 } }\n", "")
        .replace("first -> x, x -> both, ", "");
    refuses(
        join,
        &without_x,
        None,
        "node `both`: some of its edges are decided",
    );
    // The join itself may go.
    let without_both = good
        .replace("  both: { set: { z: 1 } }\n", "")
        .replace("x -> both, ", "")
        .replace("bad -> both, both -> last", "bad -> last");
    completes(join, &format!("{without_both}output: 7\n"), None, &json!(7));
    // Its other way would not be taken any more.
    let by_x = without_both.replace("bad -> last", "bad -> last, x -> last");
    refuses(join, &by_x, None, "node `last`: its edge from `x` is new");
}

#[test]
fn a_run_with_other_numbers_has_its_nodes_by_their_names() {
    let new = OLD.replace("input.a + 'x'", "input.a + 1").replace(
        "last: {",
        "aaa: { mutex: m, event: go }\n  abb: { mutex: m, set: { q: 1 } }\n  last: {",
    );
    let new = new.replace("bad -> last]", "bad -> aaa, bad -> abb, aaa -> last]");
    let tried = Tried::new(OLD);
    tried.running.publish(&new);
    let retry = Retry {
        definition: Some(WithVersion::Latest),
        ..Retry::default()
    };
    let retried = tried.client.retry(tried.id, retry, Duration::ZERO);
    tried.running.block_on(retried).unwrap();
    let row = tried.row();
    tried.running.suspended(row.no);
    let row = tried.row();
    let stored = tried.running.store.definition(row.definition).unwrap();
    let read = windlass_model::file::read_canonical(&stored.unwrap().json).unwrap();
    let store = tried.running.store.as_ref();
    let sections = windlass_runtime::operations::sections(store, &row, &read).unwrap();
    let section = sections.first().expect("a section is waited for");
    let holder = section.holder.as_ref().unwrap();
    let waiting = section.waiting.first().unwrap();
    let names = (&*section.mutex, &*holder.execution.node, &*waiting.node);
    assert_eq!(names, ("m", "aaa", "abb"));
    // A trigger from outside runs the node of that name.
    let schedule = |node: &str| Schedule {
        id: None,
        run: tried.id,
        node: node.to_owned(),
        due_ms: None,
        payload: None,
        priority: 0,
    };
    let scheduled = tried.client.schedule(schedule("last"));
    tried.running.block_on(scheduled).unwrap();
    let node = read.number_of("last");
    let ran = |run: &ExecutionRow| Some(run.node) == node;
    tried.running.until("`last` runs", |store| {
        store.executions(row.no, None, 100).unwrap().iter().any(ran)
    });
    let missing = tried.client.schedule(schedule("nobody"));
    let missing = tried.running.block_on(missing).unwrap_err();
    assert!(
        missing.to_string().contains("no node `nobody`"),
        "{missing}"
    );
}

#[test]
fn joins_and_loops_continue_only_where_they_are_equal() {
    let join = r#"
workflow: j
nodes:
  first: { set: { n: 1 } }
  x: { set: { m: 1 } }
  bad: { set: { k: "{{ input.a + 'x' }}" } }
  both: { set: { z: 1 } }
edges: [first -> x, x -> both, x -> bad, bad -> both]
output: "{{ [vars.m, vars.k] }}"
"#;
    let good = join.replace("input.a + 'x'", "input.a + 1");
    completes(join, &good, None, &json!([1, 2]));
    let between = good.replace("both: {", "aaa: { set: { q: 1 } }\n  both: {");
    let between = between.replace("bad -> both]", "bad -> aaa, aaa -> both]");
    refuses(
        join,
        &between,
        None,
        "node `both`: some of its edges are decided",
    );
    let any = good.replace("both: { set", "both: { join: any, set");
    refuses(
        join,
        &any,
        None,
        "node `both`: some of its edges are decided",
    );

    let round = r#"
workflow: l
vars: { n: 0 }
nodes:
  first: { set: { n: 0 } }
  step: { set: { n: "{{ vars.n + 1 }}" } }
  bad: { set: { k: "{{ input.a + (1 if vars.n < 2 else 'x') }}" } }
  last: { set: { z: 1 } }
edges:
  - first -> step
  - step -> bad
  - bad -> step: vars.n < 3
  - bad -> last: else
output: "{{ vars.n }}"
"#;
    let good = round.replace("'x'", "5");
    completes(round, &good, None, &json!(3));
    let longer = good.replace(
        "- bad -> step: vars.n < 3",
        "- bad -> aaa: vars.n < 3\n  - aaa -> step",
    );
    let longer = longer.replace("last: {", "aaa: { set: { q: 1 } }\n  last: {");
    refuses(round, &longer, None, "node `bad`: it is in another loop");
    // The loop goes another number of times, and leads elsewhere.
    let other = good.replace("vars.n < 3", "vars.n < 6");
    let other = other.replace("bad -> last: else", "bad -> last: else\n  - last -> end");
    let other = other.replace("last: {", "end: { set: { q: 1 } }\n  last: {");
    completes(round, &other, None, &json!(6));
}
