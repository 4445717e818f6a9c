//! The part of a text around the labels of a diagnostic, small enough to be drawn.
//!
//! The drawing library stores the columns of a line in a `u16`, and a person can read a few hundred
//! of them. So lines are cut to windows around labels, lines without labels are left empty, and
//! control sequences are made visible. Users and passwords in addresses are replaced by stars. Lines keep their numbers, and each label keeps its column in
//! the whole text.

use std::ops::Range;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use crate::login::logins;
use crate::visible::{is_hidden, push};

/// The most labels of one diagnostic that are drawn.
const LABELS: usize = 16;

/// Lines of one label.
const LINES: usize = 40;

/// A line up to this size, in bytes, is drawn whole.
const WHOLE: usize = 200;

/// Bytes before and after a label, in a longer line.
const MARGIN: usize = 40;

/// Bytes of a label in a longer line.
const LABEL: usize = 80;

/// Bytes around a shown part in which an address is noticed that reaches into it.
const NEAR: usize = 4 * 1024;

/// Replaces the parts of a line that were cut out.
const CUT: &str = " … ";

/// A text, cut to the surroundings of its labels.
#[derive(Debug)]
pub(crate) struct Snippet {
    name: String,
    text: String,
    /// The positions of the labels in the cut text, each with its line and column in the whole
    /// text, from 0.
    labels: Vec<(Range<usize>, (usize, usize))>,
}

impl Snippet {
    /// Cuts a text. Spans may be wrong in any way; if there are too many, the first ones are used.
    pub(crate) fn new(name: String, text: &str, lines: &Lines, spans: &[Range<usize>]) -> Self {
        let spans: Vec<Span> = spans
            .iter()
            .take(LABELS)
            .map(|span| lines.span(text, span))
            .collect();
        let mut snippet = Self {
            name,
            text: String::new(),
            labels: spans
                .iter()
                .map(|span| (0..0, (span.first, span.column)))
                .collect(),
        };
        for (number, line) in lines.0.iter().enumerate() {
            // The lines around a label give it context.
            let near = |span: &Span| span.first <= number + 1 && number <= span.last + 1;
            if spans.iter().any(near) {
                snippet.line(text, number, line, &spans);
            }
            if number + 1 < lines.0.len() {
                snippet.text.push('\n');
            }
        }
        snippet
    }

    /// The position of each label in the cut text.
    pub(crate) fn labels(&self) -> impl Iterator<Item = SourceSpan> {
        self.labels.iter().map(|(span, _)| span.clone().into())
    }

    fn line(&mut self, text: &str, number: usize, line: &Range<usize>, spans: &[Span]) {
        let windows = windows(text, number, line, spans);
        for (index, window) in windows.iter().enumerate() {
            // A long line is not searched for each of its labels.
            let from = text.floor_char_boundary(window.start.saturating_sub(NEAR));
            let to = text.ceil_char_boundary(window.end.saturating_add(NEAR));
            let near = from.max(line.start)..to.min(line.end);
            let logins = logins(text.get(near.clone()).unwrap_or_default());
            if index > 0 || window.start > line.start {
                self.text.push_str(CUT);
            }
            let content = text.get(window.clone()).unwrap_or_default();
            let last = index + 1 == windows.len();
            for (at, c) in content.char_indices() {
                self.mark(number, window.start + at, spans);
                let column = (window.start + at).saturating_sub(near.start);
                if logins.iter().any(|login| login.contains(&column)) {
                    self.text.push('*');
                } else if is_hidden(c) {
                    push(c, &mut self.text);
                } else {
                    self.text.push(c);
                }
            }
            self.mark(number, window.end, spans);
            if last && window.end < line.end {
                self.text.push_str(CUT.trim_end());
            }
        }
    }

    /// Records the labels that begin or end in this part.
    fn mark(&mut self, number: usize, at: usize, spans: &[Span]) {
        let here = self.text.len();
        for ((label, _), span) in self.labels.iter_mut().zip(spans) {
            if number == span.first && at <= span.start {
                *label = here..here;
            }
            if number == span.last && at <= span.end && here > label.start {
                label.end = here;
            }
        }
    }
}

/// The parts of a line that are drawn.
fn windows(text: &str, number: usize, line: &Range<usize>, spans: &[Span]) -> Vec<Range<usize>> {
    if line.len() <= WHOLE {
        return vec![line.clone()];
    }
    let ends = spans.iter().flat_map(|span| {
        let first = (number == span.first).then_some(span.start);
        let last = (number == span.last).then_some(span.end);
        let long = first
            .zip(last)
            .is_some_and(|(start, end)| end - start > LABEL);
        let last = if long {
            span.start.checked_add(LABEL)
        } else {
            last
        };
        match (first, last) {
            (Some(start), Some(end)) => Some(start..end),
            (Some(at), None) | (None, Some(at)) => Some(at..at),
            (None, None) => None,
        }
    });
    let mut windows: Vec<Range<usize>> = ends
        .map(|label| {
            let start = label.start.saturating_sub(MARGIN).max(line.start);
            let end = (label.end + MARGIN).min(line.end);
            text.floor_char_boundary(start)..text.ceil_char_boundary(end)
        })
        .collect();
    if windows.is_empty() {
        let whole = line.start..text.floor_char_boundary(line.start + WHOLE);
        return std::iter::once(whole).collect();
    }
    windows.sort_by_key(|window| window.start);
    windows.dedup_by(|next, window| {
        let touch = next.start <= window.end;
        if touch {
            window.end = window.end.max(next.end);
        }
        touch
    });
    windows
}

/// A span in lines and columns.
struct Span {
    start: usize,
    end: usize,
    first: usize,
    last: usize,
    column: usize,
}

/// The lines of a text, without their line breaks.
pub(crate) struct Lines(Vec<Range<usize>>);

impl Lines {
    pub(crate) fn new(text: &str) -> Self {
        let mut start = 0;
        let lines = text.split('\n').map(|line| {
            let end = start + line.strip_suffix('\r').unwrap_or(line).len();
            let range = start..end;
            start += line.len() + 1;
            range
        });
        Self(lines.collect())
    }

    /// A span that is clamped to the text, and begins and ends within lines.
    fn span(&self, text: &str, span: &Range<usize>) -> Span {
        let (first, start) = self.place(span.start);
        let line = self.0.get(first).cloned().unwrap_or_default();
        let start = text.floor_char_boundary(start);
        let (mut last, mut end) = self.place(span.end.max(span.start));
        if last >= first + LINES {
            last = first + LINES - 1;
            end = self.0.get(last).map_or(end, |line| line.end);
        }
        Span {
            start,
            end: end.max(start),
            first,
            last,
            column: text
                .get(line.start..start)
                .map_or(0, |line| line.chars().count()),
        }
    }

    /// The line of an offset, and the offset clamped to it.
    fn place(&self, offset: usize) -> (usize, usize) {
        let after = self.0.partition_point(|line| line.start <= offset);
        let number = after.saturating_sub(1);
        let line = self.0.get(number).cloned().unwrap_or_default();
        (number, offset.clamp(line.start, line.end))
    }
}

impl SourceCode for Snippet {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let contents = self.text.as_str().read_span(span, before, after)?;
        let label = self
            .labels
            .iter()
            .find(|(label, _)| label.start == span.offset());
        let (line, column) = match label {
            Some((_, place)) if before == 0 => *place,
            _ => (contents.line(), contents.column()),
        };
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            contents.data(),
            *contents.span(),
            line,
            column,
            contents.line_count(),
        )))
    }
}
