//! Schedules with real clocks: processes die around the moment of the decision, while others decide
//! at the same time.

use serde_json::json;
use windlass_model::Status;
use windlass_model::schedule::occurrence_id;
use windlass_store::published::{ScheduleQuery, ScheduleRow};
use windlass_tests::harness::{Place, until};

/// The time between two occurrences, in milliseconds.
const EVERY_MS: i64 = 1_000;

/// Publishes a workflow that starts every second, and catches up on missed occurrences.
fn publish(place: &Place) {
    let workflow = json!({
        "workflow": "tick",
        "triggers": {
            "pulse": { "every": "1s", "overlap": "allow", "misfire": { "catch-up": 1000 } },
        },
        "nodes": { "note": { "use": "steps/effect" } },
    });
    let file = place.workflow("tick", &workflow);
    place.ask(&[
        "workflow",
        "publish",
        file.to_str().expect("the name is text"),
    ]);
}

fn schedule(place: &Place) -> ScheduleRow {
    let query = ScheduleQuery {
        limit: 10,
        ..ScheduleQuery::default()
    };
    let rows = place.look().store().schedules(&query);
    let mut rows = rows.expect("schedules can be read");
    assert_eq!(rows.len(), 1, "there is one schedule");
    rows.remove(0)
}

/// Checks that every occurrence from the first to the last has one run, which has ended and had its
/// side effect once, and that there is no other run. Returns their number.
#[track_caller]
fn verify(place: &Place, since_ms: i64) -> usize {
    let runs = place.look().runs();
    let mut found: Vec<_> = runs.iter().map(|run| run.id).collect();
    found.sort_unstable();
    let mut expected: Vec<_> = (1..)
        .map(|n| occurrence_id("tick", "pulse", since_ms + n * EVERY_MS))
        .take(found.len())
        .collect();
    expected.sort_unstable();
    assert_eq!(
        found, expected,
        "each occurrence has one run, and none is left out"
    );
    for run in &runs {
        assert_eq!(run.status, Status::Completed, "{:?}", run.failure);
        assert_eq!(place.look().records(run).len(), 1, "its work was done once");
    }
    found.len()
}

/// Retracts the schedule, and waits for the end of its runs.
fn wind_up(place: &Place) {
    place.ask(&["workflow", "retract", "tick"]);
    until("everything has ended", || place.look().unfinished() == 0);
}

#[test]
fn an_occurrence_happens_once_though_hosts_die_before_and_after_it_is_decided() {
    let place = Place::new(&["steps"]);
    publish(&place);
    let row = schedule(&place);
    let mut deaths = 0;
    for round in 1..=3 {
        for point in ["before-plan", "after-plan"] {
            let mut armed = place.serve_armed(&format!("{point}=abort@{round}"));
            until("the host has died", || armed.ended().is_some());
            deaths += 1;
        }
    }
    let before = schedule(&place).last_planned_ms;
    assert!(before.is_some(), "those that died decided about something");
    let _serve = place.serve();
    until("it goes on", || schedule(&place).last_planned_ms > before);
    wind_up(&place);
    let count = verify(&place, row.since_ms);
    eprintln!("{deaths} deaths, {count} occurrences");
    assert!(count >= 6);
}

#[test]
fn of_several_hosts_one_decides_about_each_occurrence() {
    let place = Place::new(&["steps"]);
    publish(&place);
    let row = schedule(&place);
    let first = place.serve();
    let _second = place.serve();
    let reaches = |count: i64| {
        until("occurrences happen", || {
            schedule(&place).last_planned_ms >= Some(row.since_ms + count * EVERY_MS)
        });
    };
    reaches(3);
    first.kill();
    let _third = place.serve();
    reaches(6);
    wind_up(&place);
    assert!(verify(&place, row.since_ms) >= 6);
}
