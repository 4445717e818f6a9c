//! Makes a plugin from bytes.
//!
//! The bytes may be hostile. Their size, and the number and sizes of their parts, are bounded before
//! the compiler reads them. A few at a time are compiled, each in a process of its own with limits,
//! and a failure of the compiler is an error of the component. The component is asked for its description without capabilities and with a
//! deadline.

pub(crate) mod bundle;
mod cache;
pub mod compiler;
mod describe;
pub(crate) mod engine;
mod exports;
mod functions;
mod outline;
pub(crate) mod report;
mod shape;
pub(crate) mod store;
mod wrap;

pub(crate) use cache::{clean, description};

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::{Condvar, Mutex};
use wasmtime::component::Component;
use wasmtime::component::Linker;
use windlass_model::Digest;
use windlass_model::metrics::Metrics;

use bundle::Bundle;
use compiler::Compiler;
pub(crate) use compiler::Patience;
use report::CompileReport;

use crate::bindings::{check, consumer, node};
use crate::call::plugin::{Entries, Plugin, Purity};
use crate::call::shared::CallShared;
use crate::call::slot::Slots;
use crate::codes;
use crate::description::Description;
use crate::error::{Error, chain};
use crate::grant::proof::{self, Evidence, Standing};
use crate::grant::settings::{Isolation, Settings};
use crate::grant::{self, Rules};
use crate::hold::PoolSize;
use crate::hold::budget::INSTANCE_BYTES;
use crate::hold::budget::flow::Flows;
use crate::hold::lane::Track;
use crate::hold::quarantine::Quarantine;
use crate::offer::guest::Guest;
use crate::offer::imports::{self, Imports};
use crate::offer::terms::Terms;

/// The parts of the host that loading needs.
pub(crate) struct LoadShared {
    pub(crate) calls: Arc<CallShared>,
    pub(crate) rules: Rules,
    /// For components without imports that may wait.
    pub(crate) plain: Linker<Guest>,
    /// For all others.
    pub(crate) waiting: Linker<Guest>,
    /// The directory of components by their digest.
    pub(crate) store_dir: PathBuf,
    /// The directory of compiled code.
    pub(crate) cache_dir: PathBuf,
    /// The components inside this program.
    pub(crate) bundle: Bundle,
    /// The largest component file, in bytes.
    pub(crate) max_component_bytes: u64,
    /// Where components are compiled.
    pub(crate) compiler: Compiler,
    /// Receives reports about compilations that take long. None: there are no reports.
    pub(crate) compiling: Option<CompileReport>,
    /// How many successive traps of a plugin in one workflow delay its calls there. None: never.
    pub(crate) quarantine_after: Option<u32>,
    /// Where calls are measured.
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) pool: PoolSize,
    /// For reading components and wrapping modules, which takes little time.
    pub(crate) shapes: Bench,
    /// For compiling.
    pub(crate) compiles: Bench,
}

impl LoadShared {
    /// The plugin of this digest, if there is one that follows the present rules.
    pub(crate) fn living(&self, digest: &Digest) -> Option<Arc<Plugin>> {
        let living = self.calls.living(digest)?;
        living.terms.follow(&self.rules.now()).then_some(living)
    }
}

/// Bounds the number of components that are worked on at once.
pub(crate) struct Bench {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Bench {
    pub(crate) fn new(places: usize) -> Self {
        Self {
            free: Mutex::new(places.max(1)),
            freed: Condvar::new(),
        }
    }

    /// Waits for a place, and runs `work`. None if it panics.
    fn work<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        drop(free);
        let result = std::panic::catch_unwind(AssertUnwindSafe(work));
        *self.free.lock() += 1;
        self.freed.notify_one();
        result.ok()
    }
}

/// Reads a whole file.
pub(crate) fn read(file: &Path, max_bytes: u64) -> Result<Vec<u8>, Error> {
    use std::io::Read as _;
    let fault = |error: std::io::Error| Error::file(file, "read it", &error);
    let mut bytes = Vec::new();
    // Read one byte more than the limit: this also detects a file that grows meanwhile.
    std::fs::File::open(file)
        .and_then(|file| {
            file.take(max_bytes.saturating_add(1))
                .read_to_end(&mut bytes)
        })
        .map_err(fault)?;
    Ok(bytes)
}

/// Makes a component of the content of a file: it is one already, or a core module that carries its
/// component type or exports the functions of the contract. `subject` names the file in errors.
/// Compiles nothing.
///
/// # Errors
///
/// The bytes are no WebAssembly, have more parts than a host compiles, or do not fit their type.
pub fn component(subject: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    shape::component(subject, bytes)
}

/// The component in the content of a file, with the evidence about it.
pub(crate) struct Content {
    bytes: Vec<u8>,
    digest: Digest,
    evidence: Evidence,
}

impl Content {
    /// Makes a component of the content of a file, unless the component is denied. Compiles nothing.
    pub(crate) fn of(
        shared: &LoadShared,
        file: &Path,
        bytes: Vec<u8>,
        evidence: Evidence,
    ) -> Result<Self, Error> {
        let subject = file.display().to_string();
        if let Some(raw) = evidence.raw.filter(|raw| shared.rules.is_denied(raw)) {
            return Err(deny(shared, &subject, &raw, bytes));
        }
        let max = shared.max_component_bytes;
        if bytes.len() as u64 > max {
            let message = format!("it is larger than {max} bytes");
            return Err(Error::new(codes::TOO_LARGE, subject, message));
        }
        let bytes = shared
            .shapes
            .work(|| shape::component(&subject, bytes))
            .ok_or_else(|| Error::new(codes::WRAP, &subject, "making it a component crashed"))??;
        let digest = Digest::of(&bytes);
        shared.rules.permit(&digest, &subject)?;
        Ok(Self {
            bytes,
            digest,
            evidence,
        })
    }

    /// The component, without its bytes.
    pub(crate) fn cold(&self, shared: &LoadShared) -> Cold {
        Cold::of(shared, self.digest, &self.bytes)
    }
}

/// Reads a file.
pub(crate) fn content(shared: &LoadShared, file: &Path) -> Result<Content, Error> {
    let bytes = read(file, shared.max_component_bytes)?;
    let evidence = Evidence::beside(&shared.rules, file, &bytes);
    Content::of(shared, file, bytes, evidence)
}

/// What the content of a file has come to.
pub(crate) enum Loaded {
    Plugin(Arc<Plugin>),
    /// The code has to be compiled first, and the caller does not wait for that.
    Cold(Cold),
}

/// A component whose code is not compiled yet.
#[derive(Clone, Debug)]
pub(crate) struct Cold {
    pub(crate) digest: Digest,
    /// Its size.
    pub(crate) bytes: u64,
    /// What components of one language runtime have in common. None: it is too small for the
    /// function cache.
    pub(crate) runtime: Option<Digest>,
    /// Its description, if a host of this user has asked for it before.
    pub(crate) description: Option<Arc<Description>>,
}

impl Cold {
    /// Its name, or its digest if that is all that is known.
    pub(crate) fn name(&self) -> String {
        match &self.description {
            Some(about) => format!("{}@{}", about.package, about.version),
            None => format!("the component {}", self.digest),
        }
    }

    fn of(shared: &LoadShared, digest: Digest, component: &[u8]) -> Self {
        let is_cached = component.len() >= functions::LEAST_COMPONENT_BYTES;
        Self {
            digest,
            bytes: component.len() as u64,
            runtime: is_cached.then(|| shape::runtime(component)).flatten(),
            description: known(shared, &digest).map(Arc::new),
        }
    }
}

/// The description of a component that was loaded on this machine before.
pub(crate) fn known(shared: &LoadShared, digest: &Digest) -> Option<Description> {
    Description::read("", &cache::description(shared, digest)?).ok()
}

/// Makes a plugin from the content of a file. [`Loaded::Cold`] only without any patience.
pub(crate) fn load(
    shared: &Arc<LoadShared>,
    file: &Path,
    content: Content,
    patience: Patience<'_>,
) -> Result<Loaded, Error> {
    let Content {
        bytes,
        digest,
        evidence,
    } = &content;
    let digest = *digest;
    let table = shared.rules.now();
    if let Some(plugin) = shared.living(&digest) {
        let settings = table.settings.get(&plugin.description.package);
        let is_proved_now = || {
            let standing = proof::standing(&shared.rules, &digest, settings, evidence);
            matches!(standing, Standing::Proved(_))
        };
        // A component that was loaded without a proof is loaded again if there is one now.
        if !plugin.is_unproved() || !is_proved_now() {
            plugin.sign(proof::signed(&digest, settings, evidence));
            return Ok(Loaded::Plugin(plugin));
        }
    }
    let given = || Ok(Cow::Borrowed(&bytes[..]));
    match build(shared, file, digest, patience, given, evidence) {
        Ok(plugin) => {
            store::keep(shared, &digest, bytes)?;
            Ok(Loaded::Plugin(plugin))
        }
        Err(error) if is_cold(&error, patience) => Ok(Loaded::Cold(content.cold(shared))),
        Err(error) => Err(error),
    }
}

fn is_cold(error: &Error, patience: Patience<'_>) -> bool {
    error.code == codes::COMPILING && matches!(patience, Patience::None)
}

/// Denies the component of a denied file as well, and returns the error that names it. The file has
/// no other effect.
fn deny(shared: &LoadShared, subject: &str, raw: &Digest, bytes: Vec<u8>) -> Error {
    let is_read = bytes.len() as u64 <= shared.max_component_bytes;
    let made = is_read.then(|| {
        let made = shared.shapes.work(|| shape::component(subject, bytes));
        made.and_then(Result::ok)
    });
    let made = made.flatten().map(|component| Digest::of(&component));
    let message = match made.filter(|component| component != raw) {
        Some(component) => {
            shared.rules.deny(component);
            format!(
                "the file {raw} is denied by `deny` in [plugins], and so is its component \
                 {component}"
            )
        }
        None => format!("the component {raw} is denied by `deny` in [plugins]"),
    };
    Error::new(codes::DENIED, subject, message)
}

/// The component of a digest, from the component store.
pub(crate) fn bytes(shared: &LoadShared, digest: &Digest) -> Result<Vec<u8>, Error> {
    store::find(shared, digest).map(|(_, bytes)| bytes)
}

/// Makes a plugin of a component in the component store. [`Loaded::Cold`] only without any patience.
pub(crate) fn stored(
    shared: &Arc<LoadShared>,
    digest: &Digest,
    patience: Patience<'_>,
) -> Result<Loaded, Error> {
    let (file, bytes) = store::find(shared, digest)?;
    let given = || Ok(Cow::Borrowed(&bytes[..]));
    let evidence = Evidence::default();
    match build(shared, &file, *digest, patience, given, &evidence) {
        Ok(plugin) => Ok(Loaded::Plugin(plugin)),
        Err(error) if is_cold(&error, patience) => {
            Ok(Loaded::Cold(Cold::of(shared, *digest, &bytes)))
        }
        Err(error) => Err(error),
    }
}

/// Makes a plugin of a component in the bundle. `file` replaces its file in messages.
pub(crate) fn bundled(
    shared: &Arc<LoadShared>,
    file: &Path,
    digest: &Digest,
) -> Result<Arc<Plugin>, Error> {
    let subject = file.display().to_string();
    shared.rules.permit(digest, &subject)?;
    if let Some(plugin) = shared.living(digest) {
        return Ok(plugin);
    }
    let bundle = &shared.bundle;
    let bytes = || {
        let message = "the component in this program is damaged: install the program again";
        let bytes = bundle.component(digest);
        bytes.ok_or_else(|| Error::new(codes::MALFORMED, &subject, message))
    };
    // The runs that use the component need it also when a later program has another one.
    if !store::has(shared, digest, bundle.size(digest)) {
        store::keep(shared, digest, &bytes()?)?;
    }
    let bytes = || bytes().map(Cow::Owned);
    build(
        shared,
        file,
        *digest,
        Patience::Whole,
        bytes,
        &Evidence::default(),
    )
}

/// Compiles a component of the bundle for this processor, and makes the plugin that replaces the
/// one with the code in this program. None if the cache has the code, or the plugin is not in use.
pub(crate) fn natively(
    shared: &Arc<LoadShared>,
    file: &Path,
    digest: &Digest,
) -> Result<Option<Arc<Plugin>>, Error> {
    let subject = file.display().to_string();
    let Some(before) = shared
        .calls
        .living(digest)
        .filter(|_| !shared.rules.is_denied(digest))
    else {
        return Ok(None);
    };
    if !cache::compile_bundled(shared, &subject, digest)? {
        return Ok(None);
    }
    let bytes = || Err(Error::new(codes::COMPILE, &subject, "its code is gone"));
    let evidence = Evidence::default();
    let (plugin, _) = make(shared, file, *digest, Patience::Whole, bytes, &evidence)?;
    plugin.sign(before.signature());
    shared
        .calls
        .plugins
        .lock()
        .insert(*digest, Arc::downgrade(&plugin));
    Ok(Some(plugin))
}

/// Makes a plugin and registers it by its digest.
fn build<'a>(
    shared: &Arc<LoadShared>,
    file: &Path,
    digest: Digest,
    patience: Patience<'_>,
    bytes: impl FnOnce() -> Result<Cow<'a, [u8]>, Error>,
    evidence: &Evidence,
) -> Result<Arc<Plugin>, Error> {
    let (plugin, settings) = make(shared, file, digest, patience, bytes, evidence)?;
    // Two threads may have loaded the same bytes at once: one of them wins, so that a digest has
    // one set of warm instances and one record of behaviour.
    let mut plugins = shared.calls.plugins.lock();
    let there = plugins.get(&digest).and_then(std::sync::Weak::upgrade);
    match there {
        Some(there)
            if there.terms.follow(&shared.rules.now())
                && (!there.is_unproved() || plugin.is_unproved()) =>
        {
            there.sign(plugin.signature());
            return Ok(there);
        }
        _ => {}
    }
    plugins.insert(digest, Arc::downgrade(&plugin));
    drop(plugins);
    tell(&plugin, &settings, evidence);
    Ok(plugin)
}

fn make<'a>(
    shared: &Arc<LoadShared>,
    file: &Path,
    digest: Digest,
    patience: Patience<'_>,
    bytes: impl FnOnce() -> Result<Cow<'a, [u8]>, Error>,
    evidence: &Evidence,
) -> Result<(Arc<Plugin>, Settings), Error> {
    let subject = file.display().to_string();
    let component = cache::component(shared, &subject, &digest, patience, bytes)?;
    let imports = Imports::of(&shared.calls.engine, &component, &subject)?;
    let entries = entries(&component);
    if entries.execute.is_none() && entries.accept.is_none() || entries.describe.is_none() {
        let message = exports::missing(&shared.calls.engine, &component);
        return Err(Error::new(codes::NO_EXPORT, subject, message));
    }
    check_needs(shared, &component, &subject)?;
    let linker = if imports.waits {
        &shared.waiting
    } else {
        &shared.plain
    };
    let pre = imports::resolve(linker, &component, &imports)
        .map_err(|error| Error::new(codes::IMPORTS, &subject, chain(&error)))?;
    let json = match cache::description(shared, &digest) {
        Some(json) => json,
        None => {
            let json = describe::ask(shared, &subject, &pre, &entries)?;
            Description::read(&subject, &json)?;
            cache::keep_description(shared, &digest, &json);
            json
        }
    };
    let description = Description::read(&subject, &json)?;
    check_description(&description, &entries, &subject)?;
    let table = shared.rules.now();
    let named = table.settings.get(&description.package);
    let standing = proof::standing(&shared.rules, &digest, named, evidence);
    let signed = proof::signed(&digest, named, evidence);
    let settings = named.cloned().unwrap_or_default();
    let isolation = isolation(&settings, &description);
    let terms = Terms {
        name: format!("{}@{}", description.package, description.version),
        limits: grant::limits(&shared.rules, &settings, &standing),
        grants: grant::grants(&settings, &standing, &description, imports.http),
        standing,
        track: Arc::new(Track::new()),
        rules: Some(Arc::clone(&table)),
    };
    let calls = shared.metrics.plugin_call(&description.package);
    let flows = Flows::new(terms.track.id, initial_memory(&component));
    let plugin = Arc::new(Plugin {
        digest,
        file: PathBuf::from(file),
        signature: Mutex::new(signed),
        purity: if imports.effectful {
            Purity::Effectful
        } else {
            Purity::Pure
        },
        imports: imports.names,
        waits: imports.waits,
        reads: imports.reads,
        description,
        shared: Arc::clone(&shared.calls),
        terms: Arc::new(terms),
        pre,
        entries,
        slots: Slots::new(isolation),
        flows,
        found_no_room: AtomicBool::new(false),
        quarantine: Quarantine::new(shared.quarantine_after),
        calls,
    });
    Ok((plugin, settings))
}

/// Warns about permissions that a component does not get although it, or its settings, name them.
fn tell(plugin: &Plugin, settings: &Settings, evidence: &Evidence) {
    let package = &plugin.description.package;
    let (file, digest) = (plugin.file.display(), plugin.digest);
    if plugin.is_unproved() {
        let doubts = evidence.doubts.join("; ");
        tracing::warn!(
            code = %codes::UNPROVED, plugin = plugin.name(), %file, doubts,
            "nothing proves that [plugins.grants.{package}] is about this component, and it gets \
             none of its grants; if it is meant, add this line there: digest = \"{digest}\""
        );
    }
    let is_kept_out = plugin.description.consumer.is_some() && plugin.consumer().is_none();
    if is_kept_out && !settings.grants.consumer {
        tracing::warn!(
            code = %codes::NO_CONSUMER, plugin = plugin.name(), %file,
            "the component exports a trigger consumer and is asked about no trigger; if it is to \
             be, write in [plugins.grants.{package}]: consumer = true, digest = \"{digest}\""
        );
    }
}

/// The functions that a component exports, in the version that this host knows.
fn entries(component: &Component) -> Entries {
    let index = |interface: &str, function: &str| {
        let instance = component.get_export_index(None, interface)?;
        component.get_export_index(Some(&instance), function)
    };
    let node = |function| index(node::INTERFACE, function);
    let consumer = |function| index(consumer::INTERFACE, function);
    Entries {
        describe: node("describe").or_else(|| consumer("describe")),
        execute: node("execute"),
        accept: consumer("accept"),
        check: index(check::INTERFACE, "check"),
    }
}

/// Checks that the initial size of a component is within the limits.
fn check_needs(shared: &LoadShared, component: &Component, subject: &str) -> Result<(), Error> {
    let Some(needs) = component.resources_required() else {
        return Ok(());
    };
    let max = shared.rules.most(|limits| limits.memory_bytes) as u64;
    let initial = needs.max_initial_memory_size.unwrap_or_default();
    if initial > max {
        let message = format!("it begins with {initial} bytes of memory, and {max} are the limit");
        return Err(Error::new(codes::NEEDS_TOO_MUCH, subject, message));
    }
    let max_elements = shared.rules.most(|limits| limits.table_elements) as u64;
    if needs.max_initial_table_size.unwrap_or_default() > max_elements {
        let message = format!("it begins with a table of more than {max_elements} elements");
        return Err(Error::new(codes::NEEDS_TOO_MUCH, subject, message));
    }
    Ok(())
}

/// The initial memory of an instance.
fn initial_memory(component: &Component) -> u64 {
    let needs = component.resources_required();
    let memories = needs.map_or(0, |needs| {
        let initial = needs.max_initial_memory_size.unwrap_or_default();
        initial.saturating_mul(u64::from(needs.num_memories))
    });
    memories.saturating_add(INSTANCE_BYTES)
}

/// Checks that the description and the exports agree.
fn check_description(
    description: &Description,
    entries: &Entries,
    subject: &str,
) -> Result<(), Error> {
    let fault = |message: &str| Err(Error::new(codes::DESCRIPTION, subject, message));
    if entries.execute.is_some() && description.nodes.is_empty() {
        return fault("it exports a node executor and describes no node types");
    }
    if entries.execute.is_none() && !description.nodes.is_empty() {
        return fault("it describes node types and exports no node executor");
    }
    if entries.accept.is_some() && description.consumer.is_none() {
        return fault("it exports a trigger consumer and does not describe it");
    }
    if entries.accept.is_none() && description.consumer.is_some() {
        return fault("it describes a trigger consumer and exports none");
    }
    Ok(())
}

/// The stricter one of the operator's setting and the requests of the node types.
fn isolation(settings: &Settings, description: &Description) -> Isolation {
    let asked = description
        .nodes
        .iter()
        .map(|node| match node.resources.instance.as_deref() {
            Some("run") => Isolation::Run,
            Some("call") => Isolation::Call,
            _ => Isolation::Warm,
        });
    asked.fold(settings.isolation, Isolation::max)
}
