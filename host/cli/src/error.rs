//! Expected errors, told apart from bugs.
//!
//! Commands return `anyhow::Result`. The top level classifies an error once: one that carries a
//! code (an [`Expected`], or the error of one of the other crates) is one that a person can act on;
//! any other is a bug, `WL-X001`, and is reported as such.

use std::fmt;

use windlass_display::{Problems, visible};
use windlass_model::file::DIAGNOSTICS;
use windlass_model::{Code, Diagnostic};

use crate::codes;
use crate::exit::Exit;

/// An error that a person can act on.
#[derive(Debug)]
pub(crate) struct Expected {
    /// The page that explains it.
    pub(crate) code: Code,
    /// The event, in one sentence.
    pub(crate) message: String,
    /// A line below the message, for people alone: programs find it in the data.
    pub(crate) note: Option<String>,
    /// The remedy.
    pub(crate) help: Option<String>,
    /// The exit code of the process.
    pub(crate) exit: Exit,
    /// The mistakes in a file, if there are any.
    pub(crate) problems: Option<Box<Problems>>,
}

impl Expected {
    /// An error whose exit code follows from its code.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let exit = Exit::of(&code);
        Self {
            code,
            message: visible::line(&message.into(), false).into_owned(),
            note: None,
            help: None,
            exit,
            problems: None,
        }
    }

    /// Adds a line below the message.
    #[must_use]
    pub(crate) fn note(mut self, note: Option<String>) -> Self {
        self.note = note;
        self
    }

    /// Adds the remedy.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Replaces the exit code that follows from the code.
    #[must_use]
    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// All mistakes of one file, sorted by position.
    pub(crate) fn of_file(mut problems: Problems) -> Self {
        problems.diagnostics.sort_by_key(|diagnostic| {
            let start = diagnostic.place.span.as_ref().map(|span| span.start);
            (start.unwrap_or(0), diagnostic.place.pointer.clone())
        });
        let count = problems.diagnostics.len();
        let message = match count {
            1 => format!("{} has a mistake", problems.name),
            DIAGNOSTICS.. => {
                problems.diagnostics.truncate(DIAGNOSTICS);
                let name = &problems.name;
                format!("{name} has at least {count} mistakes, of which {DIAGNOSTICS} are shown")
            }
            _ => format!("{} has {count} mistakes", problems.name),
        };
        let code = problems
            .diagnostics
            .first()
            .map_or(codes::BUG, |first| first.code.clone());
        let exit = Exit::of(&code);
        Self {
            code,
            message: visible::line(&message, false).into_owned(),
            note: None,
            help: None,
            exit,
            problems: Some(Box::new(problems)),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Expected {}

/// The beginning of the help that suggests a name.
const NEAR: &str = "Did you mean";

/// Replaces a "not found" error by the command's own error for it, which keeps the suggestion of a
/// name.
pub(crate) fn or_missing(
    error: anyhow::Error,
    missing: impl FnOnce() -> Expected,
) -> anyhow::Error {
    match error.downcast::<Expected>() {
        // A host that does not know the path does not know either whether the resource exists.
        Ok(expected)
            if expected.exit == Exit::NotFound
                && expected.code != windlass_server::codes::NO_PATH =>
        {
            let missing = missing();
            match expected.help {
                Some(near) if near.starts_with(NEAR) => missing.help(near).into(),
                _ => missing.into(),
            }
        }
        Ok(other) => other.into(),
        Err(error) => error,
    }
}

/// The error to report.
pub(crate) fn classify(error: anyhow::Error) -> Expected {
    let error = match error.downcast::<Expected>() {
        Ok(expected) => return expected,
        Err(error) => error,
    };
    let error = match error.downcast::<windlass_runtime::Error>() {
        Ok(error) => return of_runtime(error),
        Err(error) => error,
    };
    let error = match error.downcast::<windlass_store::Error>() {
        Ok(error) => return of_store(error),
        Err(error) => error,
    };
    let error = match error.downcast::<windlass_locks::Error>() {
        Ok(error) => return of_locks(&error),
        Err(error) => error,
    };
    match error.downcast::<windlass_plugins::Error>() {
        Ok(error) => of_plugins(&error),
        Err(error) => bug(&format!("{error:#}")),
    }
}

fn of_runtime(error: windlass_runtime::Error) -> Expected {
    use windlass_runtime::Error;
    let (code, missing) = (error.code(), error.is_missing());
    match error {
        Error::Store(error) => of_store(error),
        Error::Plugins(error) => of_plugins(&error),
        Error::Keys(error) => crate::commands::keys::unusable(&error),
        Error::Input(diagnostics) => of_input(code, &diagnostics),
        Error::Conflict { message } => Expected::new(code, sentence(&message))
            .help("Take another `--id`, or give the same workflow and input as before.")
            .exit(Exit::Conflict),
        Error::Refused { message, help, .. } => {
            let expected = Expected::new(code, sentence(&message)).exit(Exit::Usage);
            match help {
                Some(help) => expected.help(sentence(&help)),
                None => expected,
            }
        }
        Error::NotNow { message, help, .. } => {
            let exit = if missing {
                Exit::NotFound
            } else {
                Exit::Conflict
            };
            let expected = Expected::new(code, sentence(&message)).exit(exit);
            match help {
                Some(help) => expected.help(sentence(&help)),
                None => expected,
            }
        }
        Error::Deleted(_) => Expected::new(code, sentence(&error.to_string()))
            .help("Take another id (`--new-id` for an import): a deleted run does not come back.")
            .exit(Exit::Conflict),
        Error::Reserved { .. } => Expected::new(code, sentence(&error.to_string()))
            .help("Wait for its end with `windlass runs result ID --wait`, or cancel it.")
            .exit(Exit::Conflict),
        Error::NotFound(_) => Expected::new(code, sentence(&error.to_string()))
            .help("`windlass runs list` shows the runs of this store; `--store` names another.")
            .exit(Exit::NotFound),
        Error::Unreadable(_) => Expected::new(code, sentence(&error.to_string())).exit(Exit::Store),
        Error::Archive { .. } => {
            Expected::new(code, sentence(&error.to_string())).exit(Exit::Store)
        }
        Error::NoWorkflow { ref near, .. } => {
            let expected = Expected::new(code, sentence(&error.to_string())).exit(Exit::NotFound);
            match near {
                Some(near) => expected.help(sentence(near)),
                None => expected,
            }
        }
        Error::Setup(error) => match error.downcast::<Expected>() {
            Ok(expected) => *expected,
            Err(error) => bug(&error.to_string()),
        },
        Error::Start(_) => bug(&error.to_string()),
        other => Expected::new(code, sentence(&other.to_string())),
    }
}

/// The most remedies that the error about an input has.
const HELPS: usize = 3;

/// The error for mistakes in the input of a run.
pub(crate) fn of_input(code: Code, diagnostics: &[Diagnostic]) -> Expected {
    let all: Vec<_> = diagnostics
        .iter()
        .map(|diagnostic| match diagnostic.place.pointer.as_str() {
            "" => diagnostic.message.clone(),
            pointer => format!("{pointer}: {}", diagnostic.message),
        })
        .collect();
    let helps = diagnostics.iter().filter_map(|it| it.help.as_deref());
    let mut helps: Vec<_> = helps.map(sentence).take(HELPS).collect();
    if helps.is_empty() {
        let about = "The workflow's `input` is the JSON Schema that the input of a run must match.";
        helps.push(about.to_owned());
    }
    let help = helps.join("\n");
    Expected::new(
        code,
        format!("The input does not fit the workflow: {}", all.join("; ")),
    )
    .help(help)
    .exit(Exit::Usage)
}

fn of_store(error: windlass_store::Error) -> Expected {
    let expected = Expected::new(error.code, sentence(&error.message));
    match error.help {
        Some(help) => expected.help(help),
        None => expected,
    }
}

fn of_locks(error: &windlass_locks::Error) -> Expected {
    Expected::new(error.code(), sentence(&error.to_string()))
        .help("Check the section [locks] of the configuration, and the server or directory that it names.")
}

fn of_plugins(error: &windlass_plugins::Error) -> Expected {
    // Each fault is a line.
    let mut lines = error.message.split('\n');
    let first = lines.next().unwrap_or_default();
    let rest: Vec<&str> = lines.collect();
    let text = format!("{}: {first}", error.subject);
    let note = (!rest.is_empty()).then(|| rest.join("\n"));
    Expected::new(error.code.clone(), text).note(note)
}

/// A message with a capital letter at its beginning. A first word that is a name (a path, an
/// option) stays as it is.
pub(crate) fn sentence(message: &str) -> String {
    let first = message.split_whitespace().next().unwrap_or_default();
    let word = first.trim_end_matches([',', ':', ';']);
    if !word
        .chars()
        .all(|c| c.is_alphabetic() || c == '-' || c == '\'')
    {
        return message.to_owned();
    }
    let mut letters = message.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// An error that should not happen.
pub(crate) fn bug(what: &str) -> Expected {
    Expected::new(codes::BUG, format!("This is a bug in windlass: {what}.")).help(
        "Run the command again with `--log debug` and report its output, with the file that \
         `windlass doctor --bundle` makes. Nothing that was acknowledged is lost.",
    )
}
