//! The memory budget: a state machine without threads or clocks.
//!
//! The total is divided in two. Calls reserve from the *general* part before they begin; while they
//! wait for it in a queue, they hold nothing of it. The *reserve* is for growth beyond the
//! reservation, and one holder at a time may draw on it. Growth never waits: it is granted or
//! refused at once. So every holder continues, ends and returns its memory, and no waiting call
//! depends on another waiting call.
//!
//! Waiting calls are queued by flow: by plugin and workflow. The flow goes first that has used the
//! least memory and time; of several, the one that would hold the least, and then the one that has
//! waited longest. The first call gets room before all later ones, however much it needs.
//!
//! A plugin never holds more than three quarters of the general part, unless it has a single holder
//! that needs more; a plugin that waits for its own share does not block others. A flow with a call
//! in progress never holds more than [`PER_FREE`] times the bytes that stay free for its plugin, so
//! that calls of flows that hold nothing begin beside any number of long ones; a flow that waits for
//! its own share blocks no other flow.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::flow::Flow;

/// Identifies a plugin.
pub(crate) type PluginNo = u64;
/// Identifies a waiting call.
pub(crate) type Ticket = u64;

/// How many bytes a flow may hold of the memory of its plugin for each byte that stays free.
const PER_FREE: u64 = 7;

/// The held memory and the waiting calls.
#[derive(Debug, Default)]
pub(crate) struct Core {
    general: u64,
    reserve: u64,
    held: u64,
    borrower: Option<u64>,
    borrowed: u64,
    /// The bytes that plugins hold; no entry for none.
    plugins: FxHashMap<PluginNo, u64>,
    /// Flows with waiting calls.
    lines: Vec<Line>,
    /// What the flow had used that got memory last. A flow that asks for nothing saves up nothing: it
    /// begins from here.
    floor: u64,
    /// Counts the reservations that waited and were granted.
    turns: u64,
    next: Ticket,
}

/// The waiting calls of one flow, in the order of their arrival.
#[derive(Debug)]
struct Line {
    flow: Arc<Flow>,
    /// The turn in which the flow got memory, or in which it began to wait.
    served: u64,
    calls: VecDeque<(Ticket, u64)>,
}

/// The result of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    Granted,
    Waits(Ticket),
}

/// The memory that holders have to return before a reservation is granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lack {
    /// By calls of the same flow, or by idle instances of its plugin.
    pub(crate) flow: u64,
    /// By the plugin.
    pub(crate) plugin: u64,
    /// By any plugin.
    pub(crate) any: u64,
}

/// What the waiting calls, or those of them that go before another one, let others do.
#[derive(Debug, Default)]
struct Way {
    /// The line whose first call can be granted now.
    open: Option<usize>,
    /// The line whose first call waits for memory of all plugins. No other goes before it.
    head: Option<usize>,
    /// Plugins with a call that waits for their share.
    closed: Vec<PluginNo>,
}

impl Core {
    /// The reserve is a fourth of the total, or the most that one holder can use if that is less.
    pub(crate) fn new(total: u64, most_of_one: u64) -> Self {
        let reserve = (total / 4).min(most_of_one);
        Self {
            general: total - reserve,
            reserve,
            ..Self::default()
        }
    }

    /// The most that can be reserved at once.
    pub(crate) fn most(&self) -> u64 {
        self.general
    }

    /// The held memory, the reserve included.
    pub(crate) fn held(&self) -> u64 {
        self.held + self.borrowed
    }

    /// Reserves memory for a call of a flow, at most [`Core::most`], or queues the call.
    pub(crate) fn ask(&mut self, flow: &Arc<Flow>, bytes: u64) -> Reservation {
        let bytes = bytes.min(self.general);
        if self.ask_now(flow, 0, bytes) {
            return Reservation::Granted;
        }
        let ticket = self.next;
        self.next = self.next.wrapping_add(1);
        let at = self.line_of(flow);
        match at.and_then(|at| self.lines.get_mut(at)) {
            Some(line) => line.calls.push_back((ticket, bytes)),
            None => self.lines.push(Line {
                flow: Arc::clone(flow),
                served: self.turns,
                calls: VecDeque::from([(ticket, bytes)]),
            }),
        }
        Reservation::Waits(ticket)
    }

    /// Reserves more for a holder of `own` bytes, unless a call that waits has precedence.
    pub(crate) fn ask_now(&mut self, flow: &Arc<Flow>, own: u64, bytes: u64) -> bool {
        if self.lines.is_empty() {
            return self.grow(flow, own, bytes);
        }
        if self.line_of(flow).is_some() {
            return false;
        }
        let way = self.way(Some((self.used(flow), flow.running() + bytes)));
        let waits = way.open.or(way.head).is_some() || way.closed.contains(&flow.no);
        !waits && self.grow(flow, own, bytes)
    }

    /// Grants growth to a running holder of `own` bytes, before waiting calls: they wait for its
    /// end.
    pub(crate) fn grow(&mut self, flow: &Arc<Flow>, own: u64, bytes: u64) -> bool {
        if self.lack(flow, own, bytes) != Lack::default() {
            return false;
        }
        self.take(flow, bytes);
        true
    }

    /// Grants growth from the reserve, unless another holder draws on it.
    pub(crate) fn borrow(&mut self, holder: u64, bytes: u64) -> bool {
        let free = self.reserve - self.borrowed;
        if bytes > free || self.borrower.is_some_and(|other| other != holder) {
            return false;
        }
        self.borrower = Some(holder);
        self.borrowed += bytes;
        true
    }

    /// Returns the holder's part of the reserve.
    pub(crate) fn repay(&mut self, holder: u64) {
        if self.borrower == Some(holder) {
            self.borrower = None;
            self.borrowed = 0;
        }
    }

    /// Takes memory of a plugin back. Returns the tickets that are granted now.
    pub(crate) fn give_back(&mut self, no: PluginNo, bytes: u64) -> Vec<Ticket> {
        self.held = self.held.saturating_sub(bytes);
        if let Some(held) = self.plugins.get_mut(&no) {
            *held = held.saturating_sub(bytes);
            if *held == 0 {
                self.plugins.remove(&no);
            }
        }
        self.pump()
    }

    /// Counts the memory that a call of a flow has held, times how long it did.
    pub(crate) fn charge(&self, flow: &Flow, used: u64) {
        flow.set_used(self.used(flow).saturating_add(used));
    }

    /// Removes a waiting call. False: its reservation was granted already.
    pub(crate) fn cancel(&mut self, flow: &Arc<Flow>, ticket: Ticket) -> (bool, Vec<Ticket>) {
        let mut waited = false;
        for line in &mut self.lines {
            if Arc::ptr_eq(&line.flow, flow) {
                let before = line.calls.len();
                line.calls.retain(|(other, _)| *other != ticket);
                waited = line.calls.len() < before;
            }
        }
        self.lines.retain(|line| !line.calls.is_empty());
        // The calls behind it may need less.
        (waited, self.pump())
    }

    /// The bytes that the next call lacks in total.
    pub(crate) fn head_shortfall(&self) -> Option<u64> {
        let way = self.way(None);
        let line = self.lines.get(way.open.or(way.head)?)?;
        Some(self.first(line).any)
    }

    /// The plugins of the calls that wait for their own share, and the bytes that each lacks.
    pub(crate) fn own_lacks(&self) -> Vec<(PluginNo, u64)> {
        let lacks = self.lines.iter().map(|line| {
            let lack = self.first(line);
            (line.flow.no, lack.plugin.max(lack.flow))
        });
        lacks.filter(|(_, own)| *own > 0).collect()
    }

    /// Whether a call waits for memory that this plugin holds.
    pub(crate) fn is_wanted(&self, no: PluginNo) -> bool {
        self.lines.iter().any(|line| line.flow.no == no) || self.way(None).head.is_some()
    }

    /// The bytes that are lacking to grant so many more to a holder of `own` bytes.
    pub(crate) fn lack(&self, flow: &Flow, own: u64, bytes: u64) -> Lack {
        let held = self.plugins.get(&flow.no).copied().unwrap_or(0);
        // A single holder may have more than the share.
        let allowed = self.share().max(own + bytes);
        let running = flow.running().max(own);
        let free = self
            .share()
            .saturating_sub(held)
            .min(self.general - self.held);
        let stays_free = (running + bytes).div_ceil(PER_FREE);
        Lack {
            flow: match running > own {
                true => (bytes + stays_free).saturating_sub(free),
                false => 0,
            },
            plugin: (held + bytes).saturating_sub(allowed),
            any: (self.held + bytes).saturating_sub(self.general),
        }
    }

    /// Grants all reservations that fit. Must be called after memory was granted at once, because a
    /// plugin that has grown to its share lets others go before it, and after a flow has ended a call.
    pub(crate) fn pump(&mut self) -> Vec<Ticket> {
        let mut granted = Vec::new();
        while let Some(at) = self.way(None).open {
            let Some(line) = self.lines.get_mut(at) else {
                break;
            };
            let Some((ticket, bytes)) = line.calls.pop_front() else {
                break;
            };
            self.turns += 1;
            line.served = self.turns;
            let flow = Arc::clone(&line.flow);
            if line.calls.is_empty() {
                self.lines.swap_remove(at);
            }
            self.floor = self.used(&flow);
            self.take(&flow, bytes);
            granted.push(ticket);
        }
        granted
    }

    /// The most that one plugin may hold.
    fn share(&self) -> u64 {
        self.general - self.general / 4
    }

    fn used(&self, flow: &Flow) -> u64 {
        flow.used().max(self.floor)
    }

    fn line_of(&self, flow: &Arc<Flow>) -> Option<usize> {
        self.lines
            .iter()
            .position(|line| Arc::ptr_eq(&line.flow, flow))
    }

    /// What the first call of a line lacks.
    fn first(&self, line: &Line) -> Lack {
        let bytes = line.calls.front().map_or(0, |(_, bytes)| *bytes);
        self.lack(&line.flow, 0, bytes)
    }

    /// Looks through the waiting calls in their order; with a call that does not wait, only through
    /// those that go before it. The call is what its flow has used, and what its flow would hold.
    fn way(&self, before: Option<(u64, u64)>) -> Way {
        let mut way = Way::default();
        let mut order: Vec<_> = self.lines.iter().enumerate().collect();
        let rank = |line: &Line| {
            let (ticket, bytes) = line.calls.front().copied().unwrap_or_default();
            let (used, size) = (self.used(&line.flow), line.flow.running() + bytes);
            (used, size, line.served, ticket)
        };
        order.sort_by_cached_key(|(_, line)| rank(line));
        for (at, line) in order {
            let (used, size, ..) = rank(line);
            if before.is_some_and(|before| (used, size) > before) {
                break;
            }
            let no = line.flow.no;
            if way.closed.contains(&no) {
                continue;
            }
            match self.first(line) {
                Lack { flow, .. } if flow > 0 => {}
                Lack { plugin, .. } if plugin > 0 => way.closed.push(no),
                Lack { any, .. } if any > 0 => {
                    way.head = Some(at);
                    break;
                }
                _ => {
                    way.open = Some(at);
                    break;
                }
            }
        }
        way
    }

    fn take(&mut self, flow: &Flow, bytes: u64) {
        self.held += bytes;
        *self.plugins.entry(flow.no).or_default() += bytes;
        flow.more(bytes);
    }
}

#[cfg(test)]
mod tests;
