//! Edges, in the short and the long form.

use super::reader::{Reader, Report, cut, is_name, stands_for};
use super::tree::{Kind, Node};
use super::{format, workflow};
use crate::codes;
use crate::definition::{ANY_PORT, DONE, Edge, When};

const SHORT: &str = "an edge is like `a -> b`, `a.port -> b` or `a -> b: condition`";

pub(super) fn all(reader: &mut Reader, tree: &Node) -> Vec<Edge> {
    let Kind::List(items) = &tree.kind else {
        if !matches!(tree.kind, Kind::Null) {
            let help = match &tree.kind {
                Kind::Text { text, .. } if text.starts_with('-') && !text.starts_with("->") => {
                    format!(
                        "write a space after the dash: `- {}`",
                        cut(text.trim_start_matches('-'))
                    )
                }
                Kind::Text { text, .. } if text.contains("->") => {
                    format!(
                        "write `edges: [{}]`, or begin the edge with `- ` in a line of its own",
                        cut(text)
                    )
                }
                _ => "begin every edge with `- `".to_owned(),
            };
            reader.wrong_type(tree, "a list of edges").help(help);
        }
        return Vec::new();
    };
    workflow::check_count(reader, tree, items.len(), "edges");
    let (mut edges, mut places) = (Vec::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        if let Some(edge) = reader.at(index.to_string(), |reader| one(reader, item)) {
            edges.push(edge);
            places.push(index);
        }
    }
    if edges.len() < items.len() {
        reader.lost_edges(places);
    }
    edges
}

fn one(reader: &mut Reader, tree: &Node) -> Option<Edge> {
    match &tree.kind {
        // In quotes, an edge with its condition is one text.
        Kind::Text { text, .. } => match text.split_once(": ") {
            Some((ends, condition)) => {
                let condition = Node {
                    span: tree.span.clone(),
                    kind: Kind::Text {
                        text: condition.trim().to_owned(),
                        plain: false,
                    },
                };
                let when = when(reader, &condition);
                short(reader, tree, ends, when)
            }
            None => short(reader, tree, text, When::Always),
        },
        Kind::Map(entries) => match entries.as_slice() {
            [entry] if entry.key.contains("->") => {
                let when = reader.at(&entry.key, |reader| when(reader, &entry.value));
                let key = Node {
                    span: entry.key_span.clone(),
                    kind: Kind::Text {
                        text: entry.key.clone(),
                        plain: true,
                    },
                };
                short(reader, &key, &entry.key, when)
            }
            [_, second, ..] if entries.iter().any(|entry| entry.key.contains("->")) => {
                let message = "several edges stand in one entry of the list";
                reader
                    .report_key(codes::BAD_EDGE, message, second)
                    .help("begin every edge with `- `");
                None
            }
            // `- a: b`
            [entry]
                if !format::keys("Edge").contains(&entry.key.as_str())
                    && matches!(entry.value.kind, Kind::Text { .. }) =>
            {
                let to = match &entry.value.kind {
                    Kind::Text { text, .. } => cut(text),
                    _ => String::new(),
                };
                let from = cut(&entry.key);
                let message = format!("`{from}: {to}` is not an edge");
                let help = format!("write `{from} -> {to}`");
                reader
                    .report_key(codes::BAD_EDGE, message, entry)
                    .help(help);
                None
            }
            _ => long(reader, tree),
        },
        Kind::List(items) => {
            let names = items.iter().map(|item| match &item.kind {
                Kind::Text { text, .. } if is_name(text, false) => Some(text.as_str()),
                _ => None,
            });
            let help = match names.collect::<Option<Vec<_>>>().as_deref() {
                Some([from, to]) => format!("write `{from} -> {to}`"),
                _ => SHORT.to_owned(),
            };
            bad(reader, tree, "a list is not an edge".to_owned()).help(help);
            None
        }
        _ => {
            bad(reader, tree, format!("{} is not an edge", tree.describe())).help(SHORT);
            None
        }
    }
}

fn bad<'r>(reader: &'r mut Reader, tree: &Node, message: String) -> Report<'r> {
    reader.report(codes::BAD_EDGE, message, tree)
}

/// `a.port -> b`
fn short(reader: &mut Reader, tree: &Node, text: &str, when: When) -> Option<Edge> {
    let parts: Vec<&str> = text.split("->").map(str::trim).collect();
    let (from, to) = match parts.as_slice() {
        [from, to] if !from.ends_with('-') => (*from, *to),
        [_] | [_, _] => {
            let help = other_arrow(text).map(|edge| format!("write `{edge}`"));
            let help = help.unwrap_or_else(|| SHORT.to_owned());
            bad(reader, tree, format!("`{}` is not an edge", cut(text))).help(help);
            return None;
        }
        [first, second, third, ..] => {
            let help = format!("write `- {first} -> {second}` and `- {second} -> {third}`");
            bad(
                reader,
                tree,
                "an edge leads from one node to one other".to_owned(),
            )
            .help(help);
            return None;
        }
        [] => return None,
    };
    if to.contains([':', ' ', ',', '[']) {
        let help = behind_target(from, to);
        let message = format!("`{}` is not the name of a node", cut(to));
        bad(reader, tree, message).help(help);
        return None;
    }
    let (from, port) = from.split_once('.').unwrap_or((from, DONE));
    let valid = end(reader, tree, from, "node") & end(reader, tree, to, "node");
    (valid & end(reader, tree, port, "port")).then(|| edge(from, port, to, when, None))
}

/// The edge that another arrow probably means.
fn other_arrow(text: &str) -> Option<String> {
    const ARROWS: [(&str, bool); 10] = [
        ("-->", false),
        ("--->", false),
        ("- >", false),
        ("=>", false),
        ("→", false),
        ("⟶", false),
        ("➔", false),
        (">>", false),
        ("<-", true),
        ("←", true),
    ];
    for (arrow, back) in ARROWS {
        let Some((left, right)) = text.split_once(arrow) else {
            continue;
        };
        let (left, right) = (left.trim(), right.trim());
        let (from, to) = if back { (right, left) } else { (left, right) };
        let ends = is_name(from.split_once('.').map_or(from, |(node, _)| node), false);
        if ends && is_name(to, false) {
            return Some(format!("{from} -> {to}"));
        }
    }
    None
}

/// The remedy for text behind the name of the node that an edge leads to.
fn behind_target(from: &str, to: &str) -> String {
    let names = to.trim_matches(['[', ']']).split(',').map(str::trim);
    let names: Vec<&str> = names.collect();
    if names.len() > 1 && names.iter().all(|name| is_name(name, false)) {
        let edges = names
            .iter()
            .take(4)
            .map(|name| format!("`- {from} -> {name}`"));
        return format!(
            "write an edge for each: {}",
            edges.collect::<Vec<_>>().join(", ")
        );
    }
    match to.split_once([':', ' ']) {
        Some((target, rest)) if is_name(target, false) => {
            let rest = rest.trim();
            let condition = rest
                .strip_prefix("when ")
                .or_else(|| rest.strip_prefix("if "));
            match condition {
                Some(condition) => format!(
                    "a condition stands behind a colon: `{from} -> {target}: {}`",
                    cut(condition)
                ),
                None => format!(
                    "write a space after the colon: `{from} -> {target}: {}`",
                    cut(rest)
                ),
            }
        }
        _ => SHORT.to_owned(),
    }
}

fn end(reader: &mut Reader, tree: &Node, name: &str, what: &str) -> bool {
    let valid = match what {
        "port" => is_port(name),
        _ => is_name(name, false),
    };
    // The node of this name has its error already.
    if !valid && !reader.bad_names.contains(name) {
        let message = match name {
            "" => "an end of the edge is missing".to_owned(),
            name => format!("`{}` cannot be the name of a {what}", cut(name)),
        };
        let help = match name.contains('-') {
            true => "names of nodes have no hyphens, because in an expression a hyphen is a minus",
            false => SHORT,
        };
        bad(reader, tree, message).help(help);
    }
    valid
}

fn is_port(name: &str) -> bool {
    name == ANY_PORT || is_name(name, true)
}

fn edge(from: &str, port: &str, to: &str, when: When, id: Option<&str>) -> Edge {
    let id = match (id, port) {
        (Some(id), _) => id.to_owned(),
        (None, DONE) => format!("{from}->{to}"),
        (None, port) => format!("{from}.{port}->{to}"),
    };
    Edge {
        id,
        from: from.to_owned(),
        port: port.to_owned(),
        to: to.to_owned(),
        when,
    }
}

/// `{ from, port, to, when, id }`
fn long(reader: &mut Reader, tree: &Node) -> Option<Edge> {
    let entries = reader.map(tree, "an edge");
    reader.known_keys(entries, "an edge", format::keys("Edge"), |_| {
        Some(SHORT.to_owned())
    });
    let mut text = |key: &str| {
        let node = tree.get(key)?;
        reader.at(key, |reader| {
            let text = reader.text(node)?;
            let valid = match key {
                "id" => true,
                "port" => is_port(text),
                _ => is_name(text, false),
            };
            if !valid {
                let message = format!("`{text}` cannot be a name");
                reader.report(codes::BAD_NAME, message, node);
            }
            Some(text)
        })
    };
    let (from, to) = (text("from"), text("to"));
    let (port, id) = (text("port"), text("id"));
    let when = match tree.get("when") {
        Some(node) => reader.at("when", |reader| when(reader, node)),
        None => When::Always,
    };
    for key in ["from", "to"] {
        let misspelt = || {
            entries
                .iter()
                .any(|entry| stands_for("an edge", entry, key))
        };
        if tree.get(key).is_none() && !misspelt() {
            let message = format!("the key `{key}` of the edge is missing");
            reader.report(codes::MISSING_KEY, message, tree).help(SHORT);
        }
    }
    Some(edge(from?, port.unwrap_or(DONE), to?, when, id))
}

fn when(reader: &mut Reader, node: &Node) -> When {
    match &node.kind {
        Kind::Text { text, .. } if text == "else" => When::Else,
        Kind::Null => {
            let message = "there is a colon, but no condition after it".to_owned();
            bad(reader, node, message).help("leave the colon out, or put the condition in quotes");
            When::Always
        }
        _ => condition(reader, node).map_or(When::Always, When::If),
    }
}

/// A condition: an expression, or a constant.
pub(super) fn condition(reader: &mut Reader, node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Text { text, plain } => {
            if *plain && cut_by_comment(text) {
                let message =
                    "the condition ends inside of a quote: a `#` after a space begins a comment";
                let help = "put the whole condition in quotes";
                reader.report(codes::NEEDS_QUOTES, message, node).help(help);
            }
            Some(text.clone())
        }
        // An expression may be just `true`.
        Kind::Bool(value) => Some(value.to_string()),
        _ => {
            reader
                .wrong_type(node, "a condition")
                .help("a condition is an expression; put it in quotes");
            None
        }
    }
}

/// Text with an unclosed quote was probably cut by a `#`, which begins a comment in YAML.
fn cut_by_comment(text: &str) -> bool {
    let mut quote = None;
    let mut escaped = false;
    for c in text.chars() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            _ => {}
        }
    }
    quote.is_some()
}
