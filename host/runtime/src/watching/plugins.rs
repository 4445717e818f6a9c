//! Folders whose plugins a process loads.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windlass_periodic::Bell;
use windlass_plugins::{Folders, Host, LoadEvent};

use super::Watch;

/// Folders whose plugins are loaded. A [`Runtime`](crate::Runtime) with this option watches them.
pub struct PluginFolders(Folders);

impl PluginFolders {
    /// Loads the plugins in the folders before the process claims anything, so that no trigger is
    /// parked because of a plugin that is in a folder. Takes as long as compiling them.
    pub fn load(host: &Host, folders: Vec<PathBuf>) -> Self {
        let mut folders = Folders::new(folders);
        look(&mut folders, host, &|| ());
        Self(folders)
    }

    /// Looks repeatedly, and calls back when a plugin was loaded.
    pub(crate) fn watch(
        self,
        host: Arc<Host>,
        loaded: impl Fn() + Send + 'static,
    ) -> std::io::Result<Watch> {
        let Self(mut folders) = self;
        let dirs = folders.dirs().to_vec();
        Watch::start("plugin-folders", &dirs, Bell::default(), move || {
            look(&mut folders, &host, &loaded)
        })
    }
}

fn look(folders: &mut Folders, host: &Host, loaded: &dyn Fn()) -> Duration {
    folders.look(host, &mut |event| {
        log(&event);
        if let LoadEvent::Loaded { .. } = event {
            loaded();
        }
    })
}

fn log(event: &LoadEvent) {
    match event {
        LoadEvent::Loaded { file, plugin, .. } => {
            tracing::info!(plugin = plugin.name(), digest = %plugin.digest, file = %file.display(), "loaded");
        }
        LoadEvent::Failed { file, error, .. } => {
            tracing::warn!(code = %error.code, file = %file.display(), message = error.message, "not loaded");
        }
        LoadEvent::Removed { file, digest } => {
            tracing::info!(%digest, file = %file.display(), "removed");
        }
    }
}
