//! Warns of what a definition needs from outside and does not find: other workflows, and grants for
//! the addresses that it requests.
//!
//! Both are warnings: a child can be published later, and another machine may have the grants.

use std::collections::BTreeSet;

use windlass_model::definition::NodeKind;
use windlass_model::nearest::did_you_mean;
use windlass_model::{Definition, Diagnostic, Place};
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

/// The workflows that a definition can run as children.
pub trait Others {
    /// Whether there is a workflow of this name. If that cannot be told: true.
    fn has(&self, name: &str) -> bool;
    /// Names of workflows, for suggestions.
    fn names(&self) -> Vec<String>;
}

/// The published workflows of a store.
pub struct PublishedOthers<'a>(pub &'a dyn Store);

impl Others for PublishedOthers<'_> {
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
