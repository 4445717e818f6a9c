//! A store in memory, for tests and simulation. It has the same semantics as the stores on disk,
//! one mutex, no thread of its own, and no randomness.
//!
//! The data is dropped with the last handle. Writes are answered on the submitting thread before
//! `submit` returns, unless a test decides when they are carried out and answered (see
//! [`MemoryStore::defer`]).

mod batches;
mod claim;
mod components;
mod data;
mod defer;
mod delivery;
mod drafts;
mod external;
mod forget;
mod hold;
mod import;
mod lives;
mod published;
mod readers;
mod scopes;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use windlass_model::{Clock, Incarnation, RunNo};

use self::data::Data;
use crate::error::{Error, Result};
use crate::externalise::externalise;
use crate::published::Edition;
use crate::write::{Sink, Ticket, Write, Wrote};
use crate::{ATTENTION_MS, Hear, Listener, News, Store, codes};

/// A fault that a test injects into a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written; the submitter is told that the disk is full.
    Full,
    /// Nothing is written; the submitter is told that the store cannot hold the write.
    Refused,
    /// The write is carried out; the submitter is told that its outcome is unknown.
    UnknownWritten,
    /// Nothing is written; the submitter is told that the outcome is unknown.
    UnknownNotWritten,
}

/// Decides about the fault of a write before it is carried out, and may change the write.
pub type Faults = Box<dyn FnMut(&mut Write) -> Option<Fault> + Send>;

/// Receives every write of a handle after it was carried out. It runs while the handle is locked,
/// so it needs another handle to read.
pub type Witness = Box<dyn FnMut(&Seen<'_>) + Send>;

/// Receives the name of every reader that is called through a handle. It runs while the handle is
/// locked.
pub type ReadWitness = Box<dyn FnMut(&'static str) + Send>;

/// A write and its true outcome, even if the submitter is told otherwise.
#[derive(Debug)]
pub struct Seen<'a> {
    /// The write.
    pub write: &'a Write,
    /// The wall clock at its submission, in epoch milliseconds.
    pub submitted_ms: i64,
    /// The answer; none if the write was not carried out.
    pub wrote: Option<&'a Wrote>,
}

/// A listener: its number, its handle, and its function.
type Listening = (u64, u64, Arc<dyn Fn(News<'_>) + Send + Sync>);

/// The data that all handles of one store share.
struct Common {
    data: Mutex<Data>,
    listeners: Mutex<Vec<Listening>>,
    /// By handle: until when it attends, in monotonic milliseconds.
    attention: Mutex<FxHashMap<u64, u64>>,
    clock: Arc<dyn Clock>,
}

/// One handle of a store in memory. Each handle simulates a process: the members that joined
/// through it are dead once it is closed or dropped.
pub struct MemoryStore {
    common: Arc<Common>,
    own: Mutex<Own>,
    /// The number that tells this handle from the others.
    handle: u64,
}

#[derive(Default)]
struct Own {
    joined: Vec<Incarnation>,
    faults: Option<Faults>,
    witness: Option<Witness>,
    read_witness: Option<ReadWitness>,
    /// How many more reads of a definition fail.
    unread: u32,
    deferred: Option<defer::Deferred>,
    closed: bool,
}

impl MemoryStore {
    /// An empty store. Leases use the monotonic time of the clock.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let common = Common {
            data: Mutex::default(),
            listeners: Mutex::default(),
            attention: Mutex::default(),
            clock,
        };
        Self::handle_on(&Arc::new(common))
    }

    /// A handle that simulates another process on the same store.
    pub fn another(&self) -> Arc<Self> {
        Self::handle_on(&self.common)
    }

    /// Installs a hook that injects faults into the writes of this handle.
    pub fn set_faults(&self, faults: Option<Faults>) {
        self.own.lock().faults = faults;
    }

    /// Makes the next `times` reads of a definition fail.
    pub fn set_unread(&self, times: u32) {
        self.own.lock().unread = times;
    }

    /// Installs a witness of every write through this handle.
    pub fn set_witness(&self, witness: Option<Witness>) {
        self.own.lock().witness = witness;
    }

    /// Installs a witness of every read through this handle.
    pub fn set_read_witness(&self, witness: Option<ReadWitness>) {
        self.own.lock().read_witness = witness;
    }

    fn handle_on(common: &Arc<Common>) -> Arc<Self> {
        let handle = common.data.lock().next_handle();
        Arc::new(Self {
            common: Arc::clone(common),
            own: Mutex::default(),
            handle,
        })
    }

    /// Passes news to the listeners of the other handles that meet a condition.
    fn tell(&self, news: News<'_>, is_told: impl Fn(u64) -> bool) {
        let listeners = self.common.listeners.lock().clone();
        for (_, handle, hear) in listeners {
            if handle != self.handle && is_told(handle) {
                hear(news);
            }
        }
    }

    fn execute(&self, own: &mut Own, mut write: Write, submitted_ms: i64) -> Result<Wrote> {
        externalise(&mut write);
        if own.closed {
            return Err(Error::closed());
        }
        let fault = own.faults.as_mut().and_then(|faults| faults(&mut write));
        let unknown = || {
            let text = "it is not known whether the write lasts";
            Err(Error::new(codes::UNKNOWN_OUTCOME, text).transient())
        };
        match fault {
            Some(Fault::Full) => {
                let text = "there is no room left for the store";
                return Err(Error::new(codes::FULL, text).transient());
            }
            Some(Fault::Refused) => {
                let text = "a write cannot be stored";
                return Err(Error::new(codes::CONTRADICTION, text));
            }
            Some(Fault::UnknownNotWritten) => return unknown(),
            Some(Fault::UnknownWritten) | None => {}
        }
        let now_ms = monotonic_ms(&*self.common.clock);
        let wrote = {
            let mut data = self.common.data.lock();
            data.now_ms = now_ms;
            data.carry_out(&write)
        };
        if let Ok(Wrote::Join(incarnation)) = &wrote {
            own.joined.push(*incarnation);
        }
        if let Some(witness) = &mut own.witness {
            witness(&Seen {
                write: &write,
                submitted_ms,
                wrote: wrote.as_ref().ok(),
            });
        }
        if fault == Some(Fault::UnknownWritten) {
            unknown()
        } else {
            wrote
        }
    }
}

impl Store for MemoryStore {
    fn submit(&self, sink: &Arc<dyn Sink>, writes: Vec<(Ticket, Write)>) {
        let submitted_ms = self.common.clock.wall_ms();
        let mut own = self.own.lock();
        if let Some(deferred) = &mut own.deferred {
            deferred.wait(sink, writes, submitted_ms);
            return;
        }
        let answers: Vec<_> = writes
            .into_iter()
            .map(|(ticket, write)| (ticket, self.execute(&mut own, write, submitted_ms)))
            .collect();
        drop(own);
        if !answers.is_empty() {
            sink.answered(answers);
        }
    }

    fn carry_out(&self, write: Write) -> Result<Wrote> {
        let submitted_ms = self.common.clock.wall_ms();
        let mut own = self.own.lock();
        // Writes that were submitted earlier are carried out first.
        self.execute_deferred(&mut own, usize::MAX);
        self.execute(&mut own, write, submitted_ms)
    }

    fn edition(&self) -> Option<Edition> {
        Some(Edition(self.common.data.lock().edition))
    }

    fn notify(&self) {
        self.tell(News::Work, |_| true);
    }

    fn attend(&self) {
        let until_ms = monotonic_ms(&*self.common.clock) + ATTENTION_MS;
        self.common.attention.lock().insert(self.handle, until_ms);
    }

    fn changed(&self, runs: &[RunNo]) {
        let now_ms = monotonic_ms(&*self.common.clock);
        let attention = self.common.attention.lock().clone();
        self.tell(News::Runs(runs), |handle| {
            let until_ms = attention.get(&handle);
            until_ms.is_some_and(|until_ms| now_ms < *until_ms)
        });
    }

    fn listen(&self, hear: Hear) -> Result<Listener> {
        let name = self.common.data.lock().next_handle();
        self.common
            .listeners
            .lock()
            .push((name, self.handle, Arc::from(hear)));
        Ok(Listener(Box::new(Subscription {
            common: Arc::clone(&self.common),
            name,
        })))
    }

    fn probe(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self) {
        let mut own = self.own.lock();
        own.closed = true;
        let mut data = self.common.data.lock();
        for incarnation in own.joined.drain(..) {
            data.dies(incarnation);
        }
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.close();
    }
}

struct Subscription {
    common: Arc<Common>,
    name: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.common
            .listeners
            .lock()
            .retain(|(name, _, _)| *name != self.name);
    }
}

fn monotonic_ms(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX)
}
