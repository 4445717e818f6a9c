//! Who may hold how much memory: a state machine without threads, clocks or memory.
//!
//! The total is divided in two. Calls reserve from the *general* part before they begin, and
//! wait for it in line while they hold nothing of it. The *reserve* is for growth beyond what
//! was reserved, and one holder at a time may draw on it. Growth never waits: it is granted or
//! refused at once. So whoever holds something goes on, comes to an end and gives it back, and
//! nobody waits for one who waits.
//!
//! Those who wait stand in line by plugin, and the plugins take turns. The one whose turn it is
//! gets room before all that came later, however much it needs. A plugin never holds more than
//! three quarters of the general part, unless one single holder needs more; a plugin that waits
//! for its own share keeps no other waiting.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// Tells plugins apart.
pub(crate) type PluginNo = u64;
/// Tells those who wait apart.
pub(crate) type Ticket = u64;

/// What is held, and who waits.
#[derive(Debug, Default)]
pub(crate) struct Core {
    general: u64,
    reserve: u64,
    held: u64,
    borrower: Option<u64>,
    borrowed: u64,
    plugins: FxHashMap<PluginNo, Plugin>,
    /// Plugins with somebody who waits; the front one is next.
    ring: VecDeque<PluginNo>,
    next: Ticket,
}

#[derive(Debug, Default)]
struct Plugin {
    held: u64,
    waiting: VecDeque<(Ticket, u64)>,
}

/// What becomes of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    Granted,
    Waits(Ticket),
}

/// What has to be given back before a reservation is granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lack {
    /// By this plugin.
    pub(crate) own: u64,
    /// By any.
    pub(crate) any: u64,
}

impl Core {
    /// A fourth of the total is the reserve, and no more of it than one holder can use.
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

    /// What is held, the reserve included.
    pub(crate) fn held(&self) -> u64 {
        self.held + self.borrowed
    }

    /// Reserves so much for a plugin, [`Core::most`] at the most; waits if it has to.
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

    /// Reserves so much more for one who holds `own`, if that overtakes nobody.
    pub(crate) fn ask_now(&mut self, no: PluginNo, own: u64, bytes: u64) -> bool {
        let overtakes = self.next_in_line().is_some()
            || self
                .plugins
                .get(&no)
                .is_some_and(|plugin| !plugin.waiting.is_empty());
        !overtakes && self.grow(no, own, bytes)
    }

    /// Lets one grow who holds `own` and is under way: before those who wait, because they
    /// wait for its end.
    pub(crate) fn grow(&mut self, no: PluginNo, own: u64, bytes: u64) -> bool {
        if self.lack(no, own, bytes) != Lack::default() {
            return false;
        }
        self.take(no, bytes);
        true
    }

    /// Lets one grow at the expense of the reserve, unless another one does already.
    pub(crate) fn borrow(&mut self, holder: u64, bytes: u64) -> bool {
        let free = self.reserve - self.borrowed;
        if bytes > free || self.borrower.is_some_and(|other| other != holder) {
            return false;
        }
        self.borrower = Some(holder);
        self.borrowed += bytes;
        true
    }

    /// Gives back what one has drawn on the reserve.
    pub(crate) fn repay(&mut self, holder: u64) {
        if self.borrower == Some(holder) {
            self.borrower = None;
            self.borrowed = 0;
        }
    }

    /// Gives something back. Answers who has what it waited for now.
    pub(crate) fn give_back(&mut self, no: PluginNo, bytes: u64) -> Vec<Ticket> {
        self.held = self.held.saturating_sub(bytes);
        if let Some(plugin) = self.plugins.get_mut(&no) {
            plugin.held = plugin.held.saturating_sub(bytes);
        }
        self.forget(no);
        self.pump()
    }

    /// One who waits does so no longer. False: it has what it waited for.
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
        // Those behind it may need less.
        (waited, self.pump())
    }

    /// What the next one lacks of what any plugin holds.
    pub(crate) fn next_lack(&self) -> Option<u64> {
        let no = self.next_in_line()?;
        Some(self.lack(no, 0, self.first(no)?).any)
    }

    /// The plugins that wait for their own share, and how much of it each lacks.
    pub(crate) fn own_lacks(&self) -> Vec<(PluginNo, u64)> {
        let lack = |no: &PluginNo| Some((*no, self.lack(*no, 0, self.first(*no)?).own));
        let lacks = self.ring.iter().filter_map(lack);
        lacks.filter(|(_, own)| *own > 0).collect()
    }

    /// Whether somebody waits for what this plugin holds.
    pub(crate) fn is_wanted(&self, no: PluginNo) -> bool {
        self.next_in_line().is_some() || self.first(no).is_some()
    }

    /// What a plugin would have to be given for so much more for one who holds `own`.
    pub(crate) fn lack(&self, no: PluginNo, own: u64, bytes: u64) -> Lack {
        let held = self.plugins.get(&no).map_or(0, |plugin| plugin.held);
        // One who is alone may have more than the share.
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

    /// What the first of this plugin's who wait needs.
    fn first(&self, no: PluginNo) -> Option<u64> {
        let (_, bytes) = self.plugins.get(&no)?.waiting.front()?;
        Some(*bytes)
    }

    /// The plugin whose turn it is, of those that do not wait for their own share.
    fn next_in_line(&self) -> Option<PluginNo> {
        let mut ring = self.ring.iter().copied();
        ring.find(|no| {
            self.first(*no)
                .is_some_and(|bytes| self.lack(*no, 0, bytes).own == 0)
        })
    }

    /// Grants what can be granted. To be called after [`Core::grow`]: a plugin that has grown
    /// to its share has no turn any more, and the next one may find room.
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
