//! The data in an instance's store.
//!
//! All data of one call is in [`Ongoing`] and is dropped with the call, so that the next call
//! cannot see any of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use wasmtime::component::ResourceTable;
use wasmtime::{StoreContextMut, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use windlass_model::{BlobRef, Digest, LogLine};

use super::Offer;
use super::context::CallContext;
use super::terms::Terms;
use crate::grant::settings::Limits;
use crate::hold::budget::{Account, Evict, Hold};
use crate::hold::lane::{CallMode, Pace};
use crate::hold::limiter::Limiter;
use crate::hold::{Bounds, Stop};
use crate::offer::imports::EventWork;
use crate::offer::log::Log;
use crate::offer::printed::{Printed, Printer, Stderr, Stream};

/// The data of a store.
pub(crate) struct Guest {
    pub(crate) offer: Arc<Offer>,
    bounds: Arc<Bounds>,
    pub(crate) terms: Arc<Terms>,
    pub(crate) limiter: Limiter,
    pub(crate) call: Option<Box<Ongoing>>,
    wasi: Option<Box<Wasi>>,
}

/// One call in progress.
pub(crate) struct Ongoing {
    pub(crate) cx: CallContext,
    pub(crate) lane: CallMode,
    pub(crate) started: Duration,
    /// By the monotonic clock.
    pub(crate) deadline: Duration,
    pub(crate) log: Log,
    pub(crate) pace: Option<Pace>,
    pub(crate) blobs: BlobWork,
    pub(crate) events: EventWork,
    pub(crate) http_requests: u32,
    pub(crate) progress: Option<(f64, String)>,
    /// Bytes that the account of the instance counts until the end of the call.
    pub(crate) charged: u64,
    /// Bytes of bodies that the account counts until the next request.
    pub(crate) bodies: u64,
}

/// The blobs that a call writes.
#[derive(Default)]
pub(crate) struct BlobWork {
    pub(crate) writers: Vec<(u32, Vec<u8>)>,
    pub(crate) next: u32,
    pub(crate) bytes: usize,
    pub(crate) finished: Vec<(Digest, Bytes)>,
    /// The blobs that the call was given: it may pass these on without a look-up in the store.
    pub(crate) given: Vec<BlobRef>,
}

/// The WASI imports of ordinary guests, without access to anything.
struct Wasi {
    cx: WasiCtx,
    table: ResourceTable,
    printed: Arc<Mutex<Printed>>,
}

impl Wasi {
    fn new(limits: &Limits) -> Box<Self> {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        let printed = Arc::new(Mutex::new(Printed::new(limits)));
        let printer = |stream| Printer {
            stream,
            printed: Arc::clone(&printed),
        };
        let cx = WasiCtx::builder()
            .max_random_size(64 * 1024)
            .stdout(printer(Stream::Stdout))
            .stderr(printer(Stream::Stderr))
            .build();
        Box::new(Self { cx, table, printed })
    }
}

impl Ongoing {
    pub(crate) fn new(
        cx: CallContext,
        lane: CallMode,
        started: Duration,
        timeout: Duration,
    ) -> Self {
        Self {
            cx,
            lane,
            started,
            deadline: started.saturating_add(timeout),
            log: Log::default(),
            pace: None,
            blobs: BlobWork::default(),
            events: EventWork::default(),
            http_requests: 0,
            progress: None,
            charged: 0,
            bodies: 0,
        }
    }

    /// Prepares for a wait for the host.
    pub(crate) fn pause(&self) {
        if let Some(pace) = &self.pace {
            pace.pause();
        }
    }
}

impl Guest {
    /// `evict` makes room when the account grows.
    pub(crate) fn new(
        offer: Arc<Offer>,
        bounds: Arc<Bounds>,
        terms: Arc<Terms>,
        (hold, evict): (Hold, Arc<dyn Evict>),
    ) -> Self {
        let limiter = Limiter::new(
            Account::new(hold, evict),
            terms.limits.memory_bytes,
            terms.limits.table_elements,
        );
        Self {
            offer,
            bounds,
            terms,
            limiter,
            call: None,
            wasi: None,
        }
    }

    /// Moves the lines that the guest has printed into the log of its call.
    pub(crate) fn flush_printed(&mut self) {
        if let (Some(wasi), Some(call)) = (&self.wasi, &mut self.call) {
            let (limits, secrets) = (&self.terms.limits, &self.offer.secrets);
            let mut printed = wasi.printed.lock();
            printed.flush(&mut call.log, limits, secrets);
        }
    }

    /// Takes bytes that the guest prints.
    pub(crate) fn print(&mut self, stream: Stream, bytes: &[u8]) {
        self.wasi().printed.lock().write(stream, bytes);
    }

    fn wasi(&mut self) -> &mut Wasi {
        self.wasi
            .get_or_insert_with(|| Wasi::new(&self.terms.limits))
    }

    /// The resources of WASI, and the call that may wait for them.
    pub(crate) fn resources(&mut self) -> (&mut ResourceTable, Option<&Ongoing>) {
        let wasi = self
            .wasi
            .get_or_insert_with(|| Wasi::new(&self.terms.limits));
        (&mut wasi.table, self.call.as_deref())
    }

    /// The lines of the log of the call that ends, and the end of its stderr.
    pub(crate) fn end_log(&mut self) -> (Vec<LogLine>, Stderr) {
        let Some(call) = &mut self.call else {
            return (Vec::new(), Stderr::default());
        };
        let mut stderr = Stderr::default();
        if let Some(wasi) = &self.wasi {
            let (limits, secrets) = (&self.terms.limits, &self.offer.secrets);
            stderr = wasi.printed.lock().end(&mut call.log, limits, secrets);
        }
        (call.log.take(), stderr)
    }

    /// The engine calls this when the guest notices that a tick has passed.
    pub(crate) fn tick(mut cx: StoreContextMut<'_, Self>) -> wasmtime::Result<UpdateDeadline> {
        let guest = cx.data_mut();
        let (clock, bounds, track) = (&guest.offer.clock, &guest.bounds, &guest.terms.track);
        // Outside of a call, the guest's computation has no result.
        let Some(call) = &mut guest.call else {
            return Ok(UpdateDeadline::Interrupt);
        };
        let now = clock.monotonic();
        if call.cx.cancel.is_cancelled() {
            return Err(Stop::Cancelled.into());
        }
        if now >= call.deadline {
            return Err(Stop::Deadline.into());
        }
        let inline = call.lane == CallMode::Inline;
        let pace = match &mut call.pace {
            Some(pace) => {
                pace.measure();
                pace
            }
            none => none.insert(Pace::new(track, now.saturating_sub(call.started))),
        };
        if pace.used() >= bounds.slow {
            pace.slow_down(inline.then(|| Arc::clone(&bounds.slow_inline)));
        }
        let cell = pace.cell();
        if inline {
            let stop = || call.cx.cancel.is_cancelled() || clock.monotonic() >= call.deadline;
            if pace.is_slow() && !cell.block(&bounds.turns, call.cx.for_turn(track.id), stop) {
                let stop = if call.cx.cancel.is_cancelled() {
                    Stop::Cancelled
                } else {
                    Stop::Deadline
                };
                return Err(stop.into());
            }
            return Ok(UpdateDeadline::Continue(1));
        }
        let gated = track.takes_turns();
        let turns = gated.then(|| (bounds.turns.clone(), call.cx.for_turn(track.id)));
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(cell.pass(turns))))
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self.wasi();
        WasiCtxView {
            ctx: &mut wasi.cx,
            table: &mut wasi.table,
        }
    }
}
