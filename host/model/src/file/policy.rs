//! When and how often a node runs, and the effect of its failures: `join`, `retry`, `on-error` and
//! `repeat`.

use super::edge;
use super::format::keys;
use super::reader::{Reader, is_name, stands_for};
use super::tree::{Kind, Node as Tree};
use crate::definition::{Backoff, ErrorEffect, ErrorRule, Join, OnError, Repeat, Retry};
use crate::{Class, codes, limits};

pub(super) fn join(reader: &mut Reader, tree: &Tree) -> Join {
    if let Kind::Map(entries) = &tree.kind {
        reader.known_keys(entries, "`join`", keys("JoinCount"), |_| None);
        if entries.is_empty() {
            let report = reader.report(codes::MISSING_KEY, "the key `count` is missing", tree);
            report.help("like `join: { count: 2 }`");
        }
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
        when: None,
    };
    let like = match &tree.kind {
        Kind::Number(number) => format!("write `retry: {{ max-attempts: {number} }}`"),
        _ => "like `retry: { max-attempts: 3 }`".to_owned(),
    };
    let entries = reader.map_like(tree, "a map", like);
    reader.known_keys(entries, "`retry`", keys("Retry"), |_| None);
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
            "when" => retry.when = edge::condition(reader, value),
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

/// A word, or a list of rules.
pub(super) fn on_error(reader: &mut Reader, tree: &Tree) -> OnError {
    let Kind::List(items) = &tree.kind else {
        if matches!(tree.kind, Kind::Map(_)) {
            let report = reader.wrong_type(tree, "a word or a list of rules");
            report.help("rules stand in a list: `on-error: [{ when: …, do: continue }, fail]`");
            return OnError::always(ErrorEffect::default());
        }
        return OnError::always(effect(reader, tree));
    };
    let message = match items.len() {
        0 => Some("the list has no rule".to_owned()),
        many if many > limits::ERROR_RULES => {
            let most = limits::ERROR_RULES;
            Some(format!(
                "`on-error` has at most {most} rules; here are {many}"
            ))
        }
        _ => None,
    };
    if let Some(message) = message {
        reader.report(codes::BAD_VALUE, message, tree);
    }
    let last = items.len().saturating_sub(1);
    let rules = items.iter().enumerate().filter_map(|(index, item)| {
        let read = |reader: &mut Reader| error_rule(reader, item, index == last);
        reader.at(index.to_string(), read)
    });
    OnError {
        rules: rules.collect(),
    }
}

/// A word, or `{ when: EXPRESSION, do: WORD }`.
fn error_rule(reader: &mut Reader, tree: &Tree, last: bool) -> Option<ErrorRule> {
    let rule = match &tree.kind {
        Kind::Map(entries) => {
            reader.known_keys(entries, "a rule of `on-error`", keys("ErrorRule"), |_| None);
            let when = tree
                .get("when")
                .map(|when| reader.at("when", |reader| edge::condition(reader, when)));
            let Some(word) = tree.get("do") else {
                let message = "the rule has no effect";
                let report = reader.report(codes::MISSING_KEY, message, tree);
                report.help("add `do: fail`, `do: continue` or `do: route`");
                return None;
            };
            let effect = reader.at("do", |reader| effect(reader, word));
            // A condition with a mistake is a condition all the same.
            let when = when.map(Option::unwrap_or_default);
            ErrorRule { when, effect }
        }
        _ => ErrorRule {
            when: None,
            effect: effect(reader, tree),
        },
    };
    if rule.when.is_none() && !last {
        let message = "this rule fits every failure, so the rules after it never apply";
        let report = reader.report(codes::BAD_VALUE, message, tree);
        report.help("give it a condition, `{ when: …, do: … }`, or make it the last rule");
    }
    Some(rule)
}

fn effect(reader: &mut Reader, tree: &Tree) -> ErrorEffect {
    let choices = [
        ("fail", ErrorEffect::Fail),
        ("continue", ErrorEffect::Continue),
        ("route", ErrorEffect::Route),
    ];
    if let Kind::Text { text, .. } = &tree.kind
        && is_name(text, false)
        && reader.is_node(text)
    {
        let message =
            format!("`{text}` is a node, and `on-error` takes one of `fail`, `continue`, `route`");
        let help = format!("write `on-error: route`, and an edge `NODE.error -> {text}`");
        reader.report(codes::BAD_VALUE, message, tree).help(help);
        return ErrorEffect::default();
    }
    reader.choice(tree, &choices).unwrap_or_default()
}

pub(super) fn repeat(reader: &mut Reader, tree: &Tree) -> Repeat {
    let mut repeat = Repeat {
        max: None,
        every_ms: None,
        until: None,
    };
    let like = match &tree.kind {
        Kind::Number(number) => format!("write `repeat: {{ max: {number} }}`"),
        _ => "like `repeat: { max: 10 }`".to_owned(),
    };
    let entries = reader.map_like(tree, "a map", like);
    reader.known_keys(entries, "`repeat`", keys("Repeat"), |_| None);
    for entry in entries {
        let value = &entry.value;
        reader.at(&entry.key, |reader| match entry.key.as_str() {
            "max" => repeat.max = Some(reader.count(value)),
            "every" => repeat.every_ms = Some(reader.duration(value)),
            "until" => repeat.until = edge::condition(reader, value),
            _ => {}
        });
    }
    let ends = entries.iter().any(|entry| {
        let of = |key: &str| entry.key == key || stands_for("`repeat`", entry, key);
        of("max") || of("until")
    });
    if matches!(tree.kind, Kind::Map(_)) && !ends {
        let message = "nothing says when the repetition ends";
        let report = reader.report(codes::MISSING_KEY, message, tree);
        report.help("add `max: 10`, or `until` with a condition");
    }
    repeat
}
