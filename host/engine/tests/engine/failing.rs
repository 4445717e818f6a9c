//! Failures of executions: retries, `on-error` and the conditions of both, in the language of
//! [`crate::player`].

use windlass_engine::expr::Values;
use windlass_engine::{Verdict, begin, verdict};
use windlass_model::{Class, Code, Failure, JsonText};

use crate::player::check;

#[test]
fn failures_are_tried_again_with_growing_delays_and_then_fault_the_run() {
    check(
        "a: retry 3 100 exponential
         a -> b
         a -> c",
        "begin => run a();
         a!retryable => retry a@100 2/0; [running]
         +100 =>
         a!retryable => retry a@300 3/0; [running]
         +200 =>
         a!retryable => incident a WL-T001; finish WL-T001; [faulted]",
    );
    check(
        "a: retry 9 400 exponential",
        "begin => run a();
         a!retryable => retry a@400 2/0; [running]
         a!retryable => retry a@800 3/0; [running]
         a!retryable => retry a@1000 4/0; [running]
         a!retryable/700 => retry a@1000 5/0; [running]
         a!permanent => incident a WL-T001; finish WL-T001; [faulted]",
    );
}

#[test]
fn the_longest_delay_bounds_the_delay_that_a_node_asks_for() {
    for asked in [900, 1000, 1001, 31_536_000_000, u64::MAX] {
        let due = asked.min(1000);
        check(
            "a: retry 9 400 fixed",
            &format!(
                "begin => run a();
                 a!retryable/{asked} => retry a@{due} 2/0; [running]"
            ),
        );
    }
}

#[test]
fn no_delay_is_longer_than_the_longest_duration() {
    let due = windlass_model::limits::DURATION_MS;
    check(
        "a:",
        &format!(
            "begin => run a();
             a~{} => loop a@{due} 1/1; [suspended]",
            u64::MAX
        ),
    );
}

#[test]
fn jitter_waits_at_least_half() {
    check(
        "a: retry 2 100 fixed jitter",
        "begin => run a();
         a!retryable => retry a@57 2/0; [running]",
    );
}

#[test]
fn a_total_timeout_bounds_all_attempts() {
    check(
        "a: total 150, retry 5 100 fixed",
        "begin => run a();
         a!retryable => retry a@100 2/0; [running]
         +100 =>
         a!retryable => incident a WL-R002; finish WL-R002; [faulted]",
    );
    check(
        "a: total 150, continue
         a -> b",
        "begin => run a();
         a~200 => refuted WL-R002; incident a WL-R002; run b(a); [running]
         b => finish; [completed]",
    );
}

#[test]
fn failures_are_routed_or_passed_over() {
    check(
        "a: route
         a -> b
         a.error -> c
         b -> d
         c -> d",
        "begin => run a();
         a!trap => incident a WL-T001; skip b; run c(a); [running]
         c => run d(c); [running]
         d => finish; [completed]",
    );
    check(
        "options: continue
         a -> b
         a -> c
         b -> d
         c -> d",
        "begin => run a();
         a => run b(a); run c(a); [running]
         b!trap => incident b WL-T001; [running]
         c => run d(c); [running]
         d => finish; [completed]",
    );
}

#[test]
fn a_failure_is_tried_again_only_if_the_condition_holds() {
    let graph = "a: retry 3 100 fixed, retry-when error.details.n!=2
         a -> b";
    check(
        graph,
        "begin => run a();
         a!retryable => retry a@100 2/0; [running]
         a!retryable:{\"n\":1} => retry a@100 3/0; [running]
         a!retryable:{\"n\":1} => incident a WL-T001; finish WL-T001; [faulted]",
    );
    check(
        graph,
        "begin => run a();
         a!retryable:{\"n\":2} => incident a WL-T001; finish WL-T001; [faulted]",
    );
    // The classes count as before.
    check(
        graph,
        "begin => run a();
         a!permanent:{\"n\":1} => incident a WL-T001; finish WL-T001; [faulted]",
    );
}

#[test]
fn the_first_rule_that_fits_decides_about_a_failure() {
    let graph = "a: on error.details.status==404 continue, on error.class=='trap' route
         a: on vars.x fail, on error.code=='WL-T001' continue, otherwise fail
         a -> b
         a.error -> c";
    check(
        graph,
        "begin => run a();
         a!trap:{\"status\":404} => incident a WL-T001; run b(a); skip c; [running]
         b => finish; [completed]",
    );
    check(
        graph,
        "begin => run a();
         a!trap => incident a WL-T001; skip b; run c(a); [running]
         c => finish; [completed]",
    );
    check(
        graph,
        "begin => run a();
         a!invalid x=true => incident a WL-T001; finish WL-T001; [faulted]",
    );
    check(
        graph,
        "begin => run a();
         a!invalid x=false => incident a WL-T001; run b(a); skip c; [running]
         b => finish; [completed]",
    );
    // Without a rule that fits, the node fails.
    check(
        "a: on error.details.status==404 continue
         a -> b",
        "begin => run a();
         a!permanent:{\"status\":500} => incident a WL-T001; finish WL-T001; [faulted]",
    );
}

#[test]
fn the_rules_apply_to_failures_that_the_engine_finds() {
    check(
        "a: on error.code=='WL-R001' continue
         a -> b: vars.x",
        "begin => run a();
         a => refuted WL-R001; incident a WL-R001; finish WL-R001; [faulted]",
    );
    check(
        "a: total 150, on error.class=='deadline' continue
         a -> b",
        "begin => run a();
         a~200 => refuted WL-R002; incident a WL-R002; run b(a); [running]
         b => finish; [completed]",
    );
    check(
        "a: total 150, retry 5 100 fixed, on error.details.n==7 continue
         a -> b",
        "begin => run a();
         a!retryable => retry a@100 2/0; [running]
         +100 =>
         a!retryable:{\"n\":7} => incident a WL-R002; run b(a); [running]
         b => finish; [completed]",
    );
    // The failure of an item is that of its for-each, with the details.
    check(
        "f: each 1, on error.details.n==7 continue
         f| x:
         f -> b",
        "begin => run f();
         f#1 => open 1[0]; run x(); [running]
         x!permanent:{\"n\":7} => incident x WL-T001; close 1; run f()#1 of a fault; [running]
         f!permanent:{\"n\":7} => drop 0; incident f WL-T001; run b(f); [running]
         b => finish; [completed]",
    );
}

fn verdict_of(graph: &str, vars: &[u8]) -> Verdict {
    let graph = crate::kit::graph(graph);
    let (state, _) = begin(&graph, 0);
    let open = state.open.values().next().expect("it is open");
    let mut failure = Failure::new(Class::Retryable, Code::new("WL-T001"), "it failed");
    failure.details = JsonText::checked(br#"{"n": 1}"#).ok();
    failure.retry_after_ms = Some(5);
    let mut values = Values::new();
    values.var("x", vars).expect("it is JSON");
    verdict(&graph, open, &failure, 0, 0, Ok(&values))
}

#[test]
fn a_condition_about_a_failure_that_cannot_be_evaluated_is_named_in_the_failure() {
    let message = |verdict: &Verdict| match verdict {
        Verdict::Fail(failure) | Verdict::Continue(failure) | Verdict::Route(failure) => {
            assert_eq!(
                failure.code.as_str(),
                "WL-T001",
                "it is the original failure"
            );
            assert_eq!(failure.class, Class::Retryable);
            assert!(failure.details.is_some());
            failure.message.clone()
        }
        Verdict::Retry { .. } => "it is tried again".to_owned(),
    };
    // The rules still see the failure as it was.
    let retry = "a: retry 3 1 fixed, retry-when error.details.gone+1";
    let rule = "on error.message|length==9 continue, otherwise fail";
    let verdict = verdict_of(&format!("{retry}, {rule}"), b"1");
    assert!(matches!(verdict, Verdict::Continue(_)), "{verdict:?}");
    assert_eq!(
        message(&verdict),
        "it failed; the condition of its `retry` could not be evaluated: invalid operation: \
         tried to use + operator on unsupported types undefined and number in `error.details.gone+1` at /nodes/a/retry/when"
    );
    // Later rules are not tried.
    let verdict = verdict_of(
        "a: on error.details.n==2 continue, on vars.y continue, otherwise continue",
        b"1",
    );
    assert!(matches!(verdict, Verdict::Fail(_)), "{verdict:?}");
    assert_eq!(
        message(&verdict),
        "it failed; the condition of rule 2 of its `on-error` could not be evaluated: \
         `vars.y` is undefined (did you mean `x`?) in `vars.y` at /nodes/a/on-error/1/when"
    );
}

#[test]
fn values_that_cannot_be_read_leave_the_conditions_without_a_result() {
    let graph = crate::kit::graph("a: retry 3 1 fixed, retry-when vars.x, on vars.x continue");
    let (state, _) = begin(&graph, 0);
    let open = state.open.values().next().expect("it is open");
    let failure = Failure::new(Class::Retryable, Code::new("WL-T001"), "it failed");
    let unread = Failure::new(Class::Limit, Code::new("WL-T003"), "it is too large");
    let found = verdict(&graph, open, &failure, 0, 0, Err(&unread));
    let Verdict::Fail(found) = found else {
        panic!("{found:?}")
    };
    assert_eq!(found.code, failure.code);
    assert!(
        found
            .message
            .ends_with("could not be evaluated: it is too large"),
        "{found}"
    );
}

#[test]
fn a_failure_of_the_total_timeout_keeps_the_details_of_the_last_failure() {
    let verdict = verdict_of("a: total 3, retry 5 1 fixed", b"1");
    let Verdict::Fail(failure) = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(failure.code.as_str(), "WL-R002");
    assert_eq!(
        failure.details.as_ref().map(JsonText::as_str),
        Some(r#"{"n": 1}"#)
    );
}
