//! `windlass runs resume`.

use clap::Args;
use serde_json::Value;

use crate::app::Context;
use crate::client::Api;
use crate::codes;
use crate::commands::{bookmark, event};
use crate::error::Expected;
use crate::exit::Exit;
use crate::input;

/// Bookmarks to look at for a name: enough to see that there are several, and to name them.
const CANDIDATES: u32 = 6;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Where several bookmarks of the run have one name, `windlass bookmark resume` \
    takes their numbers. It is carried out by `windlass serve`."
)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: String,
    /// Name of the bookmark to resume; may be repeated [default: the only bookmark of the run]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Input for the run: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT")]
    input: Vec<String>,
}

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let input = input::parse(&self.input)?;
        let api = context.api()?;
        let id = api.id(&self.id)?;
        // All bookmarks are looked up before the first is resumed.
        let numbers = self.numbers(&api, &id)?;
        let did = numbers
            .into_iter()
            .map(|no| bookmark::resume(&api, &no.to_string(), &input));
        let did: Vec<Value> = did.collect::<Result<_, _>>()?;
        let all = did.into_iter().reduce(event::both).unwrap_or_default();
        context.output.show(&all, || event::text(&all))?;
        Ok(Exit::Done)
    }

    /// The numbers of the bookmarks to resume.
    fn numbers(&self, api: &Api, id: &str) -> anyhow::Result<Vec<i64>> {
        let names = self.names.iter().map(|name| Some(name.as_str()));
        let mut names: Vec<Option<&str>> = names.collect();
        if names.is_empty() {
            names.push(None);
        }
        let number = |name: Option<&str>| {
            let mut filter = vec![("run", id.to_owned())];
            filter.extend(name.map(|name| ("name", name.to_owned())));
            let found = api.list(&["bookmarks"], &filter, CANDIDATES, &bookmark::ORDER)?;
            Ok(self.only(name, &found)?)
        };
        names.into_iter().map(number).collect()
    }

    fn only(&self, name: Option<&str>, found: &[Value]) -> Result<i64, Expected> {
        let named = name.map_or_else(String::new, |name| format!(" for `{name}`"));
        let no = |item: &Value| item.get("no").and_then(Value::as_i64);
        match found {
            [] => {
                let text = format!("Run {} does not wait{named}", self.id);
                Err(Expected::new(codes::NO_BOOKMARK, text)
                    .help(
                        "`windlass bookmark list --run ID` shows the bookmarks for which it waits.",
                    )
                    .exit(Exit::NotFound))
            }
            [one] => no(one).ok_or_else(|| bookmark::no_waiting_run(&self.id)),
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
