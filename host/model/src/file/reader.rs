//! Walks a tree, tracks its position and collects mistakes.
//!
//! Every reading function returns a value of its type even if the file has a mistake there, so that
//! reading continues. A definition that was read with mistakes serves only to find further ones.

use std::collections::{BTreeMap, BTreeSet};

use super::Unread;
use super::duration::{DURATIONS, NoTime, duration_ms};
use super::foreign;
use super::tree::{Entry, Kind, Node};
use crate::nearest::nearest;
use crate::schema::escape;
use crate::template::is_template;
use crate::{Code, Diagnostic, Place, codes};

/// Bytes of the pointers of all mistakes, before pointers without a span are shortened.
const POINTERS_BYTES: usize = 8 * 1024 * 1024;

/// Bytes of one name.
const NAME_BYTES: usize = 128;

#[derive(Default)]
pub(super) struct Reader {
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Whether the definition was accepted before: then the schema of its input is checked only
    /// where a run begins, so that existing runs continue even if the bounds have changed.
    pub(super) stored: bool,
    /// Nodes and edges so far, those of bodies included.
    pub(super) nodes: usize,
    pub(super) edges: usize,
    pub(super) unread: Unread,
    pointer: String,
    /// Bytes of the pointers of all mistakes.
    pointers: usize,
    /// The first position of each node name.
    names: BTreeMap<String, Place>,
    /// The names of all nodes, for messages about values that are read before them.
    pub(super) all_nodes: BTreeSet<String>,
    /// Names that were refused: edges that use them are no further mistakes.
    pub(super) bad_names: BTreeSet<String>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Tells that of the list of edges at the current position only those at `places` were read.
    pub(super) fn lost_edges(&mut self, places: Vec<usize>) {
        self.unread.edges.insert(self.pointer.clone(), places);
    }

    /// Reads the value at `name` below the current position.
    pub(super) fn at<T>(&mut self, name: impl AsRef<str>, read: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&escape(name.as_ref()));
        let value = read(self);
        self.pointer.truncate(length);
        value
    }

    /// Reports a mistake about `node`.
    pub(super) fn report(
        &mut self,
        code: Code,
        message: impl Into<String>,
        node: &Node,
    ) -> Report<'_> {
        if self.is_full() {
            return Report(None);
        }
        let place = Place {
            pointer: self.pointer.clone(),
            span: shown(node),
            within: None,
        };
        self.push(Diagnostic::new(code, message, place))
    }

    /// Reports a mistake about the value at a pointer below the current position.
    pub(super) fn report_below(
        &mut self,
        code: Code,
        message: impl Into<String>,
        pointer: &str,
    ) -> Report<'_> {
        if self.is_full() {
            return Report(None);
        }
        let place = Place::at(format!("{}{pointer}", self.pointer));
        self.push(Diagnostic::new(code, message, place))
    }

    /// Reports a mistake about the key of an entry.
    pub(super) fn report_key(
        &mut self,
        code: Code,
        message: impl Into<String>,
        entry: &Entry,
    ) -> Report<'_> {
        if self.is_full() {
            return Report(None);
        }
        let pointer = format!("{}/{}", self.pointer, escape(&entry.key));
        let place = Place {
            pointer,
            span: Some(entry.key_span.clone()),
            within: None,
        };
        self.push(Diagnostic::new(code, message, place))
    }

    /// Reports the mistake that another part has found in the value at this position, in the text
    /// of `within`. A span is relative to the beginning of that text.
    pub(super) fn adopt(&mut self, mut found: Diagnostic, within: Option<&Node>) {
        if self.is_full() {
            return;
        }
        found.place.pointer.insert_str(0, &self.pointer);
        let text = within.and_then(|node| match &node.kind {
            // The positions in the text are those in the file only if nothing is escaped.
            Kind::Text { text, plain } => {
                let quotes = if *plain { 0 } else { 2 };
                (node.span.len() == text.len() + quotes).then(|| node.span.start + quotes / 2)
            }
            _ => None,
        });
        let span = found.place.span.take().zip(text);
        found.place.span = span.map(|(span, start)| start + span.start..start + span.end);
        self.push(found);
    }

    /// Whether further mistakes are not reported. Keeps one more than is shown, so that a file
    /// whose only mistakes are beyond the bound is still refused.
    pub(super) fn is_full(&self) -> bool {
        self.diagnostics.len() > super::DIAGNOSTICS
    }

    fn push(&mut self, mut diagnostic: Diagnostic) -> Report<'_> {
        if self.is_full() {
            return Report(None);
        }
        // The pointer of a place without a span is still needed to find the span.
        self.pointers += diagnostic.place.pointer.len();
        if diagnostic.place.span.is_some() || self.pointers > POINTERS_BYTES {
            diagnostic.place.shorten();
        }
        self.diagnostics.push(diagnostic);
        Report(self.diagnostics.last_mut())
    }

    /// Reports that `node` has another type than `wanted`.
    pub(super) fn wrong_type(&mut self, node: &Node, wanted: &str) -> Report<'_> {
        let message = format!("expected {wanted}, found {}", node.describe());
        self.report(codes::WRONG_TYPE, message, node)
    }

    /// The entries of a map.
    pub(super) fn map<'n>(&mut self, node: &'n Node, wanted: &str) -> &'n [Entry] {
        match &node.kind {
            Kind::Map(entries) => entries,
            _ => {
                self.wrong_type(node, wanted);
                &[]
            }
        }
    }

    /// Reports the keys that are not among `known`.
    pub(super) fn known_keys(
        &mut self,
        entries: &[Entry],
        what: &str,
        known: &[&str],
        hint: impl Fn(&str) -> Option<String>,
    ) {
        let known_key = |key: &str| known.contains(&key) || key == super::format::MERGE;
        for entry in entries.iter().filter(|entry| !known_key(&entry.key)) {
            if self.is_full() {
                return;
            }
            let help = match (
                foreign::key(what, &entry.key),
                nearest(&entry.key, known.iter().copied()),
            ) {
                (Some(foreign), _) => Some(foreign.help.to_owned()),
                (None, Some(name)) => Some(format!("did you mean `{name}`?")),
                (None, None) => {
                    hint(&entry.key).or_else(|| Some(format!("{what} has {}", list(known))))
                }
            };
            let message = format!("{what} has no key `{}`", cut(&entry.key));
            self.report_key(codes::UNKNOWN_KEY, message, entry)
                .maybe_help(help);
        }
    }

    pub(super) fn text<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        match &node.kind {
            Kind::Text { text, .. } => Some(text),
            Kind::Bool(_) | Kind::Number(_) => {
                self.wrong_type(node, "text").help("put it in quotes");
                None
            }
            _ => {
                self.wrong_type(node, "text");
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, node: &Node) -> bool {
        match &node.kind {
            Kind::Bool(value) => *value,
            Kind::Text { text, plain } => {
                let meant = match text.to_ascii_lowercase().as_str() {
                    "yes" | "on" | "y" | "true" => Some("true"),
                    "no" | "off" | "n" | "false" => Some("false"),
                    _ => None,
                };
                let help = meant.map(|meant| match plain {
                    true => format!("in YAML 1.2 `{text}` is text; write `{meant}`"),
                    false => format!("write `{meant}`, without quotes"),
                });
                self.wrong_type(node, "`true` or `false`").maybe_help(help);
                false
            }
            _ => {
                self.wrong_type(node, "`true` or `false`");
                false
            }
        }
    }

    /// A whole number of at least 1.
    pub(super) fn count(&mut self, node: &Node) -> u32 {
        let number = match &node.kind {
            Kind::Number(number) => number
                .as_u64()
                .and_then(|number| u32::try_from(number).ok()),
            _ => None,
        };
        match number {
            Some(number) if number > 0 => number,
            _ => {
                let help = match &node.kind {
                    Kind::Text { text, .. } if text.parse::<u32>().is_ok() => {
                        Some(format!("write `{text}`, without quotes"))
                    }
                    Kind::Text { text, .. } if text.contains("{{") => {
                        Some("it is a constant, and no expression".to_owned())
                    }
                    _ => None,
                };
                self.wrong_type(node, "a whole number, at least 1")
                    .maybe_help(help);
                1
            }
        }
    }

    /// A whole number from 1 to `most`.
    pub(super) fn at_most(&mut self, node: &Node, most: u32) -> u32 {
        let number = self.count(node);
        if number > most {
            let message = format!("`{number}` is more than {most}, which is the most");
            self.report(codes::BAD_VALUE, message, node);
        }
        number
    }

    /// A whole number from `-most` to `most`.
    pub(super) fn within(&mut self, node: &Node, most: i32) -> i32 {
        let number = match &node.kind {
            Kind::Number(number) => number.as_i64(),
            _ => None,
        };
        let number = number.and_then(|number| i32::try_from(number).ok());
        match number.filter(|number| number.unsigned_abs() <= most.unsigned_abs()) {
            Some(number) => number,
            None => {
                self.wrong_type(node, &format!("a whole number from -{most} to {most}"));
                0
            }
        }
    }

    /// A map, with the remedy for another value.
    pub(super) fn map_like<'n>(
        &mut self,
        node: &'n Node,
        wanted: &str,
        like: impl Into<String>,
    ) -> &'n [Entry] {
        match &node.kind {
            Kind::Map(entries) => entries,
            _ => {
                self.wrong_type(node, wanted).help(like);
                &[]
            }
        }
    }

    /// A duration in milliseconds.
    pub(super) fn duration(&mut self, node: &Node) -> u64 {
        match &node.kind {
            Kind::Text { text, .. } if is_template(text) => {
                let message = "this duration is a constant, and no expression";
                let report = self.report(codes::BAD_DURATION, message, node);
                report.help(DURATIONS);
            }
            Kind::Text { text, .. } => match duration_ms(text) {
                Ok(ms) => return ms,
                Err(wrong) => self.no_time(wrong, node),
            },
            Kind::Number(number) => self.no_time(NoTime::unitless(number), node),
            _ => {
                self.wrong_type(node, "a duration").help(DURATIONS);
            }
        }
        0
    }

    /// Reports a value that is no duration or no instant.
    pub(super) fn no_time(&mut self, wrong: NoTime, node: &Node) {
        let report = self.report(codes::BAD_DURATION, wrong.message, node);
        report.help(wrong.help);
    }

    /// One of several names.
    pub(super) fn choice<T: Copy>(&mut self, node: &Node, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let text = match &node.kind {
            Kind::Text { text, .. } => text,
            _ => {
                self.wrong_type(node, &format!("one of {}", list(&names)));
                return None;
            }
        };
        let found = choices.iter().find(|(name, _)| name == text);
        if found.is_none() {
            let help = match (
                foreign::value(self.key(), text),
                nearest(text, names.iter().copied()),
            ) {
                (Some(foreign), _) => foreign.help.to_owned(),
                (None, Some(name)) => format!("did you mean `{name}`?"),
                (None, None) if names.len() == 1 => format!("it is {}", list(&names)),
                (None, None) => format!("it is one of {}", list(&names)),
            };
            self.report(
                codes::BAD_VALUE,
                format!("`{}` is not possible here", cut(text)),
                node,
            )
            .help(help);
        }
        found.map(|(_, value)| *value)
    }

    /// Whether a node has this name, in any body.
    pub(super) fn is_node(&self, name: &str) -> bool {
        self.all_nodes.contains(name)
    }

    /// Whether the current position is the value of this key.
    pub(super) fn is_at(&self, key: &str) -> bool {
        self.pointer.rsplit('/').next() == Some(key)
    }

    /// The key of the value at the current position; that of the list for an item.
    fn key(&self) -> &str {
        let steps = self.pointer.rsplit('/');
        let is_key = |step: &&str| step.bytes().any(|byte| !byte.is_ascii_digit());
        let mut keys = steps.filter(is_key);
        keys.next().unwrap_or_default()
    }

    /// Records the name of a node. No other node may have it, in any body.
    pub(super) fn take_node_name(&mut self, entry: &Entry) {
        let place = Place {
            pointer: format!("{}/{}", self.pointer, escape(&entry.key)),
            span: Some(entry.key_span.clone()),
            within: None,
        };
        let Some(first) = self.names.get(&entry.key).cloned() else {
            self.names.insert(entry.key.clone(), place);
            return;
        };
        // In one map it is a repeated key, which has its error already.
        if first.pointer == place.pointer {
            return;
        }
        let message = format!("another node has the name `{}`", entry.key);
        let report = self.report_key(codes::DUPLICATE_NODE, message, entry);
        report
            .related(first, "the other one")
            .help("names are unique in the whole workflow; choose another one");
    }

    /// Whether a key can be a name: `[a-z_][a-z0-9_]*`.
    pub(super) fn name(&mut self, entry: &Entry, what: &str) {
        let name = entry.key.as_str();
        if is_name(name, false) {
            return;
        }
        self.bad_names.insert(name.to_owned());
        let fixed = repair(name, '_');
        let fixed = is_name(&fixed, false).then(|| format!("; write `{fixed}`"));
        let fixed = fixed.unwrap_or_default();
        let why = if name.len() > NAME_BYTES {
            format!("a name has at most {NAME_BYTES} characters")
        } else if name.contains('-') {
            format!("in an expression a hyphen is a minus{fixed}")
        } else {
            format!("names consist of a-z, 0-9 and `_`, and do not begin with a digit{fixed}")
        };
        let message = format!("`{}` cannot be the name of {what}", cut(name));
        self.report_key(codes::BAD_NAME, message, entry).help(why);
    }
}

/// A report to which help can be added; nothing once there are too many.
pub(super) struct Report<'r>(Option<&'r mut Diagnostic>);

impl Report<'_> {
    pub(super) fn related(mut self, place: Place, why: &str) -> Self {
        if let Some(diagnostic) = &mut self.0 {
            diagnostic.related.push((place, why.to_owned()));
        }
        self
    }

    pub(super) fn help(self, help: impl Into<String>) {
        self.maybe_help(Some(help.into()));
    }

    pub(super) fn maybe_help(self, help: Option<String>) {
        if let Some(diagnostic) = self.0 {
            diagnostic.help = help;
        }
    }
}

/// `[a-z_][a-z0-9_]*`, with hyphens if `hyphens` is set.
pub(super) fn is_name(text: &str, hyphens: bool) -> bool {
    let mut bytes = text.bytes();
    text.len() <= NAME_BYTES
        && bytes
            .next()
            .is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_')
        && bytes.all(|byte| {
            byte.is_ascii_lowercase()
                || byte.is_ascii_digit()
                || byte == b'_'
                || (hyphens && byte == b'-')
        })
}

/// The name that the author probably intended: small letters, with `joint` between words.
pub(super) fn repair(name: &str, joint: char) -> String {
    let mut fixed = String::new();
    let mut small = false;
    for c in name.chars().take(NAME_BYTES) {
        match c {
            '-' | '_' | ' ' | '.' | '/' => fixed.push(if c == '_' { c } else { joint }),
            c if c.is_ascii_uppercase() => {
                if small {
                    fixed.push(joint);
                }
                fixed.push(c.to_ascii_lowercase());
            }
            'ä' | 'Ä' => fixed.push_str("ae"),
            'ö' | 'Ö' => fixed.push_str("oe"),
            'ü' | 'Ü' => fixed.push_str("ue"),
            'ß' => fixed.push_str("ss"),
            c => fixed.push(c),
        }
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    if fixed.starts_with(|c: char| c.is_ascii_digit()) {
        fixed.insert(0, '_');
    }
    fixed
}

/// Whether an unknown key probably means `key`.
pub(super) fn stands_for(what: &str, entry: &Entry, key: &str) -> bool {
    match foreign::key(what, &entry.key) {
        Some(foreign) => foreign.instead == key,
        None => entry.key != key && nearest(&entry.key, [key]).is_some(),
    }
}

/// Text of the file as a message shows it.
pub(super) fn cut(text: &str) -> String {
    const CHARS: usize = 80;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Names as a list in a sentence.
pub(super) fn list(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The part of a value that is underlined: for a large value, its key.
fn shown(node: &Node) -> Option<std::ops::Range<usize>> {
    match node.kind {
        Kind::List(_) | Kind::Map(_) | Kind::Null => None,
        _ => Some(node.span.clone()),
    }
}
