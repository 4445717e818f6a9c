//! `windlass runs list`.

use clap::Args;
use windlass_model::Status;

use crate::app::Context;
use crate::exit::Exit;
use crate::output::columns_of;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "They are listed by their numbers, which are those of the process that wrote a \
    run down: first the process that joined the store last, and of each the newest run first."
)]
pub(crate) struct Arguments {
    /// Only runs in this status; may be repeated
    #[arg(long, value_parser = status, value_name = "STATUS")]
    status: Vec<Status>,
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// How many runs to list at most
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    limit: u32,
}

fn status(text: &str) -> Result<Status, String> {
    Status::ALL
        .into_iter()
        .find(|status| status.name() == text)
        .ok_or_else(|| {
            let names: Vec<_> = Status::ALL.iter().map(|status| status.name()).collect();
            format!("a status is one of {}", names.join(", "))
        })
}

/// The members of a run in a list.
const ORDER: [&str; 7] = [
    "id",
    "workflow",
    "status",
    "correlation",
    "created",
    "finished",
    "failure",
];

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let statuses: Vec<_> = self.status.iter().map(|status| status.name()).collect();
        let mut filter = Vec::new();
        if !statuses.is_empty() {
            filter.push(("status", statuses.join(",")));
        }
        filter.extend(self.workflow.map(|name| ("workflow", name)));
        let items = context
            .api()?
            .list(&["runs"], &filter, self.limit, &ORDER)?;
        let columns = ["id", "workflow", "status", "created", "finished"];
        let output = &context.output;
        output.list(&items, || {
            columns_of(&items, &columns.map(|key| (key, key)))
        })?;
        Ok(Exit::Done)
    }
}
