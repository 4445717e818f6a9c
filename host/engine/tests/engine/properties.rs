//! Random graphs, random outcomes, random orders. In all cases every run ends, no node starts
//! before its join allows it, and playing the run again gives the same result.
//!
//! Every step goes through [`kit::step`], which first reads the state back from its stored form, as
//! after a crash.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use windlass_engine::{Command, Cx, EdgeIx, Event, Graph, MAX_STEPS, NodeIx, RunState, begin};
use windlass_model::definition::{Incidents, Join, Node, OnError, When};
use windlass_model::{Class, Code, Definition, ExecutionNo, Failure, Seq, Status};
use windlass_test_seeds::Seeds;

use crate::kit;
use crate::mistake::{self, Mistake};
use crate::wild::{Dice, Wild, wild};

const SEEDS: Seeds = Seeds::new(500, 3_000);

/// The step after which no node takes an edge any more.
const LIVELY: usize = 80;

/// The step by which a run has to be over.
const END: usize = 5_000;

/// The event and the result of one step.
#[derive(Clone)]
struct Played {
    event: Event,
    random: u64,
    vars: BTreeMap<String, bool>,
    commands: Vec<Command>,
}

/// Observes a run, knowing only the definition and the events sent to it.
struct Watch<'a> {
    graph: &'a Graph,
    definition: &'a Definition,
    open: BTreeMap<Seq, NodeIx>,
    last_seq: Option<Seq>,
    /// How often each edge was taken.
    taken: BTreeMap<EdgeIx, u64>,
    /// How often each node ran because of a forward edge or as an entry.
    ran: BTreeMap<NodeIx, u64>,
    skipped: BTreeMap<NodeIx, u64>,
    /// How often each node ended, including the times when it was skipped.
    finished: BTreeMap<NodeIx, u64>,
    acyclic: bool,
    /// Whether the order of decisions does not matter: no cycles, and no join `each`.
    once: bool,
    /// The observer's knowledge before the step.
    known: Known,
}

/// The facts that tell which paths are still open in a graph whose nodes are decided once.
#[derive(Clone, Default)]
struct Known {
    /// Nodes that ran or were skipped.
    decided: BTreeSet<NodeIx>,
    finished: BTreeSet<NodeIx>,
    taken: BTreeSet<EdgeIx>,
}

impl<'a> Watch<'a> {
    fn new(graph: &'a Graph, definition: &'a Definition) -> Self {
        Self {
            graph,
            definition,
            open: BTreeMap::new(),
            last_seq: None,
            taken: BTreeMap::new(),
            ran: BTreeMap::new(),
            skipped: BTreeMap::new(),
            finished: BTreeMap::new(),
            acyclic: graph.loops().is_empty(),
            once: graph.loops().is_empty()
                && graph.nodes().all(|(_, plan)| plan.join != Join::Each),
            known: Known::default(),
        }
    }

    fn definition_of(&self, node: NodeIx) -> &Node {
        self.definition
            .nodes
            .values()
            .nth(node.at())
            .expect("a node")
    }

    /// The edges that an outcome takes according to the documented rules.
    fn choose(&self, node: NodeIx, ports: &[String], vars: &BTreeMap<String, bool>) -> Vec<EdgeIx> {
        let name = self.definition.nodes.keys().nth(node.at()).expect("a node");
        let done = vec!["done".to_owned()];
        let ports = if ports.is_empty() { &done } else { ports };
        let all = self.definition.edges.iter().enumerate();
        let edges: Vec<_> = all
            .filter(|(_, e)| {
                let any = e.port == "*" && ports.iter().any(|port| port != "error");
                e.from == *name && (any || ports.contains(&e.port))
            })
            .collect();
        let is_true = |when: &When| match when {
            When::Always => true,
            When::If(text) => vars[text.trim_start_matches("vars.")],
            When::Else => false,
        };
        let mut taken: Vec<usize> = Vec::new();
        for (at, edge) in &edges {
            let sibling = edges
                .iter()
                .any(|(_, e)| e.port == edge.port && is_true(&e.when));
            if is_true(&edge.when) || edge.when == When::Else && !sibling {
                taken.push(*at);
            }
        }
        if self.definition_of(node).first {
            let by_condition = taken
                .iter()
                .find(|at| is_true(&self.definition.edges[**at].when));
            taken = by_condition
                .or(taken.first())
                .copied()
                .into_iter()
                .collect();
        }
        taken
            .into_iter()
            .map(|at| EdgeIx(u32::try_from(at).expect("few edges")))
            .collect()
    }

    fn before(&mut self, event: &Event, vars: &BTreeMap<String, bool>) {
        self.known = self.known_now();
        let (seq, none, ports) = match event {
            Event::Done { seq, ports, .. } => (seq, false, ports.clone()),
            Event::Failed { seq, .. } => (seq, true, Vec::new()),
            _ => return,
        };
        let node = self.open[seq];
        if !none {
            for edge in self.choose(node, &ports, vars) {
                *self.taken.entry(edge).or_default() += 1;
            }
        }
        *self.finished.entry(node).or_default() += 1;
    }

    fn commands(&mut self, event: Option<&Event>, commands: &[Command], state: &RunState) {
        if let Some(
            Event::Done { seq, .. }
            | Event::Failed { seq, .. }
            | Event::Again { seq, .. }
            | Event::Wait { seq, .. }
            | Event::Later { seq, .. },
        ) = event
        {
            self.open.remove(seq);
        }
        let mut cancelled = Vec::new();
        for (at, command) in commands.iter().enumerate() {
            match command {
                Command::Cancel(open) => cancelled.push(open.node),
                Command::Run(open) if self.once && event.is_some() => {
                    self.lost(open.node, &cancelled);
                    cancelled.clear();
                }
                _ => cancelled.clear(),
            }
            match command {
                Command::Run(open) | Command::Schedule(open) => {
                    assert!(self.last_seq < Some(open.seq), "sequence numbers only grow");
                    self.last_seq = Some(open.seq);
                    self.open.insert(open.seq, open.node);
                    if open.first == open.seq {
                        self.starts(open.node, open.edge);
                    } else {
                        self.goes_on(event, open.node);
                    }
                }
                Command::Cancel(open) => {
                    assert_eq!(self.open.remove(&open.seq), Some(open.node));
                    *self.finished.entry(open.node).or_default() += 1;
                }
                Command::Skip(node) => {
                    *self.skipped.entry(*node).or_default() += 1;
                    *self.finished.entry(*node).or_default() += 1;
                }
                Command::Finish { status, .. } => {
                    assert_eq!(at + 1, commands.len(), "the end is the last");
                    assert_eq!(*status, state.status);
                    assert!(status.is_final());
                }
                _ => {}
            }
        }
        let known: Vec<_> = self.open.keys().copied().collect();
        let held: Vec<_> = state.open.keys().copied().collect();
        assert_eq!(
            known, held,
            "what is open is what was ordered and is not over"
        );
        let waiting = state.open.values().filter(|open| open.waiting).count();
        assert_eq!(state.waiting as usize, waiting);
        if !state.status.is_final() && event.is_some() {
            assert_eq!(
                state.status == Status::Suspended,
                waiting == state.open.len()
            );
        }
        if !state.status.is_final() {
            self.counts();
            self.exits(commands);
        }
    }

    fn known_now(&self) -> Known {
        let decided = self.ran.keys().chain(self.skipped.keys());
        Known {
            decided: decided.copied().collect(),
            finished: self.finished.keys().copied().collect(),
            taken: self.taken.keys().copied().collect(),
        }
    }

    /// Whether a node can reach a race: not through a join that is decided, and not through a join
    /// that misses an edge.
    fn leads(&self, from: NodeIx, race: NodeIx, known: &Known) -> bool {
        let edge = |at: &EdgeIx| self.graph.edge(*at).expect("an edge");
        let mut todo = vec![from];
        while let Some(node) = todo.pop() {
            let plan = self.graph.node(node).expect("a node");
            for to in plan.outbound.iter().map(|at| edge(at).to) {
                if to == race {
                    return true;
                }
                let plan = self.graph.node(to).expect("a node");
                let misses = plan.join == Join::All
                    && plan.inbound.iter().any(|at| {
                        known.finished.contains(&edge(at).from) && !known.taken.contains(at)
                    });
                if !known.decided.contains(&to) && !misses {
                    todo.push(to);
                }
            }
        }
        false
    }

    /// Checks a race that begins: the cancelled executions could still reach it before the step,
    /// and no remaining execution can reach it now.
    fn lost(&self, race: NodeIx, cancelled: &[NodeIx]) {
        let plan = self.graph.node(race).expect("a node");
        if plan.join != Join::Race || plan.inbound.len() < 2 || self.ran.contains_key(&race) {
            return;
        }
        let name = &plan.name;
        for node in cancelled {
            assert!(
                self.leads(*node, race, &self.known),
                "{name} cancels rivals"
            );
        }
        let now = self.known_now();
        for node in self.open.values() {
            assert!(!self.leads(*node, race, &now), "{name} cancels all rivals");
        }
    }

    /// A node run did not end after all.
    fn goes_on(&mut self, event: Option<&Event>, node: NodeIx) {
        if let Some(Event::Failed { .. }) = event {
            let runs = self.finished.remove(&node).unwrap_or_default();
            if runs > 1 {
                self.finished.insert(node, runs - 1);
            }
        }
    }

    /// Checks a node that begins: in a graph without cycles, all that its join waits for has
    /// arrived.
    fn starts(&mut self, node: NodeIx, edge: Option<EdgeIx>) {
        if edge.is_some_and(|edge| self.graph.edge(edge).expect("an edge").backward) {
            return;
        }
        *self.ran.entry(node).or_default() += 1;
        let plan = self.graph.node(node).expect("a node");
        if !self.acyclic || plan.inbound.is_empty() {
            return;
        }
        let taken = plan
            .inbound
            .iter()
            .filter(|edge| self.taken.contains_key(edge))
            .count();
        let sources = plan
            .inbound
            .iter()
            .map(|edge| self.graph.edge(*edge).expect("an edge").from);
        let decided = sources
            .into_iter()
            .all(|from| self.finished.contains_key(&from));
        assert!(match plan.join {
            Join::AllActive => decided && taken > 0,
            Join::All => decided && taken == plan.inbound.len(),
            Join::Any | Join::Race | Join::Each => taken > 0,
            Join::Count(n) => taken >= n as usize,
        });
    }

    /// Checks that no node ran more often than its join and its taken edges allow.
    fn counts(&self) {
        for (node, plan) in self.graph.nodes() {
            let ran = self.ran.get(&node).copied().unwrap_or_default();
            let taken = |edge: &EdgeIx| self.taken.get(edge).copied().unwrap_or_default();
            let all: u64 = plan.inbound.iter().map(taken).sum();
            let entry = self.graph.entries().contains(&node);
            if entry {
                assert_eq!(ran, 1 + all, "an entry runs once by itself");
                continue;
            }
            match plan.join {
                Join::Each => assert_eq!(ran, all),
                _ if plan.inbound.len() == 1 => assert_eq!(ran, all),
                Join::All => assert!(ran <= plan.inbound.iter().map(taken).min().unwrap_or(0)),
                Join::AllActive | Join::Any | Join::Race => assert!(ran <= all),
                Join::Count(n) => assert!(ran * u64::from(n) <= all),
            }
        }
    }

    /// Checks that nodes behind the exit of a loop are skipped only when nothing is open in the
    /// loop.
    fn exits(&self, commands: &[Command]) {
        for command in commands {
            let Command::Skip(node) = command else {
                continue;
            };
            let [edge] = self.graph.node(*node).expect("a node").inbound[..] else {
                continue;
            };
            let Some(left) = self.graph.edge(edge).expect("an edge").leaves else {
                continue;
            };
            for open in self.open.values() {
                assert!(self.graph.loops_of(*open).all(|around| around != left));
            }
        }
    }

    /// Checks that in a graph without cycles and without `each`, every node was decided exactly
    /// once, as its join requires for the edges that were taken in the end.
    fn verdicts(&self) {
        for (node, plan) in self.graph.nodes() {
            let ran = self.ran.get(&node).copied().unwrap_or_default();
            let skipped = self.skipped.get(&node).copied().unwrap_or_default();
            assert_eq!(ran + skipped, 1, "{} is decided once", plan.name);
            let taken = plan
                .inbound
                .iter()
                .filter(|edge| self.taken.contains_key(edge))
                .count();
            let runs = match plan.join {
                _ if plan.inbound.is_empty() => true,
                Join::AllActive | Join::Any | Join::Race | Join::Each => taken > 0,
                Join::All => taken == plan.inbound.len(),
                Join::Count(n) => taken >= n as usize,
            };
            assert_eq!(ran == 1, runs, "{} runs if its join says so", plan.name);
        }
    }
}

/// A possible next event.
fn next(state: &RunState, dice: &mut Dice, step: usize, plain: bool) -> Event {
    let at = dice.below(state.open.len());
    let open = state.open.values().nth(at).expect("something is open");
    let seq = open.seq;
    let run = ExecutionNo((3 << 32) + i64::try_from(step).expect("few steps"));
    if step >= LIVELY {
        return Event::Done {
            seq,
            run,
            ports: vec!["none".into()],
            end: None,
        };
    }
    let failure = |class| Failure::new(class, Code::new("WL-T001"), "it failed");
    match dice.below(if plain { 12 } else { 20 }) {
        0..=3 => Event::Done {
            seq,
            run,
            ports: Vec::new(),
            end: None,
        },
        4..=11 => {
            let ports = ["done", "p", "q"].into_iter().filter(|_| dice.below(5) > 1);
            let mut ports: Vec<String> = ports.map(str::to_owned).collect();
            if ports.is_empty() {
                ports.push("none".to_owned());
            }
            Event::Done {
                seq,
                run,
                ports,
                end: None,
            }
        }
        12 => kit::failed(seq, run, failure(Class::Permanent)),
        13 | 14 => kit::failed(seq, run, failure(Class::Retryable)),
        15 | 16 => Event::Again {
            seq,
            run,
            after_ms: dice.below(3) as u64,
            left: None,
        },
        17 | 18 => Event::Wait {
            seq,
            run,
            until_ms: 50,
        },
        _ => Event::Later { seq, until_ms: 40 },
    }
}

/// Plays a run to its end, twice.
fn play(definition: &Definition, seed: u64, plain: bool) -> Status {
    play_as(definition, definition, seed, plain)
}

/// Plays a run of a workflow that the observer takes for a run of `definition`.
fn play_as(definition: &Definition, run: &Definition, seed: u64, plain: bool) -> Status {
    let known = kit::compile(definition).expect("it was repaired");
    let graph = kit::compile(run).expect("it compiled before");
    let mut dice = Dice(seed);
    let mut watch = Watch::new(&known, definition);
    let (mut state, commands) = begin(&graph, 0);
    watch.commands(None, &commands, &state);
    let mut log: Vec<Played> = Vec::new();
    while !state.status.is_final() {
        assert!(log.len() < END, "the run ends");
        let event = next(&state, &mut dice, log.len(), plain);
        let random = dice.roll();
        let vars: BTreeMap<String, bool> = ["x", "y"]
            .map(|name| (name.to_owned(), dice.below(2) == 1))
            .into();
        watch.before(&event, &vars);
        let values = kit::values(&vars);
        let commands = kit::step(&graph, &mut state, event.clone(), 0, random, &values);
        let commands = commands.expect("what is open is not stale");
        watch.commands(Some(&event), &commands, &state);
        log.push(Played {
            event,
            random,
            vars,
            commands,
        });
    }
    assert!(
        state.open.is_empty() && state.waiting == 0,
        "nothing outstanding stays"
    );
    let each = definition
        .nodes
        .values()
        .any(|node| node.join == Join::Each);
    if watch.acyclic && !each && plain {
        assert_eq!(state.status, Status::Completed);
        watch.verdicts();
    }
    replay(&graph, &log, &state);
    state.status
}

fn replay(graph: &Graph, log: &[Played], end: &RunState) {
    let (mut state, _) = begin(graph, 0);
    for played in log {
        let values = kit::values(&played.vars);
        let cx = Cx {
            now_ms: 0,
            random: played.random,
            values: &values,
            failing: Ok(&values),
            max_steps: MAX_STEPS,
        };
        let turn = kit::Turn {
            now_ms: 0,
            random: played.random,
            values: &values,
        };
        let event = kit::judged(graph, &state, played.event.clone(), turn);
        let commands = windlass_engine::apply(graph, &mut state, event, &cx);
        assert_eq!(
            commands.as_ref(),
            Ok(&played.commands),
            "the same commands follow"
        );
    }
    assert_eq!(state, *end, "the same state is reached");
}

fn retrying(mut definition: Definition, policy: u8) -> Definition {
    definition.options.incidents = Incidents::Continue;
    let retrying = kit::definition("a: retry 3 5 exponential jitter");
    let retry = retrying.nodes["a"].retry.clone();
    for (at, node) in definition.nodes.values_mut().enumerate() {
        node.retry = if at % 2 == 0 { retry.clone() } else { None };
        if (at + usize::from(policy)).is_multiple_of(3) {
            node.on_error = OnError::default();
            node.total_timeout_ms = Some(100);
        }
    }
    definition
}

#[test]
fn a_mistake_of_the_engine_is_noticed() {
    let cases = (wild(0, false), any::<u64>());
    mistake::find(
        SEEDS,
        &Mistake::OF_GRAPHS,
        &cases,
        |(wild, _)| wild.clone().repair(),
        |definition, bent, (_, seed)| {
            let _ = play_as(definition, bent, *seed, true);
        },
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(SEEDS.cases()))]

    #[test]
    fn a_graph_without_cycles_decides_every_node_once(
        wild in wild(0, false),
        seed in any::<u64>(),
    ) {
        let Some(definition) = Wild::repair(wild) else { return Err(TestCaseError::reject("")) };
        play(&definition, seed, true);
    }

    #[test]
    fn a_graph_with_cycles_ends_and_keeps_to_its_joins(
        wild in wild(5, false),
        seed in any::<u64>(),
    ) {
        let Some(definition) = Wild::repair(wild) else { return Err(TestCaseError::reject("")) };
        play(&definition, seed, true);
    }

    /// If every node takes at most one edge, only one execution is open at a time, and no join is
    /// left waiting on any path.
    #[test]
    fn a_single_thread_of_work_always_completes(
        wild in wild(5, true),
        seed in any::<u64>(),
    ) {
        let Some(definition) = Wild::repair(wild) else { return Err(TestCaseError::reject("")) };
        prop_assert_eq!(play(&definition, seed, true), Status::Completed);
    }

    #[test]
    fn failures_waits_and_retries_change_nothing_of_that(
        wild in wild(4, false),
        seed in any::<u64>(),
        policy in any::<u8>(),
    ) {
        let Some(definition) = Wild::repair(wild) else { return Err(TestCaseError::reject("")) };
        play(&retrying(definition, policy), seed, false);
    }
}
