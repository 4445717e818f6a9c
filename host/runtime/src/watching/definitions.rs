//! The directories whose workflows a process publishes.
//!
//! A file that cannot be published is reported once, with everything that is wrong with it, and
//! the version before stays published; it is tried again when it or a plugin changes. What a
//! file that is taken away has published is taken back, because the directory says what is to be
//! started, and the rest would be looked for nowhere else; a setting keeps it.

use std::sync::Arc;
use std::time::Duration;

use windlass_model::position;
use windlass_periodic::Bell;

use super::{PluginNews, Watch};
use crate::definitions::{Definitions, Failed, Reloaded, Upkept};
use crate::error::Error;

/// The longest time from one look to the next.
const LOOK: Duration = Duration::from_secs(2);

/// Looks after which requests are carried out that another process has left behind.
const LOOKS: u32 = 30;

/// Publishes what the directories hold.
pub(crate) struct Publisher {
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) plugins: PluginNews,
    /// Rung when something was published or retracted.
    pub(crate) planner: Bell,
}

impl Publisher {
    /// Looks once, and then again and again.
    pub(crate) fn watch(self) -> std::io::Result<Watch> {
        // What has come by now is found by the first look, which tries every file.
        self.plugins.take();
        self.look();
        let directories = self.definitions.directories().to_vec();
        let bell = self.plugins.bell.clone();
        let mut looks = 0_u32;
        Watch::start("definitions", &directories, bell, move || {
            if looks.is_multiple_of(LOOKS)
                && let Err(error) = self.definitions.catch_up()
            {
                tracing::warn!(code = %error.code(), %error, "cannot look after requests");
            }
            looks = looks.wrapping_add(1);
            self.look();
            LOOK
        })
    }

    fn look(&self) {
        let again = self.plugins.take();
        match self.definitions.look(again) {
            Ok(Upkept::Done(reloaded)) => self.tell(reloaded),
            // The next look finds what the other has left.
            Ok(Upkept::AlreadyInProgress) => {}
            Err(error) => {
                tracing::warn!(code = %error.code(), %error, "cannot look at the definitions");
            }
        }
    }

    fn tell(&self, reloaded: Reloaded) {
        if !reloaded.published.is_empty() || !reloaded.retracted.is_empty() {
            self.planner.ring();
        }
        for (file, published) in &reloaded.published {
            tracing::info!(
                workflow = published.name,
                version = published.version,
                unchanged = published.unchanged,
                file = %file.display(),
                "published"
            );
        }
        for (file, workflow, version) in &reloaded.retracted {
            tracing::info!(workflow, version, file = %file.display(), "retracted");
        }
        for directory in &reloaded.emptied {
            let directory = directory.display();
            tracing::warn!(%directory, "all files are gone at once: what they published stays");
        }
        for failed in &reloaded.failed {
            complain(failed);
        }
    }
}

/// Everything that is wrong with a file, a line each.
fn complain(failed: &Failed) {
    let Failed { file, text, error } = failed;
    let file = file.display();
    let Error::Definition(diagnostics) = error else {
        tracing::warn!(code = %error.code(), %file, message = %error, "not published");
        return;
    };
    for found in diagnostics {
        let span = found.place.span.as_ref();
        let (line, column) = span.map(|span| position(text, span.start)).unzip();
        tracing::warn!(
            code = %found.code,
            %file,
            line,
            column,
            message = found.message,
            "not published"
        );
    }
}
