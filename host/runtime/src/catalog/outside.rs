//! Warns of what a definition needs from outside and does not find: other workflows, consumers of
//! routes, grants for the addresses that it requests, and secrets. Warns of triggers that answer the
//! same requests, too.
//!
//! All are warnings: a child can be published later, another machine may have the grants, and the
//! other trigger may be retracted.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_model::definition::{NodeKind, StartTrigger};
use windlass_model::http::{self, Respond, Verify};
use windlass_model::nearest::did_you_mean;
use windlass_model::{Definition, Diagnostic, Place, TriggerType, codes as model_codes, secrets};
use windlass_plugins::Host;
use windlass_store::Store;
use windlass_store::published::PublicationQuery;

use super::prepare::Uses;
use crate::codes;

/// The limit of warnings of each kind.
const MOST: usize = 100;
/// Published names that are collected for suggestions.
const NAMES: u32 = 500;
/// Names that a message lists.
const LISTED: usize = 8;

/// Other definitions of one path that are read.
const DEFINITIONS: usize = 32;

/// A trigger that answers requests with the output of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answering {
    /// Its workflow.
    pub workflow: String,
    /// Its name.
    pub trigger: String,
    /// How it verifies a request.
    pub verify: Option<Verify>,
}

/// The other workflows: those that a definition can run as children, and those that start by the
/// same requests.
pub trait Others {
    /// The triggers of a method and a path that answer requests; none if that cannot be told.
    fn answering(&self, method: &str, path: &str) -> Vec<Answering>;
    /// Whether there is a workflow of this name. If that cannot be told: true.
    fn has(&self, name: &str) -> bool;
    /// Names of workflows, for suggestions.
    fn names(&self) -> Vec<String>;
}

/// The published workflows of a store.
pub struct PublishedOthers<'a>(pub &'a dyn Store);

impl Others for PublishedOthers<'_> {
    fn answering(&self, method: &str, path: &str) -> Vec<Answering> {
        let rows = self.0.bindings(http::shape(method, path));
        let rows = rows.unwrap_or_default().into_iter().filter(|row| {
            let of: Value = serde_json::from_slice(&row.binding.matches).unwrap_or_default();
            let text = |name: &str| of.get(name).and_then(Value::as_str).unwrap_or_default();
            text("method") == method && http::is_same(text("path"), path)
        });
        let read = rows.take(DEFINITIONS).filter_map(|row| {
            let definition = self.0.definition(row.definition).ok()??;
            let definition = windlass_model::file::read_canonical(&definition.json).ok()?;
            let (_, _, verify) = answers(definition.triggers.get(&row.binding.key)?)?;
            Some(Answering {
                workflow: row.workflow,
                trigger: row.binding.key,
                verify: verify.cloned(),
            })
        });
        read.collect()
    }

    fn has(&self, name: &str) -> bool {
        self.0.published(name).is_ok_and(|row| row.is_some())
    }

    fn names(&self) -> Vec<String> {
        let query = PublicationQuery {
            limit: NAMES,
            ..PublicationQuery::default()
        };
        let rows = self.0.publications(&query).unwrap_or_default();
        rows.into_iter().map(|row| row.name).collect()
    }
}

/// The workflows of `workflow:` nodes that do not exist.
pub(super) fn children(definition: &Definition, others: &dyn Others) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let (mut there, mut missing) = (BTreeSet::new(), BTreeSet::new());
    let mut names = None;
    for (pointer, _, node) in definition.all_nodes() {
        let NodeKind::Workflow { name } = &node.kind else {
            continue;
        };
        if found.len() == MOST || *name == definition.name || there.contains(name) {
            continue;
        }
        if !missing.contains(name) && others.has(name) {
            there.insert(name);
            continue;
        }
        missing.insert(name);
        let names: &Vec<String> = names.get_or_insert_with(|| others.names());
        let message = format!("there is no workflow `{name}` yet");
        let help = did_you_mean(name, names.iter().map(String::as_str)).unwrap_or_else(|| {
            let there = match names.as_slice() {
                [] => "there is no other workflow".to_owned(),
                names => format!("there are {}", listed(names)),
            };
            format!("{there}; publish `{name}` before a run gets to this node")
        });
        let place = Place::at(format!("{pointer}/workflow"));
        found.push(Diagnostic::new(codes::NO_CHILD, message, place).help(help));
    }
    found
}

/// The method, the path and the verification of a trigger that answers requests.
fn answers(trigger: &StartTrigger) -> Option<(&str, &str, Option<&Verify>)> {
    match trigger {
        StartTrigger::Http {
            method,
            path,
            verify,
            respond: Respond::Node { .. },
            ..
        } => Some((method.as_str(), path.as_str(), verify.as_ref())),
        _ => None,
    }
}

/// The triggers whose requests another trigger answers, too: each request gets one answer.
pub(super) fn answered_twice(definition: &Definition, others: &dyn Others) -> Vec<Diagnostic> {
    let all = || definition.triggers.iter();
    let mut found = Vec::new();
    for (key, trigger) in all().take(MOST) {
        let Some((method, path, verify)) = answers(trigger) else {
            continue;
        };
        let own = all().filter(|(other, _)| *other != key);
        let own = own.filter_map(|(other, trigger)| {
            let (other_method, other_path, verify) = answers(trigger)?;
            let is_same = other_method == method && http::is_same(other_path, path);
            is_same.then(|| Answering {
                workflow: definition.name.clone(),
                trigger: other.clone(),
                verify: verify.cloned(),
            })
        });
        let published = others.answering(method, path).into_iter();
        let published = published.filter(|other| other.workflow != definition.name);
        // A request that proves one sender does not prove another one.
        let mut same = own.chain(published).filter(|other| {
            other.verify.is_none() || verify.is_none() || other.verify.as_ref() == verify
        });
        let Some(other) = same.next() else { continue };
        let (workflow, trigger) = (&other.workflow, &other.trigger);
        let message = format!(
            "the trigger `{trigger}` of the workflow `{workflow}` answers {method} {path}, too, and \
            a request gets one answer"
        );
        let place = Place::at(format!("/triggers/{key}/http/respond"));
        let help = "choose another path, or leave `respond` out of one of the triggers; until then \
            the trigger that was published first answers";
        found.push(Diagnostic::new(codes::ANSWERED_TWICE, message, place).help(help));
    }
    found
}

/// The routes of nodes whose triggers no plugin consumes.
pub(super) fn routes(definition: &Definition, plugins: &Host) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    // One of the plugins that are compiled may be the consumer.
    if !plugins.awaited().is_empty() {
        return found;
    }
    let registry = plugins.registry();
    for (pointer, _, node) in definition.all_nodes() {
        let Some(route) = node.route.as_deref() else {
            continue;
        };
        let consumed = |kind| registry.consumer(kind, Some(route)).is_some();
        if found.len() == MOST || TriggerType::ALL.into_iter().any(consumed) {
            continue;
        }
        let mut kinds = TriggerType::ALL.into_iter();
        let kept_out = kinds.find_map(|kind| registry.kept_out(kind, Some(route)));
        let help = match kept_out {
            Some(plugin) => format!(
                "`{}` would, with `consumer = true` in [plugins.grants.{}]",
                plugin.name(),
                plugin.description.package
            ),
            None => {
                let loaded = registry.iter();
                let consumers = loaded.iter().filter_map(|plugin| plugin.consumer());
                let all: BTreeSet<&str> = consumers
                    .flat_map(|consumer| &consumer.routes)
                    .map(String::as_str)
                    .collect();
                let there = did_you_mean(route, all.iter().copied()).unwrap_or_else(|| {
                    let names: Vec<String> = all.iter().map(|name| (*name).to_owned()).collect();
                    match names.as_slice() {
                        [] => "no plugin here consumes triggers of any route".to_owned(),
                        names => format!("there are {}", listed(names)),
                    }
                });
                format!("{there}; until a plugin consumes them, runs wait at this node")
            }
        };
        let message = format!("no plugin consumes the triggers of the route `{route}`");
        let place = Place::at(format!("{pointer}/route"));
        found.push(Diagnostic::new(codes::UNCONSUMED_ROUTE, message, place).help(help));
    }
    found
}

/// The addresses of requests that no grant covers, as far as they are written in the definition.
pub(super) fn destinations(definition: &Definition, uses: &Uses) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (pointer, _, node) in definition.all_nodes() {
        let NodeKind::Use { node_type, with } = &node.kind else {
            continue;
        };
        let Some((plugin, described)) = uses.get(node_type) else {
            continue;
        };
        let asks = described.capabilities.iter().any(|it| it == "http");
        let url = with.get("url").and_then(|url| url.as_str());
        let Some(url) = url.filter(|_| asks && found.len() < MOST) else {
            continue;
        };
        let Some(beginning) = written(url) else {
            continue;
        };
        if let Some(refusal) = plugin.refusal_of(beginning) {
            let place = Place::at(format!("{pointer}/with/url"));
            let warning = Diagnostic::new(codes::NOT_GRANTED, refusal.message, place);
            found.push(warning.help(refusal.help));
        }
    }
    found
}

/// The secrets of nodes that this host lacks for the workflow, or that no grant covers.
pub(super) fn secrets_of_nodes(definition: &Definition, uses: &Uses) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (pointer, _, node) in definition.all_nodes() {
        let NodeKind::Use { node_type, with } = &node.kind else {
            continue;
        };
        let Some((plugin, described)) = uses.get(node_type) else {
            continue;
        };
        // A plugin that does not ask for secrets gets the reference as data.
        if !described.capabilities.iter().any(|it| it == "secrets") {
            continue;
        }
        let url = with.get("url").and_then(|url| url.as_str());
        let address = url.and_then(written);
        for (name, within) in secrets::named(with) {
            if found.len() == MOST {
                return found;
            }
            let Some(refusal) = plugin.refusal_of_secret(&name, &definition.name, address) else {
                continue;
            };
            let place = Place::at(format!("{pointer}/with{within}"));
            let warning = Diagnostic::new(model_codes::NO_SECRET, refusal.message, place);
            found.push(warning.help(refusal.help));
        }
    }
    found
}

/// The beginning of an address without expressions, if that has the whole host.
fn written(url: &str) -> Option<&str> {
    let Some(end) = windlass_model::template::begins_at(url) else {
        return Some(url);
    };
    let beginning = url.get(..end)?;
    let (_, rest) = beginning.split_once("://")?;
    rest.contains(['/', '?', '#']).then_some(beginning)
}

fn listed(names: &[String]) -> String {
    let mut shown: Vec<String> = names
        .iter()
        .take(LISTED)
        .map(|it| format!("`{it}`"))
        .collect();
    if names.len() > LISTED {
        shown.push(format!("{} more", names.len() - LISTED));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::written;

    #[test]
    fn an_address_is_known_as_far_as_it_is_written() {
        assert_eq!(written("https://a.example/x"), Some("https://a.example/x"));
        assert_eq!(
            written("https://a.example/{{ x }}"),
            Some("https://a.example/")
        );
        assert_eq!(
            written("https://a.example?q={{ x }}"),
            Some("https://a.example?q=")
        );
        for unknown in [
            "{{ input.url }}",
            "https://{{ x }}/",
            "https://a.{{ x }}/",
            "https://a:{{ x }}",
        ] {
            assert_eq!(written(unknown), None, "{unknown}");
        }
    }
}
