//! `windlass instance cancel`.

use clap::Args;
use serde_json::json;
use windlass_runtime::client;
use windlass_store::outside::Touched;

use super::find::find;
use crate::app::Context;
use crate::commands::trigger::refuse;
use crate::exit::Exit;
use crate::output::Output;
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "The request is written down, and carried out by whoever runs the run: \
    `windlass instance result ID --wait` waits for the end."
)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    pub(crate) id: String,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let row = find(store.as_ref(), &self.id)?;
        let now_ms = machine.clock.wall_ms();
        let touched = client::cancel_instance(store.as_ref(), now_ms, row.id)?;
        store.close();
        if touched != Touched::Done {
            return Err(refuse(touched, &format!("Run {}", row.id)).into());
        }
        tell(&context.output, &row.id.to_string())
    }
}

/// Tells that a run is asked to end.
pub(crate) fn tell(output: &Output, id: &str) -> anyhow::Result<Exit> {
    let item = json!({ "id": id, "result": "cancelling" });
    output.show(&item, || id.to_owned())?;
    Ok(Exit::Done)
}
