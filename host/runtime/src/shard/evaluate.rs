//! The evaluations of a step, before its node begins and after it has ended.
//!
//! The thread of the shard evaluates short expressions itself. An expression that takes longer, or
//! that reads or makes much, goes aside: an evaluator of [`Evaluators`](crate::evaluators::Evaluators)
//! evaluates it again from its beginning, and the thread continues with other runs.
//!
//! Before the node the step begins again, with the results that it has: all its expressions see the
//! same values. It keeps its place, so that it does not wait again with its values. A step
//! that has to wait for a place, and holds much, drops what it holds and evaluates it again then.
//! After the node the step waits where it is, and all other steps of its run wait
//! behind it ([`super::halfway`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use windlass_engine::expr::{
    ExprError, ExprErrorKind, Interrupt, Needs, StepBudget, Template, Values,
};
use windlass_engine::{Judged, Verdict};
use windlass_model::{Class, Failure, Payload, ScopeNo, Seq};
use windlass_plugins::Cancel;

use super::Message;
use super::gather::Gathered;
use super::got::Got;
use super::halfway::Behind;
use super::memory::Unread;
use super::owned::{OwnedRun, Stage};
use super::shard_state::ShardState;
use super::work::{Address, Patch, Work};
use crate::call_data::{self, Room};
use crate::codes;
use crate::evaluators::Place;
use crate::shared::{Base, RuntimeShared};

/// How long the expressions of one step may occupy the thread of a shard. Others wait meanwhile.
const SLICE: Duration = Duration::from_millis(3);

/// The part of the memory of a step on the thread of a shard that the JSON may take which the thread
/// parses for it.
const JSON_PART: usize = 32;

#[cfg(test)]
thread_local! {
    static ALL_ASIDE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether all evaluations of a value go aside, in simulations on this thread.
#[cfg(test)]
pub(crate) fn evaluate_aside(all: bool) {
    ALL_ASIDE.set(all);
}

#[cfg(test)]
pub(super) fn all_aside() -> bool {
    ALL_ASIDE.get()
}

/// The bytes with which a step waits for its place among the evaluations aside.
const KEPT_WAITING: usize = 64 * 1024;

/// The memory of a parsed value, for a byte of its JSON, roughly.
const PARSED_FACTOR: usize = 8;

/// The results for which a step keeps room.
const KEPT_RESULTS: usize = 64;

/// The evaluations of one step before its node begins, or after it has ended. A shard passes them
/// from step to step, so that a step allocates nothing for them.
#[derive(Default)]
pub(crate) struct Evaluations {
    /// The results before the node, in the order in which the step asks for them.
    done: Vec<Result<Payload, Failure>>,
    /// How many of them the step has asked for since it began or began again.
    asked: usize,
    /// The result after the node for which the step waits.
    answer: Option<Answer>,
    seen: Option<Seen>,
    budget: Option<StepBudget>,
    /// The bytes of JSON that the thread of the shard has parsed.
    parsed: usize,
    /// The bytes of JSON that the expressions read.
    read: usize,
    /// The place of the step among those whose evaluations are aside.
    place: Option<Place>,
    /// The room for the data of the call that the step makes.
    room: Option<Arc<Room>>,
    /// What the node gets, and what its expressions read. None: the node gets nothing, or has ended.
    pub(super) got: Option<Got>,
    /// Whether an expression went aside: all others of the step follow it.
    went_aside: bool,
    /// When the evaluations on the thread of the shard end.
    until: Option<Duration>,
    /// The evaluation with which the step goes aside.
    long: Option<Long>,
}

/// An evaluation that goes aside. It keeps its result in the evaluations, and returns false if it
/// was interrupted.
type Long = Box<dyn FnOnce(&mut Evaluations, Interrupt) -> bool + Send>;

/// The result of an evaluation after a node.
pub(super) enum Answer {
    Verdict(Verdict),
    Judged(Result<Judged, Failure>),
    Rendered(Result<Payload, Failure>),
}

/// The values that the expressions of a step see before its node.
struct Seen {
    values: Values,
    /// Whether the values are there that the templates of the node need.
    before: bool,
    /// Further values that are there.
    more: Needs,
}

/// Values, some of which may not be parsed yet.
pub(super) struct Sight {
    values: Values,
    unparsed: Option<Gathered>,
}

/// What a step does when its evaluation comes back.
pub(super) enum Resume {
    /// It begins its node again, with the variables of its consumer.
    Begin(Patch),
    /// It is settled further.
    Settle,
}

/// The result of an evaluation aside.
pub(crate) struct Evaluated {
    pub(super) to: Address,
    pub(super) resume: Resume,
    pub(super) evaluations: Box<Evaluations>,
    is_done: bool,
}

impl Sight {
    /// The values, all parsed.
    pub(super) fn open(&mut self, interrupt: Interrupt) -> Result<&Values, Failure> {
        if let Some(gathered) = self.unparsed.take() {
            gathered.parse(&mut self.values)?;
        }
        self.values.interrupted_by(interrupt);
        Ok(&self.values)
    }
}

impl Evaluations {
    /// The next result, if the step began again and has it.
    pub(super) fn next(&mut self) -> Option<Result<Payload, Failure>> {
        let next = self.done.get(self.asked).cloned();
        self.asked += usize::from(next.is_some());
        next
    }

    /// Keeps a result that the step has just got.
    fn keep(&mut self, result: Result<Payload, Failure>) {
        self.done.push(result);
        self.asked = self.done.len();
    }

    /// Keeps the result of an evaluation aside. The step asks again for all its results.
    pub(super) fn found(&mut self, result: Result<Payload, Failure>) {
        self.done.push(result);
        self.asked = 0;
    }

    /// Whether the step goes aside.
    pub(super) fn is_long(&self) -> bool {
        self.long.is_some()
    }

    /// Makes them those of another step.
    pub(super) fn clear(&mut self) {
        if self.done.capacity() > KEPT_RESULTS {
            self.done = Vec::new();
        }
        self.done.clear();
        (self.answer, self.seen, self.long, self.got) = (None, None, None, None);
        (self.asked, self.parsed, self.went_aside, self.until) = (0, 0, false, None);
        (self.read, self.place, self.room) = (0, None, None);
        self.budget.take_if(|budget| !budget.renew());
    }

    /// Whether so much is evaluated, or read to be evaluated, that the step does not wait with it.
    fn is_heavy(&self) -> bool {
        #[cfg(test)]
        if ALL_ASIDE.get() {
            return true;
        }
        let done = self.done.iter().flatten().map(bytes_of);
        let read = self.read.saturating_mul(PARSED_FACTOR);
        done.fold(read, usize::saturating_add) > KEPT_WAITING
    }

    /// Drops everything that can be evaluated again. The evaluations go aside at once then.
    fn start_over(&mut self) {
        *self = Self {
            room: self.room.take(),
            got: self.got.take().map(|_| Got::default()),
            went_aside: true,
            ..Self::default()
        };
    }

    /// Prepares the evaluations for a wait without their place.
    fn step_back(&mut self) {
        self.place = None;
        if self.is_heavy() {
            self.start_over();
        }
    }

    /// The result after the node that came back.
    pub(super) fn answer(&mut self) -> Option<Answer> {
        self.answer.take()
    }

    /// Sends the step aside. `long` keeps its result in the evaluations.
    pub(super) fn go_aside(
        &mut self,
        long: impl FnOnce(&mut Self, Interrupt) -> bool + Send + 'static,
    ) -> Unread {
        self.long = Some(Box::new(long));
        Unread::Aside
    }

    /// Sends the step aside for a result after its node; none if it was interrupted.
    pub(super) fn ask_aside(
        &mut self,
        ask: impl FnOnce(Interrupt) -> Option<Answer> + Send + 'static,
    ) -> Unread {
        self.go_aside(|evaluations, interrupt| {
            evaluations.answer = ask(interrupt);
            evaluations.answer.is_some()
        })
    }

    /// Evaluates the long expression. Returns false if it was interrupted.
    fn evaluate(&mut self, interrupt: Interrupt) -> bool {
        if let Some(budget) = &self.budget {
            budget.go_on();
        }
        self.went_aside = true;
        let long = self.long.take();
        long.is_none_or(|long| long(self, interrupt))
    }

    /// Whether the step has its place among those whose evaluations are aside.
    pub(super) fn has_place(&self) -> bool {
        self.place.is_some()
    }

    /// Sends a step aside that has gathered as much as it may without its place. It begins or goes
    /// on with the place then.
    pub(super) fn with_place(&mut self, unread: Unread, gathered: &Gathered) -> Unread {
        match unread {
            Unread::Aside => self.ask_place(gathered.json_bytes()),
            unread => unread,
        }
    }

    /// Sends a step aside for its place, because it reads so many bytes.
    pub(super) fn ask_place(&mut self, bytes: usize) -> Unread {
        self.read = self.read.saturating_add(bytes);
        self.go_aside(|evaluations, _| {
            evaluations.asked = 0;
            true
        })
    }

    /// Whether so much JSON may be parsed on the thread of the shard. Counts it.
    pub(super) fn parses(&mut self, json_bytes: usize, base: &Base) -> bool {
        self.read = self.read.saturating_add(json_bytes);
        let parsed = self.parsed.saturating_add(json_bytes);
        let is_little = parsed <= base.evaluation.inline / JSON_PART;
        #[cfg(test)]
        let is_little = is_little && (json_bytes == 0 || !ALL_ASIDE.get());
        if is_little {
            self.parsed = parsed;
        }
        is_little
    }

    /// Whether the next evaluation after the node may be tried on the thread of the shard.
    pub(super) fn is_inline(&mut self, json_bytes: usize, base: &Base) -> bool {
        let is_little = self.parses(json_bytes, base);
        is_little && !self.went_aside
    }

    /// Whether the step has made so much that it is aside from now on.
    fn makes_much(&self, base: &Base) -> bool {
        let made = self.budget.as_ref().map_or(0, StepBudget::made);
        made > base.evaluation.inline
    }

    /// The interrupt of the evaluations on the thread of the shard.
    pub(super) fn slice(&mut self, base: &Base) -> Interrupt {
        let now = || base.clock.monotonic().saturating_add(SLICE);
        let until = *self.until.get_or_insert_with(now);
        Interrupt::after(&base.is_over, until).beyond(base.evaluation.inline)
    }

    /// The budget of the step.
    fn budget(&mut self, base: &Base) -> &StepBudget {
        let new = || StepBudget::new(base.evaluation.step);
        self.budget.get_or_insert_with(new)
    }

    /// Values after the node, none of them parsed yet.
    pub(super) fn sight(&mut self, unparsed: Option<Gathered>, base: &Base) -> Sight {
        let mut values = Values::new();
        values.within(self.budget(base));
        Sight { values, unparsed }
    }

    /// The values that the expressions before the node see.
    fn seen(&mut self, base: &Base) -> &mut Seen {
        let budget = &mut self.budget;
        self.seen.get_or_insert_with(|| {
            let new = || StepBudget::new(base.evaluation.step);
            let mut values = Values::new();
            values.within(budget.get_or_insert_with(new));
            Seen {
                values,
                before: false,
                more: Needs::default(),
            }
        })
    }

    /// Charges for bytes that the step makes besides its expressions.
    pub(super) fn make(&mut self, bytes: usize, base: &Base) -> Result<(), Unread> {
        self.budget(base).make(bytes).map_err(|most| {
            let message =
                format!("the values that the node makes take more than {most} bytes together");
            let code = codes::EXPRESSION_BUDGET;
            Unread::Value(Failure::new(Class::Limit, code, message))
        })
    }
}

impl OwnedRun {
    /// Lets a step wait. It counts as running, so that its run stays.
    fn wait(&mut self, seq: Seq) -> Cancel {
        let cancel = Cancel::default();
        match self.held.get_mut(&seq).map(|held| &mut held.stage) {
            Some(Stage::Running(running)) => return running.clone(),
            Some(stage) => *stage = Stage::Running(cancel.clone()),
            None => {}
        }
        cancel
    }

    /// Takes room for the data of the call that the step makes; none for little. Fails with the
    /// bytes for which the step has to wait.
    pub(super) fn room(
        &mut self,
        bytes: usize,
        shared: &RuntimeShared,
    ) -> Result<Option<Arc<Room>>, u64> {
        let bytes = bytes as u64;
        let room = self.evaluations.room.take();
        let is_small = bytes <= call_data::SMALL;
        #[cfg(test)]
        let is_small = is_small && !ALL_ASIDE.get();
        if is_small {
            return Ok(None);
        }
        if let Some(room) = room
            && room.bytes() >= bytes
        {
            return Ok(Some(room));
        }
        let room = shared.bursts.call_data.take(&self.flow, bytes);
        room.map(Some).ok_or(bytes)
    }

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
        if let Some(Answer::Rendered(result)) = self.evaluations.answer() {
            return result.map_err(Unread::Value);
        }
        let patch = Patch::new();
        if let Some(alias) = template.alias()
            && let Some(payload) = self.aliased(scope, &alias, &patch, base)?
        {
            return Ok(payload);
        }
        let gathered = self.gather(base, scope, template.needs(), &patch)?;
        let evaluations = &mut self.evaluations;
        let is_inline = evaluations.is_inline(gathered.json_bytes(), base);
        let mut sight = evaluations.sight(Some(gathered), base);
        if is_inline {
            let slice = evaluations.slice(base);
            let rendered = rendered(template, &mut sight, slice);
            if let Some(rendered) = rendered {
                return rendered.map_err(Unread::Value);
            }
        }
        let template = template.clone();
        Err(self.evaluations.ask_aside(move |interrupt| {
            rendered(&template, &mut sight, interrupt).map(Answer::Rendered)
        }))
    }

    /// Evaluates a template on this thread, as long as that is short.
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
        let evaluations = &mut self.evaluations;
        let interrupt = evaluations.slice(base);
        let is_long = evaluations.went_aside || evaluations.makes_much(base);
        let mut unparsed = None;
        if let Some(gathered) = gathered {
            let is_little = evaluations.parses(gathered.json_bytes(), base);
            let seen = evaluations.seen(base);
            match before {
                Some(_) => seen.before = true,
                None => seen.more.merge(needs),
            }
            if is_little {
                gathered.parse(&mut seen.values).map_err(Unread::Value)?;
            } else {
                unparsed = Some(gathered);
            }
        }
        if unparsed.is_none() && !is_long {
            let seen = evaluations.seen(base);
            seen.values.interrupted_by(interrupt);
            if let Some(result) = known(template.render(&seen.values)) {
                return Ok(result);
            }
        }
        let template = template.clone();
        Err(evaluations.go_aside(move |evaluations, interrupt| {
            let Some(seen) = &mut evaluations.seen else {
                return false;
            };
            let parsed = unparsed.map_or(Ok(()), |gathered| gathered.parse(&mut seen.values));
            seen.values.interrupted_by(interrupt);
            let result = match parsed {
                Ok(()) => known(template.render(&seen.values)),
                Err(failure) => Some(Err(failure)),
            };
            let Some(result) = result else { return false };
            evaluations.found(result);
            true
        }))
    }
}

/// The bytes of a payload in memory.
pub(super) fn bytes_of(payload: &Payload) -> usize {
    payload.inline().map_or(0, Bytes::len)
}

/// The bytes of the variables of a consumer.
pub(super) fn bytes_of_patch(patch: &Patch) -> usize {
    patch.iter().map(|(_, value)| value.len()).sum()
}

/// The result of a template, unless it was interrupted.
fn known(rendered: Result<Bytes, ExprError>) -> Option<Result<Payload, Failure>> {
    match rendered {
        Ok(json) => Some(Ok(Payload::json(json))),
        Err(error) if error.kind == ExprErrorKind::Interrupted => None,
        Err(error) => Some(Err(failure(&error))),
    }
}

/// Renders a template, unless that is interrupted.
fn rendered(
    template: &Template,
    sight: &mut Sight,
    interrupt: Interrupt,
) -> Option<Result<Payload, Failure>> {
    match sight.open(interrupt) {
        Ok(values) => known(template.render(values)),
        Err(failure) => Some(Err(failure)),
    }
}

impl ShardState {
    /// Evaluations for a step that begins, or that goes on with its place.
    pub(super) fn new_evaluations(&mut self, place: Option<Place>) -> Box<Evaluations> {
        let mut evaluations = self.spare.take().unwrap_or_default();
        evaluations.place = place;
        evaluations
    }

    /// Takes the evaluations of a step that goes on without them. Returns the place of the step.
    pub(super) fn spare_evaluations(&mut self, mut evaluations: Box<Evaluations>) -> Option<Place> {
        let place = evaluations.place.take();
        evaluations.clear();
        self.spare = Some(evaluations);
        place
    }

    /// Sends a step aside, with the evaluation at which it stopped.
    pub(super) fn evaluate_aside(
        &mut self,
        to: Address,
        resume: Resume,
        mut evaluations: Box<Evaluations>,
        shared: &Arc<RuntimeShared>,
    ) {
        let Some(owned) = self.owned.get_mut(&to.run) else {
            return;
        };
        let cancel = owned.wait(to.seq);
        let (flow, priority) = (Arc::clone(&owned.flow), owned.priority(to.seq));
        let overdue = Arc::clone(&shared.base.overdue);
        let evaluators = &shared.bursts.evaluators;
        let place = evaluations.place.take();
        let place = place.or_else(|| evaluators.place(&flow, shared));
        if place.is_none() && evaluations.is_heavy() {
            // The budget after the node is for further expressions, too.
            let is_after = matches!(resume, Resume::Settle);
            let budget = evaluations.budget.take().filter(|_| is_after);
            evaluations.start_over();
            evaluations.budget = budget;
        } else {
            shared.base.metrics.evaluations_aside.add(1);
        }
        let raised = move || cancel.is_cancelled() || overdue.load(Ordering::Acquire);
        let all = Arc::clone(shared);
        let evaluate = move |place| {
            let is_done = match evaluations.is_long() {
                true => evaluations.evaluate(Interrupt::when(raised)),
                // It has waited for its place alone.
                false => !raised(),
            };
            evaluations.place = Some(place);
            if let Some(shard) = all.shard(to.run) {
                shard.send(Message::Evaluated(Box::new(Evaluated {
                    to,
                    resume,
                    evaluations,
                    is_done,
                })));
            }
        };
        match place {
            Some(place) => evaluators.run(place, Box::new(evaluate), shared),
            None => evaluators.wait(flow, priority, Box::new(evaluate), shared),
        }
    }

    /// Lets a step wait for room for the data of its call. It begins its node again then.
    pub(super) fn wait_for_room(
        &mut self,
        to: Address,
        patch: Patch,
        bytes: u64,
        shared: &Arc<RuntimeShared>,
    ) {
        if shared.intake.is_draining() {
            return self.interrupted(to, shared);
        }
        let Some(owned) = self.owned.get_mut(&to.run) else {
            return;
        };
        let cancel = owned.wait(to.seq);
        let caller = (Arc::clone(&owned.flow), owned.priority(to.seq));
        let all = Arc::downgrade(shared);
        let go = move |room| {
            let all = all.upgrade();
            if let Some(shard) = all.as_ref().and_then(|all| all.shard(to.run)) {
                shard.send(Message::Evaluated(Box::new(Evaluated {
                    to,
                    resume: Resume::Begin(patch),
                    evaluations: Box::new(Evaluations {
                        room,
                        ..Evaluations::default()
                    }),
                    is_done: true,
                })));
            }
        };
        let call_data = &shared.bursts.call_data;
        call_data.wait(caller, bytes, cancel, Box::new(go));
    }

    /// Continues a step after an evaluation aside.
    pub(super) fn evaluated(
        &mut self,
        mut evaluated: Evaluated,
        shared: &Arc<RuntimeShared>,
    ) -> Option<Work> {
        let evaluated = match evaluated.resume {
            Resume::Settle => evaluated,
            Resume::Begin(_) => {
                let owned = self.running(evaluated.to)?;
                if owned.halfway.is_some() {
                    evaluated.evaluations.step_back();
                }
                owned.waits_behind(evaluated, Behind::Evaluated)?
            }
        };
        let Evaluated {
            to,
            resume,
            evaluations,
            is_done,
            ..
        } = evaluated;
        let patch = match resume {
            Resume::Begin(patch) => patch,
            Resume::Settle => {
                match is_done {
                    true => self.settle_further(to, evaluations, shared),
                    false => self.leave_halfway(to, shared),
                }
                return None;
            }
        };
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
