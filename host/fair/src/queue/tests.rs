use proptest::prelude::*;
use windlass_test_seeds::Seeds;

use super::*;

type Test = Queue<&'static str, u8, u32>;

fn caller(priority: i32, flow: &'static str) -> Caller<&'static str, u8> {
    Caller {
        priority,
        flow,
        lane: 0,
    }
}

/// Takes all callers at this time; each gives its place back at once.
fn drain(queue: &mut Test, now_ms: u64) -> Vec<u32> {
    std::iter::from_fn(|| {
        let taken = queue.take(now_ms, |_, _| true, |_| false)?;
        queue.give_back(&taken.caller.flow, 0);
        Some(taken.item)
    })
    .collect()
}

#[test]
fn a_flow_is_served_in_the_order_of_arrival() {
    let mut queue = Test::default();
    for item in 0..5 {
        queue.push(caller(0, "a"), item, 0);
    }
    assert_eq!(drain(&mut queue, 1), [0, 1, 2, 3, 4]);
    assert!(queue.is_empty());
}

#[test]
fn a_higher_priority_goes_first() {
    let mut queue = Test::default();
    for item in 0..3 {
        queue.push(caller(0, "a"), item, 0);
    }
    queue.push(caller(100, "b"), 9, STEP_MS);
    assert_eq!(drain(&mut queue, STEP_MS), [9, 0, 1, 2]);
}

#[test]
fn a_flow_with_a_backlog_does_not_delay_another() {
    let mut queue = Test::default();
    for item in 0..600 {
        queue.push(caller(0, "slow"), item, 0);
    }
    for _ in 0..8 {
        queue.take(0, |_, _| true, |_| false).unwrap();
    }
    queue.push(caller(0, "quick"), 1_000, 60_000);
    let next = queue.take(60_000, |_, _| true, |_| false).unwrap();
    assert_eq!(next.item, 1_000, "it holds no place");
    assert_eq!(next.caller.flow, "quick");
}

#[test]
fn flows_with_backlogs_hold_equally_many_places() {
    let mut queue = Test::default();
    for item in 0..300 {
        queue.push(caller(0, "a"), item, 0);
    }
    for item in 0..300 {
        queue.push(caller(0, "b"), item, 0);
        queue.push(caller(0, "c"), item, 0);
    }
    for _ in 0..96 {
        queue.take(0, |_, _| true, |_| false).unwrap();
    }
    assert_eq!(["a", "b", "c"].map(|flow| queue.shares[flow].held), [32; 3]);
    // A place that comes back goes to the flow that gave it.
    queue.give_back(&"b", 0);
    assert_eq!(
        queue.take(0, |_, _| true, |_| false).unwrap().caller.flow,
        "b"
    );
}

#[test]
fn a_low_priority_gets_a_place_under_a_load_of_high_priority() {
    let mut queue = Test::default();
    queue.push(caller(-100, "low"), 1, 0);
    let mut now_ms = 0;
    loop {
        queue.push(caller(100, "high"), 0, now_ms);
        let taken = queue.take(now_ms, |_, _| true, |_| false).unwrap();
        queue.give_back(&taken.caller.flow, 0);
        if taken.item == 1 {
            break;
        }
        now_ms += 7;
        assert!(now_ms <= 201 * STEP_MS + 7, "{now_ms}");
    }
    assert!(
        now_ms >= 200 * STEP_MS - 7,
        "it does not go first: {now_ms}"
    );
}

#[test]
fn callers_of_a_closed_lane_are_passed() {
    let mut queue = Test::default();
    for (item, lane) in [(0, 1), (1, 1), (2, 2), (3, 1)] {
        let caller = Caller {
            lane,
            ..caller(0, "a")
        };
        queue.push(caller, item, 0);
    }
    queue.push(caller(-1, "b"), 4, 0);
    let open = |_: &&str, lane: &u8| *lane != 1;
    assert_eq!(queue.take(0, open, |_| false).unwrap().item, 2);
    assert_eq!(queue.take(0, open, |_| false).unwrap().item, 4);
    assert!(queue.take(0, open, |_| false).is_none());
    assert_eq!(drain(&mut queue, 0), [0, 1, 3]);
}

#[test]
fn callers_that_are_gone_cost_their_level_and_their_flow_nothing() {
    let mut queue = Test::default();
    for item in 0..3 {
        queue.push(caller(0, "low"), item, 0);
    }
    queue.push(caller(0, "gone"), 9, 0);
    for item in 10..13 {
        queue.push(caller(100, "high"), item, 101 * STEP_MS);
    }
    assert_eq!(queue.len(), 7);
    let gone = |item: &u32| matches!(item, 0 | 1 | 9);
    let next = queue.take(101 * STEP_MS, |_, _| true, gone).unwrap();
    assert_eq!(next.item, 2, "the level is still old");
    assert_eq!(queue.len(), 3);
    let mut queue = Test::default();
    queue.push(caller(0, "gone"), 9, 0);
    assert!(queue.take(0, |_, _| true, gone).is_none());
    assert!(queue.is_empty() && queue.shares.is_empty());
}

#[test]
fn nothing_is_left_of_flows_that_are_idle() {
    let mut queue: Queue<u32, u8, ()> = Queue::default();
    for flow in 0..100_000 {
        let caller = Caller {
            priority: 0,
            flow,
            lane: 0,
        };
        queue.push(caller, (), 0);
        let taken = queue.take(0, |_, _| true, |_| false).unwrap();
        queue.give_back(&taken.caller.flow, 0);
    }
    assert!(queue.is_empty() && queue.shares.is_empty());
}

/// Gives turns of a single place, for as long as each flow uses one, and returns the order.
fn turns(queue: &mut Test, uses_us: impl Fn(&str) -> u64) -> Vec<&'static str> {
    std::iter::from_fn(|| {
        let flow = queue.take(0, |_, _| true, |_| false)?.caller.flow;
        queue.give_back(&flow, uses_us(flow));
        Some(flow)
    })
    .collect()
}

#[test]
fn short_turns_are_not_delayed_by_long_ones() {
    let mut queue = Test::default();
    for item in 0..600 {
        queue.push(caller(0, "slow"), item, 0);
    }
    let uses_us = |flow: &str| if flow == "slow" { 10_000 } else { 100 };
    for _ in 0..5 {
        let flow = queue.take(0, |_, _| true, |_| false).unwrap().caller.flow;
        queue.give_back(&flow, uses_us(flow));
    }
    for item in 0..50 {
        queue.push(caller(0, "quick"), item, 0);
    }
    let order = turns(&mut queue, uses_us);
    let last = order.iter().rposition(|flow| *flow == "quick").unwrap();
    let slow = order[..last].iter().filter(|flow| **flow == "slow").count();
    assert!(slow <= 1, "{slow} long turns before the last short one");
}

#[test]
fn the_time_of_a_flow_is_remembered_while_it_asks_again_for_each_turn() {
    let mut queue = Test::default();
    for item in 0..50 {
        queue.push(caller(0, "quick"), item, 0);
    }
    let mut slow = 0;
    for _ in 0..40 {
        if !queue.levels[&0].flows.contains_key("slow") {
            queue.push(caller(0, "slow"), 0, 0);
        }
        let flow = queue.take(0, |_, _| true, |_| false).unwrap().caller.flow;
        slow += u32::from(flow == "slow");
        queue.give_back(&flow, if flow == "slow" { 10_000 } else { 100 });
    }
    assert!(slow <= 1, "{slow}");
}

#[test]
fn a_flow_that_was_idle_has_saved_up_nothing() {
    let mut queue = Test::default();
    queue.push(caller(0, "late"), 0, 0);
    assert_eq!(turns(&mut queue, |_| 1), ["late"]);
    for item in 0..100 {
        queue.push(caller(0, "busy"), item, 0);
    }
    for _ in 0..50 {
        let flow = queue.take(0, |_, _| true, |_| false).unwrap().caller.flow;
        queue.give_back(&flow, 10_000);
    }
    for item in 0..50 {
        queue.push(caller(0, "late"), item, 0);
    }
    let order = turns(&mut queue, |_| 10_000);
    let late = order[..20].iter().filter(|flow| **flow == "late").count();
    assert!((9..=11).contains(&late), "{late} of 20");
}

#[test]
fn remembered_times_are_bounded() {
    let mut queue: Queue<u32, u8, ()> = Queue::default();
    for flow in 0..100_000 {
        queue.hold(flow);
        queue.give_back(&flow, u64::from(flow));
        assert!(queue.shares.len() <= IDLE + 1);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push {
        priority: i32,
        flow: u8,
        lane: u8,
    },
    Take {
        closed: u8,
    },
    GiveBack {
        at: prop::sample::Index,
        used_us: u64,
    },
    Pass {
        ms: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (-100..=100, 0..5_u8, 0..3_u8).prop_map(|(priority, flow, lane)| Step::Push {
            priority,
            flow,
            lane
        }),
        (0..4_u8).prop_map(|closed| Step::Take { closed }),
        (any::<prop::sample::Index>(), 0..3_u64)
            .prop_map(|(at, used_us)| Step::GiveBack { at, used_us }),
        (0..2_000_u64).prop_map(|ms| Step::Pass { ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(Seeds::USUAL.cases()))]

    /// The policy, written down as the sentences of `lib.rs` say it, chooses the same caller.
    #[test]
    fn the_queue_chooses_as_the_policy_says(steps in prop::collection::vec(step(), 1..200)) {
        let mut queue: Queue<u8, u8, usize> = Queue::default();
        // Priority, flow, lane and the time of arrival of each caller that waits, by its number.
        let mut waiting: BTreeMap<usize, (i32, u8, u8)> = BTreeMap::new();
        let mut since: BTreeMap<i32, u64> = BTreeMap::new();
        let mut served: BTreeMap<(i32, u8), u64> = BTreeMap::new();
        let mut used: BTreeMap<u8, u64> = BTreeMap::new();
        let mut floor_us = 0;
        let (mut holders, mut now_ms, mut number, mut turn) = (Vec::new(), 0, 0, 0);
        for step in steps {
            match step {
                Step::Push { priority, flow, lane } => {
                    let waits = |of: &dyn Fn(&(i32, u8, u8)) -> bool| waiting.values().any(of);
                    if !waits(&|it| it.0 == priority) {
                        since.insert(priority, now_ms);
                    }
                    if !waits(&|it| it.0 == priority && it.1 == flow) {
                        served.insert((priority, flow), turn);
                    }
                    waiting.insert(number, (priority, flow, lane));
                    queue.push(Caller { priority, flow, lane }, number, now_ms);
                    number += 1;
                }
                Step::Take { closed } => {
                    let held = |flow| holders.iter().filter(|it| **it == flow).count();
                    let used_us = |flow| used.get(&flow).copied().unwrap_or(0).max(floor_us);
                    let open = waiting.iter().filter(|(_, it)| it.2 != closed);
                    let best = open.max_by_key(|(number, (priority, flow, _))| {
                        let steps = (now_ms - since[priority]) / STEP_MS;
                        let effective = i64::from(*priority) + steps as i64;
                        let least = |it: u64| u64::MAX - it;
                        let share = (
                            least(held(*flow) as u64),
                            least(used_us(*flow)),
                            least(served[&(*priority, *flow)]),
                        );
                        (effective, *priority, share, least(**number as u64))
                    });
                    let best = best.map(|(number, it)| (*number, *it));
                    let taken = queue.take(now_ms, |_, lane| *lane != closed, |_| false);
                    prop_assert_eq!(taken.as_ref().map(|it| it.item), best.map(|it| it.0));
                    if let Some((number, (priority, flow, _))) = best {
                        floor_us = used_us(flow);
                        waiting.remove(&number);
                        turn += 1;
                        since.insert(priority, now_ms);
                        served.insert((priority, flow), turn);
                        holders.push(flow);
                    }
                }
                Step::GiveBack { at, used_us } => {
                    if !holders.is_empty() {
                        let flow = holders.swap_remove(at.index(holders.len()));
                        let before = used.get(&flow).copied().unwrap_or(0).max(floor_us);
                        used.insert(flow, before + used_us);
                        queue.give_back(&flow, used_us);
                    }
                }
                Step::Pass { ms } => now_ms += ms,
            }
        }
        prop_assert_eq!(queue.is_empty(), waiting.is_empty());
    }
}
