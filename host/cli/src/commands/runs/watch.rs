//! `windlass runs watch`: the executions of a run as they happen, and its end.
//!
//! The command asks the API each time the run has gone on, for the executions that it has not shown.
//! So it works with a host and on a store alike, and misses none. After a pause of more than
//! [`MOST`] executions it shows the newest, and says so.

use clap::Args;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::trace::{Details, ORDER, complete};
use crate::app::Context;
use crate::client::{Api, WAIT, at_ms, items, picked, text};
use crate::ended::{self, UNTAKEN};
use crate::exit::Exit;
use crate::output::{Format, Output};

/// Executions per request.
const PAGE: usize = 50;

/// Executions that one look shows at most.
const MOST: usize = 1_000;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "The executions are printed on stderr and the output of the run on stdout, or \
    both on stdout with `-o jsonl`. The exit code is that of the run, as with `windlass run`. \
    Ctrl-C ends the command and not the run."
)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: String,
    #[command(flatten)]
    details: Details,
}

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let id = api.id(&self.id)?;
        watch(&context.output, &api, &id, &self.details)
    }
}

/// Shows the executions of a run until it ends, and then its outcome.
pub(super) fn watch(
    output: &Output,
    api: &Api,
    id: &str,
    details: &Details,
) -> anyhow::Result<Exit> {
    let run = api.get(&["runs", id])?;
    let created_ms = run.get("run").map_or(0, |run| at_ms(run, "created"));
    let (mut last, mut said, mut seen) = (None, String::new(), None);
    let mut is_looked_at = false;
    loop {
        let patience = match is_looked_at {
            true => WAIT,
            false => UNTAKEN,
        };
        let (status, outcome) = api.follow(id, seen.as_ref(), patience)?;
        // Executions that precede the status are in the store by now.
        let new = newer(api, id, last.as_ref())?;
        if new.gap {
            output.note("(earlier executions are left out; `windlass runs trace` shows them)");
        }
        for item in &new.items {
            match output.format {
                Format::Text => {
                    let mut lines = String::new();
                    details.line(&mut lines, created_ms, item, output.notes);
                    output.note(lines.trim_end_matches('\n'));
                }
                Format::Jsonl => output.print(&item.to_string())?,
                Format::Json => {}
            }
        }
        last = new.items.into_iter().next_back().or(last);
        if status != StatusCode::ACCEPTED {
            return ended::tell_outcome(output, &outcome);
        }
        let now = text(&outcome, "status")?;
        let version = |of: &Value| of.get("version").cloned();
        if !is_looked_at && seen.as_ref().map(version) == Some(version(&outcome)) {
            is_looked_at = true;
            if ended::is_untaken(api, id) {
                ended::note_untaken(output);
            }
        }
        if now != said && output.is_text() {
            tell(output, id, now);
            now.clone_into(&mut said);
        }
        seen = Some(outcome);
    }
}

/// Says why nothing happens, if the run needs an action from outside.
fn tell(output: &Output, id: &str, status: &str) {
    let help = match status {
        "created" => format!("`windlass runs begin {id}` lets it begin"),
        "suspended" => {
            format!("`windlass bookmark list --run {id}` shows the bookmarks for which it waits")
        }
        "paused" => format!("`windlass runs unpause {id}` continues it"),
        _ => return,
    };
    output.note(&format!("The run is {status}: {help}."));
}

/// Executions that were not shown before, the oldest first.
struct New {
    items: Vec<Value>,
    /// There are more than are shown at once.
    gap: bool,
}

/// The executions after the one that was shown last.
fn newer(api: &Api, id: &str, last: Option<&Value>) -> anyhow::Result<New> {
    let path = ["runs", id, "executions"];
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    let gap = loop {
        let mut query = vec![("limit", PAGE.to_string())];
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let (_, mut page) = api.ask(Method::GET, &path, &query, None)?;
        let rows = items(&mut page, "items")?;
        let known = |row: &Value| last.is_some_and(|last| same(last, row));
        let mut over = rows.is_empty();
        for row in rows {
            if known(&row) {
                over = true;
                break;
            }
            let mut row = picked(row, &ORDER);
            complete(&mut row);
            found.push(row);
        }
        let next = page.get("next").and_then(Value::as_str);
        cursor = next.filter(|_| !over).map(str::to_owned);
        if cursor.is_none() {
            break false;
        }
        if found.len() >= MOST {
            break true;
        }
    };
    found.truncate(MOST);
    found.reverse();
    Ok(New { items: found, gap })
}

/// Whether two documents are of one execution. The number in the run and the attempt are not
/// enough: a node that is called again after a wait has the same ones.
fn same(one: &Value, other: &Value) -> bool {
    let keys = ["seq", "attempt", "node", "status", "started", "took_us"];
    keys.iter().all(|key| one.get(key) == other.get(key))
}
