//! The defaults of a schema: what a value gets for the members that it lacks.
//!
//! A default holds where its subschema applies to every value: below `properties`, `items`,
//! `prefixItems` and `additionalProperties`, and through `$ref` and `allOf`. A branch of `anyOf`,
//! `oneOf`, `if` or `not` may not be meant, and so adds nothing. Where several defaults apply to one
//! member, the outermost one counts.
//!
//! The text of a value is copied and never written anew, so each number keeps its digits. Each
//! default is charged before it is added: a default inside of the items of a long list multiplies.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::Refused;
use super::plan::{Part, Plan};
use crate::json_text::Members;
use crate::{codes, limits};

/// Steps of the bound for each step taken here, which is slower than one of the validator.
const STEP: u64 = 4;

/// What an added default counts besides its text, in bytes.
const ADDED: u64 = 32;

/// How deep values are looked into. The readers of JSON refuse deeper ones.
const DEPTH: usize = 128;

/// The part of the whole schema.
const ROOT: u32 = 0;

const TOO_LARGE: &str = "the defaults are too large together";

/// A bound that is exceeded while defaults are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beyond {
    /// It takes too many steps.
    Steps,
    /// The defaults take too many bytes.
    Bytes,
}

/// The defaults of a schema.
#[derive(Debug)]
pub(super) struct Defaults {
    /// By part: the text of the default of a value that the part applies to, complete in itself.
    texts: Vec<Option<Arc<str>>>,
    /// By part: the members that have a default, with the part of the member.
    members: Vec<Vec<(Box<str>, u32)>>,
    /// By part: whether it adds anything to a value, or to a part of one.
    fills: Vec<bool>,
}

impl Defaults {
    /// The defaults of a plan; none if there is none.
    ///
    /// # Errors
    ///
    /// A default is inside of itself, so that it has no end, or the defaults are too large.
    pub(super) fn of(plan: &Plan) -> Result<Option<Self>, Refused> {
        if plan.parts.iter().all(|part| part.default.is_none()) {
            return Ok(None);
        }
        let mut known = vec![None; plan.parts.len()];
        let numbers = (0_u32..).take(plan.parts.len());
        let sources: Vec<_> = numbers.map(|part| source(plan, part, &mut known)).collect();
        let source = |part: u32| sources.get(part as usize).copied().flatten();
        let members = plan.parts.iter().map(|part| {
            let with_default = part.properties.iter();
            let with_default = with_default.filter(|(_, of)| source(**of).is_some());
            let mut members: Vec<_> = with_default.map(|(name, of)| (name.clone(), *of)).collect();
            members.sort_unstable();
            members
        });
        let mut defaults = Self {
            texts: vec![None; plan.parts.len()],
            members: members.collect(),
            fills: Vec::new(),
        };
        defaults.fills = defaults.filling(plan);
        let whole = Whole {
            plan,
            defaults: &defaults,
            sources: &sources,
            known: RefCell::new(vec![Text::Unknown; plan.parts.len()]),
            bytes: RefCell::new(0),
        };
        for (part, source) in (0_u32..).zip(&sources) {
            if source.is_some_and(|source| source == part) {
                whole.text(part, 0)?;
            }
        }
        let known = whole.known.into_inner();
        let text = |source: &Option<u32>| match known.get((*source)? as usize) {
            Some(Text::Known(text)) => Some(Arc::clone(text)),
            _ => None,
        };
        defaults.texts = sources.iter().map(text).collect();
        Ok(Some(defaults))
    }

    /// The parts of which each adds something, backwards from those with a default of a member.
    fn filling(&self, plan: &Plan) -> Vec<bool> {
        let mut above: Vec<Vec<u32>> = vec![Vec::new(); plan.parts.len()];
        for (number, part) in (0_u32..).zip(&plan.parts) {
            for below in alike(part).chain(below(part)) {
                if let Some(above) = above.get_mut(below as usize) {
                    above.push(number);
                }
            }
        }
        let mut fills = vec![false; plan.parts.len()];
        let own = (0_u32..).zip(&self.members);
        let own = own.filter(|(_, members)| !members.is_empty());
        let mut waiting: Vec<u32> = own.map(|(part, _)| part).collect();
        while let Some(part) = waiting.pop() {
            match fills.get_mut(part as usize) {
                Some(fills) if !*fills => *fills = true,
                _ => continue,
            }
            waiting.extend(above.get(part as usize).into_iter().flatten());
        }
        fills
    }

    fn fills(&self, part: u32) -> bool {
        self.fills.get(part as usize).copied().unwrap_or_default()
    }

    fn members(&self, part: u32) -> &[(Box<str>, u32)] {
        self.members.get(part as usize).map_or(&[], Vec::as_slice)
    }

    /// The text of the default of a part, with the defaults inside of it.
    pub(super) fn text(&self, part: u32) -> Option<&Arc<str>> {
        self.texts.get(part as usize)?.as_ref()
    }

    /// Adds the defaults to the text of a value. None: it lacks nothing.
    ///
    /// # Errors
    ///
    /// A bound is exceeded.
    pub(super) fn complete(&self, plan: &Plan, text: &str) -> Result<Option<Vec<u8>>, Beyond> {
        // A run without an input has `null`.
        if text.trim() == "null"
            && let Some(whole) = self.text(ROOT)
        {
            return Ok(Some(whole.as_bytes().to_vec()));
        }
        if !self.fills(ROOT) {
            return Ok(None);
        }
        let default = |part: u32| Ok(self.text(part).map(Arc::clone));
        let mut fill = Fill {
            plan,
            defaults: self,
            default: &default,
            steps: 0,
            bytes: 0,
            out: Vec::with_capacity(text.len() + 256),
        };
        let parts = fill.closed(vec![ROOT])?;
        fill.value(&parts, text, 0)?;
        Ok((fill.bytes > 0).then_some(fill.out))
    }
}

/// The part whose `default` a value gets that a part applies to.
fn source(plan: &Plan, part: u32, known: &mut [Option<Option<u32>>]) -> Option<u32> {
    if let Some(source) = known.get(part as usize).copied().flatten() {
        return source;
    }
    let content = plan.part(part);
    let own = content.default.as_ref().map(|_| part);
    let source = own.or_else(|| alike(content).find_map(|other| source(plan, other, known)));
    if let Some(place) = known.get_mut(part as usize) {
        *place = Some(source);
    }
    source
}

/// The parts that apply to the same value in any case.
fn alike(part: &Part) -> impl Iterator<Item = u32> {
    part.always.iter().copied()
}

/// `additionalProperties`, if no pattern could apply in its place.
fn rest(part: &Part) -> Option<u32> {
    part.rest.filter(|_| !part.patterned)
}

/// The parts that apply to members and items in any case.
fn below(part: &Part) -> impl Iterator<Item = u32> {
    let named = part.properties.values().chain(&part.prefix).copied();
    named.chain([rest(part), part.items].into_iter().flatten())
}

/// The text of a default while a schema is compiled.
#[derive(Clone)]
enum Text {
    Unknown,
    /// It is being made, so a default that needs it is inside of itself.
    Begun,
    Known(Arc<str>),
}

/// Completes the defaults of a schema by each other.
struct Whole<'p> {
    sources: &'p [Option<u32>],
    plan: &'p Plan,
    defaults: &'p Defaults,
    known: RefCell<Vec<Text>>,
    bytes: RefCell<u64>,
}

impl Whole<'_> {
    fn refused(&self, part: u32, message: &str) -> Refused {
        let above = self.plan.pointers.get(part as usize);
        let pointer = format!("{}/default", above.map_or("", String::as_str));
        Refused::new(codes::SCHEMA_DEFAULT, pointer, message)
    }

    /// The complete default of a part that has one of its own.
    fn text(&self, part: u32, depth: usize) -> Result<Arc<str>, Refused> {
        let at = part as usize;
        match self.known.borrow().get(at) {
            Some(Text::Known(text)) => return Ok(Arc::clone(text)),
            Some(Text::Begun) => {
                let message = "the default contains itself, without end";
                return Err(self.refused(part, message));
            }
            _ => {}
        }
        if depth > limits::SCHEMA_CHAIN {
            return Err(self.refused(part, "defaults are nested too deeply in each other"));
        }
        let set = |text: Text| {
            if let Some(place) = self.known.borrow_mut().get_mut(at) {
                *place = text;
            }
        };
        set(Text::Begun);
        let written = self.plan.part(part).default.as_ref().map(Value::to_string);
        let written = written.unwrap_or_else(|| "null".to_owned());
        let inner = RefCell::new(None);
        let default = |part: u32| match self.sources.get(part as usize).copied().flatten() {
            None => Ok(None),
            Some(source) => match self.text(source, depth + 1) {
                Ok(text) => Ok(Some(text)),
                Err(refused) => {
                    inner.borrow_mut().get_or_insert(refused);
                    Err(Beyond::Bytes)
                }
            },
        };
        let mut fill = Fill {
            plan: self.plan,
            defaults: self.defaults,
            default: &default,
            steps: 0,
            bytes: 0,
            out: Vec::with_capacity(written.len()),
        };
        let parts = fill.closed(vec![part]);
        let done = parts.and_then(|parts| fill.value(&parts, &written, 0));
        let (bytes, out) = (fill.bytes, fill.out);
        if let Err(beyond) = done {
            let message = match beyond {
                Beyond::Steps => "completing the default takes too many steps",
                Beyond::Bytes => TOO_LARGE,
            };
            let refused = inner.into_inner();
            return Err(refused.unwrap_or_else(|| self.refused(part, message)));
        }
        let all = *self.bytes.borrow() + bytes + written.len() as u64;
        if all > limits::SCHEMA_DEFAULTS_BYTES {
            return Err(self.refused(part, TOO_LARGE));
        }
        *self.bytes.borrow_mut() = all;
        let text: Arc<str> = String::from_utf8_lossy(&out).into();
        set(Text::Known(Arc::clone(&text)));
        Ok(text)
    }
}

/// Copies a text and adds what it lacks.
struct Fill<'a> {
    plan: &'a Plan,
    defaults: &'a Defaults,
    /// The complete default of a part.
    default: &'a dyn Fn(u32) -> Result<Option<Arc<str>>, Beyond>,
    steps: u64,
    bytes: u64,
    out: Vec<u8>,
}

impl Fill<'_> {
    fn step(&mut self, steps: usize) -> Result<(), Beyond> {
        self.steps = self.steps.saturating_add(steps as u64 * STEP);
        match self.steps > limits::SCHEMA_STEPS {
            true => Err(Beyond::Steps),
            false => Ok(()),
        }
    }

    /// The parts that apply to the same value as these and add something, each once: the outermost
    /// first.
    fn closed(&mut self, parts: Vec<u32>) -> Result<Vec<u32>, Beyond> {
        let (mut closed, mut known) = (parts, HashSet::new());
        closed.retain(|part| self.defaults.fills(*part) && known.insert(*part));
        let mut next = 0;
        while let Some(part) = closed.get(next).copied() {
            self.step(1)?;
            let more = alike(self.plan.part(part));
            closed.extend(more.filter(|part| self.defaults.fills(*part) && known.insert(*part)));
            next += 1;
        }
        Ok(closed)
    }

    fn value(&mut self, parts: &[u32], text: &str, depth: usize) -> Result<(), Beyond> {
        self.step(1 + parts.len() + text.len() / 256)?;
        let begin = text.trim_start().as_bytes().first();
        if parts.is_empty() || depth >= DEPTH {
            self.out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        match begin {
            Some(b'{') => match serde_json::from_str::<Members<'_>>(text) {
                Ok(members) => return self.object(parts, &members.0, depth),
                Err(_) => self.out.extend_from_slice(text.as_bytes()),
            },
            Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(text) {
                Ok(items) => return self.list(parts, &items, depth),
                Err(_) => self.out.extend_from_slice(text.as_bytes()),
            },
            _ => self.out.extend_from_slice(text.as_bytes()),
        }
        Ok(())
    }

    fn object(
        &mut self,
        parts: &[u32],
        members: &[(String, &RawValue)],
        depth: usize,
    ) -> Result<(), Beyond> {
        self.step(members.len().saturating_mul(parts.len()).max(members.len()))?;
        let mut known: HashSet<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        self.out.push(b'{');
        let mut first = true;
        for (name, value) in members {
            self.name(name, &mut first);
            let plan = self.plan;
            let of = |part: &u32| {
                let part = plan.part(*part);
                part.properties
                    .get(name.as_str())
                    .copied()
                    .or_else(|| rest(part))
            };
            let below = self.closed(parts.iter().filter_map(of).collect())?;
            self.value(&below, value.get(), depth + 1)?;
        }
        let defaults = self.defaults;
        for part in parts {
            self.step(defaults.members(*part).len())?;
            for (name, of) in defaults.members(*part) {
                if !known.insert(name) {
                    continue;
                }
                let Some(text) = (self.default)(*of)? else {
                    continue;
                };
                self.bytes += (name.len() + text.len()) as u64 + ADDED;
                if self.bytes > limits::SCHEMA_DEFAULTS_BYTES {
                    return Err(Beyond::Bytes);
                }
                self.name(name, &mut first);
                self.out.extend_from_slice(text.as_bytes());
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn name(&mut self, name: &str, first: &mut bool) {
        if !std::mem::take(first) {
            self.out.push(b',');
        }
        self.out.extend(Value::from(name).to_string().into_bytes());
        self.out.push(b':');
    }

    fn list(&mut self, parts: &[u32], items: &[&RawValue], depth: usize) -> Result<(), Beyond> {
        self.out.push(b'[');
        let plan = self.plan;
        let longest = parts.iter().map(|part| plan.part(*part).prefix.len()).max();
        let longest = longest.unwrap_or_default();
        let mut below = Vec::new();
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            if index <= longest {
                let of = |part: &u32| {
                    let part = plan.part(*part);
                    part.prefix.get(index).copied().or(part.items)
                };
                below = self.closed(parts.iter().filter_map(of).collect())?;
            }
            self.value(&below, item.get(), depth + 1)?;
        }
        self.out.push(b']');
        Ok(())
    }
}
