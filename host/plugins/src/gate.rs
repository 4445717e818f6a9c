//! Turns for slow calls.
//!
//! A call that has used up its quick start continues only while it holds a turn. There are half as
//! many turns as threads, and plugins take them in rotation, not calls: a plugin with hundreds of
//! endless loops gets no more of the machine than one with a single long computation, and never
//! gets the other half of the threads.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The turns of one host.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Mutex<GateState>>);

struct GateState {
    free: usize,
    /// Plugins with waiting calls; the front one is next.
    ring: VecDeque<Queue>,
}

struct Queue {
    plugin: u64,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// The right to continue. Dropping it passes it on.
pub(crate) struct Turn(Option<Gate>);

impl Gate {
    pub(crate) fn new(turns: usize) -> Self {
        Self(Arc::new(Mutex::new(GateState {
            free: turns.max(1),
            ring: VecDeque::new(),
        })))
    }

    /// Waits for a turn of this plugin. The caller has to give the old turn back first.
    pub(crate) async fn turn(&self, plugin: u64) -> Turn {
        match self.ask(plugin) {
            Ok(turn) => turn,
            // The sender lives in the ring until it has sent, so an error cannot occur; if it does,
            // continuing is better than hanging.
            Err(receiver) => receiver.await.unwrap_or(Turn(None)),
        }
    }

    /// As [`Gate::turn`], but blocks the thread. Checks `stop` every `look`.
    pub(crate) fn block(
        &self,
        plugin: u64,
        look: Duration,
        stop: impl Fn() -> bool,
    ) -> Option<Turn> {
        let receiver = match self.ask(plugin) {
            Ok(turn) => return Some(turn),
            Err(receiver) => receiver,
        };
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut receiver = pin!(receiver);
        loop {
            match receiver.as_mut().poll(&mut context) {
                Poll::Ready(turn) => return Some(turn.unwrap_or(Turn(None))),
                Poll::Pending if stop() => return None,
                Poll::Pending => std::thread::park_timeout(look),
            }
        }
    }

    fn ask(&self, plugin: u64) -> Result<Turn, oneshot::Receiver<Turn>> {
        let mut state = self.0.lock();
        if state.free > 0 {
            state.free -= 1;
            return Ok(Turn(Some(self.clone())));
        }
        let (sender, receiver) = oneshot::channel();
        match state.ring.iter_mut().find(|queue| queue.plugin == plugin) {
            Some(queue) => queue.waiting.push_back(sender),
            None => state.ring.push_back(Queue {
                plugin,
                waiting: VecDeque::from([sender]),
            }),
        }
        Err(receiver)
    }

    fn pass_on(&self) {
        let mut state = self.0.lock();
        while let Some(mut queue) = state.ring.pop_front() {
            let next = queue.waiting.pop_front();
            if !queue.waiting.is_empty() {
                state.ring.push_back(queue);
            }
            let Some(sender) = next else { continue };
            match sender.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                // The call has ended meanwhile. Dropping the turn unchanged would call this
                // function again while the lock is held.
                Err(mut turn) => turn.0 = None,
            }
        }
        state.free += 1;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(gate) = self.0.take() {
            gate.pass_on();
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

    #[test]
    fn turns_go_round_the_plugins() {
        let gate = Gate::new(1);
        let first = gate.turn(1).now_or_never().unwrap();
        let mut waiting: Vec<_> = [1, 1, 2, 1, 2]
            .into_iter()
            .enumerate()
            .map(|(place, plugin)| {
                let gate = gate.clone();
                (place, Box::pin(async move { gate.turn(plugin).await }))
            })
            .collect();
        waiting.retain_mut(|(_, turn)| turn.now_or_never_mut().is_none());
        drop(first);
        let mut order = Vec::new();
        while !waiting.is_empty() {
            let mut got = None;
            waiting.retain_mut(|(place, turn)| match turn.now_or_never_mut() {
                Some(turn) if got.is_none() => {
                    got = Some((*place, turn));
                    false
                }
                _ => true,
            });
            let (place, turn) = got.unwrap();
            order.push(place);
            drop(turn);
        }
        assert_eq!(order, [0, 2, 1, 4, 3]);
    }

    #[test]
    fn a_call_that_ends_while_it_waits_leaves_no_turn_behind() {
        let gate = Gate::new(1);
        let first = gate.turn(1).now_or_never().unwrap();
        let mut waiting = Box::pin(gate.turn(2));
        assert!(waiting.now_or_never_mut().is_none());
        drop(waiting);
        drop(first);
        assert!(gate.turn(3).now_or_never().is_some());
    }

    #[test]
    fn a_turn_that_was_granted_and_never_seen_is_passed_on() {
        let gate = Gate::new(1);
        let first = gate.turn(1).now_or_never().unwrap();
        let mut waiting = Box::pin(gate.turn(2));
        assert!(waiting.now_or_never_mut().is_none());
        drop(first);
        drop(waiting);
        assert!(gate.turn(3).now_or_never().is_some());
    }

    #[test]
    fn a_blocked_thread_can_be_stopped() {
        let gate = Gate::new(1);
        let _first = gate.turn(1).now_or_never().unwrap();
        assert!(gate.block(2, Duration::from_millis(1), || true).is_none());
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
