//! Random histories, and properties that hold in all of them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use windlass_test_seeds::Seeds;

use super::*;

const TOTAL: u64 = 1_000;

/// A holder: its plugin, and its bytes of the general part.
#[derive(Clone, Copy)]
struct Holder {
    no: PluginNo,
    held: u64,
}

/// A core, with its holders and waiting calls.
struct World {
    core: Core,
    holders: Vec<(u64, Holder)>,
    waiting: BTreeMap<Ticket, Holder>,
    next: u64,
    granted: Vec<Ticket>,
}

#[derive(Clone, Debug)]
enum Op {
    Ask(PluginNo, u64),
    AskNow(usize, u64),
    Grow(usize, u64),
    End(usize),
    Cancel(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..4_u64, 0..1_200_u64).prop_map(|(no, bytes)| Op::Ask(no, bytes)),
        4 => (0..4_u64, 0..100_u64).prop_map(|(no, bytes)| Op::Ask(no, bytes)),
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

    fn ask(&mut self, no: PluginNo, bytes: u64) -> Reservation {
        let held = bytes.min(self.core.most());
        let asked = self.core.ask(no, bytes);
        match asked {
            Reservation::Granted => self.hold(Holder { no, held }),
            Reservation::Waits(ticket) => {
                self.waiting.insert(ticket, Holder { no, held });
            }
        }
        asked
    }

    fn end(&mut self, at: usize) {
        let (id, holder) = self.holders.swap_remove(at);
        self.core.repay(id);
        let granted = self.core.give_back(holder.no, holder.held);
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
                if self.core.ask_now(holder.no, holder.held, bytes) {
                    holder.held += bytes;
                }
            }
            Op::Grow(at, bytes) if holders > 0 => {
                let (id, holder) = &mut self.holders[at % holders];
                if self.core.grow(holder.no, holder.held, bytes) {
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
                let (waited, granted) = self.core.cancel(holder.no, ticket);
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
                .filter(|(_, h)| h.no == no)
                .map(|(_, h)| h.held)
                .collect();
            own.retain(|held| *held > 0);
            let sum: u64 = own.iter().sum();
            assert!(
                sum <= self.core.share() || own.len() == 1,
                "one plugin has more than its share"
            );
        }
        let plugins = self.core.plugins.values();
        let waiting: usize = plugins.map(|plugin| plugin.waiting.len()).sum();
        assert_eq!(waiting, self.waiting.len());
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
        prop_assert!(world.core.plugins.is_empty() && world.core.ring.is_empty());
    }

    /// However much it needs, and however many small calls keep coming.
    #[test]
    fn a_waiting_call_is_not_overtaken_for_ever(
        large in 1..1_200_u64,
        small in prop::collection::vec((0..4_u64, 1..100_u64), 400),
    ) {
        let mut world = World::new();
        for (no, bytes) in &small[..40] {
            world.ask(*no, *bytes);
        }
        let Reservation::Waits(ticket) = world.ask(4, large) else { return Ok(()) };
        for (no, bytes) in &small[40..] {
            world.ask(*no, *bytes);
            if !world.holders.is_empty() {
                world.end(0);
            }
        }
        prop_assert!(world.granted.contains(&ticket));
    }
}

#[test]
fn plugins_take_turns() {
    let mut world = World::new();
    let most = world.core.most();
    world.ask(9, most);
    let crowd: Vec<_> = (0..10).map(|_| world.ask(1, 500)).collect();
    let single = world.ask(2, 500);
    world.end(0);
    let first = world.granted.clone();
    assert_eq!(Reservation::Waits(first[0]), crowd[0]);
    world.end(0);
    assert_eq!(Reservation::Waits(*world.granted.last().unwrap()), single);
}

#[test]
fn a_plugin_leaves_a_fourth_to_others() {
    let mut world = World::new();
    let share = world.core.share();
    assert_eq!(world.ask(1, share), Reservation::Granted);
    assert!(matches!(world.ask(1, 1), Reservation::Waits(_)));
    // It waits for its own share, and does not block others.
    assert_eq!(world.ask(2, 10), Reservation::Granted);
    assert!(world.core.is_wanted(1) && !world.core.is_wanted(2));
}

#[test]
fn one_at_a_time_draws_on_the_reserve() {
    let mut core = Core::new(TOTAL, 200);
    assert_eq!(core.ask(1, core.most()), Reservation::Granted);
    assert!(!core.grow(1, core.most(), 1));
    assert!(core.borrow(7, 150) && core.borrow(7, 50));
    assert!(!core.borrow(7, 1) && !core.borrow(8, 1));
    assert_eq!(core.held(), TOTAL);
    core.repay(7);
    assert!(core.borrow(8, 1));
}
