//! `windlass instance start`.

use clap::Args;
use serde_json::json;
use windlass_runtime::enqueue;

use crate::app::Context;
use crate::exit::Exit;
use crate::request::RequestArguments;
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    request: RequestArguments,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let (request, source) = self.request.read()?;
        let machine = Machine::new(context.configure("warn")?)?;
        let host = machine.loaded_host(&context.output)?;
        let store = machine.store()?;
        let now_ms = machine.clock.wall_ms();
        let started = enqueue(store.as_ref(), &host, now_ms, &request)
            .map_err(|error| source.explain(error))?;
        let existed = started.existing.is_some();
        let item = json!({ "id": started.id, "existed": existed });
        context.output.show(&item, || started.id.to_string())?;
        if existed {
            context
                .output
                .note("The same request was made before; this is that run.");
        }
        Ok(Exit::Done)
    }
}
