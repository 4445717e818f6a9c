//! `windlass workflow refresh`, and `windlass workflow reload`.

use clap::Args;
use serde_json::{Value, json};
use windlass_runtime::codes as runtime_codes;
use windlass_runtime::definitions::{Refreshed, Reloaded, Upkept};

use super::published::version_of;
use crate::app::Context;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::Output;
use crate::wire::Machine;

/// The arguments of `workflow refresh`.
#[derive(Debug, Args)]
#[command(after_help = "What starts them is indexed anew. Rows that are right stay as they are.")]
pub(crate) struct Refresh {
    /// The names of workflows; none: all that are published
    pub(crate) names: Vec<String>,
}

/// The arguments of `workflow reload`.
#[derive(Debug, Args)]
#[command(
    after_help = "Whatever a file says that differs from what is published is published, also \
    where somebody has published another version by hand."
)]
pub(crate) struct Reload {}

impl Refresh {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let output = &context.output;
        let machine = Machine::new(context.configure("warn")?)?;
        let host = machine.loaded_host(output)?;
        let store = machine.existing_store()?;
        let definitions = machine.definitions(&store, &host, &machine.topology()?, true);
        let done = definitions.refresh(&self.names)?;
        store.close();
        let Upkept::Done(refreshed) = done else {
            return Err(in_progress().into());
        };
        let Refreshed {
            refreshed,
            failed,
            missing,
        } = refreshed;
        let indexed: Vec<Value> = refreshed
            .iter()
            .map(|it| json!({ "workflow": it.name, "version": it.version }))
            .collect();
        let failed: Vec<Value> = failed
            .iter()
            .map(|(name, error)| {
                json!({ "workflow": name, "code": error.code(), "message": error.to_string() })
            })
            .collect();
        let missing: Vec<Value> = missing.into_iter().map(Value::from).collect();
        tell_refreshed(output, &indexed, &failed, &missing)
    }
}

/// Tells what came of looking at what is published again.
pub(crate) fn tell_refreshed(
    output: &Output,
    refreshed: &[Value],
    failed: &[Value],
    missing: &[Value],
) -> anyhow::Result<Exit> {
    let names: Vec<&str> = refreshed.iter().map(|it| text(it, "workflow")).collect();
    let item = json!({ "refreshed": names, "failed": failed, "missing": missing });
    output.show(&item, || {
        let mut lines = Vec::new();
        for it in refreshed {
            let how = output.data.good("refreshed");
            lines.push(format!("{}: {how}", version_of(it)));
        }
        for it in failed {
            let (name, error) = (text(it, "workflow"), text(it, "message"));
            lines.push(format!(
                "{name}: not refreshed: {error} ({})",
                text(it, "code")
            ));
        }
        let missing = missing.iter().filter_map(Value::as_str);
        lines.extend(missing.map(|name| format!("{name}: not published")));
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

fn text<'v>(item: &'v Value, key: &str) -> &'v str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Reload {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let output = &context.output;
        let machine = Machine::new(context.configure("warn")?)?;
        let host = machine.loaded_host(output)?;
        let store = machine.store()?;
        let definitions = machine.definitions(&store, &host, &machine.topology()?, true);
        let done = definitions.reload()?;
        store.close();
        let Upkept::Done(reloaded) = done else {
            return Err(in_progress().into());
        };
        let Reloaded {
            published,
            retracted,
            failed,
            ..
        } = &reloaded;
        let of_published = published.iter().map(|(file, it)| {
            json!({
                "file": file.display().to_string(),
                "workflow": it.name,
                "version": it.version,
                "unchanged": it.unchanged,
            })
        });
        let of_retracted = retracted.iter().map(|(file, workflow, version)| {
            let file = file.display().to_string();
            json!({ "file": file, "workflow": workflow, "version": version })
        });
        let of_failed = failed.iter().map(|it| {
            let (code, message) = (it.error.code(), it.error.to_string());
            json!({ "file": it.file.display().to_string(), "code": code, "message": message })
        });
        let published: Vec<Value> = of_published.collect();
        let retracted: Vec<Value> = of_retracted.collect();
        let failed: Vec<Value> = of_failed.collect();
        let exit = tell_reloaded(output, &published, &retracted, &failed)?;
        if output.is_text() {
            for it in reloaded.failed {
                crate::report::report(output, &crate::definitions::expected(it));
            }
        }
        Ok(exit)
    }
}

/// Tells what came of looking at the files again; what is wrong with some is told besides.
pub(crate) fn tell_reloaded(
    output: &Output,
    published: &[Value],
    retracted: &[Value],
    failed: &[Value],
) -> anyhow::Result<Exit> {
    let item = json!({ "published": published, "retracted": retracted, "failed": failed });
    output.show(&item, || {
        let mut lines = Vec::new();
        for it in published {
            let how = match it.get("unchanged") {
                Some(Value::Bool(true)) => "unchanged",
                _ => "published",
            };
            lines.push(format!("{}: {how}", version_of(it)));
        }
        lines.extend(
            retracted
                .iter()
                .map(|it| format!("{}: retracted", version_of(it))),
        );
        lines.join("\n")
    })?;
    Ok(if failed.is_empty() {
        Exit::Done
    } else {
        Exit::Definition
    })
}

fn in_progress() -> Expected {
    let text = "Another process is at it, and does what was asked for";
    Expected::new(runtime_codes::IN_PROGRESS, text)
        .help("There is nothing to do; ask again to see how it came out.")
        .exit(Exit::Conflict)
}
