//! The evaluations before a node begins.
//!
//! The thread of the shard evaluates short expressions itself. An expression that takes longer, or
//! that reads or makes much, goes aside: an evaluator of [`Evaluators`](crate::evaluators::Evaluators)
//! evaluates it again from its beginning, and the thread continues with other runs. Then the step
//! begins again, with the results that it has. All expressions of a step see the same values.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use windlass_engine::expr::{
    ExprError, ExprErrorKind, Interrupt, Needs, StepBudget, Template, Values,
};
use windlass_model::{Class, Failure, Payload, ScopeNo};
use windlass_plugins::Cancel;

use super::Message;
use super::gather::Gathered;
use super::memory::Unread;
use super::owned::{OwnedRun, Stage};
use super::shard_state::ShardState;
use super::work::{Address, Patch, Work};
use crate::codes;
use crate::evaluators::Place;
use crate::shared::{Base, RuntimeShared};

/// How long the expressions of one step may occupy the thread of a shard. Others wait meanwhile.
const SLICE: Duration = Duration::from_millis(3);

/// The bytes of JSON that the thread of a shard parses for one step.
const INLINE_JSON: usize = 256 * 1024;

/// The bytes that an expression may allocate on the thread of a shard.
const INLINE_MEMORY: usize = 8 * 1024 * 1024;

/// The evaluations of one step before its node begins.
#[derive(Default)]
pub(crate) struct Evaluations {
    /// The results, in the order in which the step asks for them.
    done: Vec<Result<Payload, Failure>>,
    /// How many of them the step has asked for since it began or began again.
    asked: usize,
    seen: Option<Seen>,
    /// Whether an expression went aside: all others of the step follow it.
    went_aside: bool,
    /// Ends the evaluations on the thread of the shard.
    slice: Option<Interrupt>,
    /// The expression with which the step goes aside.
    long: Option<Box<Long>>,
}

/// The values that the expressions of a step see.
struct Seen {
    values: Values,
    /// Whether the values are there that the templates of the node need.
    before: bool,
    /// Further values that are there.
    more: Needs,
    budget: StepBudget,
}

/// An expression that is evaluated aside.
struct Long {
    template: Template,
    /// Values that are not parsed yet.
    gathered: Option<Gathered>,
}

/// The result of an expression that was evaluated aside.
pub(crate) struct Evaluated {
    to: Address,
    patch: Patch,
    evaluations: Evaluations,
    place: Place,
}

impl Evaluations {
    /// The next result, if the step began again and has it.
    fn next(&mut self) -> Option<Result<Payload, Failure>> {
        let next = self.done.get(self.asked).cloned();
        self.asked += usize::from(next.is_some());
        next
    }

    /// Keeps a result that the step has just got.
    fn keep(&mut self, result: Result<Payload, Failure>) {
        self.done.push(result);
        self.asked = self.done.len();
    }

    /// Whether the step goes aside.
    pub(super) fn is_long(&self) -> bool {
        self.long.is_some()
    }

    /// Evaluates the long expression. Returns false if it was interrupted.
    fn evaluate(&mut self, interrupt: Interrupt) -> bool {
        let (Some(long), Some(seen)) = (self.long.take(), &mut self.seen) else {
            return true;
        };
        let parsed = match long.gathered {
            Some(gathered) => gathered.parse(&mut seen.values),
            None => Ok(()),
        };
        seen.values.interrupted_by(interrupt);
        let result = match parsed {
            Ok(()) => match long.template.render(&seen.values) {
                Ok(json) => Ok(Payload::json(json)),
                Err(error) if error.kind == ExprErrorKind::Interrupted => return false,
                Err(error) => Err(failure(&error)),
            },
            Err(failure) => Err(failure),
        };
        self.done.push(result);
        (self.asked, self.went_aside) = (0, true);
        true
    }

    /// The interrupt of the evaluations on the thread of the shard.
    fn slice(&mut self, base: &Base) -> Interrupt {
        let new = || {
            let (clock, overdue) = (Arc::clone(&base.clock), Arc::clone(&base.overdue));
            let until = clock.monotonic().saturating_add(SLICE);
            let is_over = move || overdue.load(Ordering::Acquire) || clock.monotonic() >= until;
            Interrupt::when(is_over).beyond(INLINE_MEMORY)
        };
        self.slice.get_or_insert_with(new).clone()
    }

    /// The budget of the step, and the values that its expressions see.
    fn seen(&mut self, base: &Base) -> &mut Seen {
        self.seen.get_or_insert_with(|| {
            let budget = StepBudget::new(base.step_bytes);
            let mut values = Values::new();
            values.within(&budget);
            Seen {
                values,
                before: false,
                more: Needs::default(),
                budget,
            }
        })
    }

    /// Charges for bytes that the step makes besides its expressions.
    pub(super) fn make(&mut self, bytes: usize, base: &Base) -> Result<(), Unread> {
        self.seen(base).budget.make(bytes).map_err(|most| {
            let message =
                format!("the values that the node makes take more than {most} bytes together");
            let code = codes::EXPRESSION_BUDGET;
            Unread::Value(Failure::new(Class::Limit, code, message))
        })
    }
}

impl OwnedRun {
    /// Renders a template with the values that it names, before the node begins.
    pub(super) fn render(
        &mut self,
        scope: ScopeNo,
        template: &Template,
        patch: &Patch,
        base: &Base,
    ) -> Result<Bytes, Unread> {
        if let Some(constant) = template.constant() {
            return Ok(constant.clone());
        }
        let result = match self.evaluations.next() {
            Some(known) => known,
            None => {
                let result = self.evaluate(scope, template, patch, base)?;
                self.evaluations.keep(result.clone());
                result
            }
        };
        let payload = result.map_err(Unread::Value)?;
        Ok(payload.inline().cloned().unwrap_or_default())
    }

    /// Renders a whole value before the node begins; a value that is passed on unchanged is never
    /// parsed.
    pub(super) fn render_whole(
        &mut self,
        scope: ScopeNo,
        template: &Template,
        patch: &Patch,
        base: &Base,
    ) -> Result<Payload, Unread> {
        let Some(alias) = template.alias() else {
            return self.render(scope, template, patch, base).map(Payload::json);
        };
        if let Some(known) = self.evaluations.next() {
            return known.map_err(Unread::Value);
        }
        match self.aliased(scope, &alias, patch, base)? {
            Some(payload) => {
                self.evaluations.keep(Ok(payload.clone()));
                Ok(payload)
            }
            None => self.render(scope, template, patch, base).map(Payload::json),
        }
    }

    /// Renders a whole value after a node.
    pub(super) fn render_after(
        &mut self,
        scope: ScopeNo,
        template: &Template,
        base: &Base,
    ) -> Result<Payload, Unread> {
        if let Some(constant) = template.constant() {
            return Ok(Payload::json(constant.clone()));
        }
        let patch = Patch::new();
        if let Some(alias) = template.alias()
            && let Some(payload) = self.aliased(scope, &alias, &patch, base)?
        {
            return Ok(payload);
        }
        let values = self.values(base, scope, template.needs(), &patch)?;
        let rendered = template.render(&values).map(Payload::json);
        rendered.map_err(|error| Unread::Value(failure(&error)))
    }

    /// Evaluates a template on this thread, as long as that is short. The error of a template that
    /// goes aside ends this beginning of the step.
    fn evaluate(
        &mut self,
        scope: ScopeNo,
        template: &Template,
        patch: &Patch,
        base: &Base,
    ) -> Result<Result<Payload, Failure>, Unread> {
        let needs = template.needs();
        let prepared = Arc::clone(&self.prepared);
        let plan = self.node.and_then(|node| prepared.graph.node(node));
        let before = plan.map(|plan| &plan.before);
        let before = before.filter(|before| before.covers(needs));
        let is_there = |seen: &Seen| seen.before && before.is_some() || seen.more.covers(needs);
        let gathered = match &self.evaluations.seen {
            Some(seen) if is_there(seen) => None,
            _ => Some(self.gather(base, scope, before.unwrap_or(needs), patch)?),
        };
        let interrupt = self.evaluations.slice(base);
        let went_aside = self.evaluations.went_aside;
        let seen = self.evaluations.seen(base);
        let mut unparsed = None;
        if let Some(gathered) = gathered {
            match before {
                Some(_) => seen.before = true,
                None => seen.more.merge(needs),
            }
            if gathered.json_bytes() > INLINE_JSON {
                unparsed = Some(gathered);
            } else {
                gathered.parse(&mut seen.values).map_err(Unread::Value)?;
            }
        }
        if unparsed.is_none() && !went_aside {
            seen.values.interrupted_by(interrupt);
            match template.render(&seen.values) {
                Ok(json) => return Ok(Ok(Payload::json(json))),
                Err(error) if error.kind == ExprErrorKind::Interrupted => {}
                Err(error) => return Ok(Err(failure(&error))),
            }
        }
        self.evaluations.long = Some(Box::new(Long {
            template: template.clone(),
            gathered: unparsed,
        }));
        let message = "the evaluation goes aside";
        Err(Unread::Value(Failure::new(
            Class::Cancelled,
            codes::RENDER,
            message,
        )))
    }
}

impl ShardState {
    /// Sends a step aside, with the expression at which it stopped.
    pub(super) fn evaluate_aside(
        &mut self,
        to: Address,
        patch: Patch,
        mut evaluations: Evaluations,
        shared: &Arc<RuntimeShared>,
    ) {
        let Some(owned) = self.owned.get(&to.run) else {
            return;
        };
        let cancel = match owned.held.get(&to.seq).map(|held| &held.stage) {
            Some(Stage::Running(cancel)) => cancel.clone(),
            _ => Cancel::default(),
        };
        let (flow, priority) = (Arc::clone(&owned.flow), owned.priority(to.seq));
        let overdue = Arc::clone(&shared.base.overdue);
        let interrupt =
            Interrupt::when(move || cancel.is_cancelled() || overdue.load(Ordering::Acquire));
        let all = Arc::clone(shared);
        let evaluate = move |place| {
            // An interrupted step has no result: it begins again, or its trigger is gone.
            let _ = evaluations.evaluate(interrupt);
            if let Some(shard) = all.shard(to.run) {
                shard.send(Message::Evaluated(Box::new(Evaluated {
                    to,
                    patch,
                    evaluations,
                    place,
                })));
            }
        };
        let evaluators = &shared.bursts.evaluators;
        evaluators.submit(flow, priority, Box::new(evaluate), shared);
    }

    /// Continues a step after an evaluation aside.
    pub(super) fn evaluated(
        &mut self,
        evaluated: Evaluated,
        shared: &Arc<RuntimeShared>,
    ) -> Option<Work> {
        let Evaluated {
            to,
            patch,
            evaluations,
            place,
        } = evaluated;
        // The next evaluation begins when this step has gone on.
        let _place = place;
        self.running(to)?;
        if shared.intake.is_draining() {
            self.interrupted(to, shared);
            return None;
        }
        self.begin_with(to, patch, evaluations, shared)
    }
}

/// The failure of a step whose expression failed.
pub(super) fn failure(error: &ExprError) -> Failure {
    let (class, code) = match error.is_over_budget() {
        true => (Class::Limit, codes::EXPRESSION_BUDGET),
        false => (Class::Invalid, codes::RENDER),
    };
    Failure::new(class, code, error.to_string())
}
