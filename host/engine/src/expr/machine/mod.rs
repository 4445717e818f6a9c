//! Evaluates expressions and texts within a budget.
//!
//! MiniJinja does the parsing and provides the values and the simplest filters. This module
//! evaluates all operations that can grow, loop or recurse, and charges for them first: MiniJinja's
//! interpreter counts only instructions, and one instruction can allocate any amount of memory. The
//! results equal those of MiniJinja, except that a value becomes text as JSON writes it (`true`,
//! `null`, `{"a":1}`): `oracle` in the tests compares them.

mod budget;
mod checks;
mod compare;
mod expression;
mod fault;
mod filters;
mod functions;
mod json;
mod lower;
pub(super) mod number;
mod object;
mod ops;
mod statement;
mod text;
mod tree;

use std::panic::{AssertUnwindSafe, catch_unwind};

use minijinja::value::{DynObject, Kwargs, ValueKind};
use minijinja::{State, Value};

#[cfg(test)]
pub(super) mod apart {
    //! Where the results differ from those of MiniJinja on purpose: it compares values of different
    //! kinds, and numbers after rounding.

    use std::cell::Cell;

    thread_local! {
        static FOUND: Cell<bool> = const { Cell::new(false) };
    }

    /// A comparison differs.
    pub(super) fn note(differs: bool) {
        FOUND.set(FOUND.get() || differs);
    }

    /// Whether a comparison on this thread differed since the last question.
    pub(in crate::expr) fn take() -> bool {
        FOUND.take()
    }
}

pub use budget::{Bounds, FUEL, Interrupt, MEMORY, Raised, STEP_BYTES, StepBudget, WORK};
pub(super) use checks::ORDERINGS;
pub(super) use expression::is_detail;
pub(super) use fault::{Fault, Limit};
pub(super) use ops::silent;
#[cfg(test)]
pub(super) use text::like_minijinja;
pub(super) use tree::Tree;

use super::environment::ENVIRONMENT;
use super::values::Values;
use super::write::WriteError;
use budget::{Budget, CONTAINER, STEP};
use fault::Result;
use object::{Dict, Items, Kind, VALUE_DEPTH, depth_of, may_collide};
use statement::Frame;
use text::Escape;
use tree::Root;

/// The names of all filters and of all tests.
#[cfg(test)]
pub(super) fn priced() -> [Vec<&'static str>; 2] {
    [
        filters::NAMES.iter().map(|(name, _)| *name).collect(),
        checks::NAMES.iter().map(|(name, _)| *name).collect(),
    ]
}

/// Whether a value is undefined but no mistake.
pub(super) fn is_silent(value: &Value) -> bool {
    is_silent_in(&mut ENVIRONMENT.empty_state(), value)
}

/// Only this filter tells the two undefined values of MiniJinja apart.
fn is_silent_in(state: &mut State<'_, '_>, value: &Value) -> bool {
    let args = std::slice::from_ref(value);
    state.apply_filter("bool", args).is_ok()
}

/// Evaluates a tree. The result may be undefined. A panic in MiniJinja fails only this evaluation:
/// the thread continues with other runs.
pub(super) fn run(tree: &Tree, values: &Values) -> Result<Value> {
    let result = catch_unwind(AssertUnwindSafe(|| evaluate(tree, values)));
    result.unwrap_or_else(|_| {
        let message = "the evaluation panicked, which is a bug in windlass or in MiniJinja";
        Err(Fault::invalid(message))
    })
}

/// Appends a result as JSON to `out`, which may hold at most `limit` bytes afterwards, within the
/// work that the evaluations from its values share.
pub(super) fn write(
    value: &Value,
    out: &mut Vec<u8>,
    limit: usize,
    values: &Values,
) -> Result<std::result::Result<(), WriteError>> {
    let mut budget = Budget::new(values.budget(), values.interrupt());
    budget.written(value, out, limit, 1)
}

fn evaluate(tree: &Tree, values: &Values) -> Result<Value> {
    let mut machine = Machine {
        tree,
        values,
        budget: Budget::new(values.budget(), values.interrupt()),
        frames: Vec::new(),
        escape: Escape::None,
        out: String::new(),
        captured: Value::UNDEFINED,
        state: None,
    };
    match &tree.root {
        Root::Expression(expr) => machine.eval(expr),
        Root::Text(body) => {
            machine.frames.push(Frame::default());
            machine.body(body)?;
            let text = std::mem::take(&mut machine.out);
            machine.budget.hold(text.len())?;
            Ok(Value::from(text))
        }
    }
}

/// One evaluation.
struct Machine<'a> {
    tree: &'a Tree,
    values: &'a Values,
    budget: Budget<'a>,
    frames: Vec<Frame<'a>>,
    escape: Escape,
    /// The text so far of the innermost capture.
    out: String,
    /// The text that the innermost filter block has captured.
    captured: Value,
    /// The state for MiniJinja's own filters.
    state: Option<Box<State<'static, 'static>>>,
}

impl Machine<'_> {
    fn state(&mut self) -> &mut State<'static, 'static> {
        self.state
            .get_or_insert_with(|| Box::new(ENVIRONMENT.empty_state()))
    }

    /// Whether a value counts as true.
    fn is_true(&mut self, value: &Value) -> Result<bool> {
        self.defined(value)?;
        Ok(value.is_true())
    }

    /// Fails if a value is undefined.
    fn defined(&mut self, value: &Value) -> Result<()> {
        if value.is_undefined() && !self.is_silent(value) {
            return Err(Fault::undefined());
        }
        Ok(())
    }

    /// Whether the value comes from an `if` without `else`, or is a missing member of the details of
    /// a failure: undefined, but no mistake.
    fn is_silent(&mut self, value: &Value) -> bool {
        is_silent_in(self.state(), value)
    }

    /// The elements of a value for iteration: items, keys or characters.
    fn items(&mut self, value: &Value) -> Result<Vec<Value>> {
        self.defined(value)?;
        self.items_or_none(value)
    }

    /// As `items`, but empty if the value is undefined.
    fn items_or_none(&mut self, value: &Value) -> Result<Vec<Value>> {
        let items = self.raw_items(value)?;
        if let Some(made) = value.downcast_object_ref::<Items>()
            && made.kind == Kind::Endless
        {
            // A value that stands for a mistake reports it when it is read.
            for item in items
                .iter()
                .filter(|item| item.kind() == ValueKind::Invalid)
            {
                item.try_iter()?;
            }
        }
        Ok(items)
    }

    /// As `items`, without reporting mistakes among the items.
    fn raw_items(&mut self, value: &Value) -> Result<Vec<Value>> {
        if let Some(items) = value.downcast_object_ref::<Items>() {
            self.budget.charge_values(items.items.len())?;
            return Ok(items.items.clone());
        }
        if let Some(text) = value.as_str().filter(|_| value.kind() == ValueKind::String) {
            let count = text.chars().count();
            self.budget.touch(text.len())?;
            self.budget.charge_values(count)?;
            return Ok(text.chars().map(Value::from).collect());
        }
        let iter = value.try_iter()?;
        let mut items = Vec::new();
        for item in iter {
            self.budget.charge_values(1)?;
            items.push(item);
        }
        Ok(items)
    }

    /// A list of these items.
    fn list(&mut self, kind: Kind, items: Vec<Value>) -> Result<Value> {
        self.budget.hold(CONTAINER)?;
        self.budget.touch(items.len())?;
        let depth = items.iter().map(depth_of).max().unwrap_or_default();
        self.nests(depth)?;
        Ok(Value::from_object(Items::new(kind, items, depth)))
    }

    /// A map of these pairs; of several values with one key the last counts.
    fn dict(&mut self, pairs: Vec<(Value, Value)>) -> Result<Value> {
        // Twice the size of a value for the pair, and as much again for the table.
        self.budget.charge_values(pairs.len().saturating_mul(4))?;
        self.budget.hold(CONTAINER)?;
        let mut depth = 0;
        let mut alike = 0_u64;
        for (key, value) in &pairs {
            let own = self.key(key)?;
            if may_collide(key) {
                self.budget.work(alike)?;
                alike = alike.saturating_add(own);
            }
            depth = depth.max(depth_of(key)).max(depth_of(value));
        }
        self.nests(depth)?;
        let map = Value::from_pairs(pairs);
        Ok(Value::from_object(Dict::new(map, depth, alike)))
    }

    fn nests(&self, depth: u16) -> Result<()> {
        if depth >= VALUE_DEPTH {
            return Err(Fault::Limit(Limit::Nesting));
        }
        Ok(())
    }

    /// Charges for looking up a key in a map or a list.
    fn lookup(&mut self, of: Option<&DynObject>, key: &Value) -> Result<()> {
        self.key(key)?;
        match of.and_then(|of| of.downcast_ref::<Dict>()) {
            Some(dict) if may_collide(key) => self.budget.work(dict.alike()),
            _ => Ok(()),
        }
    }

    /// Charges for reading a key, and returns how much.
    fn key(&mut self, key: &Value) -> Result<u64> {
        if key.as_object().is_some() {
            return Ok(self.measure(key)?.work());
        }
        let work = STEP.saturating_add(key.as_str().map_or(0, str::len) as u64);
        self.budget.work(work)?;
        Ok(work)
    }

    /// The size of a value with all its contents: bytes of text, and a slot for each value.
    /// Measuring is charged.
    fn measure(&mut self, value: &Value) -> Result<Size> {
        let mut size = Size::default();
        self.measure_into(value, &mut size)?;
        Ok(size)
    }

    fn measure_into(&mut self, value: &Value, size: &mut Size) -> Result<()> {
        self.budget.work(STEP)?;
        size.values = size.values.saturating_add(1);
        if let Some(text) = value.as_str() {
            self.budget.touch(text.len())?;
            size.bytes = size.bytes.saturating_add(text.len());
            return Ok(());
        }
        let digits = number::size(value);
        self.budget.touch_slowly(digits, number::WEIGHT)?;
        size.bytes = size.bytes.saturating_add(digits);
        let Some(object) = value.as_object() else {
            return Ok(());
        };
        self.budget.enter()?;
        if value.kind() == ValueKind::Map {
            for (key, item) in object.try_iter_pairs().into_iter().flatten() {
                self.measure_into(&key, size)?;
                self.measure_into(&item, size)?;
            }
        } else {
            for item in object.try_iter().into_iter().flatten() {
                self.measure_into(&item, size)?;
            }
        }
        self.budget.leave();
        Ok(())
    }

    /// Named arguments in the form that MiniJinja's functions read.
    fn kwargs(named: Vec<(String, Value)>) -> Value {
        Value::from(named.into_iter().collect::<Kwargs>())
    }
}

/// The size of a value.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    values: usize,
    bytes: usize,
}

impl Size {
    /// The work of comparing the value with another one.
    fn work(self) -> u64 {
        let values = (self.values as u64).saturating_mul(STEP);
        values.saturating_add((self.bytes as u64).saturating_mul(number::WEIGHT))
    }

    /// The most bytes of the value as text: a float has up to 330 digits, and an escaped character
    /// has four times its bytes, eight times with the quotes around it.
    fn as_text(self) -> usize {
        let bytes = self.bytes.saturating_mul(8);
        self.values.saturating_mul(350).saturating_add(bytes)
    }
}
