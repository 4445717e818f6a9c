//! The positions of values in a file.

use std::ops::Range;

use super::tree::{Kind, Node};
use crate::{Diagnostic, Place};

/// Maps a JSON pointer to a position in the file, for mistakes that are found after reading.
#[derive(Debug, Default)]
pub struct SourceMap {
    tree: Option<Node>,
}

impl SourceMap {
    pub(super) fn new(tree: Option<Node>) -> Self {
        Self { tree }
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
            place.span = self.span(&place.pointer);
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
