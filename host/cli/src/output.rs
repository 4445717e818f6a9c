//! The output of commands.
//!
//! Data goes to stdout; everything else (progress, notes, warnings, errors, logs) goes to stderr,
//! so a command can be piped safely. A closed pipe is not an error.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{ErrorKind, IsTerminal as _, Write as _, stderr, stdout};
use std::path::Path;

use comfy_table::{ContentArrangement, Table, TableStyle};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use windlass_display::visible;
use windlass_server::Failure;

use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::failure;

/// How data is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One JSON document per line, one for each item.
    Jsonl,
}

/// The output of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// How data is printed.
    pub(crate) format: Format,
    /// Colours of stdout.
    pub(crate) data: Paint,
    /// Colours of stderr.
    pub(crate) notes: Paint,
    /// Whether stderr is a terminal that a person watches.
    pub(crate) watched: bool,
}

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    /// Decides by the rules of <https://no-color.org> and <https://bixense.com/clicolors>.
    fn decide(terminal: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let forced = set("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        let dumb = set("TERM").is_some_and(|value| value == "dumb");
        Self(set("NO_COLOR").is_none() && (forced || terminal && !dumb))
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }

    /// Success.
    pub(crate) fn good(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    /// Failure.
    pub(crate) fn bad(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    /// A warning.
    pub(crate) fn warning(self, text: impl Display) -> String {
        self.wrap("33", text)
    }

    /// The important part of a line.
    pub(crate) fn strong(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    /// The unimportant part of a line.
    pub(crate) fn dim(self, text: impl Display) -> String {
        self.wrap("2", text)
    }
}

impl Output {
    /// Reads the terminal and the environment.
    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            data: Paint::decide(stdout().is_terminal()),
            notes: Paint::decide(stderr().is_terminal()),
            watched: stderr().is_terminal(),
        }
    }

    /// Whether data is printed for people.
    pub(crate) fn is_text(&self) -> bool {
        self.format == Format::Text
    }

    /// One thing: as text for people, otherwise as JSON.
    pub(crate) fn show<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Text => self.print(&text()),
            Format::Json => self.print(&serde_json::to_string_pretty(value)?),
            Format::Jsonl => self.print(&serde_json::to_string(value)?),
        }
    }

    /// Several things: a table for people, otherwise a JSON array, or a line for each.
    pub(crate) fn list<T: Serialize>(
        &self,
        items: &[T],
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Text => self.print(&text()),
            Format::Json => self.print(&serde_json::to_string_pretty(items)?),
            Format::Jsonl => items
                .iter()
                .try_for_each(|item| self.print(&serde_json::to_string(item)?)),
        }
    }

    /// One document, like the output of a run: as text for programs and people, otherwise as JSON.
    pub(crate) fn show_document<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Text => self.document(&text()),
            Format::Json | Format::Jsonl => self.show(value, String::new),
        }
    }

    /// Prints a text for people on stdout, with a line break at its end. Control sequences in it
    /// are made visible. JSON is printed as by [`Self::document`].
    pub(crate) fn print(&self, text: &str) -> anyhow::Result<()> {
        match self.format {
            Format::Text => write_data(&self.safe(self.data, text)),
            Format::Json | Format::Jsonl => self.document(text),
        }
    }

    /// Prints a document on stdout, with a line break at its end. Control sequences in JSON are
    /// escaped, which does not change its values. Those in a text are made visible on a terminal; a
    /// pipe gets every byte of it.
    pub(crate) fn document(&self, text: &str) -> anyhow::Result<()> {
        if self.format != Format::Text || stdout().is_terminal() {
            write_data(&self.safe(self.data, text))
        } else {
            write_data(text)
        }
    }

    /// A text whose control sequences are made visible.
    fn safe<'a>(&self, paint: Paint, text: &'a str) -> Cow<'a, str> {
        match self.format {
            Format::Text if paint.0 => visible::coloured(text),
            Format::Text => visible::visible(text),
            Format::Json | Format::Jsonl => visible::json(text),
        }
    }

    /// Prints a line for the person at the terminal, on stderr, with control sequences made
    /// visible.
    pub(crate) fn note(&self, text: &str) {
        let text = match self.format {
            Format::Text => self.safe(self.notes, text),
            // Some notes are not JSON, even with `-o json`.
            _ if text.starts_with('{') => self.safe(self.notes, text),
            _ if self.notes.0 => visible::coloured(text),
            _ => visible::visible(text),
        };
        // If stderr cannot be written, the failure cannot be reported either.
        let _ = writeln!(stderr().lock(), "{text}");
    }

    /// A warning, on stderr. Further lines are indented, so that none looks like another message.
    pub(crate) fn warn(&self, text: &str) {
        let text = text.replace('\n', "\n  ");
        self.note(&format!("{} {text}", self.notes.warning("warning:")));
    }
}

/// A foreign name on one line, for a text for people.
pub(crate) fn name(text: &str) -> Cow<'_, str> {
    visible::line(text, false)
}

/// The name of a file on one line.
pub(crate) fn file(path: &Path) -> String {
    name(&path.display().to_string()).into_owned()
}

/// Writes to stdout, with a line break at the end.
fn write_data(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let end = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(end.as_bytes()))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Expected::new(
            codes::OUTPUT,
            format!("The output cannot be written: {error}"),
        )
        .help("Look at where the output is redirected to; the disk may be full.")
        .exit(Exit::Usage)
        .into()),
        _ => Ok(()),
    }
}

/// A table without lines: aligned columns, which other tools can cut. Each cell is on one line,
/// with its control characters made visible.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.iter().map(|title| title.to_uppercase()));
    for row in rows {
        table.add_row(row.iter().map(|cell| visible::line(cell, true)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Items as a table: each column has a title, and the name of the member that it shows.
pub(crate) fn columns_of(items: &[Value], columns: &[(&str, &str)]) -> String {
    let head: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let lines = items.iter().map(|item| {
        let cells = columns.iter().map(|(_, key)| cell(item, key));
        cells.collect()
    });
    table(&head, lines.collect())
}

fn cell(item: &Value, key: &str) -> String {
    match item.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The members of a document in this order, short ones on one line each, long ones indented below.
/// Empty ones are left out.
pub(crate) fn members(item: &Value, order: &[&str]) -> String {
    let mut text = String::new();
    for key in order {
        let Some(value) = item.get(key).filter(|value| !is_empty(value)) else {
            continue;
        };
        // Writing into a string cannot fail.
        let _ = match value {
            Value::String(line) => writeln!(text, "{key:<12} {}", visible::line(line, false)),
            failure if *key == "failure" => {
                writeln!(
                    text,
                    "{key:<12} {}",
                    in_lines(failure).replace('\n', "\n             ")
                )
            }
            Value::Array(_) | Value::Object(_) => {
                let long = format!("{value:#}").replace('\n', "\n  ");
                writeln!(text, "{key}\n  {long}")
            }
            value => writeln!(text, "{key:<12} {value}"),
        };
    }
    text
}

/// A failure with its details on a line of their own.
fn in_lines(value: &Value) -> String {
    let Ok(failure) = Failure::deserialize(value) else {
        return value.to_string();
    };
    let mut lines = failure::headline(&failure);
    if let Some(details) = failure::details(&failure) {
        lines.push('\n');
        lines.push_str(&details);
    }
    lines
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}
