//! `windlass trigger schedule`.

use clap::Args;
use serde_json::{Map, Value, json};
use windlass_model::{TriggerId, limits};
use windlass_runtime::client;
use windlass_store::outside::Scheduled;

use super::target::When;
use crate::app::Context;
use crate::codes;
use crate::commands::find;
use crate::error::Expected;
use crate::exit::Exit;
use crate::input;
use crate::output::Output;
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "The trigger does not keep the run open: what is left when the run ends \
    is closed. The same --id with the same arguments is the same trigger, which takes --at: \
    --in counts from now, and so is another time whenever it is said."
)]
pub(crate) struct Schedule {
    /// The run; the beginning of its id will do
    pub(crate) run: String,
    /// The node to run
    #[arg(long, value_name = "NAME")]
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) when: When,
    /// Merged into the variables before the node runs: JSON, @FILE or KEY=VALUE
    #[arg(short, long, value_name = "INPUT")]
    input: Vec<String>,
    /// Among what is due, higher goes first
    #[arg(
        long,
        default_value_t = 0,
        allow_negative_numbers = true,
        value_name = "NUMBER"
    )]
    #[arg(value_parser = clap::value_parser!(i32).range(i64::from(-limits::PRIORITY)..=i64::from(limits::PRIORITY)))]
    pub(crate) priority: i32,
    /// The id of the trigger, a UUID
    #[arg(long, value_name = "UUID")]
    id: Option<String>,
}

impl Schedule {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let id = self.id()?;
        let payload = self.payload()?;
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let row = find(store.as_ref(), &self.run)?;
        let now_ms = machine.clock.wall_ms();
        let wish = client::Schedule {
            id,
            instance: row.id,
            node: self.node,
            due_ms: self.when.due_ms(now_ms),
            payload,
            priority: self.priority,
        };
        let (id, scheduled) = client::schedule(store.as_ref(), now_ms, &wish)?;
        store.close();
        let result = match scheduled {
            Scheduled::New => "scheduled",
            Scheduled::Already => "already scheduled",
            Scheduled::Finished => "already finished",
            refused => return Err(refuse(refused, id, &row.id.to_string()).into()),
        };
        let (id, run) = (id.0.to_string(), row.id.to_string());
        tell(&context.output, &id, &run, result)
    }

    /// The id that the trigger is given.
    pub(crate) fn id(&self) -> Result<Option<TriggerId>, Expected> {
        self.id.as_deref().map(read_id).transpose()
    }

    /// What is merged into the variables.
    pub(crate) fn payload(&self) -> Result<Option<Map<String, Value>>, Expected> {
        if self.input.is_empty() {
            return Ok(None);
        }
        match input::parse(&self.input)? {
            Value::Object(map) => Ok(Some(map)),
            _ => {
                let text = "What is merged into the variables is a JSON object";
                let help = "Write `--input '{\"name\": 5}'` or `--input name=5`.";
                Err(Expected::new(codes::INPUT, text).help(help))
            }
        }
    }
}

/// Tells what became of a wish.
pub(crate) fn tell(output: &Output, id: &str, run: &str, result: &str) -> anyhow::Result<Exit> {
    let item = json!({ "id": id, "instance": run, "result": result });
    output.show(&item, || id.to_owned())?;
    Ok(Exit::Done)
}

fn refuse(scheduled: Scheduled, id: TriggerId, run: &str) -> Expected {
    let late = |text: String| Expected::new(codes::TOO_LATE, text).exit(Exit::Conflict);
    match scheduled {
        Scheduled::Conflict => late(format!("Trigger {id} was scheduled with other arguments"))
            .help("Take another `--id`, or leave it out for a new one. `--in` is another time each time: `--at` says the same again."),
        Scheduled::NoInstance => {
            let text = format!("There is no run {run}");
            Expected::new(codes::NO_INSTANCE, text).exit(Exit::NotFound)
        }
        _ => late(format!("Run {run} is over"))
            .help("Start another one; `windlass instance list` shows what runs."),
    }
}

fn read_id(text: &str) -> Result<TriggerId, Expected> {
    text.parse().map(TriggerId).map_err(|_| {
        Expected::new(codes::NO_ID, format!("`{text}` is not a UUID"))
            .help("Leave the id out for a new one.")
    })
}
