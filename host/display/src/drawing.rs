//! Diagnostics, drawn for a terminal.

use std::fmt::{self, Write as _};

use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, Severity};
use windlass_model::Diagnostic;

use crate::Problems;
use crate::snippet::{Lines, Snippet};
use crate::visible::{self, line};

/// The diagnostics of a file, each with its lines.
pub fn drawn(problems: &Problems, colour: bool) -> String {
    drawn_as(problems, colour, Severity::Error)
}

/// As [`drawn`], for warnings.
pub fn warnings(problems: &Problems, colour: bool) -> String {
    drawn_as(problems, colour, Severity::Warning)
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
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{}: {}", shown.name, shown.message);
        }
        text.push('\n');
    }
    text
}

/// Characters of a message that are shown.
const MESSAGE: usize = 4_000;

/// A foreign message on one line, cut to the shown length.
fn message(text: &str) -> String {
    match text.char_indices().nth(MESSAGE) {
        Some((end, _)) => line(text.get(..end).unwrap_or_default(), false).into_owned() + "…",
        None => line(text, false).into_owned(),
    }
}

/// A diagnostic, in the types of the library that draws it.
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
        let name = line(&problems.name, false).into_owned();
        let snippet = Snippet::new(name.clone(), &problems.text, lines, &spans);
        let labels = snippet
            .labels()
            .zip(words)
            .map(|(span, word)| LabeledSpan::new_with_span(word.map(|word| message(word)), span));
        // Without a span, only the pointer names the place.
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
            help: diagnostic.help.as_deref().map(visible::lines),
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
