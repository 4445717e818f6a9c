//! A claim: the member asks for triggers that are due, and becomes the owner of their instances.

use bytes::Bytes;
use windlass_model::{Incarnation, InstanceNo, ScopeNo};

use crate::rows::{InstanceRow, TriggerRow};

/// A wish for work.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who asks. Answered with nothing if it is not a member any more.
    pub incarnation: Incarnation,
    /// What is due at this moment, in epoch milliseconds.
    pub now_ms: i64,
    /// Bound on the instances claimed.
    pub instances: u32,
    /// Bound on the triggers claimed of each.
    pub triggers: u32,
    /// Whether to claim whatever is there, or only what already belongs to the member.
    pub scope: ClaimScope,
}

/// Whose work may be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimScope {
    /// Everybody's.
    All,
    /// Only of these instances.
    Only(Vec<InstanceNo>),
}

/// Work that was claimed.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Instance by instance.
    pub instances: Vec<ClaimedInstance>,
    /// Whether there may be more that is due and free.
    pub more: bool,
    /// When the next pending trigger that this member may take comes due, in epoch
    /// milliseconds, if nothing more is due now.
    pub next_due_ms: Option<i64>,
    /// Whether a write had to wait for another process since the claim before this one. Only in
    /// SQLite do writes wait for each other.
    pub contended: bool,
}

/// One instance and its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedInstance {
    /// The head, with the new owner and epoch.
    pub row: InstanceRow,
    /// Whether the instance was taken by this claim, rather than belonging to the member before.
    pub taken: bool,
    /// The triggers claimed, with their new tokens.
    pub claimed: Vec<TriggerRow>,
    /// If it was taken: all its other triggers.
    pub others: Vec<TriggerRow>,
    /// If it was taken: its open scopes besides the root, in order.
    pub scopes: Vec<(ScopeNo, Bytes)>,
}

impl ClaimedInstance {
    /// How many triggers were claimed.
    pub fn count(&self) -> u32 {
        u32::try_from(self.claimed.len()).unwrap_or(u32::MAX)
    }
}
