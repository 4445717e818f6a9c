//! `windlass instance delete`.

use clap::Args;
use serde_json::json;

use super::find;
use super::result::Wait;
use crate::app::Context;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::Output;
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing brings a deleted run back, and its id stays taken for as long as \
    finished runs are kept."
)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    pub(crate) id: String,
    /// Do it
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let id = find(store.as_ref(), &self.id)?.id;
        self.confirm(&id.to_string())?;
        let client = machine.client(&store, context.output);
        let patience = self.wait.patience();
        let gone = machine.tokio.block_on(client.delete(id, patience))?;
        store.close();
        tell(&context.output, &id.to_string(), gone)
    }

    /// What cannot be undone is not done by a slip of the fingers.
    pub(crate) fn confirm(&self, id: &str) -> Result<(), Expected> {
        if self.yes {
            return Ok(());
        }
        let text = format!("This deletes run {id}, and there is no way back");
        let help = "Add `--yes` to do it.";
        Err(Expected::new(codes::CONFIRM, text).help(help))
    }
}

/// Tells whether it is gone.
pub(crate) fn tell(output: &Output, id: &str, gone: bool) -> anyhow::Result<Exit> {
    let result = if gone { "deleted" } else { "deleting" };
    let item = json!({ "id": id, "result": result });
    output.show(&item, || format!("{id} {result}"))?;
    Ok(Exit::Done)
}
