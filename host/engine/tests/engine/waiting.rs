//! Nodes that wait: bookmarks, children, critical sections, rounds, and compensations.

use windlass_engine::{Command, Event, begin};
use windlass_model::ExecutionNo;

use crate::kit::{self, Stored, Turn};
use crate::player::check;

#[test]
fn a_suspended_node_waits_until_its_bookmark_is_resumed() {
    check(
        "a -> b",
        "begin => run a();
         a* => resume a@9223372036854775807 1/1; [suspended]
         a => run b(a); [running]
         b&  => child b@9223372036854775807 1/1; [suspended]
         b => finish; [completed]",
    );
}

#[test]
fn a_wait_ends_at_the_first_of_its_bounds() {
    check(
        "a: wait-timeout 500
         a -> b",
        "begin => run a();
         a*300 => resume a@300 1/1; [suspended]
         +300 =>
         a* => resume a@800 1/2; [suspended]
         a!deadline => incident a WL-T001; finish WL-T001; [faulted]",
    );
    check(
        "a: wait-timeout 500, total 400",
        "begin => run a();
         a* => resume a@400 1/1; [suspended]",
    );
    check(
        "a: wait-timeout 500, retry 2 100 fixed
         a -> b",
        "begin => run a();
         a* => resume a@500 1/1; [suspended]
         +500 =>
         a!deadline => retry a@600 2/1; [running]
         a => run b(a); [running]",
    );
}

#[test]
fn every_round_of_a_node_that_repeats_is_undone() {
    check(
        "u:
         a: repeat 2, undo u
         a -> b",
        "begin => run a();
         a => run a()#1; [running]
         a => run b(a); [running]
         b!permanent => incident b WL-T001; run u(a); [running]
         u => run u(a); [running]
         u => finish WL-T001; [faulted]",
    );
}

#[test]
fn a_wait_that_always_fails_uses_up_the_attempts() {
    check(
        "a: wait-timeout 500, retry 2 100 fixed",
        "begin => run a();
         a* => resume a@500 1/1; [suspended]
         +500 =>
         a!deadline => retry a@600 2/1; [running]
         +100 =>
         a* => resume a@1100 2/2; [suspended]
         +500 =>
         a!deadline => incident a WL-T001; finish WL-T001; [faulted]",
    );
    // A retry that makes progress begins again with attempt 1.
    check(
        "a: retry 2 100 fixed",
        "begin => run a();
         a!retryable => retry a@100 2/0; [running]
         a* => resume a@9223372036854775807 2/1; [suspended]
         a* => resume a@9223372036854775807 1/2; [suspended]
         a!retryable => retry a@100 2/2; [running]",
    );
}

#[test]
fn a_node_repeats_until_it_may_not_or_need_not() {
    check(
        "a: repeat 3
         a -> b",
        "begin => run a();
         a => run a()#1; [running]
         a => run a()#2; [running]
         a => run b(a); [running]",
    );
    check(
        "a: repeat - 100 vars.x
         a -> b",
        "begin => run a();
         +30 =>
         a x=false => loop a@100 1/1; [suspended]
         +110 =>
         a => loop a@200 1/2; [suspended]
         +200 =>
         a => run a()#3; [running]
         a x=true => run b(a); [running]",
    );
    check(
        "a: repeat 2 - vars.missing",
        "begin => run a();
         a => refuted WL-R001; incident a WL-R001; finish WL-R001; [faulted]",
    );
    check(
        "a: repeat 9 100, total 150",
        "begin => run a();
         a => loop a@100 1/1; [suspended]
         +100 =>
         a => refuted WL-R002; incident a WL-R002; finish WL-R002; [faulted]",
    );
}

#[test]
fn a_failure_in_a_round_is_tried_again_in_that_round() {
    check(
        "a: repeat 2, retry 2 10 fixed
         a -> b",
        "begin => run a();
         a!retryable => retry a@10 2/0; [running]
         a => run a()#1; [running]
         a!retryable => retry a@10 2/1; [running]
         a => run b(a); [running]",
    );
}

#[test]
fn one_node_at_a_time_is_in_a_critical_section() {
    check(
        "b: mutex m
         c: mutex m
         d: mutex m
         a -> b
         a -> c
         a -> d
         b -> j
         c -> j
         d -> j",
        "begin => run a();
         a => run b(a); [running]
         b => run c(a); [running]
         c => run d(a); [running]
         d => run j(b c d); [running]
         j => finish; [completed]",
    );
}

#[test]
fn a_node_that_waits_for_a_retry_or_is_suspended_stays_in_its_critical_section() {
    check(
        "b: mutex m, retry 2 10 fixed, continue
         c: mutex m
         a -> b
         a -> c",
        "begin => run a();
         a => run b(a); [running]
         b!retryable => retry b@10 2/0; [running]
         b* => resume b@9223372036854775807 2/1; [suspended]
         b!permanent => incident b WL-T001; run c(a); [running]
         c => finish; [completed]",
    );
}

#[test]
fn a_cancelled_node_leaves_its_critical_section_and_its_line() {
    check(
        "b: mutex m
         c: mutex m
         d: mutex m
         a -> b
         a -> c
         a -> d
         b -> j
         c -> j
         d -> j",
        "begin => run a();
         a => run b(a); [running]
         b- => cancel b; run c(a); [running]
         c => run d(a); [running]
         cancel => cancel d; finish; [cancelled]",
    );
    check(
        "b: mutex m
         j: join race
         a -> j
         a.x -> b
         s: mutex m
         b -> j",
        "begin => run a(); run s();
         a:x => [running]
         s => run b(a); [running]
         b => run j(b); [running]
         j => finish; [completed]",
    );
}

#[test]
fn one_node_can_be_cancelled() {
    check(
        "a -> b
         a -> c
         b -> j
         c -> j",
        "begin => run a();
         a => run b(a); run c(a); [running]
         b- => cancel b; [running]
         b- => stale
         c => run j(c); [running]
         j- => cancel j; finish; [completed]",
    );
}

#[test]
fn effects_of_a_failed_run_are_compensated_the_last_first() {
    check(
        "ua:
         ub:
         a: undo ua
         b: undo ub
         a -> b
         b -> c
         c -> d",
        "begin => run a();
         a => run b(a); [running]
         b => run c(b); [running]
         c!trap => incident c WL-T001; run ub(b); [running]
         cancel => [running]
         ub!trap => incident ub WL-T001; run ua(a); [running]
         ua => finish WL-T001; [faulted]",
    );
}

#[test]
fn effects_of_a_cancelled_run_are_compensated_and_a_completed_one_keeps_them() {
    check(
        "u:
         a: undo u
         a -> b
         a -> c",
        "begin => run a();
         a => run b(a); run c(a); [running]
         cancel => cancel b; cancel c; run u(a); [running]
         u* => resume u@9223372036854775807 1/1; [suspended]
         u => finish; [cancelled]",
    );
    check(
        "u:
         a: undo u
         a -> b",
        "begin => run a();
         a => run b(a); [running]
         b => finish; [completed]",
    );
}

#[test]
fn every_execution_of_a_loop_is_undone() {
    check(
        "u:
         a: undo u
         a.again -> a
         s -> a",
        "begin => run s();
         s => run a(s); [running]
         a:again => run a(a); [running]
         a:again => run a(a); [running]
         cancel => cancel a; run u(a); [running]
         u => run u(a); [running]
         u => finish; [cancelled]",
    );
}

#[test]
fn decisions_that_wait_at_a_join_do_not_make_every_step_dear() {
    const ROUNDS: i64 = 900;
    let graph = kit::graph(
        "l.again -> l
         c.again -> c
         s -> l
         t -> c
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
    let mut run = 0;
    let mut largest = 0;
    let mut joined = Vec::new();
    let mut play = |name: &str, ports: &[&str]| {
        run += 1;
        let node = graph.find(name).expect("a node");
        let open = state.open.values().find(|open| open.node == node);
        let event = Event::Done {
            seq: open.expect("it is open").seq,
            run: ExecutionNo(run),
            ports: ports.iter().map(|port| (*port).to_owned()).collect(),
            end: None,
        };
        let commands = kit::turn(&graph, &mut state, &mut stored, event, turn, &|_| false);
        largest = largest.max(state.encode().len());
        for command in commands.expect("it is open") {
            if let Command::Run(open) = command
                && graph.find("j") == Some(open.node)
            {
                joined.push(open.from);
            }
        }
        stored.scopes.len()
    };
    play("s", &[]);
    play("t", &[]);
    let mut pages = 0;
    for _ in 0..ROUNDS {
        pages = play("l", &["done", "again"]);
    }
    assert!(pages > 10, "most of it is put away, but in {pages} pages");
    for _ in 0..ROUNDS {
        pages = play("c", &["done", "again"]);
    }
    assert_eq!(pages, 0, "and comes back in time");
    assert!(largest < 600, "the head has {largest} bytes");
    let runs = joined.iter().map(|from| {
        let of = |name| {
            from.iter()
                .find(|(node, _)| Some(*node) == graph.find(name))
        };
        let run = |name| of(name).expect("it was taken").1.0;
        (run("l"), run("c"))
    });
    let expected = (0..ROUNDS).map(|at| (3 + at, 3 + ROUNDS + at));
    assert!(runs.eq(expected), "each meets its own");
}
