//! Permissions by name, and who holds them. `rules.rs` says which route needs which.

/// What a caller may do. The token of the host holds all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Permission {
    /// Nothing is needed: the address itself was given to the caller.
    Public,
    /// Look at runs, their executions and results, and follow them.
    RunsRead,
    /// Create runs and let them begin.
    RunsStart,
    /// Cancel, pause, unpause and retry runs.
    RunsControl,
    /// Delete runs that have ended.
    RunsDelete,
    /// Take a run away with its whole history.
    RunsExport,
    /// Bring a run with its whole history.
    RunsImport,
    /// Bring a run that no known key has signed, together with `RunsImport`.
    ImportsUnsigned,
    /// Look at triggers.
    TriggersRead,
    /// Schedule, fire, cancel and move triggers.
    TriggersControl,
    /// Send stimuli and CloudEvents.
    StimuliSend,
    /// Look at stimuli that wait.
    StimuliRead,
    /// Look at bookmarks.
    BookmarksRead,
    /// Resume runs by their bookmarks.
    BookmarksResume,
    /// Look at dead letters.
    DeadLettersRead,
    /// Replay and delete dead letters.
    DeadLettersControl,
    /// Look at definitions.
    DefinitionsRead,
    /// Publish, revert and retract definitions.
    DefinitionsPublish,
    /// Look at drafts.
    DraftsRead,
    /// Save and discard drafts.
    DraftsWrite,
    /// Look at plugins.
    PluginsRead,
    /// Look at locks.
    LocksRead,
    /// Look at the state of the host, its metrics and the description of its API.
    HostRead,
    /// Pause and unpause the host.
    HostPause,
    /// Let the host look at definitions and their files again.
    HostReload,
}

impl Permission {
    /// Its name, as configuration and the document have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::RunsRead => "runs.read",
            Self::RunsStart => "runs.start",
            Self::RunsControl => "runs.control",
            Self::RunsDelete => "runs.delete",
            Self::RunsExport => "runs.export",
            Self::RunsImport => "runs.import",
            Self::ImportsUnsigned => "imports.unsigned",
            Self::TriggersRead => "triggers.read",
            Self::TriggersControl => "triggers.control",
            Self::StimuliSend => "stimuli.send",
            Self::StimuliRead => "stimuli.read",
            Self::BookmarksRead => "bookmarks.read",
            Self::BookmarksResume => "bookmarks.resume",
            Self::DeadLettersRead => "dead-letters.read",
            Self::DeadLettersControl => "dead-letters.control",
            Self::DefinitionsRead => "definitions.read",
            Self::DefinitionsPublish => "definitions.publish",
            Self::DraftsRead => "drafts.read",
            Self::DraftsWrite => "drafts.write",
            Self::PluginsRead => "plugins.read",
            Self::LocksRead => "locks.read",
            Self::HostRead => "host.read",
            Self::HostPause => "host.pause",
            Self::HostReload => "host.reload",
        }
    }
}

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A request with the token of the host.
    Token,
    /// A request without a token, to a host that wants none.
    Local,
    /// A request without the token that the host wants.
    Stranger,
}

impl Caller {
    /// Whether the caller has this permission.
    pub(crate) fn may(self, permission: Permission) -> bool {
        match self {
            Self::Token | Self::Local => true,
            Self::Stranger => permission == Permission::Public,
        }
    }
}
