//! Answers of nodes to requests, as far as they are known before a run.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_engine::expr::known_parts;
use windlass_model::definition::{NodeKind, StartTrigger};
use windlass_model::http::Respond;
use windlass_model::{Definition, Diagnostic, Place, codes};

/// The answers of `set` nodes to requests that no sender can get: their constants are wrong in
/// every run.
pub(super) fn constant(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let answering: BTreeSet<&str> = definition
        .triggers
        .values()
        .filter_map(|trigger| match trigger {
            StartTrigger::Http {
                respond: Respond::Node { node, .. },
                ..
            } => Some(node.as_str()),
            _ => None,
        })
        .collect();
    for name in answering {
        let node = definition.nodes.get(name).map(|node| &node.kind);
        let Some(NodeKind::Set(members)) = node else {
            continue;
        };
        let mut wrong = |at: &str, message: String, help: &str| {
            let message = format!("the node `{name}` can give no answer: {message}");
            let place = Place::at(format!("/nodes/{name}/set{at}"));
            let found_one = Diagnostic::new(codes::NEVER_AN_ANSWER, message, place);
            found.push(found_one.help(help));
        };
        for (member, value) in members {
            let (known, unknown) = known_parts(value, &[]);
            let is_whole = unknown.is_empty();
            match member.as_str() {
                "status" if is_whole => {
                    let status = known.as_u64();
                    if !status.is_some_and(|status| (200..600).contains(&status)) {
                        let message = format!("`{known}` is no status");
                        wrong(
                            "/status",
                            message,
                            "a status is a whole number from 200 to 599",
                        );
                    }
                }
                "headers" => match &known {
                    Value::Null => {}
                    Value::Object(headers) => {
                        for (header, value) in headers {
                            let is_value = |value: &Value| value.is_string() || value.is_number();
                            let is_one = is_value(value)
                                || value
                                    .as_array()
                                    .is_some_and(|all| !is_whole || all.iter().all(is_value));
                            if !is_one {
                                let message = format!("the header `{header}` has no text");
                                let header = header.replace('~', "~0").replace('/', "~1");
                                let place = format!("/headers/{header}");
                                wrong(&place, message, "a header is a text or a number");
                            }
                        }
                    }
                    _ => wrong(
                        "/headers",
                        "the headers are no object".to_owned(),
                        "like `headers: { Location: /orders/7 }`",
                    ),
                },
                "status" | "body" => {}
                other => wrong(
                    &format!("/{other}"),
                    format!("its output has the member `{other}`"),
                    "an answer has `status`, `headers` and `body`; set other variables in a node \
                     before",
                ),
            }
        }
    }
    found
}
