//! Texts in configurations that look like something else.

use serde_json::Value;
use windlass_model::definition::NodeKind;
use windlass_model::{Definition, Diagnostic, Place, secrets};

use crate::codes;

/// References to secrets that stand inside of texts: they are sent as they are written.
pub(super) fn with_secrets(definition: &Definition) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (pointer, _, node) in definition.all_nodes() {
        let NodeKind::Use { with, .. } = &node.kind else {
            continue;
        };
        let mut open = vec![(format!("{pointer}/with"), with)];
        while let Some((place, value)) = open.pop() {
            match value {
                Value::Object(members) => open.extend(members.iter().map(|(name, value)| {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    (format!("{place}/{name}"), value)
                })),
                Value::Array(items) => {
                    let item = |(at, value)| (format!("{place}/{at}"), value);
                    open.extend(items.iter().enumerate().map(item));
                }
                Value::String(text) => found.extend(secret_in_text(text, place)),
                _ => {}
            }
            if found.len() >= IN_TEXTS {
                return found;
            }
        }
    }
    found
}

/// The most references inside of texts that are told.
const IN_TEXTS: usize = 100;

fn secret_in_text(text: &str, place: String) -> Option<Diagnostic> {
    let (at, name) = secrets::written_in(text)?;
    // `{ secret: .x }` is a filter of jq.
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let before = text.get(..at.start).unwrap_or_default();
    let is_prefix = text.len() == at.end && !before.is_empty() && !before.contains('{');
    let reference = match is_prefix {
        true => format!("{{ secret: {name}, prefix: {} }}", Value::from(before)),
        false => format!("{{ secret: {name} }}"),
    };
    let message = format!("`{{ secret: {name} }}` inside of a text is text, and no secret");
    let warning = Diagnostic::new(codes::SECRET_IN_TEXT, message, Place::inside(place, at));
    Some(warning.help(format!("make the whole value the reference: `{reference}`")))
}
