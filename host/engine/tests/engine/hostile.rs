//! Damaged stored bytes give errors, never panics.

use proptest::prelude::*;
use windlass_engine::{
    Carrier, Command, Event, MAX_STEPS, NodeIx, Open, OpenRow, Recorded, Recording, RunState,
    begin, judge, replay,
};
use windlass_model::{
    BlobRef, Body, Class, Code, Digest, ExecutionNo, Failure, Payload, ScopeNo, Seq, TriggerType,
    Version,
};
use windlass_test_seeds::Seeds;

use crate::kit;

const GRAPH: &str = "options: output nodes.b.output
    a -> b
    a -> c
    a -> l
    l.again -> l
    l -> j
    b -> j
    c -> j";

/// A state in the middle of a run.
fn state() -> RunState {
    let graph = kit::graph(GRAPH);
    let (mut state, _) = begin(&graph, 0);
    for (seq, run) in [(0, 5 << 32), (1, (5 << 32) + 1)] {
        let event = Event::Done {
            seq: Seq(seq),
            run: ExecutionNo(run),
            ports: Vec::new(),
            end: None,
        };
        kit::step(&graph, &mut state, event, 0, 0, &kit::values(&[].into())).expect("it is open");
    }
    state
}

fn open() -> Open {
    let digest = Digest::of(b"x");
    Open {
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
            body: Body::Blob(BlobRef { digest, size: 1 }),
        }),
        round: None,
        collect: None,
        input: None,
        waiting: true,
    }
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
    OpenRow {
        seq,
        node: node.0,
        kind,
        attempt,
        due_ms: due_ms.unwrap_or_default(),
    }
}

#[test]
fn cut_off_and_prolonged_bytes_are_refused() {
    let graph = kit::graph(GRAPH);
    let bytes = state().encode();
    assert!(RunState::decode(&graph, &bytes, []).is_ok());
    let detail = open().encode_detail();
    assert_eq!(
        Open::decode_detail(&graph, row(&open()), &detail),
        Ok(open())
    );
    for end in 0..bytes.len() {
        assert!(RunState::decode(&graph, &bytes[..end], []).is_err());
    }
    for end in 1..detail.len() {
        assert!(Open::decode_detail(&graph, row(&open()), &detail[..end]).is_err());
    }
    assert!(RunState::decode(&graph, &[bytes, vec![0]].concat(), []).is_err());
    assert!(Open::decode_detail(&graph, row(&open()), &[detail, vec![0]].concat()).is_err());
}

#[test]
fn bytes_of_another_graph_are_refused() {
    let other = kit::graph("a -> b");
    assert!(RunState::decode(&other, &state().encode(), []).is_err());
    assert!(Open::decode_detail(&other, row(&open()), &open().encode_detail()).is_err());
}

#[test]
fn a_chain_stays_small() {
    let graph = kit::graph("a -> b\nb -> c");
    let (mut state, commands) = begin(&graph, 0);
    let Some(Command::Run(open)) = commands.first() else {
        panic!("an entry runs")
    };
    assert!(open.encode_detail().is_empty());
    let run = ExecutionNo(7 << 32);
    let event = Event::Done {
        seq: open.seq,
        run,
        ports: Vec::new(),
        end: None,
    };
    let commands = kit::step(&graph, &mut state, event, 0, 0, &kit::values(&[].into()));
    let commands = commands.expect("it is open");
    let Some(Command::Run(open)) = commands.first() else {
        panic!("the next runs")
    };
    assert!(
        open.encode_detail().len() <= 12,
        "{:?}",
        open.encode_detail()
    );
    assert!(state.encode().len() <= 13, "{:?}", state.encode());
}

#[test]
fn the_usual_event_takes_six_bytes() {
    let graph = kit::graph("a -> b");
    let (state, _) = begin(&graph, 0);
    let open = state.open.values().next().expect("an entry runs");
    let (seq, run) = (open.seq, ExecutionNo(7 << 32));
    let (ports, end) = (Vec::new(), None);
    let event = Event::Done {
        seq,
        run,
        ports,
        end,
    };
    let values = kit::values(&[].into());
    let cx = windlass_engine::Cx {
        now_ms: 1_700_000_000_060,
        random: 0,
        values: &values,
        failing: Ok(&values),
        max_steps: MAX_STEPS,
    };
    let judged = judge(&graph, open, &event, &cx).expect("nothing interrupts it");
    let recording = Recording::of(&event, &judged, None, (cx.now_ms, MAX_STEPS));
    let recording = recording.expect("it is a step");
    let recording = recording.after(&state);
    let bytes = recording.encode(Version(1_000), 1_700_000_000_000);
    assert_eq!(bytes.len(), 6, "{bytes:?}");
}

/// The check of an event.
fn crc_8(bytes: &[u8]) -> u8 {
    let mut sum = 0xff_u8;
    for byte in bytes {
        sum ^= byte;
        for _ in 0..8 {
            let carry = sum & 0x80 != 0;
            sum <<= 1;
            sum ^= if carry { 7 } else { 0 };
        }
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(Seeds::USUAL.cases()))]

    #[test]
    fn events_of_any_bytes_never_panic(
        kind in 0..24_u8,
        rest in prop::collection::vec(prop_oneof![Just(0_u8), 0..4_u8, any::<u8>()], 0..24),
        at in any::<prop::sample::Index>(),
        has_record in any::<bool>(),
    ) {
        let (graph, sound, stored) = crate::golden::parts();
        let seqs: Vec<Seq> = sound.open.keys().copied().collect();
        let failure = Failure::new(Class::Permanent, Code::new("WL-T001"), "it failed");
        let carrier = has_record.then_some(Carrier {
            seq: seqs[at.index(seqs.len())],
            run: ExecutionNo(1 << 40),
            started_ms: 5,
            failure: Some(&failure),
        });
        let mut bytes = [vec![kind], rest].concat();
        bytes.push(crc_8(&bytes));
        if let Ok(event) = Recorded::decode(&bytes, carrier) {
            let mut state = kit::reread(&graph, &sound, &stored);
            if replay(&graph, &mut state, event).is_ok() {
                state.drain_scopes();
                let _ = RunState::decode(&graph, &state.encode(), []);
            }
        }
    }

    #[test]
    fn flipped_bytes_never_panic(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        events in prop::collection::vec((0..9_u64, any::<bool>()), 0..8),
    ) {
        let graph = kit::graph(GRAPH);
        let sound = state();
        let mut bytes = sound.encode();
        let at_byte = at.index(bytes.len());
        bytes[at_byte] = byte;
        if let Ok(mut state) = RunState::decode(&graph, &bytes, []) {
            for open in sound.open.into_values() {
                state.restore(&graph, open);
            }
            for (seq, again) in events {
                let ports = if again { vec!["again".to_owned()] } else { Vec::new() };
                let event = Event::Done { seq: Seq(seq), run: ExecutionNo(1), ports, end: None };
                let values = kit::values(&[].into());
                let cx = windlass_engine::Cx {
                    now_ms: 0,
                    random: 0,
                    values: &values,
                    failing: Ok(&values),
                    max_steps: 100,
                };
                let _ = windlass_engine::apply(&graph, &mut state, event, &cx);
            }
        }
        let mut detail = open().encode_detail();
        let at_byte = at.index(detail.len());
        detail[at_byte] = byte;
        let _ = Open::decode_detail(&graph, row(&open()), &detail);
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let graph = kit::graph(GRAPH);
        let versioned = [vec![1], bytes].concat();
        let _ = RunState::decode(&graph, &versioned, []);
        let _ = Open::decode_detail(&graph, row(&open()), &versioned);
    }

    #[test]
    fn flipped_bytes_of_scopes_never_panic(
        row in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let (graph, sound, stored) = crate::golden::parts();
        let mut rows = vec![sound.encode()];
        rows.extend(stored.scopes.values().cloned());
        let row = row.index(rows.len());
        let at = at.index(rows[row].len());
        rows[row][at] = byte;
        let scopes = stored.scopes.keys().copied();
        let scopes = scopes.zip(rows[1..].iter().map(Vec::as_slice));
        if let Ok(mut state) = RunState::decode(&graph, &rows[0], scopes) {
            for open in sound.open.into_values() {
                state.restore(&graph, open);
            }
            let seqs: Vec<Seq> = state.open.keys().copied().collect();
            for seq in seqs {
                let event = Event::Done { seq, run: ExecutionNo(1), ports: Vec::new(), end: None };
                let values = kit::values(&[].into());
                let cx = windlass_engine::Cx {
                    now_ms: 0,
                    random: 0,
                    values: &values,
                    failing: Ok(&values),
                    max_steps: 100,
                };
                let _ = windlass_engine::apply(&graph, &mut state, event, &cx);
                state.drain_scopes();
            }
        }
    }
}
