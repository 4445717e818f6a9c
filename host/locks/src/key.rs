//! The names of locks.

use std::fmt;

/// The name of a lock: the keys of the seed, and no others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// The burst of one run.
    pub fn run(id: impl fmt::Display) -> Self {
        Self(format!("workflow-instance:{id}"))
    }

    /// The worker of the bookmark queue.
    pub fn queue_worker() -> Self {
        Self("bookmark-queue-worker".to_owned())
    }

    /// Refreshing every definition.
    pub fn refresh_all() -> Self {
        Self("definitions-refresher:all".to_owned())
    }

    /// Refreshing one definition. A caller that needs several takes them in sorted order.
    pub fn refresh(workflow: &str) -> Self {
        Self(format!("definitions-refresher:{workflow}"))
    }

    /// Reloading the sources of definitions.
    pub fn reload() -> Self {
        Self("definitions-reloader".to_owned())
    }

    /// Indexing the triggers of a definition.
    pub fn index(workflow: &str) -> Self {
        Self(format!("trigger-indexer:{workflow}"))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
