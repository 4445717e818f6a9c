//! `windlass runs result`.

use std::time::Duration;

use clap::Args;

use crate::app::Context;
use crate::commands::event::duration;
use crate::ended;
use crate::exit::Exit;

/// Longer than any command runs.
const FOR_EVER_MS: &str = "36500d";

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: String,
    #[command(flatten)]
    wait: Wait,
}

/// Whether, and how long, the command waits.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Wait for the outcome, or for this long at most
    #[arg(
        long,
        value_parser = duration,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = FOR_EVER_MS
    )]
    wait: Option<u64>,
}

impl Wait {
    /// How long to wait; zero without `--wait`.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_millis(self.wait.unwrap_or_default())
    }
}

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let id = api.id(&self.id)?;
        ended::await_result(&context.output, &api, &id, self.wait.patience())
    }
}
