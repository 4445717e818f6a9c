//! A loaded plugin.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use url::Url;
use wasmtime::component::{ComponentExportIndex, Instance, InstancePre};
use windlass_model::Digest;
use windlass_model::metrics::Histogram;

use super::shared::CallShared;
use crate::call::question::{Decide, Execute, Export};
use crate::call::slot::Slots;
use crate::description::{Consumer, Description, NodeType};
use crate::grant::destination::{Refusal, refusal, wanted};
use crate::grant::proof::{Signed, Standing};
use crate::grant::settings::{Grants, Isolation, Limits};
use crate::hold::budget::flow::Flows;
use crate::hold::lane::CallMode;
use crate::hold::quarantine::Quarantine;
use crate::offer::guest::Guest;
use crate::offer::imports::is_offered;
use crate::offer::terms::Terms;

/// A compiled and checked component. Its identity is its digest: two files with the same bytes are
/// one plugin, and a running instance keeps the one with which it started.
pub struct Plugin {
    /// SHA-256 of the component.
    pub digest: Digest,
    /// The file from which it was read.
    pub file: PathBuf,
    /// Its description.
    pub description: Description,
    /// Whether it can have side effects.
    pub purity: Purity,
    /// The interfaces that it imports, WASI's included, in order.
    pub imports: Vec<String>,
    /// Whether it imports memory or blobs.
    pub reads: bool,
    pub(crate) signature: Mutex<Option<Signed>>,
    pub(crate) shared: Arc<CallShared>,
    pub(crate) terms: Arc<Terms>,
    pub(crate) pre: InstancePre<Guest>,
    pub(crate) entries: Entries,
    pub(crate) slots: Slots,
    /// The workflows that call it, and the memory that their calls use.
    pub(crate) flows: Flows,
    /// A plain call has found no room: the next calls wait for it on fibers.
    pub(crate) found_no_room: AtomicBool,
    pub(crate) quarantine: Quarantine,
    /// The durations of its calls, in microseconds.
    pub(crate) calls: Arc<Histogram>,
    /// Some of its imports may wait, so it can only run on a fiber.
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

/// The functions that a component exports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    pub(crate) describe: Option<ComponentExportIndex>,
    pub(crate) execute: Option<ComponentExportIndex>,
    pub(crate) accept: Option<ComponentExportIndex>,
    pub(crate) check: Option<ComponentExportIndex>,
}

/// The exports of one instance.
pub(crate) struct Exports {
    pub(crate) execute: Option<Export<Execute>>,
    pub(crate) accept: Option<Export<Decide>>,
}

impl Exports {
    pub(crate) fn of(
        entries: &Entries,
        instance: &Instance,
        store: &mut wasmtime::Store<Guest>,
    ) -> wasmtime::Result<Self> {
        let execute = match &entries.execute {
            Some(entry) => Some(Export::of(entry, instance, store)?),
            None => None,
        };
        let accept = match &entries.accept {
            Some(entry) => Some(Export::of(entry, instance, store)?),
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

    /// The file from which it was read.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The node type of this name, without the package.
    pub fn node(&self, name: &str) -> Option<&Arc<NodeType>> {
        self.description.node(name)
    }

    /// The triggers that it consumes, if it exports a consumer and has a grant for it.
    pub fn consumer(&self) -> Option<&Consumer> {
        let described = self.description.consumer.as_ref();
        described.filter(|_| self.terms.grants.consumer)
    }

    /// How the settings of its package apply to it.
    pub fn standing(&self) -> &Standing {
        &self.terms.standing
    }

    /// The signature of the component, from its file's neighbour or from elsewhere, if the file is
    /// the component itself.
    pub fn signature(&self) -> Option<Signed> {
        self.signature.lock().clone()
    }

    /// Records a signature that came later. One by a trusted key is replaced only by another such
    /// one.
    pub(crate) fn sign(&self, signed: Option<Signed>) {
        let Some(signed) = signed else { return };
        let mut there = self.signature.lock();
        if signed.vouched || !there.as_ref().is_some_and(|there| there.vouched) {
            *there = Some(signed);
        }
    }

    /// Whether it gets no grants because nothing proves that they apply to it.
    pub fn is_unproved(&self) -> bool {
        *self.standing() == Standing::Unproved
    }

    /// The limits of each call.
    pub fn limits(&self) -> &Limits {
        &self.terms.limits
    }

    /// Its permissions: requested and granted.
    pub fn grants(&self) -> &Grants {
        &self.terms.grants
    }

    /// The workflows whose calls are delayed because they keep crashing, by name, each with the rest
    /// of its quarantine.
    pub fn in_quarantine(&self) -> Vec<(Arc<str>, Duration)> {
        self.quarantine.held(self.shared.clock.monotonic())
    }

    /// Why a request of the plugin to this address would be refused before it is sent. None if it
    /// would not, or if the text is no address.
    pub fn refusal_of(&self, address: &str) -> Option<Refusal> {
        let url = Url::parse(address).ok()?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return None;
        }
        let grants = &self.terms.grants.http;
        if grants.iter().any(|grant| grant.covers(&url)) {
            return None;
        }
        let file = &self.shared.offer.grants_file;
        let mut refused = refusal(self.terms.package(), grants, file, &url);
        if let Some(advice) = self.terms.advice() {
            refused.help = advice;
        }
        Some(refused)
    }

    /// Why the plugin gets no secret of this name for a workflow. `address` is the beginning of the
    /// address that gets the secret, if it is known. None if the plugin gets it.
    pub fn refusal_of_secret(
        &self,
        name: &str,
        workflow: &str,
        address: Option<&str>,
    ) -> Option<Refusal> {
        let (secrets, package) = (&self.shared.offer.secrets, self.terms.package());
        let file = &self.shared.offer.grants_file;
        let granted = self.terms.grants.secrets.iter().any(|of| of == name);
        let grant = format!("[plugins.grants.{package}]\nsecrets = [\"{name}\"]");
        if !secrets.has(name) {
            let to = address.and_then(|address| Url::parse(address).ok());
            let to = to.map_or_else(|| "https://HOST".to_owned(), |url| wanted(&url));
            let variable = name.to_ascii_uppercase().replace(['-', '.'], "_");
            let secret = format!("{name} = {{ env = \"{variable}\", to = [\"{to}\"] }}");
            let mut help = format!("write into {file}:\n[secrets]\n{secret}");
            if !granted {
                help.push_str(&format!("\n\n{grant}"));
            }
            let message = format!("this host has no secret `{name}`");
            return Some(Refusal { message, help });
        }
        if secrets.for_workflow(name, workflow).is_none() {
            return Some(Refusal {
                message: format!(
                    "the secret `{name}` has no value here, or is not for the workflow `{workflow}`"
                ),
                help: format!("look at `{name}` in [secrets]: its source, and its `workflows`"),
            });
        }
        (!granted).then(|| Refusal {
            message: format!("the secret `{name}` is not granted to `{package}`"),
            help: format!("write into {file}, or add it to the list there:\n{grant}"),
        })
    }

    /// The imports that this host does not offer, and that refuse every access: interfaces of WASI
    /// that toolchains import whether their guests need them or not.
    pub fn refused_imports(&self) -> impl Iterator<Item = &str> {
        let imports = self.imports.iter().map(String::as_str);
        imports.filter(|name| name.starts_with("wasi:") && !is_offered(name))
    }

    /// How to call it now. Ask before each call: the answer changes.
    pub fn lane(&self) -> CallMode {
        let crowded = self.shared.bounds.slow_inline.load(Ordering::Relaxed)
            >= self.shared.bounds.max_slow_inline;
        // A plain call cannot wait for room.
        let full = self.found_no_room.load(Ordering::Relaxed)
            || self.shared.bounds.budget.is_short()
            || self
                .shared
                .bounds
                .waiting_for_instances
                .load(Ordering::Relaxed)
                > 0;
        if self.waits || crowded || full || !self.terms.track.trusted() {
            CallMode::Fiber
        } else {
            CallMode::Inline
        }
    }

    /// The number of its idle instances.
    pub fn idle_slots(&self) -> usize {
        self.slots.idle()
    }

    /// How long its instances are reused.
    pub fn isolation(&self) -> Isolation {
        self.slots.isolation()
    }

    /// The delay of calls in this workflow, because they crashed too often in a row.
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
