//! Plays a script of events against a graph and compares the resulting commands.
//!
//! Each line of a script is `event => commands`. Most events begin with the name of a node and
//! refer to its oldest open execution: `a` is done, `a:left,right` is done by these ports,
//! `a!retryable` failed, `a!retryable:5` failed
//! with these details, `a~100` asks to be called again after 100 ms, `a@100` waits until the
//! instant 100, `a?100` is postponed, `a.` ends its branch, `a..` ends the run, `a#3` has made a
//! list of three, `a*` or `a*100` is suspended (until 100), `a&` waits for a child, `a-` is
//! cancelled. `cancel`, `timeout`, `refused` and `+5` (time passes) name no node. The following
//! words set variables, as in `a x=true`; the outputs of items cannot be rendered while `broken` is
//! true.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::kit;
use windlass_engine::{Command, Event, Graph, RunState, begin};
use windlass_model::{Class, Code, ExecutionNo, Failure, JsonText, Payload, Seq};

struct Player {
    graph: Graph,
    state: RunState,
    vars: BTreeMap<String, bool>,
    now_ms: i64,
    runs: i64,
    stored: kit::Stored,
    /// The latest list of each node.
    lists: BTreeMap<String, Seq>,
}

pub(crate) fn check(graph: &str, script: &str) {
    let graph = kit::graph(graph);
    let (state, commands) = begin(&graph, 0);
    let mut player = Player {
        graph,
        state,
        vars: BTreeMap::new(),
        now_ms: 0,
        runs: 0,
        stored: kit::Stored::default(),
        lists: BTreeMap::new(),
    };
    let mut actual = format!("begin => {}\n", player.show(&commands));
    let lines = || {
        script
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    for line in lines() {
        let event = line.split(" =>").next().unwrap_or_default();
        if event != "begin" {
            let shown = player.play(event);
            let _ = writeln!(actual, "{event} => {shown}");
        }
    }
    let expected: String = lines().flat_map(|line| [line, "\n"]).collect();
    let trimmed: String = actual
        .lines()
        .flat_map(|line| [line.trim(), "\n"])
        .collect();
    assert!(
        trimmed == expected,
        "expected\n{expected}\nbut it is\n{trimmed}"
    );
}

impl Player {
    fn play(&mut self, event: &str) -> String {
        let mut words = event.split_whitespace();
        let word = words.next().expect("an event");
        for assignment in words {
            let (name, value) = assignment.split_once('=').expect("an assignment");
            self.vars.insert(name.to_owned(), value == "true");
        }
        if let Some(ms) = word.strip_prefix('+') {
            self.now_ms += ms.parse::<i64>().expect("a number");
            return String::new();
        }
        let event = self.event(word);
        let values = kit::values(&self.vars);
        let broken = self.vars.get("broken").copied().unwrap_or_default();
        let turn = kit::Turn {
            now_ms: self.now_ms,
            random: 7,
            values: &values,
        };
        let state = &mut self.state;
        match kit::turn(&self.graph, state, &mut self.stored, event, turn, &|_| {
            broken
        }) {
            Ok(commands) => format!("{}[{}]", self.show(&commands), self.state.status),
            Err(_) => "stale".to_owned(),
        }
    }

    fn event(&mut self, word: &str) -> Event {
        self.runs += 1;
        let run = ExecutionNo(self.runs);
        if word == "cancel" {
            return Event::Cancel;
        }
        if word == "timeout" {
            return Event::TimedOut {
                seq: self.state.timeout.unwrap_or_default(),
            };
        }
        if word == "refused" {
            let message = "nothing of it can be kept";
            let failure = Failure::new(Class::Invalid, Code::new("WL-T002"), message);
            return Event::Broken { failure };
        }
        let end = word
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(word.len());
        let (name, rest) = word.split_at(end);
        let node = self.graph.find(name).expect("a node");
        let open = self.state.open.values().find(|open| open.node == node);
        let open = open.cloned();
        let seq = open
            .as_ref()
            .map(|open| open.seq)
            .unwrap_or(windlass_model::Seq(999));
        let done = |ports: Vec<String>, end| Event::Done {
            seq,
            run,
            ports,
            end,
        };
        let Some(kind) = rest.chars().next() else {
            return done(Vec::new(), None);
        };
        let value = &rest[1..];
        match kind {
            ':' => done(value.split(',').map(str::to_owned).collect(), None),
            '.' => done(Vec::new(), Some(value == ".")),
            '!' => {
                let (value, details) = value.split_once(':').unwrap_or((value, ""));
                let (class, after) = value.split_once('/').unwrap_or((value, ""));
                let class: Class = class.parse().expect("a class");
                let mut failure = Failure::new(class, Code::new("WL-T001"), "it failed");
                failure.retry_after_ms = after.parse().ok();
                failure.details = JsonText::checked(details.as_bytes()).ok();
                kit::failed(seq, run, failure)
            }
            '~' => Event::Again {
                seq,
                run,
                after_ms: value.parse().expect("a number"),
                left: Some(Payload::json("1")),
            },
            '@' => Event::Wait {
                seq,
                run,
                until_ms: value.parse().expect("a number"),
            },
            '#' => {
                self.lists.insert(name.to_owned(), seq);
                Event::Listed {
                    seq,
                    run,
                    count: value.parse().expect("a number"),
                }
            }
            '*' => Event::Suspended {
                seq,
                run,
                until_ms: value.parse().ok(),
                left: None,
            },
            '&' => Event::Child { seq, run },
            '-' => Event::CancelNode {
                seq: open.map_or_else(
                    || self.lists.get(name).copied().unwrap_or(seq),
                    |open| open.seq,
                ),
            },
            '?' => Event::Later {
                seq,
                until_ms: value.parse().expect("a number"),
            },
            _ => panic!("no event {word}"),
        }
    }

    fn show(&self, commands: &[Command]) -> String {
        let name = |node| self.graph.node(node).map_or("", |plan| plan.name.as_str());
        let mut text = String::new();
        for command in commands {
            let _ = match command {
                Command::Run(open) => {
                    let from: Vec<_> = open.from.iter().map(|(node, _)| name(*node)).collect();
                    let _ = write!(text, "run {}({})", name(open.node), from.join(" "));
                    if open.phase > 0 {
                        let _ = write!(text, "#{}", open.phase);
                    }
                    match &open.collect {
                        Some(collect) if collect.fault.is_some() => write!(text, " of a fault"),
                        Some(collect) => write!(text, " of {}", collect.count),
                        None => Ok(()),
                    }
                }
                Command::Schedule(open) => write!(
                    text,
                    "{} {}@{} {}/{}",
                    open.kind.name(),
                    name(open.node),
                    open.due_ms.expect("a scheduled run is due"),
                    open.attempt,
                    open.phase
                ),
                Command::Timeout { due_ms, .. } => write!(text, "timeout@{due_ms}"),
                Command::Cancel(open) => write!(text, "cancel {}", name(open.node)),
                Command::OpenScope { scope, index, .. } => write!(text, "open {scope}[{index}]"),
                Command::CloseScope(scope) => write!(text, "close {scope}"),
                Command::Emit { scope, index, .. } => write!(text, "emit {scope}[{index}]"),
                Command::DropList(list) => write!(text, "drop {list}"),
                Command::Skip(node) => write!(text, "skip {}", name(*node)),
                Command::Refuted { failure, .. } => write!(text, "refuted {}", failure.code),
                Command::Incident { node, failure, .. } => {
                    write!(text, "incident {} {}", name(*node), failure.code)
                }
                Command::Finish {
                    failure, output, ..
                } => {
                    let _ = write!(text, "finish");
                    let _ = output.map(|run| write!(text, " with {run}"));
                    failure
                        .iter()
                        .try_for_each(|failure| write!(text, " {}", failure.code))
                }
            };
            text.push_str("; ");
        }
        text
    }
}
