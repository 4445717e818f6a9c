//! `windlass completions`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::app::{Cli, Context};
use crate::exit::Exit;

/// The arguments.
#[derive(Debug, Args)]
#[command(after_help = "Example: windlass completions bash > /etc/bash_completion.d/windlass")]
pub(crate) struct Arguments {
    /// The shell to write a script for
    shell: Shell,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "windlass", &mut script);
        context.output.document(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}
