//! References to secrets in definitions.
//!
//! A reference is an object `{ secret: NAME }` that a definition contains literally. The result of
//! an expression is data, and data must not name secrets. So the host replaces the name in each
//! literal reference by a handle before anything is rendered, and a request for a secret has to
//! contain the handle: data that looks like a reference contains none.

use serde_json::Value;

use crate::template::is_template;

/// The only member of a reference.
const MEMBER: &str = "secret";

/// Separates the name of a secret from the number that makes it a handle.
const SEPARATOR: char = '#';

/// A secret that a definition refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The name of the secret.
    pub name: Box<str>,
    /// The text that replaces the name in the configuration.
    pub handle: Box<str>,
}

/// Replaces the name in each literal reference of a value by a handle, which the number makes
/// impossible to guess. Returns the references, each secret once.
pub fn bind(value: &mut Value, number: u128) -> Vec<Reference> {
    let mut references: Vec<Reference> = Vec::new();
    // The reader of definitions bounds how deep values nest.
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                let is_alone = members.len() == 1;
                for (member, value) in members {
                    match value {
                        Value::String(name) if is_alone && member == MEMBER && is_name(name) => {
                            let handle = format!("{name}{SEPARATOR}{number:032x}");
                            let name = std::mem::replace(name, handle.clone());
                            if !references.iter().any(|known| *known.name == *name) {
                                references.push(Reference {
                                    name: name.into(),
                                    handle: handle.into(),
                                });
                            }
                        }
                        value => open.push(value),
                    }
                }
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    references
}

/// Whether a value contains a literal reference.
pub fn are_in(value: &Value) -> bool {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                let only = members.get(MEMBER).filter(|_| members.len() == 1);
                if only.and_then(Value::as_str).is_some_and(is_name) {
                    return true;
                }
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    false
}

/// The name of a secret in a guest's request, which may be a handle.
pub fn name_in(asked: &str) -> &str {
    asked.split(SEPARATOR).next().unwrap_or(asked)
}

/// Whether a text is the name of a secret: neither an expression nor a handle.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(SEPARATOR) && !is_template(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NUMBER: u128 = 0xabc;

    fn handle(name: &str) -> String {
        format!("{name}#00000000000000000000000000000abc")
    }

    #[test]
    fn only_what_stands_there_literally_is_a_reference() {
        let value = json!({
            "headers": {
                "a": { "secret": "price" },
                "b": { "secret": "{{ input.name }}" },
                "c": "{{ input.body }}",
                "d": { "secret": "other", "more": 1 },
                "e": { "secret": ["x"] },
                "f": [{ "secret": "mail" }, { "secret": "price" }],
                "g": { "secret": handle("price") },
            },
            "secret": { "secret": "" },
        });
        let mut bound = value.clone();
        let mut references = bind(&mut bound, NUMBER);
        references.sort_by(|a, b| a.name.cmp(&b.name));
        let wanted = ["mail", "price"].map(|name| Reference {
            name: name.into(),
            handle: handle(name).into(),
        });
        assert_eq!(references, wanted);
        let mut wanted = value.clone();
        wanted["headers"]["a"] = json!({ "secret": handle("price") });
        wanted["headers"]["f"] =
            json!([{ "secret": handle("mail") }, { "secret": handle("price") }]);
        assert_eq!(bound, wanted);
        assert!(are_in(&value));
        assert!(!are_in(&bound), "a handle is no reference");
        assert_eq!(bind(&mut json!({ "secret": "a" }), NUMBER).len(), 1);
        assert!(bind(&mut json!("secret"), NUMBER).is_empty());
        assert!(!are_in(&json!([1, { "secret": 2 }])));
    }

    #[test]
    fn a_handle_tells_the_name() {
        assert_eq!(name_in(&handle("price")), "price");
        assert_eq!(name_in("price"), "price");
        assert_eq!(name_in(""), "");
    }
}
