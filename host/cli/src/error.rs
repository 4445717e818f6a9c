//! Expected errors, told apart from bugs.
//!
//! Commands return `anyhow::Result`. At the top an error is looked at once: what carries a
//! code (an [`Expected`], or the error of one of the other crates) is something a person can
//! act on; anything else that arrives there is a bug, `WL-X001`, and says so.

use std::fmt;
use std::sync::Arc;

use windlass_model::{Code, Diagnostic};

use crate::codes;
use crate::exit::Exit;

/// An error that a person can act on.
#[derive(Debug)]
pub(crate) struct Expected {
    /// The page that explains it.
    pub(crate) code: Code,
    /// What happened, in one sentence.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) help: Option<String>,
    /// What the caller of the process is told.
    pub(crate) exit: Exit,
    /// What is wrong with a file, if that is what happened.
    pub(crate) problems: Option<Box<Problems>>,
}

/// What is wrong with a file.
#[derive(Clone, Debug)]
pub(crate) struct Problems {
    /// As the user named it.
    pub(crate) name: String,
    /// Its text, for pointing into it.
    pub(crate) text: Arc<str>,
    /// At least one.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Expected {
    /// An error whose exit code follows from its code.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let exit = Exit::of(&code);
        Self {
            code,
            message: message.into(),
            help: None,
            exit,
            problems: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets another exit code than the one that the code stands for.
    #[must_use]
    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Everything that is wrong with one file, sorted by where it is.
    pub(crate) fn of_file(mut problems: Problems) -> Self {
        problems.diagnostics.sort_by_key(|diagnostic| {
            let start = diagnostic.place.span.as_ref().map(|span| span.start);
            (start.unwrap_or(0), diagnostic.place.pointer.clone())
        });
        let count = problems.diagnostics.len();
        let message = match count {
            1 => format!("{} has a mistake", problems.name),
            _ => format!("{} has {count} mistakes", problems.name),
        };
        let code = problems
            .diagnostics
            .first()
            .map_or(codes::BUG, |first| first.code.clone());
        let exit = Exit::of(&code);
        Self {
            code,
            message,
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

/// What to report for an error, whatever it is.
pub(crate) fn classify(error: anyhow::Error) -> Expected {
    match error.downcast::<Expected>() {
        Ok(expected) => expected,
        Err(error) => bug(&format!("{error:#}")),
    }
}

/// Something that should not have happened.
pub(crate) fn bug(what: &str) -> Expected {
    Expected::new(codes::BUG, format!("This is a bug in windlass: {what}.")).help(
        "Run the command again with `--log debug` and report what it prints. \
         Nothing that was acknowledged is lost.",
    )
}
