//! `windlass trigger next`.

use std::path::Path;

use clap::Args;
use serde_json::json;
use windlass_model::schedule::{self, Schedule};

use crate::app::Context;
use crate::codes;
use crate::commands::moment;
use crate::commands::workflow::{missing, schedules};
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::table;
use crate::source::Source;
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Next {
    /// A workflow file, or the name of a published workflow
    workflow: String,
    /// Only this trigger
    key: Option<String>,
    /// How many times of each
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    count: u16,
}

/// A schedule, and from when on it is asked.
struct Asked {
    key: String,
    schedule: Schedule,
    since_ms: i64,
    after_ms: i64,
}

impl Next {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let path = Path::new(&self.workflow);
        let mut asked = if path.is_file() {
            self.of_file(context, path)?
        } else {
            self.of_published(context)?
        };
        if let Some(key) = &self.key {
            asked.retain(|asked| asked.key == *key);
        }
        if asked.is_empty() {
            let named = self.key.as_ref().map(|key| format!(" of the name `{key}`"));
            let text = format!("The workflow has no schedule{}", named.unwrap_or_default());
            return Err(Expected::new(codes::NO_TRIGGER, text)
                .help("A schedule is a trigger with `cron` or `every`.")
                .exit(Exit::NotFound)
                .into());
        }
        let count = usize::from(self.count);
        let mut times: Vec<(i64, &str)> = asked
            .iter()
            .flat_map(|asked| {
                let times = asked.schedule.occurrences(asked.since_ms, asked.after_ms);
                times.take(count).map(|at_ms| (at_ms, asked.key.as_str()))
            })
            .collect();
        times.sort_unstable();
        let items: Vec<_> = times
            .iter()
            .map(|(at_ms, key)| json!({ "at": moment(*at_ms), "trigger": key }))
            .collect();
        context.output.list(&items, || {
            let lines = times.iter();
            let lines = lines.map(|(at_ms, key)| vec![moment(*at_ms), (*key).to_owned()]);
            table(&["at", "trigger"], lines.collect())
        })?;
        Ok(Exit::Done)
    }

    /// As it would be if the file were published now.
    fn of_file(&self, context: &Context, path: &Path) -> anyhow::Result<Vec<Asked>> {
        let source = Source::read(path)?;
        let machine = Machine::new(context.configure("warn")?)?;
        let now_ms = machine.clock.wall_ms();
        let triggers = source.definition.triggers.iter();
        let asked = triggers.filter_map(|(key, trigger)| {
            Some(Asked {
                key: key.clone(),
                // The file was read, so there is nothing wrong with it.
                schedule: Schedule::of(trigger)?.ok()?,
                since_ms: now_ms,
                after_ms: now_ms,
            })
        });
        Ok(asked.collect())
    }

    fn of_published(&self, context: &Context) -> anyhow::Result<Vec<Asked>> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let now_ms = machine.clock.wall_ms();
        if store.published(&self.workflow)?.is_none() {
            return Err(missing(&self.workflow).into());
        }
        let mut asked = Vec::new();
        for row in schedules(store.as_ref(), &self.workflow)? {
            let schedule = schedule::decode(&row.spec)
                .map_err(|error| windlass_runtime::Error::Unreadable(error.to_string()))?;
            asked.push(Asked {
                key: row.key,
                schedule,
                since_ms: row.since_ms,
                after_ms: row.last_planned_ms.unwrap_or(now_ms).max(now_ms),
            });
        }
        Ok(asked)
    }
}
