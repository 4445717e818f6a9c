//! What a file can say and a host cannot do yet. Refused, so that no file means less than it
//! says. The engine can do more than this: what is refused is what nobody carries out.

use windlass_model::definition::{CommitStrategy, Node, NodeKind};
use windlass_model::{Code, Definition, Diagnostic, Place, codes};

/// Everything in the definition that nobody can carry out yet.
pub fn unsupported(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (pointer, _, node) in definition.all_nodes() {
        for (key, code) in of_node(node) {
            found.push(refusal(key, code, format!("{pointer}/{key}")));
        }
    }
    let options = &definition.options;
    if options.commit != CommitStrategy::EveryNode {
        let place = "/options/commit".to_owned();
        found.push(refusal("commit: burst", codes::NO_BURST, place));
    }
    found
}

fn of_node(node: &Node) -> impl Iterator<Item = (&'static str, Code)> {
    let is = |kind: bool, key, code| kind.then_some((key, code));
    [
        is(
            matches!(node.kind, NodeKind::Workflow { .. }),
            "workflow",
            codes::NO_SUB_WORKFLOW,
        ),
        is(
            matches!(node.kind, NodeKind::Event { .. }),
            "event",
            codes::NO_EVENT,
        ),
        is(
            node.wait_timeout_ms.is_some(),
            "wait-timeout",
            codes::NO_WAIT_TIMEOUT,
        ),
        is(node.priority != 0, "priority", codes::NO_PRIORITY),
    ]
    .into_iter()
    .flatten()
}

fn refusal(key: &str, code: Code, pointer: String) -> Diagnostic {
    Diagnostic::new(
        code,
        format!("`{key}` is not built yet"),
        Place::at(pointer),
    )
}
