//! `windlass event`: stimuli.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_model::file::duration_ms;
use windlass_model::stimulus::Delivery;

use crate::app::Context;
use crate::client::{Api, unusable};
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::input;
use crate::output::columns_of;

/// The subcommands of `event`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send an event: it starts the workflows and resumes the runs that match it
    Send(Send),
    /// List events that wait for delivery, or are buffered until a run waits for them, the oldest
    /// first
    List(List),
}

/// The arguments of `event list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// How many events to list at most
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    limit: u32,
}

/// The arguments of `event send`.
#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is 40 if the event starts and resumes nothing because unfinished \
    runs exclude those that it would start (`refused`), and 41 if it was dropped."
)]
pub(crate) struct Send {
    /// The name of the event
    name: String,
    /// JSON that has to equal the `match` of a trigger or a wait [default: null]
    #[arg(long = "match", value_name = "JSON", allow_negative_numbers = true)]
    matches: Option<String>,
    /// Only for runs that wait with this correlation
    #[arg(long, value_name = "TEXT")]
    correlation: Option<String>,
    /// Only for this run, given by its id or the beginning of it
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Input that the event carries: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT")]
    input: Vec<String>,
    /// start, resume, start-and-resume, or buffer, which keeps the event until a run waits for it
    /// [default: buffer for one run or correlation, otherwise start-and-resume]
    #[arg(long, value_parser = delivery, value_name = "HOW")]
    delivery: Option<Delivery>,
    /// How long the event is kept if no run waits for it yet, like `1h`
    #[arg(
        long,
        value_parser = duration,
        default_value = "1h",
        value_name = "DURATION",
        allow_hyphen_values = true
    )]
    ttl: u64,
}

fn delivery(text: &str) -> Result<Delivery, String> {
    text.parse().map_err(|_| {
        let names = Delivery::ALL.map(Delivery::name);
        format!("it is one of {}", names.join(", "))
    })
}

/// A duration, in milliseconds.
pub(crate) fn duration(text: &str) -> Result<u64, String> {
    duration_ms(text).map_err(|wrong| wrong.to_string())
}

/// JSON on the command line.
fn json_argument(flag: &str, text: &str) -> Result<Value, Expected> {
    serde_json::from_str(text).map_err(|error| {
        Expected::new(
            codes::INPUT,
            format!("`{flag} {text}` is not JSON: {}", input::reason(&error)),
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

/// The members of a queued or buffered event.
const ORDER: [&str; 15] = [
    "no",
    "state",
    "id",
    "name",
    "match",
    "correlation",
    "run",
    "source",
    "delivery",
    "input",
    "sent",
    "expires",
    "ready",
    "attempts",
    "failure",
];

impl List {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let items = context.api()?.list(&["stimuli"], &[], self.limit, &ORDER)?;
        let columns = [
            ("no", "no"),
            ("state", "state"),
            ("name", "name"),
            ("match", "match"),
            ("correlation", "correlation"),
            ("run", "run"),
            ("sent", "sent"),
            ("expires", "expires"),
            ("attempts", "attempts"),
        ];
        let output = &context.output;
        output.list(&items, || columns_of(&items, &columns))?;
        Ok(Exit::Done)
    }
}

impl Send {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let matches = self.matches.as_deref();
        let matches = matches
            .map(|text| json_argument("--match", text))
            .transpose()?;
        let mut body = json!({
            "name": self.name,
            "match": matches.unwrap_or_default(),
            "input": input::parse(&self.input)?,
            "ttl": format!("{}ms", self.ttl),
        });
        let api = context.api()?;
        if let Some(body) = body.as_object_mut() {
            let run = self.run.as_deref().map(|id| api.id(id)).transpose()?;
            let delivery = self.delivery.map(|delivery| delivery.name().to_owned());
            for (key, value) in [
                ("correlation", self.correlation),
                ("run", run),
                ("delivery", delivery),
            ] {
                body.extend(value.map(|value| (key.to_owned(), Value::from(value))));
            }
        }
        let sent = send(&api, &["stimuli"], &body)?;
        context.output.show(&sent, || text(&sent))?;
        Ok(exit(&sent))
    }
}

/// The exit code for the result of a stimulus: an event without effect is no success.
fn exit(sent: &Value) -> Exit {
    let any = |key: &str| {
        let ids = sent.get(key).and_then(Value::as_array);
        ids.is_some_and(|ids| !ids.is_empty())
    };
    let is = |key: &str| sent.get(key) == Some(&Value::Bool(true));
    if any("started") || any("resumed") || is("more") || is("buffered") {
        Exit::Done
    } else if any("reserved") {
        Exit::Conflict
    } else if is("dropped") {
        Exit::NotFound
    } else {
        Exit::Done
    }
}

/// Sends a stimulus, or resumes by a bookmark. Returns the result.
pub(crate) fn send(api: &Api, path: &[&str], body: &Value) -> anyhow::Result<Value> {
    let sent = api.post(path, body)?;
    if !sent.get("started").is_some_and(Value::is_array) {
        return Err(unusable("it has no `started`").into());
    }
    Ok(sent)
}

/// The results of two stimuli together, for programs.
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

/// The result of a stimulus, for people.
pub(crate) fn text(item: &Value) -> String {
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
        ("buffered", "buffered until a run waits for it"),
        (
            "dropped",
            "dropped  no run was waiting for it; `--delivery buffer` keeps an event",
        ),
    ] {
        if item.get(key) == Some(&Value::Bool(true)) {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}
