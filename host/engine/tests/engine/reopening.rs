//! Runs that ended without completing and are reopened: after a retry, the run does the same as
//! without the failure.

use std::collections::BTreeMap;

use proptest::prelude::*;
use windlass_engine::{
    Closed, Command, Cx, Event, Graph, MAX_STEPS, Missing, NodeIx, Open, Reopening, RunState,
    begin, reopen,
};
use windlass_model::{Class, Code, Definition, ExecutionNo, Failure, Payload, Status};
use windlass_test_seeds::Seeds;

use crate::kit;
use crate::mistake::{self, Mistake};
use crate::wild::{Dice, Wild, wild};

const SEEDS: Seeds = Seeds::new(256, 3_000);

const END: usize = 2_000;

/// The number of executions after which no edge is taken any more.
const LIVELY: usize = 60;

struct Play<'a> {
    graph: &'a Graph,
    state: RunState,
    stored: kit::Stored,
    runs: i64,
}

impl<'a> Play<'a> {
    fn begin(graph: &'a Graph) -> Self {
        let (state, _) = begin(graph, 0);
        Self {
            graph,
            state,
            stored: kit::Stored::default(),
            runs: 0,
        }
    }

    /// The first open execution, by the position of its node.
    fn first(&self) -> Open {
        let open = self.state.open.values();
        let first = open.min_by_key(|open| (open.node, open.seq));
        first.expect("something is open").clone()
    }

    fn play(&mut self, event: Event, vars: &BTreeMap<String, bool>) -> Vec<Command> {
        let values = kit::values(vars);
        let turn = kit::Turn {
            now_ms: 0,
            random: 0,
            values: &values,
        };
        let (graph, state) = (self.graph, &mut self.state);
        kit::turn(graph, state, &mut self.stored, event, turn, &|_| false).expect("it is open")
    }

    fn fail(&mut self, open: &Open) {
        self.runs += 1;
        let failure = Failure::new(Class::Permanent, Code::new("WL-T001"), "it failed");
        let (seq, run) = (open.seq, ExecutionNo(self.runs + (1 << 40)));
        self.play(kit::failed(seq, run, failure), &BTreeMap::new());
    }

    /// Reopens the run from its stored form, twice, and compares the results.
    fn reopen(&mut self, how: &Reopening) -> Result<Vec<Command>, Closed> {
        let values = kit::values(&BTreeMap::new());
        let cx = Cx {
            now_ms: 0,
            random: 0,
            values: &values,
            failing: Ok(&values),
            max_steps: MAX_STEPS,
        };
        let mut again = kit::reread(self.graph, &self.state, &self.stored);
        assert_eq!(again, self.state, "what is read back is what was stored");
        // The state fits its own graph as it is.
        let over = how.node.is_some_and(|node| !again.cut_off(node));
        let missing = again.refit(self.graph, self.graph, over);
        assert_eq!(missing, Ok(Missing::default()));
        assert_eq!(again, self.state, "it fits without a change");
        let before = self.state.clone();
        let commands = reopen(self.graph, &mut self.state, how.clone(), &cx);
        if let Ok(commands) = &commands {
            let graphs = (self.graph, self.graph);
            kit::reopened(graphs, before, how, (&self.state, commands));
        }
        assert_eq!(reopen(self.graph, &mut again, how.clone(), &cx), commands);
        assert_eq!(again, self.state);
        if let Ok(commands) = &commands {
            self.stored.keep(&mut self.state, commands);
        }
        commands
    }
}

/// One execution: its node, the nodes that led to it, and the nodes that it skipped.
type Done = (NodeIx, Vec<NodeIx>, Vec<NodeIx>);

/// Plays a run whose outcomes follow from the seed. `failing` of 8 executions first fail, or are
/// cut off because a user cancels the run, and are tried again.
fn executions(graph: &Graph, seed: u64, failing: usize) -> (Vec<Done>, Status) {
    let mut play = Play::begin(graph);
    let (mut dice, mut mishaps) = (Dice(seed), Dice(!seed));
    let mut done = Vec::new();
    while !play.state.status.is_final() {
        assert!(done.len() < END, "the run ends");
        if mishaps.below(8) < failing {
            if mishaps.below(3) == 0 {
                play.play(Event::Cancel, &BTreeMap::new());
                assert_eq!(play.state.status, Status::Cancelled);
            } else {
                let open = play.first();
                play.fail(&open);
                assert_eq!(play.state.status, Status::Faulted);
            }
            play.reopen(&Reopening::default()).expect("it is taken up");
            continue;
        }
        let open = play.first();
        let vars = ["x", "y"].map(|name| (name.to_owned(), dice.below(2) == 1));
        let ports = ["done", "p", "q"].into_iter().filter(|_| dice.below(5) > 1);
        let mut ports: Vec<String> = ports.map(str::to_owned).collect();
        if ports.is_empty() || done.len() >= LIVELY {
            ports = vec!["none".to_owned()];
        }
        let run = ExecutionNo(i64::try_from(done.len()).expect("few"));
        let event = Event::Done {
            seq: open.seq,
            run,
            ports,
            end: None,
        };
        let commands = play.play(event, &vars.into());
        let skipped = commands.iter().filter_map(|command| match command {
            Command::Skip(node) => Some(*node),
            _ => None,
        });
        let from = open.from.iter().map(|(node, _)| *node).collect();
        done.push((open.node, from, skipped.collect()));
    }
    (done, play.state.status)
}

fn same(definition: &Definition, seed: u64) {
    same_as(definition, definition, seed);
}

/// Compares a run that fails on the way with one of `definition` that does not.
fn same_as(definition: &Definition, failing: &Definition, seed: u64) {
    let [graph, failing] =
        [definition, failing].map(|it| kit::compile(it).expect("it was repaired"));
    assert_eq!(executions(&failing, seed, 3), executions(&graph, seed, 0));
}

#[test]
fn a_mistake_of_the_engine_is_noticed() {
    let cases = (wild(0, false), any::<u64>());
    mistake::find(
        SEEDS,
        &Mistake::OF_GRAPHS,
        &cases,
        |(wild, _)| wild.clone().repair(),
        |definition, bent, (_, seed)| same_as(definition, bent, *seed),
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(SEEDS.cases()))]

    #[test]
    fn a_retried_run_continues_as_if_its_node_had_not_failed(
        wild in wild(0, false),
        seed in any::<u64>(),
    ) {
        let Some(definition) = Wild::repair(wild) else { return Err(TestCaseError::reject("")) };
        same(&definition, seed);
    }

    #[test]
    fn so_it_does_in_the_middle_of_loops(wild in wild(5, false), seed in any::<u64>()) {
        let Some(definition) = Wild::repair(wild) else { return Err(TestCaseError::reject("")) };
        same(&definition, seed);
    }
}

/// The names of the open executions, each with the number of its inputs.
fn open(play: &Play<'_>) -> Vec<(String, usize)> {
    let name = |open: &Open| play.graph.node(open.node).expect("a node").name.clone();
    let open = play.state.open.values();
    open.map(|open| (name(open), open.from.len())).collect()
}

fn done(play: &mut Play<'_>, node: &str) {
    let node = play.graph.find(node).expect("a node");
    let open = play.state.open.values().find(|open| open.node == node);
    let seq = open.expect("it is open").seq;
    play.runs += 1;
    let run = ExecutionNo(play.runs);
    let (ports, end) = (Vec::new(), None);
    play.play(
        Event::Done {
            seq,
            run,
            ports,
            end,
        },
        &BTreeMap::new(),
    );
}

#[test]
fn a_run_starts_over_from_a_node_that_had_not_failed() {
    let graph = kit::graph("a -> b\na -> c\nb -> d\nc -> d\nd -> e");
    let mut play = Play::begin(&graph);
    for node in ["a", "b", "c"] {
        done(&mut play, node);
    }
    let failed = play.first();
    play.fail(&failed);
    let input = Some(Payload::json("7"));
    let how = Reopening {
        node: graph.find("b"),
        input: input.clone(),
        from: vec![(graph.find("a").expect("a node"), ExecutionNo(1))],
    };
    play.reopen(&how).expect("it is taken up");
    assert_eq!(open(&play), [("b".to_owned(), 1)]);
    assert_eq!(play.first().input, input);
    done(&mut play, "b");
    // The other edge is decided: it is not taken this time.
    assert_eq!(open(&play), [("d".to_owned(), 1)]);
    for node in ["d", "e"] {
        done(&mut play, node);
    }
    assert_eq!(play.state.status, Status::Completed);
}

#[test]
fn cut_off_branches_continue_beside_the_node_with_the_edited_input() {
    let graph = kit::graph("a -> b\na -> c\nb -> d\nc -> d");
    let mut play = Play::begin(&graph);
    done(&mut play, "a");
    let failed = play.first();
    play.fail(&failed);
    let how = Reopening {
        node: graph.find("b"),
        input: Some(Payload::json("7")),
        from: Vec::new(),
    };
    play.reopen(&how).expect("it is taken up");
    let inputs: Vec<bool> = play
        .state
        .open
        .values()
        .map(|o| o.input.is_some())
        .collect();
    assert_eq!(inputs, [true, false]);
    for node in ["b", "c"] {
        done(&mut play, node);
    }
    assert_eq!(open(&play), [("d".to_owned(), 2)]);
    done(&mut play, "d");
    assert_eq!(play.state.status, Status::Completed);
}

#[test]
fn a_for_each_that_was_cut_off_begins_again() {
    let graph = kit::graph("f: each 2\nf| x -> y\na -> f\na -> b");
    let mut play = Play::begin(&graph);
    done(&mut play, "a");
    let node = graph.find("f").expect("a node");
    let seq = play
        .state
        .open
        .values()
        .find(|open| open.node == node)
        .expect("it is open")
        .seq;
    let (run, count) = (ExecutionNo(50), 3);
    play.play(Event::Listed { seq, run, count }, &BTreeMap::new());
    let node = graph.find("b").expect("a node");
    let failed = play
        .state
        .open
        .values()
        .find(|open| open.node == node)
        .expect("b")
        .clone();
    play.fail(&failed);
    play.reopen(&Reopening::default()).expect("it is taken up");
    let mut names: Vec<String> = open(&play).into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["b", "f"]);
}

#[track_caller]
fn refused(graph: &str, nodes: &[&str], ends: Event, how: Option<&str>, closed: Closed) {
    let graph = kit::graph(graph);
    let mut play = Play::begin(&graph);
    nodes.iter().for_each(|node| done(&mut play, node));
    if !play.state.status.is_final() {
        play.play(ends, &BTreeMap::new());
    }
    let how = Reopening {
        node: how.map(|name| graph.find(name).unwrap_or(NodeIx(99))),
        ..Reopening::default()
    };
    let before = play.state.clone();
    assert_eq!(play.reopen(&how), Err(closed));
    assert_eq!(play.state, before);
}

#[test]
fn runs_that_cannot_be_reopened_are_refused() {
    let cancel = || Event::Cancel;
    refused("a -> b", &["a", "b"], cancel(), None, Closed::Status);
    refused("a -> b", &["a"], cancel(), Some("zz"), Closed::NoNode);
    let list = "f: each 2\nf| x -> y\na -> f";
    refused(list, &[], cancel(), Some("x"), Closed::NoNode);
}
