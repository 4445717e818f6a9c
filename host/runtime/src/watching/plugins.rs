//! Folders whose plugins a process loads.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

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
    /// parked because of a plugin that is in a folder. Takes as long as compiling them.
    pub fn load(host: &Host, folders: Vec<PathBuf>, report: Arc<dyn FolderReport>) -> Self {
        let mut folders = Folders::new(folders);
        look(&mut folders, host, &*report, &|| ());
        Self { folders, report }
    }

    /// Looks repeatedly, and calls back when a plugin was loaded.
    /// Behind the work, the components inside the program are compiled for this processor.
    pub(crate) fn watch(
        self,
        host: Arc<Host>,
        loaded: impl Fn() + Clone + Send + 'static,
    ) -> std::io::Result<Watch> {
        let Self {
            mut folders,
            report,
        } = self;
        let dirs = folders.dirs().to_vec();
        compile(Arc::downgrade(&host), loaded.clone())?;
        Watch::start("plugin-folders", &dirs, Bell::default(), move || {
            look(&mut folders, &host, &*report, &loaded)
        })
    }
}

/// The time from the start of the process to the first compilation, so that work begins first.
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
    loaded: &dyn Fn(),
) -> Duration {
    folders.look(host, &mut |event| {
        report.plugin(&event);
        if let LoadEvent::Loaded { .. } = event {
            loaded();
        }
    })
}
