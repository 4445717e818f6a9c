//! `windlass workflow refresh`, and `windlass workflow reload`.

use clap::Args;
use serde_json::json;
use windlass_runtime::codes as runtime_codes;
use windlass_runtime::definitions::{Refreshed, Reloaded, Upkept};

use crate::app::Context;
use crate::error::Expected;
use crate::exit::Exit;
use crate::wire::Machine;

/// The arguments of `workflow refresh`.
#[derive(Debug, Args)]
#[command(after_help = "What starts them is indexed anew. Rows that are right stay as they are.")]
pub(crate) struct Refresh {
    /// The names of workflows; none: all that are published
    names: Vec<String>,
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
        let problems = failed.iter().map(|(name, error)| {
            json!({ "workflow": name, "code": error.code(), "message": error.to_string() })
        });
        let item = json!({
            "refreshed": refreshed.iter().map(|it| &it.name).collect::<Vec<_>>(),
            "failed": problems.collect::<Vec<_>>(),
            "missing": missing,
        });
        output.show(&item, || {
            let mut lines = Vec::new();
            for it in &refreshed {
                let how = output.data.good("refreshed");
                lines.push(format!("{} version {}: {how}", it.name, it.version));
            }
            for (name, error) in &failed {
                lines.push(format!("{name}: not refreshed: {error} ({})", error.code()));
            }
            lines.extend(missing.iter().map(|name| format!("{name}: not published")));
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
        let item = json!({
            "published": of_published.collect::<Vec<_>>(),
            "retracted": of_retracted.collect::<Vec<_>>(),
            "failed": of_failed.collect::<Vec<_>>(),
        });
        output.show(&item, || {
            let mut lines = Vec::new();
            for (_, it) in published {
                let how = if it.unchanged {
                    "unchanged"
                } else {
                    "published"
                };
                lines.push(format!("{} version {}: {how}", it.name, it.version));
            }
            for (_, workflow, version) in retracted {
                lines.push(format!("{workflow} version {version}: retracted"));
            }
            lines.join("\n")
        })?;
        let none = failed.is_empty();
        if output.is_text() {
            for it in reloaded.failed {
                crate::report::report(output, &crate::definitions::expected(it));
            }
        }
        Ok(if none { Exit::Done } else { Exit::Definition })
    }
}

fn in_progress() -> Expected {
    let text = "Another process is at it, and does what was asked for";
    Expected::new(runtime_codes::IN_PROGRESS, text)
        .help("There is nothing to do; ask again to see how it came out.")
        .exit(Exit::Conflict)
}
