//! `windlass trigger`, by asking a host.

use std::path::Path;

use serde_json::{Value, json};

use super::asking::{Asking, items, picked, taken, text};
use super::server::unusable;
use crate::commands::moment;
use crate::commands::trigger::{self, Command, list, next, schedule, target};
use crate::exit::Exit;
use crate::output::members;

impl Asking<'_> {
    pub(super) fn trigger(&self, command: Command) -> anyhow::Result<Exit> {
        match command {
            Command::Schedule(schedule) => self.schedule(&schedule),
            Command::List(list) => {
                let mut filter = Vec::new();
                if let Some(prefix) = &list.instance {
                    filter.push(("instance", self.id(prefix)?));
                }
                let items = self.list(&["triggers"], &filter, list.limit, &list::KEYS)?;
                list::tell(&self.context.output, &items)
            }
            Command::Show(show) => self.show_trigger(&show.trigger),
            Command::Fire(fire) => self.touch(&fire.trigger, "fire", &Value::Null),
            Command::Reschedule(reschedule) => {
                let when = wish(&reschedule.when);
                self.touch(&reschedule.trigger, "reschedule", &when)
            }
            Command::Cancel(cancel) => self.touch(&cancel.trigger, "cancel", &Value::Null),
            // A file is read here, as it would be if it were published now.
            Command::Next(next) if Path::new(&next.workflow).is_file() => next.run(self.context),
            Command::Next(next) => self.next(&next),
        }
    }

    fn schedule(&self, schedule: &schedule::Schedule) -> anyhow::Result<Exit> {
        let id = schedule.id()?;
        let payload = schedule.payload()?;
        let run = self.id(&schedule.run)?;
        let mut wish = wish(&schedule.when);
        if let Some(wish) = wish.as_object_mut() {
            wish.insert("instance".to_owned(), json!(run));
            wish.insert("node".to_owned(), json!(schedule.node));
            wish.insert("priority".to_owned(), json!(schedule.priority));
            wish.extend(id.map(|id| ("id".to_owned(), json!(id.to_string()))));
            wish.extend(payload.map(|payload| ("payload".to_owned(), Value::Object(payload))));
        }
        let path = ["triggers"];
        let (status, done) = self
            .server
            .ask(reqwest::Method::POST, &path, &[], Some(&wish))?;
        let result = match (status, text(&done, "result")?) {
            (reqwest::StatusCode::CREATED, _) => "scheduled",
            (_, "finished") => "already finished",
            _ => "already scheduled",
        };
        schedule::tell(&self.context.output, text(&done, "trigger")?, &run, result)
    }

    /// The whole name of a trigger whose run may be named by the beginning of its id.
    fn whole_name(&self, named: &str) -> anyhow::Result<String> {
        target::check(named)?;
        Ok(match named.split_once(':') {
            Some((run, number)) => format!("{}:{number}", self.id(run)?),
            None => named.to_owned(),
        })
    }

    fn show_trigger(&self, named: &str) -> anyhow::Result<Exit> {
        let mut shown = self.server.get(&["triggers", &self.whole_name(named)?])?;
        text(&shown, "trigger")?;
        let item = match taken(&mut shown, "pending") {
            Value::Null => picked(shown, &["trigger", "instance", "state"]),
            pending => {
                let mut item = picked(pending, &list::KEYS);
                // One that was named from outside is shown with that name.
                if let (Ok(id), Some(item)) = (named.parse::<uuid::Uuid>(), item.as_object_mut()) {
                    item.insert("id".to_owned(), json!(id));
                }
                item
            }
        };
        let output = &self.context.output;
        output.show(&item, || members(&item, &trigger::ORDER))?;
        Ok(Exit::Done)
    }

    fn touch(&self, named: &str, verb: &str, body: &Value) -> anyhow::Result<Exit> {
        let whole = self.whole_name(named)?;
        let done = self.server.post(&["triggers", &whole, verb], body)?;
        target::tell(&self.context.output, named, text(&done, "result")?)
    }

    fn next(&self, next: &next::Next) -> anyhow::Result<Exit> {
        let mut query = vec![("count", next.count.to_string())];
        query.extend(next.key.clone().map(|key| ("trigger", key)));
        let path = ["definitions", &next.workflow, "next"];
        let (_, mut times) = self.server.ask(reqwest::Method::GET, &path, &query, None)?;
        let times = items(&mut times, "items")?;
        let time = |item: &Value| -> anyhow::Result<(i64, String)> {
            let at = text(item, "at")?;
            let at_ms = windlass_model::file::parse_instant_ms(at);
            let at_ms = at_ms.ok_or_else(|| unusable(&format!("`{at}` is no instant")))?;
            Ok((at_ms, text(item, "trigger")?.to_owned()))
        };
        let times = times.iter().map(time).collect::<Result<Vec<_>, _>>()?;
        next.tell(&self.context.output, &times)
    }
}

/// A moment, as a host is asked for it.
pub(super) fn wish(when: &target::When) -> Value {
    match (when.at, when.after) {
        (Some(at_ms), _) => json!({ "at": moment(at_ms) }),
        (None, Some(after_ms)) => json!({ "after": format!("{after_ms}ms") }),
        (None, None) => json!({}),
    }
}
