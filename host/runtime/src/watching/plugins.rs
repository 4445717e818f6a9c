//! Folders whose plugins a process loads.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use windlass_model::Clock;
use windlass_periodic::{Bell, Periodic, Rest};
use windlass_plugins::{Folders, Host, LoadEvent};

use super::Watch;
use super::report::FolderReport;

/// Folders whose plugins are loaded. A [`Runtime`](crate::Runtime) with this option watches them.
pub struct PluginFolders {
    folders: Folders,
    report: Arc<dyn FolderReport>,
}

impl PluginFolders {
    /// Loads the plugins in the folders before the process claims anything, so that no trigger is
    /// parked because of a plugin that is compiled. Waits at most so long for the compiler: the
    /// plugins that are not compiled then are loaded behind the work, and what needs them waits.
    pub fn load(
        host: &Host,
        folders: Vec<PathBuf>,
        report: Arc<dyn FolderReport>,
        clock: &dyn Clock,
        at_most: Duration,
    ) -> Self {
        let end = clock.monotonic().saturating_add(at_most);
        let mut folders = Folders::new(folders);
        loop {
            look(&mut folders, host, &*report, &|_| ());
            let left = end.saturating_sub(clock.monotonic());
            if left.is_zero() || !host.await_compiled(left) {
                return Self { folders, report };
            }
        }
    }

    /// Looks repeatedly, and calls back about each change after which something may go on that
    /// waits. Plugins are compiled behind the work; the components inside the program, too, for this
    /// processor.
    pub(crate) fn watch(
        self,
        host: Arc<Host>,
        changed: impl Fn(Change) + Clone + Send + 'static,
    ) -> std::io::Result<Watch> {
        let Self {
            mut folders,
            report,
        } = self;
        let dirs = folders.dirs().to_vec();
        let replaced = changed.clone();
        compile(Arc::downgrade(&host), move || {
            // The same component, with other code.
            let is_consumer = false;
            replaced(Change::Loaded { is_consumer });
        })?;
        let bell = Bell::default();
        let rung = bell.clone();
        let behind = host.compile_behind(move || rung.ring());
        Watch::start("plugin-folders", &dirs, bell, move || {
            let _behind = &behind;
            look(&mut folders, &host, &*report, &changed)
        })
    }
}

/// A change after which something may go on that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// There is a plugin, which may be a consumer.
    Loaded {
        /// Whether it is one.
        is_consumer: bool,
    },
    /// A plugin that was waited for does not come.
    Failed,
}

/// The time from the start of the process to the first compilation, so that work begins first, and
/// between two looks at whether plugins of the folders still wait for the compiler.
const AFTER: Duration = Duration::from_secs(2);

/// Compiles the components inside the program, one after the other. The thread ends with the last
/// one, after a failure, or with the last user of the host.
fn compile(host: Weak<Host>, replaced: impl Fn() + Send + 'static) -> std::io::Result<()> {
    let mut is_first = true;
    let compiler = Periodic::start("compiler", move |bell| {
        if std::mem::take(&mut is_first) {
            return Rest::exactly(AFTER);
        }
        let Some(host) = host.upgrade() else {
            bell.stop();
            return Rest::NONE;
        };
        // Their code in the program works; plugins that are awaited have none.
        if !host.awaited().is_empty() {
            return Rest::exactly(AFTER);
        }
        match host.compile_bundle() {
            Ok(Some(plugin)) => {
                tracing::debug!(plugin = plugin.name(), "compiled for this processor");
                replaced();
            }
            Ok(None) => bell.stop(),
            Err(error) => {
                tracing::warn!(
                    code = %error.code, file = error.subject, error = error.message,
                    "the code in the program stays in use"
                );
                bell.stop();
            }
        }
        Rest::NONE
    })?;
    // The end of the process does not wait for a compilation.
    compiler.detach();
    Ok(())
}

fn look(
    folders: &mut Folders,
    host: &Host,
    report: &dyn FolderReport,
    changed: &dyn Fn(Change),
) -> Duration {
    folders.look(host, &mut |event| {
        report.plugin(&event);
        match event {
            LoadEvent::Loaded { plugin, .. } => {
                let is_consumer = plugin.consumer().is_some();
                changed(Change::Loaded { is_consumer });
            }
            // It is for runs that began with it.
            LoadEvent::Compiled { .. } => changed(Change::Loaded { is_consumer: false }),
            LoadEvent::Failed { .. } | LoadEvent::Removed { .. } => changed(Change::Failed),
            LoadEvent::Compiling { .. } | LoadEvent::Ignored { .. } => {}
        }
    })
}
