//! Who holds what inside this process.
//!
//! Callers of one process exclude each other here, before any backend is asked. A caller is the
//! task that asks or, outside of tasks, the thread: whoever holds a key and asks for it again
//! would wait for itself, and is told so at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::key::Key;
use crate::provider::Error;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Task(tokio::task::Id),
    Thread(ThreadId),
}

impl Caller {
    /// Whoever polls at this moment.
    pub(crate) fn current() -> Self {
        match tokio::task::try_id() {
            Some(task) => Self::Task(task),
            None => Self::Thread(std::thread::current().id()),
        }
    }
}

/// The keys that this process holds or is asking for.
#[derive(Default)]
pub(crate) struct Local {
    held: Mutex<HashMap<Key, Slot>>,
}

struct Slot {
    /// None while it is being given back: nobody waits for itself then.
    caller: Option<Caller>,
    free: Arc<Notify>,
}

/// A key, held against the rest of this process until it is dropped.
pub(crate) struct LocalHold {
    local: Arc<Local>,
    key: Key,
}

impl Local {
    /// Takes a key inside this process; none if another caller has it.
    pub(crate) fn enter(
        self: &Arc<Self>,
        key: &Key,
        caller: Caller,
    ) -> Result<Option<LocalHold>, Error> {
        let mut held = self.held.lock();
        if let Some(slot) = held.get(key) {
            if slot.caller == Some(caller) {
                return Err(Error::Reentrant(key.clone()));
            }
            return Ok(None);
        }
        let slot = Slot {
            caller: Some(caller),
            free: Arc::default(),
        };
        held.insert(key.clone(), slot);
        Ok(Some(LocalHold {
            local: Arc::clone(self),
            key: key.clone(),
        }))
    }

    /// Waits until somebody in this process gives the key back, or for so long.
    pub(crate) async fn wait(&self, key: &Key, at_most: Duration) {
        let free = match self.held.lock().get(key) {
            Some(slot) => Arc::clone(&slot.free),
            None => return,
        };
        let hears = free.notified();
        tokio::pin!(hears);
        hears.as_mut().enable();
        if self
            .held
            .lock()
            .get(key)
            .is_some_and(|slot| Arc::ptr_eq(&slot.free, &free))
        {
            let _ = tokio::time::timeout(at_most, hears).await;
        }
    }
}

impl LocalHold {
    /// From here on it is being given back.
    pub(crate) fn leaving(&self) {
        if let Some(slot) = self.local.held.lock().get_mut(&self.key) {
            slot.caller = None;
        }
    }
}

impl Drop for LocalHold {
    fn drop(&mut self) {
        if let Some(slot) = self.local.held.lock().remove(&self.key) {
            slot.free.notify_waiters();
        }
    }
}
