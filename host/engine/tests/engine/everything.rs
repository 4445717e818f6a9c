//! Runs of random workflows with all features and all kinds of events: suspension, retries,
//! cancelled nodes and external triggers.
//!
//! Every step goes through [`kit::turn`], which first reads the state back from its stored form, as
//! after a crash.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use windlass_engine::{Command, Event, Graph, NodeIx, Open, PlanKind, RunState, Verdict, begin};
use windlass_model::definition::{ErrorEffect, ErrorRule, Join, Node, Retry};
use windlass_model::{
    Class, Code, Definition, ExecutionNo, Failure, JsonText, ScopeNo, Seq, Status, TriggerNo,
    TriggerType,
};
use windlass_test_seeds::Seeds;

use crate::assembled::{self, assemble};
use crate::kit::{self, Stored, Turn};
use crate::mistake::{self, Mistake};
use crate::wild::{Dice, Wild, wild};

const SEEDS: Seeds = Seeds::new(300, 3_000);

/// The step after which no node takes an edge, and no list has items.
const LIVELY: usize = 120;

/// The step by which a run has to be over.
const END: usize = 6_000;

/// The event and the result of one step.
#[derive(Clone)]
struct Played {
    admitted: Option<Open>,
    event: Event,
    random: u64,
    vars: BTreeMap<String, bool>,
    broken: bool,
    commands: Vec<Command>,
}

/// The observer's record of a for-each.
struct List {
    node: NodeIx,
    scope: ScopeNo,
    run: ExecutionNo,
    next: u32,
}

/// Observes a run, knowing only the graph and the events sent to it.
struct Watch<'a> {
    graph: &'a Graph,
    definitions: BTreeMap<String, Node>,
    open: BTreeMap<Seq, Open>,
    external: BTreeMap<Seq, Open>,
    scopes: BTreeMap<ScopeNo, Seq>,
    lists: BTreeMap<Seq, List>,
    /// Edges taken and nodes that ended, by scope.
    taken: BTreeSet<(ScopeNo, u32)>,
    over: BTreeSet<(ScopeNo, NodeIx)>,
    /// Completed nodes that can be undone.
    ledger: Vec<(NodeIx, ExecutionNo)>,
    undoing: bool,
    /// Node runs that have begun.
    firsts: BTreeSet<Seq>,
    /// Whether each node runs in at most one round, so that joins can be checked.
    strict: bool,
    last_seq: Option<Seq>,
}

impl<'a> Watch<'a> {
    fn new(graph: &'a Graph, definition: &Definition, strict: bool) -> Self {
        let nodes = definition.all_nodes().into_iter();
        let definitions = nodes.map(|(_, name, node)| (name.to_owned(), node.clone()));
        Self {
            graph,
            definitions: definitions.collect(),
            open: BTreeMap::new(),
            external: BTreeMap::new(),
            scopes: BTreeMap::new(),
            lists: BTreeMap::new(),
            taken: BTreeSet::new(),
            over: BTreeSet::new(),
            ledger: Vec::new(),
            undoing: false,
            firsts: BTreeSet::new(),
            strict: strict && graph.loops().is_empty(),
            last_seq: None,
        }
    }

    /// The execution of an event.
    fn subject(&mut self, event: &Event) -> Option<(Open, ExecutionNo, bool)> {
        let (seq, run, well) = match event {
            Event::Done { seq, run, .. } => (seq, *run, true),
            Event::Failed { seq, run, .. } => (seq, *run, false),
            Event::Listed { seq, run, .. } | Event::Child { seq, run } => (seq, *run, false),
            Event::Again { seq, run, .. }
            | Event::Wait { seq, run, .. }
            | Event::Suspended { seq, run, .. } => (seq, *run, false),
            Event::Later { seq, .. } => (seq, ExecutionNo(0), false),
            _ => return None,
        };
        let open = self.open.remove(seq).or_else(|| self.external.remove(seq));
        Some((open.expect("it was ordered"), run, well))
    }

    fn saw(&mut self, event: &Event, commands: &[Command], state: &RunState) {
        let subject = self.subject(event);
        if let Some((open, run, well)) = subject {
            self.ended(event, &open, run, well, commands);
        }
        if self.undoing && matches!(event, Event::Broken { .. }) {
            // The remaining compensations are dropped.
            self.ledger.clear();
        }
        for command in commands {
            self.command(command, state);
        }
        self.at_rest(state);
    }

    /// An execution has ended; its node may have ended with it.
    fn ended(
        &mut self,
        event: &Event,
        open: &Open,
        run: ExecutionNo,
        well: bool,
        commands: &[Command],
    ) {
        if let Event::Listed { seq, run, .. } = event {
            let list = List {
                node: open.node,
                scope: open.scope,
                run: *run,
                next: 0,
            };
            self.lists.insert(*seq, list);
            return;
        }
        let goes_on = commands.iter().any(|command| match command {
            Command::Run(next) | Command::Schedule(next) => next.first == open.first,
            _ => false,
        });
        let refuted = commands
            .iter()
            .any(|command| matches!(command, Command::Refuted { .. }));
        let plan = self.graph.node(open.node).expect("a node");
        let node = self.definitions.get(&plan.name).expect("a node");
        let passed = match event {
            Event::Failed {
                verdict: Verdict::Fail(failure),
                ..
            } => {
                let retry = node.retry.as_ref();
                let may = |retry: &Retry| {
                    let fits = retry.when.as_ref().is_none_or(|when| holds(when, failure));
                    retry.classes.contains(&failure.class)
                        && open.attempt < retry.max_attempts
                        && fits
                };
                assert_eq!(
                    goes_on,
                    retry.is_some_and(may),
                    "it is retried if it may be"
                );
                is_passed(node, failure)
            }
            _ => false,
        };
        if refuted {
            return;
        }
        if goes_on {
            // A round of a repeating node has completed.
            let round = matches!(event, Event::Done { .. });
            if round && plan.compensate.is_some() && !self.undoing {
                self.ledger.push((open.node, run));
            }
            return;
        }
        self.over.insert((open.scope, open.node));
        if (well || passed) && !self.undoing {
            // This may count edges that were not taken, but misses none.
            let edges = plan.outbound.iter().map(|edge| (open.scope, edge.0));
            self.taken.extend(edges);
            if plan.compensate.is_some() {
                self.ledger.push((open.node, run));
            }
        }
    }

    fn command(&mut self, command: &Command, state: &RunState) {
        match command {
            Command::Run(open) | Command::Schedule(open) if open.seq.is_external() => {}
            Command::Run(open) | Command::Schedule(open) => {
                assert!(self.last_seq < Some(open.seq), "sequence numbers only grow");
                self.last_seq = Some(open.seq);
                let alive = open.scope == ScopeNo::ROOT || self.scopes.contains_key(&open.scope);
                assert!(alive, "nothing runs in a scope that is closed");
                if let Some(collect) = &open.collect {
                    let list = self.lists.get(&collect.list).expect("it was listed");
                    assert_eq!((list.node, list.run), (open.node, collect.run));
                    assert!(collect.fault.is_some() || list.next == collect.count);
                    let live = self.scopes.values().any(|of| *of == collect.list);
                    assert!(!live, "nothing of its items is open");
                }
                if !open.first.is_external() && self.firsts.insert(open.first) {
                    self.begins(open);
                }
                self.open.insert(open.seq, open.clone());
            }
            Command::Cancel(open) => {
                self.over.insert((open.scope, open.node));
                self.open.remove(&open.seq);
                self.external.remove(&open.seq);
            }
            Command::OpenScope { scope, list, index } => {
                let found = self.lists.iter_mut().find(|(_, known)| known.run == *list);
                let (seq, list) = found.expect("it was listed");
                assert_eq!(list.next, *index, "items are in order, each once");
                list.next += 1;
                assert!(self.scopes.insert(*scope, *seq).is_none());
                let node = self.graph.node(list.node).expect("a node");
                let PlanKind::ForEach { concurrency, .. } = node.kind else {
                    panic!("a list of a for-each")
                };
                let live = self.scopes.values().filter(|of| *of == seq).count();
                assert!(live <= concurrency as usize);
            }
            Command::CloseScope(scope) => {
                assert!(self.scopes.remove(scope).is_some(), "it was open");
                let left = self.open.values().any(|open| open.scope == *scope);
                assert!(!left, "nothing is left in a scope that is closed");
            }
            Command::Emit { scope, .. } => assert!(self.scopes.contains_key(scope)),
            Command::DropList(list) => {
                let list = self.lists.remove(list).expect("it was listed");
                self.over.insert((list.scope, list.node));
            }
            Command::Skip(node) => {
                let scopes = self.scopes.keys().copied().chain([ScopeNo::ROOT]);
                self.over.extend(scopes.map(|scope| (scope, *node)));
            }
            Command::Finish { status, .. } => {
                assert_eq!(*status, state.status);
                if *status != Status::Completed {
                    assert!(self.ledger.is_empty(), "everything was undone");
                }
            }
            _ => {}
        }
    }

    /// Checks a node that begins: all that its join waits for has arrived, or it undoes the node
    /// that completed last.
    fn begins(&mut self, open: &Open) {
        let undoes = |graph: &Graph, (node, _): &(NodeIx, ExecutionNo)| {
            graph.node(*node).and_then(|plan| plan.compensate) == Some(open.node)
        };
        let plan = self.graph.node(open.node).expect("a node");
        let compensating = plan.name.starts_with("undo");
        if compensating {
            self.undoing = true;
            let last = self.ledger.pop().expect("there is something to undo");
            assert!(undoes(self.graph, &last));
            assert_eq!(open.from, [last], "in reverse order, each once");
            let others = self.open.values().any(|other| other.seq != open.seq);
            assert!(!others, "one after the other");
            return;
        }
        assert!(!self.undoing || open.scope != ScopeNo::ROOT);
        if !self.strict || plan.inbound.is_empty() {
            return;
        }
        let edge = |at: &windlass_engine::EdgeIx| self.graph.edge(*at).expect("an edge");
        let decided = |at| self.over.contains(&(open.scope, edge(at).from));
        let taken = plan
            .inbound
            .iter()
            .filter(|at| self.taken.contains(&(open.scope, at.0)))
            .count();
        assert!(match plan.join {
            Join::AllActive => plan.inbound.iter().all(decided) && taken > 0,
            Join::All => taken == plan.inbound.len(),
            Join::Any | Join::Race | Join::Each => taken > 0,
            Join::Count(n) => taken >= n as usize,
        });
    }

    fn at_rest(&self, state: &RunState) {
        let known: Vec<_> = self.open.keys().collect();
        let held: Vec<_> = state.open.keys().collect();
        assert_eq!(
            known, held,
            "what is open is what was ordered and is not over"
        );
        let waiting = state.open.values().filter(|open| open.waiting).count();
        assert_eq!(state.waiting as usize, waiting);
        // At most one node holds each critical section.
        let open = state.open.values().map(|open| open.node);
        let collected = state.open.values().filter_map(|open| open.collect.as_ref());
        let done: BTreeSet<Seq> = collected.map(|collect| collect.list).collect();
        let lists = self.lists.iter().filter(|(seq, _)| !done.contains(seq));
        let mut inside = BTreeSet::new();
        for node in open.chain(lists.map(|(_, list)| list.node)) {
            if let Some(mutex) = self.graph.mutex_of(node) {
                assert!(inside.insert(mutex), "one at a time in a critical section");
            }
        }
    }
}

/// Which kinds of events may happen.
#[derive(Clone, Copy)]
struct Mood {
    /// Nodes are cancelled, and external triggers arrive.
    meddling: bool,
    failures: bool,
}

fn failure(class: Class) -> Failure {
    Failure::new(class, Code::new("WL-T001"), "it failed")
}

/// A failure with or without details.
fn detailed(class: Class, dice: &mut Dice) -> Failure {
    let details = ["", "{}", r#"{"n":1}"#, r#"{"n":2}"#][dice.below(4)];
    Failure {
        details: JsonText::checked(details.as_bytes()).ok(),
        ..failure(class)
    }
}

/// Whether a condition of [`crate::assembled`] holds for a failure.
fn holds(condition: &str, failure: &Failure) -> bool {
    let details = failure.details.as_ref().map_or("", JsonText::as_str);
    match condition {
        assembled::PERMANENT => failure.class == Class::Permanent,
        assembled::FIRST => details == r#"{"n":1}"#,
        assembled::NUMBERED => details.contains('n'),
        other => panic!("no condition {other}"),
    }
}

/// Whether the node counts as done after a failure, according to its definition.
fn is_passed(node: &Node, failure: &Failure) -> bool {
    let mut rules = node.on_error.rules.iter();
    let fits = |rule: &&ErrorRule| rule.when.as_ref().is_none_or(|when| holds(when, failure));
    rules.find(fits).map(|rule| rule.effect) == Some(ErrorEffect::Continue)
}

/// A possible next event of an execution.
fn next(graph: &Graph, open: &Open, dice: &mut Dice, step: usize, mood: Mood) -> Event {
    let seq = open.seq;
    let run = ExecutionNo((3 << 32) + i64::try_from(step).expect("few steps"));
    let plan = graph.node(open.node).expect("a node");
    let tired = step >= LIVELY;
    let done = |ports: &[&str]| Event::Done {
        seq,
        run,
        ports: ports.iter().map(|port| (*port).to_owned()).collect(),
        end: None,
    };
    let failed = |failure| kit::failed(seq, run, failure);
    if matches!(plan.kind, PlanKind::ForEach { .. }) {
        return match &open.collect {
            None if tired => Event::Listed { seq, run, count: 0 },
            None => {
                let count = u32::try_from(dice.below(5)).expect("few");
                Event::Listed { seq, run, count }
            }
            Some(collect) => match &collect.fault {
                Some(fault) => failed(fault.clone()),
                None if tired => done(&["none"]),
                None => done(&[]),
            },
        };
    }
    if tired {
        return done(&["none"]);
    }
    match dice.below(if mood.failures { 24 } else { 14 }) {
        0..=7 => done(&[]),
        8 => done(&["p"]),
        9 => done(&["q", "done"]),
        10 => done(&["none"]),
        11 => Event::Suspended {
            seq,
            run,
            until_ms: (dice.below(2) == 0).then_some(70),
            left: None,
        },
        12 => Event::Child { seq, run },
        13 => Event::Later { seq, until_ms: 40 },
        14 | 15 => failed(detailed(Class::Permanent, dice)),
        16..=18 => failed(detailed(Class::Retryable, dice)),
        19 | 20 => Event::Again {
            seq,
            run,
            after_ms: dice.below(3) as u64,
            left: None,
        },
        21 => Event::Wait {
            seq,
            run,
            until_ms: 50,
        },
        _ => done(&["p", "q"]),
    }
}

/// An external trigger for a node outside of every for-each.
fn outsider(graph: &Graph, dice: &mut Dice, step: usize) -> Option<Open> {
    let roots: Vec<NodeIx> = graph
        .nodes()
        .filter(|(_, plan)| plan.body == windlass_engine::BodyIx::ROOT)
        .filter(|(_, plan)| !plan.name.starts_with("undo"))
        .map(|(at, _)| at)
        .collect();
    let node = *roots.get(dice.below(roots.len()))?;
    let seq = Seq::external(TriggerNo(i64::try_from(step).expect("few steps")));
    Some(Open {
        seq,
        first: seq,
        scope: ScopeNo::ROOT,
        node,
        edge: None,
        kind: TriggerType::Manual,
        attempt: 1,
        phase: 0,
        due_ms: None,
        give_up_ms: None,
        give_up_wait_ms: None,
        expires_ms: None,
        from: Vec::new(),
        left: None,
        round: None,
        collect: None,
        input: None,
        waiting: false,
    })
}

struct Player<'a> {
    graph: &'a Graph,
    state: RunState,
    stored: Stored,
    log: Vec<Played>,
}

impl Player<'_> {
    fn step(&mut self, dice: &mut Dice, mood: Mood, watch: &mut Watch<'_>) {
        let (graph, step) = (self.graph, self.log.len());
        let mut admitted = None;
        let meddle = mood.meddling && step < LIVELY;
        let event = if meddle && dice.below(12) == 0 {
            let open = outsider(graph, dice, step).expect("there is a node");
            let mut state = self.state.clone();
            if state.admit(graph, open.clone()).is_err() {
                return self.step(dice, mood, watch);
            }
            let event = next(graph, &open, dice, step, mood);
            watch.external.insert(open.seq, open.clone());
            admitted = Some(open);
            event
        } else {
            let at = dice.below(self.state.open.len());
            let open = self.state.open.values().nth(at).expect("something is open");
            match dice.below(40) {
                0 | 1 if meddle => Event::CancelNode { seq: open.first },
                2 if meddle && step > 30 => Event::Cancel,
                3 if meddle && step > 40 => Event::Broken {
                    failure: failure(Class::Invalid),
                },
                _ => next(graph, open, dice, step, mood),
            }
        };
        let played = Played {
            admitted,
            event,
            random: dice.roll(),
            vars: ["x", "y"]
                .map(|name| (name.to_owned(), dice.below(2) == 1))
                .into(),
            broken: mood.failures && dice.below(6) == 0,
            commands: Vec::new(),
        };
        self.play(played, watch);
    }

    /// Plays a step twice from the stored state, as if the host had died after the first time.
    fn play(&mut self, mut played: Played, watch: &mut Watch<'_>) {
        let before = self.state.clone();
        let mut once = kit::reread(self.graph, &before, &self.stored);
        let mut twice = kit::reread(self.graph, &before, &self.stored);
        assert_eq!(once, before, "what is read back is what was stored");
        let commands = apply(self.graph, &mut once, &played);
        assert_eq!(commands, apply(self.graph, &mut twice, &played));
        assert_eq!(
            written(&mut once.clone(), &commands),
            written(&mut twice, &commands)
        );
        watch.saw(&played.event, &commands, &once);
        self.stored.keep(&mut once, &commands);
        self.state = once;
        played.commands = commands;
        self.log.push(played);
    }
}

fn apply(graph: &Graph, state: &mut RunState, played: &Played) -> Vec<Command> {
    if let Some(open) = &played.admitted {
        state.admit(graph, open.clone()).expect("it was let in");
    }
    let turn = Turn {
        now_ms: 0,
        random: played.random,
        values: &kit::values(&played.vars),
    };
    let broken = |scope: ScopeNo| played.broken && scope.0.is_multiple_of(2);
    let commands = kit::apply_whole(graph, state, played.event.clone(), turn, &broken);
    commands.expect("what is open is not stale")
}

/// All rows that a step writes to the store.
fn written(state: &mut RunState, commands: &[Command]) -> Vec<(u64, Vec<u8>)> {
    let mut written = vec![(0, state.encode())];
    for (no, bytes) in state.drain_scopes() {
        written.push((no.0, bytes.unwrap_or_default()));
    }
    for command in commands {
        if let Command::Run(open) | Command::Schedule(open) = command {
            written.push((open.seq.0, open.encode_detail()));
        }
    }
    written
}

fn play(definition: &Definition, seed: u64, mood: Mood) -> RunState {
    play_as(definition, definition, seed, mood)
}

/// Plays a run of a workflow that the observer takes for a run of `definition`.
fn play_as(definition: &Definition, run: &Definition, seed: u64, mood: Mood) -> RunState {
    let known = kit::compile(definition).expect("it compiled before");
    let graph = kit::compile(run).expect("it compiled before");
    let mut dice = Dice(seed);
    let mut watch = Watch::new(&known, definition, !mood.meddling);
    let (state, commands) = begin(&graph, 0);
    for command in &commands {
        watch.command(command, &state);
    }
    let mut player = Player {
        graph: &graph,
        state,
        stored: Stored::default(),
        log: Vec::new(),
    };
    while !player.state.status.is_final() {
        assert!(player.log.len() < END, "the run ends");
        player.step(&mut dice, mood, &mut watch);
    }
    assert!(player.state.open.is_empty() && player.state.waiting == 0);
    assert!(watch.scopes.is_empty(), "every scope was closed");
    assert!(watch.lists.is_empty(), "every list was dropped");
    assert!(player.stored.scopes.is_empty(), "no scope stays stored");
    let (mut state, _) = begin(&graph, 0);
    for played in &player.log {
        assert_eq!(apply(&graph, &mut state, played), played.commands);
        state.drain_scopes();
    }
    assert_eq!(state, player.state, "the same state is reached");
    player.state
}

fn parts() -> impl Strategy<Value = Vec<Wild>> {
    prop::collection::vec(wild(2, false), 1..4)
}

#[test]
fn a_mistake_of_the_engine_is_noticed() {
    let cases = (parts(), any::<u64>());
    let mood = Mood {
        meddling: false,
        failures: true,
    };
    mistake::find(
        SEEDS,
        &Mistake::OF_FEATURES,
        &cases,
        |(parts, seed)| assemble(parts.clone(), *seed),
        |definition, bent, (_, seed)| drop(play_as(definition, bent, *seed, mood)),
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(SEEDS.cases()))]

    #[test]
    fn runs_of_random_workflows_end_in_order(parts in parts(), seed in any::<u64>()) {
        let Some(definition) = assemble(parts, seed) else { return Err(TestCaseError::reject("")) };
        play(&definition, seed, Mood { meddling: false, failures: true });
    }

    #[test]
    fn interventions_in_random_runs_break_nothing(parts in parts(), seed in any::<u64>()) {
        let Some(definition) = assemble(parts, seed) else { return Err(TestCaseError::reject("")) };
        play(&definition, seed, Mood { meddling: true, failures: true });
    }

    /// The same stored bytes and the same event give the same commands, sequence numbers and bytes:
    /// [`Player::play`] does each step twice.
    #[test]
    fn a_step_done_again_writes_the_same_successors(parts in parts(), seed in any::<u64>()) {
        let Some(definition) = assemble(parts, seed) else { return Err(TestCaseError::reject("")) };
        play(&definition, seed, Mood { meddling: true, failures: false });
    }
}
