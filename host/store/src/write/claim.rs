//! A claim: the member asks for triggers that are due, and becomes the owner of their runs.

use bytes::Bytes;
use windlass_model::limits::FOLLOWING_PRIORITY;
use windlass_model::{Incarnation, RunNo, ScopeNo};

use crate::rows::{RunRow, TriggerRow};

/// A claim by a member.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The member that claims. The answer is empty if it is not a member any more.
    pub incarnation: Incarnation,
    /// Triggers that are due at this time are claimed, in epoch milliseconds.
    pub now_ms: i64,
    /// Bound on the runs claimed.
    pub runs: u32,
    /// Bound on the triggers claimed of each.
    pub triggers: u32,
    /// Bound on the triggers and scopes of the runs claimed, in bytes as [`ClaimedRun::bytes`] counts
    /// them: a claim ends with the run that reaches it.
    pub bytes: u64,
    /// Which runs may be claimed.
    pub scope: ClaimScope,
}

impl Claim {
    /// Whether so many runs, of so many bytes, are all that are claimed.
    pub(crate) fn is_full(&self, runs: usize, bytes: u64) -> bool {
        runs >= self.runs as usize || (runs > 0 && bytes >= self.bytes)
    }
}

impl ClaimScope {
    /// The lowest priority of the triggers that may be claimed.
    pub(crate) fn lowest(&self) -> i32 {
        match self {
            Self::All | Self::Only(_) => i32::MIN,
            Self::Control => FOLLOWING_PRIORITY,
        }
    }
}

/// The runs that may be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimScope {
    /// All runs that are free or belong to the member.
    All,
    /// The same runs, but only control triggers: they end other triggers.
    Control,
    /// Only of these runs.
    Only(Vec<RunNo>),
}

/// Work that was claimed.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// The claimed runs.
    pub runs: Vec<ClaimedRun>,
    /// Whether more due work may be free.
    pub more: bool,
    /// When the next pending trigger that this member may claim comes due, in epoch milliseconds,
    /// if no more work is due now.
    pub next_due_ms: Option<i64>,
    /// Whether a write had to wait for another process since the claim before this one. Only in
    /// SQLite do writes wait for each other.
    pub contended: bool,
}

/// One run and its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedRun {
    /// The head, with the new owner and epoch.
    pub row: RunRow,
    /// Whether this claim made the member the owner, rather than an earlier one.
    pub taken: bool,
    /// The triggers claimed, with their new tokens.
    pub claimed: Vec<TriggerRow>,
    /// All its other triggers, if `taken` is set.
    pub others: Vec<TriggerRow>,
    /// Its open scopes besides the root, in order, if `taken` is set.
    pub scopes: Vec<(ScopeNo, Bytes)>,
}

impl ClaimedRun {
    /// How many triggers were claimed.
    pub fn count(&self) -> u32 {
        u32::try_from(self.claimed.len()).unwrap_or(u32::MAX)
    }

    /// The bytes that its triggers and scopes take in memory, about.
    pub fn bytes(&self) -> u64 {
        let triggers = self.claimed.iter().chain(&self.others);
        let scopes = self.scopes.iter().map(|(_, state)| of_scope(state));
        triggers.map(of_trigger).chain(scopes).sum()
    }
}

/// The bytes that a trigger or a scope takes in memory besides its content: the row, then a part of the
/// state of its run. The statement in `sql/rows.rs` has the same number.
const ROW_BYTES: u64 = 768;

/// The bytes of a trigger.
pub(crate) fn of_trigger(row: &TriggerRow) -> u64 {
    let payload = row.payload.as_ref().map_or(0, Bytes::len);
    ROW_BYTES + (row.detail.len() + payload) as u64
}

/// The bytes of a scope.
pub(crate) fn of_scope(state: &Bytes) -> u64 {
    ROW_BYTES + state.len() as u64
}
