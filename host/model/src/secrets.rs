//! References to secrets in definitions.
//!
//! A reference is an object `{ secret: NAME }` that a definition contains literally. A `prefix` beside
//! the name stands before the value where the host inserts it, as `Bearer ` does. The result of
//! an expression is data, and data must not name secrets. So the host replaces the name in each
//! literal reference by a mark before anything is rendered, and each mark by a handle of this one
//! call after it is rendered. A request for a secret has to contain the handle: data of the call was
//! there before the handle, and so contains none.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::template::is_template;
use crate::weight;

/// The member of a reference with the name.
const MEMBER: &str = "secret";

/// The other member that a reference may have.
const PREFIX: &str = "prefix";

/// How long a prefix may be, in bytes.
const PREFIX_BYTES: usize = 128;

/// Separates the name of a secret from the number that makes it a handle. A mark has no name.
const SEPARATOR: char = '#';

/// A secret that a call may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The name of the secret.
    pub name: Box<str>,
    /// The text before its value where the host inserts it. Default: empty.
    pub prefix: Box<str>,
    /// The text that stands in the configuration of this call, and of no other.
    pub handle: Box<str>,
}

/// A secret that a definition refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    name: Box<str>,
    prefix: Box<str>,
    /// The text that replaces the name until a call is made.
    mark: Box<str>,
    /// How often the definition refers to it.
    count: usize,
}

impl Marked {
    /// An estimate of the memory that it takes, in bytes.
    pub fn weight(&self) -> usize {
        let texts = [&self.name, &self.prefix, &self.mark];
        let texts = texts.into_iter().map(|text| weight::block(text.len()));
        size_of::<Self>() + texts.sum::<usize>()
    }
}

/// Replaces the name in each literal reference of a value by a mark, which the number makes
/// impossible to guess, and removes its prefix. Returns the references, each secret once for each
/// prefix.
pub fn bind(value: &mut Value, number: u128) -> Vec<Marked> {
    let mut found: Vec<Marked> = Vec::new();
    each(value, &mut |members, name, prefix| {
        let mut known = found.iter_mut();
        let mark = match known.find(|known| *known.name == *name && *known.prefix == *prefix) {
            Some(known) => {
                known.count += 1;
                known.mark.clone()
            }
            None => {
                let number = number.wrapping_add(found.len() as u128);
                let mark: Box<str> = format!("{SEPARATOR}{number:032x}").into();
                found.push(Marked {
                    name: name.into(),
                    prefix: prefix.into(),
                    mark: mark.clone(),
                    count: 1,
                });
                mark
            }
        };
        members.remove(PREFIX);
        members.insert(MEMBER.to_owned(), Value::from(&*mark));
    });
    found
}

/// Replaces the marks in a rendered configuration by handles of one call, which the number makes
/// impossible to guess. None: the configuration has other marks than its definition, so some of them
/// are data.
pub fn handles(config: &str, marked: &[Marked], number: u128) -> Option<(String, Vec<Reference>)> {
    let mut config = config.to_owned();
    let mut references = Vec::with_capacity(marked.len());
    for (at, of) in marked.iter().enumerate() {
        let mark = format!("\"{}\"", of.mark);
        if config.matches(&mark).count() != of.count {
            return None;
        }
        let number = number.wrapping_add(at as u128);
        let handle = format!("{}{SEPARATOR}{number:032x}", of.name);
        config = config.replace(&mark, &Value::from(handle.as_str()).to_string());
        references.push(Reference {
            name: of.name.clone(),
            prefix: of.prefix.clone(),
            handle: handle.into(),
        });
    }
    Some((config, references))
}

/// Replaces the marks in a rendered configuration by the names of the secrets, for people.
pub fn names(config: &str, marked: &[Marked]) -> String {
    marked.iter().fold(config.to_owned(), |config, of| {
        let name = Value::from(&*of.name).to_string();
        config.replace(&format!("\"{}\"", of.mark), &name)
    })
}

/// Removes the prefixes of the references in a value: plugins do not see them.
pub fn without_prefixes(value: &mut Value) {
    each(value, &mut |members, _, _| drop(members.remove(PREFIX)));
}

/// Takes the members of a literal reference, its name and its prefix.
type Found<'f> = &'f mut dyn FnMut(&mut Map<String, Value>, &str, &str);

/// Calls a function for each literal reference in a value.
fn each(value: &mut Value, found: Found<'_>) {
    // The reader of definitions bounds how deep values nest.
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => match reference(members) {
                Some((name, prefix)) => found(members, &name, &prefix),
                None => open.extend(members.values_mut()),
            },
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
}

/// The name and the prefix, if these are the members of a literal reference.
fn reference(members: &Map<String, Value>) -> Option<(String, String)> {
    let name = members.get(MEMBER)?.as_str().filter(|name| is_name(name))?;
    let prefix = match (members.len(), members.get(PREFIX)) {
        (1, None) => "",
        (2, Some(prefix)) => prefix.as_str().filter(|prefix| is_prefix(prefix))?,
        _ => return None,
    };
    Some((name.to_owned(), prefix.to_owned()))
}

/// The names in the literal references of a value, each with the pointer to its reference.
pub fn named(value: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), value)];
    while let Some((pointer, value)) = open.pop() {
        match value {
            Value::Object(members) => match reference(members) {
                Some((name, _)) => found.push((name, pointer)),
                None => open.extend(members.iter().map(|(key, value)| {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    (format!("{pointer}/{key}"), value)
                })),
            },
            Value::Array(items) => {
                let items = items.iter().enumerate();
                open.extend(items.map(|(at, value)| (format!("{pointer}/{at}"), value)));
            }
            _ => {}
        }
    }
    found
}

/// Whether a value contains a literal reference.
pub fn are_in(value: &Value) -> bool {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) if reference(members).is_some() => return true,
            Value::Object(members) => open.extend(members.values()),
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    false
}

/// The bytes of the first `{ secret: NAME }` inside of a text, where it is no reference, and the name.
pub fn written_in(text: &str) -> Option<(Range<usize>, &str)> {
    let quotes = ['"', '\''];
    for (at, _) in text.match_indices('{') {
        let inside = text.get(at + 1..)?;
        let end = inside.find(['{', '}'])?;
        let Some((key, rest)) = inside.get(..end)?.split_once(':') else {
            continue;
        };
        let name = rest.split(',').next().unwrap_or_default();
        let name = name.trim().trim_matches(quotes);
        let is_reference = key.trim().trim_matches(quotes) == MEMBER;
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let closes = inside.as_bytes().get(end) == Some(&b'}');
        if is_reference && closes && !name.is_empty() && name.bytes().all(word) {
            return Some((at..at + end + 2, name));
        }
    }
    None
}

/// The name of a secret in a guest's request, which may be a handle.
pub fn name_in(asked: &str) -> &str {
    asked.split(SEPARATOR).next().unwrap_or(asked)
}

/// Whether a text can stand before a secret: printable ASCII, and no expression.
fn is_prefix(text: &str) -> bool {
    text.len() <= PREFIX_BYTES
        && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && !is_template(text)
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

    /// A configuration with handles, and the references.
    fn called(value: &Value, number: u128) -> (Value, Vec<Reference>) {
        let mut bound = value.clone();
        let marked = bind(&mut bound, NUMBER);
        let (config, references) = handles(&bound.to_string(), &marked, number).unwrap();
        (serde_json::from_str(&config).unwrap(), references)
    }

    #[test]
    fn only_a_literal_member_is_a_reference() {
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
        let (config, mut references) = called(&value, 7);
        references.sort_by(|a, b| a.name.cmp(&b.name));
        let told = references.iter().map(|it| (&*it.name, &*it.prefix));
        assert_eq!(told.collect::<Vec<_>>(), [("mail", ""), ("price", "")]);
        let handle_of = |name: &str| {
            let found = references.iter().find(|it| *it.name == *name);
            json!({ "secret": &*found.unwrap().handle })
        };
        let mut wanted = value.clone();
        wanted["headers"]["a"] = handle_of("price");
        wanted["headers"]["f"] = json!([handle_of("mail"), handle_of("price")]);
        assert_eq!(config, wanted);
        assert!(are_in(&value));
        assert!(!are_in(&config), "a handle is no reference");
        assert_eq!(bind(&mut json!({ "secret": "a" }), NUMBER).len(), 1);
        assert!(bind(&mut json!("secret"), NUMBER).is_empty());
        assert!(!are_in(&json!([1, { "secret": 2 }])));
    }

    #[test]
    fn a_handle_is_of_one_call() {
        let value = json!({ "a": { "secret": "a \"b\" \\" } });
        let ((first, old), (second, new)) = (called(&value, 1), called(&value, 2));
        assert_ne!(first, second);
        assert_ne!(old[0].handle, new[0].handle);
        assert_eq!(second["a"]["secret"], *new[0].handle);
        assert_eq!(&*new[0].name, "a \"b\" \\");
    }

    #[test]
    fn a_mark_that_is_data_is_noticed() {
        let mut bound = json!({ "a": { "secret": "k" }, "b": { "secret": "k" } });
        let marked = bind(&mut bound, NUMBER);
        let with = |data: Value| {
            let mut rendered = bound.clone();
            rendered["data"] = data;
            handles(&rendered.to_string(), &marked, 1)
        };
        let mark = &*marked[0].mark;
        assert!(with(json!("harmless")).is_some());
        for data in [json!(mark), json!({ "secret": mark }), json!({ mark: 1 })] {
            assert!(with(data.clone()).is_none(), "{data}");
        }
        // Within a longer text it is no reference, and it stays.
        let (config, _) = with(json!(format!("x{mark}"))).unwrap();
        assert!(config.contains(mark));
    }

    #[test]
    fn a_prefix_is_kept_from_the_configuration() {
        let reference = |prefix: &str| json!({ "secret": "gh", "prefix": prefix });
        let value = json!([reference("Bearer "), reference("token "), { "secret": "gh" }, reference("token ")]);
        let (bound, mut references) = called(&value, 7);
        let of = |at: usize| bound[at]["secret"].as_str().unwrap();
        assert_eq!(of(1), of(3));
        assert_ne!(of(0), of(1));
        for at in 0..4 {
            assert_eq!(bound[at].as_object().unwrap().len(), 1, "{bound}");
            let wanted = value[at]["prefix"].as_str().unwrap_or_default();
            let found = references.iter().find(|it| *it.handle == *of(at)).unwrap();
            assert_eq!((&*found.name, &*found.prefix), ("gh", wanted));
        }
        assert_eq!(references.len(), 3);
        references.dedup_by(|a, b| a.handle == b.handle);
        assert_eq!(references.len(), 3, "a handle for each prefix");
        for wrong in ["{{ x }}", "a\r\nb", "ä", &"x".repeat(129)] {
            let mut value = reference(wrong);
            assert!(!are_in(&value), "{wrong}");
            assert!(bind(&mut value, NUMBER).is_empty(), "{wrong}");
        }
        let mut plain = value;
        without_prefixes(&mut plain);
        assert_eq!(plain, Value::from(vec![json!({ "secret": "gh" }); 4]));
    }

    #[test]
    fn a_reference_inside_of_a_text_is_found() {
        for (text, part, name) in [
            ("Bearer { secret: gh }", "{ secret: gh }", "gh"),
            ("Bearer {secret:gh}", "{secret:gh}", "gh"),
            ("ä {\"secret\": \"a.b\"} x", "{\"secret\": \"a.b\"}", "a.b"),
            (
                "{ a } { 'secret' : x, prefix: y }",
                "{ 'secret' : x, prefix: y }",
                "x",
            ),
        ] {
            let (at, found) = written_in(text).unwrap();
            assert_eq!((&text[at], found), (part, name), "{text}");
        }
        for text in [
            "",
            "secret: gh",
            "{ secret }",
            "{ secret: }",
            "{ secrets: gh }",
            "{{ input.secret }}",
            "{ secret: gh",
            "{ secret: two words }",
        ] {
            assert_eq!(written_in(text), None, "{text}");
        }
    }

    #[test]
    fn a_handle_tells_the_name() {
        assert_eq!(name_in(&handle("price")), "price");
        assert_eq!(name_in("price"), "price");
        assert_eq!(name_in(""), "");
    }
}
