//! Prints errors for people and programs, on stderr.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use windlass_display::visible::visible;
use windlass_display::{Problems, diagnostics, drawn, warnings};

use crate::error::Expected;
use crate::output::{Format, Output};

/// Prints an error in the format of the data.
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
    let (message, lines) = quoted(&error.message);
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{kind} {}", paint.strong(visible(message)));
    if let Some(lines) = lines {
        let _ = writeln!(text, "{}", indented("  ", &visible(&lines)));
    }
    if let Some(note) = &error.note {
        let _ = writeln!(text, "{}", indented("", &visible(note)));
    }
    if let Some(help) = &error.help {
        let _ = writeln!(text, "{}", indented("help: ", &visible(help)));
    }
    if error.problems.is_none() {
        let more = format!("  more: windlass explain {}", error.code);
        let _ = writeln!(text, "{}", paint.dim(more));
    }
    text
}

/// The part of a message of a crash before the text of the guest, and the lines of this text if
/// there are several.
fn quoted(message: &str) -> (&str, Option<String>) {
    const MARKS: [&str; 2] = ["; the end of its stderr: ", "; the last line of its log: "];
    const BREAK: char = '\u{240a}';
    const TAB: &str = "\u{2409}";
    let at = MARKS
        .iter()
        .find_map(|mark| Some(message.find(mark)? + mark.len()));
    match at.and_then(|at| message.split_at_checked(at)) {
        Some((before, lines)) if lines.contains(BREAK) => {
            let lines = lines.replace(BREAK, "\n").replace(TAB, "    ");
            (before.trim_end(), Some(lines))
        }
        _ => (message, None),
    }
}

fn indented(title: &str, text: &str) -> String {
    let mut lines = text.lines();
    let mut result = format!("  {title}{}", lines.next().unwrap_or_default());
    for line in lines {
        let _ = write!(result, "\n  {:width$}{line}", "", width = title.len());
    }
    result
}

/// Prints the warnings about a file. In formats for programs the data contains them.
pub(crate) fn warn(output: &Output, problems: &Problems) {
    if output.is_text() && !problems.diagnostics.is_empty() {
        let text = warnings(problems, output.notes.0);
        output.note(text.trim_end_matches('\n'));
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

#[cfg(test)]
mod tests;
