//! The open connections, and which of them is closed when there are too many.
//!
//! An idle connection costs a slot until its time-out. So when all slots are taken, a new
//! connection closes the one that has been idle for the longest time: a client that sends its
//! request at once is served, even if others hold many connections open. Connections that carry a
//! request are never closed for others. The pools (`pools.rs`) bound them; if nearly all slots
//! carry requests, some further connections are accepted, and those beyond the limit serve health
//! and metrics only.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_model::metrics::Metrics;

/// The most connections beyond the configured number, for health and metrics only.
pub const RESERVED: usize = 64;

/// All connections of a listener.
pub(crate) struct Connections {
    /// How many may carry any request.
    most: usize,
    /// How many further ones there may be. As many of the youngest may be idle even if all others
    /// are busy, so that a client has time to send its request.
    reserved: usize,
    open: Mutex<Open>,
    /// Connections that carry a request.
    busy: AtomicUsize,
    /// Connections that carry a request other than health and metrics.
    working: AtomicUsize,
    /// A counter of the connections' activities: it orders them in time.
    moves: AtomicU64,
    /// Notified when a connection has ended, or carries no request any more.
    change: Notify,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Open {
    next: u64,
    lines: HashMap<u64, Arc<ConnectionState>>,
    /// How many of them were told to close.
    closing: usize,
}

/// One connection.
struct ConnectionState {
    no: u64,
    peer: SocketAddr,
    /// The address of this machine that the client connected to.
    local: IpAddr,
    /// Requests in progress.
    now: AtomicUsize,
    /// Requests in progress other than health and metrics.
    working: AtomicUsize,
    /// Requests so far.
    begun: AtomicUsize,
    /// The counter at its last activity.
    moved: AtomicU64,
    closing: AtomicBool,
    waker: AtomicWaker,
    all: Arc<Connections>,
}

/// The connection of a request.
#[derive(Clone)]
pub(crate) struct Connection(Arc<ConnectionState>);

/// The connection of a socket. Dropping it ends the connection.
pub(crate) struct Entry(Arc<ConnectionState>);

/// Marks a request in progress.
pub(crate) struct Busy {
    line: Arc<ConnectionState>,
    asks: Asks,
}

/// The kind of a request.
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

    /// Closes an idle connection and waits until one has ended: the process has no files left.
    pub(crate) async fn relief(&self) {
        self.close_one(&mut self.open.lock(), None);
        self.change.notified().await;
    }

    /// Adds a connection, and tells another one to close if there are too many.
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

    /// Tells the connection that has been idle for the longest time to close, if one is idle.
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
            // A request has just arrived on it.
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
    /// Revokes the order to close. Returns whether there was one.
    fn stay(&self) -> bool {
        self.closing.swap(false, Ordering::AcqRel)
    }
}

impl Entry {
    /// The handle for requests.
    pub(crate) fn connection(&self) -> Connection {
        Connection(Arc::clone(&self.0))
    }

    /// Whether a request is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.now.load(Ordering::Acquire) > 0
    }

    /// How many requests the connection has had.
    pub(crate) fn begun(&self) -> usize {
        self.0.begun.load(Ordering::Acquire)
    }

    /// Records that the client has read a part of an answer.
    pub(crate) fn moved(&self) {
        let last = self.0.all.next_move();
        self.0.moved.store(last, Ordering::Relaxed);
    }

    /// Ready once the connection has to make room for another.
    pub(crate) fn poll_closing(&self, cx: &mut Context<'_>) -> Poll<()> {
        let line = &self.0;
        line.waker.register(cx.waker());
        // If a request has arrived since, it is answered first.
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
    /// Marks a request as in progress until the result is dropped.
    pub(crate) fn busy(&self, asks: Asks) -> Busy {
        let line = &self.0;
        line.begun.fetch_add(1, Ordering::AcqRel);
        if asks == Asks::Work && line.working.fetch_add(1, Ordering::AcqRel) == 0 {
            line.all.working.fetch_add(1, Ordering::AcqRel);
        }
        if line.now.fetch_add(1, Ordering::AcqRel) == 0 {
            line.all.busy.fetch_add(1, Ordering::AcqRel);
        }
        // The request came before the close: this connection stays, and another one closes.
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

    /// The address of the client.
    pub(crate) fn peer(&self) -> IpAddr {
        self.0.peer.ip()
    }

    /// The address of this machine that the client connected to.
    pub(crate) fn local(&self) -> IpAddr {
        self.0.local
    }

    /// Whether more connections carry requests than the limit, so that this one serves health and
    /// metrics only. Connections with requests for health and metrics do not count.
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
        // The first connection has sent a request since, and the second one sends one now.
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
