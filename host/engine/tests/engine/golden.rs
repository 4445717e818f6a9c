//! States stored by earlier versions are read correctly.

use windlass_engine::{Command, Event, Graph, NodeIx, Open, OpenRow, RunState, begin};
use windlass_model::{
    BlobRef, Body, Class, Code, Digest, ExecutionNo, Failure, JsonText, Origin, Payload, Position,
    ScopeNo, Seq, TriggerType,
};

use crate::kit::{self, Stored, Turn};

const GRAPH: &str = "options: timeout 1000, output nodes.b.output
    m: join each
    a -> m
    b -> m
    m -> j
    c -> j
    a -> k
    b -> k
    k: join any
    c -> l
    l.again -> l
    l.out -> z
    e: end
    d -> e";

/// After the completion of each node: the head and the details of the open executions, as version 1
/// wrote them.
const STORED: &[(&str, &str, &[&str])] = &[
    (
        "a",
        "01010701000001d00f010600000206010100010801000282808080a00100",
        &[
            "",
            "",
            "",
            "014400010082808080a001",
            "014404010082808080a001",
        ],
    ),
    (
        "m",
        "01010702000001d00f01060000030501000284808080a0010601010001080100020100",
        &["", "", "", "014404010082808080a001"],
    ),
    (
        "b",
        "01010803000001d00f010600010186808080a00101050100020100",
        &["", "", "014404010082808080a001", "014401010186808080a001"],
    ),
    (
        "m",
        "01010804000001d00f010600010186808080a0010105010003020101010400",
        &["", "", "014404010082808080a001"],
    ),
    (
        "k",
        "01010805000001d00f010600010186808080a0010105010003020101010400",
        &["", ""],
    ),
    (
        "d",
        "01010906000001d00f010600010186808080a0010105010003020101010400",
        &["", "01440901038c808080a001"],
    ),
    (
        "e",
        "01010907000001d00f0106018e808080a001010186808080a0010105010003020101010400",
        &[""],
    ),
    (
        "c",
        "01010b08000001d00f0106018e808080a001010186808080a0010105010002020100010000",
        &[
            "014402020290808080a0010884808080a001",
            "014406010290808080a001",
        ],
    ),
];

const DETAIL: &str = "01ff020604090200feffffffffffffffff010201010a746578742f706c61696e01477368613235363a3264373131363432623732366230343430313632376361396662616333326635633835333066623139303363633464623032323538373137393231613438383101";

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let digits = digits.map(|pair| std::str::from_utf8(pair).expect("digits"));
    digits
        .map(|pair| u8::from_str_radix(pair, 16).expect("a byte"))
        .collect()
}

fn row(open: &Open) -> OpenRow {
    let Open {
        seq,
        node,
        kind,
        attempt,
        due_ms,
        ..
    } = *open;
    let due_ms = due_ms.unwrap_or_default();
    OpenRow {
        seq,
        node: node.0,
        kind,
        attempt,
        due_ms,
    }
}

fn oldest(graph: &Graph, state: &RunState, name: &str) -> Seq {
    let node = graph.find(name).expect("a node");
    let open = state.open.values().find(|open| open.node == node);
    open.expect("it is open").seq
}

#[test]
fn what_version_1_stored_is_read_and_goes_on() {
    let graph = kit::graph(GRAPH);
    let (mut state, _) = begin(&graph, 0);
    let mut run = 5 << 32;
    for (name, head, details) in STORED {
        run += 1;
        let event = Event::Done {
            seq: oldest(&graph, &state, name),
            run: ExecutionNo(run),
            ports: Vec::new(),
            end: (*name == "e").then_some(false),
        };
        let values = kit::values(&[].into());
        kit::step(&graph, &mut state, event, 0, 0, &values).expect("it is open");
        let mut read = RunState::decode(&graph, &bytes(head), []).expect("the head can be read");
        assert_eq!(state.open.len(), details.len());
        for (open, detail) in state.open.values().zip(*details) {
            let open = Open::decode_detail(&graph, row(open), &bytes(detail));
            read.restore(&graph, open.expect("the trigger can be read"));
        }
        assert_eq!(read, state, "after {name}");
        assert_eq!(state.encode(), bytes(head), "and is written as it was");
    }
}

#[test]
fn every_part_of_a_detail_of_version_1_is_read() {
    let graph = kit::graph("a -> b\nb -> c\na -> c");
    let open = Open {
        seq: Seq(9),
        first: Seq(3),
        scope: ScopeNo::ROOT,
        node: NodeIx(1),
        edge: Some(windlass_engine::EdgeIx(2)),
        kind: TriggerType::Loop,
        attempt: 2,
        phase: 4,
        due_ms: Some(100),
        give_up_ms: Some(-5),
        give_up_wait_ms: None,
        expires_ms: None,
        from: vec![
            (NodeIx(0), ExecutionNo(i64::MAX)),
            (NodeIx(2), ExecutionNo(-1)),
        ],
        left: Some(Payload {
            content_type: Some("text/plain".into()),
            body: Body::Blob(BlobRef {
                digest: Digest::of(b"x"),
                size: 1,
            }),
        }),
        round: None,
        collect: None,
        input: None,
        waiting: true,
    };
    assert_eq!(
        Open::decode_detail(&graph, row(&open), &bytes(DETAIL)),
        Ok(open)
    );
}

/// A run that uses everything of version 2, in progress.
const SECOND: &str = "u:
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
pub(crate) fn second() -> (Graph, RunState, Stored) {
    let graph = kit::graph(SECOND);
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

/// Version 2 still writes the same bytes as when it was new: every change needs a new version.
/// `BLESS=1` rewrites the file.
#[test]
fn what_version_2_stores_stays_as_it_is() {
    let (_, state, stored) = second();
    let mut written = rows(&state, &stored);
    let (state, stored) = long();
    written.push_str(&rows(&state, &stored));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engine/stored_v2.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &written).expect("it can be written");
    }
    let known = std::fs::read_to_string(path).expect("there is one");
    assert_eq!(written, known);
}

/// Failures without details have the bytes of earlier versions; details and the origin follow.
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
