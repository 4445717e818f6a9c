//! Which command asks a host for what, and how the answer is shown.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};
use windlass_model::{Clock as _, Failure, Status};
use windlass_runtime::SystemClock;

use super::Server;
use crate::app::Context;
use crate::codes;
use crate::commands::{Command, bookmark, dead_letter, event, instance, lock, trigger, workflow};
use crate::ended::{self, Ended};
use crate::error::Expected;
use crate::exit::Exit;
use crate::input;
use crate::output::{members, table};

/// Runs that are looked through for the beginning of an id.
const CANDIDATES: u32 = 1_000;

/// How long one request waits for the end of a run. The host may bound it further.
const WAIT: Duration = Duration::from_secs(20);

/// Does a command by asking the host.
pub(super) fn run(command: Command, context: &Context, server: &Server) -> anyhow::Result<Exit> {
    let asking = Asking { context, server };
    match command {
        Command::Instance(command) => asking.instance(command),
        Command::Trigger(command) => asking.trigger(command),
        Command::Event(event::Command::Send(send)) => asking.send(send),
        Command::Bookmark(command) => asking.bookmark(command),
        Command::DeadLetter(command) => asking.dead_letter(command),
        Command::Workflow(command) => asking.workflow(command),
        Command::Lock(lock::Command::List(list)) => {
            let keys = ["key", "owner", "token", "lease-ms"];
            asking.list(
                &["locks"],
                &[],
                list.limit,
                &keys,
                &[
                    ("lock", "key"),
                    ("held by", "owner"),
                    ("token", "token"),
                    ("lease left (ms)", "lease-ms"),
                ],
            )
        }
        // These need no store.
        local @ (Command::Explain(_) | Command::Completions(_) | Command::Config(_)) => {
            local.run(context)
        }
        _ => Err(not_there()),
    }
}

fn not_there() -> anyhow::Error {
    Expected::new(
        codes::NOT_BY_SERVER,
        "A host cannot be asked for this command",
    )
    .help("Leave `--server` out (and unset $WINDLASS_SERVER) to do it here, on the store.")
    .into()
}

struct Asking<'a> {
    context: &'a Context,
    server: &'a Server,
}

impl Asking<'_> {
    fn instance(&self, command: instance::Command) -> anyhow::Result<Exit> {
        match command {
            instance::Command::List(list) => {
                let statuses: Vec<_> = list.status.iter().map(|status| status.name()).collect();
                let mut filter = Vec::new();
                if !statuses.is_empty() {
                    filter.push(("status", statuses.join(",")));
                }
                filter.extend(list.workflow.map(|name| ("workflow", name)));
                let keys = [
                    "id",
                    "workflow",
                    "status",
                    "correlation",
                    "created",
                    "finished",
                    "failure",
                ];
                let columns = ["id", "workflow", "status", "created", "finished"];
                self.list(&["instances"], &filter, list.limit, &keys, &same(columns))
            }
            instance::Command::Show(show) => {
                let shown = self.server.get(&["instances", &self.id(&show.id)?])?;
                let item = whole(shown);
                self.context
                    .output
                    .show(&item, || members(&item, &instance::ORDER))?;
                Ok(Exit::Done)
            }
            instance::Command::Cancel(cancel) => {
                let id = self.id(&cancel.id)?;
                self.server
                    .post(&["instances", &id, "cancel"], &Value::Null)?;
                let item = json!({ "id": id, "result": "cancelling" });
                self.context.output.show(&item, || id)?;
                Ok(Exit::Done)
            }
            instance::Command::Pause(pause) => {
                let words = ("paused", "pausing");
                self.control(&self.id(&pause.id)?, "pause", pause.wait.patience(), words)
            }
            instance::Command::Unpause(unpause) => {
                let words = ("unpaused", "unpausing");
                self.control(
                    &self.id(&unpause.id)?,
                    "unpause",
                    unpause.wait.patience(),
                    words,
                )
            }
            instance::Command::Result(result) => {
                self.result(&self.id(&result.id)?, result.wait.patience())
            }
            _ => Err(not_there()),
        }
    }

    /// Asks for something, and says whether it has happened (`words`: if so, and if not yet).
    fn control(
        &self,
        id: &str,
        verb: &str,
        patience: Duration,
        words: (&str, &str),
    ) -> anyhow::Result<Exit> {
        let query = [("wait", format!("{}ms", patience.min(WAIT).as_millis()))];
        let query = if patience.is_zero() {
            &[]
        } else {
            query.as_slice()
        };
        let path = ["instances", id, verb];
        let (_, standing) = self.server.ask(Method::POST, &path, query, None)?;
        let done = standing.get("done") == Some(&Value::Bool(true));
        let result = if done { words.0 } else { words.1 };
        let status = standing.get("status").cloned().unwrap_or_default();
        let item = json!({ "id": id, "result": result, "status": status });
        self.context
            .output
            .show(&item, || format!("{id} {result}"))?;
        Ok(Exit::Done)
    }

    fn result(&self, id: &str, patience: Duration) -> anyhow::Result<Exit> {
        let clock = SystemClock::new();
        let path = ["instances", id, "result"];
        let outcome = loop {
            let left = patience.saturating_sub(clock.monotonic()).min(WAIT);
            let query = [("wait", format!("{}ms", left.as_millis()))];
            let query = if left.is_zero() {
                &[]
            } else {
                query.as_slice()
            };
            let (status, outcome) = self.server.ask(Method::GET, &path, query, None)?;
            if left.is_zero() || status != StatusCode::ACCEPTED {
                break outcome;
            }
        };
        let text = |key: &str| outcome.get(key).and_then(Value::as_str);
        let failure = outcome.get("failure").cloned().unwrap_or_default();
        let named = text("status").unwrap_or_default();
        let status = Status::ALL
            .into_iter()
            .find(|status| status.name() == named);
        let ended = Ended {
            id: id.to_owned(),
            status: status.unwrap_or_default(),
            output: outcome.get("output").filter(|it| !it.is_null()).cloned(),
            failure: serde_json::from_value::<Option<Failure>>(failure)?,
            kept: true,
        };
        ended::tell(&self.context.output, ended)
    }

    fn trigger(&self, command: trigger::Command) -> anyhow::Result<Exit> {
        let touch = |named: &str, verb: &str| {
            let done = self.server.post(&["triggers", named, verb], &Value::Null)?;
            let text = done.get("result").and_then(Value::as_str).unwrap_or(verb);
            self.context
                .output
                .show(&done, || format!("{named} {text}"))?;
            Ok(Exit::Done)
        };
        match command {
            trigger::Command::List(list) if list.instance.is_none() => {
                let columns = ["trigger", "node", "type", "state", "due"];
                self.list(
                    &["triggers"],
                    &[],
                    list.limit,
                    &trigger::ORDER,
                    &same(columns),
                )
            }
            trigger::Command::Show(show) => {
                self.show(&["triggers", &show.trigger], &trigger::ORDER)
            }
            trigger::Command::Fire(fire) => touch(&fire.trigger, "fire"),
            trigger::Command::Cancel(cancel) => touch(&cancel.trigger, "cancel"),
            _ => Err(not_there()),
        }
    }

    fn send(&self, send: event::Send) -> anyhow::Result<Exit> {
        let matches = send.matches.as_deref();
        let matches = matches
            .map(|text| event::json_argument("--match", text))
            .transpose()?;
        let mut wish = json!({
            "name": send.name,
            "match": matches.unwrap_or_default(),
            "input": input::parse(&send.input)?,
            "ttl": format!("{}ms", send.ttl),
        });
        if let Some(wish) = wish.as_object_mut() {
            let instance = send.instance.as_deref().map(|id| self.id(id)).transpose()?;
            let delivery = send.delivery.map(|delivery| delivery.name().to_owned());
            for (key, value) in [
                ("correlation", send.correlation),
                ("instance", instance),
                ("delivery", delivery),
            ] {
                wish.extend(value.map(|value| (key.to_owned(), Value::from(value))));
            }
        }
        self.sent(&["stimuli"], &wish)
    }

    fn sent(&self, path: &[&str], wish: &Value) -> anyhow::Result<Exit> {
        let sent = self.server.post(path, wish)?;
        self.context.output.show(&sent, || event::text_of(&sent))?;
        Ok(Exit::Done)
    }

    fn bookmark(&self, command: bookmark::Command) -> anyhow::Result<Exit> {
        match command {
            bookmark::Command::List(list) => {
                let instance = list.instance.as_deref().map(|id| self.id(id)).transpose()?;
                let mut filter: Vec<(&str, String)> = Vec::new();
                filter.extend(instance.map(|id| ("instance", id)));
                filter.extend(list.name.map(|name| ("name", name)));
                filter.extend(list.correlation.map(|text| ("correlation", text)));
                let keys = [
                    "no",
                    "instance",
                    "name",
                    "match",
                    "correlation",
                    "private",
                    "auto-burn",
                    "metadata",
                    "created",
                    "expires",
                ];
                self.list(
                    &["bookmarks"],
                    &filter,
                    list.limit,
                    &keys,
                    &[
                        ("no", "no"),
                        ("run", "instance"),
                        ("name", "name"),
                        ("match", "match"),
                        ("correlation", "correlation"),
                        ("expires", "expires"),
                    ],
                )
            }
            bookmark::Command::Resume(resume) => {
                let wish = json!({ "input": input::parse(&resume.input)? });
                self.sent(&["bookmarks", &resume.bookmark, "resume"], &wish)
            }
        }
    }

    fn dead_letter(&self, command: dead_letter::Command) -> anyhow::Result<Exit> {
        let told = |no: i64, done: &str| {
            let item = json!({ "no": no, "result": done });
            self.context.output.show(&item, || format!("{no} {done}"))?;
            Ok(Exit::Done)
        };
        match command {
            dead_letter::Command::List(list) => {
                let instance = list.instance.as_deref().map(|id| self.id(id)).transpose()?;
                let mut filter: Vec<(&str, String)> = Vec::new();
                filter.extend(list.kind.map(|kind| ("kind", kind.name().to_owned())));
                filter.extend(instance.map(|id| ("instance", id)));
                self.list(
                    &["dead-letters"],
                    &filter,
                    list.limit,
                    &dead_letter::ORDER,
                    &[
                        ("no", "no"),
                        ("kind", "kind"),
                        ("reason", "reason"),
                        ("run", "instance"),
                        ("died", "died"),
                        ("replayed", "replayed"),
                    ],
                )
            }
            dead_letter::Command::Show(one) => {
                self.show(&["dead-letters", &one.no.to_string()], &dead_letter::ORDER)
            }
            dead_letter::Command::Replay(one) => {
                let no = one.no.to_string();
                self.server
                    .post(&["dead-letters", &no, "replay"], &Value::Null)?;
                told(one.no, "replayed")
            }
            dead_letter::Command::Delete(delete) => {
                dead_letter::confirm(delete.yes, "throws the dead letter away")?;
                let no = delete.no.to_string();
                self.server
                    .ask(Method::DELETE, &["dead-letters", &no], &[], None)?;
                told(delete.no, "deleted")
            }
            dead_letter::Command::Purge(_) => Err(not_there()),
        }
    }

    fn workflow(&self, command: workflow::Command) -> anyhow::Result<Exit> {
        match command {
            // Files are read here, whoever runs them.
            local @ (workflow::Command::Validate(_) | workflow::Command::Graph(_)) => {
                local.run(self.context)
            }
            _ => Err(not_there()),
        }
    }

    /// A list with these members of each item, as a table of some of them.
    fn list(
        &self,
        path: &[&str],
        filter: &[(&str, String)],
        limit: u32,
        keys: &[&str],
        columns: &[(&str, &str)],
    ) -> anyhow::Result<Exit> {
        let items = self.server.list(path, filter, limit)?;
        let items: Vec<Value> = items.into_iter().map(|item| picked(item, keys)).collect();
        self.context.output.list(&items, || {
            let head: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
            let lines = items.iter().map(|item| {
                let cells = columns.iter().map(|(_, key)| cell(item, key));
                cells.collect()
            });
            table(&head, lines.collect())
        })?;
        Ok(Exit::Done)
    }

    fn show(&self, path: &[&str], order: &[&str]) -> anyhow::Result<Exit> {
        let item = picked(self.server.get(path)?, order);
        self.context.output.show(&item, || members(&item, order))?;
        Ok(Exit::Done)
    }

    /// The only run whose id begins like this, among the newest.
    fn id(&self, prefix: &str) -> anyhow::Result<String> {
        if prefix.parse::<uuid::Uuid>().is_ok() {
            return Ok(prefix.to_owned());
        }
        let items = self.server.list(&["instances"], &[], CANDIDATES)?;
        let ids = items.iter().filter_map(|item| item.get("id")?.as_str());
        let found: Vec<&str> = ids.filter(|id| id.starts_with(prefix)).collect();
        match found.as_slice() {
            [id] => Ok((*id).to_owned()),
            [] => Err(Expected::new(
                codes::NO_INSTANCE,
                format!(
                    "None of the newest {CANDIDATES} runs has an id that begins with `{prefix}`"
                ),
            )
            .help("Give the whole id; `windlass instance list` shows the runs of the host.")
            .exit(Exit::NotFound)
            .into()),
            several => Err(Expected::new(
                codes::AMBIGUOUS,
                format!("Several ids begin with `{prefix}`"),
            )
            .help(format!("Give more of it. There is\n{}", several.join("\n")))
            .into()),
        }
    }
}

/// Columns that are titled as their members are named.
fn same<const N: usize>(keys: [&str; N]) -> [(&str, &str); N] {
    keys.map(|key| (key, key))
}

/// The members of an item that the command shows, under the names that it gives them.
fn picked(mut item: Value, keys: &[&str]) -> Value {
    let mut picked = Map::new();
    for key in keys {
        let value = match item.get_mut(key) {
            Some(value) => value.take(),
            // The same word, as the API writes it.
            None => item
                .get_mut(key.replace('-', "_"))
                .map(Value::take)
                .unwrap_or_default(),
        };
        picked.insert((*key).to_owned(), value);
    }
    Value::Object(picked)
}

/// A run with all that is known of it, as one document.
fn whole(mut shown: Value) -> Value {
    let mut item = shown
        .get_mut("instance")
        .map(Value::take)
        .unwrap_or_default();
    if let (Some(item), Some(shown)) = (item.as_object_mut(), shown.as_object_mut()) {
        for (key, value) in std::mem::take(shown) {
            if key != "instance" {
                item.insert(key, value);
            }
        }
        if let Some(Value::Array(triggers)) = item.get_mut("triggers") {
            for trigger in triggers {
                *trigger = picked(trigger.take(), &["node", "type", "state", "due", "attempt"]);
            }
        }
    }
    picked(item, &instance::ORDER)
}

fn cell(item: &Value, key: &str) -> String {
    match item.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
