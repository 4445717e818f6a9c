//! The expected behaviour of a workflow, computed by the simplest means, to compare with the
//! program. It has no triggers, commits or crashes, and shares no code with the engine.

mod does;

use std::collections::{BTreeMap, BTreeSet};

use does::Does;
use serde_json::{Map, Value, json};
use windlass_model::{ExecutionStatus, Status};

use super::dice::Dice;
use super::look::{Look, Record};
use windlass_store::rows::RunRow;

/// The stimulus that nodes wait for: its match is the name of the node.
pub const GO: &str = "go";

/// The name of [`Plan::child`].
const CHILD: &str = "child";

/// A workflow of layers, whose behaviour can be computed by hand.
#[derive(Clone, Debug)]
pub struct Plan {
    name: String,
    nodes: Vec<Node>,
    /// Pure nodes share a commit.
    bursts: bool,
}

#[derive(Clone, Debug)]
struct Node {
    does: Does,
    /// Whether it runs only if every edge to it was taken; otherwise one edge suffices.
    all: bool,
    inbound: Vec<Edge>,
}

/// An edge that leads to a node.
#[derive(Clone, Debug)]
struct Edge {
    from: usize,
    /// The port, if not `done`.
    port: Option<&'static str>,
    /// Taken only for inputs whose `n` modulo 2 is this.
    parity: Option<u64>,
}

/// A correct end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every expected node ran, once.
    Completed,
    /// It was given up because hosts died with it repeatedly; the nodes before that ran once.
    Lost,
}

impl Plan {
    /// A random workflow.
    pub fn random(name: &str, dice: &mut Dice) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        let mut before = 0..0;
        for _ in 0..dice.between(2, 4) {
            let begin = nodes.len();
            for _ in 0..dice.between(1, 3) {
                let does = Does::random(dice);
                let mut inbound = Vec::new();
                for from in before.clone() {
                    if inbound.is_empty() || !dice.once_in(3) {
                        inbound.push(Edge::random(from, nodes[from].does, dice));
                    }
                }
                nodes.push(Node {
                    does,
                    all: dice.once_in(4),
                    inbound,
                });
            }
            before = begin..nodes.len();
        }
        // Every run has at least one side effect, whichever numbers the dice give.
        nodes[0].does = Does::Effect;
        for edge in nodes.iter_mut().flat_map(|node| &mut node.inbound) {
            if edge.from == 0 {
                edge.port = None;
            }
        }
        // The program refuses a workflow that routes failures to no node.
        for index in 0..nodes.len() {
            let mut inbound = nodes.iter().flat_map(|node| &node.inbound);
            let routed = inbound.any(|edge| edge.from == index && edge.port.is_some());
            if nodes[index].does == Does::Fail && !routed {
                nodes[index].does = Does::Echo;
            }
        }
        Self {
            name: name.to_owned(),
            nodes,
            bursts: dice.once_in(3),
        }
    }

    /// The child workflow that nodes of the others call.
    pub fn child() -> Self {
        let chain = [Does::Effect, Does::Wait(3), Does::Flaky(2), Does::Effect];
        let node = |(index, does)| Node {
            does,
            all: false,
            inbound: Vec::from_iter(index_before(index).map(|from| Edge {
                from,
                port: None,
                parity: None,
            })),
        };
        Self {
            name: CHILD.to_owned(),
            nodes: chain.into_iter().enumerate().map(node).collect(),
            bursts: false,
        }
    }

    /// The workflow's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The workflow file.
    pub fn workflow(&self) -> Value {
        let mut nodes = Map::new();
        let mut edges = Vec::new();
        for (to, node) in self.nodes.iter().enumerate() {
            nodes.insert(title(to), node.written(to));
            edges.extend(node.inbound.iter().map(|edge| edge.written(to)));
        }
        let commit = if self.bursts { "burst" } else { "every-node" };
        let options = json!({ "commit": commit });
        json!({ "workflow": self.name, "nodes": nodes, "edges": edges, "options": options })
    }

    /// The nodes that run for an input.
    fn running(&self, n: u64) -> BTreeSet<usize> {
        let mut running = BTreeSet::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let mut taken = node.inbound.iter().map(|edge| {
                running.contains(&edge.from)
                    && edge.parity.is_none_or(|parity| n % 2 == parity)
                    && self.nodes[edge.from].does.takes(edge.port)
            });
            let runs = match (node.inbound.is_empty(), node.all) {
                (true, _) => true,
                (false, true) => taken.all(|taken| taken),
                (false, false) => taken.any(|taken| taken),
            };
            if runs {
                running.insert(index);
            }
        }
        running
    }

    /// Compares a run with the expectation.
    ///
    /// # Errors
    ///
    /// The difference.
    pub fn check(&self, look: &Look, run: &RunRow) -> Result<Ended, String> {
        let n = input_of(look, run)?;
        let records = look.records(run);
        let say = |what: String| Err(format!("{what}\nthe run: {run:#?}\nit did: {records:#?}"));
        let mut did: BTreeMap<&str, Vec<(u32, ExecutionStatus)>> = BTreeMap::new();
        for record in &records {
            did.entry(&record.node)
                .or_default()
                .push((record.attempt, record.status));
        }
        let running = self.running(n);
        let lost = match run.status {
            Status::Completed => false,
            Status::Faulted
                if run
                    .failure
                    .as_ref()
                    .is_some_and(|it| it.class.name() == "lost") =>
            {
                true
            }
            _ => return say(format!("it ended as {}", run.status)),
        };
        for (index, node) in self.nodes.iter().enumerate() {
            let title = title(index);
            let did = did.remove(title.as_str()).unwrap_or_default();
            let expected = if running.contains(&index) {
                node.does.records()
            } else {
                Vec::new()
            };
            let fits = if lost {
                begins(&expected, &did)
            } else {
                did == expected
            };
            if !fits {
                return say(format!(
                    "node {title} had to do {expected:?}, and did {did:?}"
                ));
            }
        }
        for (index, items) in self.bodies() {
            let title = item(index);
            let did = did.remove(title.as_str()).unwrap_or_default();
            let items = if running.contains(&index) { items } else { 0 };
            let expected = vec![(1, ExecutionStatus::Completed); items];
            if !(did == expected || lost && did.len() <= items) {
                return say(format!("{items} items had to do {title}: {did:?}"));
            }
        }
        if let Some(node) = did.keys().next() {
            return say(format!("there is no node {node}"));
        }
        let skipped: BTreeSet<&String> = records.iter().flat_map(|it| &it.skipped).collect();
        let idle: BTreeSet<String> = (0..self.nodes.len())
            .filter(|it| !running.contains(it))
            .map(title)
            .collect();
        if !lost && skipped != idle.iter().collect() {
            return say(format!("{idle:?} had to be skipped, and {skipped:?} was"));
        }
        if let Some(twice) = same_seq(&records) {
            return say(format!("trigger {twice} was executed twice"));
        }
        Ok(if lost { Ended::Lost } else { Ended::Completed })
    }

    /// The names of the nodes whose output is the idempotency key of a side effect.
    pub fn effects(&self) -> BTreeSet<String> {
        let effects = self.that_do(|does| does == Does::Effect).map(title);
        effects
            .chain(self.bodies().map(|(index, _)| item(index)))
            .collect()
    }

    /// The matches of the stimuli [`GO`] for which a run waits, one for each node that asks.
    pub fn asks(&self) -> Vec<String> {
        self.that_do(|does| does == Does::Ask).map(title).collect()
    }

    /// The number of runs of [`Plan::child`] that a run has called.
    ///
    /// # Errors
    ///
    /// Its input is not that of a plan.
    pub fn calls(&self, look: &Look, run: &RunRow) -> Result<usize, String> {
        let running = self.running(input_of(look, run)?);
        let calls = self.that_do(|does| does == Does::Call);
        Ok(calls.filter(|index| running.contains(index)).count())
    }

    fn that_do(&self, what: impl Fn(Does) -> bool) -> impl Iterator<Item = usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(move |(_, node)| what(node.does))
            .map(|(index, _)| index)
    }

    /// The for-each nodes, and the number of items of each.
    fn bodies(&self) -> impl Iterator<Item = (usize, usize)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(index, node)| match node.does {
            Does::Each(items) => Some((index, items as usize)),
            _ => None,
        })
    }
}

/// The input of a run.
fn input_of(look: &Look, run: &RunRow) -> Result<u64, String> {
    let n = look.input(run).get("n").and_then(Value::as_u64);
    n.ok_or_else(|| "the input has no number `n`".to_owned())
}

fn index_before(index: usize) -> Option<usize> {
    index.checked_sub(1)
}

/// Whether a node that was given up behaved as expected until then.
fn begins(expected: &[(u32, ExecutionStatus)], did: &[(u32, ExecutionStatus)]) -> bool {
    let well: Vec<_> = did
        .iter()
        .filter(|(_, status)| {
            !matches!(status, ExecutionStatus::Failed | ExecutionStatus::Cancelled)
        })
        .copied()
        .collect();
    expected.starts_with(&well) && did.len() <= well.len() + 1
}

fn same_seq(records: &[Record]) -> Option<u64> {
    let mut seen = BTreeSet::new();
    records
        .iter()
        .map(|record| record.seq)
        .find(|seq| !seen.insert(*seq))
}

fn title(index: usize) -> String {
    format!("n{index}")
}

/// The node in the body of a for-each.
fn item(index: usize) -> String {
    format!("n{index}_item")
}

impl Node {
    fn written(&self, index: usize) -> Value {
        let mut node = self.does.written(&title(index), &item(index));
        if self.all && self.inbound.len() > 1 {
            node["join"] = json!("all");
        }
        node
    }
}

impl Edge {
    fn random(from: usize, does: Does, dice: &mut Dice) -> Self {
        let special = match does {
            Does::Choose => Some("left"),
            Does::Fail => Some("error"),
            _ => None,
        };
        // Mostly the port that is taken; sometimes `done`, which is not taken then.
        let port = special.filter(|_| !dice.once_in(3));
        let parity = dice.once_in(4).then(|| dice.between(0, 1));
        Self { from, port, parity }
    }

    fn written(&self, to: usize) -> Value {
        let mut edge = json!({ "from": title(self.from), "to": title(to) });
        if let Some(port) = self.port {
            edge["port"] = json!(port);
        }
        if let Some(parity) = self.parity {
            edge["when"] = json!(format!("input.n % 2 == {parity}"));
        }
        edge
    }
}
