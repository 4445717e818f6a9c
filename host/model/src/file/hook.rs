//! A trigger by a request: its method and path, its verification, and the answer to its sender.

use serde_json::Value;

use super::format::keys;
use super::reader::{Reader, list};
use super::tree::{Entry, Kind, Node as Tree};
use super::workflow::{Constant, constant, schema};
use crate::codes;
use crate::definition::StartTrigger;
use crate::http::{self, Encoding, Intake, Respond, Secrets, Verify};
use crate::nearest::did_you_mean;

const EXAMPLE: &str = "like `verify: { github: { secret: NAME } }`";

const LITERAL: Constant = (
    "the settings that verify a request are constants, not expressions",
    "write the name of the secret itself: data names no secret",
);

/// A request, by its method and path.
pub(super) fn request(reader: &mut Reader, tree: &Tree) -> StartTrigger {
    let like = match &tree.kind {
        Kind::Text { text, .. } if http::is_path(text) => {
            format!("write `http: {{ path: {text} }}`")
        }
        _ => "like `http: { path: /orders }`".to_owned(),
    };
    let entries = reader.map_like(tree, "a map with `path`", like);
    reader.known_keys(entries, "a trigger by `http`", keys("Http"), |_| None);
    let methods = http::METHODS.map(|method| (method, method));
    let method = tree.get("method");
    let method =
        method.and_then(|method| reader.at("method", |reader| reader.choice(method, &methods)));
    let path = match tree.get("path") {
        Some(path) => reader.at("path", |reader| hook_path(reader, path)),
        None if matches!(tree.kind, Kind::Map(_)) => {
            let report =
                reader.report(codes::MISSING_KEY, "a trigger by `http` has a `path`", tree);
            report.help("like `{ http: { method: POST, path: /orders } }`");
            None
        }
        None => None,
    };
    let of_query = tree.get("query");
    let query = of_query.map(|tree| reader.at("query", |reader| schema(reader, tree)));
    let of_params = tree.get("params");
    let params = of_params.map(|tree| reader.at("params", |reader| schema(reader, tree)));
    if let (Some(tree), Some(params), Some(path)) = (of_params, &params, path.as_deref()) {
        reader.at("params", |reader| {
            known_parameters(reader, tree, params, path)
        });
    }
    let raw = tree.get("raw");
    let raw = raw.is_some_and(|tree| reader.at("raw", |reader| reader.boolean(tree)));
    let verify = tree.get("verify");
    let verify = verify.and_then(|tree| reader.at("verify", |reader| verified(reader, tree)));
    let respond = tree.get("respond");
    let respond = respond.and_then(|tree| reader.at("respond", |reader| answered(reader, tree)));
    StartTrigger::Http {
        method: method.unwrap_or("POST").to_owned(),
        path: path.unwrap_or_default(),
        verify,
        respond: respond.unwrap_or_default(),
        intake: Intake {
            query,
            params,
            raw,
            input: None,
        },
    }
}

/// Reports the members of a schema that are no parameters of the path.
fn known_parameters(reader: &mut Reader, tree: &Tree, schema: &Value, path: &str) {
    let names: Vec<&str> = http::parameter_names(path).collect();
    let declared = schema.get("properties").and_then(Value::as_object);
    let declared = declared.into_iter().flat_map(|all| all.keys());
    let unknown = declared.filter(|name| !names.contains(&name.as_str()));
    for name in unknown.cloned().collect::<Vec<_>>() {
        let message = format!("the path `{path}` has no parameter `{name}`");
        let near = did_you_mean(&name, names.iter().copied());
        let help = near.unwrap_or_else(|| match names.is_empty() {
            true => format!("write it into the path, like `{path}/{{{name}}}`"),
            false => format!("it has {}", list(&names)),
        });
        let value = tree.get("properties");
        let value = value.and_then(|all| all.get(&name)).unwrap_or(tree);
        let report = |reader: &mut Reader| {
            reader.report(codes::BAD_VALUE, message, value).help(help);
        };
        reader.at("properties", |reader| reader.at(&name, report));
    }
}

fn hook_path(reader: &mut Reader, tree: &Tree) -> Option<String> {
    let path = reader.text(tree)?.to_owned();
    if http::is_path(&path) {
        return Some(path);
    }
    let report = reader.report(
        codes::BAD_VALUE,
        format!("`{path}` is no path of a hook"),
        tree,
    );
    report.help(
        "like `/orders/new`: letters, digits, `-`, `.`, `_` and `~` between single slashes; a \
        part after the first may be a parameter, like `/orders/{id}`, and there are at most 4",
    );
    None
}

/// How a request is verified. None only with a report, so that a mistake never results in a trigger
/// that every request starts.
fn verified(reader: &mut Reader, tree: &Tree) -> Option<Verify> {
    constant(reader, tree, LITERAL);
    let entries = reader.map(tree, "a map with a scheme");
    let is_scheme = |entry: &&Entry| keys("Verify").contains(&entry.key.as_str());
    let mut schemes = entries.iter().filter(is_scheme);
    let first = schemes.next();
    reader.known_keys(entries, "`verify`", keys("Verify"), |_| None);
    let Some(first) = first else {
        if entries.is_empty() && matches!(tree.kind, Kind::Map(_)) {
            let message = format!("`verify` has one of {}", list(keys("Verify")));
            reader
                .report(codes::VERIFY_SCHEME, message, tree)
                .help(EXAMPLE);
        }
        return None;
    };
    if let Some(second) = schemes.find(|entry| entry.key != first.key) {
        let (a, b) = (&first.key, &second.key);
        let message = format!("`verify` has one scheme; this has `{a}` and `{b}`");
        let report = reader.report_key(codes::VERIFY_SCHEME, message, second);
        report.help("make two triggers of it, with two paths");
        return None;
    }
    let value = &first.value;
    reader.at(&first.key, |reader| scheme(reader, &first.key, value))
}

fn scheme(reader: &mut Reader, name: &str, tree: &Tree) -> Option<Verify> {
    let definition = match name {
        "stripe" | "standard-webhooks" => "TimedScheme",
        "hmac" => "HmacScheme",
        "basic" => "BasicScheme",
        _ => "PlainScheme",
    };
    let entries = reader.map(tree, "a map with `secret`");
    reader.known_keys(entries, &format!("`{name}`"), keys(definition), |_| None);
    if !matches!(tree.kind, Kind::Map(_)) {
        return None;
    }
    let secrets = secrets(reader, tree);
    Some(match name {
        "github" => Verify::Github { secrets: secrets? },
        "bearer" => Verify::Bearer { secrets: secrets? },
        "hmac" => {
            let header = wanted(reader, tree, "header", is_header);
            let prefix = word(reader, tree, "prefix", |text| {
                text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
            });
            let delivery = word(reader, tree, "delivery", is_header);
            let encodings = [("hex", Encoding::Hex), ("base64", Encoding::Base64)];
            let encoding = tree
                .get("encoding")
                .and_then(|value| reader.at("encoding", |reader| reader.choice(value, &encodings)));
            Verify::Hmac {
                secrets: secrets?,
                header: header?.to_ascii_lowercase(),
                encoding: encoding.unwrap_or_default(),
                prefix: prefix.unwrap_or_default(),
                delivery: delivery.map(|header| header.to_ascii_lowercase()),
            }
        }
        "basic" => {
            let user = wanted(reader, tree, "user", |text| {
                !text.is_empty() && !text.chars().any(|c| c == ':' || c.is_control())
            });
            let (user, secrets) = (user?, secrets?);
            Verify::Basic { user, secrets }
        }
        timed => {
            let tolerance_ms = bounded(
                reader,
                tree,
                "tolerance",
                (http::TOLERANCE_MS, http::MAX_TOLERANCE_MS),
            );
            let secrets = secrets?;
            if timed == "stripe" {
                Verify::Stripe {
                    secrets,
                    tolerance_ms,
                }
            } else {
                Verify::Standard {
                    secrets,
                    tolerance_ms,
                }
            }
        }
    })
}

/// The names of the secrets: `secret`, or `secrets` for several.
fn secrets(reader: &mut Reader, tree: &Tree) -> Option<Secrets> {
    let name = |reader: &mut Reader, tree: &Tree| {
        let text = reader.text(tree)?.to_owned();
        if is_secret(&text) {
            return Some(text);
        }
        let most = http::WORD_BYTES;
        let message = format!("`{text}` cannot be the name of a secret");
        reader
            .report(codes::BAD_VALUE, message, tree)
            .help(format!("1 to {most} letters, digits, `_`, `.` and `-`"));
        None
    };
    match (tree.get("secret"), tree.get("secrets")) {
        (Some(one), None) => {
            let one = reader.at("secret", |reader| name(reader, one))?;
            Some(vec![one])
        }
        (None, Some(several)) => reader.at("secrets", |reader| {
            let Kind::List(items) = &several.kind else {
                reader.wrong_type(several, "a list of names of secrets");
                return None;
            };
            if items.is_empty() || items.len() > http::SECRETS {
                let (most, here) = (http::SECRETS, items.len());
                let message = format!("1 to {most} secrets verify a request; here are {here}");
                reader.report(codes::BAD_VALUE, message, several);
                return None;
            }
            let read = |(at, item)| reader.at(usize::to_string(&at), |reader| name(reader, item));
            let names: Vec<Option<String>> = items.iter().enumerate().map(read).collect();
            names.into_iter().collect()
        }),
        (Some(_), Some(_)) => {
            let message = "a scheme has `secret` or `secrets`, and not both";
            let report = reader.report(codes::BAD_VALUE, message, tree);
            report.help("write all of them in `secrets`");
            None
        }
        (None, None) => {
            let report = reader.report(codes::MISSING_KEY, "a scheme has a `secret`", tree);
            report.help(EXAMPLE);
            None
        }
    }
}

/// A required text of a scheme.
fn wanted(
    reader: &mut Reader,
    tree: &Tree,
    key: &str,
    is_right: impl Fn(&str) -> bool,
) -> Option<String> {
    if tree.get(key).is_none() {
        reader.report(
            codes::MISSING_KEY,
            format!("the key `{key}` is missing"),
            tree,
        );
        return None;
    }
    word(reader, tree, key, is_right)
}

/// An optional text of a scheme.
fn word(
    reader: &mut Reader,
    tree: &Tree,
    key: &str,
    is_right: impl Fn(&str) -> bool,
) -> Option<String> {
    let value = tree.get(key)?;
    reader.at(key, |reader| {
        let text = reader.text(value)?;
        if text.len() <= http::WORD_BYTES && is_right(text) {
            return Some(text.to_owned());
        }
        let message = format!("`{text}` is not possible here");
        let most = http::WORD_BYTES;
        let help = match key {
            "header" | "delivery" => format!("the name of a header, at most {most} bytes"),
            "user" => format!("1 to {most} bytes without a colon"),
            _ => format!("at most {most} characters of ASCII"),
        };
        reader.report(codes::BAD_VALUE, message, value).help(help);
        None
    })
}

/// A duration of at least a millisecond, with a default and a bound.
fn bounded(reader: &mut Reader, tree: &Tree, key: &str, (unsaid, most): (u64, u64)) -> u64 {
    let Some(value) = tree.get(key) else {
        return unsaid;
    };
    reader.at(key, |reader| {
        let mistakes = reader.diagnostics.len();
        let ms = reader.duration(value);
        if reader.diagnostics.len() == mistakes && !(1..=most).contains(&ms) {
            let message = format!(
                "`{key}` must be greater than 0 and at most {} s",
                most / 1000
            );
            reader.report(codes::BAD_VALUE, message, value);
        }
        ms
    })
}

/// The answer to the sender.
fn answered(reader: &mut Reader, tree: &Tree) -> Option<Respond> {
    let Kind::Map(entries) = &tree.kind else {
        let choices = [("accepted", ())];
        if matches!(tree.kind, Kind::Text { .. }) {
            reader.choice(tree, &choices);
        } else {
            let report = reader.wrong_type(tree, "`accepted` or a map with `node`");
            report.help("like `respond: { node: answer, within: 10s }`");
        }
        return None;
    };
    reader.known_keys(entries, "`respond`", keys("RespondNode"), |_| None);
    let node = tree.get("node");
    let node =
        node.and_then(|node| reader.at("node", |reader| reader.text(node).map(str::to_owned)));
    let bounds = (http::WITHIN_MS, http::MAX_WITHIN_MS);
    let within_ms = bounded(reader, tree, "within", bounds);
    if tree.get("node").is_none() {
        let report = reader.report(codes::MISSING_KEY, "`respond` has a `node`", tree);
        report.help("like `respond: { node: answer, within: 10s }`");
    }
    Some(Respond::Node {
        node: node?,
        within_ms,
    })
}

fn is_secret(text: &str) -> bool {
    let byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=http::WORD_BYTES).contains(&text.len()) && text.bytes().all(byte)
}

/// Whether a text is a name of a header: a token of RFC 9110.
fn is_header(text: &str) -> bool {
    let byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(byte)
}
