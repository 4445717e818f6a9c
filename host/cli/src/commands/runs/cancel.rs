//! `windlass runs cancel`.

use clap::Args;
use serde_json::{Value, json};

use crate::app::Context;
use crate::exit::Exit;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "The command stores the request, and the owner of the run carries it out: \
    `windlass runs result ID --wait` waits for the end."
)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: String,
}

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let id = api.id(&self.id)?;
        api.post(&["runs", &id, "cancel"], &Value::Null)?;
        let item = json!({ "id": id, "result": "cancelling" });
        context.output.show(&item, || id.clone())?;
        Ok(Exit::Done)
    }
}
