//! `windlass run` and `windlass instance`, by asking a host.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};
use windlass_model::{Failure, Status};
use windlass_runtime::codes::NOT_FOUND;
use windlass_runtime::transfer::Place;

use super::asking::{Asking, picked, taken, text, wait};
use super::not_there;
use super::server::unusable;
use crate::commands::instance::transfer::Import;
use crate::commands::instance::{
    self, Command, cancel, control, delete, exists, list, retry, start, trace,
};
use crate::commands::run;
use crate::ended::{self, Ended};
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::members;
use crate::request::RequestArguments;

/// How often a run that nobody waits for longer than until it is suspended is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Longer than anybody waits.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

impl Asking<'_> {
    /// Starts a run of a file, and waits for its end.
    pub(super) fn run(&self, run: run::Arguments) -> anyhow::Result<Exit> {
        if !run.is_remote() {
            return Err(not_there().into());
        }
        let started = self.begin(&run.request, json!({}))?;
        let id = text(&started, "id")?;
        if !run.no_wait {
            return self.result(id, FOR_EVER);
        }
        loop {
            let path = ["instances", id, "result"];
            let (status, outcome) = self.ask_waiting(Method::GET, &path, LOOK, None)?;
            if status != StatusCode::ACCEPTED || text(&outcome, "status")? == "suspended" {
                return self.ended(&outcome);
            }
        }
    }

    pub(super) fn instance(&self, command: Command) -> anyhow::Result<Exit> {
        let output = &self.context.output;
        match command {
            Command::Start(start) => {
                let mut wish = super::triggers::wish(&start.when);
                if let Some(wish) = wish.as_object_mut().filter(|_| start.create_only) {
                    wish.insert("create_only".to_owned(), Value::from(true));
                }
                let started = self.begin(&start.request, wish)?;
                start::tell(output, text(&started, "id")?, existed(&started)?)
            }
            Command::Run(run) => {
                let id = self.id(&run.id)?;
                let begun = self.server.post(&["instances", &id, "run"], &Value::Null)?;
                control::tell_begun(output, &id, existed(&begun)?)
            }
            Command::List(list) => self.runs(list),
            Command::Show(show) => {
                let item = whole(self.server.get(&["instances", &self.id(&show.id)?])?);
                text(&item, "id")?;
                output.show(&item, || members(&item, &instance::ORDER))?;
                Ok(Exit::Done)
            }
            Command::Trace(trace) => self.trace(&trace),
            Command::Cancel(cancel) => {
                let id = self.id(&cancel.id)?;
                self.server
                    .post(&["instances", &id, "cancel"], &Value::Null)?;
                cancel::tell(output, &id)
            }
            Command::Pause(pause) => {
                self.control(&pause.id, "pause", pause.wait.patience(), control::PAUSE)
            }
            Command::Unpause(unpause) => {
                let patience = unpause.wait.patience();
                self.control(&unpause.id, "unpause", patience, control::UNPAUSE)
            }
            Command::Resume(resume) => self.resume(&resume),
            Command::Retry(retry) => self.retry(&retry),
            Command::Delete(delete) => self.delete(&delete),
            Command::Exists(exists) => self.exists(&exists),
            Command::Result(result) => self.result(&self.id(&result.id)?, result.wait.patience()),
            Command::Export(export) => {
                let id = self.id(&export.id)?;
                let document = self.server.get_raw(&["instances", &id, "export"])?;
                export.put(self.context, &id, &document)
            }
            Command::Import(import) => self.import(&import),
        }
    }

    fn import(&self, import: &Import) -> anyhow::Result<Exit> {
        let place = match import.place() {
            Place::Free => None,
            Place::Replace => Some(("replace", "true".to_owned())),
            Place::As(id) => Some(("as", id.to_string())),
        };
        let unsigned = import.unsigned.then(|| ("unsigned", "true".to_owned()));
        let query: Vec<_> = place.into_iter().chain(unsigned).collect();
        let path = ["instances", "import"];
        let item = self.server.post_raw(&path, &query, import.document()?)?;
        let line = format!("{} {}", text(&item, "id")?, text(&item, "result")?);
        self.context.output.show(&item, || line)?;
        Ok(Exit::Done)
    }

    /// Writes a run down, with the definition that it runs; the wish says when it begins.
    fn begin(&self, arguments: &RequestArguments, mut wish: Value) -> anyhow::Result<Value> {
        let (request, source) = arguments.read()?;
        let read = |bytes: Option<&bytes::Bytes>| -> Value {
            let value = bytes.and_then(|bytes| serde_json::from_slice(bytes).ok());
            value.unwrap_or_default()
        };
        if let Some(wish) = wish.as_object_mut() {
            let definition = read(Some(&request.definition.json));
            wish.insert("definition".to_owned(), definition);
            wish.insert("input".to_owned(), read(request.input.inline()));
            let id = request.id.map(|id| id.to_string());
            for (key, value) in [("id", id), ("correlation", request.correlation)] {
                wish.extend(value.map(|value| (key.to_owned(), Value::from(value))));
            }
        }
        let started = self.server.post(&["instances"], &wish);
        started.map_err(|error| source.place(error))
    }

    fn runs(&self, list: list::Arguments) -> anyhow::Result<Exit> {
        let statuses: Vec<_> = list.status.iter().map(|status| status.name()).collect();
        let mut filter = Vec::new();
        if !statuses.is_empty() {
            filter.push(("status", statuses.join(",")));
        }
        filter.extend(list.workflow.map(|name| ("workflow", name)));
        let items = self.list(&["instances"], &filter, list.limit, &list::ORDER)?;
        list::tell(&self.context.output, &items)
    }

    fn trace(&self, trace: &trace::Arguments) -> anyhow::Result<Exit> {
        let run = self.find(&trace.id)?;
        let path = ["instances", text(&run, "id")?, "runs"];
        let mut items = self.list(&path, &[], trace.limit, &trace::ORDER)?;
        items.reverse();
        for item in &mut items {
            // What is empty is not sent.
            if let Some(logs) = item.get_mut("logs").filter(|logs| logs.is_null()) {
                *logs = json!([]);
            }
        }
        trace.tell(&self.context.output, &run, &items)
    }

    /// Asks for something, and says whether it has happened.
    fn control(
        &self,
        run: &str,
        verb: &str,
        patience: Duration,
        words: control::Words,
    ) -> anyhow::Result<Exit> {
        let id = self.id(run)?;
        let path = ["instances", &id, verb];
        let (_, standing) = self.patiently(patience, |left| {
            self.ask_waiting(Method::POST, &path, left, None)
        })?;
        let done = standing.get("done") == Some(&Value::Bool(true));
        let status = text(&standing, "status")?;
        control::tell(&self.context.output, &id, words, done, status)
    }

    fn retry(&self, retry: &retry::Arguments) -> anyhow::Result<Exit> {
        let id = self.id(&retry.id)?;
        let mut wish = Map::new();
        if let Some(from) = &retry.from {
            wish.insert("from".to_owned(), Value::from(from.as_str()));
        }
        if let Some(input) = retry.input()? {
            wish.insert("input".to_owned(), input);
        }
        let path = ["instances", &id, "retry"];
        let patience = retry.wait.patience();
        let body = Value::Object(wish);
        let (status, outcome) = self.ask_waiting(Method::POST, &path, patience, Some(&body))?;
        if status == StatusCode::OK {
            return self.ended(&outcome);
        }
        let rest = patience.saturating_sub(super::asking::WAIT);
        if !rest.is_zero() {
            return self.result(&id, rest);
        }
        retry::tell(&self.context.output, &id, text(&outcome, "status")?)
    }

    fn delete(&self, delete: &delete::Arguments) -> anyhow::Result<Exit> {
        let id = self.id(&delete.id)?;
        delete.confirm(&id)?;
        let path = ["instances", &id];
        let patience = delete.wait.patience();
        let (status, _) = self.ask_waiting(Method::DELETE, &path, patience, None)?;
        let mut gone = status == StatusCode::NO_CONTENT;
        let rest = patience.saturating_sub(super::asking::WAIT);
        if !gone && !rest.is_zero() {
            // It ends when there is nothing left to be waited for.
            gone = match self.patiently(rest, |left| {
                let path = ["instances", &id, "result"];
                self.ask_waiting(Method::GET, &path, left, None)
            }) {
                Err(error) => match error.downcast::<Expected>() {
                    Ok(expected) if expected.code == NOT_FOUND => true,
                    Ok(other) => return Err(other.into()),
                    Err(error) => return Err(error),
                },
                Ok(_) => false,
            };
        }
        delete::tell(&self.context.output, &id, gone)
    }

    fn exists(&self, exists: &exists::Arguments) -> anyhow::Result<Exit> {
        let there = match exists.id.parse::<uuid::Uuid>() {
            Ok(id) => {
                let filter = [("id", id.to_string())];
                !self.server.list(&["instances"], &filter, 1)?.is_empty()
            }
            Err(_) => {
                self.find(&exists.id)?;
                true
            }
        };
        exists.tell(&self.context.output, there)
    }

    fn result(&self, id: &str, patience: Duration) -> anyhow::Result<Exit> {
        let path = ["instances", id, "result"];
        let (_, outcome) = self.patiently(patience, |left| {
            self.server.ask(Method::GET, &path, &wait(left), None)
        })?;
        self.ended(&outcome)
    }

    /// Tells how a run ended, or stands.
    fn ended(&self, outcome: &Value) -> anyhow::Result<Exit> {
        let failure = outcome.get("failure").cloned().unwrap_or_default();
        let named = text(outcome, "status")?;
        let status = Status::ALL
            .into_iter()
            .find(|status| status.name() == named)
            .ok_or_else(|| unusable(&format!("`{named}` is no status of a run")))?;
        let failure = serde_json::from_value::<Option<Failure>>(failure)
            .map_err(|error| unusable(&format!("its failure cannot be read: {error}")))?;
        let ended = Ended {
            id: text(outcome, "id")?.to_owned(),
            status,
            output: outcome.get("output").filter(|it| !it.is_null()).cloned(),
            failure,
            kept: true,
        };
        ended::tell(&self.context.output, ended)
    }
}

fn existed(answer: &Value) -> anyhow::Result<bool> {
    let existed = answer.get("existed").and_then(Value::as_bool);
    Ok(existed.ok_or_else(|| unusable("it says no `existed`"))?)
}

/// A run with all that is known of it, as one document.
fn whole(mut shown: Value) -> Value {
    let mut item = taken(&mut shown, "instance");
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
