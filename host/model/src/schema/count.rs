//! Counts how many steps checking a value against a schema takes, before it is checked.
//!
//! A step is a keyword evaluated for a value, a member, an item, or a part of a text. The count is
//! never less than the work of the validator: each branch of each choice counts, and so does each
//! pattern of names. Counting visits a value once for each set of parts that apply to it, not once
//! for each time that they do, and stops at the bound.
//!
//! Schemas that are not recursive have a fixed number of steps for a value of one byte. If this
//! number, multiplied by the size of the value, is within the bound, nothing is counted.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use serde_json::Value;

use super::Refused;
use super::plan::{Here, Part, Plan};
use crate::{codes, limits};

/// The purpose of applying a part to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Mode {
    /// Find the mistakes.
    Explain,
    /// Decide whether the value fits.
    Fit,
    /// Find the members and items that were evaluated, for `unevaluatedProperties` and
    /// `unevaluatedItems`.
    Mark,
}

/// A part in a mode. In sorted order, each precedes all that it applies to the same value.
type Visit = (u32, Mode);

/// Visits, each with its multiplicity.
type Visits = Vec<(Visit, u64)>;

/// Bytes of a text that count as one more step without a pattern, as for its length.
const TEXT: u64 = 64;

/// Steps for `uniqueItems` of a list, times the list's size.
const UNIQUE: u64 = 4;

/// The number of values in a value, itself included.
pub(super) fn values(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(values).sum::<u64>(),
        Value::Object(members) => 1 + members.values().map(values).sum::<u64>(),
        _ => 1,
    }
}

/// The size of a value: one for each value in it and each byte of a text, up to a bound.
pub(super) fn size(value: &Value, bound: u64) -> u64 {
    let mut sum = 0;
    add_size(value, bound, &mut sum);
    sum
}

fn add_size(value: &Value, bound: u64, sum: &mut u64) {
    *sum += 1;
    match value {
        Value::String(text) => *sum += text.len() as u64,
        Value::Array(items) => {
            for item in items {
                if *sum > bound {
                    return;
                }
                add_size(item, bound, sum);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                if *sum > bound {
                    return;
                }
                *sum += key.len() as u64;
                add_size(member, bound, sum);
            }
        }
        _ => {}
    }
}

/// The cost of a schema independent of the value, computed once.
#[derive(Debug)]
pub(super) struct Costs {
    /// The most steps for each unit of a value's size; none if the schema is recursive.
    flat: Option<u64>,
    /// Whether there is an `anyOf` or a `oneOf` in it.
    pub(super) choices: bool,
}

impl Plan {
    /// Checks the bounds of a schema.
    pub(super) fn costs(&self) -> Result<Costs, Refused> {
        let refused = |part: u32, message: String| {
            let pointer = self.pointers.get(part as usize).cloned();
            let help = "use fewer subschemas for one value: `$ref`, `allOf`, `anyOf`, `oneOf`, \
                        `not` and `if` multiply where they are nested";
            Refused::new(codes::SCHEMA_BOUNDS, pointer.unwrap_or_default(), message).help(help)
        };
        let mut expansions: HashMap<Visit, (u64, u64, usize)> = HashMap::new();
        let mut preparation = 0_u64;
        let numbered: Vec<(u32, &Part)> = (0_u32..).zip(&self.parts).collect();
        for (part, content) in numbered.into_iter().rev() {
            for mode in [Mode::Mark, Mode::Fit] {
                let (mut visits, mut required, mut height) = (1_u64, content.required, 0);
                self.here((part, mode), |to, times| {
                    let (v, r, h) = expansions.get(&to).copied().unwrap_or_default();
                    visits = visits.saturating_add(v.saturating_mul(times));
                    required = required.saturating_add(r.saturating_mul(times));
                    height = height.max(h);
                });
                // A visit in mode `Fit` includes the visits in mode `Mark` that it leads to.
                if mode == Mode::Fit {
                    if visits > limits::SCHEMA_EXPANSIONS {
                        let message = format!(
                            "over {} subschemas apply to one value",
                            limits::SCHEMA_EXPANSIONS
                        );
                        return Err(refused(part, message));
                    }
                    if height >= limits::SCHEMA_CHAIN {
                        let message = format!(
                            "subschemas apply each other to one value over {} deep",
                            limits::SCHEMA_CHAIN
                        );
                        return Err(refused(part, message));
                    }
                    preparation = preparation.saturating_add(visits);
                    if content.here.iter().any(|(_, kind)| *kind == Here::Choice) {
                        // The validator searches for a property that distinguishes the branches.
                        preparation =
                            preparation.saturating_add(visits.saturating_mul(required) / 16);
                    }
                }
                expansions.insert((part, mode), (visits, required, height + 1));
            }
        }
        super::unevaluated::prepare(self, &mut preparation);
        if preparation > limits::SCHEMA_PREPARATION {
            let message = "it takes too long to prepare".to_owned();
            return Err(refused(self.root, message));
        }
        let kinds = || self.parts.iter().flat_map(|part| &part.here);
        Ok(Costs {
            flat: self.flat(),
            choices: kinds().any(|(_, kind)| *kind == Here::Choice),
        })
    }

    /// The steps of all parts together, each as often as there are paths to it. None if the number
    /// is unbounded, or the parts nest too deeply for some value.
    fn flat(&self) -> Option<u64> {
        let root = (self.root, Mode::Fit);
        let mut done: HashMap<Visit, Option<(u64, usize)>> = HashMap::new();
        let mut stack = vec![(root, false)];
        while let Some((visit, entered)) = stack.pop() {
            if !entered {
                match done.get(&visit) {
                    Some(Some(_)) => continue,
                    // The part leads to itself.
                    Some(None) => return None,
                    None => {}
                }
                done.insert(visit, None);
                stack.push((visit, true));
                self.all(visit, |to, _| {
                    if !matches!(done.get(&to), Some(Some(_))) {
                        stack.push((to, false));
                    }
                });
                continue;
            }
            let part = self.part(visit.0);
            let fixed = part.weight + part.text + part.names_text + UNIQUE + 4;
            let (mut steps, mut height) = (fixed, 0);
            self.all(visit, |to, times| {
                let (s, h) = done.get(&to).copied().flatten().unwrap_or_default();
                steps = steps.saturating_add(s.saturating_mul(times));
                height = height.max(h + 1);
            });
            if height >= limits::SCHEMA_DEPTH {
                return None;
            }
            done.insert(visit, Some((steps, height)));
        }
        done.get(&root).copied().flatten().map(|(steps, _)| steps)
    }

    /// The parts that a visit applies to the same value, with their multiplicity.
    fn here(&self, (number, mode): Visit, mut to: impl FnMut(Visit, u64)) {
        use Mode::{Explain, Fit, Mark};
        let part = self.part(number);
        for (other, kind) in &part.here {
            match (mode, kind) {
                (Fit, _) | (Explain, Here::If | Here::Not) => to((*other, Fit), 1),
                (Explain, Here::Each | Here::Along | Here::Ref) => to((*other, Explain), 1),
                (Explain, Here::Choice) => {
                    to((*other, Fit), 2);
                    to((*other, Explain), 1);
                }
                (Mark, Here::Each | Here::Choice | Here::If) => {
                    to((*other, Fit), 1);
                    to((*other, Mark), 1);
                }
                (Mark, Here::Along | Here::Ref) => to((*other, Mark), 1),
                (Mark, Here::Not) => {}
            }
        }
        if mode != Mark && part.unevaluated() {
            to((number, Mark), 1);
        }
    }

    /// The parts that a visit applies to a member.
    fn member(&self, (number, mode): Visit, key: &str, mut to: impl FnMut(Visit)) {
        let part = self.part(number);
        if mode != Mode::Mark {
            let named = part.properties.get(key);
            let rest = part.rest.iter().filter(|_| named.is_none());
            let parts = named.into_iter().chain(&part.patterned).chain(rest);
            parts.for_each(|other| to((*other, mode)));
        }
        part.other_members
            .iter()
            .for_each(|other| to((*other, Mode::Fit)));
    }

    /// The parts that a visit applies to an item.
    fn item(&self, (number, mode): Visit, index: usize, mut to: impl FnMut(Visit)) {
        let part = self.part(number);
        if mode != Mode::Mark {
            let other = part.prefix.get(index).or(part.items.as_ref());
            other.into_iter().for_each(|other| to((*other, mode)));
        }
        for other in part.contains.iter().chain(&part.other_items) {
            to((*other, Mode::Fit));
        }
    }

    /// All parts that a visit may apply.
    fn all(&self, visit: Visit, mut to: impl FnMut(Visit, u64)) {
        self.here(visit, &mut to);
        let part = self.part(visit.0);
        for other in part.below() {
            to((other, Mode::Fit), 1);
        }
    }

    /// The steps for a value, or none if they are over the bounds.
    pub(super) fn steps(&self, costs: &Costs, mode: Mode, value: &Value) -> Option<u64> {
        self.steps_of(self.root, costs, mode, value)
    }

    /// As [`Plan::steps`], for a value that one part applies to.
    pub(super) fn steps_of(
        &self,
        part: u32,
        costs: &Costs,
        mode: Mode,
        value: &Value,
    ) -> Option<u64> {
        if mode == Mode::Fit
            && let Some(flat) = costs.flat
        {
            let bound = limits::SCHEMA_STEPS / flat.saturating_mul(2).max(1);
            let size = size(value, bound);
            if size <= bound {
                return Some(size * flat * 2);
            }
        }
        let mut counter = Counter {
            plan: self,
            steps: 0,
            known: HashMap::new(),
        };
        let begin = [((part, mode), 1)];
        let within = counter.visit(&begin, value, 0);
        within.then_some(counter.steps)
    }
}

/// The parts that apply to one value, with all that these apply to the same one.
#[derive(Default)]
struct Closure {
    fixed: u64,
    text: u64,
    member: u64,
    name: u64,
    item: u64,
    unique: u64,
    height: usize,
    /// The visits that apply parts to members or items.
    objects: Visits,
    lists: Visits,
    /// The visits that apply to names.
    names: Visits,
    /// Items from this index on are treated alike.
    prefix: usize,
}

struct Counter<'p> {
    plan: &'p Plan,
    steps: u64,
    known: HashMap<Visits, Rc<Closure>>,
}

impl Counter<'_> {
    /// Adds steps; false if there are too many now.
    fn add(&mut self, times: u64, steps: u64) -> bool {
        self.steps = self.steps.saturating_add(times.saturating_mul(steps));
        self.steps <= limits::SCHEMA_STEPS
    }

    fn visit(&mut self, begin: &[(Visit, u64)], value: &Value, depth: usize) -> bool {
        let closure = self.closure(begin);
        let depth = depth + closure.height;
        if depth > limits::SCHEMA_DEPTH || !self.add(1, closure.fixed) {
            return false;
        }
        match value {
            Value::String(text) => {
                let bytes = text.len() as u64;
                self.add(bytes, closure.text) && self.add(bytes / TEXT, closure.fixed)
            }
            Value::Array(items) => self.list(&closure, value, items, depth),
            Value::Object(members) => {
                if !self.add(members.len() as u64, closure.member) {
                    return false;
                }
                let mut below = Vec::new();
                for (key, member) in members {
                    if !self.add(key.len() as u64, closure.name) {
                        return false;
                    }
                    if !closure.names.is_empty() {
                        let names = self.closure(&closure.names);
                        let bytes = key.len() as u64;
                        let text = names.text.saturating_mul(bytes);
                        let text = text.saturating_add(names.fixed.saturating_mul(bytes / TEXT));
                        if !self.add(1, names.fixed.saturating_add(text)) {
                            return false;
                        }
                    }
                    below.clear();
                    for (visit, times) in &closure.objects {
                        let into = |to| below.push((to, *times));
                        self.plan.member(*visit, key, into);
                    }
                    if !below.is_empty() && !self.visit(joined(&mut below), member, depth) {
                        return false;
                    }
                }
                true
            }
            _ => true,
        }
    }

    fn list(&mut self, closure: &Closure, list: &Value, items: &[Value], depth: usize) -> bool {
        if !self.add(items.len() as u64, closure.item) {
            return false;
        }
        if closure.unique > 0 {
            let left = limits::SCHEMA_STEPS - self.steps;
            if !self.add(closure.unique, size(list, left) * UNIQUE) {
                return false;
            }
        }
        let mut below = Vec::new();
        for (index, item) in items.iter().enumerate() {
            if index <= closure.prefix {
                below.clear();
                for (visit, times) in &closure.lists {
                    let into = |to| below.push((to, *times));
                    self.plan.item(*visit, index, into);
                }
                joined(&mut below);
            }
            if !below.is_empty() && !self.visit(&below, item, depth) {
                return false;
            }
        }
        true
    }

    fn closure(&mut self, begin: &[(Visit, u64)]) -> Rc<Closure> {
        /// The most closures in the cache. Others are computed again.
        const KEPT: usize = 1024;
        /// The most visits below in a closure that is cached.
        const LARGE: usize = 256;
        if let Some(known) = self.known.get(begin) {
            return Rc::clone(known);
        }
        let closure = Rc::new(self.work_out(begin));
        let large = closure.objects.len() + closure.lists.len() > LARGE;
        if self.known.len() < KEPT && !large {
            self.known.insert(begin.to_vec(), Rc::clone(&closure));
        }
        closure
    }

    fn work_out(&self, begin: &[(Visit, u64)]) -> Closure {
        let mut closure = Closure::default();
        let mut waiting: BTreeMap<Visit, (u64, usize)> = BTreeMap::new();
        for (visit, times) in begin {
            waiting.insert(*visit, (*times, 1));
        }
        while let Some((visit, (times, height))) = waiting.pop_first() {
            closure.add(self.plan.part(visit.0), visit, times, height);
            self.plan.here(visit, |to, more| {
                let (sum, deepest) = waiting.entry(to).or_default();
                *sum = sum.saturating_add(times.saturating_mul(more));
                *deepest = (*deepest).max(height + 1);
            });
        }
        joined(&mut closure.names);
        closure
    }
}

impl Closure {
    fn add(&mut self, part: &Part, visit: Visit, times: u64, height: usize) {
        // The explaining validator evaluates failing parts twice.
        let twice = if visit.1 == Mode::Explain { 2 } else { 1 };
        let sum = |to: &mut u64, steps: u64| {
            *to = to.saturating_add(times.saturating_mul(steps).saturating_mul(twice));
        };
        sum(&mut self.fixed, part.weight);
        self.height = self.height.max(height);
        let marks = visit.1 == Mode::Mark;
        if part.has_members() {
            sum(&mut self.member, 2);
            sum(&mut self.name, part.names_text);
            self.objects.push((visit, times));
        }
        if part.has_items() {
            sum(&mut self.item, 1);
            self.prefix = self.prefix.max(part.prefix.len());
            self.lists.push((visit, times));
        }
        if marks {
            // Each member and item is checked for being unevaluated.
            sum(&mut self.member, 1);
            sum(&mut self.item, 1);
            return;
        }
        sum(&mut self.text, part.text);
        if part.unique {
            sum(&mut self.unique, 1);
        }
        if let Some(names) = part.names {
            self.names.push(((names, visit.1), times));
        }
    }
}

/// Visits in order, each once.
fn joined(visits: &mut Visits) -> &[(Visit, u64)] {
    visits.sort_unstable_by_key(|(visit, _)| *visit);
    visits.dedup_by(|(next, more), (visit, times)| {
        let same = next == visit;
        if same {
            *times = times.saturating_add(*more);
        }
        same
    });
    visits
}
