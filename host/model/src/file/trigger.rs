//! The triggers that start a workflow.

use std::collections::BTreeMap;

use serde_json::Value;

use super::reader::{Reader, list};
use super::tree::{Entry, Kind, Node as Tree};
use super::workflow::{Constant, constant};
use super::{foreign, format, hook, kind};
use crate::definition::{Misfire, Overlap, StartTrigger, Timing};
use crate::nearest::nearest;
use crate::stimulus::canonical;
use crate::{codes, limits, schedule};

const UTC: &str = "UTC";

const MATCH: Constant = (
    "the `match` of a trigger is a constant, not an expression",
    "there is no run yet that an expression could look at",
);

const INPUT: Constant = (
    "the input of a schedule is a constant, not an expression",
    "compute it in a node with `set`",
);

/// The triggers, by key.
pub(super) fn all(reader: &mut Reader, tree: &Tree) -> BTreeMap<String, StartTrigger> {
    let wanted = "a map of names and triggers";
    if matches!(tree.kind, Kind::List(_)) {
        let report = reader.wrong_type(tree, wanted);
        report.help("write `name: { event: … }`, without dashes");
        return BTreeMap::new();
    }
    let entries = reader.map(tree, wanted);
    if entries.len() > limits::TRIGGERS {
        let (most, here) = (limits::TRIGGERS, entries.len());
        let message = format!("a workflow has at most {most} triggers; here are {here}");
        reader.report(codes::TOO_LARGE, message, tree);
    }
    let read = |entry: &Entry| {
        reader.name(entry, "a trigger");
        let trigger = reader.at(&entry.key, |reader| one(reader, &entry.value));
        trigger.map(|trigger| (entry.key.clone(), trigger))
    };
    entries.iter().filter_map(read).collect()
}

fn one(reader: &mut Reader, tree: &Tree) -> Option<StartTrigger> {
    let Kind::Map(entries) = &tree.kind else {
        let kind = format::trigger()
            .names
            .iter()
            .find(|kind| reader.is_at(kind));
        let help = match kind {
            Some(kind) => {
                format!("a trigger has a name: `triggers: {{ my_trigger: {{ {kind}: … }} }}`")
            }
            None => "like `{ event: order.placed }` or `{ every: 1h }`".to_owned(),
        };
        reader.wrong_type(tree, "a map").help(help);
        return None;
    };
    let (first, known) = only_kind(reader, tree, entries)?;
    let what = format!("a trigger by `{}`", first.key);
    reader.known_keys(entries, &what, known, |key| {
        let other = format::trigger()
            .own
            .iter()
            .find(|(_, keys)| keys.contains(&key));
        other.map(|(kind, _)| format!("`{key}` belongs to a trigger by `{kind}`"))
    });
    let mistakes = reader.diagnostics.len();
    let trigger = match first.key.as_str() {
        "event" => {
            let name = reader.at("event", |reader| kind::event_name(reader, &first.value));
            let matches = tree.get("match");
            if let Some(value) = matches {
                reader.at("match", |reader| matched(reader, value));
            }
            StartTrigger::Event {
                name,
                matches: matches.map_or(Value::Null, Tree::to_value),
                input: tree.get("input").map(Tree::to_value),
            }
        }
        "cron" => cron(reader, tree),
        "http" => {
            let mut request = reader.at("http", |reader| hook::request(reader, &first.value));
            if let StartTrigger::Http { intake, .. } = &mut request {
                intake.input = tree.get("input").map(Tree::to_value);
            }
            request
        }
        _ => {
            let every_ms = reader.at("every", |reader| reader.duration(&first.value));
            let timing = timing(reader, tree);
            StartTrigger::Every { every_ms, timing }
        }
    };
    // A trigger with a mistake has its error already, and would only get another one.
    if reader.diagnostics.len() == mistakes {
        for found in schedule::check(&trigger, "") {
            let at = found.place.pointer.trim_start_matches('/');
            let value = tree.get(at.split('/').next().unwrap_or_default());
            reader.adopt(found, value);
        }
    }
    Some(trigger)
}

/// The value that the `match` of a stimulus has to equal.
fn matched(reader: &mut Reader, tree: &Tree) {
    constant(reader, tree, MATCH);
    let bytes = canonical(&tree.to_value()).len();
    if bytes > limits::MATCH_BYTES {
        let most = limits::MATCH_BYTES;
        let message =
            format!("the `match` of a trigger has at most {most} bytes; here are {bytes}");
        reader.report(codes::TOO_LARGE, message, tree);
    }
}

/// The one entry that names the kind of trigger, and the keys of that kind.
fn only_kind<'t>(
    reader: &mut Reader,
    tree: &Tree,
    entries: &'t [Entry],
) -> Option<(&'t Entry, &'static [&'static str])> {
    let kind_of = |entry: &&Entry| format::trigger().names.contains(&entry.key.as_str());
    let mut kinds = entries.iter().filter(kind_of);
    let Some(first) = kinds.next() else {
        let message = format!("a trigger has one of {}", list(&format::trigger().names));
        match entries.iter().find_map(misspelt_kind) {
            Some((entry, help)) => {
                let report = reader.report_key(codes::TRIGGER_KIND, message, entry);
                report.help(help);
            }
            None => {
                let report = reader.report(codes::TRIGGER_KIND, message, tree);
                report.help("like `{ event: order.placed }`");
            }
        }
        return None;
    };
    if let Some(second) = kinds.find(|entry| entry.key != first.key) {
        let (a, b) = (&first.key, &second.key);
        let message = format!("a trigger is of one kind; this has `{a}` and `{b}`");
        let report = reader.report_key(codes::TRIGGER_KIND, message, second);
        report.help("make two triggers of it");
        return None;
    }
    let known = format::trigger().own.get(first.key.as_str())?;
    Some((first, known))
}

/// A key that probably means a kind of trigger, and the remedy.
fn misspelt_kind(entry: &Entry) -> Option<(&Entry, String)> {
    if let Some(foreign) = foreign::key("a trigger", &entry.key) {
        return Some((entry, foreign.help.to_owned()));
    }
    let near = nearest(&entry.key, format::trigger().names.iter().copied())?;
    Some((entry, format!("did you mean `{near}`?")))
}

fn cron(reader: &mut Reader, tree: &Tree) -> StartTrigger {
    let text = |reader: &mut Reader, key: &str| {
        let value = tree.get(key)?;
        reader.at(key, |reader| reader.text(value).map(str::to_owned))
    };
    StartTrigger::Cron {
        expression: text(reader, "cron").unwrap_or_default(),
        timezone: text(reader, "timezone").unwrap_or_else(|| UTC.to_owned()),
        timing: timing(reader, tree),
    }
}

fn timing(reader: &mut Reader, tree: &Tree) -> Timing {
    let mut timing = Timing::default();
    if let Some(value) = tree.get("misfire") {
        timing.misfire = reader.at("misfire", |reader| misfire(reader, value));
    }
    if let Some(value) = tree.get("overlap") {
        let choices = [
            ("allow", Overlap::Allow),
            ("skip", Overlap::Skip),
            ("queue", Overlap::Queue),
            ("cancel-previous", Overlap::CancelPrevious),
        ];
        let overlap = reader.at("overlap", |reader| reader.choice(value, &choices));
        timing.overlap = overlap.unwrap_or_default();
    }
    if let Some(value) = tree.get("jitter") {
        timing.jitter_ms = reader.at("jitter", |reader| reader.duration(value));
    }
    if let Some(value) = tree.get("input") {
        reader.at("input", |reader| constant(reader, value, INPUT));
        timing.input = value.to_value();
    }
    timing
}

fn misfire(reader: &mut Reader, tree: &Tree) -> Misfire {
    if let Kind::Map(entries) = &tree.kind {
        reader.known_keys(entries, "`misfire`", format::keys("CatchUp"), |_| None);
        if entries.is_empty() {
            let message = "the key `catch-up` is missing";
            let report = reader.report(codes::MISSING_KEY, message, tree);
            report.help("like `misfire: { catch-up: 5 }`");
        }
        let count = tree.get("catch-up");
        return count.map_or(Misfire::default(), |count| {
            Misfire::CatchUp(reader.at("catch-up", |reader| reader.count(count)))
        });
    }
    if let Kind::Text { text, .. } = &tree.kind
        && text.starts_with("catch-up")
    {
        let message = format!("`{text}` does not say how many occurrences");
        let report = reader.report(codes::BAD_VALUE, message, tree);
        report.help("write `misfire: { catch-up: 5 }`");
        return Misfire::default();
    }
    let choices = [("skip", Misfire::Skip), ("fire-once", Misfire::FireOnce)];
    reader.choice(tree, &choices).unwrap_or_default()
}
