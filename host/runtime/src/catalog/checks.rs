//! Checks the configurations of nodes before anything runs: by the schemas of their plugins, and by
//! the plugins themselves, if they export a check.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_engine::expr::known_parts;
use windlass_model::definition::{NodeKind, UseRef};
use windlass_model::schema::Schema;
use windlass_model::{Definition, Diagnostic, Digest, Place};
use windlass_plugins::{Configured, Finding, NodeType, Plugin};

use super::prepare::Uses;
use crate::codes;

/// Mistakes, for which a workflow is refused, and warnings.
#[derive(Default)]
pub(super) struct Found {
    pub(super) mistakes: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
}

/// The nodes of one plugin, in the order of its check.
#[derive(Default)]
struct OfPlugin {
    pointers: Vec<String>,
    configured: Vec<Configured>,
}

/// Checks all configurations. A schema sees those without expressions; a plugin sees all that its
/// schema accepts or cannot see.
pub(super) fn configurations(definition: &Definition, uses: &Uses) -> Found {
    let mut found = Found::default();
    let mut schemas = BTreeMap::<&UseRef, Option<Schema>>::new();
    let mut asked = BTreeMap::<Digest, (Arc<Plugin>, OfPlugin)>::new();
    for (pointer, _, node) in definition.all_nodes() {
        let NodeKind::Use { node_type, with } = &node.kind else {
            continue;
        };
        let Some((plugin, described)) = uses.get(node_type) else {
            continue;
        };
        let schema = schemas.entry(node_type);
        let schema = schema.or_insert_with(|| Schema::compile(&described.config).ok());
        let raw: Vec<String> = described.raw.iter().cloned().collect();
        let (config, unknown) = known_parts(with, &raw);
        let pointer = format!("{pointer}/with");
        if unknown.is_empty()
            && let Some(schema) = schema
        {
            let mut wrong = schema.check(&config, &pointer);
            if !wrong.is_empty() {
                for diagnostic in &mut wrong {
                    diagnostic.code = codes::WITH_INVALID;
                }
                found.mistakes.extend(wrong);
                continue;
            }
        }
        if plugin.checks() && config.is_object() {
            let (_, of) = asked
                .entry(plugin.digest)
                .or_insert_with(|| (Arc::clone(plugin), OfPlugin::default()));
            of.pointers.push(pointer);
            of.configured.push(configured(described, config, unknown));
        }
    }
    for (plugin, of) in asked.into_values() {
        found.by_plugin(&plugin, of);
    }
    found
}

fn configured(node: &NodeType, config: serde_json::Value, unknown: Vec<String>) -> Configured {
    Configured {
        node_type: Arc::clone(&node.id),
        config,
        unknown,
    }
}

impl Found {
    fn by_plugin(&mut self, plugin: &Plugin, of: OfPlugin) {
        let (checked, failure) = plugin.check(of.configured);
        let done = checked.len();
        for (pointer, findings) in of.pointers.iter().zip(checked) {
            for finding in findings {
                let list = match finding.is_error {
                    true => &mut self.mistakes,
                    false => &mut self.warnings,
                };
                list.push(diagnostic(pointer, finding));
            }
        }
        if let (Some(failure), Some(pointer)) = (failure, of.pointers.get(done)) {
            let message = format!(
                "the check of {} ended early, so this configuration and {} more are not checked: \
                 {failure}",
                plugin.name(),
                of.pointers.len().saturating_sub(done + 1),
            );
            let place = Place::at(pointer.as_str());
            self.warnings
                .push(Diagnostic::new(codes::WITH_REFUSED, message, place));
        }
    }
}

fn diagnostic(pointer: &str, finding: Finding) -> Diagnostic {
    let message = match finding.position {
        None => finding.message,
        Some(position) => format!("{position}: {}", finding.message),
    };
    // A member that does not exist has the place of the nearest member around it.
    let place = Place::at(format!("{pointer}{}", finding.pointer));
    Diagnostic::new(codes::WITH_REFUSED, message, place)
}
