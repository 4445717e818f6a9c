//! The imports of guests.
//!
//! There are two linkers: one in which no function ever waits, so that its guests can run by plain
//! calls, and one with all functions.

mod absent;
mod blobs;
mod clock;
mod context;
mod events;
mod fetch;
mod logging;
mod memory;
mod polled;
mod preview1;
mod random;

pub(crate) use absent::{NotOffered, is_offered};
pub(crate) use events::EventWork;

use tokio::sync::Semaphore;
use wasmtime::Engine;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};

use crate::bindings::{VERSION, host::windlass};
use crate::codes;
use crate::error::Error;
use crate::offer::guest::Guest;

/// The imports of a component.
pub(crate) struct Imports {
    /// Names of interfaces, WASI's included, in order.
    pub(crate) names: Vec<String>,
    /// Some of them may wait.
    pub(crate) waits: bool,
    /// Some of them can have effects.
    pub(crate) effectful: bool,
    /// HTTP is among them.
    pub(crate) http: bool,
    /// Memory or blobs are among them.
    pub(crate) reads: bool,
    /// WASI interfaces that this host does not offer at all.
    absent: bool,
}

/// Interfaces of Windlass that never wait.
const PLAIN: [&str; 7] = [
    "windlass:types/types",
    "windlass:log/log",
    "windlass:context/context",
    "windlass:clock/clock",
    "windlass:random/random",
    "windlass:events/events",
    "windlass:preview1/process",
];
/// Interfaces of Windlass that may wait.
const WAITING: [&str; 4] = [
    "windlass:memory/memory",
    "windlass:blobs/blobs",
    "windlass:http/http",
    "windlass:preview1/sleep",
];
/// Interfaces of WASI that never wait. All others may: even closing a stream.
const PLAIN_WASI: [&str; 2] = ["wasi:random/", "wasi:clocks/wall-clock"];

/// The reads of the store by plugins at once: each may bring a large value into memory.
pub(crate) const READS: usize = 4;

static READING: Semaphore = Semaphore::const_new(READS);

/// Reads for a plugin, on a thread that may block, when it is its turn. If the call ends before, the
/// read goes on and keeps its turn. None: the read has panicked.
pub(crate) async fn read<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let turn = READING.acquire().await.ok()?;
    let done = tokio::task::spawn_blocking(move || {
        let done = read();
        drop(turn);
        done
    });
    done.await.ok()
}

impl Imports {
    /// Refuses interfaces that are neither Windlass's nor WASI's: instantiation would fail later,
    /// with a worse message.
    pub(crate) fn of(engine: &Engine, component: &Component, subject: &str) -> Result<Self, Error> {
        let mut imports = Self {
            names: Vec::new(),
            waits: false,
            effectful: false,
            http: false,
            reads: false,
            absent: false,
        };
        let mut unknown = Vec::new();
        for (name, item) in component.component_type().imports(engine) {
            let base = name.split('@').next().unwrap_or(name);
            let wasi = base.starts_with("wasi:");
            let is_waiting = WAITING.contains(&base);
            if !wasi && let Some(fault) = not_offered(name, base) {
                unknown.push(fault);
                continue;
            }
            imports.names.push(name.to_owned());
            // The linker of functions that never wait has no more of WASI, not even types.
            imports.waits |= wasi && !PLAIN_WASI.iter().any(|plain| base.starts_with(plain));
            imports.absent |= wasi && !is_offered(name);
            // An interface of which only types are used has no functions.
            let ComponentItem::ComponentInstance(instance) = item.ty else {
                continue;
            };
            let types = ComponentItem::is_type;
            if instance.exports(engine).all(|(_, item)| types(&item.ty)) {
                continue;
            }
            imports.waits |= is_waiting;
            imports.http |= base == "windlass:http/http";
            imports.reads |= matches!(base, "windlass:memory/memory" | "windlass:blobs/blobs");
            imports.effectful |= matches!(base, "windlass:http/http" | "windlass:events/events");
        }
        if unknown.is_empty() {
            imports.names.sort();
            return Ok(imports);
        }
        Err(Error::faults(codes::IMPORTS, subject, &unknown))
    }
}

/// Why the host does not offer an interface, if it does not.
fn not_offered(name: &str, base: &str) -> Option<String> {
    if !PLAIN.contains(&base) && !WAITING.contains(&base) {
        return Some(format!(
            "it imports `{name}`, which this host does not offer"
        ));
    }
    let version = name.split_once('@').map_or("", |(_, version)| version);
    let patch = version.strip_prefix(VERSION);
    if patch.is_some_and(|patch| patch.starts_with('.')) {
        return None;
    }
    Some(format!(
        "it imports `{name}`, and this host offers version {VERSION}: use a newer host, or build \
         the component against this version"
    ))
}

trait IsType {
    fn is_type(&self) -> bool;
}

impl IsType for ComponentItem {
    fn is_type(&self) -> bool {
        matches!(self, Self::Type(_) | Self::Resource(_))
    }
}

/// Resolves the imports of a component. An interface of WASI that is not offered is there, and refuses
/// what the guest asks of it: some toolchains import, for example, HTTP that the guest does not need.
pub(crate) fn resolve(
    linker: &Linker<Guest>,
    component: &Component,
    imports: &Imports,
) -> wasmtime::Result<InstancePre<Guest>> {
    if !imports.absent {
        return linker.instantiate_pre(component);
    }
    let mut linker = linker.clone();
    absent::link(&mut linker, component)?;
    linker.instantiate_pre(component)
}

/// Links all functions that never wait.
pub(crate) fn link_plain(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
    use wasmtime_wasi::p2::bindings::{clocks::wall_clock, random};
    use wasmtime_wasi::random::{WasiRandom, WasiRandomView as _};
    link_ours(linker)?;
    wall_clock::add_to_linker::<_, WasiClocks>(linker, Guest::clocks)?;
    random::random::add_to_linker::<_, WasiRandom>(linker, Guest::random)?;
    random::insecure::add_to_linker::<_, WasiRandom>(linker, Guest::random)?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(linker, Guest::random)
}

/// Links all functions.
pub(crate) fn link_waiting(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    link_ours(linker)?;
    windlass::memory::memory::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    windlass::blobs::blobs::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    windlass::http::http::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    windlass::preview1::sleep::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    polled::link(linker)
}

impl windlass::types::types::Host for Guest {}

fn link_ours(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    windlass::types::types::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    windlass::log::log::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    windlass::context::context::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    windlass::clock::clock::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    windlass::events::events::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    windlass::preview1::process::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    windlass::random::random::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)
}
