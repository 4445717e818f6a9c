//! `windlass runs start`.

use clap::Args;
use serde_json::{Value, json};

use super::trace::Details;
use super::watch::watch;
use crate::app::Context;
use crate::commands::trigger::When;
use crate::exit::Exit;
use crate::request::RequestArguments;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "A run that begins later can be let begin at once by `windlass runs begin ID`, \
    and cancelled like any other."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    request: RequestArguments,
    /// Only create the run; `windlass runs begin ID` lets it begin
    #[arg(long, conflicts_with_all = ["at", "after"])]
    create_only: bool,
    #[command(flatten)]
    when: When,
    /// Show the executions of the run as they happen, and then its output, like `runs watch`
    #[arg(long, conflicts_with = "create_only")]
    watch: bool,
}

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut members = self.when.members();
        if self.create_only {
            members.insert("create_only".to_owned(), Value::from(true));
        }
        let begun = self
            .request
            .begin(members, &context.output, || context.api_and_store())?;
        let (id, existed, output) = (begun.id, begun.existed, &context.output);
        match self.watch {
            true if output.is_text() => output.note(&format!("Run {id}")),
            // The outcome of the run contains its id.
            true => {}
            false => {
                let item = json!({ "id": id, "existed": existed });
                output.show(&item, || id.clone())?;
            }
        }
        if existed {
            output.note("The same request was made before; this is that run.");
        }
        if self.watch {
            return watch(output, &begun.api, &id, &Details::default());
        }
        Ok(Exit::Done)
    }
}
