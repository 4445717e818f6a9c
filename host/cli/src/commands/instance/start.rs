//! `windlass instance start`.

use clap::Args;
use serde_json::json;

use crate::app::Context;
use crate::commands::trigger::When;
use crate::exit::Exit;
use crate::output::Output;
use crate::request::RequestArguments;
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "A run that begins later can be let begin at once by `windlass instance run ID`, \
    and cancelled like any other."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) request: RequestArguments,
    /// Only write it down: it begins with `windlass instance run ID`
    #[arg(long, conflicts_with_all = ["at", "after"])]
    pub(crate) create_only: bool,
    #[command(flatten)]
    pub(crate) when: When,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let (request, source) = self.request.read()?;
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.store()?;
        let client = machine.client(&store, context.output);
        let started = machine.tokio.block_on(async {
            match self.when.due_ms(machine.clock.wall_ms()) {
                _ if self.create_only => client.create(request).await,
                Some(at_ms) => client.create_for(request, at_ms).await,
                None => client.create_and_run(request).await,
            }
        });
        let started = started.map_err(|error| source.explain(error))?;
        let existed = started.existing.is_some();
        tell(&context.output, &started.id.to_string(), existed)
    }
}

/// Tells which run it is.
pub(crate) fn tell(output: &Output, id: &str, existed: bool) -> anyhow::Result<Exit> {
    let item = json!({ "id": id, "existed": existed });
    output.show(&item, || id.to_owned())?;
    if existed {
        output.note("The same request was made before; this is that run.");
    }
    Ok(Exit::Done)
}
