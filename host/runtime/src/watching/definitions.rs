//! The directories whose workflow files a process publishes.
//!
//! A file that cannot be published is reported once, with all its mistakes, and the earlier version
//! stays published; the file is tried again when it or a plugin changes. When a file is removed,
//! its workflow is retracted, because the directory defines which workflows start, and a stale one
//! would be hard to find; a setting keeps it published.

use std::sync::Arc;
use std::time::Duration;

use windlass_periodic::Bell;

use super::report::FolderReport;
use super::{PluginNews, Watch};
use crate::definitions::{Definitions, Reloaded, Upkept};

/// The longest time between two looks.
const LOOK: Duration = Duration::from_secs(2);

/// The number of looks between two checks for requests that another process has left behind.
const LOOKS: u32 = 30;

/// Publishes the files of the directories.
pub(crate) struct Publisher {
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) plugins: PluginNews,
    /// Rung after a workflow was published or retracted.
    pub(crate) planner: Bell,
    pub(crate) report: Arc<dyn FolderReport>,
}

impl Publisher {
    /// Looks once, and then repeatedly.
    pub(crate) fn watch(self) -> std::io::Result<Watch> {
        // The first look tries every file, so plugins that were loaded before need no second look.
        self.plugins.take();
        self.look();
        self.look_at_published();
        let directories = self.definitions.directories().to_vec();
        let bell = self.plugins.bell.clone();
        let mut looks = 0_u32;
        Watch::start("definitions", &directories, bell, move || {
            if looks.is_multiple_of(LOOKS)
                && let Err(error) = self.definitions.catch_up()
            {
                tracing::warn!(code = %error.code(), %error, "cannot carry out pending requests");
            }
            looks = looks.wrapping_add(1);
            self.look();
            LOOK
        })
    }

    fn look(&self) {
        let again = self.plugins.take();
        let mut is_changed = again;
        match self.definitions.look(again) {
            Ok(Upkept::Done(reloaded)) => {
                is_changed |= !reloaded.published.is_empty();
                self.tell(&reloaded);
            }
            // The next look finds the files that the other process has left.
            Ok(Upkept::AlreadyInProgress) => {}
            Err(error) => {
                tracing::warn!(code = %error.code(), %error, "cannot look at the definitions");
            }
        }
        if is_changed {
            self.look_at_published();
        }
    }

    /// Reports which published workflows the present plugins cannot run.
    fn look_at_published(&self) {
        match self.definitions.changed_runnable() {
            Ok(changed) => changed.iter().for_each(|it| self.report.runnable(it)),
            Err(error) => {
                tracing::warn!(code = %error.code(), %error, "cannot look at the published workflows");
            }
        }
    }

    fn tell(&self, reloaded: &Reloaded) {
        if !reloaded.published.is_empty() || !reloaded.retracted.is_empty() {
            self.planner.ring();
        }
        self.report.definitions(reloaded);
    }
}
