//! Errors as people and programs see them, on stderr.

use std::fmt::{self, Write as _};

use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, Severity};
use serde_json::{Map, Value, json};
use windlass_model::{Diagnostic, Place};

use crate::error::{Expected, Problems};
use crate::output::{Format, Output};
use crate::snippet::{Lines, Snippet};
use crate::visible::visible;

/// Prints an error in the format that data would have been printed in.
pub(crate) fn report(output: &Output, error: &Expected) {
    let text = match output.format {
        Format::Text => text(output, error),
        Format::Json => format!("{:#}", document(error)),
        Format::Jsonl => document(error).to_string(),
    };
    output.note(text.trim_end_matches('\n'));
}

fn text(output: &Output, error: &Expected) -> String {
    let paint = output.notes;
    let mut text = String::new();
    if let Some(problems) = &error.problems {
        text.push_str(&drawn(problems, paint.0));
    }
    let kind = paint.bad(format!("error[{}]:", error.code));
    let kind = if error.problems.is_some() {
        paint.bad("error:")
    } else {
        kind
    };
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{kind} {}", paint.strong(visible(&error.message)));
    if let Some(help) = &error.help {
        let _ = writeln!(text, "{}", indented("help: ", &visible(help)));
    }
    if error.problems.is_none() {
        let more = format!("  more: windlass explain {}", error.code);
        let _ = writeln!(text, "{}", paint.dim(more));
    }
    text
}

fn indented(title: &str, text: &str) -> String {
    let mut lines = text.lines();
    let mut result = format!("  {title}{}", lines.next().unwrap_or_default());
    for line in lines {
        let _ = write!(result, "\n  {:width$}{line}", "", width = title.len());
    }
    result
}

/// Prints what a file may do and its author may not expect. In formats for programs this is
/// part of the data.
pub(crate) fn warn(output: &Output, problems: &Problems) {
    if output.is_text() && !problems.diagnostics.is_empty() {
        let text = drawn_as(problems, output.notes.0, Severity::Warning);
        output.note(text.trim_end_matches('\n'));
    }
}

/// The diagnostics of a file, each with the lines that it is about.
pub(crate) fn drawn(problems: &Problems, colour: bool) -> String {
    drawn_as(problems, colour, Severity::Error)
}

fn drawn_as(problems: &Problems, colour: bool, severity: Severity) -> String {
    let theme = if colour {
        GraphicalTheme::unicode()
    } else {
        GraphicalTheme::unicode_nocolor()
    };
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(100)
        .with_links(false);
    let mut text = String::new();
    let lines = Lines::new(&problems.text);
    for diagnostic in &problems.diagnostics {
        let shown = Shown::new(problems, &lines, diagnostic, severity);
        if handler.render_report(&mut text, &shown).is_err() {
            let _ = writeln!(text, "{}: {}", shown.name, shown.message);
        }
        text.push('\n');
    }
    text
}

/// Characters of a message that are shown.
const MESSAGE: usize = 4_000;

/// A message from outside, as far as it is shown.
fn message(text: &str) -> String {
    match text.char_indices().nth(MESSAGE) {
        Some((end, _)) => visible(text.get(..end).unwrap_or_default()).into_owned() + "…",
        None => visible(text).into_owned(),
    }
}

/// One diagnostic, in the terms of the library that draws it.
struct Shown<'a> {
    diagnostic: &'a Diagnostic,
    name: String,
    snippet: Snippet,
    labels: Vec<LabeledSpan>,
    message: String,
    help: Option<String>,
    severity: Severity,
}

impl<'a> Shown<'a> {
    fn new(
        problems: &Problems,
        lines: &Lines,
        diagnostic: &'a Diagnostic,
        severity: Severity,
    ) -> Self {
        let place = &diagnostic.place;
        let related = diagnostic.related.iter();
        let related = related.map(|(place, word)| (place, Some(word)));
        let (spans, words): (Vec<_>, Vec<_>) = std::iter::once((place, None))
            .chain(related)
            .filter_map(|(place, word)| Some((place.span.clone()?, word)))
            .unzip();
        let name = visible(&problems.name).into_owned();
        let snippet = Snippet::new(name.clone(), &problems.text, lines, &spans);
        let labels = snippet
            .labels()
            .zip(words)
            .map(|(span, word)| LabeledSpan::new_with_span(word.map(|word| message(word)), span));
        // Without a span the pointer has to say where it is.
        let text = match (&place.span, place.pointer.as_str()) {
            (None, pointer) if !pointer.is_empty() => {
                format!("{} (at {pointer} of {name})", diagnostic.message)
            }
            _ => diagnostic.message.clone(),
        };
        Self {
            labels: labels.collect(),
            diagnostic,
            name,
            snippet,
            message: message(&text),
            help: diagnostic.help.as_deref().map(message),
            severity,
        }
    }
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic.fmt(f)
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Shown<'_> {}

impl miette::Diagnostic for Shown<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(message(self.diagnostic.code.as_str())))
    }

    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let help = self.help.as_ref()?;
        Some(Box::new(help))
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        Some(&self.snippet)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        (!self.labels.is_empty()).then(|| Box::new(self.labels.iter().cloned()) as Box<_>)
    }
}

/// The error as a JSON document.
fn document(error: &Expected) -> Value {
    let mut document = Map::from_iter([
        ("code".to_owned(), json!(error.code)),
        ("message".to_owned(), json!(error.message)),
        ("help".to_owned(), json!(error.help)),
        ("exit".to_owned(), json!(error.exit.number())),
    ]);
    if let Some(problems) = &error.problems {
        document.insert("diagnostics".to_owned(), diagnostics(problems));
    }
    json!({ "error": document })
}

/// Diagnostics as a JSON array, with lines and columns counted from 1, columns in characters.
pub(crate) fn diagnostics(problems: &Problems) -> Value {
    let text = &problems.text;
    let items = problems.diagnostics.iter().map(|diagnostic| {
        let related = diagnostic.related.iter().map(|(place, word)| {
            let mut item = at(text, place);
            item.insert("message".to_owned(), json!(word));
            item
        });
        let related: Vec<_> = related.collect();
        let mut item = at(text, &diagnostic.place);
        item.insert("code".to_owned(), json!(diagnostic.code));
        item.insert("message".to_owned(), json!(diagnostic.message));
        item.insert("help".to_owned(), json!(diagnostic.help));
        item.insert("file".to_owned(), json!(problems.name));
        item.insert("related".to_owned(), json!(related));
        Value::Object(item)
    });
    Value::Array(items.collect())
}

fn at(text: &str, place: &Place) -> Map<String, Value> {
    let mut item = Map::from_iter([("pointer".to_owned(), json!(place.pointer))]);
    if let Some(span) = &place.span {
        let (line, column) = position(text, span.start);
        item.insert("line".to_owned(), json!(line));
        item.insert("column".to_owned(), json!(column));
        item.insert("start".to_owned(), json!(span.start));
        item.insert("end".to_owned(), json!(span.end));
    }
    item
}

/// Line and column of a byte offset, both from 1; the column in characters.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
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

#[cfg(test)]
mod tests;
