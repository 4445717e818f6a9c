//! The examples of a plugin: calls of its nodes and of its consumer, each with the result that it has
//! to have. They are JSON files in the folder `examples` of a project, one call in each.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use windlass_model::nearest::did_you_mean;
use windlass_model::{Class, LogLine, Outcome, Payload, TriggerType};
use windlass_plugins::{Accept, Disposition, Effects, NodeType, Plugin, Returned};

use super::call::{call_of, content, cx};
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::wire::Machine;

/// The folder of the examples in a project.
pub(super) const FOLDER: &str = "examples";

/// The most bytes of one file.
const MAX_BYTES: u64 = 16 << 20;

/// The most files of a folder that are read.
const MAX_FILES: usize = 1_000;

/// A call, and the result that it has to have.
#[derive(Clone)]
pub(super) struct Example {
    /// The name of its file, without the ending.
    pub(super) name: String,
    /// The call.
    pub(super) ask: Ask,
    /// The result. None: any but a crash.
    expect: Option<Expect>,
}

/// A call.
#[derive(Clone)]
pub(super) enum Ask {
    /// Of a node.
    Node {
        node: Arc<NodeType>,
        with: Value,
        input: Value,
    },
    /// Of the consumer.
    Trigger {
        kind: TriggerType,
        node: Option<Arc<str>>,
        payload: Option<Value>,
    },
}

/// A file of an example.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    node: Option<String>,
    #[serde(default)]
    with: Option<Value>,
    #[serde(default)]
    input: Value,
    trigger: Option<WrittenTrigger>,
    expect: Option<Expect>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTrigger {
    r#type: TriggerType,
    node: Option<Arc<str>>,
    payload: Option<Value>,
}

/// The parts of a result that an example fixes.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    /// `done`, `suspend` or `again`.
    outcome: Option<String>,
    #[serde(default, deserialize_with = "present")]
    output: Option<Value>,
    ports: Option<Vec<String>>,
    /// The class of a failure.
    error: Option<Class>,
    /// A part of the message of a failure or of a rejection.
    message: Option<String>,
    /// `execute`, `handled`, `later` or `reject`.
    decision: Option<String>,
    #[serde(default, deserialize_with = "present")]
    vars: Option<Value>,
}

/// A value that is there, also if it is `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Got {
    /// `done`, `suspend` or `again` of a node, a decision of a consumer, or `failure`.
    pub(super) what: &'static str,
    /// The class of a failure.
    pub(super) class: Option<Class>,
    /// The output, the bookmarks, the assigned variables; else null.
    pub(super) value: Value,
    /// The ports of a node that is done.
    pub(super) ports: Vec<String>,
    /// The message of a failure or of a rejection.
    pub(super) message: String,
}

/// A call that has ended.
pub(super) struct Ran {
    pub(super) got: Got,
    pub(super) logs: Vec<LogLine>,
    /// The events and triggers that it asked for. They are dropped.
    pub(super) effects: Vec<Value>,
    pub(super) took: Duration,
    pub(super) memory_bytes: u64,
}

/// Reads the examples of a folder, in the order of their names. A folder that does not exist has none.
pub(super) fn read(folder: &Path, plugin: &Plugin) -> Result<Vec<Example>, Expected> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let is_json = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "json");
    let mut paths: Vec<_> = paths.filter(is_json).collect();
    paths.sort();
    paths.truncate(MAX_FILES);
    paths.iter().map(|path| one(path, plugin)).collect()
}

fn one(path: &Path, plugin: &Plugin) -> Result<Example, Expected> {
    let wrong = |why: String| {
        let text = format!("{}: {why}", path.display());
        Expected::new(codes::EXAMPLE, text)
            .help("`windlass explain WL-U035` shows an example.")
            .exit(Exit::Plugin)
    };
    let bytes = windlass_files::read_regular(path, MAX_BYTES);
    let bytes = bytes.map_err(|error| wrong(error.to_string()))?;
    let written: Written =
        serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let ask = ask(&written, plugin).map_err(wrong)?;
    let name = path.file_stem().unwrap_or_default();
    Ok(Example {
        name: name.to_string_lossy().into_owned(),
        ask,
        expect: written.expect,
    })
}

/// The call of an example.
fn ask(written: &Written, plugin: &Plugin) -> Result<Ask, String> {
    match (&written.node, &written.trigger) {
        (Some(_), Some(_)) => Err("it has a `node` and a `trigger`: it is one call".into()),
        (None, None) => Err("it has neither a `node` nor a `trigger`".into()),
        (Some(name), None) => {
            let package = &plugin.description.package;
            let own = name
                .strip_prefix(package)
                .and_then(|it| it.strip_prefix('/'));
            let own = own.unwrap_or(name);
            let node = plugin.node(own).ok_or_else(|| {
                let nodes = plugin.description.nodes.iter();
                let hint = did_you_mean(own, nodes.map(|node| node.name.as_str()));
                let hint = hint.map_or_else(String::new, |hint| format!(": {hint}"));
                format!("`{package}` has no node `{own}`{hint}")
            })?;
            Ok(Ask::Node {
                node: Arc::clone(node),
                with: written.with.clone().unwrap_or_else(|| json!({})),
                input: written.input.clone(),
            })
        }
        (None, Some(_)) if plugin.description.consumer.is_none() => {
            Err("it has a `trigger`, and the plugin has no consumer".into())
        }
        (None, Some(trigger)) => Ok(Ask::Trigger {
            kind: trigger.r#type,
            node: trigger.node.clone(),
            payload: trigger.payload.clone(),
        }),
    }
}

impl Example {
    /// An example without a result.
    pub(super) fn of(name: &str, ask: Ask) -> Self {
        Self {
            name: name.to_owned(),
            ask,
            expect: None,
        }
    }

    /// The input of the call.
    pub(super) fn input(&self) -> Option<&Value> {
        match &self.ask {
            Ask::Node { input, .. } => Some(input),
            Ask::Trigger { payload, .. } => payload.as_ref(),
        }
    }

    /// The same call with another input, and with any result.
    pub(super) fn with_input(&self, new: Value) -> Self {
        let mut ask = self.ask.clone();
        match &mut ask {
            Ask::Node { input, .. } => *input = new,
            Ask::Trigger { payload, .. } => *payload = Some(new),
        }
        Self::of(&self.name, ask)
    }

    /// The differences between a result and the expected one.
    pub(super) fn differences(&self, got: &Got) -> Vec<String> {
        let Some(expect) = &self.expect else {
            let crash = got.class.filter(|class| !is_own(*class));
            return crash.map(|_| got.headline()).into_iter().collect();
        };
        let mut found = Vec::new();
        let mut differs = |what: &str, expected: &str, got: &str| {
            found.push(format!("{what} has to be {expected}, and is {got}"));
        };
        match expect.error {
            Some(class) if got.class != Some(class) => {
                let expected = format!("a failure of class {class}");
                differs("the result", &expected, &got.headline());
            }
            None if got.class.is_some() => {
                differs("the result", &expect.headline(), &got.headline());
                return found;
            }
            _ => {}
        }
        for wanted in expect.outcome.iter().chain(&expect.decision) {
            if wanted != got.what {
                differs("the result", wanted, got.what);
            }
        }
        if let Some(ports) = expect.ports.as_ref().filter(|ports| **ports != got.ports) {
            differs(
                "`ports`",
                &json!(ports).to_string(),
                &json!(got.ports).to_string(),
            );
        }
        for (what, wanted) in [("`output`", &expect.output), ("`vars`", &expect.vars)] {
            if let Some(wanted) = wanted.as_ref().filter(|wanted| **wanted != got.value) {
                differs(what, &sorted(wanted), &sorted(&got.value));
            }
        }
        if let Some(part) = expect
            .message
            .as_ref()
            .filter(|part| !got.message.contains(*part))
        {
            differs(
                "`message`",
                &format!("`…{part}…`"),
                &format!("`{}`", got.message),
            );
        }
        found
    }

    /// Makes the call.
    pub(super) fn run(
        &self,
        machine: &Machine,
        plugin: &Arc<Plugin>,
        timeout: Option<Duration>,
    ) -> Ran {
        let plugin = Arc::clone(plugin);
        match &self.ask {
            Ask::Node { node, with, input } => match call_of(node, with.clone(), input) {
                Ok(mut call) => {
                    call.timeout = timeout;
                    ran(machine.tokio.block_on(plugin.execute(call)), of_node)
                }
                // The host refuses the call, as it does in a run.
                Err(refused) => Ran {
                    got: Got {
                        what: "failure",
                        class: Some(Class::Invalid),
                        value: Value::Null,
                        ports: Vec::new(),
                        message: refused.to_string(),
                    },
                    logs: Vec::new(),
                    effects: Vec::new(),
                    took: Duration::ZERO,
                    memory_bytes: 0,
                },
            },
            Ask::Trigger {
                kind,
                node,
                payload,
            } => {
                let accept = Accept {
                    kind: *kind,
                    node: node.clone(),
                    payload: payload.as_ref().map(Payload::of),
                    cx: cx(Arc::default()),
                    slot_key: 0,
                    timeout,
                };
                ran(machine.tokio.block_on(plugin.accept(accept)), of_consumer)
            }
        }
    }

    /// Makes the call of a node past the checks that the host makes before it, and those of the
    /// result after it.
    pub(super) fn run_unchecked(
        &self,
        machine: &Machine,
        plugin: &Arc<Plugin>,
        timeout: Option<Duration>,
    ) -> Ran {
        let Ask::Node { node, with, input } = &self.ask else {
            return self.run(machine, plugin, timeout);
        };
        let call = windlass_plugins::Call {
            node_type: Arc::clone(&node.id),
            config: Payload::of(with),
            input: Payload::of(input),
            cx: cx(Arc::default()),
            slot_key: 0,
            timeout,
            queued: None,
        };
        let plugin = Arc::clone(plugin);
        ran(machine.tokio.block_on(plugin.execute(call)), of_node)
    }
}

/// Whether a plugin reports failures of this class itself: all others are crashes or used-up limits.
pub(super) fn is_own(class: Class) -> bool {
    use Class::{Cancelled, Invalid, Permanent, Rejected, Retryable};
    matches!(
        class,
        Invalid | Permanent | Retryable | Cancelled | Rejected
    )
}

/// JSON with the members of objects in order.
fn sorted(value: &Value) -> String {
    fn sort(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by_key(|(name, _)| *name);
                let members = members
                    .into_iter()
                    .map(|(name, it)| (name.clone(), sort(it)));
                Value::Object(members.collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(sort).collect()),
            other => other.clone(),
        }
    }
    sort(value).to_string()
}

fn ran<T>(
    returned: Returned<T>,
    read: impl FnOnce(T, &[(windlass_model::Digest, bytes::Bytes)]) -> Got,
) -> Ran {
    let effects = asked(&returned.effects, &returned.blobs);
    let got = match returned.result {
        Ok(value) => read(value, &returned.blobs),
        Err(failed) => Got {
            what: "failure",
            class: Some(failed.class),
            value: Value::Null,
            ports: Vec::new(),
            message: crate::failure::message(&windlass_server::Failure::from(&failed)),
        },
    };
    Ran {
        got,
        logs: returned.logs,
        effects,
        took: returned.took,
        memory_bytes: returned.memory_bytes,
    }
}

/// The effects of a call, in its order.
fn asked(effects: &Effects, blobs: &[(windlass_model::Digest, bytes::Bytes)]) -> Vec<Value> {
    let sent = effects.sent.iter().map(|it| {
        let mut event = json!({ "event": it.name, "input": value(&it.input, blobs) });
        let parts = [
            ("match", (!it.matches.is_null()).then(|| it.matches.clone())),
            ("correlation", it.correlation.as_deref().map(Value::from)),
            ("run", it.run.map(|run| Value::from(run.to_string()))),
        ];
        for (name, part) in parts {
            if let (Some(part), Some(members)) = (part, event.as_object_mut()) {
                members.insert(name.to_owned(), part);
            }
        }
        event
    });
    let scheduled = effects.scheduled.iter().map(|it| {
        let vars = it.vars.as_ref().map(|vars| value(vars, blobs));
        json!({ "trigger": it.node, "vars": vars })
    });
    sent.chain(scheduled).collect()
}

/// JSON, or else a text.
fn value(payload: &Payload, blobs: &[(windlass_model::Digest, bytes::Bytes)]) -> Value {
    let bytes = content(payload, blobs);
    let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
    serde_json::from_slice(&bytes).unwrap_or_else(|_| text())
}

fn of_node(outcome: Outcome, blobs: &[(windlass_model::Digest, bytes::Bytes)]) -> Got {
    let (what, value, ports) = match outcome {
        Outcome::Done(done) if done.ports.is_empty() => {
            ("done", value(&done.output, blobs), vec!["done".to_owned()])
        }
        Outcome::Done(done) => ("done", value(&done.output, blobs), done.ports),
        Outcome::Suspend(suspension) => ("suspend", json!(suspension.bookmarks), Vec::new()),
        Outcome::Again(again) => ("again", json!({ "after_ms": again.after_ms }), Vec::new()),
    };
    Got {
        what,
        class: None,
        value,
        ports,
        message: String::new(),
    }
}

fn of_consumer(disposition: Disposition, blobs: &[(windlass_model::Digest, bytes::Bytes)]) -> Got {
    let (what, value, message) = match disposition {
        Disposition::Execute { vars } => {
            let vars = vars.as_ref().map(|vars| value(vars, blobs));
            ("execute", vars.unwrap_or_default(), String::new())
        }
        Disposition::Handled => ("handled", Value::Null, String::new()),
        Disposition::Later { after_ms } => {
            ("later", json!({ "after_ms": after_ms }), String::new())
        }
        Disposition::Reject(failure) => ("reject", Value::Null, failure.message),
    };
    Got {
        what,
        class: None,
        value,
        ports: Vec::new(),
        message,
    }
}

impl Expect {
    fn headline(&self) -> String {
        match (&self.outcome, &self.decision, &self.output) {
            (Some(what), ..) | (_, Some(what), _) => what.clone(),
            (_, _, Some(output)) => sorted(output),
            _ => "no failure".to_owned(),
        }
    }
}

impl Got {
    /// The result on one line.
    pub(super) fn headline(&self) -> String {
        let mut text = match self.class {
            Some(class) => format!("a failure of class {class}"),
            None => self.what.to_owned(),
        };
        if !self.message.is_empty() {
            // Writing into a string cannot fail.
            let _ = write!(text, ": {}", self.message);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(output: Value) -> Got {
        Got {
            what: "done",
            class: None,
            value: output,
            ports: vec!["done".into()],
            message: String::new(),
        }
    }

    fn failed(class: Class, message: &str) -> Got {
        Got {
            what: "failure",
            class: Some(class),
            value: Value::Null,
            ports: Vec::new(),
            message: message.into(),
        }
    }

    fn check(expect: Value, got: &Got, differences: &[&str]) {
        let ask = Ask::Trigger {
            kind: TriggerType::Manual,
            node: None,
            payload: None,
        };
        let mut example = Example::of("it", ask);
        example.expect = serde_json::from_value(expect).unwrap();
        assert_eq!(example.differences(got), differences);
    }

    #[test]
    fn a_result_has_the_parts_that_an_example_names() {
        let got = done(json!({ "b": 2, "a": [1, null] }));
        check(json!(null), &got, &[]);
        check(json!({ "output": { "a": [1, null], "b": 2 } }), &got, &[]);
        check(json!({ "ports": ["done"], "outcome": "done" }), &got, &[]);
        check(
            json!({ "output": null }),
            &got,
            &[r#"`output` has to be null, and is {"a":[1,null],"b":2}"#],
        );
        check(
            json!({ "error": "invalid" }),
            &got,
            &["the result has to be a failure of class invalid, and is done"],
        );
        check(
            json!({ "outcome": "again", "ports": ["a"] }),
            &got,
            &[
                "the result has to be again, and is done",
                r#"`ports` has to be ["a"], and is ["done"]"#,
            ],
        );
    }

    #[test]
    fn a_failure_has_its_class_and_a_part_of_its_message() {
        let got = failed(Class::Invalid, "`name` is empty");
        check(json!({ "error": "invalid" }), &got, &[]);
        check(json!({ "error": "invalid", "message": "empty" }), &got, &[]);
        check(
            json!({ "error": "invalid", "message": "full" }),
            &got,
            &["`message` has to be `…full…`, and is ``name` is empty`"],
        );
        check(
            json!({ "output": 1 }),
            &got,
            &["the result has to be 1, and is a failure of class invalid: `name` is empty"],
        );
        // Without a result, a failure that the plugin reports is one, and a crash is none.
        check(json!(null), &got, &[]);
        check(
            json!(null),
            &failed(Class::Trap, "unreachable"),
            &["a failure of class trap: unreachable"],
        );
    }
}
