//! The values that expressions see at run time.

use serde_json::json;

use crate::rig::Setup;

#[test]
fn expressions_see_what_brought_a_step_about() {
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
output: "{{ [vars.seen, vars.after, trigger.type, workflow.name, run.id | length, instance.id == run.id] }}"
"#,
    );
    let seen = json!(["start 1", "next 1", "loop 1"]);
    assert_eq!(
        ran.output(),
        json!([seen, "retry 3", "next", "told", 36, true])
    );
}
