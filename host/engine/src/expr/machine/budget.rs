//! The budget of one evaluation, charged before it is used.
//!
//! Three counters bound an evaluation. None of them depends on a clock, so an evaluation ends in
//! the same way on every machine:
//!
//! * steps: operators, filters, statements and iterations of loops;
//! * work: bytes that are read or written, weighted by the cost of the operation per byte;
//! * memory: bytes that are allocated. They are not returned before the evaluation ends.
//!
//! Between steps the budget checks the [`Interrupt`], by which the caller cancels the evaluation.
//! The evaluations of one step share a [`StepBudget`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use minijinja::Value;

use super::fault::{Fault, Limit, Result};
use crate::expr::values::PARSED;
use crate::expr::write::{self, WriteError};

/// The limit of steps of one expression or text.
pub const FUEL: u64 = 100_000;

/// The limit of work of all evaluations within one [`StepBudget`]: bytes read or written, and 32 for
/// each step.
pub const WORK: u64 = 128 * 1024 * 1024;

/// The limit of bytes that one expression or text may allocate, its result included, unless the host
/// is configured otherwise.
pub const MEMORY: usize = 64 * 1024 * 1024;

/// The limit of all values that one step makes, in bytes, unless the host is configured otherwise.
pub const STEP_BYTES: usize = 64 * 1024 * 1024;

/// The limit of recursion: operands, nested statements and recursive loops together.
pub(super) const DEPTH: u32 = 320;

/// The work of one step, and of reading one value in a list or a map.
pub(super) const STEP: u64 = 32;

/// The work of writing one value as JSON, beside its text.
const WRITE: u64 = 16;

/// The memory of a value in a list.
pub(super) const SLOT: usize = size_of::<minijinja::Value>();

/// The memory of a list or a map without its values.
pub(super) const CONTAINER: usize = 96;

/// The work between two checks of the interrupt, of all evaluations within one [`StepBudget`]: far
/// below a millisecond. A power of two.
const LOOK: u64 = 256 * 1024;

/// Cancels an evaluation. An interrupted evaluation has neither a result nor a failure, and its work
/// is not charged: it is repeated later.
#[derive(Clone)]
pub struct Interrupt {
    raised: Option<Arc<Raised>>,
    until: Duration,
    memory: usize,
}

/// Whether an interrupt is raised whose evaluations may last until this instant.
pub type Raised = dyn Fn(Duration) -> bool + Send + Sync;

impl Default for Interrupt {
    fn default() -> Self {
        Self {
            raised: None,
            until: Duration::MAX,
            memory: MEMORY,
        }
    }
}

impl Interrupt {
    /// Interrupts as soon as `raised` returns true. `raised` is called about every 256 KiB of work,
    /// so it has to be cheap and must not block.
    pub fn when(raised: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            raised: Some(Arc::new(move |_| raised())),
            ..Self::default()
        }
    }

    /// Interrupts as soon as `raised` returns true for this instant, as [`Self::when`] does. Many
    /// interrupts share one function, so they allocate nothing.
    pub fn after(raised: &Arc<Raised>, until: Duration) -> Self {
        Self {
            raised: Some(Arc::clone(raised)),
            until,
            ..Self::default()
        }
    }

    /// Interrupts, too, before an evaluation allocates more than this many bytes.
    #[must_use]
    pub fn beyond(self, memory: usize) -> Self {
        Self { memory, ..self }
    }

    /// Whether it interrupts now, for work besides the evaluation itself.
    pub fn is_raised(&self) -> bool {
        self.raised
            .as_ref()
            .is_some_and(|raised| raised(self.until))
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").finish_non_exhaustive()
    }
}

/// The budget that the evaluations of one step share: their work ([`WORK`]), and the bytes of the
/// values that they make. Clones share it.
#[derive(Clone, Debug)]
pub struct StepBudget(Arc<Left>);

/// The bounds of memory of the evaluations of one step, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The values that the expressions read, parsed.
    pub parsed: usize,
    /// What one expression allocates, its result included.
    pub memory: usize,
    /// The values that the step makes.
    pub made: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            parsed: PARSED,
            memory: MEMORY,
            made: STEP_BYTES,
        }
    }
}

/// The rest of a step's budget.
#[derive(Debug)]
struct Left {
    work: AtomicU64,
    made: AtomicUsize,
    bounds: Bounds,
    interrupted: AtomicBool,
}

impl StepBudget {
    /// A budget with these bounds.
    pub fn new(bounds: Bounds) -> Self {
        Self::of(WORK, bounds)
    }

    /// A budget with so much work, at most [`WORK`].
    pub fn with_work(work: u64) -> Self {
        Self::of(work.min(WORK), Bounds::default())
    }

    fn of(work: u64, bounds: Bounds) -> Self {
        Self(Arc::new(Left {
            work: AtomicU64::new(work),
            made: AtomicUsize::new(bounds.made),
            bounds,
            interrupted: AtomicBool::new(false),
        }))
    }

    /// Makes it the whole budget of another step. False if it is shared: it is unchanged then.
    pub fn renew(&mut self) -> bool {
        let Some(left) = Arc::get_mut(&mut self.0) else {
            return false;
        };
        *left.work.get_mut() = WORK;
        *left.made.get_mut() = left.bounds.made;
        *left.interrupted.get_mut() = false;
        true
    }

    /// Whether an evaluation was interrupted. All further evaluations are interrupted at once.
    pub fn is_interrupted(&self) -> bool {
        self.0.interrupted.load(Ordering::Relaxed)
    }

    /// Lets evaluations go on after an interrupt.
    pub fn go_on(&self) {
        self.0.interrupted.store(false, Ordering::Relaxed);
    }

    /// Charges for a value of this many bytes that the step makes, before it is made.
    ///
    /// # Errors
    ///
    /// The values of the step would take more than the bound, in bytes.
    pub fn make(&self, bytes: usize) -> std::result::Result<(), usize> {
        let Some(left) = self.made_left().checked_sub(bytes) else {
            return Err(self.0.bounds.made);
        };
        self.0.made.store(left, Ordering::Relaxed);
        Ok(())
    }

    /// The bytes of values that the step can still make.
    pub fn made_left(&self) -> usize {
        self.0.made.load(Ordering::Relaxed)
    }

    /// The bytes of values that the step has made.
    pub fn made(&self) -> usize {
        self.0.bounds.made.saturating_sub(self.made_left())
    }

    /// The bounds of memory.
    pub(in crate::expr) fn bounds(&self) -> &Bounds {
        &self.0.bounds
    }

    pub(in crate::expr) fn work_left(&self) -> u64 {
        self.0.work.load(Ordering::Relaxed)
    }

    pub(in crate::expr) fn set_work_left(&self, work: u64) {
        self.0.work.store(work, Ordering::Relaxed);
    }
}

impl Default for StepBudget {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

/// The budget of one evaluation.
pub(super) struct Budget<'a> {
    steps: u64,
    work: u64,
    memory: usize,
    /// An evaluation that leaves less memory than this is interrupted.
    interrupted_below: usize,
    depth: u32,
    next_look: u64,
    /// The work that was left when the evaluation began.
    begun: u64,
    shared: &'a StepBudget,
    interrupt: &'a Interrupt,
}

impl<'a> Budget<'a> {
    pub(super) fn new(shared: &'a StepBudget, interrupt: &'a Interrupt) -> Self {
        let (work, memory) = (shared.work_left(), shared.bounds().memory);
        Self {
            steps: FUEL,
            work,
            memory,
            interrupted_below: memory.saturating_sub(interrupt.memory),
            depth: 0,
            // An interrupted step looks at once.
            next_look: match shared.is_interrupted() {
                true => work,
                false => look_below(work),
            },
            begun: work,
            shared,
            interrupt,
        }
    }

    #[cold]
    fn interrupted(&self) -> Fault {
        self.shared.0.interrupted.store(true, Ordering::Relaxed);
        Fault::Interrupted
    }

    /// Charges one step.
    #[inline]
    pub(super) fn step(&mut self) -> Result<()> {
        let Some(steps) = self.steps.checked_sub(1) else {
            return Err(Fault::Limit(Limit::Steps));
        };
        self.steps = steps;
        self.work(STEP)
    }

    /// Charges for reading or writing this many bytes.
    #[inline]
    pub(super) fn touch(&mut self, bytes: usize) -> Result<()> {
        self.work(bytes as u64)
    }

    /// Charges for reading or writing this many bytes at `weight` times the cost of copying.
    #[inline]
    pub(super) fn touch_slowly(&mut self, bytes: usize, weight: u64) -> Result<()> {
        self.work((bytes as u64).saturating_mul(weight))
    }

    /// Charges work, in units of bytes copied.
    #[inline]
    pub(super) fn work(&mut self, units: u64) -> Result<()> {
        let Some(work) = self.work.checked_sub(units) else {
            self.work = 0;
            return Err(Fault::Limit(Limit::Work));
        };
        self.work = work;
        if work <= self.next_look {
            self.look()?;
        }
        Ok(())
    }

    /// Charges for allocating and filling this many bytes.
    #[inline]
    pub(super) fn hold(&mut self, bytes: usize) -> Result<()> {
        let Some(memory) = self.memory.checked_sub(bytes) else {
            return Err(Fault::Limit(Limit::Memory));
        };
        if memory < self.interrupted_below {
            return Err(self.interrupted());
        }
        self.memory = memory;
        self.touch(bytes)
    }

    /// Charges for allocating this many values.
    #[inline]
    pub(super) fn charge_values(&mut self, count: usize) -> Result<()> {
        self.hold(count.saturating_mul(SLOT))
    }

    /// Checks whether this many bytes could be allocated, for operations whose result is measured
    /// afterwards.
    pub(super) fn room(&self, bytes: usize) -> Result<()> {
        if bytes > self.memory {
            return Err(Fault::Limit(Limit::Memory));
        }
        Ok(())
    }

    /// The bytes that can still be allocated.
    pub(super) fn memory_left(&self) -> usize {
        self.memory
    }

    /// Appends a value as JSON, of which a byte costs `weight`, to `out`, which may hold at most
    /// `limit` bytes afterwards.
    pub(super) fn written(
        &mut self,
        value: &Value,
        out: &mut Vec<u8>,
        limit: usize,
        weight: u64,
    ) -> Result<std::result::Result<(), WriteError>> {
        let mut fault = None;
        let mut pay = |bytes: usize| {
            let bytes = (bytes as u64).saturating_mul(weight);
            fault = self.work(WRITE.saturating_add(bytes)).err();
            fault.is_none()
        };
        let written = write::json(value, out, limit, &mut pay);
        match fault {
            Some(fault) => Err(fault),
            None => Ok(written),
        }
    }

    /// Enters one more level of recursion; [`Self::leave`] leaves it.
    #[inline]
    pub(super) fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Fault::Limit(Limit::Depth));
        }
        Ok(())
    }

    #[inline]
    pub(super) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    #[cold]
    fn look(&mut self) -> Result<()> {
        self.next_look = look_below(self.work);
        if self.shared.is_interrupted() || self.interrupt.is_raised() {
            return Err(self.interrupted());
        }
        Ok(())
    }
}

impl Drop for Budget<'_> {
    fn drop(&mut self) {
        let is_charged = !self.shared.is_interrupted();
        self.shared
            .set_work_left(if is_charged { self.work } else { self.begun });
    }
}

/// The rest of the work at which the next look at the interrupt is due. It does not depend on where
/// an evaluation began, so many short evaluations look as often as a long one.
fn look_below(work: u64) -> u64 {
    work.saturating_sub(1) & !(LOOK - 1)
}
