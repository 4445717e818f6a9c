//! `windlass instance run`, `pause` and `unpause`.

use clap::Args;
use serde_json::json;
use windlass_model::InstanceId;
use windlass_runtime::WorkflowClient;
use windlass_runtime::client::{Begun, Standing};

use super::find;
use super::result::Wait;
use crate::app::Context;
use crate::exit::Exit;
use crate::output::Output;
use crate::wire::Machine;

/// The arguments of `instance run`.
#[derive(Debug, Args)]
#[command(
    after_help = "It is carried out by `windlass serve`. The same again does nothing more: a run \
    begins once."
)]
pub(crate) struct Run {
    /// The id of the run, or its beginning
    pub(crate) id: String,
}

/// The arguments of `instance pause`.
#[derive(Debug, Args)]
#[command(
    after_help = "The request is written down, and carried out by whoever runs the run. Events \
    and times that come while it is paused are kept, and act when it goes on."
)]
pub(crate) struct Pause {
    /// The id of the run, or its beginning
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// The arguments of `instance unpause`.
#[derive(Debug, Args)]
pub(crate) struct Unpause {
    /// The id of the run, or its beginning
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

impl Run {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let id = find(store.as_ref(), &self.id)?.id;
        let client = machine.client(&store, context.output);
        let begun = machine.tokio.block_on(client.run(id))?;
        store.close();
        tell_begun(&context.output, &id.to_string(), begun == Begun::Before)
    }
}

/// Tells that a run begins.
pub(crate) fn tell_begun(output: &Output, id: &str, existed: bool) -> anyhow::Result<Exit> {
    let item = json!({ "id": id, "existed": existed });
    output.show(&item, || id.to_owned())?;
    if existed {
        output.note("It had begun before.");
    }
    Ok(Exit::Done)
}

impl Pause {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        ask(context, &self.id, PAUSE, async |client, id| {
            client.pause(id, self.wait.patience()).await
        })
    }
}

impl Unpause {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        ask(context, &self.id, UNPAUSE, async |client, id| {
            client.unpause(id, self.wait.patience()).await
        })
    }
}

/// What is said of something that was asked for: if it has happened, and if not yet.
pub(crate) type Words = (&'static str, &'static str);

/// The words of a pause.
pub(crate) const PAUSE: Words = ("paused", "pausing");

/// The words of its end.
pub(crate) const UNPAUSE: Words = ("unpaused", "unpausing");

/// Tells whether it has happened.
pub(crate) fn tell(
    output: &Output,
    id: &str,
    words: Words,
    done: bool,
    status: &str,
) -> anyhow::Result<Exit> {
    let result = if done { words.0 } else { words.1 };
    let item = json!({ "id": id, "result": result, "status": status });
    output.show(&item, || format!("{id} {result}"))?;
    Ok(Exit::Done)
}

/// Asks for something, and says whether it has happened.
fn ask(
    context: &Context,
    run: &str,
    words: Words,
    ask: impl AsyncFnOnce(WorkflowClient, InstanceId) -> Result<Standing, windlass_runtime::Error>,
) -> anyhow::Result<Exit> {
    let machine = Machine::new(context.configure("warn")?)?;
    let store = machine.existing_store()?;
    let id = find(store.as_ref(), run)?.id;
    let client = machine.client(&store, context.output);
    let standing = machine.tokio.block_on(ask(client, id))?;
    store.close();
    let (done, status) = (standing.done, standing.status.name());
    tell(&context.output, &id.to_string(), words, done, status)
}
