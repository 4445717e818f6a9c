//! `windlass plugin inspect`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use windlass_plugins::{Consumer, Host, NodeType, Plugin, Purity, Standing};

use super::list::{summary, unproved};
use crate::app::Context;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::{self, Output};
use crate::wire::{Machine, compile};

/// The arguments of `plugin inspect`.
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The name of a package, or a file
    pub(super) plugin: String,
    /// Also show the schemas
    #[arg(long)]
    schemas: bool,
}

/// The triggers that a consumer takes; `list` shows the names of types and routes.
pub(super) fn consumed(consumer: &Consumer, list: &dyn Fn(&[String]) -> String) -> String {
    let types = match consumer.types.iter().any(|it| it == "*") {
        true => "every trigger".to_owned(),
        false => format!("triggers of the types {}", list(&consumer.types)),
    };
    match consumer.routes.as_slice() {
        [] => format!("{types} without a route"),
        routes @ [_] => format!("{types} of the route {}", list(routes)),
        routes => format!("{types} of the routes {}", list(routes)),
    }
}

/// The newest plugin of a package, in its host.
pub(super) fn named(
    output: &Output,
    machine: &Machine,
    package: &str,
) -> anyhow::Result<(Arc<Host>, Arc<Plugin>)> {
    let host = machine.loaded_host(output)?;
    let plugins = host.registry().iter();
    let mut newest = plugins.iter().rev();
    let plugin = newest.find(|plugin| plugin.description.package == package);
    let plugin = plugin.cloned().ok_or_else(|| {
        let names = plugins
            .iter()
            .map(|plugin| plugin.description.package.as_str());
        let hint = windlass_model::nearest::did_you_mean(package, names);
        let help = hint.map_or_else(String::new, |hint| format!("{hint} "));
        let text = format!("There is no plugin, and no file, `{package}`");
        Expected::new(codes::NO_PLUGIN, text)
            .help(format!("{help}`windlass plugin list` lists the plugins."))
            .exit(Exit::NotFound)
    })?;
    Ok((host, plugin))
}

impl Inspect {
    pub(super) fn run(&self, context: &Context, machine: &Machine) -> anyhow::Result<Exit> {
        let plugin = self.find(&context.output, machine)?;
        let item = self.item(&plugin);
        context
            .output
            .show(&item, || self.text(&plugin, &context.output))?;
        Ok(Exit::Done)
    }

    fn find(&self, output: &Output, machine: &Machine) -> anyhow::Result<Arc<Plugin>> {
        let path = Path::new(&self.plugin);
        if path.is_file() {
            return Ok(machine.host(compile::noted(*output))?.load_file(path)?);
        }
        Ok(named(output, machine, &self.plugin)?.1)
    }

    fn item(&self, plugin: &Plugin) -> Value {
        let nodes: Vec<_> = plugin
            .description
            .nodes
            .iter()
            .map(|node| {
                json!({
                    "id": node.id,
                    "title": node.title,
                    "description": node.description,
                    "ports": node.ports,
                    "capabilities": node.capabilities,
                    "suspends": node.suspends,
                    "config": node.config,
                    "input": node.input,
                    "output": node.output,
                })
            })
            .collect();
        let limits = plugin.limits();
        let grants = plugin.grants();
        let http: Vec<_> = grants.http.iter().map(ToString::to_string).collect();
        let mut item = summary(plugin);
        if let Value::Object(members) = &mut item {
            members.insert("description".into(), json!(plugin.description.description));
            members.insert("imports".into(), json!(plugin.imports));
            let refused: Vec<&str> = plugin.refused_imports().collect();
            members.insert("refused_imports".into(), json!(refused));
            members.insert("nodes".into(), json!(nodes));
            let consumes = plugin.description.consumer.as_ref();
            let consumes = consumes.map(|it| json!({ "types": it.types, "routes": it.routes }));
            members.insert("consumes".into(), json!(consumes));
            let grants = json!({
                "http": http,
                "secrets": grants.secrets,
                "events": grants.events,
                "consumer": grants.consumer,
            });
            members.insert("grants".into(), grants);
            let limits = json!({
                "memory_bytes": limits.memory_bytes,
                "deadline_ms": limits.deadline.as_millis(),
                "payload_bytes": limits.payload_bytes,
            });
            members.insert("limits".into(), limits);
        }
        item
    }

    fn text(&self, plugin: &Plugin, output: &Output) -> String {
        let paint = output.data;
        let about = &plugin.description;
        let mut text = format!(
            "{} {}\n",
            paint.strong(plugin.name()),
            output::name(&about.title)
        );
        let mut line = |name: &str, value: String| {
            if !value.is_empty() {
                // Writing into a string cannot fail.
                let _ = writeln!(text, "{name:<10} {}", value.replace('\n', "\n           "));
            }
        };
        line("about", about.description.clone());
        line("file", output::file(&plugin.file));
        line("digest", plugin.digest.to_string());
        let effects = match plugin.purity {
            Purity::Pure => "none: its imports prove that it is pure",
            Purity::Effectful => "it can reach out (http or events), as far as it is granted",
        };
        line("effects", effects.to_owned());
        line("imports", plugin.imports.join("\n"));
        let refused: Vec<&str> = plugin.refused_imports().collect();
        if !refused.is_empty() {
            let refused = refused.join("\n");
            line(
                "refused",
                format!("{refused}\nthis host does not offer them: they refuse every access"),
            );
        }
        if let Some(consumer) = &about.consumer {
            let takes = consumed(consumer, &|names| names.join(", "));
            line(
                "consumes",
                match plugin.consumer() {
                    Some(_) => takes,
                    None => format!("nothing: it takes {takes}, and `consumer` is not granted"),
                },
            );
        }
        match plugin.standing() {
            Standing::Unnamed => {}
            Standing::Proved(proof) => line("proved by", proof.to_string()),
            Standing::Unproved => line("proved by", unproved(plugin)),
        }
        let grants = plugin.grants();
        let mut granted: Vec<_> = grants
            .http
            .iter()
            .map(|grant| format!("http {grant}"))
            .collect();
        granted.extend(grants.secrets.iter().map(|name| format!("secret {name}")));
        granted.extend(grants.events.then(|| "events".to_owned()));
        granted.extend(plugin.consumer().map(|_| "consumer".to_owned()));
        line("granted", granted.join("\n"));
        for node in &about.nodes {
            self.node_text(&mut text, node, output);
        }
        text
    }

    fn node_text(&self, text: &mut String, node: &NodeType, output: &Output) {
        let paint = output.data;
        // Writing into a string cannot fail.
        let _ = writeln!(text, "\n{} {}", paint.strong(&node.id), node.title);
        if !node.description.is_empty() {
            let _ = writeln!(text, "  {}", node.description);
        }
        let _ = writeln!(text, "  ports      {}", node.ports.join(", "));
        if !node.capabilities.is_empty() {
            let _ = writeln!(text, "  wants      {}", node.capabilities.join(", "));
        }
        for (name, schema) in [
            ("config", &node.config),
            ("input", &node.input),
            ("output", &node.output),
        ] {
            if self.schemas {
                let schema = format!("{schema:#}").replace('\n', "\n             ");
                let _ = writeln!(text, "  {name:<10} {schema}");
            } else {
                let _ = writeln!(text, "  {name:<10} {}", outline(schema));
            }
        }
    }
}

/// The properties of a schema on one line; optional ones end with a question mark.
fn outline(schema: &Value) -> String {
    let Some(Value::Object(properties)) = schema.get("properties") else {
        let kind = schema.get("type").and_then(Value::as_str);
        return kind.unwrap_or("anything").to_owned();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let names = properties.keys().map(|name| {
        let must = required.is_some_and(|required| required.iter().any(|must| must == name));
        if must {
            name.clone()
        } else {
            format!("{name}?")
        }
    });
    format!("{{ {} }}", names.collect::<Vec<_>>().join(", "))
}
