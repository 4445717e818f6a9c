//! Answers of nodes to requests, as far as they are known before a run.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use windlass_engine::expr::{Constants, known_parts};
use windlass_model::definition::{NodeKind, StartTrigger};
use windlass_model::http::Respond;
use windlass_model::{Definition, Diagnostic, Place, codes};

/// The answers of `set` nodes to requests that no sender can get: their constants are wrong in
/// every run.
pub(super) fn constant(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let constants = Constants::default();
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
            let (known, unknown) = known_parts(value, &[], &constants);
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
                            let place = || {
                                let header = header.replace('~', "~0").replace('/', "~1");
                                format!("/headers/{header}")
                            };
                            if !is_name(header) {
                                let message = format!("`{}` is no header", header.escape_debug());
                                wrong(
                                    &place(),
                                    message,
                                    "the name of a header has letters, digits and `-`",
                                );
                            } else if !is_one {
                                let message = format!("the header `{header}` has no text");
                                wrong(&place(), message, "a header is a text or a number");
                            } else if texts(value).any(|text| !is_sent(header, text)) {
                                let message =
                                    format!("the header `{header}` cannot be sent with this value");
                                wrong(&place(), message, "a header is one line of ASCII");
                            }
                        }
                    }
                    _ => wrong(
                        "/headers",
                        "the headers are no object".to_owned(),
                        "like `headers: { Location: /orders/7 }`",
                    ),
                },
                "body" if is_whole => {
                    let bytes = known.as_object().filter(|it| it.len() == 1);
                    let bytes = bytes.and_then(|it| it.get("base64"));
                    let is_read = |text: &Value| {
                        let text = text.as_str();
                        text.is_some_and(|text| STANDARD.decode(text).is_ok())
                    };
                    if bytes.is_some_and(|bytes| !is_read(bytes)) {
                        let message = "the `base64` of its body is not Base64".to_owned();
                        wrong("/body", message, "bytes are like `{ base64: aGVsbG8= }`");
                    }
                    let empty = known.is_null() || known.as_str() == Some("");
                    let status = members.get("status").and_then(Value::as_u64);
                    if let Some(status @ (204 | 304)) = status.filter(|_| !empty) {
                        let message = format!("an answer with the status {status} has no body");
                        wrong(
                            "/body",
                            message,
                            "leave `body` out, or choose another status",
                        );
                    }
                }
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

/// Whether a text is a name of a header: a token of RFC 9110.
fn is_name(name: &str) -> bool {
    let byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(byte)
}

/// The texts of a header.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let several = value.as_array().into_iter().flatten();
    several.chain([value]).filter_map(Value::as_str)
}

/// Whether a header can have this value. An address is encoded.
fn is_sent(header: &str, text: &str) -> bool {
    let is_address = ["location", "content-location"].contains(&&*header.to_ascii_lowercase());
    let no_control = !text.chars().any(|c| c.is_ascii_control() && c != '\t');
    no_control && (is_address || text.is_ascii())
}
