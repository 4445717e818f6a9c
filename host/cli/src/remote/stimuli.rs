//! `windlass event`, `windlass bookmark` and `windlass dead-letter`, by asking a host.

use reqwest::Method;
use serde_json::{Value, json};

use super::asking::{Asking, picked, text};
use super::server::unusable;
use crate::commands::instance::resume;
use crate::commands::{bookmark, dead_letter, event};
use crate::exit::Exit;
use crate::input;
use crate::output::members;

impl Asking<'_> {
    pub(super) fn event(&self, command: event::Command) -> anyhow::Result<Exit> {
        match command {
            event::Command::Send(send) => self.send(send),
            event::Command::List(list) => {
                let items = self.list(&["stimuli"], &[], list.limit, &event::ORDER)?;
                event::tell(&self.context.output, &items)
            }
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
        let sent = self.did(path, wish)?;
        self.context.output.show(&sent, || event::text_of(&sent))?;
        Ok(Exit::Done)
    }

    /// Sends something, and answers what it did.
    fn did(&self, path: &[&str], wish: &Value) -> anyhow::Result<Value> {
        let sent = self.server.post(path, wish)?;
        if !sent.get("started").is_some_and(Value::is_array) {
            return Err(unusable("it has no `started`").into());
        }
        Ok(sent)
    }

    /// Resumes a run by what it waits for.
    pub(super) fn resume(&self, resume: &resume::Arguments) -> anyhow::Result<Exit> {
        let wish = json!({ "input": input::parse(&resume.input)? });
        let id = self.id(&resume.id)?;
        let numbers = resume.numbers(|name| {
            let mut filter = vec![("instance", id.clone())];
            filter.extend(name.map(|name| ("name", name.to_owned())));
            self.list(
                &["bookmarks"],
                &filter,
                resume::CANDIDATES,
                &bookmark::ORDER,
            )
        })?;
        let did = numbers.into_iter().map(|no| {
            let path = ["bookmarks", &no.to_string(), "resume"];
            self.did(&path, &wish)
        });
        resume::tell(&self.context.output, did.collect::<Result<_, _>>()?)
    }

    pub(super) fn bookmark(&self, command: bookmark::Command) -> anyhow::Result<Exit> {
        match command {
            bookmark::Command::List(list) => {
                let instance = list.instance.as_deref().map(|id| self.id(id)).transpose()?;
                let mut filter: Vec<(&str, String)> = Vec::new();
                filter.extend(instance.map(|id| ("instance", id)));
                filter.extend(list.name.map(|name| ("name", name)));
                filter.extend(list.correlation.map(|text| ("correlation", text)));
                filter.extend(list.links.then(|| ("links", "true".to_owned())));
                let link = list.links.then_some(bookmark::LINK);
                let keys: Vec<&str> = bookmark::ORDER.into_iter().chain(link).collect();
                let items = self.list(&["bookmarks"], &filter, list.limit, &keys)?;
                bookmark::tell(&self.context.output, &items)
            }
            bookmark::Command::Resume(resume) => {
                let wish = json!({ "input": input::parse(&resume.input)? });
                let named = resume.bookmark.rsplit('/').next().unwrap_or_default();
                self.sent(&["bookmarks", named, "resume"], &wish)
            }
        }
    }

    pub(super) fn dead_letter(&self, command: dead_letter::Command) -> anyhow::Result<Exit> {
        let output = &self.context.output;
        match command {
            dead_letter::Command::List(list) => {
                let instance = list.instance.as_deref().map(|id| self.id(id)).transpose()?;
                let mut filter: Vec<(&str, String)> = Vec::new();
                filter.extend(list.kind.map(|kind| ("kind", kind.name().to_owned())));
                filter.extend(instance.map(|id| ("instance", id)));
                let keys = &dead_letter::ORDER;
                let items = self.list(&["dead-letters"], &filter, list.limit, keys)?;
                dead_letter::tell_all(output, &items)
            }
            dead_letter::Command::Show(one) => {
                let path = ["dead-letters", &one.no.to_string()];
                let item = picked(self.server.get(&path)?, &dead_letter::ORDER);
                text(&item, "kind")?;
                output.show(&item, || members(&item, &dead_letter::ORDER))?;
                Ok(Exit::Done)
            }
            dead_letter::Command::Replay(one) => {
                let path = ["dead-letters", &one.no.to_string(), "replay"];
                self.server.post(&path, &Value::Null)?;
                dead_letter::tell_done(output, one.no, "replayed")
            }
            dead_letter::Command::Delete(delete) => {
                dead_letter::confirm(delete.yes, "throws the dead letter away")?;
                let path = ["dead-letters", &delete.no.to_string()];
                self.server.ask(Method::DELETE, &path, &[], None)?;
                dead_letter::tell_done(output, delete.no, "deleted")
            }
            dead_letter::Command::Purge(purge) => {
                dead_letter::confirm(purge.yes, "throws dead letters away")?;
                self.purge(purge.older_than)
            }
        }
    }

    /// Asks until there are no more.
    fn purge(&self, older_ms: u64) -> anyhow::Result<Exit> {
        let wish = json!({ "older_than": format!("{older_ms}ms") });
        let mut count = 0;
        loop {
            let purged = self.server.post(&["dead-letters", "purge"], &wish)?;
            let deleted = purged.get("deleted").and_then(Value::as_u64);
            let deleted = deleted.ok_or_else(|| unusable("it does not say how many"))?;
            count += deleted;
            if deleted == 0 || purged.get("more") != Some(&Value::Bool(true)) {
                return dead_letter::tell_purged(&self.context.output, count);
            }
        }
    }
}
