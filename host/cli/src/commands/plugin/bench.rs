//! `windlass plugin bench`: how fast the nodes of a plugin are, beside a node of the library.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use windlass_model::definition::UseRef;
use windlass_plugins::{Call, Host, Isolation, NodeType, Plugin};

use super::call::call_of;
use super::example::{Ask, Example};
use super::subject::Subject;
use super::test::{asks, host_without_grants};
use crate::app::Context;
use crate::codes;
use crate::commands::took;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::table;
use crate::wire::{Machine, compile};

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Each node is called with its first example, or with an input that fits its schemas: \
                  by one caller whose calls share an instance, by several at once, and with an \
                  instance of its own for each call, as `isolation = \"call\"` has it. The calls \
                  have no grants. Nothing else should run on the machine meanwhile."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    subject: Subject,
    /// The time of each measurement, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// The calls at once
    #[arg(long, value_name = "CALLS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    at_once: u32,
}

/// The node of the library that stands beside those of the plugin.
const REFERENCE: (&str, &str) = ("text", "template");

/// The most calls whose durations are kept, for each caller.
const KEPT: usize = 1_000_000;

/// A way of calling a node.
#[derive(Clone, Copy)]
struct Manner {
    name: &'static str,
    isolation: Isolation,
    callers: u32,
}

/// The result of a measurement.
#[derive(Debug, Serialize)]
struct Measured {
    node: String,
    /// `warm`, `at-once` or `fresh`.
    manner: &'static str,
    /// Calls at once.
    callers: u32,
    calls: usize,
    /// By the clock, with the host's part of a call.
    calls_per_second: f64,
    /// Inside of the instance, in microseconds.
    p50_us: u64,
    p99_us: u64,
    /// The first call of all, in microseconds.
    first_us: u64,
    /// The linear memory of an instance after its last call.
    memory_bytes: u64,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("error")?)?;
        let component = self.subject.component(context, &machine)?;
        let begun = machine.clock.monotonic();
        let package = {
            let host = machine.host(compile::noted(context.output))?;
            let plugin = host.load_file(&component.file)?;
            say_loaded(
                context,
                &plugin,
                machine.clock.monotonic().saturating_sub(begun),
            );
            plugin.description.package.clone()
        };
        let mut measured = Vec::new();
        let manner = |name, isolation, callers| Manner {
            name,
            isolation,
            callers,
        };
        let manners = [
            manner("warm", Isolation::Warm, 1),
            manner("at-once", Isolation::Warm, self.at_once),
            manner("fresh", Isolation::Call, 1),
        ];
        for manner in manners {
            let packages = [package.as_str(), REFERENCE.0];
            let host = host_without_grants(context, &machine, &packages, manner.isolation)?;
            let plugin = host.load_file(&component.file)?;
            for ask in asks(&plugin, &component.examples(&plugin)?) {
                measured.extend(self.measure(context, &machine, &plugin, &ask, manner)?);
            }
            if let Some((plugin, node)) = reference(&host) {
                let ask = Ask::Node {
                    node,
                    with: json!({ "template": "n is {{ n }}" }),
                    input: json!({ "n": 1 }),
                };
                let ask = Example::of("reference", ask);
                measured.extend(self.measure(context, &machine, &plugin, &ask, manner)?);
            }
        }
        if measured.is_empty() {
            let text = format!("{package} has no nodes");
            return Err(Expected::new(codes::USAGE, text).exit(Exit::Plugin).into());
        }
        // The rows of a node stand together.
        let mut nodes: Vec<String> = Vec::new();
        for row in &measured {
            if !nodes.contains(&row.node) {
                nodes.push(row.node.clone());
            }
        }
        measured.sort_by_key(|row| nodes.iter().position(|node| *node == row.node));
        context
            .output
            .list(&measured, || rows(&measured, &package))?;
        Ok(Exit::Done)
    }

    /// Calls a node for the time of a measurement. None: its first call does not succeed.
    fn measure(
        &self,
        context: &Context,
        machine: &Machine,
        plugin: &Arc<Plugin>,
        ask: &Example,
        manner: Manner,
    ) -> anyhow::Result<Option<Measured>> {
        let Ask::Node { node, with, input } = &ask.ask else {
            return Ok(None);
        };
        let first = ask.run(machine, plugin, None);
        if let Some(class) = first.got.class {
            let id = &node.id;
            context.output.warn(&format!(
                "{id} is not measured: its call fails with a failure of class `{class}`: {}; write \
                 an example with an input that it takes",
                first.got.message
            ));
            return Ok(None);
        }
        let until = machine.clock.monotonic() + Duration::from_secs(self.seconds);
        let begun = machine.clock.monotonic();
        let callers = (0..manner.callers).map(|_| -> anyhow::Result<_> {
            let call = call_of(node, with.clone(), input)?;
            let (plugin, clock) = (Arc::clone(plugin), Arc::clone(&machine.clock));
            Ok(machine.tokio.spawn(async move {
                let (mut times, mut memory_bytes, mut failed) = (Vec::new(), 0, None);
                while clock.monotonic() < until && failed.is_none() {
                    let returned = Arc::clone(&plugin).execute(again(&call)).await;
                    match returned.result {
                        Ok(_) => memory_bytes = returned.memory_bytes,
                        Err(failure) => failed = Some(failure),
                    }
                    if times.len() < KEPT {
                        times.push(returned.took);
                    }
                }
                (times, memory_bytes, failed)
            }))
        });
        let callers: Vec<_> = callers.collect::<anyhow::Result<_>>()?;
        let (mut times, mut memory_bytes) = (Vec::new(), 0);
        for caller in callers {
            let (its, memory, failed) = machine.tokio.block_on(caller)?;
            if let Some(failure) = failed {
                let text = format!("a call of {} failed: {}", node.id, failure.message);
                return Err(Expected::new(failure.code, text).exit(Exit::Plugin).into());
            }
            times.extend(its);
            memory_bytes = memory_bytes.max(memory);
        }
        let lasted = machine.clock.monotonic().saturating_sub(begun);
        times.sort_unstable();
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let quantile = |part: usize| times.get(times.len() * part / 100).copied();
        Ok(Some(Measured {
            node: node.id.to_string(),
            manner: manner.name,
            callers: manner.callers,
            calls: times.len(),
            calls_per_second: (times.len() as f64 / lasted.as_secs_f64()).round(),
            p50_us: us(quantile(50).unwrap_or_default()),
            p99_us: us(quantile(99).unwrap_or_default()),
            first_us: us(first.took),
            memory_bytes,
        }))
    }
}

fn say_loaded(context: &Context, plugin: &Plugin, loaded: Duration) {
    let us = u64::try_from(loaded.as_micros()).unwrap_or(u64::MAX);
    let text = format!("{}, loaded in {}", plugin.name(), took(us));
    context.output.note(&text);
}

/// The same call once more.
fn again(call: &Call) -> Call {
    Call {
        node_type: Arc::clone(&call.node_type),
        config: call.config.clone(),
        input: call.input.clone(),
        cx: call.cx.clone(),
        slot_key: call.slot_key,
        timeout: call.timeout,
        queued: None,
    }
}

/// The node of the library; none in a program without one.
fn reference(host: &Host) -> Option<(Arc<Plugin>, Arc<NodeType>)> {
    host.scan(&[]);
    let (package, name) = REFERENCE;
    let wanted = UseRef {
        package: package.into(),
        name: name.into(),
        requirement: None,
    };
    host.registry().node(&wanted).ok()
}

fn rows(measured: &[Measured], package: &str) -> String {
    let head = ["node", "calls", "a second", "p50", "p99", "first", "memory"];
    let row = |row: &Measured| {
        let is_own = row.node.starts_with(&format!("{package}/"));
        let mark = if is_own { "" } else { " (library)" };
        let manner = match row.manner {
            "at-once" => format!("{} at once", row.callers),
            "fresh" => "fresh instance".to_owned(),
            manner => manner.to_owned(),
        };
        vec![
            format!("{}{mark}", row.node),
            manner,
            format!("{:.0}", row.calls_per_second),
            took(row.p50_us),
            took(row.p99_us),
            took(row.first_us),
            format!("{} KiB", row.memory_bytes / 1024),
        ]
    };
    table(&head, measured.iter().map(row).collect())
}
