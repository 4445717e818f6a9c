//! Reservations from a thread, accounts, and idle instances.

use std::sync::atomic::AtomicU64;

use futures::FutureExt as _;

use super::*;

/// Has no idle instances.
struct Nothing;

impl Evict for Nothing {
    fn evict(&self, _: Option<PluginNo>, _: u64) -> bool {
        false
    }
}

/// Idle instances of plugin 0.
struct Idle(Mutex<Vec<Account>>, AtomicU64);

impl Evict for Idle {
    fn evict(&self, of: Option<PluginNo>, bytes: u64) -> bool {
        let mut freed = 0;
        while freed < bytes && of.is_none_or(|no| no == 0) {
            let Some(account) = self.0.lock().pop() else {
                break;
            };
            freed += account.held();
            self.1.fetch_add(1, Ordering::Relaxed);
            drop(account);
        }
        freed > 0
    }
}

fn budget(total: u64) -> Arc<Budget> {
    Budget::new(total, 0, Arc::default())
}

fn flow(no: PluginNo) -> Arc<Flow> {
    Flow::new(no, 0)
}

/// What the flow of an account expects a call to use.
fn expected(account: &Account) -> u64 {
    account.flow.as_ref().unwrap().expected()
}

/// An account of an instance in a budget of its own.
pub(crate) fn account(total: u64) -> Account {
    let budget = budget(total);
    let hold = budget
        .reserve_now(&flow(0), INSTANCE_BYTES, &Nothing)
        .unwrap();
    Account::new(hold, Arc::new(Nothing))
}

fn held(budget: &Budget) -> u64 {
    budget.metrics.plugin_memory.get()
}

const MIB: u64 = 1 << 20;

#[test]
fn a_reservation_waits_until_there_is_room() {
    let budget = budget(10 * MIB);
    let first = budget.reserve_now(&flow(1), 7 * MIB, &Nothing).unwrap();
    let flow_2 = flow(2);
    let mut second = Box::pin(budget.reserve(&flow_2, 4 * MIB, &Nothing));
    assert!((&mut second).now_or_never().is_none());
    assert!(budget.is_short() && budget.is_wanted(1));
    let busy = flow(3);
    budget.charge(&busy, MIB, Duration::from_secs(1));
    let overtaking = budget.reserve_now(&busy, 1, &Nothing);
    assert!(overtaking.is_none(), "its flow has used more");
    let small = budget.reserve_now(&flow(4), 1, &Nothing);
    assert!(small.is_some(), "its flow would hold less");
    drop(small);
    drop(first);
    let second = second.now_or_never().unwrap();
    assert_eq!(held(&budget), 4 * MIB);
    drop(second);
    assert_eq!((held(&budget), budget.is_short()), (0, false));
}

#[test]
fn a_call_that_stops_waiting_leaves_nothing_behind() {
    let (budget, flow_2) = (budget(10 * MIB), flow(2));
    for granted in [false, true] {
        let first = budget.reserve_now(&flow(1), 7 * MIB, &Nothing).unwrap();
        let mut second = Box::pin(budget.reserve(&flow_2, 4 * MIB, &Nothing));
        assert!((&mut second).now_or_never().is_none());
        let first = (!granted).then_some(first);
        drop(second);
        drop(first);
        assert_eq!((held(&budget), budget.is_short()), (0, false), "{granted}");
    }
}

#[test]
fn idle_instances_make_room() {
    let budget = budget(10 * MIB);
    let idle: Vec<Account> = (0..7)
        .map(|_| {
            let hold = budget.reserve_now(&flow(0), MIB, &Nothing).unwrap();
            Account::new(hold, Arc::new(Nothing))
        })
        .collect();
    let idle = Idle(Mutex::new(idle), AtomicU64::new(0));
    let _second = budget
        .reserve(&flow(1), 5 * MIB, &idle)
        .now_or_never()
        .unwrap();
    assert_eq!(idle.1.load(Ordering::Relaxed), 2, "no more than it takes");
    assert_eq!(held(&budget), 10 * MIB);
}

#[test]
fn an_instance_within_its_reservation_does_not_ask_the_budget() {
    let mut account = account(10 * MIB);
    let flow = flow(0);
    assert!(account.prepare(&flow, 2 * MIB));
    let budget = Arc::clone(&account.budget);
    let locked = budget.state.lock();
    assert!(account.prepare(&flow, 2 * MIB) && account.charge(MIB));
    account.discharge(MIB);
    assert!(!account.look(Duration::ZERO));
    assert_eq!(expected(&account), MIB + INSTANCE_BYTES);
    assert!(account.rest());
    drop(locked);
    assert!(account.prepare(&flow, 2 * MIB));
    assert!(!account.charge(11 * MIB));
    assert!(account.look(Duration::ZERO));
    assert_eq!(expected(&account), 11 * MIB + INSTANCE_BYTES);
}

#[test]
fn growth_draws_on_the_reserve_when_there_is_nothing_else() {
    let budget = Budget::new(8 * MIB, 2 * MIB, Arc::default());
    let first = budget.reserve_now(&flow(1), 4 * MIB, &Nothing).unwrap();
    let second = budget.reserve_now(&flow(2), 2 * MIB, &Nothing).unwrap();
    let mut accounts = [first, second].map(|hold| Account::new(hold, Arc::new(Nothing)));
    let [first, second] = &mut accounts;
    assert!(first.charge(5 * MIB), "it borrows");
    assert!(!second.charge(3 * MIB), "one at a time");
    assert!(second.look(Duration::ZERO));
    assert_eq!(expected(second), 3 * MIB + INSTANCE_BYTES);
    assert!(!first.rest(), "what holds of the reserve does not stay");
    first.discharge(2 * MIB);
    assert!(first.rest());
    assert!(second.charge(2 * MIB));
    drop(accounts);
    assert_eq!(held(&budget), 0);
}

#[test]
fn a_large_output_outlives_its_call() {
    let mut account = account(10 * MIB);
    let budget = Arc::clone(&account.budget);
    assert!(account.split(SMALL).is_none());
    let output = account.split(4 << 20).unwrap();
    drop(account);
    assert_eq!(held(&budget), 4 * MIB);
    drop(output);
    assert_eq!(held(&budget), 0);
}

#[test]
fn the_memory_of_a_call_counts_for_its_flow_until_the_call_ends() {
    let budget = budget(16 * MIB);
    let (a, b) = (flow(1), flow(1));
    let mut account = Account::new(
        budget.reserve_now(&a, 2 * MIB, &Nothing).unwrap(),
        Arc::new(Nothing),
    );
    assert!(account.charge(3 * MIB));
    assert_eq!(a.running(), account.held());
    assert!(account.rest());
    assert_eq!((a.running(), held(&budget)), (0, account.held()));
    // Another flow uses the idle instance.
    account.join(budget.reserve_now(&b, MIB, &Nothing).unwrap(), 8 * MIB);
    assert_eq!((a.running(), b.running()), (0, account.held()));
    let output = account.split(2 << 20);
    assert_eq!(b.running(), account.held());
    drop(account);
    assert_eq!((b.running(), held(&budget)), (0, 2 * MIB));
    drop(output);
    let waiting = budget.reserve_now(&a, 12 * MIB, &Nothing).unwrap();
    let mut gone = Box::pin(budget.reserve(&b, 8 * MIB, &Nothing));
    assert!((&mut gone).now_or_never().is_none());
    drop(waiting);
    assert_eq!((a.running(), b.running()), (0, 8 * MIB), "it is granted");
    drop(gone);
    assert_eq!((b.running(), held(&budget)), (0, 0));
}
