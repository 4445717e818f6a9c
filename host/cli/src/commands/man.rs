//! `windlass man`: the manual pages, for packages. Hidden, because users read the pages by man(1).

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use crate::app::{Cli, Context};
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory to write the pages to
    directory: PathBuf,
}

impl Arguments {
    pub(crate) fn run(self, _: &Context) -> anyhow::Result<Exit> {
        let directory = &self.directory;
        let written = std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
        written.map_err(|error| {
            let text = format!("{} cannot be written: {error}", directory.display());
            Expected::new(codes::OUTPUT, text).help("Name a directory where you may write.")
        })?;
        Ok(Exit::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        clap_mangen::generate_to(Cli::command(), dir.path()).unwrap();
        for page in ["windlass.1", "windlass-serve.1", "windlass-runs-start.1"] {
            let text = std::fs::read_to_string(dir.path().join(page)).unwrap();
            assert!(text.contains(".SH NAME"), "{page}");
        }
        assert!(!dir.path().join("windlass-man.1").exists());
    }
}
