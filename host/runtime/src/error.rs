use windlass_model::nearest::did_you_mean;
use windlass_model::{Code, Diagnostic};
use windlass_store::Store;
use windlass_store::published::PublicationQuery;
use windlass_store::write::Fenced;

/// The published names that are compared with a name that is not published.
const NAMES: u32 = 500;

/// An error of the runtime.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store fails.
    #[error(transparent)]
    Store(#[from] windlass_store::Error),
    /// The definition is wrong, with all its mistakes.
    #[error("the workflow has {}", counted(.0.len()))]
    Definition(Vec<Diagnostic>),
    /// No run of a published workflow can begin on the current plugins. It may on later ones.
    #[error("workflow `{workflow}` cannot run now: {}", first(.mistakes))]
    CannotRun {
        /// The workflow.
        workflow: String,
        /// All the reasons.
        mistakes: Vec<Diagnostic>,
    },
    /// The input does not fit the workflow.
    #[error("the input does not fit the workflow")]
    Input(Vec<Diagnostic>),
    /// The id is taken by another request.
    #[error("{message}")]
    Conflict {
        /// The request that has the id.
        message: String,
    },
    /// A run that excludes this one has not ended.
    #[error("run {by} has not ended, and the workflow allows one at a time")]
    Reserved {
        /// The other run.
        by: windlass_model::RunId,
    },
    /// There is no such run.
    #[error("there is no run {0}")]
    NotFound(String),
    /// A run with this id was deleted, and its id cannot be used again.
    #[error("run {0} was deleted")]
    Deleted(windlass_model::RunId),
    /// The operation is not possible in the present state of the run, and nothing was changed.
    #[error("{message}")]
    NotNow {
        /// The page that explains it.
        code: Code,
        /// The reason, in one sentence.
        message: String,
        /// The remedy.
        help: Option<String>,
    },
    /// The operation was refused, and nothing was changed.
    #[error("{message}")]
    Refused {
        /// The page that explains it.
        code: Code,
        /// The reason, in one sentence.
        message: String,
        /// The remedy.
        help: Option<String>,
    },
    /// There is no workflow of this name.
    #[error("there is no published workflow `{name}`")]
    NoWorkflow {
        /// The name.
        name: String,
        /// A suggestion, if another name is near.
        near: Option<String>,
    },
    /// The plugin host fails.
    #[error(transparent)]
    Plugins(#[from] windlass_plugins::Error),
    /// The keyring cannot be used.
    #[error(transparent)]
    Keys(#[from] windlass_keys::KeysError),
    /// The process is shutting down.
    #[error("the host is shutting down and takes no more work")]
    Draining,
    /// An administrator has paused the process.
    #[error("the host is paused and takes no new work")]
    Paused,
    /// A fence of the store refused a write: the membership of this process has ended, and it joins
    /// again.
    #[error("the host has lost its membership in its store, and joins again")]
    NoLease,
    /// Data in the store cannot be decoded.
    #[error("{0}")]
    Unreadable(String),
    /// A run cannot be archived before it is deleted.
    #[error("the archive {} cannot be written: {error}", directory.display())]
    Archive {
        /// The directory.
        directory: std::path::PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// A part of the process that an operation needs could not be made.
    #[error(transparent)]
    Setup(Box<dyn std::error::Error + Send + Sync>),
    /// A thread or the tokio runtime could not be started.
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
}

fn counted(mistakes: usize) -> String {
    match mistakes {
        1 => "a mistake".to_owned(),
        _ => format!("{mistakes} mistakes"),
    }
}

/// The first of several mistakes, and how many more there are.
fn first(mistakes: &[Diagnostic]) -> String {
    let first = mistakes.first().map_or("", |first| first.message.as_str());
    match mistakes.len() {
        0 | 1 => first.to_owned(),
        all => format!("{first} (and {} more)", all - 1),
    }
}

impl From<Fenced> for Error {
    fn from(Fenced: Fenced) -> Self {
        Self::NoLease
    }
}

impl Error {
    /// The numbers of a membership are used up: one membership has 2^32 of each kind.
    pub(crate) fn no_numbers() -> Self {
        Self::Unreadable("the numbers of this membership are used up".to_owned())
    }

    /// No version of this workflow is published. Looks for a name that is near.
    pub fn no_workflow(store: &dyn Store, name: &str) -> Self {
        let query = PublicationQuery {
            limit: NAMES,
            ..PublicationQuery::default()
        };
        // Without the names there is no suggestion.
        let rows = store.publications(&query).unwrap_or_default();
        Self::NoWorkflow {
            name: name.to_owned(),
            near: did_you_mean(name, rows.iter().map(|row| row.name.as_str())),
        }
    }

    /// An exported run cannot be imported.
    pub(crate) fn bad_export(reason: impl std::fmt::Display) -> Self {
        Self::Refused {
            code: crate::codes::BAD_EXPORT,
            message: format!("this document cannot be imported as a run: {reason}"),
            help: Some("export the run again, and do not edit the exported document".to_owned()),
        }
    }

    /// Something waits for the compiler of plugins.
    pub(crate) fn compiling(subject: String, why: String) -> Self {
        Self::Plugins(windlass_plugins::Error {
            code: windlass_plugins::codes::COMPILING,
            subject,
            message: why,
        })
    }

    /// Whether the same request may succeed when a plugin is compiled.
    pub fn is_compiling(&self) -> bool {
        matches!(self, Self::Plugins(error) if error.code == windlass_plugins::codes::COMPILING)
    }

    /// Whether the named thing does not exist.
    pub fn is_missing(&self) -> bool {
        use crate::codes::{NO_BATCH, NO_DRAFT, NO_SCHEDULE, NO_VERSION};
        match self {
            Self::NotNow { code, .. } => {
                [NO_BATCH, NO_DRAFT, NO_SCHEDULE, NO_VERSION].contains(code)
            }
            Self::NotFound(_) | Self::NoWorkflow { .. } => true,
            _ => false,
        }
    }

    /// The page that explains it.
    pub fn code(&self) -> Code {
        match self {
            Self::Store(error) => error.code.clone(),
            Self::Definition(diagnostics) | Self::Input(diagnostics) => diagnostics
                .first()
                .map_or(crate::codes::INPUT_INVALID, |first| first.code.clone()),
            Self::CannotRun { .. } => crate::codes::CANNOT_RUN,
            Self::Conflict { .. } => crate::codes::ID_CONFLICT,
            Self::NoWorkflow { .. } => crate::codes::CHILD,
            Self::Reserved { .. } => crate::codes::RESERVED,
            Self::NotFound(_) => crate::codes::NOT_FOUND,
            Self::Deleted(_) => crate::codes::DELETED,
            Self::Refused { code, .. } | Self::NotNow { code, .. } => code.clone(),
            Self::Plugins(error) => error.code.clone(),
            Self::Keys(_) => crate::codes::KEYRING,
            Self::Paused => crate::codes::PAUSED,
            Self::Draining => crate::codes::DRAINING,
            Self::Unreadable(_) => crate::codes::STATE_UNREADABLE,
            Self::Archive { .. } => crate::codes::ARCHIVE,
            Self::NoLease => Code::new("WL-H017"),
            Self::Setup(_) | Self::Start(_) => Code::new("WL-X001"),
        }
    }
}
