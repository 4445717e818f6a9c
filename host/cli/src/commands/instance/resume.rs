//! `windlass instance resume`.

use clap::Args;
use serde_json::Value;
use windlass_model::{BookmarkNo, Payload};
use windlass_runtime::client;
use windlass_store::stimuli::BookmarkQuery;

use super::find;
use crate::app::Context;
use crate::codes;
use crate::commands::{bookmark, event};
use crate::error::Expected;
use crate::exit::Exit;
use crate::input;
use crate::output::Output;
use crate::wire::Machine;

/// Bookmarks that are looked at for a name: enough to see that there are several.
pub(crate) const CANDIDATES: u32 = 6;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Where several bookmarks of the run have one name, `windlass bookmark resume` \
    takes their numbers. It is carried out by `windlass serve`."
)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    pub(crate) id: String,
    /// What the run waits for, by name [default: the only thing]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// What the run is given: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT")]
    pub(crate) input: Vec<String>,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let input = Payload::of(&input::parse(&self.input)?);
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let run = find(store.as_ref(), &self.id)?;
        let numbers = self.numbers(|name| {
            let rows = store.bookmarks(&BookmarkQuery {
                instance: Some(run.no),
                name: name.map(str::to_owned),
                correlation: None,
                after: None,
                limit: CANDIDATES,
            })?;
            Ok(rows.iter().map(bookmark::item).collect())
        })?;
        let mut did = Vec::new();
        for no in numbers {
            let (store, now_ms) = (store.as_ref(), machine.clock.wall_ms());
            let sent = client::resume_bookmark(store, now_ms, BookmarkNo(no), input.clone())?;
            if sent.dropped {
                return Err(bookmark::nobody(&no.to_string()).into());
            }
            did.push(event::item(&sent));
        }
        store.close();
        tell(&context.output, did)
    }

    /// The numbers of the bookmarks that are meant, given how those of a name are found, or of
    /// any. Nothing is resumed unless all of them are known.
    pub(crate) fn numbers(
        &self,
        found: impl Fn(Option<&str>) -> anyhow::Result<Vec<Value>>,
    ) -> anyhow::Result<Vec<i64>> {
        let names = self.names.iter().map(|name| Some(name.as_str()));
        let mut names: Vec<Option<&str>> = names.collect();
        if names.is_empty() {
            names.push(None);
        }
        let numbers = names
            .into_iter()
            .map(|name| Ok(self.only(name, &found(name)?)?));
        numbers.collect()
    }

    fn only(&self, name: Option<&str>, found: &[Value]) -> Result<i64, Expected> {
        let named = name.map_or_else(String::new, |name| format!(" for `{name}`"));
        let no = |item: &Value| item.get("no").and_then(Value::as_i64);
        match found {
            [] => {
                let text = format!("Run {} does not wait{named}", self.id);
                Err(Expected::new(codes::NO_BOOKMARK, text)
                    .help("`windlass bookmark list --instance ID` shows what it waits for.")
                    .exit(Exit::NotFound))
            }
            [one] => no(one).ok_or_else(|| bookmark::nobody(&self.id)),
            several => {
                let line = |item: &Value| {
                    let name = item.get("name").and_then(Value::as_str);
                    format!(
                        "{} {}",
                        no(item).unwrap_or_default(),
                        name.unwrap_or_default()
                    )
                };
                let lines: Vec<String> = several.iter().map(line).collect();
                let text = format!("Run {} waits{named} at several bookmarks", self.id);
                Err(Expected::new(codes::SEVERAL_BOOKMARKS, text).help(format!(
                    "Say which, by its name or by `windlass bookmark resume NO`. There is\n{}",
                    lines.join("\n")
                )))
            }
        }
    }
}

/// Tells what resuming one bookmark after the other did.
pub(crate) fn tell(output: &Output, did: Vec<Value>) -> anyhow::Result<Exit> {
    let all = did.into_iter().reduce(event::both).unwrap_or_default();
    output.show(&all, || event::text_of(&all))?;
    Ok(Exit::Done)
}
