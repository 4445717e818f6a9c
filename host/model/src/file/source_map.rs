//! The positions of values in a file.

use std::ops::Range;

use super::offsets;
use super::tree::{Kind, Node};
use crate::{Diagnostic, Place};

/// Maps a JSON pointer to a position in the file, for mistakes that are found after reading.
#[derive(Debug, Default)]
pub struct SourceMap {
    tree: Option<Node>,
    text: Box<str>,
}

impl SourceMap {
    pub(super) fn new(tree: Option<Node>, text: &str) -> Self {
        let text = text.into();
        Self { tree, text }
    }

    pub(super) fn tree(&self) -> Option<&Node> {
        self.tree.as_ref()
    }

    /// Adds the missing spans of a diagnostic.
    pub fn locate(&self, diagnostic: &mut Diagnostic) {
        self.place(&mut diagnostic.place);
        diagnostic
            .related
            .iter_mut()
            .for_each(|(place, _)| self.place(place));
    }

    /// Byte offsets of the value at a pointer, or of the innermost existing value on the path to
    /// it. A list or a map is represented by its key. None without a tree.
    pub fn span(&self, pointer: &str) -> Option<Range<usize>> {
        let mut node = self.tree.as_ref()?;
        let mut shown = first_line_of(node);
        for segment in pointer.split('/').skip(1) {
            let name = segment.replace("~1", "/").replace("~0", "~");
            if let Some(end) = self.end_of_edge(node, &name) {
                return Some(end);
            }
            let (key_span, next) = match &node.kind {
                Kind::List(items) => {
                    let Some(item) = name.parse().ok().and_then(|n: usize| items.get(n)) else {
                        break;
                    };
                    (None, item)
                }
                Kind::Map(entries) => {
                    // The condition of a short edge has no key of its own in the file.
                    let only = entries.first().filter(|_| entries.len() == 1);
                    let named = entries.iter().find(|entry| entry.key == name);
                    let Some(entry) = named.or(only) else { break };
                    (Some(entry.key_span.clone()), &entry.value)
                }
                _ => break,
            };
            shown = match (&next.kind, key_span) {
                (Kind::List(_) | Kind::Map(_) | Kind::Null, Some(key_span)) => key_span,
                _ => first_line_of(next),
            };
            node = next;
        }
        Some(shown)
    }

    fn place(&self, place: &mut Place) {
        if place.span.is_none() {
            let within = place.within.clone();
            let inside = within.and_then(|within| self.inside(&place.pointer, within));
            place.span = inside.or_else(|| self.span(&place.pointer));
        }
    }

    /// The place of `from` or `to` in a short edge.
    fn end_of_edge(&self, edge: &Node, name: &str) -> Option<Range<usize>> {
        let (text, span) = match &edge.kind {
            Kind::Text { text, .. } => (text, &edge.span),
            Kind::Map(entries) => match entries.as_slice() {
                [only] if only.key.contains("->") => (&only.key, &only.key_span),
                _ => return None,
            },
            _ => return None,
        };
        let ends = text
            .split_once(": ")
            .map_or(text.as_str(), |(ends, _)| ends);
        let (from, to) = ends.split_once("->")?;
        let (part, offset) = match name {
            "from" => (from, 0),
            "to" => (to, from.len() + "->".len()),
            _ => return None,
        };
        let start = offset + part.len() - part.trim_start().len();
        offsets::in_file(&self.text, span, text, start..start + part.trim().len())
    }

    /// Byte offsets in the file of a part of the text at a pointer.
    fn inside(&self, pointer: &str, within: Range<usize>) -> Option<Range<usize>> {
        let (node, before) = self.text_at(pointer)?;
        let Kind::Text { text, .. } = &node.kind else {
            return None;
        };
        let part = before.checked_add(within.start)?..before.checked_add(within.end)?;
        offsets::in_file(&self.text, &node.span, text, part)
    }

    /// The text at a pointer, and the bytes of it before the value that the pointer means: the
    /// condition of a short edge stands after its ends.
    fn text_at(&self, pointer: &str) -> Option<(&Node, usize)> {
        let (mut map, mut node) = (None, self.tree.as_ref()?);
        for segment in pointer.split('/').skip(1) {
            let name = segment.replace("~1", "/").replace("~0", "~");
            // `match` and `correlation` may stand beside `event` and not in it.
            let of = match (&node.kind, map) {
                (Kind::Text { .. }, Some(map)) => map,
                _ => node,
            };
            let next = match &of.kind {
                Kind::List(items) => items.get(name.parse::<usize>().ok()?)?,
                _ => of.get(&name)?,
            };
            (map, node) = (Some(of), next);
        }
        match &node.kind {
            Kind::Text { text, .. } => {
                let is_edge = matches!(map.map(|map| &map.kind), Some(Kind::List(_)));
                let condition = text.split_once(": ").filter(|_| is_edge);
                let before = condition.filter(|(ends, _)| ends.contains("->"));
                let before = before
                    .map(|(ends, rest)| ends.len() + 2 + (rest.len() - rest.trim_start().len()));
                Some((node, before.unwrap_or(0)))
            }
            Kind::Map(entries) => match entries.as_slice() {
                [only] if only.key.contains("->") => Some((&only.value, 0)),
                _ => node.get("when").map(|when| (when, 0)),
            },
            _ => None,
        }
    }
}

/// A whole map is too much to underline; its first key suffices.
fn first_line_of(node: &Node) -> Range<usize> {
    match &node.kind {
        Kind::Map(entries) => entries
            .first()
            .map_or_else(|| node.span.clone(), |entry| entry.key_span.clone()),
        Kind::List(items) => items
            .first()
            .map_or_else(|| node.span.clone(), first_line_of),
        _ => node.span.clone(),
    }
}
