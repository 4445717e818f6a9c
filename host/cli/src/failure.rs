//! A failure as text for people.

use std::fmt::Write as _;

use windlass_server::Failure;

/// How many characters of the details are shown.
const DETAILS: usize = 100;

/// The message, with the position in the source of the node if there is one.
pub(crate) fn message(failure: &Failure) -> String {
    let mut text = failure.message.clone();
    if let Some(position) = &failure.position {
        // Writing into a string cannot fail.
        let _ = match &position.source {
            Some(source) => write!(text, " at {source}:{}:{}", position.line, position.column),
            None => write!(text, " at {}:{}", position.line, position.column),
        };
    }
    text
}

/// The message with the position, the class and the code.
pub(crate) fn headline(failure: &Failure) -> String {
    let (class, code) = (failure.class, &failure.code);
    format!("{} ({class}, {code})", message(failure))
}

/// The details as one line of JSON, cut to the width of a line.
pub(crate) fn details(failure: &Failure) -> Option<String> {
    let details = failure.details.as_ref()?.to_string();
    Some(match details.char_indices().nth(DETAILS) {
        Some((end, _)) => format!("{}…", details.get(..end).unwrap_or_default()),
        None => details,
    })
}

/// The details as a line below an error.
pub(crate) fn note(failure: &Failure) -> Option<String> {
    details(failure).map(|details| format!("details: {details}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn failure(more: Value) -> Failure {
        let mut failure = json!({ "class": "permanent", "code": "WL-P001", "message": "no" });
        let members = more.as_object().cloned().unwrap_or_default();
        failure.as_object_mut().unwrap().extend(members);
        serde_json::from_value(failure).unwrap()
    }

    #[test]
    fn the_position_follows_the_message() {
        let plain = failure(json!({}));
        assert_eq!(headline(&plain), "no (permanent, WL-P001)");
        let here = failure(json!({ "position": { "line": 3, "column": 14 } }));
        assert_eq!(message(&here), "no at 3:14");
        let there = json!({ "position": { "source": "a.jq", "line": 1, "column": 2 } });
        let there = failure(there);
        assert_eq!(headline(&there), "no at a.jq:1:2 (permanent, WL-P001)");
    }

    #[test]
    fn long_details_are_cut() {
        assert_eq!(details(&failure(json!({}))), None);
        assert_eq!(details(&failure(json!({ "details": null }))), None);
        let short = failure(json!({ "details": { "status": 404 } }));
        assert_eq!(details(&short).as_deref(), Some(r#"{"status":404}"#));
        let long = failure(json!({ "details": "ä".repeat(200) }));
        let shown = details(&long).unwrap();
        assert_eq!(shown.chars().count(), DETAILS + 1);
        assert!(shown.ends_with("ä…"), "{shown}");
    }
}
