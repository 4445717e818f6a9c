//! `windlass runs delete`.

use clap::Args;
use reqwest::{Method, StatusCode};
use serde_json::{Map, json};
use windlass_runtime::codes::NOT_FOUND;

use super::many::Many;
use super::result::Wait;
use crate::app::Context;
use crate::client::Api;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing brings a deleted run back, and its id stays taken for as long as \
    finished runs are kept."
)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: Option<String>,
    #[command(flatten)]
    many: Many,
    /// Confirm the deletion, which cannot be undone
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    wait: Wait,
}

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if self.many.is_meant(self.id.as_deref())? {
            return self.many.run(context, "delete", self.yes, Map::new());
        }
        let api = context.api()?;
        let id = api.id(self.id.as_deref().unwrap_or_default())?;
        self.confirm(&id)?;
        let result = match self.delete(&api, &id)? {
            true => "deleted",
            false => "deleting",
        };
        let item = json!({ "id": id, "result": result });
        context.output.show(&item, || format!("{id} {result}"))?;
        Ok(Exit::Done)
    }

    /// Deletes the run. Returns whether it is gone.
    fn delete(&self, api: &Api, id: &str) -> anyhow::Result<bool> {
        let patience = self.wait.patience();
        let path = ["runs", id];
        let (status, _, rest) = api.ask_waiting(Method::DELETE, &path, patience, None)?;
        let gone = status == StatusCode::NO_CONTENT;
        let Some(rest) = rest.filter(|_| !gone) else {
            return Ok(gone);
        };
        // Waiting for the result ends when the run is deleted.
        let path = ["runs", id, "result"];
        match api.ask_patiently(Method::GET, &path, rest) {
            Ok(_) => Ok(false),
            Err(error) => match error.downcast::<Expected>() {
                Ok(expected) if expected.code == NOT_FOUND => Ok(true),
                Ok(other) => Err(other.into()),
                Err(error) => Err(error),
            },
        }
    }

    /// Refuses the deletion unless the user confirms it.
    fn confirm(&self, id: &str) -> Result<(), Expected> {
        if self.yes {
            return Ok(());
        }
        let text = format!("This deletes run {id}, and there is no way back");
        let help = "Add `--yes` to do it.";
        Err(Expected::new(codes::CONFIRM, text).help(help))
    }
}
