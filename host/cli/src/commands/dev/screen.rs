//! The lines that `dev` prints.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;
use windlass_display::visible;

use crate::output::{Output, Paint};

/// Prints events: as text for people, as a line of JSON otherwise.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Screen {
    pub(in crate::commands) output: Output,
}

impl Screen {
    pub(in crate::commands) fn new(output: Output) -> Self {
        Self { output }
    }

    /// Prints an event.
    pub(in crate::commands) fn say(&self, event: &Value, text: impl FnOnce(Paint) -> String) {
        let line = match self.output.is_text() {
            true => text(self.output.data),
            false => event.to_string(),
        };
        // The host goes on without a reader: its work is more than what it prints.
        let _ = self.output.print(&line);
    }

    /// A path as the author writes it: relative to the current directory where that is above it.
    pub(in crate::commands) fn place(&self, path: &Path) -> String {
        static HERE: OnceLock<PathBuf> = OnceLock::new();
        let here = HERE.get_or_init(|| std::env::current_dir().unwrap_or_default());
        let below = path.strip_prefix(here).unwrap_or(path);
        visible::line(&below.display().to_string(), false).into_owned()
    }
}
