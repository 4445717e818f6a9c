//! An instance that this process owns, as it is kept in memory.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use windlass_model::{
    Epoch, InstanceId, InstanceNo, LogLine, Numbers, RunNo, Seq, Token, TriggerNo, Version,
};
use windlass_plugins::Cancel;
use windlass_store::rows::Suspicion;
use windlass_store::write::{Fence, TriggerFence};

use super::burst::Burst;
use super::memory::Memory;
use crate::catalog::Prepared;

/// An owned instance.
pub(crate) struct Hot {
    pub(crate) no: InstanceNo,
    pub(crate) id: InstanceId,
    pub(crate) epoch: Epoch,
    /// The version that the next commit expects, counting commits that are not durable yet.
    pub(crate) version: Version,
    pub(crate) correlation: Option<Arc<str>>,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) state: windlass_engine::State,
    pub(crate) memory: Memory,
    pub(crate) last_run: Option<RunNo>,
    pub(crate) held: FxHashMap<Seq, Held>,
    /// Commits on their way.
    pub(crate) unacknowledged: u32,
    pub(crate) burst: Burst,
    /// The instance was given back by the last commit on its way, or it ended with it.
    pub(crate) leaving: bool,
}

/// The trigger row of something outstanding.
pub(crate) struct Held {
    pub(crate) no: TriggerNo,
    pub(crate) token: Token,
    pub(crate) suspicion: Suspicion,
    pub(crate) deliveries: u32,
    /// What its consumer logged, until it is kept with the record of the execution.
    pub(crate) noted: Vec<LogLine>,
    pub(crate) stage: Stage,
}

/// How far something outstanding is.
pub(crate) enum Stage {
    /// Pending in the store: the scheduler will claim it when it comes due.
    Waiting,
    /// Claimed, but written by a commit that is not durable yet.
    Written,
    /// Claimed and waiting for its turn.
    Ready,
    /// In the hands of a guest.
    Running(Cancel),
}

impl Held {
    pub(crate) fn is_claimed(&self) -> bool {
        !matches!(self.stage, Stage::Waiting)
    }

    pub(crate) fn fence(&self) -> TriggerFence {
        TriggerFence {
            no: self.no,
            token: self.token,
        }
    }

    /// Tells the guest, if there is one, that nobody waits for it any more.
    pub(crate) fn interrupt(&self) {
        if let Stage::Running(cancel) = &self.stage {
            cancel.cancel();
        }
    }
}

impl Hot {
    pub(crate) fn fence(&self) -> Fence {
        Fence {
            incarnation: self.numbers.incarnation(),
            instance: self.no,
            epoch: self.epoch,
            version: self.version,
        }
    }

    /// How many of its triggers count as in flight.
    pub(crate) fn claimed(&self) -> u32 {
        let claimed = self.held.values().filter(|held| held.is_claimed()).count();
        u32::try_from(claimed).unwrap_or(u32::MAX)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.held
            .values()
            .any(|held| matches!(held.stage, Stage::Running(_)))
    }

    pub(crate) fn interrupt(&self) {
        self.held.values().for_each(Held::interrupt);
    }
}
