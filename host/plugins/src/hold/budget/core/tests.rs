//! Random histories, and properties that hold in all of them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use windlass_test_seeds::Seeds;

use super::*;

const TOTAL: u64 = 1_000;

/// A holder: its flow, and its bytes of the general part.
#[derive(Clone)]
struct Holder {
    flow: Arc<Flow>,
    held: u64,
}

/// A core, with its holders and waiting calls.
struct World {
    core: Core,
    /// Two for each plugin.
    flows: Vec<Arc<Flow>>,
    holders: Vec<(u64, Holder)>,
    waiting: BTreeMap<Ticket, Holder>,
    next: u64,
    granted: Vec<Ticket>,
}

#[derive(Clone, Debug)]
enum Op {
    /// A flow asks.
    Ask(usize, u64),
    AskNow(usize, u64),
    Grow(usize, u64),
    End(usize),
    Cancel(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..8_usize, 0..1_200_u64).prop_map(|(flow, bytes)| Op::Ask(flow, bytes)),
        4 => (0..8_usize, 0..100_u64).prop_map(|(flow, bytes)| Op::Ask(flow, bytes)),
        2 => (any::<usize>(), 0..300_u64).prop_map(|(at, bytes)| Op::AskNow(at, bytes)),
        3 => (any::<usize>(), 0..300_u64).prop_map(|(at, bytes)| Op::Grow(at, bytes)),
        5 => any::<usize>().prop_map(Op::End),
        1 => any::<usize>().prop_map(Op::Cancel),
    ]
}

impl World {
    fn new() -> Self {
        Self {
            core: Core::new(TOTAL, 200),
            flows: (0..20).map(|flow| Flow::new(flow / 2, 0)).collect(),
            holders: Vec::new(),
            waiting: BTreeMap::new(),
            next: 0,
            granted: Vec::new(),
        }
    }

    fn hold(&mut self, holder: Holder) {
        self.holders.push((self.next, holder));
        self.next += 1;
    }

    fn grant(&mut self, tickets: Vec<Ticket>) {
        for ticket in tickets {
            let holder = self.waiting.remove(&ticket).expect("it waits");
            self.hold(holder);
            self.granted.push(ticket);
        }
    }

    fn ask(&mut self, flow: usize, bytes: u64) -> Reservation {
        let flow = Arc::clone(&self.flows[flow]);
        let held = bytes.min(self.core.most());
        let asked = self.core.ask(&flow, bytes);
        match asked {
            Reservation::Granted => {
                self.hold(Holder { flow, held });
                let granted = self.core.pump();
                self.grant(granted);
            }
            Reservation::Waits(ticket) => {
                self.waiting.insert(ticket, Holder { flow, held });
            }
        }
        asked
    }

    /// A call ends, after one unit of time.
    fn end(&mut self, at: usize) {
        let (id, Holder { flow, held }) = self.holders.swap_remove(at);
        self.core.repay(id);
        self.core.charge(&flow, held);
        flow.less(held);
        let granted = self.core.give_back(flow.no, held);
        self.grant(granted);
    }

    fn apply(&mut self, op: &Op) {
        let holders = self.holders.len();
        match *op {
            Op::Ask(no, bytes) => {
                self.ask(no, bytes);
            }
            Op::AskNow(at, bytes) if holders > 0 => {
                let (_, holder) = &mut self.holders[at % holders];
                if self.core.ask_now(&holder.flow, holder.held, bytes) {
                    holder.held += bytes;
                    let granted = self.core.pump();
                    self.grant(granted);
                }
            }
            Op::Grow(at, bytes) if holders > 0 => {
                let (id, holder) = &mut self.holders[at % holders];
                if self.core.grow(&holder.flow, holder.held, bytes) {
                    holder.held += bytes;
                    let granted = self.core.pump();
                    self.grant(granted);
                } else {
                    self.core.borrow(*id, bytes);
                }
            }
            Op::End(at) if holders > 0 => self.end(at % holders),
            Op::Cancel(at) if !self.waiting.is_empty() => {
                let ticket = *self.waiting.keys().nth(at % self.waiting.len()).unwrap();
                let holder = self.waiting.remove(&ticket).unwrap();
                let (waited, granted) = self.core.cancel(&holder.flow, ticket);
                assert!(waited);
                self.grant(granted);
            }
            _ => {}
        }
        self.check();
    }

    fn check(&self) {
        let held: u64 = self.holders.iter().map(|(_, holder)| holder.held).sum();
        assert_eq!(self.core.held - held, 0, "what is held adds up");
        assert!(self.core.held() <= TOTAL, "never over the total");
        for no in 0..4 {
            let mut own: Vec<u64> = self
                .holders
                .iter()
                .filter(|(_, h)| h.flow.no == no)
                .map(|(_, h)| h.held)
                .collect();
            own.retain(|held| *held > 0);
            let sum: u64 = own.iter().sum();
            assert!(
                sum <= self.core.share() || own.len() == 1,
                "one plugin has more than its share"
            );
        }
        for flow in &self.flows {
            let own = self
                .holders
                .iter()
                .filter(|(_, h)| Arc::ptr_eq(&h.flow, flow));
            assert_eq!(flow.running(), own.map(|(_, h)| h.held).sum::<u64>());
        }
        let lines = self.core.lines.iter();
        let waiting: usize = lines.map(|line| line.calls.len()).sum();
        assert_eq!(waiting, self.waiting.len());
        assert_eq!(self.core.way(None).open, None, "a call waits that could go");
        // No reservation waits that could be granted.
        assert_ne!(
            self.core.head_shortfall(),
            Some(0),
            "a waiting call asks for something"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(Seeds::USUAL.cases()))]

    /// Waiting calls only wait for holders that do not wait.
    #[test]
    fn calls_stay_within_the_total_and_all_come_through(ops in prop::collection::vec(op(), 1..200)) {
        let mut world = World::new();
        for op in &ops {
            world.apply(op);
        }
        while !world.waiting.is_empty() {
            prop_assert!(!world.holders.is_empty(), "calls wait although no memory is held");
            world.end(0);
            world.check();
        }
        while !world.holders.is_empty() {
            world.end(0);
        }
        prop_assert_eq!(world.core.held(), 0);
        prop_assert!(world.core.plugins.is_empty() && world.core.lines.is_empty());
    }

    /// However much it needs, and however many small calls keep coming.
    #[test]
    fn a_waiting_call_is_not_overtaken_for_ever(
        large in 1..1_200_u64,
        small in prop::collection::vec((0..8_usize, 1..100_u64), 400),
    ) {
        let mut world = World::new();
        for (flow, bytes) in &small[..40] {
            world.ask(*flow, *bytes);
        }
        let Reservation::Waits(ticket) = world.ask(8, large) else { return Ok(()) };
        for (flow, bytes) in &small[40..] {
            world.ask(*flow, *bytes);
            if !world.holders.is_empty() {
                world.end(0);
            }
        }
        prop_assert!(world.granted.contains(&ticket));
    }
}

#[test]
fn flows_take_turns_and_those_that_hold_little_go_first() {
    let mut world = World::new();
    let most = world.core.most();
    world.ask(18, most);
    let crowd: Vec<_> = (0..10).map(|_| world.ask(2, 300)).collect();
    let single = world.ask(4, 300);
    let small = world.ask(6, 50);
    world.end(0);
    let ticket = |of: Reservation| match of {
        Reservation::Waits(ticket) => ticket,
        Reservation::Granted => panic!("it waits"),
    };
    assert_eq!(
        world.granted,
        [ticket(small), ticket(crowd[0]), ticket(single)]
    );
}

#[test]
fn the_flow_goes_first_that_has_used_the_least() {
    let mut world = World::new();
    let most = world.core.most();
    world.ask(0, most);
    world.end(0);
    world.ask(18, most);
    let used = world.ask(0, 10);
    let unused = world.ask(2, 700);
    world.end(0);
    assert_eq!(Reservation::Waits(world.granted[0]), unused, "it is larger");
    assert_eq!(Reservation::Waits(world.granted[1]), used);
}

#[test]
fn long_calls_of_one_flow_leave_room_for_another_flow_of_the_plugin() {
    let mut world = World::new();
    while world.ask(0, 90) == Reservation::Granted {}
    let held = world.core.held();
    assert!(held < world.core.share() - 90, "{held}");
    // None of them ends, and others of the flow wait.
    for _ in 0..3 {
        assert_eq!(world.ask(1, 10), Reservation::Granted);
    }
    assert!(!world.core.ask_now(&world.flows[0], 0, 1), "some wait");
    // Neither does the growth of a call take the rest.
    let flow = Arc::clone(&world.flows[0]);
    assert!(!world.core.grow(&flow, 90, 90));
    // A call that is alone may have all.
    assert_eq!(
        world.ask(18, world.core.most() - held - 30),
        Reservation::Granted
    );
}

#[test]
fn a_plugin_leaves_a_fourth_to_others() {
    let mut world = World::new();
    let share = world.core.share();
    assert_eq!(world.ask(2, share), Reservation::Granted);
    assert!(matches!(world.ask(2, 1), Reservation::Waits(_)));
    assert!(matches!(world.ask(3, 1), Reservation::Waits(_)));
    // It waits for its own share, and does not block others.
    assert_eq!(world.ask(4, 10), Reservation::Granted);
    assert!(world.core.is_wanted(1) && !world.core.is_wanted(2));
}

#[test]
fn one_at_a_time_draws_on_the_reserve() {
    let mut core = Core::new(TOTAL, 200);
    let flow = Flow::new(1, 0);
    assert_eq!(core.ask(&flow, core.most()), Reservation::Granted);
    assert!(!core.grow(&flow, core.most(), 1));
    assert!(core.borrow(7, 150) && core.borrow(7, 50));
    assert!(!core.borrow(7, 1) && !core.borrow(8, 1));
    assert_eq!(core.held(), TOTAL);
    core.repay(7);
    assert!(core.borrow(8, 1));
}
