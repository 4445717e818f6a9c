//! The memory budget: a state machine without threads, clocks or memory.
//!
//! The total is divided in two. Calls reserve from the *general* part before they begin; while they
//! wait for it in a queue, they hold nothing of it. The *reserve* is for growth beyond the
//! reservation, and one holder at a time may draw on it. Growth never waits: it is granted or
//! refused at once. So every holder continues, ends and returns its memory, and no waiting call
//! depends on another waiting call.
//!
//! Waiting calls are queued by plugin, and the plugins take turns. The plugin whose turn it is gets
//! room before all later ones, however much it needs. A plugin never holds more than three quarters
//! of the general part, unless it has a single holder that needs more; a plugin that waits for its
//! own share does not block others.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// Identifies a plugin.
pub(crate) type PluginNo = u64;
/// Identifies a waiting call.
pub(crate) type Ticket = u64;

/// The held memory and the waiting calls.
#[derive(Debug, Default)]
pub(crate) struct Core {
    general: u64,
    reserve: u64,
    held: u64,
    borrower: Option<u64>,
    borrowed: u64,
    plugins: FxHashMap<PluginNo, Plugin>,
    /// Plugins with waiting calls; the front one is next.
    ring: VecDeque<PluginNo>,
    next: Ticket,
}

#[derive(Debug, Default)]
struct Plugin {
    held: u64,
    waiting: VecDeque<(Ticket, u64)>,
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
    /// By this plugin.
    pub(crate) own: u64,
    /// By any plugin.
    pub(crate) any: u64,
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

    /// Reserves memory for a plugin, at most [`Core::most`], or queues the call.
    pub(crate) fn ask(&mut self, no: PluginNo, bytes: u64) -> Reservation {
        let bytes = bytes.min(self.general);
        if self.ask_now(no, 0, bytes) {
            return Reservation::Granted;
        }
        let ticket = self.next;
        self.next = self.next.wrapping_add(1);
        let plugin = self.plugins.entry(no).or_default();
        if plugin.waiting.is_empty() {
            self.ring.push_back(no);
        }
        plugin.waiting.push_back((ticket, bytes));
        Reservation::Waits(ticket)
    }

    /// Reserves more for a holder of `own` bytes, unless a call that waits has precedence.
    pub(crate) fn ask_now(&mut self, no: PluginNo, own: u64, bytes: u64) -> bool {
        let overtakes = self.next_in_line().is_some()
            || self
                .plugins
                .get(&no)
                .is_some_and(|plugin| !plugin.waiting.is_empty());
        !overtakes && self.grow(no, own, bytes)
    }

    /// Grants growth to a running holder of `own` bytes, before waiting calls: they wait for its
    /// end.
    pub(crate) fn grow(&mut self, no: PluginNo, own: u64, bytes: u64) -> bool {
        if self.lack(no, own, bytes) != Lack::default() {
            return false;
        }
        self.take(no, bytes);
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

    /// Takes memory back. Returns the tickets that are granted now.
    pub(crate) fn give_back(&mut self, no: PluginNo, bytes: u64) -> Vec<Ticket> {
        self.held = self.held.saturating_sub(bytes);
        if let Some(plugin) = self.plugins.get_mut(&no) {
            plugin.held = plugin.held.saturating_sub(bytes);
        }
        self.forget(no);
        self.pump()
    }

    /// Removes a waiting call. False: its reservation was granted already.
    pub(crate) fn cancel(&mut self, no: PluginNo, ticket: Ticket) -> (bool, Vec<Ticket>) {
        let Some(plugin) = self.plugins.get_mut(&no) else {
            return (false, Vec::new());
        };
        let before = plugin.waiting.len();
        plugin.waiting.retain(|(other, _)| *other != ticket);
        let waited = plugin.waiting.len() < before;
        if plugin.waiting.is_empty() {
            self.ring.retain(|other| *other != no);
        }
        self.forget(no);
        // The calls behind it may need less.
        (waited, self.pump())
    }

    /// The bytes that the next call lacks in total.
    pub(crate) fn head_shortfall(&self) -> Option<u64> {
        let no = self.next_in_line()?;
        Some(self.lack(no, 0, self.first(no)?).any)
    }

    /// The plugins that wait for their own share, and the bytes that each lacks.
    pub(crate) fn own_lacks(&self) -> Vec<(PluginNo, u64)> {
        let lack = |no: &PluginNo| Some((*no, self.lack(*no, 0, self.first(*no)?).own));
        let lacks = self.ring.iter().filter_map(lack);
        lacks.filter(|(_, own)| *own > 0).collect()
    }

    /// Whether a call waits for memory that this plugin holds.
    pub(crate) fn is_wanted(&self, no: PluginNo) -> bool {
        self.next_in_line().is_some() || self.first(no).is_some()
    }

    /// The bytes that are lacking to grant so many more to a holder of `own` bytes.
    pub(crate) fn lack(&self, no: PluginNo, own: u64, bytes: u64) -> Lack {
        let held = self.plugins.get(&no).map_or(0, |plugin| plugin.held);
        // A single holder may have more than the share.
        let allowed = self.share().max(own + bytes);
        Lack {
            own: (held + bytes).saturating_sub(allowed),
            any: (self.held + bytes).saturating_sub(self.general),
        }
    }

    /// The most that one plugin may hold.
    fn share(&self) -> u64 {
        self.general - self.general / 4
    }

    /// The bytes that this plugin's first waiting call needs.
    fn first(&self, no: PluginNo) -> Option<u64> {
        let (_, bytes) = self.plugins.get(&no)?.waiting.front()?;
        Some(*bytes)
    }

    /// The plugin whose turn it is, except those that wait for their own share.
    fn next_in_line(&self) -> Option<PluginNo> {
        let mut ring = self.ring.iter().copied();
        ring.find(|no| {
            self.first(*no)
                .is_some_and(|bytes| self.lack(*no, 0, bytes).own == 0)
        })
    }

    /// Grants all reservations that fit. Must be called after [`Core::grow`]: a plugin that has
    /// grown to its share loses its turn, and the next one may find room.
    pub(crate) fn pump(&mut self) -> Vec<Ticket> {
        let mut granted = Vec::new();
        while let Some(no) = self.next_in_line() {
            let Some(plugin) = self.plugins.get_mut(&no) else {
                break;
            };
            let Some((ticket, bytes)) = plugin.waiting.front().copied() else {
                break;
            };
            if self.held + bytes > self.general {
                break;
            }
            plugin.waiting.pop_front();
            let more = !plugin.waiting.is_empty();
            self.take(no, bytes);
            self.ring.retain(|other| *other != no);
            if more {
                self.ring.push_back(no);
            }
            granted.push(ticket);
        }
        granted
    }

    fn take(&mut self, no: PluginNo, bytes: u64) {
        self.held += bytes;
        self.plugins.entry(no).or_default().held += bytes;
    }

    fn forget(&mut self, no: PluginNo) {
        let empty = |plugin: &Plugin| plugin.held == 0 && plugin.waiting.is_empty();
        if self.plugins.get(&no).is_some_and(empty) {
            self.plugins.remove(&no);
        }
    }
}

#[cfg(test)]
mod tests;
