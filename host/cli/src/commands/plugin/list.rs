//! `windlass plugin list`, and the facts about a plugin that other commands show, too.

use serde_json::{Value, json};
use windlass_plugins::{LoadEvent, Plugin, Purity, Standing};

use crate::app::Context;
use crate::exit::Exit;
use crate::output::{self, table};
use crate::wire::{self, Machine, compile};

/// Lists the plugins, and those that cannot be loaded.
pub(super) fn list(context: &Context, machine: &Machine) -> anyhow::Result<Exit> {
    let host = machine.host(compile::noted(context.output))?;
    let mut failed = Vec::new();
    for event in host.scan(&wire::plugin_directories(&machine.config)) {
        if let LoadEvent::Failed { file, error, .. } = event {
            failed.push((file, error));
        }
    }
    let plugins = host.registry().iter();
    let mut items: Vec<_> = plugins.iter().map(|plugin| summary(plugin)).collect();
    items.extend(failed.iter().map(|(file, error)| {
        json!({ "file": file, "error": { "code": error.code, "message": error.message } })
    }));
    context.output.list(&items, || {
        let rows = plugins.iter().map(|plugin| {
            let nodes: Vec<_> = plugin
                .description
                .nodes
                .iter()
                .map(|node| node.name.as_str())
                .collect();
            vec![
                plugin.description.package.clone(),
                plugin.description.version.to_string(),
                nodes.join(", "),
                purity(plugin).to_owned(),
                plugin.standing().proof().unwrap_or_default().to_owned(),
                plugin.file.display().to_string(),
            ]
        });
        table(
            &["package", "version", "nodes", "effects", "proof", "file"],
            rows.collect(),
        )
    })?;
    if context.output.is_text() {
        for plugin in plugins
            .iter()
            .filter(|it| *it.standing() == Standing::Unproved)
        {
            context.output.warn(&unproved(plugin));
        }
        for (file, error) in &failed {
            context.output.warn(&format!(
                "[{}] {}: {}",
                error.code,
                output::file(file),
                error.message
            ));
        }
        if plugins.is_empty() {
            let places = wire::plugin_directories(&machine.config);
            let places: Vec<_> = places
                .iter()
                .map(|place| place.display().to_string())
                .collect();
            context
                .output
                .note(&format!("There are no plugins in {}.", places.join(" or ")));
        }
    }
    Ok(Exit::Done)
}

fn purity(plugin: &Plugin) -> &'static str {
    match plugin.purity {
        Purity::Pure => "pure",
        Purity::Effectful => "effects",
    }
}

/// How to make the settings apply to a component that has no proof.
pub(crate) fn unproved(plugin: &Plugin) -> String {
    let (code, digest) = (windlass_plugins::codes::UNPROVED, plugin.digest);
    let (name, package) = (plugin.name(), &plugin.description.package);
    let file = plugin.file.display();
    format!(
        "[{code}] {name} in {file} gets none of the grants of `{package}`: nothing proves that \
         they are for it; if they are, write in [plugins.grants.{package}]: digest = \"{digest}\""
    )
}

/// The facts about a plugin.
pub(crate) fn summary(plugin: &Plugin) -> Value {
    let nodes: Vec<_> = plugin
        .description
        .nodes
        .iter()
        .map(|node| &node.id)
        .collect();
    json!({
        "package": plugin.description.package,
        "version": plugin.description.version.to_string(),
        "title": plugin.description.title,
        "digest": plugin.digest,
        "file": plugin.file,
        "pure": plugin.purity == Purity::Pure,
        "nodes": nodes,
        "consumer": plugin.consumer().is_some(),
        "proof": plugin.standing().proof(),
    })
}
