//! `windlass trigger next`.

use std::path::Path;

use clap::Args;
use serde_json::json;
use windlass_model::schedule::Schedule;
use windlass_runtime::client::{self, Planned};

use crate::app::Context;
use crate::codes;
use crate::commands::moment;
use crate::commands::workflow::missing;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::{Output, columns_of};
use crate::source::Source;
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Next {
    /// A workflow file, or the name of a published workflow
    pub(crate) workflow: String,
    /// Only this trigger
    pub(crate) key: Option<String>,
    /// How many times of each
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    pub(crate) count: u16,
}

impl Next {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let path = Path::new(&self.workflow);
        let mut asked = if path.is_file() {
            self.of_file(context, path)?
        } else {
            self.of_published(context)?
        };
        if let Some(key) = &self.key {
            asked.retain(|asked| asked.key == *key);
        }
        let times = client::times(&asked, usize::from(self.count));
        self.tell(&context.output, &times)
    }

    /// Shows coming times, in epoch milliseconds, and what of.
    pub(crate) fn tell(&self, output: &Output, times: &[(i64, String)]) -> anyhow::Result<Exit> {
        if times.is_empty() {
            let named = self.key.as_ref().map(|key| format!(" of the name `{key}`"));
            let text = format!("The workflow has no schedule{}", named.unwrap_or_default());
            return Err(Expected::new(codes::NO_TRIGGER, text)
                .help("A schedule is a trigger with `cron` or `every`.")
                .exit(Exit::NotFound)
                .into());
        }
        let items: Vec<_> = times
            .iter()
            .map(|(at_ms, key)| json!({ "at": moment(*at_ms), "trigger": key }))
            .collect();
        output.list(&items, || {
            columns_of(&items, &[("at", "at"), ("trigger", "trigger")])
        })?;
        Ok(Exit::Done)
    }

    /// As it would be if the file were published now.
    fn of_file(&self, context: &Context, path: &Path) -> anyhow::Result<Vec<Planned>> {
        let source = Source::read(path)?;
        let machine = Machine::new(context.configure("warn")?)?;
        let now_ms = machine.clock.wall_ms();
        let triggers = source.definition.triggers.iter();
        let asked = triggers.filter_map(|(key, trigger)| {
            Some(Planned {
                key: key.clone(),
                // The file was read, so there is nothing wrong with it.
                schedule: Schedule::of(trigger)?.ok()?,
                since_ms: now_ms,
                after_ms: now_ms,
            })
        });
        Ok(asked.collect())
    }

    fn of_published(&self, context: &Context) -> anyhow::Result<Vec<Planned>> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let now_ms = machine.clock.wall_ms();
        match client::plans(store.as_ref(), now_ms, &self.workflow) {
            Err(windlass_runtime::Error::NoWorkflow(name)) => Err(missing(&name).into()),
            plans => Ok(plans?),
        }
    }
}
