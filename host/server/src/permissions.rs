//! The permissions by name, and the callers that have them. `rules.rs` says which route needs
//! which.

/// A permission of a caller. The token of the host has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Permission {
    /// No permission is needed: the address itself is the secret, or public.
    Public,
    /// Read runs, their executions and results, and follow them.
    RunsRead,
    /// Create runs and start them.
    RunsStart,
    /// Cancel, pause, unpause and retry runs, one or many.
    RunsControl,
    /// Delete runs that have ended.
    RunsDelete,
    /// Export a run with its whole history.
    RunsExport,
    /// Import a run with its whole history.
    RunsImport,
    /// Import a run without a signature of a known key, together with `RunsImport`.
    ImportsUnsigned,
    /// Read triggers and schedules.
    TriggersRead,
    /// Schedule, fire, cancel and reschedule triggers; fire, pause and unpause schedules.
    TriggersControl,
    /// Send stimuli and CloudEvents.
    StimuliSend,
    /// Read queued and buffered stimuli.
    StimuliRead,
    /// Read bookmarks.
    BookmarksRead,
    /// Resume runs by their bookmarks.
    BookmarksResume,
    /// Read dead letters.
    DeadLettersRead,
    /// Replay and delete dead letters.
    DeadLettersControl,
    /// Read definitions.
    DefinitionsRead,
    /// Publish, revert and retract definitions.
    DefinitionsPublish,
    /// Read drafts.
    DraftsRead,
    /// Save and delete drafts.
    DraftsWrite,
    /// Read plugins.
    PluginsRead,
    /// Read locks.
    LocksRead,
    /// Read the state of the host, its metrics and the description of its API.
    HostRead,
    /// Pause and unpause the host.
    HostPause,
    /// Reload settings, and definitions from their files.
    HostReload,
}

impl Permission {
    /// Its name in the configuration and in the document.
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

/// The caller of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A request with the token of the host.
    Token,
    /// A request with the cookie that a browser got for the token.
    Session,
    /// A request to a host that requires no token.
    Local,
    /// A request without the token that the host requires.
    Stranger,
}

impl Caller {
    /// Whether the caller has this permission.
    pub(crate) fn may(self, permission: Permission) -> bool {
        match self {
            Self::Token | Self::Session | Self::Local => true,
            Self::Stranger => permission == Permission::Public,
        }
    }
}
