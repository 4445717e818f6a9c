//! `windlass event`: stimuli.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_model::Payload;
use windlass_model::file::parse_duration_ms;
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_runtime::client::{self, Waiting};
use windlass_store::Store;
use windlass_store::stimuli::Sent;

use crate::app::Context;
use crate::codes;
use crate::commands::{find, moment, value};
use crate::error::Expected;
use crate::exit::Exit;
use crate::input;
use crate::output::{Output, columns_of};
use crate::wire::Machine;

/// What to do with events.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send an event: what it starts is started, who waits for it goes on
    Send(Send),
    /// List events that wait, to be delivered or until somebody waits for them, the oldest first
    List(List),
}

/// The arguments of `event list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// How many
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    pub(crate) limit: u32,
}

/// The arguments of `event send`.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The name of the event
    pub(crate) name: String,
    /// What it has to match: JSON, equal to the `match` of whoever is meant [default: null]
    #[arg(long = "match", value_name = "JSON")]
    pub(crate) matches: Option<String>,
    /// Only for who waits with this correlation
    #[arg(long, value_name = "TEXT")]
    pub(crate) correlation: Option<String>,
    /// Only for this run; the beginning of its id will do
    #[arg(long, value_name = "ID")]
    pub(crate) instance: Option<String>,
    /// What it brings: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT")]
    pub(crate) input: Vec<String>,
    /// start, resume, start-and-resume, or buffer, which keeps it if nobody waits yet [default:
    /// buffer for one run or correlation, otherwise start-and-resume]
    #[arg(long, value_parser = delivery, value_name = "HOW")]
    pub(crate) delivery: Option<Delivery>,
    /// How long it is kept if it is buffered
    #[arg(long, value_parser = duration, default_value = "1h", value_name = "DURATION")]
    pub(crate) ttl: u64,
}

fn delivery(text: &str) -> Result<Delivery, String> {
    text.parse().map_err(|_| {
        let names = Delivery::ALL.map(Delivery::name);
        format!("it is one of {}", names.join(", "))
    })
}

/// A duration, in milliseconds.
pub(crate) fn duration(text: &str) -> Result<u64, String> {
    let help = "durations are like `200ms`, `5s`, `1h30m` or `3d`";
    parse_duration_ms(text).ok_or_else(|| help.to_owned())
}

/// JSON on the command line.
pub(crate) fn json_argument(flag: &str, text: &str) -> Result<Value, Expected> {
    serde_json::from_str(text).map_err(|error| {
        Expected::new(
            codes::INPUT,
            format!("`{flag} {text}` is not JSON: {error}"),
        )
        .help("Put texts in double quotes, and the whole in single quotes for the shell.")
    })
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::Send(send) => send.run(context),
            Self::List(list) => list.run(context),
        }
    }
}

impl List {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let rows = client::waiting(store.as_ref(), None, self.limit)?;
        let items = rows.iter().map(|row| waiting(store.as_ref(), row));
        let items: Vec<Value> = items.collect::<Result<_, _>>()?;
        store.close();
        tell(&context.output, &items)
    }
}

/// The members of an event that waits.
pub(crate) const ORDER: [&str; 15] = [
    "no",
    "state",
    "id",
    "name",
    "match",
    "correlation",
    "instance",
    "source",
    "delivery",
    "input",
    "sent",
    "expires",
    "ready",
    "attempts",
    "failure",
];

/// Shows a list of events that wait.
pub(crate) fn tell(output: &Output, items: &[Value]) -> anyhow::Result<Exit> {
    let columns = [
        ("no", "no"),
        ("state", "state"),
        ("name", "name"),
        ("match", "match"),
        ("correlation", "correlation"),
        ("run", "instance"),
        ("sent", "sent"),
        ("expires", "expires"),
        ("attempts", "attempts"),
    ];
    output.list(items, || columns_of(items, &columns))?;
    Ok(Exit::Done)
}

fn waiting(store: &dyn Store, waiting: &Waiting) -> anyhow::Result<Value> {
    let stimulus = waiting.stimulus();
    let (queued, expires_ms) = match waiting {
        Waiting::Queued(row) => (Some(row), None),
        Waiting::Buffered(row) => (None, Some(row.expires_ms)),
    };
    let source = match queued.and_then(|row| row.source) {
        Some(no) => store.instance_by_no(no)?.map(|row| row.id),
        None => None,
    };
    Ok(json!({
        "no": waiting.no(),
        "state": queued.map_or("buffered", |_| "queued"),
        "id": stimulus.id,
        "name": stimulus.name,
        "match": serde_json::from_slice::<Value>(&stimulus.matches).unwrap_or_default(),
        "correlation": stimulus.correlation,
        "instance": stimulus.instance,
        "source": source,
        "delivery": stimulus.delivery.name(),
        "input": value(store, &stimulus.input)?,
        "sent": moment(stimulus.at_ms),
        "expires": expires_ms.map(moment),
        "ready": queued.map(|row| moment(row.ready_ms)),
        "attempts": queued.map(|row| row.attempts),
        "failure": queued.and_then(|row| row.last_error.as_ref()),
    }))
}

impl Send {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let input = input::parse(&self.input)?;
        let matches = self.matches.as_deref();
        let matches = matches
            .map(|text| json_argument("--match", text))
            .transpose()?;
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.store()?;
        let instance = match &self.instance {
            Some(prefix) => Some(find(store.as_ref(), prefix)?.id),
            None => None,
        };
        let narrowed = instance.is_some() || self.correlation.is_some();
        let stimulus = Stimulus {
            name: self.name,
            matches: matches.unwrap_or_default(),
            correlation: self.correlation,
            instance,
            input: Payload::of(&input),
            delivery: self.delivery.unwrap_or_else(|| Delivery::unsaid(narrowed)),
            ttl_ms: self.ttl,
        };
        let host = machine.loaded_host(&context.output)?;
        let (id, now_ms) = (client::new_stimulus_id(), machine.clock.wall_ms());
        let sent = client::send(store.as_ref(), &host, now_ms, id, &stimulus)?;
        store.close();
        context.output.show(&item(&sent), || text(&sent))?;
        Ok(Exit::Done)
    }
}

/// What a stimulus did, for programs.
pub(crate) fn item(sent: &Sent) -> Value {
    json!({
        "started": sent.started,
        "resumed": sent.resumed,
        "reserved": sent.reserved,
        "buffered": sent.buffered,
        "dropped": sent.dropped,
        "more": sent.more,
    })
}

/// What two stimuli did, for programs.
pub(crate) fn both(mut all: Value, mut more: Value) -> Value {
    for (key, did) in all.as_object_mut().into_iter().flatten() {
        match (did, more.get_mut(key).map(Value::take)) {
            (Value::Array(all), Some(Value::Array(more))) => all.extend(more),
            (did @ Value::Bool(_), Some(Value::Bool(true))) => *did = Value::Bool(true),
            _ => {}
        }
    }
    all
}

/// What a stimulus did, for people.
pub(crate) fn text(sent: &Sent) -> String {
    text_of(&item(sent))
}

/// What a stimulus did, for people, from what is for programs.
pub(crate) fn text_of(item: &Value) -> String {
    let mut lines = Vec::new();
    for (what, key) in [
        ("started", "started"),
        ("resumed", "resumed"),
        ("refused", "reserved"),
    ] {
        let ids = item
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        lines.extend(ids.filter_map(|id| Some(format!("{what}  {}", id.as_str()?))));
    }
    for (key, line) in [
        ("more", "more     the rest is resumed in the background"),
        ("buffered", "buffered until somebody waits for it"),
        ("dropped", "dropped  nobody was waiting for it"),
    ] {
        if item.get(key) == Some(&Value::Bool(true)) {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}
