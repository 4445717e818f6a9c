//! `windlass trigger schedule`.

use clap::Args;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};
use windlass_model::{TriggerId, limits};

use super::target::When;
use crate::app::Context;
use crate::client::text;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::input;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "The trigger does not keep the run open: the end of the run closes it. A repeated command with the same --id and --at schedules no second trigger. With --in the repeated command has another due time, and the host refuses it."
)]
pub(crate) struct Schedule {
    /// The run, given by its id or the beginning of it
    run: String,
    /// The node to run
    #[arg(long, value_name = "NAME")]
    node: String,
    #[command(flatten)]
    when: When,
    /// Merged into the variables before the node runs: JSON, @FILE or KEY=VALUE
    #[arg(short, long, value_name = "INPUT", allow_negative_numbers = true)]
    input: Vec<String>,
    /// Priority among due triggers; higher ones go first
    #[arg(
        long,
        default_value_t = 0,
        allow_negative_numbers = true,
        value_name = "NUMBER"
    )]
    #[arg(value_parser = clap::value_parser!(i32).range(i64::from(-limits::PRIORITY)..=i64::from(limits::PRIORITY)))]
    priority: i32,
    /// The id of the trigger, a UUID
    #[arg(long, value_name = "UUID")]
    id: Option<String>,
}

impl Schedule {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let id = self.id()?;
        let payload = self.payload()?;
        let api = context.api()?;
        let run = api.id(&self.run)?;
        let mut members = self.when.members();
        members.insert("run".to_owned(), json!(run));
        members.insert("node".to_owned(), json!(self.node));
        members.insert("priority".to_owned(), json!(self.priority));
        members.extend(id.map(|id| ("id".to_owned(), json!(id.to_string()))));
        members.extend(payload.map(|payload| ("payload".to_owned(), Value::Object(payload))));
        let members = Value::Object(members);
        let (status, done) = api.ask(Method::POST, &["triggers"], &[], Some(&members))?;
        let result = match (status, text(&done, "result")?) {
            (StatusCode::CREATED, _) => "scheduled",
            (_, "finished") => "already finished",
            _ => "already scheduled",
        };
        let id = text(&done, "trigger")?;
        let item = json!({ "id": id, "run": run, "result": result });
        context.output.show(&item, || id.to_owned())?;
        Ok(Exit::Done)
    }

    /// The requested id of the trigger.
    fn id(&self) -> Result<Option<TriggerId>, Expected> {
        self.id.as_deref().map(read_id).transpose()
    }

    /// The members to merge into the variables.
    fn payload(&self) -> Result<Option<Map<String, Value>>, Expected> {
        if self.input.is_empty() {
            return Ok(None);
        }
        match input::parse(&self.input)? {
            Value::Object(map) => Ok(Some(map)),
            _ => {
                let text =
                    "The payload, which is merged into the variables, has to be a JSON object";
                let help = "Write `--input '{\"name\": 5}'` or `--input name=5`.";
                Err(Expected::new(codes::INPUT, text).help(help))
            }
        }
    }
}

fn read_id(text: &str) -> Result<TriggerId, Expected> {
    text.parse().map(TriggerId).map_err(|_| {
        Expected::new(codes::NO_ID, format!("`{text}` is not a UUID"))
            .help("Leave the id out for a new one.")
    })
}
