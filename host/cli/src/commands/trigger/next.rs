//! `windlass trigger next`.

use std::path::Path;

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};
use windlass_model::Clock as _;
use windlass_model::schedule::Schedule;
use windlass_runtime::SystemClock;
use windlass_runtime::operations::{self, Planned};

use crate::app::Context;
use crate::client::{items, picked, text};
use crate::codes;
use crate::commands::moment;
use crate::commands::workflow::missing;
use crate::error::{Expected, or_missing};
use crate::exit::Exit;
use crate::output::{self, columns_of};
use crate::source::Source;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Next {
    /// A workflow file, the name of a published workflow, or a schedule of one: WORKFLOW:KEY
    workflow: String,
    /// Only the trigger with this key
    key: Option<String>,
    /// How many due times to print for each trigger
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    count: u16,
}

impl Next {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let path = Path::new(&self.workflow);
        let (items, paused) = if path.is_file() {
            context.configure("warn")?;
            (self.of_file(path)?, false)
        } else {
            self.of_published(context)?
        };
        if items.is_empty() && !paused {
            let named = self.key.as_ref().map(|key| format!(" of the name `{key}`"));
            let text = format!("The workflow has no schedule{}", named.unwrap_or_default());
            return Err(Expected::new(codes::NO_TRIGGER, text)
                .help("A schedule is a trigger with `cron` or `every`.")
                .exit(Exit::NotFound)
                .into());
        }
        let columns = ["at", "trigger"].map(|key| (key, key));
        let output = &context.output;
        output.list(&items, || columns_of(&items, &columns))?;
        Ok(Exit::Done)
    }

    /// The schedules of a file, as if it were published now.
    fn of_file(&self, path: &Path) -> anyhow::Result<Vec<Value>> {
        let source = Source::read(path)?;
        let now_ms = SystemClock::new().wall_ms();
        let triggers = source.definition.triggers.iter();
        let triggers = triggers.filter(|(key, _)| self.key.as_ref().is_none_or(|of| of == *key));
        let asked = triggers.filter_map(|(key, trigger)| {
            Some(Planned {
                key: key.clone(),
                // The file has no mistakes: reading it would have failed.
                schedule: Schedule::of(trigger)?.ok()?,
                since_ms: now_ms,
                after_ms: now_ms,
                paused: false,
            })
        });
        let asked: Vec<Planned> = asked.collect();
        let times = operations::times(&asked, usize::from(self.count)).into_iter();
        let item = |(at_ms, key)| json!({ "at": moment(at_ms), "trigger": key });
        Ok(times.map(item).collect())
    }

    /// The due times of a published workflow, and whether a schedule of it is paused.
    fn of_published(&self, context: &Context) -> anyhow::Result<(Vec<Value>, bool)> {
        let (workflow, key) = match (self.workflow.split_once(':'), &self.key) {
            (Some((workflow, key)), None) => (workflow, Some(key.to_owned())),
            (_, key) => (self.workflow.as_str(), key.clone()),
        };
        let mut query = vec![("count", self.count.to_string())];
        query.extend(key.map(|key| ("trigger", key)));
        let path = ["definitions", workflow, "next"];
        let api = context.api()?;
        let asked = api.ask(Method::GET, &path, &query, None);
        let (_, mut times) = asked.map_err(|error| or_missing(error, || missing(workflow)))?;
        let paused = items(&mut times, "paused")?;
        for key in paused.iter().filter_map(Value::as_str) {
            let note = format!(
                "schedule `{key}` is paused; `windlass trigger unpause {workflow}:{key}` ends that"
            );
            context.output.note(&note);
        }
        let mistakes = items(&mut times, "mistakes")?;
        if let Some(first) = mistakes.first() {
            let why = text(first, "detail")?;
            let name = output::name(workflow);
            context.output.note(&format!(
                "workflow `{name}` cannot run at these times: {why} (`windlass explain {}`)",
                windlass_runtime::codes::CANNOT_RUN
            ));
        }
        let times = items(&mut times, "items")?;
        for item in &times {
            text(item, "at")?;
            text(item, "trigger")?;
        }
        let times = times.into_iter();
        let times = times.map(|item| picked(item, &["at", "trigger"])).collect();
        Ok((times, !paused.is_empty()))
    }
}
