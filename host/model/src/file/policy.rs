//! When and how often a node runs: `join`, `retry` and `repeat`.

use super::reader::Reader;
use super::tree::{Kind, Node as Tree};
use super::{edge, keys};
use crate::definition::{Backoff, Join, Repeat, Retry};
use crate::{Class, codes};

pub(super) fn join(reader: &mut Reader, tree: &Tree) -> Join {
    if let Kind::Map(entries) = &tree.kind {
        reader.known_keys(entries, "`join`", &["count"], |_| None);
        let count = tree.get("count");
        return count.map_or(Join::default(), |count| {
            Join::Count(reader.at("count", |reader| reader.count(count)))
        });
    }
    if let Kind::Number(number) = &tree.kind {
        let help = format!("write `join: {{ count: {number} }}`");
        reader.wrong_type(tree, "a way to join").help(help);
        return Join::default();
    }
    let choices = [
        ("all-active", Join::AllActive),
        ("all", Join::All),
        ("any", Join::Any),
        ("race", Join::Race),
        ("each", Join::Each),
    ];
    reader.choice(tree, &choices).unwrap_or_default()
}

pub(super) fn retry(reader: &mut Reader, tree: &Tree) -> Retry {
    let mut retry = Retry {
        max_attempts: 3,
        delay_ms: 1_000,
        backoff: Backoff::default(),
        max_delay_ms: 300_000,
        jitter: true,
        classes: vec![Class::Retryable, Class::Deadline],
    };
    let entries = reader.map(tree, "a map");
    reader.known_keys(entries, "`retry`", keys::RETRY, |_| None);
    for entry in entries {
        let value = &entry.value;
        reader.at(&entry.key, |reader| match entry.key.as_str() {
            "max-attempts" => retry.max_attempts = reader.count(value),
            "delay" => retry.delay_ms = reader.duration(value),
            "max-delay" => retry.max_delay_ms = reader.duration(value),
            "jitter" => retry.jitter = reader.boolean(value),
            "backoff" => {
                let choices = [
                    ("fixed", Backoff::Fixed),
                    ("exponential", Backoff::Exponential),
                ];
                retry.backoff = reader.choice(value, &choices).unwrap_or_default();
            }
            "classes" => retry.classes = classes(reader, value),
            _ => {}
        });
    }
    retry
}

fn classes(reader: &mut Reader, tree: &Tree) -> Vec<Class> {
    let Kind::List(items) = &tree.kind else {
        reader
            .wrong_type(tree, "a list of failure classes")
            .help("like `[retryable, deadline]`");
        return Vec::new();
    };
    let choices = Class::ALL.map(|class| (class.name(), class));
    let read = |(index, item): (usize, &Tree)| {
        reader.at(index.to_string(), |reader| reader.choice(item, &choices))
    };
    items.iter().enumerate().filter_map(read).collect()
}

pub(super) fn repeat(reader: &mut Reader, tree: &Tree) -> Repeat {
    let mut repeat = Repeat {
        max: None,
        every_ms: None,
        until: None,
    };
    let entries = reader.map(tree, "a map");
    reader.known_keys(entries, "`repeat`", keys::REPEAT, |_| None);
    for entry in entries {
        let value = &entry.value;
        reader.at(&entry.key, |reader| match entry.key.as_str() {
            "max" => repeat.max = Some(reader.count(value)),
            "every" => repeat.every_ms = Some(reader.duration(value)),
            "until" => repeat.until = edge::condition(reader, value),
            _ => {}
        });
    }
    let ends = tree.get("max").is_some() || tree.get("until").is_some();
    if matches!(tree.kind, Kind::Map(_)) && !ends {
        let message = "nothing says when the repetition ends";
        let report = reader.report(codes::MISSING_KEY, message, tree);
        report.help("add `max: 10`, or `until` with a condition");
    }
    repeat
}
