//! The stored bytes of a state: a change of them needs a new version.

use windlass_engine::{Command, Event, Graph, Open, OpenRow, RunState, begin, sections};
use windlass_model::{
    Class, Code, ExecutionNo, Failure, JsonText, Origin, Position, Seq, TriggerType,
};

use crate::kit::{self, Stored, Turn};

fn oldest(graph: &Graph, state: &RunState, name: &str) -> Seq {
    let node = graph.find(name).expect("a node");
    let open = state.open.values().find(|open| open.node == node);
    open.expect("it is open").seq
}

/// A run that uses every part of the state, in progress.
const PARTS: &str = "u:
    a: undo u
    a -> f
    b: mutex m
    c: mutex m
    s: repeat 3 100
    f: each 2
    f| x: undo u
    f| x -> y
    f| x -> z
    f| y -> j
    f| z -> j";

/// Its stored form: the head, the scopes, and the details of the open executions.
pub(crate) fn parts() -> (Graph, RunState, Stored) {
    let graph = kit::graph(PARTS);
    let (mut state, _) = begin(&graph, 0);
    let mut stored = Stored::default();
    let values = kit::values(&[].into());
    let turn = Turn {
        now_ms: 0,
        random: 0,
        values: &values,
    };
    for (at, name) in (0..).zip(["a", "f", "x", "y", "s"]) {
        let seq = oldest(&graph, &state, name);
        let run = ExecutionNo((5 << 32) + at);
        let event = match name {
            "f" => Event::Listed { seq, run, count: 3 },
            _ => Event::Done {
                seq,
                run,
                ports: Vec::new(),
                end: None,
            },
        };
        kit::turn(&graph, &mut state, &mut stored, event, turn, &|_| false).expect("it is open");
    }
    (graph, state, stored)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Rounds of a loop that can be undone, and that wait for another branch.
fn long() -> (RunState, Stored) {
    let graph = kit::graph(
        "u:
         l: undo u
         l.again -> l
         s -> l
         l -> j
         c -> j",
    );
    let (mut state, _) = begin(&graph, 0);
    let mut stored = Stored::default();
    let values = kit::values(&[].into());
    let turn = Turn {
        now_ms: 0,
        random: 0,
        values: &values,
    };
    let rounds = std::iter::repeat_n("l", 140);
    for (at, name) in (0..).zip(std::iter::once("s").chain(rounds)) {
        let event = Event::Done {
            seq: oldest(&graph, &state, name),
            run: ExecutionNo((5 << 32) + at),
            ports: vec!["done".into(), "again".into()],
            end: None,
        };
        kit::turn(&graph, &mut state, &mut stored, event, turn, &|_| false).expect("it is open");
    }
    (state, stored)
}

/// Versions that exist in this test alone.
#[test]
fn bytes_of_another_version_are_refused() {
    let (graph, state, stored) = parts();
    let (head, scopes) = (state.encode(), &stored.scopes);
    let rows = || scopes.iter().map(|(no, bytes)| (*no, bytes.as_slice()));
    RunState::decode(&graph, &head, rows()).expect("it can be read");
    assert!(scopes.len() > 1 && !state.open.is_empty());
    let of = |version: u8, bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[0] = version;
        bytes
    };
    for version in [0, head[0] + 1, u8::MAX] {
        let other = of(version, &head);
        let refused = RunState::decode(&graph, &other, rows()).unwrap_err();
        assert!(
            refused.to_string().contains("its version is unknown"),
            "{refused}"
        );
        assert!(sections(&other, rows(), &[]).is_err());
        for (changed, bytes) in scopes {
            let other = of(version, bytes);
            let one = |(no, bytes)| {
                (
                    no,
                    if no == *changed {
                        other.as_slice()
                    } else {
                        bytes
                    },
                )
            };
            let refused = RunState::decode(&graph, &head, rows().map(one)).unwrap_err();
            assert!(
                refused
                    .to_string()
                    .contains("the version of a scope is unknown"),
                "{refused}"
            );
        }
        let row = OpenRow {
            seq: Seq(1),
            node: 0,
            kind: TriggerType::Next,
            attempt: 1,
            due_ms: 0,
        };
        let refused = Open::decode_detail(&graph, row, &[version, 0, 0]).unwrap_err();
        assert!(
            refused.to_string().contains("its version is unknown"),
            "{refused}"
        );
    }
}

/// `BLESS=1` rewrites the file.
#[test]
fn a_state_has_the_bytes_that_its_version_had_when_it_was_new() {
    let (_, state, stored) = parts();
    let mut written = rows(&state, &stored);
    let (state, stored) = long();
    written.push_str(&rows(&state, &stored));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engine/stored.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &written).expect("it can be written");
    }
    let known = std::fs::read_to_string(path).expect("there is one");
    assert_eq!(written, known);
}

#[test]
fn a_stored_failure_keeps_its_details_and_its_origin() {
    let plain = Failure::new(Class::Permanent, Code::new("WL-T001"), "no");
    let detailed = Failure {
        details: JsonText::checked(br#"{"n": 1}"#).ok(),
        ..plain.clone()
    };
    let placed = Failure {
        origin: Some(Box::new(Origin {
            stack: Some("at x".to_owned()),
            position: Some(Position {
                source: Some("a.jq".to_owned()),
                line: 3,
                column: 14,
            }),
        })),
        ..detailed.clone()
    };
    // The failure ends the run after another node was undone; and it fails a for-each.
    let undoing = kit::graph("u:\na: undo u\na -> b");
    let listing = kit::graph("f: each 1\nf| x:");
    let values = kit::values(&[].into());
    let turn = Turn {
        now_ms: 0,
        random: 0,
        values: &values,
    };
    let done = |seq, run| Event::Done {
        seq,
        run,
        ports: Vec::new(),
        end: None,
    };
    let mut written = String::new();
    for failure in [plain, detailed, placed] {
        let (mut state, _) = begin(&undoing, 0);
        let mut stored = Stored::default();
        let first = done(oldest(&undoing, &state, "a"), ExecutionNo(1));
        kit::turn(&undoing, &mut state, &mut stored, first, turn, &|_| false).expect("it is open");
        let seq = oldest(&undoing, &state, "b");
        let failed = kit::failed(seq, ExecutionNo(2), failure.clone());
        kit::turn(&undoing, &mut state, &mut stored, failed, turn, &|_| false).expect("it is open");
        written.push_str(&rows(&state, &stored));
        // `turn` compares the state with the one that is read back, and this step needs it.
        let last = done(oldest(&undoing, &state, "u"), ExecutionNo(3));
        let end = kit::turn(&undoing, &mut state, &mut stored, last, turn, &|_| false);
        let end = end.expect("it is open");
        let Some(Command::Finish { failure: found, .. }) = end.last() else {
            panic!("the run ends: {end:?}")
        };
        assert_eq!(found.as_ref(), Some(&failure));

        let (mut state, _) = begin(&listing, 0);
        let mut stored = Stored::default();
        let (seq, run) = (oldest(&listing, &state, "f"), ExecutionNo(1));
        let listed = Event::Listed { seq, run, count: 1 };
        kit::turn(&listing, &mut state, &mut stored, listed, turn, &|_| false).expect("it is open");
        let seq = oldest(&listing, &state, "x");
        let failed = kit::failed(seq, ExecutionNo(2), failure.clone());
        kit::turn(&listing, &mut state, &mut stored, failed, turn, &|_| false).expect("it is open");
        written.push_str(&rows(&state, &stored));
        let read = kit::reread(&listing, &state, &stored);
        let collect = read.open.values().find_map(|open| open.collect.as_ref());
        assert_eq!(collect.expect("it collects").fault.as_ref(), Some(&failure));
    }
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/engine/stored_failures.txt"
    );
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &written).expect("it can be written");
    }
    assert_eq!(
        std::fs::read_to_string(path).expect("there is one"),
        written
    );
}

/// All stored rows of a run.
fn rows(state: &RunState, stored: &Stored) -> String {
    let mut rows = format!("head {}\n", hex(&state.encode()));
    for (no, bytes) in &stored.scopes {
        rows.push_str(&format!("scope {no} {}\n", hex(bytes)));
    }
    for open in state.open.values() {
        rows.push_str(&format!(
            "open {} {}\n",
            open.seq,
            hex(&open.encode_detail())
        ));
    }
    rows
}
