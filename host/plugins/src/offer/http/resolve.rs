//! Resolves names to addresses.
//!
//! The system's resolver blocks its thread until the name server answers, and cannot be
//! interrupted. So each lookup has a thread of its own and one of a few slots, which it holds until
//! it has really ended: a silent name server takes threads from no other part of the process, and
//! callers beyond the slots fail after a moment. Callers that ask for the same name share a lookup,
//! and a failed one is remembered for a few seconds.
//!
//! A successful lookup is not remembered: the caller checks and uses the addresses of this answer,
//! and the next caller looks the name up again.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use windlass_model::Clock;

/// How long a caller waits for a slot.
const ROOM: Duration = Duration::from_secs(1);
/// How long a failed lookup is remembered.
const FAILED: Duration = Duration::from_secs(5);
/// Failed lookups that are remembered.
const MAX_FAILED: usize = 1024;
/// The longest name (RFC 1035, section 3.1), with a dot at its end.
const MAX_NAME: usize = 254;
/// Addresses of one name that are used.
const MAX_ADDRESSES: usize = 64;

/// The addresses of a name, with any port.
pub(crate) type Lookup = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Calls the system's resolver on the calling thread.
pub(crate) fn system(name: &str) -> io::Result<Vec<SocketAddr>> {
    Ok((name, 0).to_socket_addrs()?.collect())
}

/// Why a name has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unresolved {
    /// The name has no address, or the system cannot find out.
    #[error("has no address")]
    Missing,
    /// The lookup has not ended in time. It continues, and holds its slot.
    #[error("cannot be looked up: the name server does not answer in time")]
    Silent,
    /// Other lookups hold all slots.
    #[error("cannot be looked up: the name server does not answer the lookups of other names")]
    Full,
}

type Found = Result<Arc<[SocketAddr]>, Unresolved>;

/// Looks names up, for all plugins.
pub(crate) struct Resolver(Arc<ResolverInner>);

struct ResolverInner {
    lookup: Box<Lookup>,
    clock: Arc<dyn Clock>,
    /// Held by lookups that have not ended.
    slots: Arc<Semaphore>,
    /// How long a caller waits for a lookup.
    patience: Duration,
    names: Mutex<Names>,
}

#[derive(Default)]
struct Names {
    /// Lookups that have not ended: at most one for each slot.
    asked: HashMap<String, PendingLookup>,
    /// Lookups that were started.
    begun: u64,
    /// Until when failed lookups are remembered.
    failed: HashMap<String, Duration>,
    /// The same names, in the order in which they are forgotten.
    oldest: VecDeque<(Duration, String)>,
}

struct PendingLookup {
    since: Duration,
    answer: watch::Receiver<Option<Found>>,
}

/// A lookup in progress. Its end returns the slot and notifies the waiting callers.
struct Asking {
    shared: Arc<ResolverInner>,
    name: String,
    answer: watch::Sender<Option<Found>>,
    _slot: OwnedSemaphorePermit,
}

impl Resolver {
    /// At most `slots` lookups at once; a caller waits for one as long as `patience`.
    pub(crate) fn new(
        lookup: Box<Lookup>,
        slots: usize,
        patience: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self(Arc::new(ResolverInner {
            lookup,
            clock,
            slots: Arc::new(Semaphore::new(slots.max(1))),
            patience,
            names: Mutex::default(),
        }))
    }

    /// The addresses of a name, with port 0.
    pub(crate) async fn resolve(&self, name: &str) -> Found {
        if name.len() > MAX_NAME {
            return Err(Unresolved::Missing);
        }
        let mut answer = match self.0.known(name)? {
            Some(answer) => answer,
            None => {
                let slot = Arc::clone(&self.0.slots).acquire_owned();
                // The semaphore is never closed.
                let Ok(Ok(slot)) = tokio::time::timeout(ROOM, slot).await else {
                    return Err(Unresolved::Full);
                };
                self.ask(name, slot)?
            }
        };
        let ended = answer.wait_for(Option::is_some);
        match tokio::time::timeout(self.0.patience, ended).await {
            Ok(Ok(found)) => found.clone().unwrap_or(Err(Unresolved::Missing)),
            // The lookup panicked.
            Ok(Err(_)) => Err(Unresolved::Missing),
            Err(_) => Err(Unresolved::Silent),
        }
    }

    /// Starts a lookup, unless another caller has started one meanwhile.
    fn ask(
        &self,
        name: &str,
        slot: OwnedSemaphorePermit,
    ) -> Result<watch::Receiver<Option<Found>>, Unresolved> {
        let shared = &self.0;
        let mut names = shared.names.lock();
        if let Some(answer) = names.known(name, shared.clock.monotonic(), shared.patience)? {
            return Ok(answer);
        }
        let (sender, answer) = watch::channel(None);
        let asked = PendingLookup {
            since: shared.clock.monotonic(),
            answer: answer.clone(),
        };
        names.asked.insert(name.to_owned(), asked);
        names.begun += 1;
        let thread = format!("lookup-{}", names.begun);
        drop(names);
        let asking = Asking {
            shared: Arc::clone(shared),
            name: name.to_owned(),
            answer: sender,
            _slot: slot,
        };
        // Dropping a lookup that gets no thread ends it.
        let thread = std::thread::Builder::new().name(thread);
        match thread.spawn(move || asking.run()) {
            Ok(_) => Ok(answer),
            Err(_) => Err(Unresolved::Full),
        }
    }
}

impl ResolverInner {
    fn known(&self, name: &str) -> Result<Option<watch::Receiver<Option<Found>>>, Unresolved> {
        let now = self.clock.monotonic();
        self.names.lock().known(name, now, self.patience)
    }
}

impl Names {
    /// A lookup in progress for the name, or a recent failure.
    fn known(
        &self,
        name: &str,
        now: Duration,
        patience: Duration,
    ) -> Result<Option<watch::Receiver<Option<Found>>>, Unresolved> {
        if self.failed.get(name).is_some_and(|until| now < *until) {
            return Err(Unresolved::Missing);
        }
        match self.asked.get(name) {
            Some(asked) if now.saturating_sub(asked.since) > patience => Err(Unresolved::Silent),
            Some(asked) => Ok(Some(asked.answer.clone())),
            None => Ok(None),
        }
    }

    /// Remembers a failed lookup.
    fn fail(&mut self, name: &str, now: Duration) {
        while let Some((until, name)) = self.oldest.front() {
            if *until > now && self.oldest.len() < MAX_FAILED {
                break;
            }
            if self.failed.get(name) == Some(until) {
                self.failed.remove(name);
            }
            self.oldest.pop_front();
        }
        let until = now.saturating_add(FAILED);
        self.failed.insert(name.to_owned(), until);
        self.oldest.push_back((until, name.to_owned()));
    }
}

impl Asking {
    fn run(self) {
        let found = (self.shared.lookup)(&self.name);
        let mut addresses = found.unwrap_or_default();
        addresses.truncate(MAX_ADDRESSES);
        let found = match addresses.is_empty() {
            true => Err(Unresolved::Missing),
            false => Ok(Arc::from(addresses)),
        };
        {
            let mut names = self.shared.names.lock();
            names.asked.remove(&self.name);
            if found.is_err() {
                names.fail(&self.name, self.shared.clock.monotonic());
            }
        }
        // Callers that are gone need no answer.
        let _ = self.answer.send(Some(found));
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // A lookup that panicked, or that got no thread, is still recorded.
        let mut names = self.shared.names.lock();
        let own = names
            .asked
            .get(&self.name)
            .is_some_and(|asked| asked.answer.same_channel(&self.answer.subscribe()));
        if own {
            names.asked.remove(&self.name);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
