//! Checks the configurations of nodes before anything runs: by the schemas of their plugins, and by
//! the plugins themselves, if they export a check.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use windlass_engine::expr::{Constants, known_parts};
use windlass_model::codes::SCHEMA_UNKNOWN;
use windlass_model::definition::{NodeKind, UseRef};
use windlass_model::schema::members::{Found, Into, follow};
use windlass_model::schema::{self, Schema};
use windlass_model::{Definition, Diagnostic, Digest, Place, Position, secrets};
use windlass_plugins::{Configured, Finding, NodeType, Plugin};

use super::prepare::{Report, Uses};
use crate::codes;

/// Subschemas that are looked at for the name of one member.
const BUDGET: usize = 1_000;

/// The configurations of the nodes of a definition.
pub(super) struct Configurations<'a> {
    nodes: Vec<Configuration<'a>>,
    schemas: BTreeMap<&'a UseRef, Schema>,
}

/// The configuration of one node, as far as it is known before a run.
struct Configuration<'a> {
    node_type: &'a UseRef,
    plugin: &'a Arc<Plugin>,
    described: &'a Arc<NodeType>,
    /// The place of `with`.
    pointer: String,
    known: Value,
    /// The configuration as it is written.
    written: &'a Value,
    /// JSON pointers to the parts that contain expressions.
    unknown: Vec<String>,
}

impl Configuration<'_> {
    /// Whether a mistake does not depend on the results of expressions: none of their values is in
    /// its place or below it.
    fn is_certain(&self, found: &Diagnostic) -> bool {
        let place = found.place.pointer.strip_prefix(self.pointer.as_str());
        let place = place.unwrap_or_default();
        let concerns = |unknown: &String| {
            let below = unknown.strip_prefix(place);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        found.code == SCHEMA_UNKNOWN || !self.unknown.iter().any(concerns)
    }

    /// Members with expressions that the schema does not have.
    fn unknown_names(&self) -> Vec<Diagnostic> {
        let mut wrong = Vec::new();
        for pointer in &self.unknown {
            let Some(name) = pointer
                .strip_prefix('/')
                .filter(|name| !name.contains(['/', '~']))
            else {
                continue;
            };
            let found = follow(&self.described.config, &[Into::Member(name)], &mut {
                BUDGET
            });
            let Found::Closed { known, .. } = found else {
                continue;
            };
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let place = Place::at(format!("{}{pointer}", self.pointer));
            wrong.push(schema::unknown(name, &known, place));
        }
        wrong
    }
}

pub(super) fn configurations<'a>(definition: &'a Definition, uses: &'a Uses) -> Configurations<'a> {
    let mut all = Configurations {
        nodes: Vec::new(),
        schemas: BTreeMap::new(),
    };
    for (asked, (_, described)) in uses {
        // The schemas of a plugin are checked when the plugin is loaded.
        if let Ok(schema) = Schema::of_plugin(&described.config) {
            all.schemas.insert(asked, schema);
        }
    }
    let constants = Constants::default();
    for (pointer, _, node) in definition.all_nodes() {
        let NodeKind::Use { node_type, with } = &node.kind else {
            continue;
        };
        let Some((plugin, described)) = uses.get(node_type) else {
            continue;
        };
        let raw: Vec<String> = described.raw.iter().cloned().collect();
        let (mut known, unknown) = known_parts(with, &raw, &constants);
        secrets::without_prefixes(&mut known);
        let schema = all.schemas.get(node_type);
        let known = with_defaults(known, &unknown, schema);
        all.nodes.push(Configuration {
            node_type,
            plugin,
            described,
            pointer: format!("{pointer}/with"),
            known,
            written: with,
            unknown,
        });
    }
    all
}

/// The known parts of a configuration with their defaults. A member with an expression has a value,
/// though an unknown one.
fn with_defaults(known: Value, unknown: &[String], schema: Option<&Schema>) -> Value {
    let completed = schema.map(|schema| schema.completed(known.clone(), ""));
    let Some(Ok(mut completed)) = completed else {
        return known;
    };
    for pointer in unknown {
        let Some((above, name)) = pointer.rsplit_once('/') else {
            return known;
        };
        let name = name.replace("~1", "/").replace("~0", "~");
        if let Some(Value::Object(members)) = completed.pointer_mut(above) {
            members.remove(&name);
        }
    }
    completed
}

/// The nodes of one plugin, in the order of its check.
#[derive(Default)]
struct OfPlugin<'a> {
    nodes: Vec<&'a Configuration<'a>>,
    configured: Vec<Configured>,
}

impl Configurations<'_> {
    /// The mistakes that the schemas find and that no result of an expression changes.
    pub(super) fn by_schema(&self) -> Vec<Diagnostic> {
        let wrong = self.nodes.iter().flat_map(|node| self.mistakes_of(node));
        wrong.collect()
    }

    fn mistakes_of(&self, node: &Configuration<'_>) -> Vec<Diagnostic> {
        let Some(schema) = self.schemas.get(node.node_type) else {
            return Vec::new();
        };
        let mut wrong = match node.known {
            // The whole configuration is one expression.
            Value::Null if !node.unknown.is_empty() => Vec::new(),
            // Defaults beyond the bound were not added.
            _ => match schema.complete(node.known.to_string().as_bytes(), &node.pointer) {
                Ok(_) => schema.check(&node.known, &node.pointer),
                Err(found) => vec![*found],
            },
        };
        wrong.retain(|found| node.is_certain(found));
        wrong.extend(node.unknown_names());
        for diagnostic in &mut wrong {
            diagnostic.code = codes::WITH_INVALID;
        }
        wrong
    }

    /// The findings of the plugins about the configurations that their schemas accept or cannot
    /// see. Blocks, for up to 3 s for each plugin.
    pub(super) fn by_plugins(&self) -> Report {
        let mut asked = BTreeMap::<Digest, (&Plugin, OfPlugin<'_>)>::new();
        for node in &self.nodes {
            let is_asked = node.plugin.checks() && node.known.is_object();
            if !is_asked || !self.mistakes_of(node).is_empty() {
                continue;
            }
            let (_, of) = asked
                .entry(node.plugin.digest)
                .or_insert_with(|| (node.plugin, OfPlugin::default()));
            of.nodes.push(node);
            of.configured.push(Configured {
                node_type: Arc::clone(&node.described.id),
                config: node.known.clone(),
                unknown: node.unknown.clone(),
            });
        }
        let mut report = Report::default();
        for (plugin, of) in asked.into_values() {
            ask(plugin, of, &mut report);
        }
        report
    }
}

fn ask(plugin: &Plugin, of: OfPlugin<'_>, report: &mut Report) {
    let (checked, failure) = plugin.check(of.configured);
    let done = checked.len();
    for (node, findings) in of.nodes.iter().zip(checked) {
        for finding in findings {
            let list = match finding.is_error {
                true => &mut report.mistakes,
                false => &mut report.warnings,
            };
            list.push(diagnostic(node, finding));
        }
    }
    if let (Some(failure), Some(node)) = (failure, of.nodes.get(done)) {
        let message = format!(
            "the check of {} ended early, so this configuration and {} more are not checked: \
             {failure}",
            plugin.name(),
            of.nodes.len().saturating_sub(done + 1),
        );
        let place = Place::at(node.pointer.as_str());
        let warning = Diagnostic::new(codes::WITH_REFUSED, message, place);
        report.warnings.push(warning);
    }
}

fn diagnostic(node: &Configuration<'_>, finding: Finding) -> Diagnostic {
    // A member that does not exist has the place of the nearest member around it.
    let place = format!("{}{}", node.pointer, finding.pointer);
    // A position in the result of an expression is none in the file.
    let text = |config: &Value| config.pointer(&finding.pointer).cloned();
    let written = text(node.written).filter(|written| text(&node.known).as_ref() == Some(written));
    let text = written.as_ref().and_then(Value::as_str);
    let (message, place) = match finding.position {
        None => (finding.message, Place::at(place)),
        Some(position) => match text.and_then(|text| character(text, &position)) {
            Some(within) => (finding.message, Place::inside(place, within)),
            None => (format!("{position}: {}", finding.message), Place::at(place)),
        },
    };
    Diagnostic::new(codes::WITH_REFUSED, message, place)
}

/// The bytes of the character at a position of a text; none at its end. None: the position is in
/// another text, or outside of this one.
fn character(text: &str, position: &Position) -> Option<Range<usize>> {
    if position.source.is_some() {
        return None;
    }
    let before = usize::try_from(position.line.checked_sub(1)?).ok()?;
    let line = text.split_inclusive('\n').nth(before);
    // Behind the last line end is a line, too.
    let line = line.or_else(|| (text.matches('\n').count() == before).then_some(""))?;
    let begin = match before {
        0 => 0,
        before => text.match_indices('\n').nth(before - 1)?.0 + 1,
    };
    let column = usize::try_from(position.column.checked_sub(1)?).ok()?;
    match line.char_indices().nth(column) {
        Some((at, character)) => Some(begin + at..begin + at + character.len_utf8()),
        None if line.chars().count() == column => Some(begin + line.len()..begin + line.len()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_the_bytes_of_its_character() {
        let check = |text: &str, line, column, expected: Option<Range<usize>>| {
            let position = Position {
                source: None,
                line,
                column,
            };
            assert_eq!(
                character(text, &position),
                expected,
                "{text:?} {line}:{column}"
            );
        };
        check("abc", 1, 1, Some(0..1));
        check("abc", 1, 3, Some(2..3));
        check("abc", 1, 4, Some(3..3));
        check("abc", 1, 5, None);
        check("abc", 2, 1, None);
        check("ü\nöx\n", 2, 2, Some(5..6));
        check("ü\nöx\n", 2, 1, Some(3..5));
        check("ü\nöx\n", 3, 1, Some(7..7));
        check("", 1, 1, Some(0..0));
        check("abc", 0, 1, None);
        check("abc", 1, 0, None);
        check("abc", u32::MAX, u32::MAX, None);
    }
}
