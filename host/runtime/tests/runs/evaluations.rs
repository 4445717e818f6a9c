//! Expressions that take long, or make much: they hold up neither other runs, nor a cancellation,
//! nor a shutdown.

use std::time::Duration;

use serde_json::json;
use windlass_engine::expr::Bounds;
use windlass_model::{Class, Payload, RunId, Status};
use windlass_runtime::{EvaluationMemory, StartRequest};
use windlass_store::Reader as _;

use crate::rig::{Setup, definition};

/// An expression that takes nearly all steps that an expression may take.
const LONG: &str = "{% for a in range(60) %}{% for b in range(250) %}{% set c = input.n * b %}\
                    {% endfor %}{% endfor %}{{ input.n }}";

/// The memory of evaluations with these bounds of a step.
fn within(step: Bounds) -> EvaluationMemory {
    EvaluationMemory {
        step,
        ..EvaluationMemory::default()
    }
}

fn long(variables: usize) -> String {
    let assigned: Vec<String> = (0..variables)
        .map(|i| format!("v{i}: \"{LONG}\""))
        .collect();
    format!(
        "workflow: long\nnodes:\n  work: {{ set: {{ {} }} }}\noutput: \"{{{{ vars.v0 }}}}\"\n",
        assigned.join(", ")
    )
}

#[test]
fn a_long_expression_is_evaluated_aside() {
    let workflow = format!(
        r#"
workflow: aside
vars: {{ n: 1 }}
nodes:
  work: {{ set: {{ n: "{{{{ vars.n + 1 }}}}", a: "{LONG}", same: "{{{{ vars.n }}}}", b: "{LONG}" }} }}
output: "{{{{ [vars.n, vars.a, vars.same, vars.b, nodes.work.output.b] }}}}"
"#
    );
    let ran = Setup::default().run_on(&workflow, Payload::json(r#"{"n":7}"#));
    assert_eq!(ran.output(), json!([2, "7", 1, "7", "7"]));
    let count = aside(&ran.metrics);
    assert!((1..=4).contains(&count), "{count}");
}

/// A condition that takes longer than a thread that runs workflows evaluates. It is true.
const HEAVY: &str = "(range(9000) | map('string') | join('') | length) > 10 \
                     and (range(9000) | map('string') | join('') | length) > 11 \
                     and (range(9000) | map('string') | join('') | length) > 12";

fn aside(metrics: &str) -> u64 {
    let aside = "windlass_evaluations_aside_total ";
    let count = metrics.lines().find_map(|line| line.strip_prefix(aside));
    count.unwrap().parse().unwrap()
}

#[test]
fn long_evaluations_after_a_node_go_aside() {
    let cases = [
        // The conditions of edges.
        (
            format!(
                r#"
nodes:
  work: {{ set: {{ n: "{{{{ input.n }}}}" }} }}
  no: {{ set: {{ taken: no }} }}
  yes: {{ set: {{ taken: "{{{{ vars.n }}}}" }} }}
edges:
  - {{ from: work, to: no, when: "vars.n == 8 and {HEAVY}" }}
  - {{ from: work, to: yes, when: "vars.n == 7 and {HEAVY} and nodes.work.output.n == 7" }}
output: "{{{{ vars.taken }}}}"
"#
            ),
            json!(7),
        ),
        // `until`.
        (
            format!(
                r#"
vars: {{ n: 0 }}
nodes:
  work: {{ set: {{ n: "{{{{ vars.n + 1 }}}}" }}, repeat: {{ until: "vars.n == 3 and {HEAVY}" }} }}
output: "{{{{ vars.n }}}}"
"#
            ),
            json!(3),
        ),
        // Those about a failure, and those of the edges behind it.
        (
            format!(
                r#"
vars: {{ n: 7 }}
nodes:
  work:
    fail: "no good"
    retry: {{ max-attempts: 3, delay: 1ms, classes: [permanent], when: "vars.n == 8 or {HEAVY}" }}
    on-error:
      - {{ when: "vars.n == 8 and {HEAVY}", do: continue }}
      - {{ when: "vars.n == 7 and {HEAVY}", do: route }}
  no: {{ set: {{ said: no }} }}
  yes: {{ set: {{ said: "{{{{ nodes.work.output.error.message }}}}" }} }}
edges:
  - {{ from: work, port: error, to: no, when: "vars.n == 8 and {HEAVY}" }}
  - {{ from: work, port: error, to: yes, when: "vars.n == 7 and {HEAVY}" }}
output: "{{{{ vars.said }}}}"
"#
            ),
            json!("no good"),
        ),
        // The outputs of items, and of the run.
        (
            format!(
                r#"
nodes:
  work:
    for-each: [1, 2, 3]
    concurrency: 3
    nodes: {{ it: {{ set: {{ n: "{{{{ item * input.n }}}}" }} }} }}
    output: {{ n: "{{{{ vars.n }}}}", long: "{LONG}" }}
output: {{ all: "{{{{ nodes.work.output | map(attribute='n') | list }}}}", long: "{LONG}" }}
"#
            ),
            json!({ "all": [7, 14, 21], "long": "7" }),
        ),
    ];
    for (body, expected) in cases {
        let workflow = format!("workflow: after{body}");
        let ran = Setup::default().run_on(&workflow, Payload::json(r#"{"n":7}"#));
        assert_eq!(ran.output(), expected, "{workflow}");
        assert!(aside(&ran.metrics) > 0, "{workflow}");
    }
}

#[test]
fn a_step_that_waits_for_its_evaluation_holds_up_its_run_and_no_more() {
    // Other branches assign variables and end while the conditions are evaluated.
    let branches: Vec<String> = (0..20)
        .map(|i| format!("n{i}: {{ set: {{ n: {i} }} }}"))
        .collect();
    let edges: Vec<String> = (0..20)
        .map(|i| {
            format!(
                "{{ from: n{i}, to: m{i}, when: \"nodes.n{i}.output.n == {i} and {HEAVY}\" }}, m{i} -> all"
            )
        })
        .collect();
    let after: Vec<String> = (0..20)
        .map(|i| format!("m{i}: {{ set: {{ v{i}: \"{{{{ nodes.n{i}.output.n }}}}\" }} }}"))
        .collect();
    let sum: Vec<String> = (0..20).map(|i| format!("vars.v{i}")).collect();
    let workflow = format!(
        "workflow: wide\nnodes:\n  {}\n  {}\n  all: {{ set: {{ sum: \"{{{{ {} }}}}\" }} }}\nedges: [{}]\noutput: \"{{{{ vars.sum }}}}\"\n",
        branches.join("\n  "),
        after.join("\n  "),
        sum.join(" + "),
        edges.join(", ")
    );
    let ran = Setup::default().run_on(&workflow, Payload::json("{}"));
    assert_eq!(ran.output(), json!(190));
    assert!(aside(&ran.metrics) >= 1);
}

#[test]
fn a_cancellation_does_not_wait_for_the_output_of_a_run() {
    let running = Setup::default().start();
    let [client, _] = running.clients();
    let outputs: Vec<String> = (0..40).map(|i| format!("o{i}: \"{LONG}\"")).collect();
    let outputs = outputs.join(", ");
    for workflow in [
        format!("workflow: out\nnodes: {{ a: {{ set: {{ x: 1 }} }} }}\noutput: {{ {outputs} }}\n"),
        format!(
            "workflow: items\nnodes:\n  a:\n    for-each: [1, 2]\n    nodes: {{ b: {{ set: {{ x: 1 }} }} }}\n    output: {{ {outputs} }}\n"
        ),
    ] {
        let start = || {
            let request = StartRequest {
                workflow: definition(&workflow).into(),
                input: Payload::json(r#"{"n":7}"#),
                id: None,
                correlation: None,
                trace: None,
            };
            running.block_on(client.create_and_run(request)).unwrap().id
        };
        let runs: Vec<RunId> = (0..12).map(|_| start()).collect();
        for id in &runs {
            running.cancel(*id);
        }
        let mut cancelled = 0;
        for id in &runs {
            let ended = running.block_on(client.result(*id, Duration::from_secs(60)));
            let result = ended.unwrap();
            match result.status {
                Status::Cancelled => cancelled += 1,
                Status::Completed => {}
                status => panic!("{status:?}: {:?}", result.result),
            }
        }
        assert!(cancelled > 6, "{cancelled}");
    }
}

#[test]
fn the_outputs_of_many_items_are_collected_aside() {
    let workflow = |range: u32, output: &str| {
        format!(
            r#"
workflow: many
nodes:
  each:
    for-each: "{{{{ range({range}) | list }}}}"
    concurrency: 20
    nodes: {{ one: {{ set: {{ x: 1 }} }} }}
    output: "{output}"
output: "{{{{ [nodes.each.output | length, nodes.each.output | last | string | last] }}}}"
"#
        )
    };
    // Many items; few with large outputs, some of which are blobs.
    for (range, output, last) in [
        (700, "{{ item }}", "9"),
        (30, "{{ 'ab' * (1000 * item) }}", "b"),
        (9, "{{ 'xy' * 100000 }}", "y"),
    ] {
        let ran = Setup::default().run_on(&workflow(range, output), Payload::json("{}"));
        assert_eq!(ran.output(), json!([range, last]), "{range}");
        assert!(aside(&ran.metrics) > 0, "{range}");
    }
    let ran = Setup::default().run_on(&workflow(20, "{{ 'x' * 1000000 }}"), Payload::json("{}"));
    let failure = ran.result.failure.as_ref().unwrap();
    assert_eq!(failure.class, Class::Limit, "{failure:?}");
    assert!(failure.message.contains("together larger"), "{failure:?}");
}

#[test]
fn large_values_are_parsed_aside() {
    let workflow = r#"
workflow: large
nodes:
  work: { set: { last: "{{ input | last }}", length: "{{ input | length }}" } }
output: "{{ [vars.last, vars.length] }}"
"#;
    let input = format!("[{}7]", "1,".repeat(400_000));
    let ran = Setup::default().run_on(workflow, Payload::json(input));
    assert_eq!(ran.output(), json!([7, 400_001]));
    assert!(ran.metrics.contains("windlass_evaluations_aside_total 2\n"));
}

#[test]
fn an_expression_that_fails_aside_fails_its_node() {
    let workflow = format!(
        r#"
workflow: fails
nodes:
  work: {{ set: {{ a: "{LONG}{{{{ input.n + 'x' }}}}" }}, on-error: route }}
  after: {{ set: {{ said: "{{{{ nodes.work.output.error.message }}}}" }} }}
edges: [work.error -> after]
output: "{{{{ vars.said }}}}"
"#
    );
    let ran = Setup::default().run_on(&workflow, Payload::json(r#"{"n":7}"#));
    let said = ran.output().to_string();
    assert!(said.contains("tried to use + operator"), "{said}");
}

#[test]
fn the_values_of_one_step_share_a_bound() {
    let setup = Setup {
        evaluation: within(Bounds {
            made: 1 << 20,
            ..Bounds::default()
        }),
        ..Setup::default()
    };
    let variables: Vec<String> = (0..10)
        .map(|i| format!("v{i}: \"{{{{ 'a' * 200000 }}}}\""))
        .collect();
    let workflow = format!(
        "workflow: w\nnodes:\n  work: {{ set: {{ {} }} }}\n",
        variables.join(", ")
    );
    let ran = setup.run(&workflow);
    let failure = ran.result.failure.as_ref().unwrap();
    assert_eq!(failure.class, windlass_model::Class::Limit);
    assert!(
        failure.message.contains("more than 1048576 bytes together"),
        "{failure}"
    );
    // Five of them are below the bound.
    let few = format!(
        "workflow: w\nnodes:\n  work: {{ set: {{ {} }} }}\n",
        variables[..5].join(", ")
    );
    assert_eq!(setup.run(&few).result.status, Status::Completed);
    // Outputs that are gathered for one node count as well.
    let nodes: Vec<String> = (0..8)
        .map(|i| format!("n{i}: {{ set: {{ v: \"{{{{ 'a' * 200000 }}}}\" }} }}"))
        .collect();
    let edges: Vec<String> = (0..8).map(|i| format!("n{i} -> all")).collect();
    let gathered = format!(
        "workflow: w\nnodes:\n  {}\n  all: {{ workflow: none }}\nedges: [{}]\n",
        nodes.join("\n  "),
        edges.join(", ")
    );
    let ran = setup.run(&gathered);
    let failure = ran.result.failure.as_ref().unwrap();
    assert!(
        failure.message.contains("more than 1048576 bytes together"),
        "{failure}"
    );
}

#[test]
fn large_steps_go_one_after_the_other_and_none_waits_for_ever() {
    let evaluation = EvaluationMemory {
        inline: 64 * 1024,
        aside: 1,
        ..EvaluationMemory::default()
    };
    let setup = Setup {
        evaluation,
        ..Setup::default()
    };
    let running = setup.start();
    let [client, _] = running.clients();
    // Its first node makes 4 MB, and keeps its place until they are written. Its condition and its
    // last node read all of them, and the output of the run some.
    let made: Vec<String> = (0..20)
        .map(|i| format!("v{i}: \"{{{{ 'a' * 200000 }}}}\""))
        .collect();
    let lengths: Vec<String> = (0..20).map(|i| format!("(vars.v{i} | length)")).collect();
    let workflow = format!(
        r#"
workflow: large
nodes:
  make: {{ set: {{ {} }} }}
  sum: {{ set: {{ n: "{{{{ {} }}}}" }} }}
edges: [{{ from: make, to: sum, when: "nodes.make.output.v3 == vars.v4" }}]
output: "{{{{ [vars.n, nodes.make.output.v0 | length] }}}}"
"#,
        made.join(", "),
        lengths.join(" + ")
    );
    let runs: Vec<RunId> = (0..12)
        .map(|_| {
            let request = StartRequest {
                workflow: definition(&workflow).into(),
                input: Payload::null(),
                id: None,
                correlation: None,
                trace: None,
            };
            running.block_on(client.create_and_run(request)).unwrap().id
        })
        .collect();
    for id in runs {
        let ended = running.block_on(client.result(id, Duration::from_secs(60)));
        let ended = ended.unwrap();
        assert_eq!(ended.status, Status::Completed);
        let output = ended.result.unwrap().output.unwrap();
        assert_eq!(&**output.inline().unwrap(), b"[4000000,200000]");
    }
}

#[test]
fn the_expressions_of_one_step_share_their_work() {
    let ran = Setup::default().run_on(&long(200), Payload::json(r#"{"n":7}"#));
    let failure = ran.result.failure.as_ref().unwrap();
    assert!(
        failure.message.contains("reads and writes more than"),
        "{failure}"
    );
}

#[test]
fn other_runs_go_on_beside_long_expressions_and_a_cancellation_ends_them() {
    let running = Setup::default().start();
    let [client, _] = running.clients();
    let start = |workflow: &str| {
        let request = StartRequest {
            workflow: definition(workflow).into(),
            input: Payload::json(r#"{"n":7}"#),
            id: None,
            correlation: None,
            trace: None,
        };
        running.block_on(client.create_and_run(request)).unwrap()
    };
    let slow = long(30);
    let busy: Vec<RunId> = (0..20).map(|_| start(&slow).id).collect();
    let quick = start("workflow: quick\nnodes:\n  one: { set: { a: \"{{ input.n }}\" } }\n");
    let ended = running.block_on(client.result(quick.id, Duration::from_secs(60)));
    assert_eq!(ended.unwrap().status, Status::Completed);
    let statuses = || -> Vec<Status> {
        let row = |id: &RunId| running.store.run(*id).unwrap().unwrap();
        busy.iter().map(|id| row(id).status).collect()
    };
    let now = statuses();
    let open = now
        .iter()
        .filter(|status| matches!(status, Status::Pending | Status::Running))
        .count();
    assert!(open > 10, "{now:?}");
    for id in &busy {
        running.cancel(*id);
    }
    for id in &busy {
        let ended = running.block_on(client.result(*id, Duration::from_secs(60)));
        let status = ended.unwrap().status;
        assert!(
            matches!(status, Status::Cancelled | Status::Completed),
            "{status:?}"
        );
    }
}

#[test]
fn a_list_is_held_once_for_all_loops_over_it() {
    let workflow = r#"
workflow: nested
vars: { x: [] }
nodes:
  list: { set: { x: "{{ ['x' * 4000] * 100 }}" } }
  outer:
    for-each: "{{ range(50) | list }}"
    concurrency: 50
    nodes:
      inner:
        for-each: "{{ vars.x }}"
        concurrency: 20
        nodes:
          one: { set: { y: "{{ item | length }}" } }
        output: "{{ vars.y + index }}"
    output: "{{ nodes.inner.output | sum }}"
edges: [list -> outer]
output: "{{ [nodes.outer.output | length, nodes.outer.output | unique] }}"
"#;
    let ran = Setup::default().run(workflow);
    assert_eq!(ran.output(), json!([50, [404_950]]));
    assert!(
        ran.metrics.contains("windlass_run_data_bytes 0\n"),
        "{}",
        ran.metrics
    );
}
