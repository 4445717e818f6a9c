//! The verbs that change a store.
//!
//! A verb is a type that says what is asked; [`Verb::Answer`] says what the store answers.
//! [`Writer::write`] carries one out and waits. Members put many into the queue of a store at a
//! time, through [`Store::submit`](crate::Store::submit): there a verb is a [`Write`], and its
//! answer the variant of [`Wrote`] with the same name. [`Verb::answer`] takes it out again.

mod claim;
mod commit;
mod members;

use windlass_model::{Incarnation, UpkeepNo};

pub use self::claim::{Claim, ClaimScope, ClaimedInstance, Claims};
pub use self::commit::{
    Commit, Committed, Fence, Fenced, Finish, Mark, NewItem, OrFenced, Park, Release, Removed,
    TriggerFence, Unpark,
};
pub use self::members::{Bury, Duty, Leave, NewMember, Renew, Renewed};
use crate::Store;
use crate::components::{NewComponent, SweepComponents};
use crate::drafts::{DiscardDraft, DropSource, NewDraft, RequestUpkeep, UpkeepDone};
use crate::error::{Error, Result};
use crate::letters::{DeleteLetter, Lettered, NewDeadLetter, PurgeLetters, ReplayLetter};
use crate::lives::{Clear, LifeOp, Lived};
use crate::outside::{CancelTrigger, Control, Fire, NewOutside, Reschedule, Scheduled, Touched};
use crate::published::{NewPublication, Plan, Planned, Published, PutOff, Retract};
use crate::retention::{Forget, Forgotten, Sweep, Swept};
use crate::rows::{Created, NewInstance};
use crate::settings::Setting;
use crate::sql::Transaction;
use crate::sql::transaction::Done;
use crate::stimuli::{Expire, NewStimulus, QueueOp, Resume, Send, SendOutcome, Sent};
use crate::transfer::{Import, Imported};

/// How the submitter recognises the answer to a write.
pub type Ticket = u64;

/// Takes the answers to submitted writes, many at a time.
pub trait Sink: std::marker::Send + Sync {
    /// Called from the backend's thread after the writes are durable or refused: hand them on
    /// and return. Answers come in the order in which the writes of this sink were submitted.
    fn answered(&self, answers: Vec<(Ticket, Result<Wrote>)>);

    /// The order of what is submitted with this sink.
    fn order(&self) -> Order {
        Order::Barrier
    }
}

/// Which writes are carried out before which. A backend may carry out several keys at the same
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// After every write that was submitted before, and before every write that is submitted
    /// after. Unordered writes do not count.
    Barrier,
    /// After the writes that were submitted with the same key before.
    Keyed(usize),
    /// At any time: for submitters of one write that wait for its answer.
    Unordered,
}

/// What a store is asked to do, as one logical transaction.
pub trait Verb: Into<Write> {
    /// What the store answers if the verb is carried out, or refused by a fence.
    type Answer;

    /// Takes the answer out of what came from the queue of a store.
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
}

impl<S: Store + ?Sized> Writer for S {
    fn write<V: Verb>(&self, verb: V) -> Result<V::Answer> {
        V::answer(self.carry_out(verb.into()))
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

        /// The answer to a verb that was carried out, or refused by a fence, on its way back.
        #[derive(Clone, Debug)]
        pub enum Wrote {
            $(
                #[doc = concat!("The answer to [`Write::", stringify!($verb), "`].")]
                $verb($answer),
            )+
        }

        $(verb!($verb($($new)+) => $answer);)+

        impl Write {
            /// Carries the write out in a transaction that is open.
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

/// Gives the list of verbs to a macro. Each verb has a name, the type that says what is asked, the
/// answer, and the function of `crate::sql` that carries the verb out. The store in memory has a
/// method with the same name as that function.
macro_rules! with_verbs {
    ($then:ident) => {
        $then! {
            /// A process becomes a member.
            Join(NewMember) => Incarnation, by Transaction::join;
            /// A member extends its lease.
            Renew(Renew) => OrFenced<Renewed>, by Transaction::renew;
            /// A member ends its membership.
            Leave(Leave) => (), by Transaction::leave;
            /// Dead members are removed, and what they held is freed.
            Bury(Bury) => u32, by Transaction::bury;
            /// A member asks for a duty.
            Duty(Duty) => bool, by Transaction::duty;
            /// An instance is written with its triggers. Fenced if it has an owner, and the owner is gone.
            Create(Box<NewInstance>) => OrFenced<Created>, by Transaction::create;
            /// A member claims what is due.
            Claim(Claim) => Claims, by Transaction::claim;
            /// A step of an instance.
            Commit(Box<Commit>) => OrFenced<Committed>, by Transaction::commit_step;
            /// A suspect is about to run.
            Mark(Mark) => OrFenced<()>, by holding::mark;
            /// An instance is given back.
            Release(Release) => OrFenced<()>, by Transaction::release;
            /// A trigger is parked.
            Park(Park) => OrFenced<()>, by holding::park;
            /// All parked triggers become pending.
            Unpark(Unpark) => u32, by holding::unpark;
            /// A stimulus is delivered.
            Send(Box<Send>) => SendOutcome, by Transaction::send;
            /// A token resumes what waits for it. Dropped, if nothing does.
            Resume(Box<Resume>) => Sent, by Transaction::resume;
            /// A stimulus goes to the queue.
            Enqueue(Box<NewStimulus>) => (), by queueing::enqueue;
            /// A stimulus that waits is put off or removed. Fenced if it is not there.
            Queue(QueueOp) => OrFenced<()>, by queueing::queue;
            /// Stimuli that wait for too long become dead letters.
            Expire(Expire) => u32, by queueing::expire;
            /// A dead letter is written.
            AddLetter(Box<NewDeadLetter>) => (), by letters::add_letter;
            /// A dead letter is tried again.
            ReplayLetter(ReplayLetter) => Lettered, by letters::replay_letter;
            /// A dead letter is deleted.
            DeleteLetter(DeleteLetter) => Lettered, by letters::delete_letter;
            /// Old dead letters are deleted.
            PurgeLetters(PurgeLetters) => u32, by letters::purge_letters;
            /// A trigger is scheduled from outside.
            Schedule(Box<NewOutside>) => Scheduled, by outside::schedule;
            /// A trigger becomes due now.
            Fire(Fire) => Touched, by outside::fire;
            /// A trigger becomes due at another time.
            Reschedule(Reschedule) => Touched, by outside::reschedule;
            /// A trigger is removed, or its cancellation is asked for.
            CancelTrigger(CancelTrigger) => Touched, by outside::cancel_trigger;
            /// A control trigger is written that is due now. Done, not found or closed.
            Control(Control) => Touched, by outside::control;
            /// An instance begins, is deleted, or is reopened.
            Life(LifeOp) => Lived, by lives::life;
            /// What is left of a deleted instance is cleared.
            Clear(Clear) => Forgotten, by Transaction::clear;
            /// An instance is put in that was taken out of this store or another one.
            Import(Box<Import>) => Imported, by importing::import;
            /// A definition becomes the published version of its workflow. Fenced if something that the
            /// publication counts on has moved on.
            Publish(Box<NewPublication>) => OrFenced<Published>, by publishing::publish;
            /// The published version of a workflow is taken back. Answered by that version, if there was
            /// one; fenced if another version is published.
            Retract(Retract) => OrFenced<Option<u32>>, by publishing::retract;
            /// A draft is saved. Answered by its revision; fenced if the draft has another revision than
            /// expected.
            SaveDraft(Box<NewDraft>) => OrFenced<u64>, by drafts::save_draft;
            /// A draft is thrown away. Fenced if the draft is not there.
            DiscardDraft(DiscardDraft) => OrFenced<()>, by drafts::discard_draft;
            /// A place of definitions is forgotten. Answered by the version that was taken back.
            DropSource(DropSource) => Option<u32>, by drafts::drop_source;
            /// Definitions are to be looked at again.
            RequestUpkeep(RequestUpkeep) => UpkeepNo, by drafts::request_upkeep;
            /// Requests of that kind have been carried out.
            UpkeepDone(UpkeepDone) => (), by drafts::upkeep_done;
            /// An occurrence of a schedule is decided about. Fenced if the new instance has an owner, and
            /// the owner is gone.
            Plan(Box<Plan>) => OrFenced<Planned>, by planning::plan;
            /// A schedule in trouble is put off. Queued, or stale.
            PutOff(PutOff) => Planned, by planning::put_off;
            /// A slice of an instance that ended long ago is deleted.
            Forget(Forget) => Forgotten, by Transaction::forget;
            /// A slice of what has piled up is deleted.
            Sweep(Sweep) => Swept, by sweeping::sweep;
            /// An operator's decision is kept.
            Setting(Setting) => (), by settings::keep_setting;
            /// A component of a plugin is kept.
            KeepComponent(Box<NewComponent>) => (), by components::keep_component;
            /// Components that are not used are forgotten.
            SweepComponents(SweepComponents) => Swept, by components::sweep_components;
            /// The queue is emptied, and all before is durable.
            Flush(Flush) => (), by Transaction::flush;
        }
    };
}
#[cfg(any(test, feature = "memory"))]
pub(crate) use with_verbs;

with_verbs! { verbs }

/// Empties the queue and makes sure that every write before is durable.
#[derive(Clone, Copy, Debug)]
pub struct Flush;

impl Wrote {
    /// Whether a verb that is tried again and again has found nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Self::Claim(claims) => claims.instances.is_empty(),
            Self::Bury(count) | Self::Unpark(count) | Self::Expire(count) => *count == 0,
            Self::Renew(_) => true,
            _ => false,
        }
    }

    /// The one place where an answer does not fit its verb.
    fn instead_of(&self, verb: &str) -> Error {
        Error::corrupt(&format!(
            "the answer to {verb} is of another verb: {self:?}"
        ))
    }
}

impl Write {
    /// The order of a write whose submitter waits for the answer. Writes about members, and about
    /// what members hold, come after what the members have submitted.
    pub(crate) fn order(&self) -> Order {
        match self {
            Self::Join(_)
            | Self::Renew(_)
            | Self::Leave(_)
            | Self::Bury(_)
            | Self::Claim(_)
            | Self::Commit(_)
            | Self::Mark(_)
            | Self::Release(_)
            | Self::Park(_)
            | Self::Unpark(_)
            | Self::Flush(_) => Order::Barrier,
            _ => Order::Unordered,
        }
    }
}
