//! `windlass instance retry`.

use clap::Args;
use serde_json::json;
use windlass_model::Payload;
use windlass_runtime::client::Retry;

use super::result::Wait;
use super::{client, find};
use crate::app::Context;
use crate::ended;
use crate::exit::Exit;
use crate::input;
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Without a node, those that failed run again, and those that were cut off with \
    them. It is carried out by `windlass serve`."
)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: String,
    /// The node to begin with
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    /// What that node works on: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT", requires = "from")]
    input: Vec<String>,
    #[command(flatten)]
    wait: Wait,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let input = match self.input.as_slice() {
            [] => None,
            inputs => Some(Payload::of(&input::parse(inputs)?)),
        };
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let id = find(store.as_ref(), &self.id)?.id;
        let client = client(&machine, &store)?;
        let retry = Retry {
            from: self.from,
            input,
        };
        let patience = self.wait.patience();
        let asked = client.retry(id, retry, patience);
        let standing = machine.tokio.block_on(asked)?;
        if standing.done
            && let Some(row) = store.instance(id)?
        {
            return ended::report(&context.output, store.as_ref(), row, true);
        }
        store.close();
        let item = json!({ "id": id, "status": standing.status });
        context.output.show(&item, || id.to_string())?;
        Ok(Exit::Done)
    }
}
