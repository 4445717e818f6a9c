//! What a failed attempt leaves behind: its record, and nothing else.

use windlass_model::{RunStatus, ScopeNo, Status};
use windlass_store::Reader as _;

use crate::rig::Setup;

#[test]
fn a_failed_attempt_assigns_nothing() {
    let ran = Setup::default().run(
        r#"
workflow: refuted
nodes:
  assign: { set: { kept: 1 } }
  refuted: { set: { lost: "text" } }
  after: { set: { more: 1 } }
edges:
  - { from: assign, to: refuted }
  - { from: refuted, to: after, when: "vars.lost.missing > 3" }
"#,
    );
    assert_eq!(ran.result.status, Status::Faulted);
    let last = ran.commits.last().unwrap();
    assert_eq!(last.runs[0].status, RunStatus::Failed);
    assert!(last.vars.is_empty(), "{:?}", last.vars);
    let kept = ran.store.vars(ran.row.no, ScopeNo::ROOT).unwrap();
    let names: Vec<&str> = kept.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["kept"]);
}
