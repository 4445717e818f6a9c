//! `windlass runs exists`.

use clap::Args;
use serde_json::json;

use crate::app::Context;
use crate::exit::Exit;

/// The arguments.
#[derive(Debug, Args)]
#[command(after_help = "The exit code is 0 if there is, and 41 if not.")]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: String,
}

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let exists = match self.id.parse::<uuid::Uuid>() {
            Ok(id) => {
                let filter = [("id", id.to_string())];
                !api.list_whole(&["runs"], &filter, 1)?.is_empty()
            }
            Err(_) => {
                api.find(&self.id)?;
                true
            }
        };
        let item = json!({ "id": self.id, "exists": exists });
        context.output.show(&item, || exists.to_string())?;
        Ok(if exists { Exit::Done } else { Exit::NotFound })
    }
}
