//! How the operations reach the store, and their common parts.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use windlass_keys::export::ExportKeys;
use windlass_model::{Clock, Digest, Numbers, RunNo};
use windlass_store::{Listener, Store, Verb, Writer as _};

use super::edition::OfEdition;
use super::{Resources, Turns, as_member};
use crate::catalog::Catalog;
use crate::error::Error;
use crate::lookout::{Lookout, RunWatch};
use crate::runtime::Runtime;
use crate::scheduler::core::Event;

/// The operations on runs, for any process.
///
/// Made by [`Operations::local`] in a process that runs workflows, and by
/// [`Operations::detached`] in any other process on the same store. The operations are the
/// same. A change to a run is written durably and carried out by the owner of the run: an
/// operation holds no lock. Operations with a `patience` wait up to that time for the change; zero does not
/// wait.
///
/// The futures have to be polled inside a tokio runtime. Blocking work runs on the runtime's
/// threads for blocking tasks: [`Operations::TURNS`] operations at once, unless the caller sets
/// another bound. Clones share the bound.
#[derive(Clone)]
pub struct Operations {
    pub(super) inner: Arc<OperationsInner>,
    turns: Turns,
    exports: Option<Arc<ExportKeys>>,
}

pub(crate) struct OperationsInner {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    place: Attachment,
    lookout: OnceLock<OwnLookout>,
    /// The published definitions of workflows, by name.
    pub(super) published: OfEdition<String, Digest>,
    /// The turn to render the input of an execution again.
    pub(super) rendering: Mutex<()>,
}

/// How the operations reach the store.
enum Attachment {
    /// In a process that runs workflows: they use its numbers, waiters and shards.
    Local(Arc<Runtime>),
    /// In any other process: they compile definitions, on plugins that are loaded
    /// when an operation needs them.
    Detached(Box<Catalog>, Arc<dyn Resources>),
}

/// The watched runs of a process without a runtime.
struct OwnLookout {
    lookout: Arc<Lookout>,
    _listener: Option<Listener>,
}

impl Operations {
    /// The number of operations that use the store at once. Further operations wait.
    pub const TURNS: usize = 64;

    /// The operations in a process that runs workflows.
    pub fn local(runtime: &Arc<Runtime>) -> Self {
        let shared = &runtime.shared;
        let (store, clock) = (
            Arc::clone(&shared.base.store),
            Arc::clone(&shared.base.clock),
        );
        Self::new(store, clock, Attachment::Local(Arc::clone(runtime)))
    }

    /// The operations in any process on the store. The process is a member of the store only while it
    /// writes rows that need a number.
    pub fn detached(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        resources: Arc<dyn Resources>,
    ) -> Self {
        Self::new(
            store,
            clock,
            Attachment::Detached(Box::default(), resources),
        )
    }

    fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, place: Attachment) -> Self {
        let inner = OperationsInner {
            store,
            clock,
            place,
            lookout: OnceLock::new(),
            published: OfEdition::default(),
            rendering: Mutex::new(()),
        };
        Self {
            inner: Arc::new(inner),
            turns: Turns::new(Self::TURNS),
            exports: None,
        }
    }

    /// The same operations with these keys for exports and imports. Otherwise local operations use the
    /// keys of their process, and detached ones use their resources.
    #[must_use]
    pub fn with_exports(self, keys: Arc<ExportKeys>) -> Self {
        let exports = Some(keys);
        Self { exports, ..self }
    }

    /// The keys that sign exports.
    pub(super) fn exports(&self) -> Result<Arc<ExportKeys>, Error> {
        match &self.exports {
            Some(keys) => Ok(Arc::clone(keys)),
            None => self.inner.resources().exports(),
        }
    }

    /// The same operations, with a bound that the caller shares between all its work on the store.
    #[must_use]
    pub fn with_turns(self, turns: Turns) -> Self {
        Self { turns, ..self }
    }

    /// Runs a blocking operation when it has a turn.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&OperationsInner) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let inner = Arc::clone(&self.inner);
        let asked = self.turns.next().await.spend(move || ask(&inner));
        asked.await.map_err(std::io::Error::from)?
    }

    /// Watches a run: a change that is committed after this call is reported, by any process. The
    /// caller reads the run after it.
    ///
    /// # Errors
    ///
    /// The operations have ended.
    pub async fn watch(&self, no: RunNo) -> Result<RunWatch, Error> {
        if self.inner.runtime().is_none() && self.inner.lookout.get().is_none() {
            self.ask(|inner| {
                inner.lookout();
                Ok(())
            })
            .await?;
        }
        Ok(self.inner.lookout().watch(no))
    }

    /// Runs a blocking operation on this thread.
    #[cfg(test)]
    pub(crate) fn now<T>(&self, ask: impl FnOnce(&OperationsInner) -> T) -> T {
        ask(&self.inner)
    }
}

impl OperationsInner {
    pub(super) fn runtime(&self) -> Option<&Arc<Runtime>> {
        match &self.place {
            Attachment::Local(runtime) => Some(runtime),
            Attachment::Detached(..) => None,
        }
    }

    pub(super) fn catalog(&self) -> &Catalog {
        match &self.place {
            Attachment::Local(runtime) => &runtime.shared.base.catalog,
            Attachment::Detached(catalog, _) => catalog,
        }
    }

    /// The parts that only some operations need.
    pub(super) fn resources(&self) -> &dyn Resources {
        match &self.place {
            Attachment::Local(runtime) => runtime.as_ref(),
            Attachment::Detached(_, resources) => resources.as_ref(),
        }
    }

    /// Runs an operation that takes numbers, and notifies all processes.
    pub(super) fn numbered<T>(
        &self,
        ask: impl FnOnce(&Numbers) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Some(runtime) = self.runtime() else {
            return as_member(self.store.as_ref(), self.clock.wall_ms(), ask);
        };
        let answer = ask(&runtime.membership.numbers())?;
        self.told();
        Ok(answer)
    }

    /// Writes a verb that takes no numbers, and notifies all processes.
    pub(super) fn tell<V: Verb>(&self, verb: V) -> Result<V::Answer, Error> {
        let answer = self.store.write(verb)?;
        self.told();
        Ok(answer)
    }

    pub(super) fn told(&self) {
        self.store.notify();
        if let Some(runtime) = self.runtime() {
            runtime.shared.intake.scheduler.send(Event::Woken);
        }
    }

    /// The runs that this process watches. Blocks at the first call of a process without a runtime.
    fn lookout(&self) -> &Arc<Lookout> {
        if let Some(runtime) = self.runtime() {
            return &runtime.shared.listeners.lookout;
        }
        let own = self.lookout.get_or_init(|| {
            let lookout = Lookout::new(Arc::clone(&self.store), Arc::clone(&self.clock));
            let hearing = Arc::clone(&lookout);
            // Without notifications, a look each second finds the changes.
            let listener = self.store.listen(Box::new(move |news| hearing.hear(news)));
            OwnLookout {
                lookout,
                _listener: listener.ok(),
            }
        });
        &own.lookout
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::sync::mpsc::channel;
    use std::task::{Context, Poll, Waker};

    use windlass_plugins::{Host, Options};
    use windlass_store::memory::MemoryStore;

    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn abandoned_operations_leave_no_more_work_behind_than_there_are_turns() {
        let dir = tempfile::tempdir().unwrap();
        let tokio = tokio::runtime::Runtime::new().unwrap();
        let _inside = tokio.enter();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = MemoryStore::new(Arc::clone(&clock));
        let options = Options::in_dir(dir.path());
        let host = Host::start(options, Arc::clone(&clock), tokio.handle().clone()).unwrap();
        let client = Operations::detached(store, clock, Arc::new(host));
        let client = client.with_turns(Turns::new(1));
        let mut context = Context::from_waker(Waker::noop());
        // Each pending operation holds a clone while it exists.
        let alive = Arc::new(());
        let (answer, answered) = channel::<()>();
        let answered = Arc::new(parking_lot::Mutex::new(answered));
        for _ in 0..1_000 {
            let (alive, answered) = (Arc::clone(&alive), Arc::clone(&answered));
            let asked = pin!(client.ask(move |_| {
                let _ = answered.lock().recv();
                drop(alive);
                Ok(())
            }));
            assert!(matches!(asked.poll(&mut context), Poll::Pending));
        }
        assert_eq!(Arc::strong_count(&alive), 2, "this one, and that at work");
        drop(answer);
        tokio.block_on(client.ask(|_| Ok(()))).unwrap();
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
