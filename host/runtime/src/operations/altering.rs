//! Continues a run with another version of its workflow.
//!
//! The nodes of the run keep their numbers: a definition with other nodes is stored for the run with
//! the order of its nodes, those that it lacks included. So records of executions keep their meaning,
//! and the state of the engine only has to find its edges, joins and loops in the new graph.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_engine::{Graph, Missing, NodeIx, RunState};
use windlass_model::definition::{Edge, Node, NodeKind};
use windlass_model::{Definition, Digest, ExecutionNo, ExecutionStatus, file, limits};
use windlass_store::next_rows;
use windlass_store::rows::{DefinitionRow, RunRow};

use super::drafts::of_version;
use super::reach::OperationsInner;
use super::retrying::no_retry;
use crate::catalog::Prepared;
use crate::error::Error;
use crate::shard::json_of;

/// The limit of execution records that are searched for outputs that only the new version names.
const RECORDS: usize = 100_000;

/// The number of records in one read.
const PAGE: u32 = 500;

/// The most names of one kind in a report.
const NAMED: usize = 20;

/// The version of its workflow with which a run is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithVersion {
    /// The published one.
    Latest,
    /// This one, published or retracted.
    Number(u32),
}

/// A run's new definition.
pub(super) struct Altered {
    /// The definition of the run before.
    pub(super) before: Arc<Prepared>,
    /// The new definition.
    pub(super) now: Arc<Prepared>,
    version: u32,
    before_read: Definition,
    now_read: Definition,
}

impl OperationsInner {
    /// Prepares another version of its workflow for a run, on the current plugins.
    pub(super) fn altered(
        &self,
        row: &RunRow,
        before: Arc<Prepared>,
        with: WithVersion,
        keeps_input: bool,
    ) -> Result<Altered, Error> {
        let store = self.store.as_ref();
        let name = before.name.to_string();
        let version = match with {
            WithVersion::Number(version) => version,
            WithVersion::Latest => {
                let published = store.published(&name)?;
                let missing = || {
                    let help = "name a version: `windlass workflow list --all` shows them";
                    no_retry(
                        format!("no version of `{name}` is published"),
                        Some(help.to_owned()),
                    )
                };
                published.ok_or_else(missing)?.version
            }
        };
        let published = of_version(store, &name, version)?;
        let before_read = read(&before.definition)?;
        let (definition, now_read) =
            numbered_alike(row, version, &before, &before_read, published)?;
        let plugins = self.resources().plugins()?;
        let now = self.catalog().prepare(definition, &plugins)?;
        // Another input is checked for itself.
        if keeps_input {
            self.check_input(row, version, &now)?;
        }
        Ok(Altered {
            before,
            now,
            version,
            before_read,
            now_read,
        })
    }

    /// Checks the input of a run against the schema of the new version.
    fn check_input(&self, row: &RunRow, version: u32, now: &Prepared) -> Result<(), Error> {
        let Some(Ok(schema)) = &now.input else {
            return Ok(());
        };
        let input = self.store.input(row.no)?;
        let json = input.map(|input| json_of(self.store.as_ref(), &input));
        let json = json.and_then(Result::ok);
        let value: Value = json
            .and_then(|json| serde_json::from_slice(&json).ok())
            .unwrap_or_default();
        match schema.check(&value, "").first() {
            None => Ok(()),
            Some(found) => Err(misfit(
                row,
                &now.name,
                version,
                &format!(
                    "the schema of its input refuses the input of the run: {}: {}",
                    found.place.pointer, found.message
                ),
            )),
        }
    }

    /// Moves the state of a run to its new definition. `over`: the run starts over from a node.
    /// Returns the nodes and records with which [`RunState::supply`] was called.
    pub(super) fn refit(
        &self,
        row: &RunRow,
        altered: &Altered,
        state: &mut RunState,
        over: bool,
    ) -> Result<Vec<(NodeIx, ExecutionNo)>, Error> {
        let refused = |why: &str| misfit(row, &altered.now.name, altered.version, why);
        let fitted = state.refit(&altered.before.graph, &altered.now.graph, over);
        let missing = fitted.map_err(|misfit| refused(&misfit.to_string()))?;
        let found = self.outputs(row, &missing, &altered.now.graph, refused)?;
        let found = found.into_iter();
        let supplied: Vec<_> = found.filter(|(node, _)| !state.cut_off(*node)).collect();
        for (node, run) in &supplied {
            state.supply(*node, *run);
        }
        Ok(supplied)
    }

    /// The latest successful executions of nodes whose outputs only the new version names.
    fn outputs(
        &self,
        row: &RunRow,
        missing: &Missing,
        graph: &Graph,
        refused: impl Fn(&str) -> Error,
    ) -> Result<BTreeMap<NodeIx, ExecutionNo>, Error> {
        let mut wanted = missing.outputs.clone();
        let mut found = BTreeMap::new();
        let (mut before, mut seen) = (None, 0);
        while !wanted.is_empty() || !missing.visits.is_empty() {
            let page = next_rows(PAGE, |most| self.store.executions(row.no, before, most))?;
            let Some(last) = page.last() else { break };
            if seen >= RECORDS {
                let text = format!("it has executed more than {RECORDS} nodes");
                return Err(refused(&text));
            }
            before = Some(last.no);
            seen += page.len();
            for record in page {
                let node = NodeIx(record.node);
                if missing.visits.contains(&node) {
                    let name = graph.node(node).map(|plan| plan.name.as_str());
                    return Err(refused(&format!(
                        "node `{}`: an expression names its link only now, and it was executed \
                         before",
                        name.unwrap_or_default()
                    )));
                }
                match record.status {
                    ExecutionStatus::Completed if wanted.remove(&node) => {
                        found.insert(node, record.no);
                    }
                    // The node run was not over.
                    ExecutionStatus::WaitingRetry | ExecutionStatus::Suspended => {}
                    _ => drop(wanted.remove(&node)),
                }
                for skipped in record.skipped {
                    wanted.remove(&NodeIx(skipped));
                }
            }
        }
        Ok(found)
    }
}

impl Altered {
    /// It as a part of the run's event.
    pub(super) fn event(&self, supplied: Vec<(NodeIx, ExecutionNo)>) -> windlass_engine::Altered {
        let documents = |of: &Prepared| (of.definition.digest, of.pins.digest);
        windlass_engine::Altered {
            before: documents(&self.before),
            now: documents(&self.now),
            supplied,
        }
    }

    /// The entry about it in the journal of the run: the version, and what differs.
    pub(super) fn report(&self) -> Value {
        let before = nodes_of(&self.before_read);
        let now = nodes_of(&self.now_read);
        let added = now.keys().filter(|name| !before.contains_key(*name));
        let removed = before.keys().filter(|name| !now.contains_key(*name));
        let changed = now.iter().filter(|(name, node)| {
            let before = before.get(*name);
            before.is_some_and(|before| !is_same(before, node))
        });
        let edges = |all: &Definition| {
            let mut edges: Vec<&Edge> = all.edges.iter().collect();
            for (_, _, node) in all.all_nodes() {
                if let NodeKind::ForEach(each) = &node.kind {
                    edges.extend(&each.body.edges);
                }
            }
            edges.into_iter().cloned().collect::<Vec<_>>()
        };
        let (old, new) = (&self.before_read, &self.now_read);
        let parts = [
            ("edges", edges(old) != edges(new)),
            ("input", old.input != new.input),
            ("output", old.output != new.output),
            ("options", old.options != new.options),
            ("tags", old.tags != new.tags),
            ("vars", old.vars != new.vars),
            (
                "plugins",
                self.before.pins.digest != self.now.pins.digest
                    && self.before.uses.iter().any(|(asked, digest)| {
                        let now = self.now.uses.iter().find(|(other, _)| other == asked);
                        now.is_some_and(|(_, now)| now != digest)
                    }),
            ),
        ];
        let parts = parts.iter().filter(|(_, differs)| *differs);
        json!({
            "version": self.version,
            "before": self.before.definition.digest.to_string(),
            "now": self.now.definition.digest.to_string(),
            "pins": self.before.pins.digest.to_string(),
            "new_nodes": some(added.copied()),
            "removed_nodes": some(removed.copied()),
            "changed_nodes": some(changed.map(|(name, _)| *name)),
            "changed": parts.map(|(part, _)| *part).collect::<Vec<_>>(),
        })
    }
}

/// The definition of a version in which the nodes of the run have the numbers that they have.
fn numbered_alike(
    row: &RunRow,
    version: u32,
    before: &Prepared,
    before_read: &Definition,
    published: DefinitionRow,
) -> Result<(DefinitionRow, Definition), Error> {
    let refused = |why: &str| misfit(row, &before.name, version, why);
    let now_read = read(&published)?;
    let names = now_read.node_names();
    let mut left: BTreeSet<&str> = names.iter().copied().collect();
    let mut order: Vec<String> = Vec::with_capacity(names.len());
    // A node that the new version lacks keeps its number: records of its executions name it.
    for name in before_read.node_names() {
        left.remove(name);
        order.push(name.to_owned());
    }
    let new = now_read
        .vars
        .keys()
        .find(|name| !before_read.vars.contains_key(*name));
    if let Some(name) = new {
        let why = format!("the variable `{name}` is new, and the run has no value for it");
        return Err(refused(&why));
    }
    order.extend(left.into_iter().map(str::to_owned));
    if order == names {
        return Ok((published, now_read));
    }
    if order.len() > limits::NODES {
        let most = limits::NODES;
        let why = format!("with the nodes of its earlier versions, the run would have over {most}");
        return Err(refused(&why));
    }
    let json = file::with_node_order(&published.json, &order).map_err(Error::Definition)?;
    let definition = DefinitionRow {
        digest: Digest::of(&json),
        name: published.name,
        json: json.into(),
    };
    let now_read = read(&definition)?;
    Ok((definition, now_read))
}

fn read(row: &DefinitionRow) -> Result<Definition, Error> {
    file::read_canonical(&row.json).map_err(Error::Definition)
}

fn nodes_of(definition: &Definition) -> BTreeMap<&str, &Node> {
    let all = definition.all_nodes().into_iter();
    all.map(|(_, name, node)| (name, node)).collect()
}

/// Whether two nodes are equal, the nodes inside a for-each left out.
fn is_same(before: &Node, now: &Node) -> bool {
    let bare = |node: &Node| {
        let mut node = node.clone();
        if let NodeKind::ForEach(each) = &mut node.kind {
            each.body.nodes.clear();
            each.body.edges.clear();
        }
        node
    };
    bare(before) == bare(now)
}

/// The first names; a last text says how many more there are.
fn some<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    let more = names.len().saturating_sub(NAMED);
    if more > 0 {
        names.truncate(NAMED);
        names.push(format!("and {more} more"));
    }
    names
}

fn misfit(row: &RunRow, name: &str, version: u32, why: &str) -> Error {
    no_retry(
        format!(
            "run {} cannot continue with version {version} of `{name}`: {why}",
            row.id
        ),
        Some(
            "retry it with the definition that it has, start over from a node with `--from`, or \
             start a new run"
                .to_owned(),
        ),
    )
}
