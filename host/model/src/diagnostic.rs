//! A mistake in a file, and its place.

use std::ops::Range;

use crate::{Code, visible};

/// One mistake. A file is checked to its end, so there may be many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The page that explains it.
    pub code: Code,
    /// The mistake, in one sentence.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
    /// The place of the mistake.
    pub place: Place,
    /// Other places that are involved, each with a short explanation.
    pub related: Vec<(Place, String)>,
}

/// A place in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// A JSON pointer, like `/nodes/sum/with`.
    pub pointer: String,
    /// Byte offsets in the text, if there is a text.
    pub span: Option<Range<usize>>,
    /// Byte offsets in the text that the pointer names, as it is without quotes, escapes and
    /// indentation. [`crate::file::SourceMap::locate`] turns them into a span.
    pub within: Option<Range<usize>>,
}

/// The most bytes of a pointer that is shown.
const POINTER_BYTES: usize = 1_000;

impl Place {
    /// Leaves the middle of a long pointer out.
    pub(crate) fn shorten(&mut self) {
        if let Some(short) = visible::shortened(&self.pointer, POINTER_BYTES, POINTER_BYTES / 2) {
            self.pointer = short;
        }
    }

    /// A place with a pointer and no span.
    pub fn at(pointer: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            ..Self::default()
        }
    }

    /// A place inside the text that a pointer names.
    pub fn inside(pointer: impl Into<String>, within: Range<usize>) -> Self {
        Self {
            pointer: pointer.into(),
            within: Some(within),
            ..Self::default()
        }
    }

    /// A place in a document, by its byte offsets.
    pub fn spanning(span: Range<usize>) -> Self {
        Self {
            span: Some(span),
            ..Self::default()
        }
    }
}

impl Diagnostic {
    /// A mistake at a place. The message may quote foreign text: it becomes a
    /// [`sentence`](visible::sentence).
    pub fn new(code: Code, message: impl Into<String>, place: Place) -> Self {
        Self {
            code,
            message: visible::sentence(message),
            help: None,
            place,
            related: Vec::new(),
        }
    }

    /// Adds the remedy. It may have lines, for example of a file to write.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(visible::lines(help));
        self
    }

    /// Shortens what has no bound: the remedy and the explanations, if they were not given by
    /// [`Self::help`], and the pointers. A shortened pointer leads nowhere, so the spans have to be
    /// known.
    pub fn shorten(&mut self) {
        self.help = self.help.take().map(visible::lines);
        self.place.shorten();
        for (place, word) in &mut self.related {
            place.shorten();
            *word = visible::sentence(std::mem::take(word));
        }
    }
}

/// Line and column of a byte offset, both from 1; the column in characters.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = text.get(..end).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    (line, column)
}
