//! The locks that are held inside this process.
//!
//! Callers of one process exclude each other here, before a backend is involved. A caller is the
//! current task or, outside of tasks, the current thread: a caller that requests a key which it
//! holds would wait for itself, and gets an error at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::key::Key;
use crate::provider::Error;

/// A caller of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Task(tokio::task::Id),
    Thread(ThreadId),
}

impl Caller {
    /// The caller that polls at this moment.
    pub(crate) fn current() -> Self {
        match tokio::task::try_id() {
            Some(task) => Self::Task(task),
            None => Self::Thread(std::thread::current().id()),
        }
    }
}

/// The keys that this process holds or is requesting.
#[derive(Default)]
pub(crate) struct Local {
    held: Mutex<HashMap<Key, Slot>>,
}

struct Slot {
    /// None while it is being released: waiting for it is no deadlock then.
    caller: Option<Caller>,
    free: Arc<Notify>,
}

/// A key that is reserved inside this process until this is dropped.
pub(crate) struct LocalHold {
    local: Arc<Local>,
    key: Key,
}

impl Local {
    /// Reserves a key inside this process; none if another caller has it.
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

    /// Waits until another caller in this process frees the key, for at most `at_most`.
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
    /// Marks the key as being released.
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
