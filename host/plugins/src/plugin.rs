//! A loaded plugin.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use wasmtime::component::{ComponentExportIndex, Instance, InstancePre, TypedFunc};
use windlass_model::Digest;
use windlass_model::metrics::Histogram;

use crate::bindings::{consumer, node};
use crate::budget::Peak;
use crate::codes;
use crate::description::{Consumer, Description, NodeType};
use crate::guest::Guest;
use crate::host::HostShared;
use crate::lane::{CallMode, Track};
use crate::options::{Grants, Isolation, Limits};
use crate::proof::{Signed, Standing};
use crate::quarantine::Quarantine;
use crate::slot::Slots;

/// A component that is compiled, checked and ready to be called. It is its digest: two files
/// with the same bytes are one plugin, and a running instance keeps the one it started with.
pub struct Plugin {
    /// SHA-256 of the component.
    pub digest: Digest,
    /// Where it was read from.
    pub file: PathBuf,
    /// What it says about itself.
    pub description: Description,
    /// Whether it can have side effects.
    pub purity: Purity,
    /// The interfaces that it imports, WASI's included, in order.
    pub imports: Vec<String>,
    /// Whether it can ask for memory or blobs.
    pub reads: bool,
    pub(crate) signature: Mutex<Option<Signed>>,
    pub(crate) shared: Arc<HostShared>,
    pub(crate) terms: Arc<Terms>,
    pub(crate) pre: InstancePre<Guest>,
    pub(crate) entries: Entries,
    pub(crate) slots: Slots,
    /// The memory that its calls take.
    pub(crate) peak: Peak,
    /// A plain call has found no room: the next ones wait for it on fibers.
    pub(crate) found_no_room: AtomicBool,
    pub(crate) quarantine: Quarantine,
    /// How long its calls take, in microseconds.
    pub(crate) calls: Arc<Histogram>,
    /// Its share of the fibers: never all of them, so that others get in beside it.
    pub(crate) fibers: Arc<Semaphore>,
    /// Some of its imports may wait, so that it can only run on a fiber.
    pub(crate) waits: bool,
}

/// Whether a plugin can have side effects, as its imports prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purity {
    /// It cannot.
    Pure,
    /// It imports `http` or `events`.
    Effectful,
}

/// What holds for every instance of a plugin.
pub(crate) struct Terms {
    pub(crate) name: String,
    pub(crate) limits: Limits,
    pub(crate) grants: Grants,
    pub(crate) standing: Standing,
    pub(crate) track: Arc<Track>,
}

impl Terms {
    /// Why nothing is granted, where settings of this name grant something.
    pub(crate) fn advice(&self) -> Option<String> {
        (self.standing == Standing::Unproved).then(|| {
            let code = codes::UNPROVED;
            let name = &self.name;
            format!("nothing proves that the grants of its name are for this {name} [{code}]")
        })
    }
}

/// Where the exports of a component are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    pub(crate) node_describe: Option<ComponentExportIndex>,
    pub(crate) execute: Option<ComponentExportIndex>,
    pub(crate) consumer_describe: Option<ComponentExportIndex>,
    pub(crate) accept: Option<ComponentExportIndex>,
}

pub(crate) type Execute =
    TypedFunc<(node::NodeRequest,), (Result<node::Outcome, node::NodeError>,)>;
pub(crate) type Decide =
    TypedFunc<(consumer::Trigger,), (Result<consumer::Disposition, consumer::ConsumerError>,)>;
pub(crate) type Describe = TypedFunc<(), (node::Payload,)>;

/// The exports of one instance.
pub(crate) struct Exports {
    pub(crate) execute: Option<Execute>,
    pub(crate) accept: Option<Decide>,
}

impl Exports {
    pub(crate) fn of(
        entries: &Entries,
        instance: &Instance,
        store: &mut wasmtime::Store<Guest>,
    ) -> wasmtime::Result<Self> {
        let execute = match &entries.execute {
            Some(index) => Some(instance.get_typed_func(&mut *store, index)?),
            None => None,
        };
        let accept = match &entries.accept {
            Some(index) => Some(instance.get_typed_func(&mut *store, index)?),
            None => None,
        };
        Ok(Self { execute, accept })
    }
}

impl Plugin {
    /// `package@version`, for people.
    pub fn name(&self) -> &str {
        &self.terms.name
    }

    /// Where it was read from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The node type of this name, without the package.
    pub fn node(&self, name: &str) -> Option<&Arc<NodeType>> {
        self.description.node(name)
    }

    /// Which triggers it is asked about, if it exports a consumer and is granted to be one.
    pub fn consumer(&self) -> Option<&Consumer> {
        let described = self.description.consumer.as_ref();
        described.filter(|_| self.terms.grants.consumer)
    }

    /// How the settings of its package apply to it.
    pub fn standing(&self) -> &Standing {
        &self.terms.standing
    }

    /// The signature that came with it, beside its file or otherwise, if the file is the component
    /// itself.
    pub fn signature(&self) -> Option<Signed> {
        self.signature.lock().clone()
    }

    /// Notes a signature that came later. One by a trusted key stays unless there is another one.
    pub(crate) fn sign(&self, signed: Option<Signed>) {
        let Some(signed) = signed else { return };
        let mut there = self.signature.lock();
        if signed.vouched || !there.as_ref().is_some_and(|there| there.vouched) {
            *there = Some(signed);
        }
    }

    /// Whether it gets no grants because nothing proves that they are about it.
    pub fn is_unproved(&self) -> bool {
        *self.standing() == Standing::Unproved
    }

    /// What each call may use.
    pub fn limits(&self) -> &Limits {
        &self.terms.limits
    }

    /// What it asks for and is given.
    pub fn grants(&self) -> &Grants {
        &self.terms.grants
    }

    /// How it is to be called now. Ask before each call: the answer changes.
    pub fn lane(&self) -> CallMode {
        let crowded =
            self.shared.slow_inline.load(Ordering::Relaxed) >= self.shared.options.max_slow_inline;
        // A plain call cannot wait for room.
        let full = self.found_no_room.load(Ordering::Relaxed)
            || self.shared.budget.is_short()
            || self.shared.waiting_for_instances.load(Ordering::Relaxed) > 0;
        if self.waits || crowded || full || !self.terms.track.trusted() {
            CallMode::Fiber
        } else {
            CallMode::Inline
        }
    }

    /// How many instances of it idle.
    pub fn idle_slots(&self) -> usize {
        self.slots.idle()
    }

    /// How long its instances live.
    pub fn isolation(&self) -> Isolation {
        self.slots.isolation()
    }

    /// How long calls under this workflow are put off, because they crashed too often in a
    /// row.
    pub fn quarantined_for(&self, workflow: &str) -> Option<Duration> {
        self.quarantine
            .delay(workflow, self.shared.clock.monotonic())
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.terms.name)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}
