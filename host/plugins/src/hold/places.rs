//! Places that calls hold, and the calls that wait for one.
//!
//! There are two kinds. A call on a fiber holds a fiber from its beginning to its end: one plugin
//! never holds all of them, and one workflow never all of a plugin. A call that has used up its quick
//! start continues only while it holds a turn; there are half as many turns as threads, so slow calls
//! never get the other half. The policy of [`windlass_fair`] decides which waiting call goes next:
//! workflows share the number of fibers, and the time of turns.

use std::future::Future;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use windlass_fair::{Caller, Queue, Taken};
use windlass_model::Clock;

use crate::hold::budget::core::PluginNo;

/// The fibers of a host. Workflows share them.
pub(crate) type Fibers = Places<Arc<str>>;

/// The turns of a host. The plugins of each workflow share them, so that a plugin with hundreds of
/// endless loops gets no more of the machine than one with a single long computation.
pub(crate) type Turns = Places<(PluginNo, Arc<str>)>;

/// A fiber that a call holds.
pub(crate) type Fiber = Place<Arc<str>>;

/// A call that asks for a turn.
pub(crate) type TurnCaller = Caller<(PluginNo, Arc<str>), PluginNo>;

/// A turn that a call holds.
pub(crate) type Turn = Place<(PluginNo, Arc<str>)>;

/// Places of one kind. Clones are the same places.
pub(crate) struct Places<F: Flow>(Arc<PlacesInner<F>>);

/// The flows that share places.
pub(crate) trait Flow: Clone + Eq + Hash {}

impl<F: Clone + Eq + Hash> Flow for F {}

struct PlacesInner<F: Flow> {
    state: Mutex<PlacesState<F>>,
    clock: Arc<dyn Clock>,
    /// The limit of places that one plugin holds.
    of_one_plugin: u32,
    sharing: Sharing,
}

/// What the flows share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// The places. A flow holds at most [`PER_FREE`] times as many places of a plugin as are free for
    /// this plugin, so that some are free for flows that hold none, however long the others last.
    Places,
    /// The time for which they hold places, which are given back often.
    Time,
}

/// How many places of a plugin a flow may hold for each free one: seven eighths of them while it is
/// alone, 7/15 of them beside another such flow, and `7 / (1 + 7 n)` as one of `n`.
const PER_FREE: u32 = 7;

struct PlacesState<F: Flow> {
    free: u32,
    /// The places that plugins hold; no entry for none.
    held: FxHashMap<PluginNo, u32>,
    /// The places of plugins that flows hold; no entry for none.
    held_by: FxHashMap<(F, PluginNo), u32>,
    queue: Queue<F, PluginNo, oneshot::Sender<Place<F>>>,
}

/// A place that is held. Dropping it passes it on.
pub(crate) struct Place<F: Flow>(Option<Held<F>>);

struct Held<F: Flow> {
    of: Places<F>,
    flow: F,
    lane: PluginNo,
    /// When it was given, on the monotonic clock.
    since: Duration,
}

impl<F: Flow> Clone for Places<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl Fibers {
    /// So many fibers, of which one plugin holds at most `of_one_plugin`.
    pub(crate) fn new(fibers: u32, of_one_plugin: u32, clock: Arc<dyn Clock>) -> Self {
        Self::shared(fibers, of_one_plugin, Sharing::Places, clock)
    }
}

impl Turns {
    /// So many turns, which one plugin may hold all.
    pub(crate) fn new(turns: u32, clock: Arc<dyn Clock>) -> Self {
        Self::shared(turns, turns, Sharing::Time, clock)
    }
}

impl<F: Flow> Places<F> {
    fn shared(places: u32, of_one_plugin: u32, sharing: Sharing, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(PlacesInner {
            state: Mutex::new(PlacesState {
                free: places.max(1),
                held: FxHashMap::default(),
                held_by: FxHashMap::default(),
                queue: Queue::default(),
            }),
            clock,
            of_one_plugin: of_one_plugin.max(1),
            sharing,
        }))
    }

    /// Waits for a place. The call has to give the place of this kind back first that it holds.
    pub(crate) async fn get(&self, caller: Caller<F, PluginNo>) -> Place<F> {
        match self.ask(caller) {
            Ok(place) => place,
            // The sender lives in the queue until it has sent, so an error cannot occur; if it does,
            // continuing is better than hanging.
            Err(receiver) => receiver.await.unwrap_or(Place(None)),
        }
    }

    /// As [`Places::get`], but blocks the thread. Checks `stop` every `look`.
    pub(crate) fn block(
        &self,
        caller: Caller<F, PluginNo>,
        look: Duration,
        stop: impl Fn() -> bool,
    ) -> Option<Place<F>> {
        let receiver = match self.ask(caller) {
            Ok(place) => return Some(place),
            Err(receiver) => receiver,
        };
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut receiver = pin!(receiver);
        loop {
            match receiver.as_mut().poll(&mut context) {
                Poll::Ready(place) => return Some(place.unwrap_or(Place(None))),
                Poll::Pending if stop() => return None,
                Poll::Pending => std::thread::park_timeout(look),
            }
        }
    }

    fn ask(&self, caller: Caller<F, PluginNo>) -> Result<Place<F>, oneshot::Receiver<Place<F>>> {
        let mut state = self.0.state.lock();
        // Calls that wait while places are free belong to plugins, or to flows in plugins, that hold
        // all of their share.
        if state.is_open(&self.0, &caller.flow, caller.lane) {
            state.hold(&caller.flow, caller.lane);
            state.queue.hold(caller.flow.clone());
            return Ok(self.place(caller));
        }
        let (sender, receiver) = oneshot::channel();
        state.queue.push(caller, sender, self.now_ms());
        Err(receiver)
    }

    fn give_back(&self, flow: &F, lane: PluginNo, since: Duration) {
        let used_us = match self.0.sharing {
            Sharing::Places => 0,
            Sharing::Time => {
                let used = self.0.clock.monotonic().saturating_sub(since);
                u64::try_from(used.as_micros()).unwrap_or(u64::MAX)
            }
        };
        let mut state = self.0.state.lock();
        state.give_back(flow, lane, used_us);
        while state.free > 0 {
            let mut queue = std::mem::take(&mut state.queue);
            let is_open = |flow: &F, lane: &PluginNo| state.is_open(&self.0, flow, *lane);
            let taken = queue.take(self.now_ms(), is_open, oneshot::Sender::is_closed);
            state.queue = queue;
            let Some(Taken { caller, item }) = taken else {
                return;
            };
            let (flow, lane) = (caller.flow.clone(), caller.lane);
            state.hold(&flow, lane);
            if let Err(mut place) = item.send(self.place(caller)) {
                // The call has ended this moment. Dropping the place unchanged would call this
                // function again while the lock is held.
                place.0 = None;
                state.give_back(&flow, lane, 0);
            }
        }
    }

    fn place(&self, caller: Caller<F, PluginNo>) -> Place<F> {
        Place(Some(Held {
            of: self.clone(),
            flow: caller.flow,
            lane: caller.lane,
            since: self.0.clock.monotonic(),
        }))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.clock.monotonic().as_millis()).unwrap_or(u64::MAX)
    }
}

impl<F: Flow> PlacesState<F> {
    /// Whether a flow may hold one more place of a plugin now.
    fn is_open(&self, places: &PlacesInner<F>, flow: &F, lane: PluginNo) -> bool {
        let held = self.held.get(&lane).copied().unwrap_or(0);
        let free = places.of_one_plugin.saturating_sub(held).min(self.free);
        if places.sharing == Sharing::Time || free == 0 {
            return free > 0;
        }
        let own = self.held_by.get(&(flow.clone(), lane));
        own.copied().unwrap_or(0) < free.saturating_mul(PER_FREE)
    }

    fn hold(&mut self, flow: &F, lane: PluginNo) {
        self.free -= 1;
        *self.held.entry(lane).or_default() += 1;
        *self.held_by.entry((flow.clone(), lane)).or_default() += 1;
    }

    fn give_back(&mut self, flow: &F, lane: PluginNo, used_us: u64) {
        self.free += 1;
        self.queue.give_back(flow, used_us);
        one_less(&mut self.held, &lane);
        one_less(&mut self.held_by, &(flow.clone(), lane));
    }
}

/// Counts one less; nothing is left of a count of zero.
fn one_less<K: Eq + Hash>(counts: &mut FxHashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl<F: Flow> Drop for Place<F> {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.of.give_back(&held.flow, held.lane, held.since);
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    struct Still;

    impl Clock for Still {
        fn wall_ms(&self) -> i64 {
            0
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }

    fn caller(flow: &'static str, lane: PluginNo) -> Caller<&'static str, PluginNo> {
        Caller {
            priority: 0,
            flow,
            lane,
        }
    }

    fn places(places: u32, of_one_plugin: u32) -> Places<&'static str> {
        Places::shared(places, of_one_plugin, Sharing::Places, Arc::new(Still))
    }

    #[test]
    fn a_flow_whose_calls_last_leaves_places_of_the_plugin_to_others() {
        let places = places(256, 192);
        let get = |flow| places.get(caller(flow, 7)).now_or_never();
        let slow: Vec<_> = std::iter::from_fn(|| get("slow")).collect();
        assert_eq!(slow.len(), 168, "seven eighths");
        // None of the long calls ends.
        let quick: Vec<_> = std::iter::from_fn(|| get("quick")).collect();
        assert_eq!(quick.len(), 21);
        let third: Vec<_> = std::iter::from_fn(|| get("third")).collect();
        assert!(!third.is_empty());
        assert!(get("fourth").is_none(), "so many are busy");
        drop(slow);
        // Each flow waits for the places that come back.
        assert!(get("fourth").is_some());
    }

    #[test]
    fn a_flow_alone_uses_all_of_few_places() {
        for few in 1..=7 {
            let places = places(few, few);
            let get = || places.get(caller("a", 1)).now_or_never();
            let held: Vec<_> = std::iter::from_fn(get).collect();
            assert_eq!(held.len(), few as usize);
        }
    }

    #[test]
    fn a_call_beyond_the_share_of_its_flow_goes_on_when_the_flow_gives_back() {
        let places = places(16, 16);
        let get = || places.get(caller("a", 1)).now_or_never();
        let mut held: Vec<_> = std::iter::from_fn(get).collect();
        assert_eq!(held.len(), 14);
        let mut waiting = Box::pin(places.get(caller("a", 1)));
        assert!(waiting.now_or_never_mut().is_none());
        held.pop();
        assert!(waiting.now_or_never_mut().is_some());
    }

    #[test]
    fn places_go_round_the_flows() {
        let places = places(1, 1);
        let first = places.get(caller("x", 0)).now_or_never().unwrap();
        let mut waiting: Vec<_> = ["a", "a", "b", "a", "b"]
            .into_iter()
            .enumerate()
            .map(|(number, flow)| {
                let places = places.clone();
                (
                    number,
                    Box::pin(async move { places.get(caller(flow, 0)).await }),
                )
            })
            .collect();
        waiting.retain_mut(|(_, place)| place.now_or_never_mut().is_none());
        drop(first);
        let mut order = Vec::new();
        while !waiting.is_empty() {
            let mut got = None;
            waiting.retain_mut(|(number, place)| match place.now_or_never_mut() {
                Some(place) if got.is_none() => {
                    got = Some((*number, place));
                    false
                }
                _ => true,
            });
            let (number, place) = got.unwrap();
            order.push(number);
            drop(place);
        }
        assert_eq!(order, [0, 2, 1, 4, 3]);
    }

    #[test]
    fn one_plugin_never_holds_all_places() {
        let places = places(4, 3);
        let mut held: Vec<_> = (0..3)
            .map(|_| places.get(caller("a", 1)).now_or_never().unwrap())
            .collect();
        let mut waiting = Box::pin(places.get(caller("a", 1)));
        assert!(waiting.now_or_never_mut().is_none());
        let other = places.get(caller("a", 2)).now_or_never();
        assert!(other.is_some());
        drop(other);
        assert!(waiting.now_or_never_mut().is_none());
        held.pop();
        assert!(waiting.now_or_never_mut().is_some());
    }

    #[test]
    fn a_call_that_ends_while_it_waits_leaves_no_place_behind() {
        let places = places(1, 1);
        let first = places.get(caller("a", 1)).now_or_never().unwrap();
        let mut waiting = Box::pin(places.get(caller("a", 2)));
        assert!(waiting.now_or_never_mut().is_none());
        drop(waiting);
        drop(first);
        assert!(places.get(caller("a", 3)).now_or_never().is_some());
    }

    #[test]
    fn a_place_that_was_granted_and_never_seen_is_passed_on() {
        let places = places(1, 1);
        let first = places.get(caller("a", 1)).now_or_never().unwrap();
        let mut waiting = Box::pin(places.get(caller("a", 2)));
        assert!(waiting.now_or_never_mut().is_none());
        drop(first);
        drop(waiting);
        assert!(places.get(caller("a", 3)).now_or_never().is_some());
    }

    #[test]
    fn a_blocked_thread_can_be_stopped() {
        let places = places(1, 1);
        let _first = places.get(caller("a", 1)).now_or_never().unwrap();
        let look = Duration::from_millis(1);
        assert!(places.block(caller("a", 2), look, || true).is_none());
    }

    trait NowOrNeverMut: Future {
        fn now_or_never_mut(&mut self) -> Option<Self::Output>;
    }

    impl<F: Future + Unpin> NowOrNeverMut for F {
        fn now_or_never_mut(&mut self) -> Option<Self::Output> {
            let mut context = Context::from_waker(Waker::noop());
            match pin!(self).poll(&mut context) {
                Poll::Ready(value) => Some(value),
                Poll::Pending => None,
            }
        }
    }
}
