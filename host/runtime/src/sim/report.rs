//! The numbers of one simulation.

/// The numbers of one simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) moves: u64,
    pub(super) runs: u64,
    pub(super) children: u64,
    /// Children that were not created: the bound on descendants, or a cancellation above them.
    pub(super) unborn: u64,
    pub(super) items: u64,
    pub(super) commits: u64,
    pub(super) fenced: u64,
    pub(super) crashes: u64,
    pub(super) stops: u64,
    pub(super) drains: u64,
    pub(super) steps_of_clock: u64,
    pub(super) stimuli: u64,
    /// Instances that a delivery claimed.
    pub(super) taken: u64,
    pub(super) forgotten: u64,
    pub(super) published: u64,
    pub(super) occurrences: u64,
    pub(super) started: u64,
    pub(super) meddling: u64,
    pub(super) retries: u64,
    pub(super) troubles_of_locks: u64,
    pub(super) lost_locks: u64,
    /// Calls postponed because the guest crashes too often.
    pub(super) put_off: u64,
    /// Steps that the store refused, and occurrences of schedules.
    pub(super) refused: u64,
    pub(super) troubles_of_schedules: u64,
    /// Deaths of processes of poisonous triggers, and guilty triggers that were claimed.
    pub(super) poisoned: u64,
    pub(super) lost: u64,
}

impl Report {
    pub(super) fn add(&mut self, other: &Self) {
        self.moves += other.moves;
        self.runs += other.runs;
        self.children += other.children;
        self.unborn += other.unborn;
        self.items += other.items;
        self.commits += other.commits;
        self.fenced += other.fenced;
        self.crashes += other.crashes;
        self.stops += other.stops;
        self.drains += other.drains;
        self.steps_of_clock += other.steps_of_clock;
        self.stimuli += other.stimuli;
        self.taken += other.taken;
        self.forgotten += other.forgotten;
        self.published += other.published;
        self.occurrences += other.occurrences;
        self.started += other.started;
        self.meddling += other.meddling;
        self.retries += other.retries;
        self.troubles_of_locks += other.troubles_of_locks;
        self.lost_locks += other.lost_locks;
        self.put_off += other.put_off;
        self.refused += other.refused;
        self.troubles_of_schedules += other.troubles_of_schedules;
        self.poisoned += other.poisoned;
        self.lost += other.lost;
    }
}
