//! `windlass workflow refresh`, and `windlass workflow reload`.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use windlass_model::Code;

use super::published::version_of;
use crate::app::Context;
use crate::client::{self as answer, Api, items, mistakes, picked};
use crate::error::Expected;
use crate::exit::Exit;
use crate::output;
use crate::source;

/// The arguments of `workflow refresh`.
#[derive(Debug, Args)]
#[command(
    after_help = "The index of their triggers is made anew. Rows that are right stay as they are."
)]
pub(crate) struct Refresh {
    /// Names of workflows; none: all published workflows
    names: Vec<String>,
}

/// The arguments of `workflow reload`.
#[derive(Debug, Args)]
#[command(
    after_help = "The host reads its settings again, as at SIGHUP: it takes grants, limits and \
    secrets of plugins, and the command lists the other changed settings, which need a restart. \
    The host publishes each file that differs from its published version, also \
    where a user has published another version by hand."
)]
pub(crate) struct Reload {}

impl Refresh {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let request = json!({ "names": self.names });
        let mut done = context.api()?.post(&["admin", "refresh"], &request)?;
        let refreshed = items(&mut done, "refreshed")?;
        let failed = items(&mut done, "failed")?;
        let missing = items(&mut done, "missing")?;
        let names: Vec<&str> = refreshed.iter().map(|it| text(it, "workflow")).collect();
        let item = json!({ "refreshed": names, "failed": failed, "missing": missing });
        let output = &context.output;
        output.show(&item, || {
            let mut lines = Vec::new();
            for it in &refreshed {
                let how = output.data.good("refreshed");
                lines.push(format!("{}: {how}", version_of(it)));
            }
            for it in &failed {
                let name = output::name(text(it, "workflow"));
                let error = output::name(text(it, "message"));
                lines.push(format!(
                    "{name}: not refreshed: {error} ({})",
                    text(it, "code")
                ));
            }
            let missing = missing.iter().filter_map(Value::as_str);
            lines.extend(missing.map(|it| format!("{}: not published", output::name(it))));
            lines.join("\n")
        })?;
        Ok(if !failed.is_empty() {
            Exit::Definition
        } else if missing.is_empty() {
            Exit::Done
        } else {
            Exit::NotFound
        })
    }
}

impl Reload {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let (api, output) = (context.api_and_store()?, &context.output);
        let mut done = api.post(&["admin", "reload"], &Value::Null)?;
        let failed = items(&mut done, "failed")?;
        let published = items(&mut done, "published")?;
        let retracted = items(&mut done, "retracted")?;
        let keys = ["file", "code", "message"];
        let listed: Vec<_> = failed.iter().map(|it| picked(it.clone(), &keys)).collect();
        let settings = answer::taken(&mut done, "settings");
        let item = json!({
            "published": published, "retracted": retracted, "failed": listed, "settings": settings,
        });
        output.show(&item, || {
            let mut lines = Vec::new();
            for it in &published {
                let how = match it.get("unchanged") {
                    Some(Value::Bool(true)) => "unchanged",
                    _ => "published",
                };
                lines.push(format!("{}: {how}", version_of(it)));
            }
            let retracted = retracted.iter();
            lines.extend(retracted.map(|it| format!("{}: retracted", version_of(it))));
            for (key, what) in [("applied", "taken"), ("restart", "need a restart")] {
                let keys = settings.get(key).and_then(Value::as_array);
                let keys = keys.into_iter().flatten();
                let keys: Vec<_> = keys.filter_map(Value::as_str).collect();
                if !keys.is_empty() {
                    lines.push(format!("settings: {what}: {}", keys.join(", ")));
                }
            }
            lines.join("\n")
        })?;
        if output.is_text() {
            for it in &failed {
                crate::report::report(output, &refused(&api, it)?);
            }
        }
        Ok(if failed.is_empty() {
            Exit::Done
        } else {
            Exit::Definition
        })
    }
}

/// The error for a file that cannot be published. The mistakes are shown in its text if the file is
/// on this machine.
fn refused(api: &Api, failed: &Value) -> anyhow::Result<Expected> {
    let file = answer::text(failed, "file")?;
    let found = mistakes(failed, "errors");
    if found.is_empty() {
        let code = Code::read(answer::text(failed, "code")?);
        let message = answer::text(failed, "message")?;
        return Ok(Expected::new(code, format!("{file}: {message}")));
    }
    let read = api.is_here().then(|| source::text(Path::new(file)).ok());
    let (_, content) = read.flatten().unwrap_or_default();
    let problems = source::located(file.to_owned(), content, found);
    Ok(Expected::of_file(problems))
}

fn text<'v>(item: &'v Value, key: &str) -> &'v str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}
