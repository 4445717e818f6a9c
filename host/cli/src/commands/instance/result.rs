//! `windlass instance result`.

use std::time::Duration;

use clap::Args;

use super::find;
use crate::app::Context;
use crate::commands::event::duration;
use crate::ended;
use crate::exit::Exit;
use crate::wire::Machine;

/// Longer than anybody waits.
const FOR_EVER_MS: &str = "36500d";

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// Whether and how long something is waited for.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Wait until it has happened, or for so long
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
    /// How long to wait; zero if not at all.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_millis(self.wait.unwrap_or_default())
    }
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let mut row = find(store.as_ref(), &self.id)?;
        let patience = self.wait.patience();
        if !row.status.is_final() && !patience.is_zero() {
            let client = machine.client(&store, context.output);
            machine.tokio.block_on(client.result(row.id, patience))?;
            row = store.instance_by_no(row.no)?.unwrap_or(row);
        }
        ended::report(&context.output, store.as_ref(), row, true)
    }
}
