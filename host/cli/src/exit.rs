//! Exit codes.
//!
//! Scripts rely on these numbers: none of them ever gets another meaning. The table in
//! `docs/cli.md` is generated from [`Exit::ALL`].

use windlass_model::Code;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// A bug in windlass.
    Bug = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// The run faulted.
    Faulted = 10,
    /// The run was cancelled.
    Cancelled = 11,
    /// The run timed out.
    TimedOut = 12,
    /// The run is suspended and was not waited for.
    Suspended = 13,
    /// The workflow file is not valid.
    Definition = 20,
    /// A plugin was rejected, or is missing.
    Plugin = 21,
    /// The host does not answer.
    Unreachable = 30,
    /// The host requires another token.
    Unauthorised = 31,
    /// The request is stored, and no host has taken it.
    NotTaken = 32,
    /// Something with this id exists and differs, another process holds it, or a run excludes
    /// another one.
    Conflict = 40,
    /// There is no such thing, or nothing that an event concerns.
    NotFound = 41,
    /// The store could not be read or written.
    Store = 50,
    /// The user interrupted the command.
    Interrupted = 130,
}

impl Exit {
    /// Every exit code with its meaning.
    pub(crate) const ALL: [(Self, &'static str); 16] = [
        (Self::Done, "done"),
        (Self::Bug, "a bug in windlass"),
        (
            Self::Usage,
            "the command line or the configuration is wrong",
        ),
        (Self::Faulted, "the run faulted"),
        (Self::Cancelled, "the run was cancelled"),
        (Self::TimedOut, "the run timed out"),
        (
            Self::Suspended,
            "the run is suspended and was not waited for",
        ),
        (Self::Definition, "the workflow file is not valid"),
        (Self::Plugin, "a plugin was rejected, or is missing"),
        (Self::Unreachable, "the host could not be reached"),
        (Self::Unauthorised, "the host wants another token"),
        (
            Self::NotTaken,
            "the request is stored, and no host has carried it out",
        ),
        (
            Self::Conflict,
            "another run has the id or excludes the new one, or another member holds the run",
        ),
        (
            Self::NotFound,
            "there is no such thing, or nothing that the event starts or resumes",
        ),
        (Self::Store, "the store could not be read or written"),
        (Self::Interrupted, "interrupted by the user"),
    ];

    /// The table, for the help.
    pub(crate) fn table() -> String {
        Self::ALL
            .iter()
            .fold("Exit codes:".to_owned(), |text, (exit, meaning)| {
                format!("{text}\n  {:>3}  {meaning}", exit.number())
            })
    }

    /// The number.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// The exit code for an error of another crate, by the code of the error.
    pub(crate) fn of(code: &Code) -> Self {
        match code
            .as_str()
            .strip_prefix("WL-")
            .and_then(|rest| rest.chars().next())
        {
            Some('D') => Self::Definition,
            Some('P') => Self::Plugin,
            Some('R') => Self::Faulted,
            // Locks are in the store, or in a server of the same kind.
            Some('S' | 'L') => Self::Store,
            Some('C' | 'U') => Self::Usage,
            _ => Self::Bug,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}
