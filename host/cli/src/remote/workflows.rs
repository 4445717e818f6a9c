//! `windlass workflow`, by asking a host.

use reqwest::Method;
use serde_json::{Value, json};
use windlass_model::file;
use windlass_runtime::client::draft_name;

use super::asking::{Asking, items, picked, taken, text};
use super::not_there;
use super::server::{mistakes, unusable};
use crate::commands::workflow::{Command, draft, published, upkeep};
use crate::exit::Exit;
use crate::source;

/// Versions, or drafts, that are listed at most.
const LISTED: u32 = 10_000;

impl Asking<'_> {
    pub(super) fn workflow(&self, command: Command) -> anyhow::Result<Exit> {
        let output = &self.context.output;
        match command {
            Command::Publish(publish) => {
                let sources = publish.sources()?;
                publish.each(output, &sources, |source| {
                    let published = self.publish(source)?;
                    text(&published, "workflow")?;
                    Ok(published)
                })
            }
            Command::Draft(command) => self.draft(command),
            Command::Revert(revert) => {
                let wish = json!({ "version": revert.version, "draft": revert.draft });
                let path = ["definitions", &revert.name, "revert"];
                let item = self.server.post(&path, &wish)?;
                text(&item, "workflow")?;
                let keys: &[&str] = match revert.draft {
                    true => &["workflow", "reverted-to", "draft"],
                    false => &["workflow", "reverted-to", "version", "unchanged"],
                };
                revert.tell(output, &picked(item, keys))
            }
            Command::List(list) => {
                let filter = [("retracted", list.all.to_string())];
                let items =
                    self.list(&["definitions"], &filter, LISTED, &published::LISTED_KEYS)?;
                published::tell_all(output, &items)
            }
            Command::Show(show) => self.show_workflow(&show),
            Command::Retract(retract) => {
                let path = ["definitions", &retract.name];
                let (_, gone) = self.server.ask(Method::DELETE, &path, &[], None)?;
                let version = gone.get("version").and_then(Value::as_u64);
                let version = version.ok_or_else(|| unusable("it says no `version`"))?;
                retract.tell(output, version)
            }
            Command::Refresh(refresh) => self.refresh(&refresh),
            Command::Reload(_) => self.reload(),
            Command::Validate(_) | Command::Graph(_) => Err(not_there().into()),
        }
    }

    /// Publishes one thing. Answers what became of it.
    fn publish(&self, given: &published::Given) -> anyhow::Result<Value> {
        match given {
            published::Given::File(source) => {
                let row = source.row();
                let definition: Value = serde_json::from_slice(&row.json)?;
                let path = ["definitions", &row.name];
                let put = self.server.ask(Method::PUT, &path, &[], Some(&definition));
                Ok(put.map_err(|error| source.place(error))?.1)
            }
            published::Given::Draft(name) => {
                let published = self.server.post(&["drafts", name, "publish"], &Value::Null);
                published.map_err(|error| {
                    // What is wrong with it is shown in its text, if that is still there.
                    let draft = self.server.get(&["drafts", name]).ok();
                    let content = draft.and_then(|draft| Some(draft.get("text")?.as_str()?.into()));
                    match content {
                        Some(content) => source::place(format!("draft of {name}"), &content, error),
                        None => error,
                    }
                })
            }
        }
    }

    fn show_workflow(&self, show: &published::Show) -> anyhow::Result<Exit> {
        let query = show.version.map(|version| ("version", version.to_string()));
        let query: Vec<_> = query.into_iter().collect();
        let path = ["definitions", &show.name];
        let (_, mut shown) = self.server.ask(Method::GET, &path, &query, None)?;
        let mut item = picked(taken(&mut shown, "version"), &published::LISTED_KEYS);
        let triggers = items(&mut shown, "triggers")?.into_iter().map(|trigger| {
            let keys: &[&str] = match trigger.get("event") {
                None | Some(Value::Null) => &["key", "next", "last", "instance"],
                Some(_) => &["key", "event", "match"],
            };
            picked(trigger, keys)
        });
        let triggers: Vec<Value> = triggers.collect();
        if let Some(members) = item.as_object_mut() {
            members.insert("triggers".to_owned(), Value::from(triggers));
            members.insert("file".to_owned(), taken(&mut shown, "file"));
        }
        published::tell(&self.context.output, &item)
    }

    fn draft(&self, command: draft::Command) -> anyhow::Result<Exit> {
        let output = &self.context.output;
        match command {
            draft::Command::Save(save) => self.save(&save),
            draft::Command::List => {
                let items = self.list(&["drafts"], &[], LISTED, &draft::ORDER)?;
                draft::tell_all(output, &items)
            }
            draft::Command::Show(show) => {
                let mut shown = self.server.get(&["drafts", &show.name])?;
                let item = picked(taken(&mut shown, "draft"), &draft::ORDER);
                draft::tell(output, item, text(&shown, "text")?)
            }
            draft::Command::Discard(discard) => {
                let path = ["drafts", &discard.name];
                let only = discard.revision.map(|revision| format!("\"{revision}\""));
                let only = only.map(|tag| ("if-match", tag));
                self.server.change(Method::DELETE, &path, only, None)?;
                discard.tell(output)
            }
        }
    }

    fn save(&self, save: &draft::Save) -> anyhow::Result<Exit> {
        let (shown, content) = source::text(&save.file)?;
        // The path names the workflow, and the text may be anything.
        let name = match &save.name {
            Some(name) => name.clone(),
            None => draft_name(&content)?,
        };
        let over = save.over.map(|revision| match revision {
            0 => ("if-none-match", "*".to_owned()),
            revision => ("if-match", format!("\"{revision}\"")),
        });
        let path = ["drafts", &name];
        let body = Some(content.to_string());
        let saved = self.server.change(Method::PUT, &path, over, body)?;
        let read = file::read(&content, "draft");
        let found = mistakes(&saved, "problems").into_iter().map(|mut found| {
            let same = read
                .diagnostics
                .iter()
                .find(|known| known.code == found.code && known.message == found.message);
            match same {
                Some(known) => known.clone(),
                None => {
                    read.map.locate(&mut found);
                    found
                }
            }
        });
        let mut warnings = mistakes(&saved, "warnings");
        warnings.iter_mut().for_each(|found| read.map.locate(found));
        let warnings = source::problems(shown.clone(), content.clone(), warnings);
        let found = source::problems(shown, content, found.collect());
        let revision = saved.get("revision").and_then(Value::as_u64);
        let revision = revision.ok_or_else(|| unusable("it says no `revision`"))?;
        draft::tell_saved(&self.context.output, &name, revision, found, &warnings)
    }

    fn refresh(&self, refresh: &upkeep::Refresh) -> anyhow::Result<Exit> {
        let wish = json!({ "names": refresh.names });
        let mut done = self.server.post(&["admin", "refresh"], &wish)?;
        let refreshed = items(&mut done, "refreshed")?;
        let failed = items(&mut done, "failed")?;
        let missing = items(&mut done, "missing")?;
        upkeep::tell_refreshed(&self.context.output, &refreshed, &failed, &missing)
    }

    fn reload(&self) -> anyhow::Result<Exit> {
        let output = &self.context.output;
        let mut done = self.server.post(&["admin", "reload"], &Value::Null)?;
        let failed = items(&mut done, "failed")?;
        let published = items(&mut done, "published")?;
        let retracted = items(&mut done, "retracted")?;
        let exit = upkeep::tell_reloaded(output, &published, &retracted, &failed)?;
        if output.is_text() {
            for it in &failed {
                let (file, message) = (text(it, "file")?, text(it, "message")?);
                let code = windlass_model::Code::read(text(it, "code")?);
                let expected = crate::error::Expected::new(code, format!("{file}: {message}"));
                crate::report::report(output, &expected);
            }
        }
        Ok(exit)
    }
}
