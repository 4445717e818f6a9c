//! Runs that end without completing and continue with another version of their workflow.
//!
//! A run of a random graph is cut off at a random moment and continues with a graph of which some
//! nodes and edges were removed, added or changed. If the state fits, the run completes, and every
//! node of the new graph has run or was left out, in one of the versions.

use std::collections::{BTreeMap, BTreeSet};

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use windlass_engine::{
    Closed, Command, Cx, Event, Graph, MAX_STEPS, Misfit, NodeIx, Open, Reopening, RunState, begin,
    reopen,
};
use windlass_model::definition::{Edge, Join, When};
use windlass_model::{Class, Code, Definition, ExecutionNo, Failure, Status};
use windlass_test_seeds::Seeds;

use crate::kit;
use crate::wild::{Dice, Wild, wild};

const SEEDS: Seeds = Seeds::new(4_000, 40_000);

/// More executions than any of these runs has.
const END: u32 = 2_000;

/// The number of executions after which no edge is taken any more.
const LIVELY: u32 = 60;

/// The edges of later versions have other names than those of earlier ones.
struct Changing {
    dice: Dice,
    next: usize,
}

impl Changing {
    /// Another version of a workflow, in which the nodes keep their numbers.
    fn version(&mut self, before: &Definition) -> Definition {
        let mut new = before.clone();
        new.node_order.clear();
        for _ in 0..=self.dice.below(3) {
            let mut next = new.clone();
            self.change(&mut next);
            if kit::compile(&next).is_ok() {
                new = next;
            }
        }
        let names = before.node_names().into_iter().map(str::to_owned);
        let mut order: Vec<String> = names.collect();
        let all = new.nodes.keys().cloned();
        let added: Vec<String> = all.filter(|name| !order.contains(name)).collect();
        order.extend(added);
        new.node_order = order;
        // Which edges of a loop with several entries go back depends on the numbers of its nodes.
        match kit::compile(&new) {
            Ok(_) => new,
            Err(_) => before.clone(),
        }
    }

    fn node(&mut self, definition: &Definition) -> String {
        let at = self.dice.below(definition.nodes.len());
        definition.nodes.keys().nth(at).expect("a node").clone()
    }

    fn edge(&mut self, definition: &mut Definition, from: &str, to: &str) {
        let port = ["done", "done", "p"][self.dice.below(3)];
        let when = match self.dice.below(4) {
            0 => When::If("vars.x".into()),
            _ => When::Always,
        };
        self.next += 1;
        let edge = kit::edge(1_000 + self.next, from, port, to, when);
        definition.edges.push(edge);
    }

    fn change(&mut self, definition: &mut Definition) {
        let node = self.node(definition);
        let edges = definition.edges.len();
        match self.dice.below(8) {
            0 | 1 => {
                definition.nodes.remove(&node);
                let is_of = |name: &String| *name == node;
                let edges = &mut definition.edges;
                edges.retain(|edge| !is_of(&edge.from) && !is_of(&edge.to));
            }
            2 if edges > 0 => drop(definition.edges.remove(self.dice.below(edges))),
            3 => {
                let to = self.node(definition);
                self.edge(definition, &node, &to);
            }
            // A node at the end of another one.
            4 => {
                self.next += 1;
                let name = format!("{}{}", ["a", "z"][self.dice.below(2)], self.next);
                definition.nodes.insert(name.clone(), kit::node());
                self.edge(definition, &node, &name);
                if self.dice.below(2) == 0 {
                    let to = self.node(definition);
                    self.edge(definition, &name, &to);
                }
            }
            // A node on an edge.
            5 if edges > 0 => {
                self.next += 1;
                let name = format!("m{}", self.next);
                definition.nodes.insert(name.clone(), kit::node());
                let at = self.dice.below(edges);
                let to = std::mem::replace(&mut definition.edges[at].to, name.clone());
                self.edge(definition, &name, &to);
            }
            6 => {
                let joins = [Join::AllActive, Join::All, Join::Any, Join::Count(1)];
                let join = joins[self.dice.below(4)];
                definition.nodes.get_mut(&node).expect("a node").join = join;
            }
            _ => {
                let node = definition.nodes.get_mut(&node).expect("a node");
                node.first = !node.first;
            }
        }
    }
}

/// The end of a life of a run.
#[derive(Debug)]
enum Life {
    /// It completed in its first version.
    Plain,
    /// A version does not fit.
    Refused,
    /// It completed. The number of removed nodes of the last version, and whether these had run.
    Completed { removed: usize, ran: bool },
}

struct Play<'a> {
    graph: &'a Graph,
    state: RunState,
    stored: kit::Stored,
    dice: Dice,
    executed: u32,
    /// Whether the run was cut off last.
    cut: bool,
    /// How often each node has completed.
    completed: BTreeMap<String, u32>,
    /// The nodes that were skipped, or cancelled by a race.
    skipped: BTreeSet<String>,
}

impl<'a> Play<'a> {
    fn begin(graph: &'a Graph, seed: u64) -> Self {
        let (state, commands) = begin(graph, 0);
        let mut play = Self {
            graph,
            state,
            stored: kit::Stored::default(),
            dice: Dice(seed),
            executed: 0,
            cut: false,
            completed: BTreeMap::new(),
            skipped: BTreeSet::new(),
        };
        play.note(&commands, false);
        play
    }

    fn name(&self, node: NodeIx) -> String {
        self.graph.node(node).expect("a node").name.clone()
    }

    fn note(&mut self, commands: &[Command], ends: bool) {
        for command in commands {
            match command {
                Command::Skip(node) => drop(self.skipped.insert(self.name(*node))),
                Command::Cancel(open) if !ends => {
                    self.skipped.insert(self.name(open.node));
                }
                _ => {}
            }
        }
    }

    fn turn(&mut self, event: Event) {
        let vars = ["x", "y"].map(|name| (name.to_owned(), self.dice.below(2) == 1));
        let values = kit::values(&vars.into());
        let turn = kit::Turn {
            now_ms: 0,
            random: 0,
            values: &values,
        };
        let (graph, state) = (self.graph, &mut self.state);
        let commands = kit::turn(graph, state, &mut self.stored, event, turn, &|_| false);
        let ends = matches!(self.state.status, Status::Faulted | Status::Cancelled);
        self.note(&commands.expect("it is open"), ends);
    }

    fn any(&mut self) -> Open {
        let at = self.dice.below(self.state.open.len());
        let mut open = self.state.open.values();
        open.nth(at).expect("something is open").clone()
    }

    fn run(&mut self) -> ExecutionNo {
        self.executed += 1;
        ExecutionNo(i64::from(self.executed))
    }

    /// Executes nodes until the run ends. With `mishap`, it may be cut off before.
    fn live(&mut self, mishap: bool) {
        self.cut = false;
        while !self.state.status.is_final() {
            assert!(self.executed < END, "the run ends");
            let open = self.any();
            let run = self.run();
            if mishap && self.dice.below(5) == 0 {
                let failure = Failure::new(Class::Permanent, Code::new("WL-T001"), "it failed");
                let event = match self.dice.below(3) {
                    0 => Event::Cancel,
                    _ => kit::failed(open.seq, run, failure),
                };
                self.turn(event);
                self.cut = true;
                continue;
            }
            let all = ["done", "p", "q"];
            let mut ports: Vec<String> = Vec::new();
            for port in all {
                if self.dice.below(5) > 1 {
                    ports.push(port.to_owned());
                }
            }
            if ports.is_empty() || self.executed >= LIVELY {
                ports = vec!["none".to_owned()];
            }
            *self.completed.entry(self.name(open.node)).or_default() += 1;
            self.turn(Event::Done {
                seq: open.seq,
                run,
                ports,
                end: None,
            });
        }
    }

    /// Continues with another version; with `node`, from there. Returns whether there is a node to
    /// continue with: a loop may fail the run after its last node.
    fn go_on(&mut self, new: &'a Graph, node: Option<NodeIx>) -> Result<bool, Misfit> {
        let (before, old) = (self.state.clone(), self.graph);
        let over = node.is_some_and(|node| !self.state.cut_off(node));
        let missing = self.state.refit(self.graph, new, over)?;
        assert!(missing.outputs.is_empty() && missing.visits.is_empty());
        self.graph = new;
        let values = kit::values(&BTreeMap::new());
        let cx = Cx {
            now_ms: 0,
            random: 0,
            values: &values,
            failing: Ok(&values),
            max_steps: MAX_STEPS,
        };
        let how = Reopening {
            node,
            ..Reopening::default()
        };
        let commands = match reopen(new, &mut self.state, how.clone(), &cx) {
            Err(Closed::Nothing) => return Ok(false),
            commands => commands.expect("it is reopened"),
        };
        kit::reopened((old, new), before, &how, (&self.state, &commands));
        self.stored.keep(&mut self.state, &commands);
        self.note(&commands, false);
        Ok(true)
    }
}

/// One run, with up to three versions after the first.
fn live(first: &Definition, seed: u64, over: bool) -> Life {
    let mut changing = Changing {
        dice: Dice(!seed),
        next: 0,
    };
    let mut versions = vec![first.clone()];
    for at in 0..3 {
        let next = changing.version(&versions[at]);
        versions.push(next);
    }
    let graphs = versions.iter().map(|it| kit::compile(it).expect("it does"));
    let graphs: Vec<Graph> = graphs.collect();
    // In loops, rounds may stay open, and nodes run several times.
    let is_cyclic = |at: usize| graphs[..=at].iter().any(|graph| !graph.loops().is_empty());
    let shown = |at: usize| {
        let all = versions[..=at].iter().map(|it| {
            let edges = it.edges.iter().map(|edge| {
                let Edge {
                    id,
                    from,
                    port,
                    to,
                    when,
                } = edge;
                format!("{id}: {from}.{port} -> {to} {when:?}")
            });
            let joins = it
                .nodes
                .iter()
                .map(|(name, node)| format!("{name} {:?}", node.join));
            edges.chain(joins).collect::<Vec<_>>().join("\n")
        });
        all.collect::<Vec<_>>().join("\n\n")
    };
    let mut play = Play::begin(&graphs[0], seed);
    play.live(true);
    let mut at = 0;
    while play.state.status != Status::Completed && at < 3 {
        at += 1;
        let new = &graphs[at];
        let nodes: Vec<NodeIx> = new.nodes().map(|(node, _)| node).collect();
        let node = over.then(|| nodes[play.dice.below(nodes.len())]);
        match play.go_on(new, node) {
            Ok(true) => {}
            Ok(false) => return Life::Plain,
            Err(misfit) => {
                assert!(!misfit.node.is_empty(), "{misfit}");
                return Life::Refused;
            }
        }
        play.live(at < 3);
        let ends = play.cut || play.state.status == Status::Completed;
        assert!(ends || is_cyclic(at), "{:?}\n{}", play.completed, shown(at));
    }
    if at == 0 {
        return Life::Plain;
    }
    let former = versions[at].former_nodes();
    let ran = former.iter().any(|name| play.completed.contains_key(*name));
    let removed = former.len();
    if over || is_cyclic(at) {
        return Life::Completed { removed, ran };
    }
    let races = versions.iter().flat_map(|it| it.nodes.values());
    let races = races.into_iter().any(|node| node.join == Join::Race);
    for name in versions[at].nodes.keys() {
        let times = play.completed.get(name).copied().unwrap_or_default();
        let is_decided = times > 0 || play.skipped.contains(name);
        assert!(races || is_decided, "{name} is left out\n{}", shown(at));
        assert!(times < 2, "{name} has run twice\n{}", shown(at));
    }
    Life::Completed { removed, ran }
}

/// The graphs of these tests: no node runs for each of its edges.
fn graph(runner: &mut TestRunner, back: usize) -> Option<Definition> {
    let case = wild(back, false)
        .new_tree(runner)
        .expect("a case")
        .current();
    let mut definition = Wild::repair(case)?;
    for node in definition.nodes.values_mut() {
        if node.join == Join::Each {
            node.join = Join::AllActive;
        }
    }
    kit::compile(&definition).is_ok().then_some(definition)
}

/// Tries the seeds, and counts the lives of each kind: refused, completed, with removed nodes, with
/// removed nodes that had run.
fn try_all(back: usize, over: bool) {
    let mut runner = TestRunner::deterministic();
    let mut counts = [0; 4];
    for seed in SEEDS.range() {
        let Some(definition) = graph(&mut runner, back) else {
            continue;
        };
        match live(&definition, seed, over) {
            Life::Plain => {}
            Life::Refused => counts[0] += 1,
            Life::Completed { removed, ran } => {
                counts[1] += 1;
                counts[2] += u32::from(removed > 0);
                counts[3] += u32::from(ran);
            }
        }
    }
    println!("refused, completed, with removed nodes, with such as had run: {counts:?}");
    if SEEDS.are_all(&SEEDS.range()) {
        assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
    }
}

#[test]
fn refitted_runs_complete_and_leave_no_node_out() {
    try_all(0, false);
}

#[test]
fn refitted_runs_that_start_over_complete() {
    try_all(0, true);
}

#[test]
fn refitted_runs_end_in_loops_too() {
    try_all(5, false);
}

/// A run of which all nodes but `bad` have completed, and `bad` has failed.
fn failed<'a>(graph: &'a Graph, nodes: &[&str]) -> Play<'a> {
    let mut play = Play::begin(graph, 0);
    for name in nodes.iter().chain(&["bad"]) {
        let node = graph.find(name).expect("a node");
        let open = play.state.open.values().find(|open| open.node == node);
        let seq = open.expect("it is open").seq;
        let run = play.run();
        let (ports, end) = (vec!["done".to_owned()], None);
        play.turn(match *name {
            "bad" => {
                let code = Code::new("WL-T001");
                kit::failed(seq, run, Failure::new(Class::Permanent, code, "it failed"))
            }
            _ => Event::Done {
                seq,
                run,
                ports,
                end,
            },
        });
    }
    assert_eq!(play.state.status, Status::Faulted);
    play
}

/// The second graph with the numbers of the first.
fn numbered(old: &str, new: &str) -> [Graph; 2] {
    let old = kit::definition(old);
    let mut new = kit::definition(new);
    let names: BTreeSet<String> = new.nodes.keys().cloned().collect();
    let kept: Vec<String> = old.node_names().iter().map(|it| (*it).to_owned()).collect();
    let added = names.into_iter().filter(|name| !kept.contains(name));
    new.node_order = kept.iter().cloned().chain(added).collect();
    // The edges of both are known by their ends.
    let named = |mut definition: Definition| {
        for edge in &mut definition.edges {
            edge.id = format!("{}-{}", edge.from, edge.to);
        }
        kit::compile(&definition).expect("it compiles")
    };
    [named(old), named(new)]
}

#[test]
fn an_interrupted_node_gets_the_outputs_that_still_lead_to_it() {
    let [old, new] = numbered("y -> bad\nx -> bad", "y -> bad");
    let mut play = failed(&old, &["x", "y"]);
    assert_eq!(play.go_on(&new, None), Ok(true));
    let open = play.any();
    let y = new.find("y").expect("a node");
    assert_eq!(open.from, [(y, ExecutionNo(2))]);
    assert_eq!(new.find("x"), None);

    let [old, new] = numbered("x -> bad", "y -> bad");
    let misfit = failed(&old, &["x"]).go_on(&new, None).unwrap_err();
    assert_eq!(
        misfit.to_string(),
        "node `bad`: the edge that led to it does not exist any more"
    );
}

#[track_caller]
fn misfits(old: &str, ran: &[&str], new: &str, text: &str) {
    let [old, new] = numbered(old, new);
    let misfit = failed(&old, ran).go_on(&new, None).unwrap_err();
    assert_eq!(misfit.to_string(), text);
}

#[test]
fn misfits_of_a_version_are_named() {
    misfits(
        "a -> n\na -> bad",
        &["a", "n"],
        "a -> n\na -> bad\nbad -> n",
        "node `n`: it has ended or was left out, and `bad` would lead to it again",
    );
    misfits(
        "a -> bad\nbad -> n\nn -> m",
        &["a"],
        "a -> bad\nbad -> n\na -> m",
        "node `m`: no node that runs again leads to it in the new version",
    );
    misfits(
        "a -> bad\na -> b\nb -> bad\nbad: join any",
        &["a"],
        "a -> bad\na -> b\nb -> bad\nbad: join all",
        "node `bad`: some of its edges are decided, and it has other edges or another `join`",
    );
}
