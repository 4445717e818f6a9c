//! A workflow can set how long its runs are kept.

use windlass_model::Payload;
use windlass_store::Reader as _;

use crate::rig::Setup;

const HOUR_MS: i64 = 3_600_000;

/// How many runs expire: at once after the end, as other runs do, and two hours later.
#[track_caller]
fn check(options: &str, like_others: usize, in_two_hours: usize) {
    let workflow = format!(
        "
workflow: kept
nodes: {{ only: {{ set: {{ done: true }} }} }}
{options}"
    );
    let running = Setup::default().start();
    let started = running.run_on(&workflow, Payload::null());
    running.ended(started.no);
    let now_ms = running.now_ms();
    let expired = |before_ms, now_ms| {
        let rows = running.store.expired(before_ms, now_ms, 10);
        rows.unwrap().len()
    };
    assert_eq!(expired(i64::MAX, now_ms), like_others);
    assert_eq!(expired(i64::MIN, now_ms + 2 * HOUR_MS), in_two_hours);
}

#[test]
fn a_run_is_kept_as_long_as_its_workflow_says() {
    check("", 1, 0);
    check("options: { retention: 1h }", 0, 1);
    check("options: { retention: 30d }", 0, 0);
}
