//! Graphs as text, and runs driven by hand.
//!
//! A graph is written as lines: `a -> b`, `a.port -> b: condition`, `a -> b: else` for edges, and
//! `a: key value, key value` for the properties of a node. Lines that begin with `f| ` are the body
//! of the for-each `f`.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_engine::expr::Values;
use windlass_engine::{
    Altered, Carrier, Command, Cx, Event, Graph, MAX_STEPS, Open, OpenRow, Recorded, Recording,
    Reopening, RunState, Verdict, judge, replay, verdict,
};
use windlass_model::definition::{
    Backoff, Body, Edge, ErrorEffect, ErrorRule, ForEach, Incidents, Join, Node, NodeKind, OnError,
    OnItemError, Options, Repeat, Retry, UseRef, When,
};
use windlass_model::{
    Class, Code, Definition, Diagnostic, Digest, ExecutionNo, Failure, ScopeNo, Seq, Version,
};

pub(crate) fn node() -> Node {
    Node::new(NodeKind::Use {
        node_type: UseRef {
            package: "test".into(),
            name: "node".into(),
            requirement: None,
        },
        with: json!({}),
    })
}

pub(crate) fn edge(at: usize, from: &str, port: &str, to: &str, when: When) -> Edge {
    Edge {
        id: format!("e{at}"),
        from: from.into(),
        port: port.into(),
        to: to.into(),
        when,
    }
}

pub(crate) fn definition(text: &str) -> Definition {
    let mut definition = Definition {
        name: "test".into(),
        ..Definition::default()
    };
    let mut bodies: BTreeMap<&str, String> = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some((name, line)) = line.split_once("| ") {
            let body = bodies.entry(name).or_default();
            body.push_str(line);
            body.push('\n');
            continue;
        }
        match line.split_once(" -> ") {
            Some((from, to)) => {
                let (from, port) = from.split_once('.').unwrap_or((from, "done"));
                let (to, when) = match to.split_once(": ") {
                    None => (to, When::Always),
                    Some((to, "else")) => (to, When::Else),
                    Some((to, text)) => (to, When::If(text.to_owned())),
                };
                for name in [from, to] {
                    if name != "nobody" {
                        definition.nodes.entry(name.to_owned()).or_insert_with(node);
                    }
                }
                let at = definition.edges.len();
                definition.edges.push(edge(at, from, port, to, when));
            }
            None => {
                let (name, keys) = line.split_once(':').expect("a node line has a colon");
                for key in keys.split(',').map(str::trim).filter(|key| !key.is_empty()) {
                    set(&mut definition, name, key);
                }
                if name != "options" {
                    definition.nodes.entry(name.to_owned()).or_insert_with(node);
                }
            }
        }
    }
    for (name, text) in bodies {
        let inner = self::definition(&text);
        let body = &mut for_each(&mut definition, name).body;
        body.nodes = inner.nodes;
        body.edges = inner.edges;
        body.output = inner.output;
    }
    definition
}

fn set(definition: &mut Definition, name: &str, key: &str) {
    let mut words = key.split_whitespace();
    let key = words.next().expect("a key");
    let mut next = || words.next().expect("a value");
    if name == "options" {
        let Options {
            incidents,
            timeout_ms,
            ..
        } = &mut definition.options;
        match key {
            "continue" => *incidents = Incidents::Continue,
            "timeout" => *timeout_ms = Some(next().parse().expect("a number")),
            "output" => definition.output = Some(json!(format!("{{{{ {} }}}}", next()))),
            _ => panic!("no option {key}"),
        }
        return;
    }
    let node = definition.nodes.entry(name.to_owned()).or_insert_with(node);
    match key {
        "join" => {
            node.join = match next() {
                "all-active" => Join::AllActive,
                "all" => Join::All,
                "any" => Join::Any,
                "race" => Join::Race,
                "each" => Join::Each,
                count => Join::Count(count.parse().expect("a count")),
            }
        }
        "first" => node.first = true,
        "start" => node.start = true,
        "end" => {
            node.kind = NodeKind::End {
                terminate: false,
                output: Some(json!(1)),
            }
        }
        "terminate" => {
            node.kind = NodeKind::End {
                terminate: true,
                output: None,
            }
        }
        "fail" => {
            node.kind = NodeKind::Fail {
                message: json!("no"),
                data: None,
            }
        }
        "wait" => node.kind = NodeKind::Wait(json!("1s")),
        "pause" => node.kind = NodeKind::Wait(json!(next())),
        "event" => {
            node.kind = NodeKind::Event {
                name: json!(next()),
                matches: json!(null),
                correlation: None,
            }
        }
        "call" => {
            node.kind = NodeKind::Workflow {
                name: next().to_owned(),
            }
        }
        "use" => {
            let NodeKind::Use { node_type, .. } = &mut node.kind else {
                panic!("not a use")
            };
            node_type.name = next().to_owned();
        }
        "with" => {
            let NodeKind::Use { with, .. } = &mut node.kind else {
                panic!("not a use")
            };
            *with = json!(next());
        }
        "each" => {
            let concurrency = next().parse().expect("a number");
            let goes_on = words.next() == Some("continue");
            let each = for_each(definition, name);
            each.concurrency = concurrency;
            if goes_on {
                each.on_item_error = OnItemError::Continue;
            }
        }
        "mutex" => node.mutex = Some(next().to_owned()),
        "undo" => node.compensate = Some(next().to_owned()),
        "wait-timeout" => node.wait_timeout_ms = Some(next().parse().expect("a number")),
        "repeat" => {
            node.repeat = Some(Repeat {
                max: words.next().and_then(|max| max.parse().ok()),
                every_ms: words.next().and_then(|every| every.parse().ok()),
                until: words.next().map(str::to_owned),
            });
        }
        "continue" => node.on_error = OnError::always(ErrorEffect::Continue),
        "route" => node.on_error = OnError::always(ErrorEffect::Route),
        "on" => {
            let when = Some(next().to_owned());
            let effect = effect(next());
            node.on_error.rules.push(ErrorRule { when, effect });
        }
        "otherwise" => {
            let effect = effect(next());
            node.on_error.rules.push(ErrorRule { when: None, effect });
        }
        "retry-when" => {
            let retry = node.retry.as_mut().expect("`retry` stands before it");
            retry.when = Some(next().to_owned());
        }
        "total" => node.total_timeout_ms = Some(next().parse().expect("a number")),
        "retry" => {
            node.retry = Some(Retry {
                max_attempts: next().parse().expect("a number"),
                delay_ms: next().parse().expect("a number"),
                backoff: match next() {
                    "fixed" => Backoff::Fixed,
                    _ => Backoff::Exponential,
                },
                max_delay_ms: 1000,
                jitter: words.next() == Some("jitter"),
                classes: vec![Class::Retryable, Class::Deadline],
                when: None,
            });
        }
        _ => panic!("no key {key}"),
    }
}

fn effect(word: &str) -> ErrorEffect {
    match word {
        "fail" => ErrorEffect::Fail,
        "continue" => ErrorEffect::Continue,
        "route" => ErrorEffect::Route,
        _ => panic!("no effect {word}"),
    }
}

fn for_each<'a>(definition: &'a mut Definition, name: &str) -> &'a mut ForEach {
    let node = definition.nodes.entry(name.to_owned()).or_insert_with(node);
    if !matches!(node.kind, NodeKind::ForEach(_)) {
        node.kind = NodeKind::ForEach(Box::new(ForEach {
            list: json!("{{ input }}"),
            concurrency: 16,
            on_item_error: OnItemError::Fail,
            body: Body::default(),
        }));
    }
    let NodeKind::ForEach(each) = &mut node.kind else {
        unreachable!("it was made one")
    };
    each
}

pub(crate) fn compile(definition: &Definition) -> Result<Graph, Vec<Diagnostic>> {
    Graph::compile(definition, &|_| Vec::new())
}

pub(crate) fn graph(text: &str) -> Graph {
    compile(&definition(text)).expect("the graph compiles")
}

/// Truth values for `vars.…` in conditions.
pub(crate) fn values(vars: &BTreeMap<String, bool>) -> Values {
    let mut values = Values::new();
    for (name, value) in vars {
        values
            .var(name, value.to_string().as_bytes())
            .expect("a variable");
    }
    values
}

/// The stored rows of a run, except its head.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) scopes: BTreeMap<ScopeNo, Vec<u8>>,
    /// Bytes written so far: heads, scopes and triggers.
    pub(crate) written: usize,
    /// Scopes and pages written or removed so far.
    pub(crate) rows: usize,
}

impl Stored {
    /// Stores the changes of a step. Deletes all rows of a run that is over.
    pub(crate) fn keep(&mut self, state: &mut RunState, commands: &[Command]) {
        self.written += state.encode().len();
        for (no, bytes) in state.drain_scopes() {
            self.rows += 1;
            match bytes {
                Some(bytes) => {
                    self.written += bytes.len();
                    self.scopes.insert(no, bytes);
                }
                None => {
                    let known = self.scopes.remove(&no);
                    assert!(known.is_some(), "only what is stored is removed");
                }
            }
        }
        for command in commands {
            if let Command::Run(open) | Command::Schedule(open) = command {
                self.written += open.encode_detail().len();
            }
        }
    }
}

/// The context of an event.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) now_ms: i64,
    pub(crate) random: u64,
    pub(crate) values: &'a Values,
}

/// Applies an event like a host that crashes before every step and reads back its stored state, and
/// renders the outputs of items. `broken` selects the items whose rendering fails.
pub(crate) fn turn(
    graph: &Graph,
    state: &mut RunState,
    stored: &mut Stored,
    event: Event,
    turn: Turn<'_>,
    broken: &dyn Fn(ScopeNo) -> bool,
) -> Result<Vec<Command>, windlass_engine::Stale> {
    let before = state.clone();
    *state = reread(graph, state, stored);
    assert_eq!(*state, before, "what is read back is what was stored");
    assert_eq!(
        moved(graph, state, stored),
        before,
        "what goes to another store and back is what it was"
    );
    let commands = apply_whole(graph, state, event, turn, broken);
    match &commands {
        Ok(commands) => stored.keep(state, commands),
        Err(_) => assert_eq!(*state, before, "a stale event changes nothing"),
    }
    commands
}

/// A state that was moved to a store with other record numbers, and back.
fn moved(graph: &Graph, state: &RunState, stored: &Stored) -> RunState {
    let mut moved = state.clone();
    for by in [1_000_000, -1_000_000] {
        let mut named = 0;
        let renumbered = moved.renumber(&mut |run| {
            named += 1;
            Some(ExecutionNo(run.0 + by))
        });
        renumbered.expect("every record has a number");
        let opens: Vec<Open> = moved.open.values().cloned().collect();
        let there = Stored {
            scopes: stored
                .scopes
                .keys()
                .map(|no| (*no, moved.stored_scope(*no).expect("it is stored")))
                .collect(),
            ..Stored::default()
        };
        for mut open in opens {
            open.renumber(&mut |run| Some(ExecutionNo(run.0 + by)))
                .expect("every record has a number");
            moved.open.insert(open.seq, open);
        }
        moved = reread(graph, &moved, &there);
        let none = moved.clone().renumber(&mut |_| None);
        assert_eq!(
            none.is_err(),
            named > 0,
            "each of them is known by its number"
        );
    }
    moved
}

/// A failed execution whose verdict is not known yet: [`judged`] asks for it.
pub(crate) fn failed(seq: Seq, run: ExecutionNo, failure: Failure) -> Event {
    let verdict = Verdict::Fail(failure);
    Event::Failed { seq, run, verdict }
}

/// The event with the engine's verdict about its failure.
pub(crate) fn judged(graph: &Graph, state: &RunState, event: Event, turn: Turn<'_>) -> Event {
    let Event::Failed {
        seq,
        run,
        verdict: Verdict::Fail(failure),
    } = event
    else {
        return event;
    };
    let verdict = match state.run_of(seq) {
        Some(open) => {
            let (now_ms, random) = (turn.now_ms, turn.random);
            verdict(graph, open, &failure, now_ms, random, Ok(turn.values))
        }
        None => Verdict::Fail(failure),
    };
    Event::Failed { seq, run, verdict }
}

/// One step: an event, and the outputs of items that the event requests.
pub(crate) fn apply_whole(
    graph: &Graph,
    state: &mut RunState,
    event: Event,
    turn: Turn<'_>,
    broken: &dyn Fn(ScopeNo) -> bool,
) -> Result<Vec<Command>, windlass_engine::Stale> {
    let event = judged(graph, state, event, turn);
    let Turn {
        now_ms,
        random,
        values,
    } = turn;
    let cx = Cx {
        now_ms,
        random,
        values,
        failing: Ok(values),
        max_steps: MAX_STEPS,
    };
    let before = state.clone();
    let open = event.execution().and_then(|seq| state.run_of(seq));
    let judged = open.map(|open| judge(graph, open, &event, &cx).expect("nothing interrupts it"));
    let judged = judged.unwrap_or_default();
    let failure = match &event {
        Event::Failed { verdict, .. } => cause(verdict),
        _ => None,
    };
    let at = (now_ms, MAX_STEPS);
    let recording = Recording::of(&event, &judged, failure.as_ref(), at);
    let carrier = carrier(&event);
    let mut commands = windlass_engine::apply_judged(graph, state, event, judged, at)?;
    let mut recording = recording.expect("it is a step of its own");
    let mut at = 0;
    while let Some(command) = commands.get(at) {
        at += 1;
        let Command::Emit { scope, .. } = *command else {
            continue;
        };
        let code = Code::new("WL-T002");
        let result = if broken(scope) {
            Err(Failure::new(Class::Invalid, code, "it cannot be made"))
        } else {
            Ok(())
        };
        recording.rendered(&result);
        let event = Event::Emitted { scope, result };
        // An item that was closed meanwhile has no output.
        commands.extend(windlass_engine::apply(graph, state, event, &cx).unwrap_or_default());
    }
    let refuted = commands.iter().find_map(|command| match command {
        Command::Refuted { failure, .. } => Some(failure),
        _ => None,
    });
    let carrier = carrier.map(|(seq, run)| Carrier {
        seq,
        run,
        started_ms: STARTED_MS,
        failure: refuted.or(failure.as_ref()),
    });
    let recording = recording.after(state);
    replayed(graph, before, recording, carrier, (state, &commands));
    Ok(commands)
}

/// When executions begin, in epoch milliseconds.
const STARTED_MS: i64 = 3;

/// The stored event of a step leads from the state before to the same state, by the same commands.
fn replayed(
    graph: &Graph,
    mut before: RunState,
    recording: Recording,
    carrier: Option<Carrier<'_>>,
    (after, commands): (&RunState, &[Command]),
) {
    let version = Version(300);
    let started_ms = carrier.map_or(0, |carrier| carrier.started_ms);
    let bytes = recording.encode(version, started_ms);
    let read = Recorded::decode(&bytes, carrier).expect("the event can be read");
    assert_eq!(read.version, version);
    let again = replay(graph, &mut before, read).expect("the event fits");
    assert_eq!(again, commands);
    assert_eq!(before, *after, "the event leads to the state");
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        let read = Recorded::decode(&changed, carrier);
        assert!(read.is_err(), "a changed byte is noticed");
    }
}

/// The stored event of a run that is reopened leads from the state before to the same state, by the
/// same commands. The run may continue with another graph.
pub(crate) fn reopened(
    (old, new): (&Graph, &Graph),
    mut before: RunState,
    how: &Reopening,
    (after, commands): (&RunState, &[Command]),
) {
    let documents = (Digest::of(b"definition"), Digest::of(b"pins"));
    let altered = Altered {
        before: documents,
        now: documents,
        supplied: Vec::new(),
    };
    let event = Recording::reopened(how, Some(altered.clone()), (0, MAX_STEPS));
    let bytes = event.after(after).encode(Version(300), 0);
    let read = Recorded::decode(&bytes, None).expect("the event can be read");
    assert_eq!(read.altered(), Some(&altered));
    read.refit(old, new, &mut before).expect("the state fits");
    let again = replay(new, &mut before, read).expect("the event fits");
    assert_eq!(again, commands);
    assert_eq!(before, *after, "the event leads to the state");
}

/// The failure in the record of a failed execution.
fn cause(verdict: &Verdict) -> Option<Failure> {
    match verdict {
        Verdict::Fail(failure) | Verdict::Continue(failure) | Verdict::Route(failure) => {
            Some(failure.clone())
        }
        Verdict::Retry { .. } => None,
    }
}

/// The trigger and the record of an event that has a record.
fn carrier(event: &Event) -> Option<(Seq, ExecutionNo)> {
    match event {
        Event::Done { seq, run, .. }
        | Event::Failed { seq, run, .. }
        | Event::Again { seq, run, .. }
        | Event::Wait { seq, run, .. }
        | Event::Suspended { seq, run, .. }
        | Event::Child { seq, run }
        | Event::Listed { seq, run, .. } => Some((*seq, *run)),
        _ => None,
    }
}

/// As [`turn`], for runs without for-each.
pub(crate) fn step(
    graph: &Graph,
    state: &mut RunState,
    event: Event,
    now_ms: i64,
    random: u64,
    values: &Values,
) -> Result<Vec<Command>, windlass_engine::Stale> {
    let of = Turn {
        now_ms,
        random,
        values,
    };
    turn(graph, state, &mut Stored::default(), event, of, &|_| false)
}

pub(crate) fn reread(graph: &Graph, state: &RunState, stored: &Stored) -> RunState {
    let scopes = stored.scopes.iter();
    let scopes = scopes.map(|(no, bytes)| (*no, bytes.as_slice()));
    let mut read = RunState::decode(graph, &state.encode(), scopes).expect("the state can be read");
    for open in state.open.values() {
        let Open {
            seq,
            node,
            kind,
            attempt,
            due_ms,
            ..
        } = *open;
        let due_ms = due_ms.unwrap_or(-1);
        let row = OpenRow {
            seq,
            node: node.0,
            kind,
            attempt,
            due_ms,
        };
        let open = Open::decode_detail(graph, row, &open.encode_detail());
        read.restore(graph, open.expect("the trigger can be read"));
    }
    read
}
