//! Which connections there are, and which of them has to go when there are too many.
//!
//! A client that connects and says nothing costs a slot until a time-out. So where all slots are
//! taken, the connection that has been idle for the longest time is closed for a new one: a
//! client that sends its request at once is served, however many others hold connections open.
//! Connections that carry a request are never closed for others. They are bounded by the pools
//! (`pools.rs`); where nearly all slots carry requests at once, some further connections are
//! taken, and on those that are too many only health and metrics are answered.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_model::metrics::Metrics;

/// The most connections beyond those that are configured, for health and metrics alone.
pub const RESERVED: usize = 64;

/// All connections of a listener.
pub(crate) struct Connections {
    /// How many may carry any request.
    most: usize,
    /// How many there may be besides. So many of the youngest may be idle, whatever the others
    /// do, so that a client has the time to send its request.
    reserved: usize,
    open: Mutex<Open>,
    /// Those that carry a request.
    busy: AtomicUsize,
    /// Those that carry a request that is none for health and metrics.
    working: AtomicUsize,
    /// Counts what connections do: so it tells which one did something before another.
    moves: AtomicU64,
    /// A connection has ended, or carries no request any more.
    change: Notify,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Open {
    next: u64,
    lines: HashMap<u64, Arc<ConnectionState>>,
    /// Those among them that are told to close.
    closing: usize,
}

/// One connection.
struct ConnectionState {
    no: u64,
    peer: SocketAddr,
    /// The address of this machine that the client connected to.
    local: IpAddr,
    /// Requests that are worked on.
    now: AtomicUsize,
    /// Those among them that are none for health and metrics.
    working: AtomicUsize,
    /// Requests so far.
    begun: AtomicUsize,
    /// The last of the moves that was its own.
    moved: AtomicU64,
    closing: AtomicBool,
    waker: AtomicWaker,
    all: Arc<Connections>,
}

/// What a request knows of the connection that it came by.
#[derive(Clone)]
pub(crate) struct Connection(Arc<ConnectionState>);

/// A connection as its socket has it. Dropping it ends the connection.
pub(crate) struct Entry(Arc<ConnectionState>);

/// A request is being worked on.
pub(crate) struct Busy {
    line: Arc<ConnectionState>,
    asks: Asks,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Health and metrics, which take no room from other requests.
    Health,
    /// Anything else.
    Work,
}

impl Connections {
    pub(crate) fn new(most: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            reserved: (most / 4).clamp(1, RESERVED),
            open: Mutex::default(),
            busy: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            moves: AtomicU64::new(0),
            change: Notify::new(),
            metrics,
        })
    }

    /// Waits until one more connection may be accepted. One caller at a time.
    pub(crate) async fn room(&self) {
        let hard = self.most.saturating_add(self.reserved);
        loop {
            {
                let mut open = self.open.lock();
                if open.lines.len() < hard {
                    return;
                }
                if open.lines.len().saturating_sub(open.closing) >= hard {
                    self.close_one(&mut open, None);
                }
            }
            self.change.notified().await;
        }
    }

    /// Waits until a connection has ended, after one was told to: there are no files left.
    pub(crate) async fn relief(&self) {
        self.close_one(&mut self.open.lock(), None);
        self.change.notified().await;
    }

    /// Takes a connection in, and tells another one to close if there are too many.
    pub(crate) fn enter(self: &Arc<Self>, peer: SocketAddr, local: IpAddr) -> Entry {
        let mut open = self.open.lock();
        let no = open.next;
        open.next += 1;
        let line = Arc::new(ConnectionState {
            no,
            peer,
            local,
            now: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            moved: AtomicU64::new(self.next_move()),
            closing: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            all: Arc::clone(self),
        });
        open.lines.insert(no, Arc::clone(&line));
        self.metrics.http.connections.add(1);
        let staying = open.lines.len().saturating_sub(open.closing);
        let idle = staying.saturating_sub(self.busy.load(Ordering::Acquire));
        if staying > self.most && idle > self.reserved {
            self.close_one(&mut open, Some(no));
        }
        Entry(line)
    }

    /// Tells the connection to close that has been idle for the longest time, if any is.
    fn close_one(&self, open: &mut Open, but: Option<u64>) {
        let idle = open.lines.values().filter(|line| {
            line.now.load(Ordering::Acquire) == 0
                && !line.closing.load(Ordering::Acquire)
                && Some(line.no) != but
        });
        let Some(oldest) = idle.min_by_key(|line| line.moved.load(Ordering::Relaxed)) else {
            return;
        };
        oldest.closing.store(true, Ordering::Release);
        if oldest.now.load(Ordering::Acquire) > 0 && oldest.stay() {
            // A request has come at this moment.
            return;
        }
        oldest.waker.wake();
        open.closing += 1;
        self.metrics.http.evicted.add(1);
    }

    fn next_move(&self) -> u64 {
        self.moves.fetch_add(1, Ordering::Relaxed)
    }
}

impl ConnectionState {
    /// Takes it back that the connection has to close. Answers whether it had to.
    fn stay(&self) -> bool {
        self.closing.swap(false, Ordering::AcqRel)
    }
}

impl Entry {
    /// What requests get to know of it.
    pub(crate) fn connection(&self) -> Connection {
        Connection(Arc::clone(&self.0))
    }

    /// Whether a request is being worked on.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.now.load(Ordering::Acquire) > 0
    }

    /// How many requests there have been.
    pub(crate) fn begun(&self) -> usize {
        self.0.begun.load(Ordering::Acquire)
    }

    /// The client has taken something of an answer.
    pub(crate) fn moved(&self) {
        let last = self.0.all.next_move();
        self.0.moved.store(last, Ordering::Relaxed);
    }

    /// Ready once the connection has to make room for another.
    pub(crate) fn poll_closing(&self, cx: &mut Context<'_>) -> Poll<()> {
        let line = &self.0;
        line.waker.register(cx.waker());
        // A request may have come since, and then it is answered.
        let closing = line.closing.load(Ordering::Acquire) && !self.is_busy();
        if closing {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let (line, all) = (&self.0, &self.0.all);
        let mut open = all.open.lock();
        if open.lines.remove(&line.no).is_some() {
            all.metrics.http.connections.sub(1);
            if line.closing.load(Ordering::Acquire) {
                open.closing = open.closing.saturating_sub(1);
            }
        }
        drop(open);
        all.change.notify_one();
    }
}

impl Connection {
    /// Says that a request is being worked on, for as long as what this answers is there.
    pub(crate) fn busy(&self, asks: Asks) -> Busy {
        let line = &self.0;
        line.begun.fetch_add(1, Ordering::AcqRel);
        if asks == Asks::Work && line.working.fetch_add(1, Ordering::AcqRel) == 0 {
            line.all.working.fetch_add(1, Ordering::AcqRel);
        }
        if line.now.fetch_add(1, Ordering::AcqRel) == 0 {
            line.all.busy.fetch_add(1, Ordering::AcqRel);
        }
        // The request came before the end, and another connection goes.
        if line.closing.load(Ordering::Acquire) {
            let mut open = line.all.open.lock();
            if line.stay() {
                open.closing = open.closing.saturating_sub(1);
                line.all.change.notify_one();
            }
        }
        Busy {
            line: Arc::clone(line),
            asks,
        }
    }

    /// Who is at the other end of it.
    pub(crate) fn peer(&self) -> IpAddr {
        self.0.peer.ip()
    }

    /// The address of this machine that the client connected to.
    pub(crate) fn local(&self) -> IpAddr {
        self.0.local
    }

    /// Whether more connections carry requests than may, so that this one is for health and
    /// metrics alone. Those that carry requests for health and metrics do not count.
    pub(crate) fn is_reserved(&self) -> bool {
        self.0.all.working.load(Ordering::Acquire) > self.0.all.most
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let (line, all) = (&self.line, &self.line.all);
        if self.asks == Asks::Work && line.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            all.working.fetch_sub(1, Ordering::AcqRel);
        }
        if line.now.fetch_sub(1, Ordering::AcqRel) == 1 {
            line.moved.store(all.next_move(), Ordering::Relaxed);
            all.busy.fetch_sub(1, Ordering::AcqRel);
            all.change.notify_one();
            if line.closing.load(Ordering::Acquire) {
                line.waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    struct Rig {
        all: Arc<Connections>,
        metrics: Arc<Metrics>,
    }

    impl Rig {
        fn new(most: usize) -> Self {
            let metrics = Arc::new(Metrics::default());
            let all = Connections::new(most, Arc::clone(&metrics));
            Self { all, metrics }
        }

        fn enter(&self) -> Entry {
            self.all
                .enter(([127, 0, 0, 1], 9).into(), [127, 0, 0, 1].into())
        }

        /// Whether one more may be accepted now.
        fn has_room(&self) -> bool {
            let mut context = Context::from_waker(Waker::noop());
            std::pin::pin!(self.all.room())
                .poll(&mut context)
                .is_ready()
        }
    }

    fn closes(entry: &Entry) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        entry.poll_closing(&mut context).is_ready()
    }

    #[test]
    fn the_one_that_was_idle_for_longest_makes_room() {
        let rig = Rig::new(4);
        let lines: Vec<Entry> = (0..4).map(|_| rig.enter()).collect();
        // The first one has sent a request since, and the second one sends one now.
        drop(lines[0].connection().busy(Asks::Work));
        let busy = lines[1].connection().busy(Asks::Work);
        assert!(lines.iter().all(|line| !closes(line)), "there is room");
        let fourth = rig.enter();
        let told: Vec<bool> = lines.iter().map(closes).collect();
        assert_eq!(told, [false, false, true, false]);
        let fifth = rig.enter();
        let told: Vec<bool> = lines.iter().map(closes).collect();
        assert_eq!(told, [false, false, true, true]);
        assert!(!closes(&fourth) && !closes(&fifth));
        assert_eq!(rig.metrics.http.evicted.get(), 2);
        assert_eq!(rig.metrics.http.connections.get(), 6, "they are open still");
        drop((lines, busy));
        assert_eq!(rig.metrics.http.connections.get(), 2);
    }

    #[test]
    fn a_request_that_came_before_the_end_is_answered() {
        let rig = Rig::new(1);
        let first = rig.enter();
        let _others = [rig.enter(), rig.enter()];
        assert!(closes(&first));
        let busy = first.connection().busy(Asks::Work);
        assert!(!closes(&first));
        drop(busy);
        assert!(!closes(&first), "and it is the youngest now");
        assert_eq!(rig.all.open.lock().closing, 1, "another one goes still");
    }

    #[test]
    fn where_all_are_busy_some_are_left_for_health() {
        let rig = Rig::new(8);
        let lines: Vec<Entry> = (0..8).map(|_| rig.enter()).collect();
        let busy: Vec<Busy> = lines
            .iter()
            .map(|line| line.connection().busy(Asks::Work))
            .collect();
        assert!(!lines[0].connection().is_reserved());
        let mut further = Vec::new();
        while rig.has_room() {
            further.push(rig.enter());
        }
        assert_eq!(further.len(), 2, "a quarter");
        let told: Vec<bool> = further.iter().map(closes).collect();
        assert_eq!(told, [true, false], "the next one waits for the oldest");
        assert!(!lines.iter().any(closes), "requests are worked on");
        let last = further[1].connection();
        let scrapes = last.busy(Asks::Health);
        assert!(!lines[7].connection().is_reserved(), "eight are at work");
        drop(scrapes);
        let asks = last.busy(Asks::Work);
        assert!(last.is_reserved());
        drop(busy);
        assert!(!last.is_reserved());
        drop((asks, further));
        assert!(rig.has_room());
    }
}
