//! `windlass runs cancel`.

use clap::Args;
use serde_json::{Map, Value, json};

use super::many::Many;
use super::taken::{Taken, is_taken};
use crate::app::Context;
use crate::exit::Exit;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "The command stores the request, and the owner of the run carries it out: \
    `windlass runs result ID --wait` waits for the end. The exit code is 32 if no host has taken \
    the request within three seconds: it stays stored, and `windlass serve` carries it out."
)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: Option<String>,
    #[command(flatten)]
    many: Many,
    /// With `--where`: cancel the runs, which are only shown otherwise
    #[arg(long, requires = "conditions")]
    yes: bool,
}

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if self.many.is_meant(self.id.as_deref())? {
            return self.many.run(context, "cancel", self.yes, Map::new());
        }
        let api = context.api()?;
        let id = api.id(&self.id.unwrap_or_default())?;
        api.post(&["runs", &id, "cancel"], &Value::Null)?;
        let taken = is_taken(&api, &id, "cancel")?;
        let result = match taken {
            Taken::Ended => "ended",
            Taken::Yes => "cancelling",
            Taken::No => "stored",
        };
        let item = json!({ "id": id, "result": result });
        context.output.show(&item, || id.clone())?;
        Ok(taken.exit(&context.output))
    }
}
