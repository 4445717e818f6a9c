//! Members of a store: the processes that share its work.

use windlass_model::Incarnation;

/// A process that becomes a member. Answered by its incarnation.
#[derive(Clone, Debug)]
pub struct NewMember {
    /// For people.
    pub name: String,
    /// How long others trust in its life without hearing of it.
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

/// Ends a membership; what the member still holds is freed without suspicion.
#[derive(Clone, Copy, Debug)]
pub struct Leave {
    /// The member.
    pub incarnation: Incarnation,
}

/// Removes members that are dead or whose lease has run out, and frees at most `limit` instances
/// of such. Answered by the number of instances.
///
/// Freeing an instance makes its claimed triggers pending and suspect. One that was only claimed
/// gets `deliveries = max(deliveries, 1)`; one that was marked, one more.
#[derive(Clone, Copy, Debug)]
pub struct Bury {
    /// The member that asks; never buried by itself.
    pub incarnation: Incarnation,
    /// Bound on the instances freed.
    pub limit: u32,
}

/// Asks for a duty that one member at a time does now and then, and notes who does it. Answered by
/// whether the duty is the asking member's now.
#[derive(Clone, Debug)]
pub struct Duty {
    /// The duty.
    pub name: String,
    /// Who asks. Never gets it unless it is a member.
    pub incarnation: Incarnation,
    /// How long after it was last given out the duty is free, in milliseconds. None: it is given
    /// again to the member that has it already, however soon, and to no other.
    pub every_ms: Option<u64>,
    /// Epoch milliseconds.
    pub at_ms: i64,
}
