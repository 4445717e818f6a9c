//! Deliberate mistakes of the interpreter, which the comparison has to reveal.

use super::Net;
use crate::random::flow::Join;

/// One wrong rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    /// A join `count` runs with the first edge.
    CountIsAny,
    /// A join `all` runs with the first edge.
    AllIsAny,
    /// A join `each` runs once for all edges.
    EachIsAllActive,
    /// The losers of a race go on.
    RaceSpares,
    /// An edge `else` is always taken.
    ElseAlways,
    /// Nodes after a skipped node are not skipped.
    SkipsOne,
    /// The exits of a loop that has ended stay open.
    LoopsStayOpen,
    /// A node is retried once more.
    RetriesMore,
    /// A node is repeated once more.
    RepeatsMore,
    /// The node that came last to a critical section goes first.
    LastGoesFirst,
    /// The node that completed first is undone first.
    UndoesForwards,
    /// A cancelled run undoes nothing.
    CancelKeeps,
    /// A failed item never fails its for-each.
    ItemsFailAlone,
    /// Variables of an item are those of the run.
    ItemsShare,
    /// A sub-workflow never fails.
    ChildrenSucceed,
    /// A failure that a rule handles is no incident.
    HandledIsNone,
}

impl Mistake {
    pub(crate) const ALL: [Self; 16] = [
        Self::CountIsAny,
        Self::AllIsAny,
        Self::EachIsAllActive,
        Self::RaceSpares,
        Self::ElseAlways,
        Self::SkipsOne,
        Self::LoopsStayOpen,
        Self::RetriesMore,
        Self::RepeatsMore,
        Self::LastGoesFirst,
        Self::UndoesForwards,
        Self::CancelKeeps,
        Self::ItemsFailAlone,
        Self::ItemsShare,
        Self::ChildrenSucceed,
        Self::HandledIsNone,
    ];
}

impl Net<'_> {
    /// Whether the interpreter makes this mistake.
    pub(super) fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// How the interpreter treats a join.
    pub(super) fn treats(&self, join: Join) -> Join {
        match (self.mistake, join) {
            (Some(Mistake::CountIsAny), Join::Count(_)) | (Some(Mistake::AllIsAny), Join::All) => {
                Join::Any
            }
            (Some(Mistake::EachIsAllActive), Join::Each) => Join::AllActive,
            (Some(Mistake::RaceSpares), Join::Race) => Join::Any,
            (_, join) => join,
        }
    }
}
