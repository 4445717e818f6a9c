//! `windlass instance exists`.

use clap::Args;
use serde_json::json;

use super::find;
use crate::app::Context;
use crate::exit::Exit;
use crate::output::Output;
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
#[command(after_help = "The exit code is 0 if there is, and 41 if not.")]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    pub(crate) id: String,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let exists = match self.id.parse() {
            Ok(id) => {
                let client = machine.client(&store, context.output);
                machine.tokio.block_on(client.exists(id))?
            }
            Err(_) => {
                find(store.as_ref(), &self.id)?;
                true
            }
        };
        self.tell(&context.output, exists)
    }

    /// Tells whether there is such a run.
    pub(crate) fn tell(&self, output: &Output, exists: bool) -> anyhow::Result<Exit> {
        let item = json!({ "id": self.id, "exists": exists });
        output.show(&item, || exists.to_string())?;
        Ok(if exists { Exit::Done } else { Exit::NotFound })
    }
}
