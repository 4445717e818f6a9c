//! Printing diagnostics: of any text with any spans, and of the text's mistakes as the workflow
//! reader reports them.
//!
//! An input is the number of spans, four bytes for each, a byte with the number of repetitions of
//! the text, and the text. Repetition makes lines longer than any input.

use std::ops::Range;

use windlass_display::visible::{coloured, is_hidden, json};
use windlass_display::{Problems, diagnostics, drawn, warnings};
use windlass_model::{Code, Diagnostic, Place, file};

/// The most spans of one input.
const SPANS: usize = 24;

/// Bytes that one diagnostic may print on a terminal, besides the line breaks of its file.
const SHOWN: usize = 1 << 20;

pub(crate) fn run(data: &[u8]) {
    let Some((count, rest)) = data.split_first() else {
        return;
    };
    let Some((spans, rest)) = rest.split_at_checked((usize::from(*count) % SPANS) * 4) else {
        return;
    };
    let Some((times, text)) = rest.split_first() else {
        return;
    };
    let piece = String::from_utf8_lossy(text);
    let text = piece.repeat(1 + usize::from(*times));
    let mut spans = spans.chunks_exact(4).map(|bytes| span(bytes, text.len()));

    let mut found = Diagnostic::new(
        Code::new("WL-D016"),
        piece.as_ref(),
        Place {
            span: spans.next(),
            ..Place::at(piece.as_ref())
        },
    );
    found.help = Some(piece.clone().into_owned());
    found.related = spans
        .map(|span| {
            let place = Place {
                span: Some(span),
                ..Place::at("/related")
            };
            (place, piece.clone().into_owned())
        })
        .collect();
    print(&piece, &text, vec![found]);

    let read = file::read(&text, "fuzzed.yaml");
    print("fuzzed.yaml", &text, read.diagnostics);
}

/// A span: most are within the text, or near its end; some are far beyond it.
fn span(bytes: &[u8], length: usize) -> Range<usize> {
    let place = |high: u8, low: u8| match (usize::from(high) << 8) | usize::from(low) {
        0xffff => usize::MAX,
        part => part * (length + 3) / 0xffff,
    };
    let at = |at: usize| bytes.get(at).copied().unwrap_or_default();
    place(at(0), at(1))..place(at(2), at(3))
}

fn print(name: &str, text: &str, found: Vec<Diagnostic>) {
    let count = found.len();
    let lines = text.matches('\n').count();
    let problems = Problems {
        name: name.to_owned(),
        text: text.into(),
        diagnostics: found,
    };
    let plain = drawn(&problems, false);
    assert!(
        !plain.chars().any(is_hidden),
        "a character that steers a terminal"
    );
    assert!(
        plain.len() <= count * (SHOWN + lines),
        "{} bytes for {count} diagnostics",
        plain.len()
    );
    let painted = warnings(&problems, true);
    let safe = coloured(&painted);
    let steers = |c: char| is_hidden(c) && c != '\u{1b}';
    assert!(!safe.chars().any(steers), "a control beside the colours");
    let document = diagnostics(&problems);
    let shown = json(&document.to_string()).into_owned();
    let again: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(again, document, "escaping changes what is said");
}
