//! What a workflow does, worked out by the simplest means: as the yardstick for what the
//! program did. Knows nothing of triggers, commits or crashes, and shares no code with the
//! engine.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use windlass_model::{RunStatus, Status};

use super::dice::Dice;
use super::look::{Look, Record};
use windlass_store::rows::InstanceRow;

/// A workflow of layers, of which one can say by hand what it does.
#[derive(Clone, Debug)]
pub struct Plan {
    name: String,
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
struct Node {
    does: Does,
    /// Runs only if every edge to it was taken, and not already if any was.
    all: bool,
    inbound: Vec<Edge>,
}

/// An edge that leads to a node.
#[derive(Clone, Debug)]
struct Edge {
    from: usize,
    /// The port, if not `done`.
    port: Option<&'static str>,
    /// Taken only for inputs whose `n` leaves this rest when divided by 2.
    parity: Option<u64>,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// An effect, known by its idempotency key.
    Effect,
    /// The least that a plugin can do.
    Echo,
    /// Fails until this attempt.
    Flaky(u32),
    /// Asks so many times to be called again.
    Poll(u32),
    /// Waits for a moment.
    Wait,
    /// Assigns a variable.
    Set,
    /// Takes the port `left`, and not `done`.
    Choose,
    /// Fails, and goes on by its port `error`.
    Fail,
}

/// How a run ended that is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything that had to run did, once.
    Completed,
    /// It was given up after hosts had died with it again and again; what it did before, it
    /// did once.
    Lost,
}

impl Plan {
    /// Some workflow.
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
        // Every run has at least one effect, whatever the dice say.
        nodes[0].does = Does::Effect;
        for edge in nodes.iter_mut().flat_map(|node| &mut node.inbound) {
            if edge.from == 0 {
                edge.port = None;
            }
        }
        // To route failures nowhere is a mistake that the program refuses.
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
        }
    }

    /// The workflow's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The workflow as a file has it.
    pub fn workflow(&self) -> Value {
        let mut nodes = Map::new();
        let mut edges = Vec::new();
        for (to, node) in self.nodes.iter().enumerate() {
            nodes.insert(title(to), node.written());
            edges.extend(node.inbound.iter().map(|edge| edge.written(to)));
        }
        json!({ "workflow": self.name, "nodes": nodes, "edges": edges })
    }

    /// Which nodes run for an input.
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

    /// Compares what a run did with what it had to do.
    ///
    /// # Errors
    ///
    /// What is different.
    pub fn check(&self, look: &Look, run: &InstanceRow) -> Result<Ended, String> {
        let n = look.input(run).get("n").and_then(Value::as_u64);
        let n = n.ok_or("the input has no number `n`")?;
        let records = look.records(run);
        let say = |what: String| Err(format!("{what}\nthe run: {run:#?}\nit did: {records:#?}"));
        let mut did: BTreeMap<&str, Vec<(u32, RunStatus)>> = BTreeMap::new();
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

    /// The names of the nodes whose output is the idempotency key of an effect.
    pub fn effects(&self) -> BTreeSet<String> {
        let effects = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.does == Does::Effect);
        effects.map(|(index, _)| title(index)).collect()
    }
}

/// Whether a node that was given up did what it had to, as far as it came.
fn begins(expected: &[(u32, RunStatus)], did: &[(u32, RunStatus)]) -> bool {
    let well: Vec<_> = did
        .iter()
        .filter(|(_, status)| !matches!(status, RunStatus::Failed | RunStatus::Cancelled))
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

impl Node {
    fn written(&self) -> Value {
        let mut node = match self.does {
            Does::Effect => json!({ "use": "steps/effect" }),
            Does::Echo => json!({ "use": "echo/echo", "input": { "n": "{{ input.n }}" } }),
            Does::Flaky(until) => json!({
                "use": "steps/flaky",
                "with": { "until": until },
                "retry": { "max-attempts": until, "delay": "1ms", "backoff": "fixed" },
            }),
            Does::Poll(times) => json!({
                "use": "steps/poll",
                "with": { "times": times, "after-ms": 1 },
            }),
            Does::Wait => json!({ "wait": "2ms" }),
            Does::Set => json!({ "set": { "last": "{{ input.n }}" } }),
            Does::Choose => json!({
                "use": "steps/port",
                "with": { "ports": ["left"] },
                "input": { "n": "{{ input.n }}" },
            }),
            Does::Fail => json!({
                "use": "steps/fail",
                "with": { "class": "permanent", "message": "as it should" },
                "on-error": "route",
            }),
        };
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
        // Mostly the port that is taken; sometimes `done`, which then is not.
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

impl Does {
    fn random(dice: &mut Dice) -> Self {
        let times = u32::try_from(dice.between(1, 3)).unwrap_or(1);
        match dice.between(0, 10) {
            0..=2 => Self::Effect,
            3 => Self::Echo,
            4..=5 => Self::Flaky(times + 1),
            6 => Self::Poll(times),
            7 => Self::Wait,
            8 => Self::Set,
            9 => Self::Choose,
            _ => Self::Fail,
        }
    }

    /// Whether an edge of this port is taken once the node has run.
    fn takes(self, port: Option<&str>) -> bool {
        match self {
            Self::Choose => port == Some("left"),
            Self::Fail => port == Some("error"),
            _ => port.is_none(),
        }
    }

    /// The executions on record once the node has run, as attempt and status.
    fn records(self) -> Vec<(u32, RunStatus)> {
        match self {
            Self::Flaky(until) => (1..=until)
                .map(|attempt| {
                    let last = attempt == until;
                    (
                        attempt,
                        if last {
                            RunStatus::Completed
                        } else {
                            RunStatus::WaitingRetry
                        },
                    )
                })
                .collect(),
            Self::Poll(times) => suspended(times),
            Self::Wait => suspended(1),
            Self::Fail => vec![(1, RunStatus::Failed)],
            Self::Effect | Self::Echo | Self::Set | Self::Choose => vec![(1, RunStatus::Completed)],
        }
    }
}

/// Suspended so many times, and then completed.
fn suspended(times: u32) -> Vec<(u32, RunStatus)> {
    let mut records = vec![(1, RunStatus::Suspended); times as usize];
    records.push((1, RunStatus::Completed));
    records
}
