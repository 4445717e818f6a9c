//! Members of a store: the processes that share its work.

use windlass_model::Incarnation;

/// A process that becomes a member. Answered by its incarnation.
#[derive(Clone, Debug)]
pub struct NewMember {
    /// The member's name, for display.
    pub name: String,
    /// How long the other members consider it alive without a renewal.
    pub lease_ms: u64,
    /// Epoch milliseconds.
    pub joined_ms: i64,
}

/// Extends the lease of a member.
#[derive(Clone, Copy, Debug)]
pub struct Renew {
    /// The member.
    pub incarnation: Incarnation,
}

/// The lease is longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The lease holds until this moment of the member's monotonic clock, in milliseconds: the
    /// clock that [`NewMember::lease_ms`] counts on.
    pub until_monotonic_ms: u64,
}

/// Ends a membership. The member's remaining runs are freed without suspicion.
#[derive(Clone, Copy, Debug)]
pub struct Leave {
    /// The member.
    pub incarnation: Incarnation,
}

/// Reaps members that are dead or whose lease has expired, and frees at most `limit` of their
/// runs.
///
/// Freeing a run makes its claimed triggers pending. A trigger that was claimed at two deaths in a
/// row becomes a suspect; see [`crate::rows::Suspicion`]. A suspect that was not marked is not
/// concerned.
#[derive(Clone, Copy, Debug)]
pub struct Reap {
    /// The member that asks. It never reaps itself.
    pub incarnation: Incarnation,
    /// Bound on the runs freed.
    pub limit: u32,
}

/// What a reaping freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Runs, at most [`Reap::limit`].
    pub runs: u32,
    /// Their triggers that were claimed.
    pub triggers: u32,
    /// How many of these are suspects or guilty.
    pub suspects: u32,
}

impl Reaped {
    /// Adds the counts of another reaping.
    pub fn add(&mut self, other: Self) {
        self.runs = self.runs.saturating_add(other.runs);
        self.triggers = self.triggers.saturating_add(other.triggers);
        self.suspects = self.suspects.saturating_add(other.suspects);
    }
}

/// Asks for a duty, which is a periodic task of one member at a time. Records the member if the
/// duty is given to it. Answered by whether it is.
#[derive(Clone, Debug)]
pub struct Duty {
    /// The duty.
    pub name: String,
    /// The member that asks. The duty is given to members only.
    pub incarnation: Incarnation,
    /// The interval after which the duty is given again, in milliseconds. None: it is given only to
    /// the member that has it already, at any time.
    pub every_ms: Option<u64>,
    /// Whether it is also given, before that, if the member that has it is none any more.
    pub inherited: bool,
    /// Epoch milliseconds.
    pub at_ms: i64,
}
