//! The conformance suite: the rules that hold for every component.
//!
//! The suite calls each node, and the consumer, with the examples of the plugin. Where there are none
//! it makes up inputs by the schemas, and accepts any result that a plugin reports itself.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_model::schema::Schema;
use windlass_model::{Class, TriggerType};
use windlass_plugins::{Plugin, Purity};

use super::report::{Case, Report};
use super::sample::sample;
use super::{Bench, REUSES};
use crate::commands::plugin::example::{Ask, Example, Got, Ran, is_own};

/// The time that a call with a foreign input may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time that is too short for a call that does something.
const NO_TIME: Duration = Duration::from_millis(1);

/// The memory that a call may keep, in bytes: an instance that keeps more in each call is full before
/// it is replaced.
const KEPT_BYTES: u64 = 16 << 10;

/// The first call whose memory counts: by then, an instance has its tables and caches.
const SETTLED: u32 = 100;

/// Bytes of a payload that are left for its other parts.
const SPARE_BYTES: usize = 4 << 10;

/// A text of one to four bytes for a character, with a zero in it.
const TEXT: &str = "a\u{0}é漢🦀\u{202e}";

/// The result of one test of the suite: a reason to skip it, or the faults.
type Checked = Result<Vec<String>, &'static str>;

/// Runs the suite.
pub(super) fn run(bench: &Bench<'_>, examples: &[Example], report: &mut Report) {
    let asks = asks(&bench.warm, examples);
    let mut add = |name: &str, check: &dyn Fn() -> Checked| {
        let begun = bench.now();
        let checked = check();
        let case = Case::new("conformance", name).took(bench.now().saturating_sub(begun));
        report.add(match checked {
            Ok(faults) if faults.is_empty() => case,
            Ok(faults) => case.failed(faults.join("\n")),
            Err(why) => case.skipped(why),
        });
    };
    add("schemas: examples and results fit them", &|| {
        Ok(schemas(bench, &asks))
    });
    add("ports: results take declared ones", &|| {
        Ok(ports(bench, &asks))
    });
    add(
        "exceptions: a wrong input is a failure and no crash",
        &|| Ok(exceptions(bench, &asks)),
    );
    add("unicode: texts of all planes pass", &|| {
        unicode(bench, &asks)
    });
    add("instances: a fresh one answers like a warm one", &|| {
        Ok(instances(bench, &asks))
    });
    add("reuse: 1,000 calls of one instance", &|| {
        Ok(reuse(bench, &asks))
    });
    add("memory: 1,000 calls keep none", &|| {
        Ok(memory(bench, &asks))
    });
    add("deadline: a call that is cut off harms no other", &|| {
        Ok(deadline(bench, &asks))
    });
    add("purity: the same input has the same output", &|| {
        purity(bench, &asks)
    });
    // The last one: the instance that it makes large would serve the other cases.
    add("size: an input as large as a payload may be", &|| {
        size(bench, &asks)
    });
}

/// The calls: the first example of each node and of the consumer, or a made-up one.
pub(in super::super) fn asks(plugin: &Plugin, examples: &[Example]) -> Vec<Example> {
    let mut asks = Vec::new();
    for node in &plugin.description.nodes {
        let is_of = |example: &&Example| matches!(&example.ask, Ask::Node { node: it, .. } if it.id == node.id);
        let made_up = || {
            let ask = Ask::Node {
                node: Arc::clone(node),
                with: Some(sample(&node.config))
                    .filter(Value::is_object)
                    .unwrap_or_else(|| json!({})),
                input: sample(&node.input),
            };
            Example::of(&node.name, ask)
        };
        asks.push(examples.iter().find(is_of).cloned().unwrap_or_else(made_up));
    }
    if let Some(consumer) = &plugin.description.consumer {
        let is_trigger = |example: &&Example| matches!(example.ask, Ask::Trigger { .. });
        let made_up = || {
            let mut kinds = TriggerType::ALL.into_iter();
            let kind = kinds.find(|kind| consumer.types.iter().any(|it| it == kind.name()));
            let ask = Ask::Trigger {
                kind: kind.unwrap_or(TriggerType::Manual),
                node: None,
                payload: Some(json!({})),
            };
            Example::of("consumer", ask)
        };
        asks.push(
            examples
                .iter()
                .find(is_trigger)
                .cloned()
                .unwrap_or_else(made_up),
        );
    }
    asks
}

/// A fault of a call, with the name of the call.
fn fault(example: &Example, why: &str) -> String {
    let what = match &example.ask {
        Ask::Node { node, .. } => node.id.to_string(),
        Ask::Trigger { kind, .. } => format!("a trigger of type {}", kind.name()),
    };
    format!("{what}: {why}")
}

/// The fault of a result that no plugin reports itself: a crash, or a used-up limit.
fn crash(got: &Got) -> Option<String> {
    got.class
        .filter(|class| !is_own(*class))
        .map(|_| got.headline())
}

/// The faults of the calls, each by one function.
fn each(asks: &[Example], check: impl Fn(&Example) -> Option<String>) -> Vec<String> {
    let faults = asks.iter().filter_map(|ask| Some(fault(ask, &check(ask)?)));
    faults.collect()
}

fn schemas(bench: &Bench<'_>, asks: &[Example]) -> Vec<String> {
    each(asks, |ask| {
        let Ask::Node { node, .. } = &ask.ask else {
            return None;
        };
        let ran = ask.run(bench.machine, &bench.warm, None);
        if ran.got.what != "done" {
            return crash(&ran.got);
        }
        let schema = match Schema::compile(&node.output) {
            Ok(schema) => schema,
            Err(refused) => return Some(format!("the schema of the output: {}", refused.message)),
        };
        let wrong = schema.check(&ran.got.value, "");
        let wrong: Vec<_> = wrong
            .iter()
            .map(|it| {
                format!(
                    "the output does not fit its schema: {}: {}",
                    it.place.pointer, it.message
                )
            })
            .collect();
        (!wrong.is_empty()).then(|| wrong.join("; "))
    })
}

fn ports(bench: &Bench<'_>, asks: &[Example]) -> Vec<String> {
    each(asks, |ask| {
        let Ask::Node { node, .. } = &ask.ask else {
            return None;
        };
        let got = ask.run(bench.machine, &bench.warm, None).got;
        if matches!(got.what, "suspend" | "again") && !node.suspends {
            let what = got.what;
            return Some(format!(
                "it answers `{what}`, and its description has no `suspends`"
            ));
        }
        let undeclared = got.ports.iter().find(|port| !node.ports.contains(port))?;
        Some(format!(
            "it takes the port `{undeclared}`, which it does not declare"
        ))
    })
}

/// Inputs of each type, and one that is deep.
fn foreign() -> Vec<Value> {
    let mut deep = json!(null);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    vec![
        json!(null),
        json!(true),
        json!(-1.5),
        json!(TEXT),
        json!([]),
        json!({}),
        deep,
    ]
}

fn exceptions(bench: &Bench<'_>, asks: &[Example]) -> Vec<String> {
    each(asks, |ask| {
        let is_consumer = matches!(ask.ask, Ask::Trigger { .. });
        let inputs = foreign().into_iter();
        let mut inputs = inputs.filter(|input| !is_consumer || input.is_object());
        inputs.find_map(|input| {
            let shown = format!("{input:.40}");
            let call = ask.with_input(input);
            let ran = call.run_unchecked(bench.machine, &bench.warm, Some(PATIENCE));
            Some(format!("the input {shown} is {}", crash(&ran.got)?))
        })
    })
}

/// A value in which each text is changed; none without a text.
fn with_texts(value: &Value, change: &dyn Fn(&str) -> String) -> Option<Value> {
    match value {
        Value::String(text) => Some(Value::String(change(text))),
        Value::Array(items) => {
            let changed: Vec<_> = items.iter().map(|item| with_texts(item, change)).collect();
            if changed.iter().all(Option::is_none) {
                return None;
            }
            let pairs = changed.into_iter().zip(items);
            Some(
                pairs
                    .map(|(new, old)| new.unwrap_or_else(|| old.clone()))
                    .collect(),
            )
        }
        Value::Object(members) => {
            let mut any = false;
            let members = members.iter().map(|(name, value)| {
                let new = with_texts(value, change);
                any |= new.is_some();
                (name.clone(), new.unwrap_or_else(|| value.clone()))
            });
            let members = Value::Object(members.collect());
            any.then_some(members)
        }
        _ => None,
    }
}

/// The calls with changed texts in their inputs.
fn changed(
    asks: &[Example],
    change: &dyn Fn(&str) -> String,
) -> Result<Vec<Example>, &'static str> {
    let changed = asks.iter().filter_map(|ask| {
        let input = with_texts(ask.input()?, change)?;
        Some(ask.with_input(input))
    });
    let changed: Vec<_> = changed.collect();
    match changed.is_empty() {
        true => Err("no input of an example has a text"),
        false => Ok(changed),
    }
}

fn unicode(bench: &Bench<'_>, asks: &[Example]) -> Checked {
    let asks = changed(asks, &|text| format!("{text}{TEXT}"))?;
    Ok(each(&asks, |ask| {
        let got = ask.run(bench.machine, &bench.warm, Some(PATIENCE)).got;
        let is_damaged =
            got.message.contains('\u{fffd}') || got.value.to_string().contains('\u{fffd}');
        let damaged = is_damaged.then(|| "a text comes back damaged: it is not UTF-8".to_owned());
        crash(&got).or(damaged)
    }))
}

fn size(bench: &Bench<'_>, asks: &[Example]) -> Checked {
    let most = bench.warm.limits().payload_bytes;
    let large = changed(asks, &|text| text.to_owned())?;
    let large: Vec<Example> = large
        .iter()
        .filter_map(|ask| {
            let input = ask.input()?;
            let room = most.checked_sub(input.to_string().len() + SPARE_BYTES)?;
            Some(ask.with_input(with_first_text(input, &"x".repeat(room))))
        })
        .collect();
    Ok(each(&large, |ask| {
        let got = ask.run(bench.machine, &bench.warm, None).got;
        // The output may be larger than the input, and then than a payload.
        let is_output = got.class == Some(Class::Limit) && got.message.contains("payload");
        crash(&got).filter(|_| !is_output)
    }))
}

/// A value whose first text is replaced.
fn with_first_text(value: &Value, text: &str) -> Value {
    let is_first = std::cell::Cell::new(true);
    let change = |old: &str| match is_first.replace(false) {
        true => text.to_owned(),
        false => old.to_owned(),
    };
    with_texts(value, &change).unwrap_or_else(|| value.clone())
}

/// Whether two results are of one kind. What differs between calls by time or chance may differ.
fn alike(bench: &Bench<'_>, one: &Got, other: &Got) -> bool {
    match is_determined(&bench.warm) {
        true => one == other,
        false => one.what == other.what && one.class == other.class,
    }
}

fn instances(bench: &Bench<'_>, asks: &[Example]) -> Vec<String> {
    each(asks, |ask| {
        let warm = ask.run(bench.machine, &bench.warm, None).got;
        let mut fresh = (0..3).map(|_| ask.run(bench.machine, &bench.fresh, None).got);
        let other = fresh.find(|fresh| !alike(bench, &warm, fresh))?;
        let (warm, other) = (shown(&warm), shown(&other));
        Some(format!(
            "a warm instance answers {warm}, and a fresh one {other}"
        ))
    })
}

fn shown(got: &Got) -> String {
    let value = got.value.to_string();
    let value: String = value.chars().take(80).collect();
    format!("{} {value}", got.headline())
}

/// Many calls of one instance.
fn many(bench: &Bench<'_>, ask: &Example) -> Vec<Ran> {
    let calls = (0..REUSES).map(|_| ask.run(bench.machine, &bench.warm, None));
    calls.collect()
}

fn reuse(bench: &Bench<'_>, asks: &[Example]) -> Vec<String> {
    each(asks, |ask| {
        let calls = many(bench, ask);
        let first = calls.first()?;
        let other = calls
            .iter()
            .position(|ran| !alike(bench, &first.got, &ran.got))?;
        let got = calls
            .get(other)
            .map(|ran| shown(&ran.got))
            .unwrap_or_default();
        let first = shown(&first.got);
        Some(format!(
            "the first call answers {first}, and call {} {got}",
            other + 1
        ))
    })
}

fn memory(bench: &Bench<'_>, asks: &[Example]) -> Vec<String> {
    each(asks, |ask| {
        let calls = many(bench, ask);
        let settled = calls.get(SETTLED as usize)?.memory_bytes;
        let last = calls.last()?.memory_bytes;
        let each = last.saturating_sub(settled) / u64::from(REUSES - SETTLED);
        (each > KEPT_BYTES).then(|| {
            let (settled, last) = (settled / 1024, last / 1024);
            format!(
                "its memory grows from {settled} KiB after {SETTLED} calls to {last} KiB after \
                 {REUSES}: {each} bytes a call"
            )
        })
    })
}

fn deadline(bench: &Bench<'_>, asks: &[Example]) -> Vec<String> {
    each(asks, |ask| {
        let before = ask.run(bench.machine, &bench.warm, None).got;
        let cut = ask.run(bench.machine, &bench.warm, Some(NO_TIME)).got;
        let is_cut = cut.class == Some(Class::Deadline);
        if !is_cut && let Some(crash) = crash(&cut) {
            return Some(format!("a call with {} ms is {crash}", NO_TIME.as_millis()));
        }
        let after = ask.run(bench.machine, &bench.warm, None).got;
        let same = alike(bench, &before, &after);
        (!same).then(|| format!("the next call answers {}", shown(&after)))
    })
}

/// Whether nothing but its arguments decides about the answers of a plugin.
fn is_determined(plugin: &Plugin) -> bool {
    reads_nothing(plugin) && !imports(plugin, &["context"])
}

/// Whether a plugin reads neither the time, nor random numbers, nor data of the run. It may read the
/// context of the call, as runtimes of languages do for their own ends.
fn reads_nothing(plugin: &Plugin) -> bool {
    let is_pure = plugin.purity == Purity::Pure;
    is_pure && !imports(plugin, &["clock", "random", "memory", "blobs"])
}

fn imports(plugin: &Plugin, words: &[&str]) -> bool {
    let mut names = plugin.imports.iter();
    names.any(|name| words.iter().any(|word| name.contains(word)))
}

fn purity(bench: &Bench<'_>, asks: &[Example]) -> Checked {
    if bench.warm.purity == Purity::Effectful {
        return Err("the component imports windlass:http or windlass:events, so it is not pure");
    }
    if !reads_nothing(&bench.warm) {
        return Err("the component can read the time, random numbers or data of the run");
    }
    let faults = each(asks, |ask| {
        let first = ask.run(bench.machine, &bench.warm, None).got;
        let second = ask.run(bench.machine, &bench.fresh, None).got;
        let third = ask.run(bench.machine, &bench.warm, None).got;
        let other = [second, third].into_iter().find(|other| *other != first)?;
        Some(format!(
            "it answers {} and {}",
            shown(&first),
            shown(&other)
        ))
    });
    match faults.is_empty() || is_determined(&bench.warm) {
        true => Ok(faults),
        false => Err("its answers depend on the context of the call"),
    }
}
