//! The values that expressions see at run time.

use serde_json::{Value, json};
use windlass_model::{Payload, Status};

use crate::rig::Setup;

#[test]
fn expressions_see_the_trigger_of_a_step() {
    let ran = Setup::default().run(
        r#"
workflow: told
vars: { seen: [] }
nodes:
  first: { set: { seen: "{{ [trigger.type ~ ' ' ~ trigger.attempt] }}" } }
  again:
    set: { seen: "{{ vars.seen + [trigger.type ~ ' ' ~ trigger.attempt] }}" }
    repeat: { max: 2 }
  bad:
    fail: "{{ trigger.type }} {{ trigger.attempt }}"
    retry: { max-attempts: 3, delay: 1ms, classes: [permanent] }
    on-error: route
  wait: { wait: 1ms }
  after: { set: { after: "{{ nodes.bad.output.error.message }}" } }
edges:
  - first -> again
  - again -> bad
  - bad.error -> wait
  - { from: wait, to: after, when: "trigger.type == 'timer'" }
output: "{{ [vars.seen, vars.after, trigger.type, workflow.name, run.id | length] }}"
"#,
    );
    let seen = json!(["start 1", "next 1", "loop 1"]);
    assert_eq!(ran.output(), json!([seen, "retry 3", "next", "told", 36]));
}

#[test]
fn a_wait_of_an_expression_needs_a_unit() {
    let running = Setup::default().start();
    let pause = |wait: &str, t: &Value| {
        let file = format!("workflow: pause\nnodes: {{ a: {{ wait: {wait:?} }} }}\n");
        let started = running.run_on(&file, Payload::of(&json!({ "t": t })));
        running.ended(started.no)
    };
    let refused = |t: &Value| pause("{{ input.t }}", t).failure.unwrap().message;
    let unit = "in an expression the unit stands behind the braces, like `{{ vars.seconds }}s`";
    for (t, told) in [
        (
            json!(3000),
            "the duration `3000` has no unit: write `3000s` for seconds, or `3000ms`",
        ),
        (
            json!(1.5),
            "the duration `1.5` has no unit: write `1500ms` for 1.5 seconds",
        ),
    ] {
        let message = refused(&t);
        let expected = format!("cannot tell how long to wait: {told}; {unit}");
        assert_eq!(message, expected);
    }
    for (t, told) in [
        (json!(-1), "the duration `-1` is negative"),
        (
            json!(1_764_000_000),
            "the duration `1764000000` has no unit",
        ),
        (json!("5"), "the duration `5` has no unit"),
        (json!("-1s"), "the duration `-1s` is negative"),
        (
            json!("10000w"),
            "the duration `10000w` is too long: write at most `36600d`",
        ),
        (
            json!("9999-12-31T23:59:59Z"),
            "the instant `9999-12-31T23:59:59Z` is out of range",
        ),
        (json!(true), "true is neither a duration nor an instant"),
    ] {
        let message = refused(&t);
        assert!(message.contains(told), "{message}");
    }
    assert_eq!(
        pause("{{ input.t }}ms", &json!(3)).status,
        Status::Completed
    );
    assert_eq!(
        pause("{{ input.t }}", &json!("PT0.001S")).status,
        Status::Completed
    );
}
