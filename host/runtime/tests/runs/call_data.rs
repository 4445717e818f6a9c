//! Calls with large inputs that wait: what they hold is bounded, and nothing else waits for them.

use std::time::Duration;

use serde_json::json;
use windlass_model::{Payload, RunId, Status};
use windlass_runtime::StartRequest;
use windlass_store::Reader as _;

use crate::rig::{Running, Setup, definition, json as read};

/// A quarter of it is for calls that wait: four inputs, of which one workflow may hold two.
const RUN_DATA: u64 = 16 << 20;

/// Each call holds the processor for a while, and each input is a megabyte of its own.
const LARGE: &str = r#"
workflow: NAME
nodes:
  work: { use: slow/slow, with: { ms: 500 }, input: "{{ 'a' * 1000000 }}", total-timeout: 10m }
  echo:
    use: steps/port
    with: { ports: [done] }
    input: "{{ 'b' * 1000000 ~ input.n }}"
edges: [work -> echo]
output: "{{ nodes.echo.output[999999:] }}"
"#;

const SMALL: &str = r#"
workflow: small
nodes:
  echo: { use: steps/port, with: { ports: [done] }, input: "{{ input.n }}" }
output: "{{ nodes.echo.output }}"
"#;

const CHILDREN: &str = r#"
workflow: children
nodes:
  child: { workflow: small, input: { n: "{{ input.n }}", more: "{{ 'a' * 1000000 }}" } }
output: "{{ nodes.child.output }}"
"#;

fn running(run_data_bytes: u64) -> Running {
    let setup = Setup {
        components: &["slow", "steps"],
        run_data_bytes,
        plugin_bytes: Some(20 << 20),
        deadline: Duration::from_secs(300),
        ..Setup::default()
    };
    setup.beside("small", SMALL).start()
}

fn start(running: &Running, workflow: &str, n: usize) -> RunId {
    let [client, _] = running.clients();
    let request = StartRequest {
        workflow: definition(workflow).into(),
        input: Payload::json(json!({ "n": n }).to_string()),
        id: None,
        correlation: None,
        trace: None,
    };
    running.block_on(client.create_and_run(request)).unwrap().id
}

fn result(running: &Running, id: RunId) -> windlass_runtime::RunResult {
    let [client, _] = running.clients();
    let ended = client.result(id, Duration::from_secs(120));
    let standing = running.block_on(ended).unwrap();
    standing.result.unwrap()
}

fn metric(running: &Running, name: &str) -> u64 {
    let text = running.runtime.metrics();
    let line = text.lines().find_map(|line| {
        let (found, value) = line.split_once(' ')?;
        (found == name).then(|| value.parse().unwrap())
    });
    line.unwrap()
}

fn until_many_wait(running: &Running) {
    running.until("five calls wait", |_| {
        metric(running, "windlass_call_data_waiting") >= 5
    });
}

#[test]
fn inputs_of_calls_that_wait_are_bounded_and_other_runs_go_on() {
    let running = running(RUN_DATA);
    let large = |name: &str| LARGE.replace("NAME", name);
    let first = large("first");
    let waiting: Vec<_> = (0..60).map(|n| (n, start(&running, &first, n))).collect();
    until_many_wait(&running);
    // Steps that render little wait for nothing.
    for n in 0..5 {
        let small = start(&running, SMALL, n);
        assert_eq!(read(&result(&running, small).output.unwrap()), json!(n));
    }
    // Another workflow has room, although many calls of the first one wait.
    let other = start(&running, &large("second"), 7);
    assert_eq!(read(&result(&running, other).output.unwrap()), json!("b7"));
    assert!(metric(&running, "windlass_call_data_waiting") > 0);
    // Runs whose calls wait are cancelled at once.
    let is_open = |id: &RunId| {
        let row = running.store.run(*id).unwrap().unwrap();
        !row.status.is_final()
    };
    let open: Vec<_> = waiting.iter().map(|(_, id)| *id).filter(is_open).collect();
    let cancelled = &open[open.len().min(8)..];
    cancelled.iter().for_each(|id| running.cancel(*id));
    let mut count = 0;
    for (n, id) in waiting {
        let result = result(&running, id);
        if result.status == Status::Cancelled {
            assert!(cancelled.contains(&id));
            count += 1;
        } else {
            let output = result
                .output
                .unwrap_or_else(|| panic!("{:?}", result.failure));
            assert_eq!(read(&output), json!(format!("b{n}")));
        }
    }
    assert!(count > 0, "{count}");
    let [used, peak, limit] = ["bytes", "peak_bytes", "limit_bytes"]
        .map(|name| metric(&running, &format!("windlass_call_data_{name}")));
    assert_eq!((used, limit), (0, RUN_DATA / 4));
    // A call that has begun and waits again counts again, though there may be no room.
    assert!(peak > 1_000_000 && peak <= 2 * limit, "{peak}");
    assert_eq!(metric(&running, "windlass_call_data_waiting"), 0);
}

#[test]
fn calls_that_are_larger_than_the_bound_go_one_by_one() {
    let running = running(1 << 20);
    let runs: Vec<_> = (0..8)
        .flat_map(|n| {
            let large = start(&running, &LARGE.replace("NAME", "large"), n);
            [
                (large, json!(format!("b{n}"))),
                (start(&running, CHILDREN, n), json!(n)),
            ]
        })
        .collect();
    for (id, expected) in runs {
        let result = result(&running, id);
        let output = result
            .output
            .unwrap_or_else(|| panic!("{:?}", result.failure));
        assert_eq!(read(&output), expected);
    }
    let peak = metric(&running, "windlass_call_data_peak_bytes");
    assert!(peak > 1_000_000 && peak < 1_100_000, "{peak}");
}

#[test]
fn a_shutdown_gives_back_runs_whose_calls_wait() {
    let running = running(RUN_DATA);
    let workflow = LARGE.replace("NAME", "large");
    let ids: Vec<_> = (0..40).map(|n| start(&running, &workflow, n)).collect();
    until_many_wait(&running);
    running.block_on(running.runtime.drain(Duration::from_secs(30)));
    let open = ids.iter().filter(|id| {
        let row = running.store.run(**id).unwrap().unwrap();
        assert_eq!(row.owner, None);
        assert!(row.failure.is_none(), "{:?}", row.failure);
        !row.status.is_final()
    });
    assert!(open.count() > 0);
}
