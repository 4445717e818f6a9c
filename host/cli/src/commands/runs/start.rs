//! `windlass runs start`.

use clap::Args;
use serde_json::{Value, json};

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
}

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut members = self.when.members();
        if self.create_only {
            members.insert("create_only".to_owned(), Value::from(true));
        }
        let begun = self.request.begin(members, || context.api_and_store())?;
        let (id, existed) = (begun.id, begun.existed);
        let item = json!({ "id": id, "existed": existed });
        context.output.show(&item, || id.clone())?;
        if existed {
            let note = "The same request was made before; this is that run.";
            context.output.note(note);
        }
        Ok(Exit::Done)
    }
}
