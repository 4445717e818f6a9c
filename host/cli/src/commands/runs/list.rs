//! `windlass runs list`.

use clap::Args;
use reqwest::Method;
use serde_json::Value;
use windlass_model::{Clock as _, Status};
use windlass_runtime::SystemClock;

use crate::app::Context;
use crate::client::{Api, PAGE, items, picked};
use crate::exit::Exit;
use crate::output::{Output, columns_of};

/// The most requests of one command whose pages are not full: the host ends each search after a
/// number of runs, and few of them may match.
const SEARCHES: u32 = 10;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "The search ends after 100,000 runs at the latest. `--cursor` continues it, and a list that \
    is longer than `--limit`."
)]
pub(crate) struct Arguments {
    /// Only runs in this status; may be repeated
    #[arg(long, value_parser = status, value_name = "STATUS")]
    status: Vec<Status>,
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Only runs that were created at this instant or later, or so long ago at most, like 2h
    #[arg(long, value_parser = past, value_name = "TIME")]
    since: Option<i64>,
    /// Only runs that were created before this instant, or longer ago
    #[arg(long, value_parser = past, value_name = "TIME")]
    until: Option<i64>,
    /// Only runs with this subject
    #[arg(long, value_name = "TEXT")]
    correlation: Option<String>,
    /// Only runs with this tag; may be repeated
    #[arg(long, value_parser = tag, value_name = "NAME=VALUE")]
    tag: Vec<String>,
    /// Only runs that failed with this code, like WL-R001
    #[arg(long, value_name = "CODE")]
    failure: Option<String>,
    /// Only runs that this run has called
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// How many runs to list at most
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    limit: u32,
    /// Continue where an earlier list ended, with the same filters
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

fn status(text: &str) -> Result<Status, String> {
    Status::ALL
        .into_iter()
        .find(|status| status.name() == text)
        .ok_or_else(|| {
            let names: Vec<_> = Status::ALL.iter().map(|status| status.name()).collect();
            format!("a status is one of {}", names.join(", "))
        })
}

fn tag(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some(_) => Ok(text.to_owned()),
        None => Err("a tag is like `customer=acme`".to_owned()),
    }
}

/// A moment that is mostly in the past.
fn past(text: &str) -> Result<i64, String> {
    let now_ms = SystemClock::new().wall_ms();
    windlass_model::file::past_ms(text, now_ms).map_err(|wrong| wrong.to_string())
}

/// The members of a run in a list.
const ORDER: [&str; 9] = [
    "id",
    "workflow",
    "status",
    "correlation",
    "tags",
    "created",
    "finished",
    "failure",
    "parent",
];

/// The columns of the table.
pub(super) const COLUMNS: [&str; 7] = [
    "id",
    "workflow",
    "status",
    "correlation",
    "created",
    "finished",
    "failure",
];

/// What may be wrong with a tag or a correlation that no run has.
const WHOLE: &str = "No run has it. A tag and a correlation are searched by their whole text, with \
    its capital letters; `windlass workflow show NAME` shows the tags that runs get.";

/// The runs that a search has found.
#[derive(Default)]
struct Found {
    runs: Vec<Value>,
    /// There are as many as were asked for.
    full: bool,
    /// The cursor that continues the search; none: it is complete.
    next: Option<String>,
    /// The time down to which it went, if it is not complete.
    searched_to: Option<String>,
    /// The number of matching runs, and whether there may be more.
    matching: Option<(u64, bool)>,
}

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let output = &context.output;
        let by_words = !self.tag.is_empty() || self.correlation.is_some();
        let found = self.search(&api, output.is_text())?;
        output.list(&found.runs, || {
            let rows: Vec<_> = found.runs.iter().map(in_columns).collect();
            columns_of(&rows, &COLUMNS.map(|key| (key, key)))
        })?;
        found.note(output);
        if by_words && output.is_text() && found.runs.is_empty() && found.next.is_none() {
            output.note(WHOLE);
        }
        Ok(Exit::Done)
    }

    fn search(self, api: &Api, counted: bool) -> anyhow::Result<Found> {
        let limit = self.limit;
        let mut found = Found {
            next: self.cursor.clone(),
            ..Found::default()
        };
        let mut filter = self.filter(api)?;
        if counted {
            filter.push(("count", true.to_string()));
        }
        let mut searches = 0;
        while found.runs.len() < limit as usize && searches < SEARCHES {
            let left = limit - u32::try_from(found.runs.len()).unwrap_or(limit);
            let asked = left.min(PAGE);
            let mut query = filter.clone();
            query.push(("limit", asked.to_string()));
            query.extend(found.next.take().map(|cursor| ("cursor", cursor)));
            let (_, mut page) = api.ask(Method::GET, &["runs"], &query, None)?;
            let runs = items(&mut page, "items")?;
            if runs.len() < asked as usize {
                searches += 1;
            }
            let text = |key: &str| page.get(key).and_then(Value::as_str).map(str::to_owned);
            (found.next, found.searched_to) = (text("next"), text("searched_to"));
            if let Some(matching) = page.get("matching") {
                let count = matching.get("count").and_then(Value::as_u64);
                let exact = matching.get("exact").and_then(Value::as_bool);
                found.matching = count.map(|count| (count, exact == Some(true)));
                filter.retain(|(key, _)| *key != "count");
            }
            found
                .runs
                .extend(runs.into_iter().map(|run| picked(run, &ORDER)));
            if found.next.is_none() {
                break;
            }
        }
        found.runs.truncate(limit as usize);
        found.full = found.runs.len() == limit as usize;
        Ok(found)
    }

    /// The filter, as the API has it.
    fn filter(self, api: &Api) -> anyhow::Result<Vec<(&'static str, String)>> {
        let statuses: Vec<_> = self.status.iter().map(|status| status.name()).collect();
        let statuses = (!statuses.is_empty()).then(|| statuses.join(","));
        let parent = self.parent.map(|prefix| api.id(&prefix)).transpose()?;
        let members = [
            ("status", statuses),
            ("workflow", self.workflow),
            ("since", self.since.map(super::moment)),
            ("until", self.until.map(super::moment)),
            ("correlation", self.correlation),
            ("failure", self.failure),
            ("parent", parent),
        ];
        let given = members.into_iter();
        let given = given.filter_map(|(key, text)| Some((key, text?)));
        Ok(given
            .chain(self.tag.into_iter().map(|tag| ("tag", tag)))
            .collect())
    }
}

/// A run as a row of the table: of a failure only its code.
pub(super) fn in_columns(run: &Value) -> Value {
    let mut row = run.clone();
    let code = run.get("failure").and_then(|failure| failure.get("code"));
    if let Some(code) = code
        && let Some(members) = row.as_object_mut()
    {
        members.insert("failure".into(), code.clone());
    }
    row
}

impl Found {
    /// Says that there may be more runs. Programs are told only if the list is shorter than its limit.
    fn note(&self, output: &Output) {
        if self.full && !output.is_text() {
            return;
        }
        let Some(next) = &self.next else {
            return;
        };
        let shown = self.runs.len();
        let mut text = match self.matching {
            _ if shown == 0 => "no run found".to_owned(),
            Some((count, true)) => format!("{shown} of {count} runs"),
            Some((count, false)) if count > shown as u64 => {
                format!("{shown} of at least {count} runs")
            }
            _ if shown == 1 => "1 run".to_owned(),
            _ => format!("{shown} runs"),
        };
        if let Some(time) = self.searched_to.as_ref().filter(|_| !self.full) {
            text.push_str(&format!("; searched back to {time}"));
        }
        output.note(&format!("{text}; more with `--cursor {next}`"));
    }
}
