//! Which verb a write is.

use super::transaction::{Done, Transaction};
use super::{
    components, drafts, holding, importing, letters, lives, outside, planning, publishing,
    queueing, settings, sweeping,
};
use crate::retention::Sweep;
use crate::write::{Write, Wrote};

/// Carries out one write of a transaction that is open.
pub(crate) async fn carry_out<X: Transaction>(tx: &mut X, write: &Write) -> Done<X, Wrote> {
    match write {
        Write::Commit(commit) => tx.step(commit).await,
        Write::Create(new) => tx.create(new).await,
        Write::Claim(claim) => tx.claim(claim).await,
        Write::Join(member) => tx.join(member).await,
        Write::Renew { incarnation } => tx.renew(*incarnation).await,
        Write::Leave { incarnation } => tx.leave(*incarnation).await,
        Write::Bury { incarnation, limit } => tx.bury(*incarnation, *limit).await,
        Write::Mark { fence, trigger } => holding::mark(tx, fence, trigger).await,
        Write::Release { fence } => tx.release(fence).await,
        Write::Park {
            fence,
            trigger,
            reason,
        } => holding::park(tx, fence, trigger, reason).await,
        Write::Unpark => holding::unpark(tx).await,
        Write::Send(send) => tx.send(send).await,
        Write::Resume(resume) => tx.resume(resume).await,
        Write::Queue(op) => queueing::queue(tx, op).await,
        Write::DeadLetter(op) => letters::dead_letter(tx, op).await,
        Write::Schedule(new) => outside::schedule(tx, new).await,
        Write::Fire { target, at_ms } => outside::fire(tx, *target, *at_ms).await,
        Write::Reschedule { target, due_ms } => outside::reschedule(tx, *target, *due_ms).await,
        Write::CancelTrigger { target, at_ms } => {
            outside::cancel_trigger(tx, *target, *at_ms).await
        }
        Write::Control {
            instance,
            no,
            kind,
            at_ms,
        } => outside::control(tx, *instance, *no, *kind, *at_ms).await,
        Write::Life(op) => lives::life(tx, op).await,
        Write::Import(import) => importing::import(tx, import).await,
        Write::Publish(new) => publishing::publish(tx, new).await,
        Write::Retract { name, only, at_ms } => publishing::retract(tx, name, *only, *at_ms).await,
        Write::SaveDraft(new) => drafts::save(tx, new).await,
        Write::DiscardDraft { name, revision } => drafts::discard(tx, name, *revision).await,
        Write::DropSource {
            name,
            retract,
            at_ms,
        } => drafts::drop_source(tx, name, *retract, *at_ms).await,
        Write::Upkeep(op) => drafts::request(tx, op).await,
        Write::Plan(plan) => planning::plan(tx, plan).await,
        Write::PutOff(put_off) => planning::put_off(tx, put_off).await,
        Write::Duty {
            name,
            incarnation,
            every_ms,
            at_ms,
        } => tx.duty(name, *incarnation, *every_ms, *at_ms).await,
        Write::Forget {
            instance,
            before_ms,
            rows,
            at_ms,
        } => tx.forget(*instance, *before_ms, *rows, *at_ms).await,
        Write::Sweep {
            what,
            before_ms,
            rows,
            at_ms,
        } => match what {
            Sweep::Documents => sweeping::documents(tx, *before_ms, *rows, *at_ms).await,
            Sweep::Blobs => sweeping::blobs(tx, *before_ms, *rows).await,
            Sweep::Pages => tx.sweep_pages(*rows).await,
        },
        Write::KeepComponent(new) => components::keep(tx, new).await,
        Write::SweepComponents {
            used,
            before_ms,
            at_ms,
        } => components::sweep(tx, used, *before_ms, *at_ms).await,
        Write::Setting { name, value } => settings::set(tx, name, value.as_deref()).await,
        Write::Flush => Ok(Wrote::Done),
    }
}
