//! `windlass runs retry`.

use clap::Args;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::result::Wait;
use crate::api::text;
use crate::app::Context;
use crate::ended;
use crate::exit::Exit;
use crate::input;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Without a node, those that failed run again, and those that were cut off with \
    them. It is carried out by `windlass serve`."
)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: String,
    /// The node to continue from
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    /// Input for that node: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT", requires = "from")]
    input: Vec<String>,
    #[command(flatten)]
    wait: Wait,
}

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut members = Map::new();
        if let Some(from) = &self.from {
            members.insert("from".to_owned(), Value::from(from.as_str()));
        }
        if !self.input.is_empty() {
            members.insert("input".to_owned(), input::parse(&self.input)?);
        }
        let (api, output) = (context.api()?, &context.output);
        let id = api.id(&self.id)?;
        let path = ["runs", &id, "retry"];
        let patience = self.wait.patience();
        let body = Value::Object(members);
        let (status, outcome, rest) =
            api.ask_waiting(Method::POST, &path, patience, Some(&body))?;
        if status == StatusCode::OK {
            return ended::tell_outcome(output, &outcome);
        }
        if let Some(rest) = rest {
            return ended::await_result(output, &api, &id, rest);
        }
        let item = json!({ "id": id, "status": text(&outcome, "status")? });
        output.show(&item, || id.clone())?;
        Ok(Exit::Done)
    }
}
