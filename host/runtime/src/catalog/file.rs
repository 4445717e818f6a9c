//! Checks a file that could be read only in part, so that an author is told all mistakes at once.
//!
//! What could not be read is replaced by a default, and a default leads to mistakes of its own: an
//! edge that was not read leaves a node without a way to it. So what may follow from a mistake of
//! reading is left out, and is told once that mistake is corrected.

use std::collections::{BTreeMap, BTreeSet};

use windlass_engine::codes as engine;
use windlass_model::definition::{Edge, Node, NodeKind};
use windlass_model::file::{DIAGNOSTICS, Partial, Read};
use windlass_model::nearest::nearest;
use windlass_model::{Code, Diagnostic, codes as model};
use windlass_plugins::Host;

use super::outside::Others;
use super::prepare::{Report, check, is_below};
use crate::codes;

/// Mistakes and warnings about ways: they follow from an edge that was not read.
const OF_WAYS: [Code; 10] = [
    engine::UNREACHABLE,
    engine::NO_ENTRY,
    engine::COUNT,
    engine::START_REACHED,
    engine::JOIN_ON_CYCLE,
    engine::ELSE,
    engine::NOT_RUN,
    engine::ENDLESS,
    engine::ISLAND,
    engine::COMPENSATE,
];

/// The keys that decide about ways, besides those of their own mistakes.
const KEYS_OF_WAYS: [&str; 4] = ["edges", "nodes", "start", "first"];

/// Mistakes of a partial workflow that are looked at.
const MOST: usize = 1_000;

/// Mistakes that follow from a key of their node that was not read.
const OF_NODES: [Code; 7] = [
    engine::PORT,
    engine::COUNT,
    engine::START_REACHED,
    engine::JOIN_ON_CYCLE,
    engine::COMPENSATE,
    codes::WITH_INVALID,
    codes::WITH_REFUSED,
];

/// Everything about a file that its author has to know, on the current plugins. Blocks as [`check`]
/// does. The diagnostics are in the order of the file.
pub fn check_file(read: &Read, plugins: &Host, others: Option<&dyn Others>) -> Report {
    let mut report = match (&read.definition, &read.partial) {
        (Some(definition), _) => check(definition, plugins, others),
        (None, Some(partial)) => {
            let mut definition = partial.definition.clone();
            let in_schema = |found: &Diagnostic| found.place.pointer.starts_with("/input");
            definition
                .input
                .take_if(|_| read.diagnostics.iter().any(in_schema));
            let mut report = check(&definition, plugins, others);
            report.mistakes.truncate(MOST);
            let sieve = Sieve::of(partial, &read.diagnostics);
            report.mistakes.retain_mut(|found| sieve.keeps(found));
            report.warnings.retain_mut(|found| sieve.keeps(found));
            report.mistakes.extend(read.diagnostics.iter().cloned());
            report
        }
        (None, None) => Report {
            mistakes: read.diagnostics.clone(),
            warnings: Vec::new(),
        },
    };
    for list in [&mut report.mistakes, &mut report.warnings] {
        list.truncate(2 * DIAGNOSTICS);
        list.iter_mut().for_each(|found| read.map.locate(found));
        list.sort_by_key(|found| found.place.span.as_ref().map(|span| span.start));
        list.truncate(DIAGNOSTICS);
        list.iter_mut().for_each(Diagnostic::shorten);
    }
    report
}

/// What follows from the mistakes of reading.
struct Sieve<'a> {
    /// Every node by its pointer.
    nodes: BTreeMap<String, (&'a str, &'a Node)>,
    top: &'a [Edge],
    /// Places whose values were not read.
    broken: BTreeSet<String>,
    /// The names of nodes that have a mistake.
    touched: BTreeSet<&'a str>,
    /// By the pointer of a list of edges: the places of those that were read.
    edges: &'a BTreeMap<String, Vec<usize>>,
    ways: bool,
    variables: bool,
}

impl<'a> Sieve<'a> {
    fn of(partial: &'a Partial, mistakes: &[Diagnostic]) -> Self {
        let all = partial.definition.all_nodes().into_iter();
        let mut sieve = Self {
            nodes: all
                .map(|(pointer, name, node)| (pointer, (name, node)))
                .collect(),
            top: &partial.definition.edges,
            broken: BTreeSet::new(),
            touched: partial.unread.nodes.iter().map(String::as_str).collect(),
            edges: &partial.unread.edges,
            ways: !partial.unread.edges.is_empty(),
            variables: !partial.unread.nodes.is_empty(),
        };
        for found in mistakes {
            let pointer = found.place.pointer.as_str();
            // A wrong name or a second node of a name leaves the value as it is.
            let is_name = [model::BAD_NAME, model::DUPLICATE_NODE].contains(&found.code);
            if !pointer.is_empty() && !is_name {
                sieve.broken.insert(pointer.to_owned());
            }
            // Of two nodes of one name, one is looked at.
            sieve.ways |= found.code == model::DUPLICATE_NODE;
            let key = pointer.rsplit('/').next();
            let key = key.filter(|_| found.code == model::UNKNOWN_KEY);
            let means =
                |keys: &[&str]| key.is_some_and(|key| nearest(key, keys.iter().copied()).is_some());
            sieve.variables |= pointer.starts_with("/vars") || means(&["vars"]);
            sieve.ways |= pointer.contains("/edges") || means(&KEYS_OF_WAYS);
            if let Some((name, node)) = sieve.innermost(pointer) {
                sieve.variables |= matches!(node.kind, NodeKind::Set(_));
                sieve.touched.insert(name);
            }
        }
        sieve
    }

    /// The innermost node that a place belongs to.
    fn innermost(&self, pointer: &str) -> Option<(&'a str, &'a Node)> {
        let ends = pointer
            .match_indices('/')
            .map(|(at, _)| at)
            .chain([pointer.len()]);
        let mut around = ends.filter_map(|end| self.nodes.get(pointer.get(..end)?));
        around.next_back().copied()
    }

    /// Whether a diagnostic stands on its own. Corrects its place.
    fn keeps(&self, found: &mut Diagnostic) -> bool {
        let pointer = &found.place.pointer;
        let inside = || self.innermost(pointer).map(|(name, _)| name);
        let of = self.left_node(pointer).or_else(inside);
        self.correct(found);
        let (pointer, code) = (&found.place.pointer, &found.code);
        // Reading has told nodes of one name already.
        let told = *code == engine::DOUBLED_NODE || is_below(pointer, &self.broken);
        // A node that routes its failures needs an edge, which may be one that was not read.
        let unrouted = *code == engine::PORT && pointer.ends_with("/on-error");
        let of_ways = self.ways && (unrouted || OF_WAYS.contains(code));
        let of_variables = self.variables && *code == engine::NEVER_SET;
        let touched = of.is_some_and(|name| self.touched.contains(name));
        let of_node = touched && OF_NODES.contains(code);
        !(self.nodes.is_empty() || told || of_ways || of_variables || of_node)
    }

    /// The node that an edge leaves, if the place is that of an edge.
    fn left_node(&self, pointer: &str) -> Option<&'a str> {
        let (list, at) = edge_at(pointer)?;
        let edges = match list.strip_suffix("/edges")? {
            "" => self.top,
            around => match &self.nodes.get(around)?.1.kind {
                NodeKind::ForEach(each) => each.body.edges.as_slice(),
                _ => return None,
            },
        };
        Some(edges.get(at)?.from.as_str())
    }

    /// Corrects the place of an edge behind one that was not read.
    fn correct(&self, found: &mut Diagnostic) {
        let related = found.related.iter_mut().map(|(place, _)| place);
        for place in related.chain([&mut found.place]) {
            let Some((list, at)) = edge_at(&place.pointer) else {
                continue;
            };
            if let Some(in_file) = self.edges.get(list).and_then(|places| places.get(at)) {
                let rest = place.pointer.get(list.len() + 1..).unwrap_or_default();
                let rest = rest
                    .find('/')
                    .and_then(|end| rest.get(end..))
                    .unwrap_or_default();
                place.pointer = format!("{list}/{in_file}{rest}");
            }
        }
    }
}

/// The list of an edge and its place there, of the pointer to an edge or into it.
fn edge_at(pointer: &str) -> Option<(&str, usize)> {
    let (before, after) = pointer.rsplit_once("/edges/")?;
    let at = after.split('/').next()?.parse().ok()?;
    Some((pointer.get(..before.len() + "/edges".len())?, at))
}
