//! The order of execution: a graph, the events of a run, and the resulting commands, in the
//! language of [`crate::player`].

use crate::player::check;

#[test]
fn a_chain_runs_to_its_end() {
    check(
        "a -> b
         b -> c",
        "begin => run a();
         a => run b(a); [running]
         b => run c(b); [running]
         c => finish; [completed]
         c => stale",
    );
}

#[test]
fn an_untaken_branch_does_not_block_the_join() {
    check(
        "a -> b: vars.x
         a -> c: else
         b -> d
         c -> d",
        "begin => run a();
         a x=true => run b(a); skip c; [running]
         b => run d(b); [running]
         d => finish; [completed]",
    );
}

#[test]
fn all_active_waits_for_every_edge_and_gathers_those_taken() {
    check(
        "a -> b
         a -> c
         a.other -> d
         b -> j
         c -> j
         d -> j",
        "begin => run a();
         a => run b(a); run c(a); skip d; [running]
         c => [running]
         b => run j(b c); [running]
         j => finish; [completed]",
    );
}

#[test]
fn all_skips_unless_every_edge_is_taken() {
    check(
        "j: join all
         a -> b
         a -> c
         b.yes -> j
         c -> j
         j -> k",
        "begin => run a();
         a => run b(a); run c(a); [running]
         b:no => [running]
         c => skip j; skip k; finish; [completed]",
    );
}

#[test]
fn any_runs_once_a_round() {
    check(
        "j: join any
         a -> b
         a -> c
         b -> j
         c -> j",
        "begin => run a();
         a => run b(a); run c(a); [running]
         c => run j(c); [running]
         b => [running]
         j => finish; [completed]",
    );
}

#[test]
fn the_order_of_edges_does_not_change_the_branches_that_a_race_cancels() {
    let edges = ["a -> r", "a -> b"];
    for order in [[0, 1], [1, 0]] {
        let written = order.map(|at| edges[at]).join("\n         ");
        check(
            &format!(
                "r: join race
         {written}
         b -> r"
            ),
            "begin => run a();
         a => run b(a); cancel b; run r(a); [running]
         r => finish; [completed]",
        );
    }
}

#[test]
fn a_race_cancels_the_branches_that_could_still_lead_to_it() {
    check(
        "j: join race
         a -> b
         a -> c
         a -> x
         b -> d
         c -> j
         d -> j
         d -> y
         x -> y",
        "begin => run a();
         a => run b(a); run c(a); run x(a); [running]
         c => cancel b; run j(c); skip d; [running]
         x => run y(x); [running]
         y => [running]
         j => finish; [completed]",
    );
}

#[test]
fn a_race_cancels_nothing_behind_a_join_that_has_run() {
    check(
        "m: join any
         j: join race
         a -> b
         a -> c
         a -> d
         b -> m
         c -> m
         m -> j
         d -> j",
        "begin => run a();
         a => run b(a); run c(a); run d(a); [running]
         b => run m(b); [running]
         m => cancel d; run j(m); [running]
         j => [running]
         c => finish; [completed]",
    );
    check(
        "m: join 2
         j: join race
         a -> b
         a -> c
         a -> d
         b -> m
         c -> m
         d -> w
         w -> m
         m -> n
         n -> j",
        "begin => run a();
         a => run b(a); run c(a); run d(a); [running]
         b => [running]
         c => run m(b c); [running]
         m => run n(m); [running]
         n => run j(n); [running]
         d => run w(d); [running]
         j => [running]
         w => finish; [completed]",
    );
}

/// A late decision at `m` still reaches the race through `k`.
#[test]
fn a_race_cancels_a_decision_that_reaches_it_by_another_way() {
    check(
        "m: join any
         j: join race
         a -> b
         a -> c
         b -> m
         c -> m
         m -> j
         c.no -> k
         k -> j",
        "begin => run a();
         a => run b(a); run c(a); [running]
         b => run m(b); [running]
         m => cancel c; run j(m); skip k; [running]
         j => finish; [completed]",
    );
}

#[test]
fn a_race_cancels_nothing_behind_a_join_that_misses_an_edge() {
    check(
        "m: join all
         j: join race
         a -> b
         a -> c
         a -> d
         b.yes -> m
         c -> m
         m -> j
         d -> j",
        "begin => run a();
         a => run b(a); run c(a); run d(a); [running]
         b => [running]
         d => run j(d); [running]
         c => skip m; [running]
         j => finish; [completed]",
    );
}

/// `m` absorbs one decision of `w`, but two may come: the second would reach the race.
#[test]
fn a_race_cancels_all_decisions_of_which_one_gets_through() {
    check(
        "w: join each
         m: join any
         j: join race
         a -> b
         a -> c
         a -> d
         b -> w
         c -> w
         w -> m
         d -> m
         a -> e
         m -> j
         e -> j",
        "begin => run a();
         a => run b(a); run c(a); run d(a); run e(a); [running]
         d => run m(d); [running]
         m => cancel b; cancel c; cancel e; run j(m); skip w; [running]
         j => finish; [completed]",
    );
    check(
        "m: join any
         j: join race
         a -> b
         a -> d
         b -> b: vars.x
         b -> m: vars.y
         d -> m
         a -> e
         m -> j
         e -> j",
        "begin => run a();
         a => run b(a); run d(a); run e(a); [running]
         d => run m(d); [running]
         m => cancel b; cancel e; run j(m); [running]
         j => finish; [completed]",
    );
}

#[test]
fn a_race_inside_a_race_leaves_branches_that_cannot_reach_the_outer_one() {
    check(
        "m: join any
         k: join race
         j: join race
         a -> b
         a -> c
         a -> d
         a -> e
         b -> m
         c -> m
         m -> k
         d -> k
         k -> j
         e -> j",
        "begin => run a();
         a => run b(a); run c(a); run d(a); run e(a); [running]
         b => run m(b); [running]
         m => cancel d; run k(m); [running]
         k => cancel e; run j(k); [running]
         c => [running]
         j => finish; [completed]",
    );
}

/// The joins of each round of a loop decide by themselves.
#[test]
fn a_race_in_a_loop_leaves_decisions_that_its_round_absorbs() {
    check(
        "m: join any
         j: join race
         a -> b
         a -> c
         a -> d
         b -> m
         c -> m
         m -> j
         d -> j
         s -> a
         j -> a: vars.again",
        "begin => run s();
         s => run a(s); [running]
         a => run b(a); run c(a); run d(a); [running]
         b => run m(b); [running]
         m => cancel d; run j(m); [running]
         j again=true => run a(j); [running]
         c => [running]
         a => run b(a); run c(a); run d(a); [running]
         d => cancel b; cancel c; run j(d); skip m; [running]
         j again=false => finish; [completed]",
    );
}

#[test]
fn count_runs_at_the_nth_and_skips_once_that_cannot_be() {
    let graph = "j: join 2
         a -> b
         a -> c
         a -> d
         b.yes -> j
         c.yes -> j
         d.yes -> j
         j -> k";
    check(
        graph,
        "begin => run a();
         a => run b(a); run c(a); run d(a); [running]
         b:yes => [running]
         d:yes => run j(b d); [running]
         c:yes => [running]
         j => run k(j); [running]
         k => finish; [completed]",
    );
    check(
        graph,
        "begin => run a();
         a => run b(a); run c(a); run d(a); [running]
         b:no => [running]
         d:no => skip j; skip k; [running]
         c:yes => finish; [completed]",
    );
}

#[test]
fn each_runs_once_for_every_arrival() {
    check(
        "j: join each
         a -> b
         a -> c
         a.no -> d
         b -> j
         c -> j
         d -> j",
        "begin => run a();
         a => run b(a); run c(a); skip d; [running]
         b => run j(b); [running]
         j => [running]
         c => run j(c); [running]
         j => finish; [completed]",
    );
    check(
        "j: join each
         a.x -> j
         a.y -> j
         j -> k",
        "begin => run a();
         a => skip j; skip k; finish; [completed]",
    );
}

#[test]
fn first_takes_only_the_first_true_edge() {
    check(
        "a: first
         a -> b: vars.x
         a -> c: vars.y
         a -> d: else",
        "begin => run a();
         a x=false y=true => skip b; run c(a); skip d; [running]
         c => finish; [completed]",
    );
    check(
        "a: first
         a -> b: vars.x
         a -> c: vars.y
         a -> d: else",
        "begin => run a();
         a x=true y=true => run b(a); skip c; skip d; [running]
         b => finish; [completed]",
    );
}

#[test]
fn else_looks_at_its_own_port_only() {
    check(
        "a.p -> b: vars.x
         a.p -> c: else
         a -> d",
        "begin => run a();
         a:p,done x=false => skip b; run c(a); run d(a); [running]
         c => [running]
         d => finish; [completed]",
    );
}

#[test]
fn an_edge_from_every_port_is_taken_once_and_never_for_a_routed_failure() {
    check(
        "a.* -> b
         a.p -> c
         a -> d",
        "begin => run a();
         a:p,q => run b(a); run c(a); skip d; [running]
         b => [running]
         c => finish; [completed]",
    );
    check(
        "a.* -> b: vars.x
         a.* -> c: else
         a.p -> d",
        "begin => run a();
         a x=false => skip b; run c(a); skip d; [running]
         c => finish; [completed]",
    );
}

#[test]
fn a_loop_goes_round_and_its_exit_stays_open_until_it_has_emptied() {
    check(
        "a -> b
         b -> c
         c.again -> b
         c.out -> d
         a -> j
         d -> j",
        "begin => run a();
         a => run b(a); [running]
         b => run c(b); [running]
         c:again => run b(c); [running]
         b => run c(b); [running]
         c:out => run d(c); [running]
         d => run j(a d); [running]
         j => finish; [completed]",
    );
    check(
        "a -> b
         b -> c
         c.again -> b
         c.out -> d
         a -> j
         d -> j",
        "begin => run a();
         a => run b(a); [running]
         b => run c(b); [running]
         c:nothing => skip d; run j(a); [running]
         j => finish; [completed]",
    );
}

#[test]
fn a_skipped_loop_leaves_dead_exits() {
    check(
        "a.in -> b
         b -> c
         c.again -> b
         c -> d
         a -> j
         d -> j",
        "begin => run a();
         a => skip b; skip c; skip d; run j(a); [running]
         j => finish; [completed]",
    );
}

#[test]
fn joins_inside_a_loop_work_in_every_round() {
    check(
        "h -> x
         h -> y
         x -> j
         y.yes -> j
         j.again -> h
         j.out -> z
         s -> h",
        "begin => run s();
         s => run h(s); [running]
         h => run x(h); run y(h); [running]
         x => [running]
         y:yes => run j(x y); [running]
         j:again => run h(j); [running]
         h => run x(h); run y(h); [running]
         y:no => [running]
         x => run j(x); [running]
         j:out => run z(j); [running]
         z => finish; [completed]",
    );
}

#[test]
fn a_late_arrival_belongs_to_its_own_round() {
    check(
        "j: join any
         s -> h
         h -> x
         h -> y
         x -> j
         y -> j
         j.again -> h
         j.out -> z",
        "begin => run s();
         s => run h(s); [running]
         h => run x(h); run y(h); [running]
         x => run j(x); [running]
         j:again => run h(j); [running]
         h => run x(h); run y(h); [running]
         y => [running]
         y => run j(y); [running]
         x => [running]
         j:out => run z(j); [running]
         z => finish; [completed]",
    );
}

#[test]
fn nested_loops_end_inner_first() {
    check(
        "s -> o
         o -> i
         i.again -> i
         i.next -> p
         p.again -> o
         p.out -> e
         i.break -> e
         e: join each",
        "begin => run s();
         s => run o(s); [running]
         o => run i(o); [running]
         i:again => run i(i); [running]
         i:next => run p(i); [running]
         p:again => run o(p); [running]
         o => run i(o); [running]
         i:break => run e(i); skip p; [running]
         e => finish; [completed]",
    );
    check(
        "s -> o
         o -> i
         i.again -> i
         i.next -> p
         p.again -> o
         p.out -> e
         i.break -> e",
        "begin => run s();
         s => run o(s); [running]
         o => run i(o); [running]
         i:none => skip p; skip e; finish; [completed]",
    );
}

#[test]
fn a_cycle_with_several_entries_runs_as_one_loop() {
    check(
        "b: join any
         s -> a
         s -> t
         t -> b
         a -> b
         b.again -> a
         b.out -> z
         s -> j
         z -> j",
        "begin => run s();
         s => run a(s); run t(s); [running]
         a => run b(a); [running]
         b:again => run a(b); [running]
         a => run b(a); [running]
         b:stop => [running]
         t => skip z; run j(s); [running]
         j => finish; [completed]",
    );
}

#[test]
fn a_start_node_begins_and_other_roots_are_passed_over() {
    check(
        "b: start
         a -> b
         b -> c
         d -> c",
        "begin => run b(); skip a; skip d;
         b => run c(b); [running]
         c => finish; [completed]",
    );
}

#[test]
fn a_condition_that_cannot_be_evaluated_fails_its_node() {
    check(
        "a -> b: vars.missing",
        "begin => run a();
         a => refuted WL-R001; incident a WL-R001; finish WL-R001; [faulted]",
    );
    check(
        "a: route
         a -> b: vars.missing
         a.error -> c",
        "begin => run a();
         a => refuted WL-R001; incident a WL-R001; skip b; run c(a); [running]
         c => finish; [completed]",
    );
}

#[test]
fn a_run_whose_nodes_all_wait_is_suspended() {
    check(
        "a -> b
         c: wait",
        "begin => run a(); run c();
         c@500 => timer c@500 1/1; [running]
         a => run b(a); [running]
         b~20 => loop b@20 1/1; [suspended]
         b~0 => run b(a)#2; [running]",
    );
    check(
        "a: wait",
        "begin => run a();
         a?40 => start a@40 1/0; [suspended]
         a@500 => timer a@500 1/1; [suspended]
         a => finish; [completed]",
    );
}

#[test]
fn an_end_that_terminates_cancels_the_rest() {
    check(
        "a -> b
         a -> e
         e: terminate",
        "begin => run a();
         a => run b(a); run e(a); [running]
         e.. => cancel b; finish; [completed]",
    );
    check(
        "a -> b
         a -> e
         e: end",
        "begin => run a();
         a => run b(a); run e(a); [running]
         e. => [running]
         b => finish with 2; [completed]",
    );
}

#[test]
fn a_run_of_which_nothing_can_be_kept_is_faulted_and_compensated() {
    check(
        "a -> b
         a -> c",
        "begin => run a();
         a => run b(a); run c(a); [running]
         refused => cancel b; cancel c; finish WL-T002; [faulted]
         refused => stale",
    );
    check(
        "u:
         a: undo u
         a -> b",
        "begin => run a();
         a => run b(a); [running]
         refused => cancel b; run u(a); [running]
         refused => cancel u; finish WL-T002; [faulted]",
    );
}

#[test]
fn a_run_can_be_cancelled_or_time_out() {
    check(
        "options: timeout 1000
         a -> b
         b -> c",
        "begin => run a();
         timeout => stale
         a => run b(a); timeout@1000; [running]
         b => run c(b); [running]
         timeout => cancel c; finish WL-R003; [faulted]",
    );
    check(
        "a -> b",
        "begin => run a();
         a => run b(a); [running]
         cancel => cancel b; finish; [cancelled]
         b => stale
         cancel => stale",
    );
}

#[test]
fn a_half_decided_join_faults_the_run() {
    check(
        "m: join each
         a -> m
         b -> m
         m -> j
         c -> j",
        "begin => run a(); run b(); run c();
         a => run m(a); [running]
         m => [running]
         b => run m(b); [running]
         m => [running]
         c => run j(c m); [running]
         j => finish WL-R004; [faulted]",
    );
}
