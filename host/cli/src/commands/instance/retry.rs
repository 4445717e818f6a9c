//! `windlass instance retry`.

use clap::Args;
use serde_json::{Value, json};
use windlass_model::Payload;
use windlass_runtime::client::Retry;

use super::find;
use super::result::Wait;
use crate::app::Context;
use crate::ended;
use crate::exit::Exit;
use crate::input;
use crate::output::Output;
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Without a node, those that failed run again, and those that were cut off with \
    them. It is carried out by `windlass serve`."
)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    pub(crate) id: String,
    /// The node to begin with
    #[arg(long, value_name = "NODE")]
    pub(crate) from: Option<String>,
    /// What that node works on: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT", requires = "from")]
    input: Vec<String>,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let input = self.input()?.as_ref().map(Payload::of);
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let id = find(store.as_ref(), &self.id)?.id;
        let client = machine.client(&store, context.output);
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
        tell(&context.output, &id.to_string(), standing.status.name())
    }

    /// What the node works on, if it is given something.
    pub(crate) fn input(&self) -> anyhow::Result<Option<Value>> {
        Ok(match self.input.as_slice() {
            [] => None,
            inputs => Some(input::parse(inputs)?),
        })
    }
}

/// Tells how the run stands that goes on.
pub(crate) fn tell(output: &Output, id: &str, status: &str) -> anyhow::Result<Exit> {
    let item = json!({ "id": id, "status": status });
    output.show(&item, || id.to_owned())?;
    Ok(Exit::Done)
}
