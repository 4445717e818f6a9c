//! From text to tree.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag, options};

use super::reader::cut;
use super::tree::{Entry, Kind, Node, is_printable};
use super::{scalar, syntax};
use crate::{Diagnostic, Place, codes, limits};

/// The most bytes that aliases may add to a document; a value counts for a few more than its text.
const ALIAS_BYTES: usize = limits::WORKFLOW_BYTES;
const VALUE_BYTES: usize = 16;

/// Reads `text`. The result represents the text even if mistakes were reported, unless the
/// structure of the text cannot be parsed.
pub(super) fn parse(text: &str, json: bool, diagnostics: &mut Vec<Diagnostic>) -> Option<Node> {
    if json && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        diagnostics.push(syntax::json_mistake(text, &error));
        return None;
    }
    let is_json = || json || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if !(text.contains(only_in_json) && is_json()) {
        return parse_yaml(text, diagnostics);
    }
    let escaped = Escaped::new(text);
    let mut found = Vec::new();
    let mut tree = parse_yaml(&escaped.text, &mut found);
    if let Some(tree) = &mut tree {
        tree.move_spans(&|at| escaped.before(at));
    }
    for diagnostic in &mut found {
        let related = diagnostic.related.iter_mut().map(|(place, _)| place);
        for place in related.chain([&mut diagnostic.place]) {
            if let Some(span) = &mut place.span {
                *span = escaped.before(span.start)..escaped.before(span.end);
            }
        }
    }
    diagnostics.append(&mut found);
    tree
}

/// Whether JSON may have a character in its texts that YAML has only as an escape.
fn only_in_json(c: char) -> bool {
    c > '~' && !is_printable(c)
}

/// JSON that is YAML, too.
struct Escaped {
    text: String,
    /// For each character that became an escape: the bytes of the escape, and how many bytes all
    /// escapes up to it have added.
    escapes: Vec<(Range<usize>, usize)>,
}

impl Escaped {
    fn new(json: &str) -> Self {
        let (mut text, mut escapes) = (String::with_capacity(json.len()), Vec::new());
        let mut added = 0;
        for c in json.chars() {
            if !only_in_json(c) {
                text.push(c);
                continue;
            }
            let start = text.len();
            // Writing into a string does not fail.
            let _ = write!(text, "\\u{:04x}", u32::from(c));
            added += text.len() - start - c.len_utf8();
            escapes.push((start..text.len(), added));
        }
        Self { text, escapes }
    }

    /// The place of an offset before the characters became escapes.
    fn before(&self, at: usize) -> usize {
        let passed = self.escapes.partition_point(|(escape, _)| escape.end <= at);
        // An offset inside of an escape is that of its character.
        let within = self.escapes.get(passed);
        let at = within.map_or(at, |(escape, _)| at.min(escape.start));
        let last = passed
            .checked_sub(1)
            .and_then(|last| self.escapes.get(last));
        at - last.map_or(0, |(_, added)| *added)
    }
}

fn parse_yaml(text: &str, diagnostics: &mut Vec<Diagnostic>) -> Option<Node> {
    let options = options! {
        disallow_directives: true,
        emit_comments: false,
        emit_unresolved_aliases: true,
        simple_key_max_lookahead: 64 * 1024,
        flow_nesting_limit: limits::NESTING + 1,
        block_nesting_limit: limits::NESTING + 1,
    };
    let mut builder = Builder::new(text);
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, span)) => {
                let range = span.byte_range().unwrap_or(0..0);
                if builder.event(event, range, &span).is_err() {
                    break;
                }
            }
            Err(error) => {
                // An alias that is text without quotes ruins the rest of its line.
                if builder.stopped {
                    return builder.finish(diagnostics);
                }
                // Mistakes that follow from the missing rest would only confuse.
                diagnostics.push(syntax::yaml_mistake(text, &error));
                return None;
            }
        }
    }
    builder.finish(diagnostics)
}

/// Parsing has to stop; the reason has been reported.
struct Stop;

struct Builder<'a> {
    text: &'a str,
    diagnostics: Vec<Diagnostic>,
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    anchors: HashMap<usize, Anchored>,
    alias_bytes: usize,
    stopped: bool,
}

struct Anchored {
    node: Node,
    bytes: usize,
}

/// A list or map that has not ended.
struct Open {
    start: Range<usize>,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        seen: HashSet<String>,
        key: Option<(String, Range<usize>)>,
    },
}

impl<'a> Builder<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            diagnostics: Vec::new(),
            open: Vec::new(),
            root: None,
            documents: 0,
            anchors: HashMap::new(),
            alias_bytes: 0,
            stopped: false,
        }
    }

    fn finish(mut self, diagnostics: &mut Vec<Diagnostic>) -> Option<Node> {
        if self.root.is_none() && !self.stopped {
            let help =
                "a workflow is like `workflow: order`, below it `nodes:` with the nodes by name";
            self.report(codes::DOCUMENTS, "the file is empty", 0..0, Some(help));
        }
        diagnostics.append(&mut self.diagnostics);
        self.root.filter(|_| !self.stopped)
    }

    fn event(&mut self, event: Event<'_>, range: Range<usize>, span: &Span) -> Result<(), Stop> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let help = "put each workflow into a file of its own";
                    self.report(
                        codes::DOCUMENTS,
                        "the file has several documents",
                        range,
                        Some(help),
                    );
                    return self.stop();
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let node = self.scalar(&text, style, tag.as_deref(), range, span);
                self.add(node, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), "seq", span);
                self.begin(Content::List(Vec::new()), anchor, range)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), "map", span);
                let content = Content::Map {
                    entries: Vec::new(),
                    seen: HashSet::new(),
                    key: None,
                };
                self.begin(content, anchor, range)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(&range),
            Event::Alias(id) => self.alias(id, range),
            Event::UnresolvedAlias(name) => {
                let help = "put the whole value in quotes, if it is text";
                let name = cut(&name);
                let message = format!(
                    "YAML takes `*{name}` for an alias, because of the leading `*`, and no anchor \
                     `&{name}` is before it"
                );
                self.report(codes::BAD_ALIAS, message, range.clone(), Some(help));
                // Without its value, what contains it would seem wrong too: the tree is dropped.
                self.stopped = true;
                let kind = Kind::Null;
                self.add(Node { span: range, kind }, 0)
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, content: Content, anchor: usize, start: Range<usize>) -> Result<(), Stop> {
        if let Some(Open {
            content: Content::Map { key: None, .. },
            ..
        }) = self.open.last()
        {
            return self.complex_key(start);
        }
        if self.open.len() >= limits::NESTING {
            let message = format!("values nest at most {} deep", limits::NESTING);
            self.report(codes::TOO_LARGE, message, start, None);
            return self.stop();
        }
        self.open.push(Open {
            start,
            anchor,
            content,
        });
        Ok(())
    }

    fn end(&mut self, range: &Range<usize>) -> Result<(), Stop> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let kind = match open.content {
            Content::List(items) => Kind::List(items),
            Content::Map { entries, .. } => Kind::Map(entries),
        };
        let span = open.start.start..range.end.max(open.start.end);
        self.add(Node { span, kind }, open.anchor)
    }

    /// Adds a finished value to the open list or map.
    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        if anchor != 0 {
            let bytes = weigh(&node);
            self.anchors.insert(
                anchor,
                Anchored {
                    node: node.clone(),
                    bytes,
                },
            );
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.content {
            Content::List(items) => items.push(node),
            Content::Map { entries, key, .. } => match key.take() {
                Some((key, key_span)) => entries.push(Entry {
                    key,
                    key_span,
                    value: node,
                }),
                None => return self.key(node),
            },
        }
        Ok(())
    }

    /// A value in the position of a key.
    fn key(&mut self, node: Node) -> Result<(), Stop> {
        let text = match &node.kind {
            Kind::Text { text, .. } => text.clone(),
            Kind::List(_) | Kind::Map(_) => return self.complex_key(node.span),
            // A key like `200` or `true` is text: JSON has no others.
            _ => self
                .text
                .get(node.span.clone())
                .unwrap_or_default()
                .to_owned(),
        };
        let plain = !matches!(&node.kind, Kind::Text { plain: false, .. });
        if text == super::format::MERGE && plain {
            let help = "write the keys out; YAML 1.2 has no merge keys";
            self.report(
                codes::AMBIGUOUS,
                "`<<` is a merge key of YAML 1.1",
                node.span.clone(),
                Some(help),
            );
        }
        let Some(Open {
            content: Content::Map { entries, seen, key },
            ..
        }) = self.open.last_mut()
        else {
            return Ok(());
        };
        *key = Some((text.clone(), node.span.clone()));
        if !seen.insert(text.clone()) {
            let first = entries.iter().find(|entry| entry.key == text);
            let related = first.map(|entry| {
                let place = Place::spanning(entry.key_span.clone());
                (place, "it stands here first".to_owned())
            });
            let place = Place::spanning(node.span);
            let message = format!("the key `{text}` stands twice in this map");
            let mut diagnostic = Diagnostic::new(codes::DUPLICATE_KEY, message, place);
            diagnostic.related.extend(related);
            self.push(diagnostic);
        }
        Ok(())
    }

    fn complex_key(&mut self, start: Range<usize>) -> Result<(), Stop> {
        let outside = self
            .open
            .last()
            .map_or(start.start, |open| open.start.start);
        if self
            .text
            .get(outside..)
            .is_some_and(|text| text.starts_with("{{"))
        {
            let message = "an expression needs quotes: YAML takes `{` for the beginning of a map";
            let help = "write `\"{{ … }}\"`";
            self.report(
                codes::NEEDS_QUOTES,
                message,
                outside..outside + 2,
                Some(help),
            );
        } else {
            self.report(
                codes::SYNTAX,
                "a key cannot be a list or a map",
                start,
                Some("a key is a text, like `name: value`; put it in quotes if it begins with `[` or `{`"),
            );
        }
        self.stop()
    }

    fn alias(&mut self, id: usize, range: Range<usize>) -> Result<(), Stop> {
        let Some(anchored) = self.anchors.get(&id) else {
            let message = "the alias stands inside of its own anchor";
            self.report(codes::BAD_ALIAS, message, range, None);
            return self.stop();
        };
        self.alias_bytes = self.alias_bytes.saturating_add(anchored.bytes);
        if self.alias_bytes > ALIAS_BYTES {
            let message = format!("aliases add more than {ALIAS_BYTES} bytes to the document");
            self.report(codes::BAD_ALIAS, message, range, None);
            return self.stop();
        }
        let depth = self.open.len() + height(&anchored.node);
        let node = Node {
            span: range.clone(),
            kind: anchored.node.kind.clone(),
        };
        if depth > limits::NESTING {
            let message = format!("values nest at most {} deep", limits::NESTING);
            self.report(codes::TOO_LARGE, message, range, None);
            return self.stop();
        }
        self.add(node, 0)
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Range<usize>,
        source: &Span,
    ) -> Node {
        let quoted = || Kind::Text {
            text: text.to_owned(),
            plain: false,
        };
        let kind = match tag.map(Tag::core_suffix) {
            Some(Some("str")) => quoted(),
            Some(Some("int" | "float" | "bool" | "null")) | None => match style {
                ScalarStyle::Plain => scalar::resolve(text).unwrap_or_else(|ambiguous| {
                    let help = Some(ambiguous.help.as_str());
                    self.report(codes::AMBIGUOUS, ambiguous.message, span.clone(), help);
                    quoted()
                }),
                _ => quoted(),
            },
            _ => {
                self.check_tag(tag, "str", source);
                quoted()
            }
        };
        Node { span, kind }
    }

    /// Custom tags have no meaning here; mostly they are a `!` that should have been text.
    fn check_tag(&mut self, tag: Option<&Tag>, wanted: &str, span: &Span) {
        let Some(tag) = tag else { return };
        if tag.core_suffix() == Some(wanted) {
            return;
        }
        let range = span.tag_span().and_then(|span| span.byte_range());
        let range = range.or_else(|| span.byte_range()).unwrap_or(0..0);
        let written = self.text.get(range.clone()).unwrap_or_default();
        let message = format!("YAML takes `{written}` for a tag, because of the leading `!`");
        let help = "put the whole value in quotes; in a condition, `not` is the negation";
        self.report(codes::NEEDS_QUOTES, message, range, Some(help));
    }

    fn report(
        &mut self,
        code: crate::Code,
        message: impl Into<String>,
        span: Range<usize>,
        help: Option<&str>,
    ) {
        let place = Place::spanning(span);
        let mut diagnostic = Diagnostic::new(code, message, place);
        diagnostic.help = help.map(str::to_owned);
        self.push(diagnostic);
    }

    fn push(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < super::DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
        }
    }

    fn stop(&mut self) -> Result<(), Stop> {
        self.stopped = true;
        Err(Stop)
    }
}

fn weigh(node: &Node) -> usize {
    VALUE_BYTES
        + match &node.kind {
            Kind::Text { text, .. } => text.len(),
            Kind::List(items) => items.iter().map(weigh).sum(),
            Kind::Map(entries) => entries
                .iter()
                .map(|entry| entry.key.len() + weigh(&entry.value))
                .sum(),
            _ => 0,
        }
}

fn height(node: &Node) -> usize {
    match &node.kind {
        Kind::List(items) => 1 + items.iter().map(height).max().unwrap_or(0),
        Kind::Map(entries) => {
            1 + entries
                .iter()
                .map(|entry| height(&entry.value))
                .max()
                .unwrap_or(0)
        }
        _ => 0,
    }
}
