//! The tags of a run, which its workflow makes of the input.

use serde_json::{Value, json};
use windlass_model::{Payload, RunId, Tags};
use windlass_runtime::{Error, StartRequest};
use windlass_store::Reader as _;

use crate::rig::{Running, Setup, definition};

const TAGGED: &str = r#"
workflow: tagged
input:
  type: object
  properties: { region: { type: string, default: eu } }
tags:
  customer: "{{ input.customer.id }}"
  region: "{{ input.region }}"
  absent: "{{ input.nothing | default(none) }}"
  text: "order {{ input.order }} of {{ workflow.name }}"
  correlation: "{{ run.correlation }}"
  run: "{{ run.id }}"
  number: "{{ input.number }}"
  large: "{{ input.large }}"
  yes: "{{ input.order > 3 }}"
  constant: billing
nodes: { only: { set: { done: true } } }
"#;

fn started(running: &Running, workflow: &str, input: &Value) -> Result<(RunId, Tags), Error> {
    let request = StartRequest {
        workflow: definition(workflow).into(),
        input: Payload::of(input),
        id: None,
        correlation: Some("o 7".to_owned()),
        trace: None,
    };
    let client = running.clients().into_iter().next().unwrap();
    let started = running.block_on(client.create_and_run(request))?;
    let row = running.store.run_by_no(started.no).unwrap().unwrap();
    Ok((started.id, row.tags))
}

#[test]
fn tags_are_made_of_the_input_as_texts() {
    let running = Setup::default().start();
    let input = json!({
        "customer": { "id": "c-1" }, "order": 7, "number": 1.50,
        "large": 12_345_678_901_234_567_890_u64,
    });
    let (id, tags) = started(&running, TAGGED, &input).unwrap();
    let id = id.to_string();
    let expected = [
        ("constant", "billing"),
        ("correlation", "o 7"),
        ("customer", "c-1"),
        ("large", "12345678901234567890"),
        ("number", "1.5"),
        ("region", "eu"),
        ("run", &id),
        ("text", "order 7 of tagged"),
        ("yes", "true"),
    ];
    let tags: Vec<_> = tags
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(tags, expected);
}

#[test]
fn a_run_whose_tags_cannot_be_made_does_not_start() {
    let running = Setup::default().start();
    let with = |expression: &str| {
        let tag = Value::from(expression);
        format!("workflow: w\ntags: {{ t: {tag} }}\nnodes: {{ a: {{ set: {{ x: 1 }} }} }}\n")
    };
    let busy = "{% for a in range(input.n) %}{% for b in range(input.n) %}{{ a * b }}{% endfor %}{% endfor %}";
    for expression in [
        "{{ input.nothing }}",
        "{{ input.list }}",
        "{{ input.map }}",
        "{{ input.long }}",
        "{{ input.zero }}",
        "{{ input.map.x.y }}",
        busy,
    ] {
        let input = json!({
            "n": 1000, "list": [1], "map": { "x": 1 }, "long": "ö".repeat(129), "zero": "a\u{0}b",
        });
        let refused = started(&running, &with(expression), &input).unwrap_err();
        assert_eq!(
            refused.code().as_str(),
            "WL-R153",
            "{expression}: {refused}"
        );
    }
    assert_eq!(running.store.counts().unwrap().runs, 0);
    let longest = json!({ "long": "ö".repeat(128) });
    let (_, tags) = started(&running, &with("{{ input.long }}"), &longest).unwrap();
    assert_eq!(tags["t"].len(), 256);
}

#[test]
fn tags_see_only_the_input_and_the_workflow() {
    for name in ["vars.x", "nodes.a.output", "trigger.type", "item"] {
        let workflow = format!(
            "workflow: w\ntags: {{ t: '{{{{ {name} }}}}' }}\nnodes: {{ a: {{ set: {{ x: 1 }} }} }}\n"
        );
        let running = Setup::default().start();
        let refused = started(&running, &workflow, &Value::Null).unwrap_err();
        let Error::Definition(found) = &refused else {
            panic!("{name}: {refused}");
        };
        assert!(found[0].message.contains("there is no `"), "{found:?}");
        assert_eq!(found[0].place.pointer, "/tags/t");
    }
}
