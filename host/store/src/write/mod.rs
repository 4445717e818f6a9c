//! The verbs that change a store.
//!
//! A verb is a type with the parameters of a request; [`Verb::Answer`] is the type of the answer.
//! [`Writer::write`] carries one verb out and waits. Members submit many verbs to the queue of a
//! store at a time, through [`Store::submit`]: there a verb is a [`Write`],
//! and its answer the variant of [`Wrote`] with the same name. [`Verb::answer`] extracts the
//! answer.

mod claim;
mod commit;
mod members;

use std::sync::Arc;

use parking_lot::Mutex;
use windlass_model::{BatchNo, Incarnation, UpkeepNo};

pub use self::claim::{Claim, ClaimScope, ClaimedRun, Claims};
#[cfg(any(test, feature = "conformance"))]
pub(crate) use self::claim::{of_scope, of_trigger};
pub use self::commit::{
    Commit, Committed, Fence, Fenced, Finish, Mark, NewItem, OrFenced, Park, Release, Removed,
    TriggerFence, Unpark,
};
pub use self::members::{Duty, Leave, NewMember, Reap, Reaped, Renew, Renewed};
use crate::Store;
use crate::batches::{AddBatch, MoveBatch};
use crate::components::{NewComponent, SweepComponents};
use crate::drafts::{DiscardDraft, DropSource, NewDraft, RequestUpkeep, UpkeepDone};
use crate::error::{Error, Result};
use crate::external::{CancelTrigger, Control, Fire, NewExternal, Reschedule, Scheduled, Touched};
use crate::letters::{DeleteLetter, Lettered, NewDeadLetter, PurgeLetters, ReplayLetter};
use crate::lives::{Clear, LifeOp, Lived};
use crate::published::{
    NewPublication, PauseSchedule, Plan, Planned, Published, PutOff, Retract, StartSchedule,
    StartedNow, UnpauseSchedule,
};
use crate::retention::{Forget, Forgotten, Sweep, Swept};
use crate::rows::{Created, NewRun};
use crate::settings::Setting;
use crate::sql::Transaction;
use crate::sql::transaction::Done;
use crate::stimuli::{Expire, NewStimulus, QueueOp, Resume, Send, SendOutcome, Sent};
use crate::transfer::{Import, Imported};

/// The number by which a submitter recognises the answer to a write.
pub type Ticket = u64;

/// Receives the answers to submitted writes, many at a time.
pub trait Sink: std::marker::Send + Sync {
    /// Called on the backend's thread after the writes are durable or refused. The implementation
    /// must pass the answers on and return at once. Answers come in the order in which the writes
    /// of this sink were submitted.
    fn answered(&self, answers: Vec<(Ticket, Result<Wrote>)>);

    /// The order of the writes that are submitted with this sink.
    fn order(&self) -> Order {
        Order::Barrier
    }

    /// Whether the writes may overtake writes of other sinks that were submitted before. For writes that
    /// depend on no write in progress, and for which a client waits.
    fn is_prompt(&self) -> bool {
        false
    }
}

/// The order of writes. A backend may carry out several keys in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// After every write that was submitted before, and before every write that is submitted after.
    /// Unordered writes are exempt.
    Barrier,
    /// After the writes that were submitted with the same key before.
    Keyed(usize),
    /// At any time: for submitters of one write that wait for its answer.
    Unordered,
}

/// A request to a store, carried out as one logical transaction.
pub trait Verb: Into<Write> {
    /// The store's answer if the verb is carried out, or refused by a fence.
    type Answer;

    /// Extracts the answer from the queue's answer.
    ///
    /// # Errors
    ///
    /// Those of the store. The answer to another verb is a fault of the store.
    fn answer(wrote: Result<Wrote>) -> Result<Self::Answer>;
}

/// Carries out verbs, one at a time.
pub trait Writer {
    /// Carries out one verb, and waits until its effect is durable. Not for the hot path.
    ///
    /// # Errors
    ///
    /// The store refuses the verb, or cannot carry it out.
    fn write<V: Verb>(&self, verb: V) -> Result<V::Answer>;

    /// Hands one verb over, as [`Store::submit`] does, and passes its answer to `then` on the backend's
    /// thread, after its effect is durable or refused. `then` must return at once.
    fn write_then<V: Verb>(
        &self,
        verb: V,
        then: impl FnOnce(Result<V::Answer>) + std::marker::Send + 'static,
    );
}

/// Passes the answer to one write on.
struct Then<F> {
    order: Order,
    is_prompt: bool,
    then: Mutex<Option<F>>,
}

impl<F: FnOnce(Result<Wrote>) + std::marker::Send> Sink for Then<F> {
    fn answered(&self, answers: Vec<(Ticket, Result<Wrote>)>) {
        let then = self.then.lock().take();
        if let (Some(then), Some((_, answer))) = (then, answers.into_iter().next_back()) {
            then(answer);
        }
    }

    fn order(&self) -> Order {
        self.order
    }

    fn is_prompt(&self) -> bool {
        self.is_prompt
    }
}

impl<S: Store + ?Sized> Writer for S {
    fn write<V: Verb>(&self, verb: V) -> Result<V::Answer> {
        V::answer(self.carry_out(verb.into()))
    }

    fn write_then<V: Verb>(
        &self,
        verb: V,
        then: impl FnOnce(Result<V::Answer>) + std::marker::Send + 'static,
    ) {
        let write = verb.into();
        let then = move |answer| then(V::answer(answer));
        let sink: Arc<dyn Sink> = Arc::new(Then {
            order: write.order(),
            is_prompt: write.is_prompt(),
            then: Mutex::new(Some(then)),
        });
        self.submit(&sink, vec![(0, write)]);
    }
}

/// Declares the verbs, and the function that carries out each.
macro_rules! verbs {
    ($($(#[$doc:meta])* $verb:ident($($new:tt)+) => $answer:ty, by $room:ident::$carry:ident;)+) => {
        /// A verb in the queue of a store.
        #[derive(Clone, Debug)]
        pub enum Write {
            $($(#[$doc])* $verb($($new)+),)+
        }

        /// The answer to a verb that was carried out or refused by a fence.
        #[derive(Clone, Debug)]
        pub enum Wrote {
            $(
                #[doc = concat!("The answer to [`Write::", stringify!($verb), "`].")]
                $verb($answer),
            )+
        }

        $(verb!($verb($($new)+) => $answer);)+

        impl Write {
            /// Carries the write out in an open transaction.
            pub(crate) async fn carry_out<X: Transaction>(&self, tx: &mut X) -> Done<X, Wrote> {
                Ok(match self {
                    $(Self::$verb(new) => Wrote::$verb(crate::sql::$room::$carry(tx, new).await?),)+
                })
            }
        }
    };
}

macro_rules! verb {
    ($verb:ident(Box<$new:ty>) => $answer:ty) => {
        verb!($verb, $new, Box::new => $answer);

        impl From<Box<$new>> for Write {
            fn from(new: Box<$new>) -> Self {
                Self::$verb(new)
            }
        }
    };
    ($verb:ident($new:ty) => $answer:ty) => {
        verb!($verb, $new, std::convert::identity => $answer);
    };
    ($verb:ident, $new:ty, $hold:expr => $answer:ty) => {
        impl From<$new> for Write {
            fn from(new: $new) -> Self {
                Self::$verb($hold(new))
            }
        }

        impl Verb for $new {
            type Answer = $answer;

            fn answer(wrote: Result<Wrote>) -> Result<$answer> {
                match wrote? {
                    Wrote::$verb(answer) => Ok(answer),
                    other => Err(other.instead_of(stringify!($verb))),
                }
            }
        }
    };
}

/// Passes the list of verbs to a macro. Each verb has a name, the type of its parameters, its
/// answer, and the function of `crate::sql` that carries it out. The memory store has a method with
/// the same name as that function.
macro_rules! with_verbs {
    ($then:ident) => {
        $then! {
            /// A process becomes a member.
            Join(NewMember) => Incarnation, by Transaction::join;
            /// A member extends its lease.
            Renew(Renew) => OrFenced<Renewed>, by Transaction::renew;
            /// A member ends its membership.
            Leave(Leave) => (), by Transaction::leave;
            /// Dead members are reaped, and their runs are freed.
            Reap(Reap) => Reaped, by Transaction::reap;
            /// A member asks for a duty.
            Duty(Duty) => bool, by Transaction::duty;
            /// A run is written with its triggers. Fenced if its owner is not a member any
            /// more.
            Create(Box<NewRun>) => OrFenced<Created>, by Transaction::create;
            /// A member claims due work.
            Claim(Claim) => Claims, by Transaction::claim;
            /// A step of a run is committed.
            Commit(Box<Commit>) => OrFenced<Committed>, by Transaction::commit_step;
            /// Suspects are about to run.
            Mark(Mark) => OrFenced<()>, by holding::mark;
            /// A run is released.
            Release(Release) => OrFenced<()>, by Transaction::release;
            /// A trigger is parked.
            Park(Park) => OrFenced<()>, by holding::park;
            /// All parked triggers become pending.
            Unpark(Unpark) => u32, by holding::unpark;
            /// A stimulus is delivered.
            Send(Box<Send>) => SendOutcome, by Transaction::send;
            /// A token resumes the execution that waits for it. Dropped if none does.
            Resume(Box<Resume>) => Sent, by Transaction::resume;
            /// A stimulus is added to the queue.
            Enqueue(Box<NewStimulus>) => (), by queueing::enqueue;
            /// A waiting stimulus is delayed or removed. Fenced if it is gone.
            Queue(QueueOp) => OrFenced<()>, by queueing::queue;
            /// Stimuli that have waited too long become dead letters.
            Expire(Expire) => u32, by queueing::expire;
            /// A dead letter is written.
            AddLetter(Box<NewDeadLetter>) => (), by letters::add_letter;
            /// A dead letter is replayed.
            ReplayLetter(ReplayLetter) => Lettered, by letters::replay_letter;
            /// A dead letter is deleted.
            DeleteLetter(DeleteLetter) => Lettered, by letters::delete_letter;
            /// Old dead letters are deleted.
            PurgeLetters(PurgeLetters) => u32, by letters::purge_letters;
            /// An external trigger is scheduled.
            Schedule(Box<NewExternal>) => Scheduled, by external::schedule;
            /// A trigger becomes due now.
            Fire(Fire) => Touched, by external::fire;
            /// A trigger becomes due at another time.
            Reschedule(Reschedule) => Touched, by external::reschedule;
            /// A trigger is removed, or a cancel request for it is written.
            CancelTrigger(CancelTrigger) => Touched, by external::cancel_trigger;
            /// A control trigger that is due now is written. Done, not found or closed.
            Control(Control) => Touched, by external::control;
            /// A run begins, is deleted, or is reopened.
            Life(LifeOp) => Lived, by lives::life;
            /// The remaining rows of a deleted run are deleted.
            Clear(Clear) => Forgotten, by Transaction::clear;
            /// A run is imported from this store or another one.
            Import(Box<Import>) => Imported, by importing::import;
            /// A definition becomes the published version of its workflow. Fenced if a version or
            /// draft that the publication names has changed.
            Publish(Box<NewPublication>) => OrFenced<Published>, by publishing::publish;
            /// The published version of a workflow is retracted. Answered by that version, if there
            /// was one; fenced if another version is published.
            Retract(Retract) => OrFenced<Option<u32>>, by publishing::retract;
            /// A draft is saved. Answered by its revision; fenced if the draft does not have the
            /// expected revision.
            SaveDraft(Box<NewDraft>) => OrFenced<u64>, by drafts::save_draft;
            /// A draft is deleted. Fenced if there is none.
            DiscardDraft(DiscardDraft) => OrFenced<()>, by drafts::discard_draft;
            /// A source of definitions is deleted. Answered by the version that was retracted.
            DropSource(DropSource) => Option<u32>, by drafts::drop_source;
            /// An upkeep request is written.
            RequestUpkeep(RequestUpkeep) => UpkeepNo, by drafts::request_upkeep;
            /// Upkeep requests that were carried out are deleted.
            UpkeepDone(UpkeepDone) => (), by drafts::upkeep_done;
            /// A batch is added. Fenced if too many go on.
            AddBatch(AddBatch) => OrFenced<BatchNo>, by batches::add_batch;
            /// The progress of a batch is changed. Fenced if it was changed before, or has ended.
            MoveBatch(MoveBatch) => OrFenced<()>, by batches::move_batch;
            /// An occurrence of a schedule is decided on. Fenced if the new run's owner is not
            /// a member any more.
            Plan(Box<Plan>) => OrFenced<Planned>, by planning::plan;
            /// A schedule in trouble is deferred. Queued, or stale.
            PutOff(PutOff) => Planned, by planning::put_off;
            /// A schedule is paused.
            PauseSchedule(PauseSchedule) => bool, by planning::pause_schedule;
            /// The pause of a schedule ends.
            UnpauseSchedule(UnpauseSchedule) => bool, by planning::unpause_schedule;
            /// A run of a schedule is created beside its plan. Fenced as for a plan.
            StartSchedule(Box<StartSchedule>) => OrFenced<StartedNow>, by planning::start_schedule;
            /// A slice of a run that ended long ago is deleted.
            Forget(Forget) => Forgotten, by Transaction::forget;
            /// A slice of unused rows is deleted.
            Sweep(Sweep) => Swept, by sweeping::sweep;
            /// An operator's setting is stored.
            Setting(Setting) => (), by settings::keep_setting;
            /// A component of a plugin is stored.
            KeepComponent(Box<NewComponent>) => (), by components::keep_component;
            /// Unused components are deleted.
            SweepComponents(SweepComponents) => Swept, by components::sweep_components;
            /// Makes every earlier write durable.
            Flush(Flush) => (), by Transaction::flush;
        }
    };
}
#[cfg(any(test, feature = "conformance"))]
pub(crate) use with_verbs;

with_verbs! { verbs }

/// Empties the queue and makes every earlier write durable.
#[derive(Clone, Copy, Debug)]
pub struct Flush;

impl Wrote {
    /// Whether the verb wrote nothing that must not be repeated: a fence refused it, or it found
    /// nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Claim(claims) => claims.runs.is_empty(),
            Self::Reap(reaped) => reaped.runs == 0,
            Self::Unpark(count) | Self::Expire(count) | Self::PurgeLetters(count) => *count == 0,
            Self::Renew(_)
            | Self::Create(Err(Fenced))
            | Self::Commit(Err(Fenced))
            | Self::Mark(Err(Fenced))
            | Self::Release(Err(Fenced))
            | Self::Park(Err(Fenced))
            | Self::Send(SendOutcome::Gone)
            | Self::Queue(Err(Fenced))
            | Self::Publish(Err(Fenced))
            | Self::Retract(Err(Fenced))
            | Self::SaveDraft(Err(Fenced))
            | Self::DiscardDraft(Err(Fenced))
            | Self::AddBatch(Err(Fenced))
            | Self::MoveBatch(Err(Fenced))
            | Self::Plan(Err(Fenced))
            | Self::StartSchedule(Err(Fenced)) => true,
            _ => false,
        }
    }

    /// The error for an answer that does not fit its verb.
    fn instead_of(&self, verb: &str) -> Error {
        Error::corrupt(&format!(
            "the answer to {verb} is of another verb: {self:?}"
        ))
    }
}

impl Write {
    /// Whether a client waits for the write, and no write in progress concerns it.
    pub(crate) fn is_prompt(&self) -> bool {
        matches!(
            self,
            Self::Create(_)
                | Self::Send(_)
                | Self::Resume(_)
                | Self::Enqueue(_)
                | Self::Schedule(_)
                | Self::Fire(_)
                | Self::Reschedule(_)
                | Self::CancelTrigger(_)
                | Self::Control(_)
        )
    }

    /// The order of a write whose submitter waits for the answer. Writes about members and their
    /// runs come after the earlier writes of the members.
    pub(crate) fn order(&self) -> Order {
        match self {
            Self::Join(_)
            | Self::Renew(_)
            | Self::Leave(_)
            | Self::Reap(_)
            | Self::Claim(_)
            | Self::Commit(_)
            | Self::Mark(_)
            | Self::Release(_)
            | Self::Park(_)
            | Self::Unpark(_)
            | Self::Flush(_) => Order::Barrier,
            Self::Duty(_)
            | Self::Create(_)
            | Self::Send(_)
            | Self::Resume(_)
            | Self::Enqueue(_)
            | Self::Queue(_)
            | Self::Expire(_)
            | Self::AddLetter(_)
            | Self::ReplayLetter(_)
            | Self::DeleteLetter(_)
            | Self::PurgeLetters(_)
            | Self::Schedule(_)
            | Self::Fire(_)
            | Self::Reschedule(_)
            | Self::CancelTrigger(_)
            | Self::Control(_)
            | Self::Life(_)
            | Self::Clear(_)
            | Self::Import(_)
            | Self::Publish(_)
            | Self::Retract(_)
            | Self::SaveDraft(_)
            | Self::DiscardDraft(_)
            | Self::DropSource(_)
            | Self::RequestUpkeep(_)
            | Self::UpkeepDone(_)
            | Self::AddBatch(_)
            | Self::MoveBatch(_)
            | Self::Plan(_)
            | Self::PutOff(_)
            | Self::PauseSchedule(_)
            | Self::UnpauseSchedule(_)
            | Self::StartSchedule(_)
            | Self::Forget(_)
            | Self::Sweep(_)
            | Self::Setting(_)
            | Self::KeepComponent(_)
            | Self::SweepComponents(_) => Order::Unordered,
        }
    }
}
