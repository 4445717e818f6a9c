//! `windlass plugin call`, and calls of single nodes that other commands make, too.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use windlass_model::definition::UseRef;
use windlass_model::secrets::Reference;
use windlass_model::{Body, Digest, LogLine, Outcome, Payload, RunId, Seq};
use windlass_plugins::{Call, CallContext, Host, NodeType, Plugin, bind_secrets, secret_handles};

use crate::app::Context;
use crate::commands::took;
use crate::error::{Expected, sentence};
use crate::exit::Exit;
use crate::output::Output;
use crate::wire::{Machine, compile};
use crate::{codes, failure, input};

/// The arguments of `plugin call`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The node type, like `data/jq` or `data/jq@1`
    node: String,
    /// The plugin's file, in place of the installed plugins
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The configuration: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT", allow_negative_numbers = true)]
    with: Vec<String>,
    /// The input: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT", allow_negative_numbers = true)]
    input: Vec<String>,
}

impl Arguments {
    pub(super) fn run(self, context: &Context, machine: &Machine) -> anyhow::Result<Exit> {
        let output = &context.output;
        let (host, plugin, node) = self.find(output, machine)?;
        let config = input::parse_for(&self.with, Some(&node.config))?;
        let data = input::parse_for(&self.input, Some(&node.input))?;
        let call = call_of(&node, config, &data)?;
        let returned = machine.tokio.block_on(Arc::clone(&plugin).execute(call));
        drop(host);
        let bytes = |payload: &Payload| content(payload, &returned.blobs);
        logs(output, &returned.logs);
        cost(output, returned.took, returned.memory_bytes);
        match returned.result {
            Err(failed) => {
                let failure = windlass_server::Failure::from(&failed);
                let text = format!("{} failed: {}", node.id, failure::message(&failure));
                let expected = Expected::new(failed.code, text)
                    .note(failure::note(&failure))
                    .help(format!("It is a failure of class `{}`.", failure.class));
                Err(expected.into())
            }
            Ok(outcome) => {
                print_outcome(output, &outcome, &bytes)?;
                Ok(Exit::Done)
            }
        }
    }

    fn find(
        &self,
        output: &Output,
        machine: &Machine,
    ) -> anyhow::Result<(Arc<Host>, Arc<Plugin>, Arc<NodeType>)> {
        let wanted = wanted(&self.node)?;
        let host = match &self.file {
            None => machine.loaded_host(output)?,
            Some(file) => {
                let host = machine.host(compile::noted(*output))?;
                let plugin = host.load_file(file)?;
                host.registry().insert(file, &plugin)?;
                host
            }
        };
        let (plugin, node) = host.registry().node(&wanted).map_err(|missing| {
            let nearest = missing
                .nearest
                .map(|near| format!("Did you mean `{near}`? "));
            let help = "`windlass plugin list` lists the plugins.";
            Expected::new(codes::NO_PLUGIN, sentence(&missing.message))
                .help(format!("{}{help}", nearest.unwrap_or_default()))
                .exit(Exit::NotFound)
        })?;
        Ok((host, plugin, node))
    }
}

fn wanted(text: &str) -> Result<UseRef, Expected> {
    let (path, requirement) = match text.split_once('@') {
        Some((path, requirement)) => (path, Some(requirement.to_owned())),
        None => (text, None),
    };
    match path.split_once('/') {
        Some((package, name)) => Ok(UseRef {
            package: package.into(),
            name: name.into(),
            requirement,
        }),
        None => Err(
            Expected::new(codes::USAGE, format!("`{text}` names no node type"))
                .help("Write `package/name`, as `windlass plugin inspect PACKAGE` shows it."),
        ),
    }
}

/// A call of a node as a run would make it.
pub(super) fn call_of(node: &NodeType, mut config: Value, data: &Value) -> anyhow::Result<Call> {
    let secrets = bind_secrets(&mut config);
    check(node, &mut config, data)?;
    let config = bytes::Bytes::from(config.to_string());
    let (config, secrets) = secret_handles(config, &secrets)
        .map_err(|failure| anyhow::Error::msg(failure.message.clone()))?;
    Ok(Call {
        node_type: Arc::clone(&node.id),
        config: Payload::json(config),
        input: Payload::of(data),
        cx: cx(secrets),
        slot_key: 0,
        timeout: None,
        queued: None,
    })
}

/// The bytes of a payload, which may be among the blobs of its call.
pub(super) fn content(payload: &Payload, blobs: &[(Digest, bytes::Bytes)]) -> bytes::Bytes {
    match &payload.body {
        Body::Inline(bytes) => bytes.clone(),
        Body::Blob(blob) => blobs
            .iter()
            .find(|(digest, _)| *digest == blob.digest)
            .map(|(_, bytes)| bytes.clone())
            .unwrap_or_default(),
    }
}

/// Completes the configuration by its defaults, and checks it and the input, as a run would.
fn check(node: &NodeType, config: &mut Value, data: &Value) -> Result<(), Expected> {
    use windlass_model::schema::Schema;
    let mut unable = None;
    if let Ok(schema) = Schema::of_plugin(&node.config) {
        match schema.completed(config.take(), "") {
            Ok(completed) => *config = completed,
            Err(found) => unable = Some(*found),
        }
    }
    for (what, schema, value) in [
        ("--with", &node.config, &*config),
        ("--input", &node.input, data),
    ] {
        let Ok(schema) = Schema::compile(schema) else {
            continue;
        };
        let wrong = match unable.take() {
            Some(found) => vec![found],
            None => schema.check(value, ""),
        };
        if wrong.is_empty() {
            continue;
        }
        let all: Vec<_> = wrong
            .iter()
            .map(|diagnostic| format!("{}: {}", diagnostic.place.pointer, diagnostic.message))
            .collect();
        let text = format!("{what} does not fit {}: {}", node.id, all.join("; "));
        let package = node.id.split('/').next().unwrap_or_default();
        let help = format!(
            "`windlass plugin inspect {package} --schemas` shows the schemas of its nodes."
        );
        return Err(Expected::new(codes::INPUT, text).help(help));
    }
    Ok(())
}

/// The context of the call. Secret references in its configuration are resolved as in a definition.
pub(super) fn cx(secrets: Arc<[Reference]>) -> CallContext {
    let no_run = RunId(uuid::Uuid::nil());
    CallContext {
        node: Some("call".into()),
        secrets,
        ..CallContext::new(no_run, "plugin-call".into(), Seq(1))
    }
}

fn logs(output: &Output, lines: &[LogLine]) {
    lines.iter().for_each(|line| output.note(&log_line(line)));
}

/// A line of a log, with its level and its fields.
pub(super) fn log_line(line: &LogLine) -> String {
    let fields = line.fields.iter();
    let fields: String = fields
        .map(|(name, value)| format!(" {name}={value}"))
        .collect();
    format!("{:<5} {}{fields}", line.level, line.message)
}

fn cost(output: &Output, time: Duration, memory_bytes: u64) {
    let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let text = format!("took {}, memory {} KiB", took(us), memory_bytes / 1024);
    output.note(&output.notes.dim(text));
}

fn print_outcome(
    output: &Output,
    outcome: &Outcome,
    bytes: &dyn Fn(&Payload) -> bytes::Bytes,
) -> anyhow::Result<()> {
    let shown = |payload: &Payload| {
        let bytes = bytes(payload);
        serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()))
    };
    match outcome {
        Outcome::Done(done) => {
            let value = shown(&done.output);
            let ports = if done.ports.is_empty() {
                vec!["done".to_owned()]
            } else {
                done.ports.clone()
            };
            if ports != ["done"] {
                output.note(&format!("ports {}", ports.join(", ")));
            }
            output.show_document(
                &json!({ "outcome": "done", "ports": ports, "output": value }),
                || format!("{value:#}"),
            )
        }
        Outcome::Suspend(suspension) => {
            let item = json!({ "outcome": "suspend", "bookmarks": suspension.bookmarks });
            output.show_document(&item, || format!("{item:#}"))
        }
        Outcome::Again(again) => {
            let item = json!({ "outcome": "again", "after_ms": again.after_ms });
            output.show_document(&item, || format!("{item:#}"))
        }
    }
}
