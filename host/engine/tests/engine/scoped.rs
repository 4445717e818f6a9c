//! For-each: scopes, their order, and how they end.

use windlass_engine::{Command, Event, Open, Refused, begin};
use windlass_model::{ExecutionNo, Seq, TriggerNo};

use crate::kit::{self, Stored, Turn};
use crate::player::check;

#[test]
fn items_are_worked_on_a_few_at_a_time() {
    check(
        "f: each 2
         f| x -> y
         f -> b",
        "begin => run f();
         f#3 => open 1[0]; run x(); open 2[1]; run x(); [running]
         x => run y(x); [running]
         x => run y(x); [running]
         y => emit 1[0]; close 1; open 3[2]; run x(); [running]
         x => run y(x); [running]
         y => emit 2[1]; close 2; [running]
         y => emit 3[2]; close 3; run f()#1 of 3; [running]
         f => drop 0; run b(f); [running]
         b => finish; [completed]",
    );
}

#[test]
fn an_empty_list_is_collected_at_once() {
    check(
        "f: each 2
         f| x -> y
         f -> b",
        "begin => run f();
         f#0 => run f()#1 of 0; [running]
         f => drop 0; run b(f); [running]",
    );
}

#[test]
fn joins_loops_and_skips_of_an_item_are_its_own() {
    check(
        "f: each 2
         f| x -> y
         f| x: start
         f| x -> z
         f| y -> j
         f| z -> j
         f| j.again -> x
         f| j.out -> e",
        "begin => run f();
         f#2 => open 1[0]; run x(); open 2[1]; run x(); [running]
         x => run y(x); run z(x); [running]
         y => [running]
         x => run y(x); run z(x); [running]
         y => [running]
         z => run j(y z); [running]
         j:again => run x(j); [running]
         x => run y(x); run z(x); [running]
         z => run j(y z); [running]
         j:none => skip e; emit 2[1]; close 2; [running]",
    );
}

#[test]
fn a_failed_item_fails_the_for_each_under_its_own_policy() {
    check(
        "f: each 2, route
         f| x -> y
         f -> b
         f.error -> c",
        "begin => run f();
         f#9 => open 1[0]; run x(); open 2[1]; run x(); [running]
         x!trap => incident x WL-T001; close 1; cancel x; close 2; run f()#1 of a fault; [running]
         f!trap => drop 0; incident f WL-T001; skip b; run c(f); [running]
         c => finish; [completed]",
    );
    check(
        "f: each 2, retry 2 10 fixed
         f| x -> y",
        "begin => run f();
         f#1 => open 1[0]; run x(); [running]
         x!retryable => incident x WL-T001; close 1; run f()#1 of a fault; [running]
         f!retryable => drop 0; retry f@10 2/1; [running]
         f#1 => open 2[0]; run x(); [running]
         x => run y(x); [running]
         y => emit 2[0]; close 2; run f()#2 of 1; [running]
         f => drop 3; finish; [completed]",
    );
}

#[test]
fn a_failed_item_need_not_stop_the_others() {
    check(
        "f: each 1 continue
         f| x -> y",
        "begin => run f();
         f#3 => open 1[0]; run x(); [running]
         x!trap => incident x WL-T001; close 1; open 2[1]; run x(); [running]
         x => run y(x); [running]
         y broken=true => emit 2[1]; incident f WL-T002; close 2; open 3[2]; run x(); [running]
         x => run y(x); [running]
         y broken=false => emit 3[2]; close 3; run f()#1 of 3; [running]
         f => drop 0; finish; [completed]",
    );
}

#[test]
fn for_each_nests() {
    check(
        "f: each 2
         f| g: each 1
         f| x -> g
         f| g| y -> z",
        "begin => run f();
         f#2 => open 1[0]; run x(); open 2[1]; run x(); [running]
         x => run g(x); [running]
         g#2 => open 3[0]; run y(); [running]
         y => run z(y); [running]
         z => emit 3[0]; close 3; open 4[1]; run y(); [running]
         x => run g(x); [running]
         g#1 => open 5[0]; run y(); [running]
         cancel => cancel y; cancel y; close 4; drop 3; cancel g; close 1; close 5; drop 7; cancel g; close 2; drop 0; cancel f; finish; [cancelled]",
    );
}

#[test]
fn a_race_closes_the_scopes_of_the_losing_branches() {
    check(
        "j: join race
         a -> f
         a -> b
         f: each 1
         f| x -> y
         f -> j
         b -> j",
        "begin => run a();
         a => run f(a); run b(a); [running]
         f#2 => open 1[0]; run x(); [running]
         b => cancel x; close 1; drop 1; cancel f; run j(b); [running]
         j => finish; [completed]",
    );
}

#[test]
fn a_race_inside_an_item_leaves_decisions_that_its_joins_absorb() {
    check(
        "f: each 2
         f| m: join any
         f| j: join race
         f| a -> b
         f| a -> c
         f| a -> d
         f| b -> m
         f| c -> m
         f| m -> j
         f| d -> j",
        "begin => run f();
         f#1 => open 1[0]; run a(); [running]
         a => run b(a); run c(a); run d(a); [running]
         b => run m(b); [running]
         m => cancel d; run j(m); [running]
         j => [running]
         c => emit 1[0]; close 1; run f()#1 of 1; [running]
         f => drop 0; finish; [completed]",
    );
}

#[test]
fn a_race_inside_an_item_cancels_nothing_of_another() {
    check(
        "f: each 2
         f| j: join race
         f| a -> j
         f| b -> j",
        "begin => run f();
         f#2 => open 1[0]; run a(); run b(); open 2[1]; run a(); run b(); [running]
         a => cancel b; run j(a); [running]
         b => cancel a; run j(b); [running]
         j => emit 1[0]; close 1; [running]
         j => emit 2[1]; close 2; run f()#1 of 2; [running]",
    );
}

#[test]
fn a_for_each_can_be_cancelled_and_so_can_the_last_of_an_item() {
    check(
        "f: each 2
         f| x -> y
         f -> b",
        "begin => run f();
         f#2 => open 1[0]; run x(); open 2[1]; run x(); [running]
         x- => cancel x; skip y; emit 1[0]; close 1; [running]
         f- => cancel x; close 2; drop 0; cancel f; skip b; finish; [completed]",
    );
}

#[test]
fn an_end_that_terminates_closes_every_scope() {
    check(
        "f: each 2
         f| x -> e
         f| e: terminate
         f -> b",
        "begin => run f();
         f#5 => open 1[0]; run x(); open 2[1]; run x(); [running]
         x => run e(x); [running]
         e.. => cancel x; close 1; close 2; drop 0; cancel f; finish; [completed]",
    );
}

#[test]
fn a_critical_section_holds_over_all_items() {
    check(
        "f: each 3
         f| x: mutex m
         b: mutex m",
        "begin => run b(); run f();
         f#3 => open 1[0]; open 2[1]; open 3[2]; [running]
         b => run x(); [running]
         x!trap => incident x WL-T001; close 1; cancel x; close 2; cancel x; close 3; run f()#1 of a fault; [running]
         f!trap => drop 1; incident f WL-T001; finish WL-T001; [faulted]",
    );
}

#[test]
fn effects_of_items_are_compensated() {
    check(
        "u:
         f: each 1
         f| x: undo u
         f| x -> y
         f -> b",
        "begin => run f();
         f#2 => open 1[0]; run x(); [running]
         x => run y(x); [running]
         y => emit 1[0]; close 1; open 2[1]; run x(); [running]
         x => run y(x); [running]
         cancel => cancel y; close 2; drop 0; cancel f; run u(x); [running]
         u => run u(x); [running]
         u => finish; [cancelled]",
    );
}

/// Runs a for-each over `items` items, of three nodes each, to its end. Returns the bytes that a
/// store would have written, the number of commands, and the number of rows that the largest step
/// changed.
fn cost(items: u32) -> (usize, usize, usize) {
    let graph = kit::graph(
        "f: each 16
         f| j: with {{nodes.y.output}}
         f| x -> y
         f| x -> z
         f| y -> j
         f| z -> j
         f -> b",
    );
    let (mut state, mut commands) = begin(&graph, 0);
    let mut stored = Stored::default();
    let values = kit::values(&[].into());
    let turn = Turn {
        now_ms: 0,
        random: 0,
        values: &values,
    };
    let (mut all, mut busiest) = (commands.len(), 0);
    let mut ready: std::collections::VecDeque<Open> = [].into();
    let mut run = 5 << 32;
    loop {
        ready.extend(commands.into_iter().filter_map(|command| match command {
            Command::Run(open) => Some(open),
            _ => None,
        }));
        let Some(open) = ready.pop_front() else { break };
        run += 1;
        let (seq, run) = (open.seq, ExecutionNo(run));
        let is_list = graph.node(open.node).is_some_and(|plan| plan.name == "f");
        let event = if is_list && open.collect.is_none() {
            let count = items;
            Event::Listed { seq, run, count }
        } else {
            let (ports, end) = (Vec::new(), None);
            Event::Done {
                seq,
                run,
                ports,
                end,
            }
        };
        let step = kit::apply_whole(&graph, &mut state, event, turn, &|_| false);
        commands = step.expect("it is open");
        all += commands.len();
        let before = stored.rows;
        stored.keep(&mut state, &commands);
        busiest = busiest.max(stored.rows - before);
    }
    assert_eq!(state.status, windlass_model::Status::Completed);
    (stored.written, all, busiest)
}

#[test]
fn the_cost_of_an_item_does_not_grow_with_the_list() {
    let (small, large) = (cost(1_000), cost(10_000));
    // Numbers grow by a digit, and their encoded size grows with them.
    assert!(large.0 < small.0 * 12, "bytes: {small:?} {large:?}");
    assert!(large.1 < small.1 * 11, "commands: {small:?} {large:?}");
    // The first step opens as many scopes as may be open; every other step opens at most one.
    assert!(large.2 <= 16, "rows: {small:?} {large:?}");
}

#[test]
fn triggers_from_outside_are_let_in_where_they_can_run() {
    let graph = kit::graph(
        "a -> b
         b: mutex m
         c: mutex m
         f| x -> y",
    );
    let (mut state, commands) = begin(&graph, 0);
    let Some(Command::Run(entry)) = commands.first() else {
        panic!("an entry runs")
    };
    let external = |no: i64, name: &str| {
        let seq = Seq::external(TriggerNo(no));
        Open {
            seq,
            first: seq,
            node: graph.find(name).expect("a node"),
            ..entry.clone()
        }
    };
    assert_eq!(state.admit(&graph, external(1, "x")), Err(Refused::NoNode));
    // `c` is an entry and holds its critical section.
    assert_eq!(state.admit(&graph, external(2, "b")), Err(Refused::Busy));
    assert_eq!(state.admit(&graph, external(3, "a")), Ok(()));
    let values = kit::values(&[].into());
    let turn = Turn {
        now_ms: 0,
        random: 0,
        values: &values,
    };
    let mut apply = |event| kit::apply_whole(&graph, &mut state, event, turn, &|_| false);
    let seq = Seq::external(TriggerNo(3));
    let until_ms = 5;
    let put_off = apply(Event::Later { seq, until_ms }).expect("it was let in");
    let [Command::Schedule(open)] = &put_off[..] else {
        panic!("it is only put off: {put_off:?}")
    };
    assert_eq!((open.seq, open.due_ms), (seq, Some(5)));
    let commands = apply(Event::Cancel).expect("it goes on");
    let external = |command: &Command| matches!(command, Command::Cancel(open) if open.seq == seq);
    assert!(!commands.iter().any(external), "it keeps no run open");
    assert_eq!(state.admit(&graph, open.clone()), Err(Refused::Closed));
}
