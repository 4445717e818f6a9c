//! Nodes with several inbound edges.
//!
//! An edge is decided once it is taken or can no longer be taken. The decisions of one edge belong
//! to rounds in the order in which they arrive; a decision that arrives after its round is over is
//! ignored.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::{At, Net, State};
use crate::random::flow::Join;

/// The decisions at a join: by edge, the decisions that no round has used yet, and how many of the
/// next decisions are too late.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rounds {
    waiting: BTreeMap<usize, VecDeque<Option<Value>>>,
    late: BTreeMap<usize, u32>,
}

/// The state of a round.
enum Round {
    Open,
    Runs,
    Skips,
    Over,
}

impl Rounds {
    /// Adds a decision. Returns whether it was in time.
    fn add(&mut self, edge: usize, decision: Option<Value>) -> bool {
        match self.late.get_mut(&edge) {
            Some(late) if *late > 0 => {
                *late -= 1;
                false
            }
            _ => {
                self.waiting.entry(edge).or_default().push_back(decision);
                true
            }
        }
    }

    fn heads(&self) -> Vec<Option<&Value>> {
        let heads = self.waiting.values().filter_map(VecDeque::front);
        heads.map(Option::as_ref).collect()
    }

    fn round(&self, join: Join, edges: usize) -> Round {
        let heads = self.heads();
        let taken = heads.iter().flatten().count();
        let undecided = edges - heads.len();
        match join {
            Join::AllActive if undecided == 0 && taken > 0 => Round::Runs,
            Join::All if taken == edges => Round::Runs,
            Join::Any | Join::Race if taken > 0 => Round::Runs,
            Join::Count(count) if taken >= count => Round::Runs,
            Join::Count(count) if taken + undecided < count => Round::Skips,
            Join::Each if undecided == 0 && taken > 0 => Round::Over,
            _ if undecided == 0 => Round::Skips,
            _ => Round::Open,
        }
    }

    /// Ends a round. Returns the edges that were taken.
    fn close(&mut self, edges: &[usize]) -> Vec<(usize, Value)> {
        let mut taken = Vec::new();
        for edge in edges {
            match self.waiting.entry(*edge).or_default().pop_front() {
                None => *self.late.entry(*edge).or_default() += 1,
                Some(None) => {}
                Some(Some(output)) => taken.push((*edge, output)),
            }
        }
        taken
    }

    /// Whether the next decision of an edge leads to no run of the join.
    fn is_spent(&self, edge: usize, join: Join) -> bool {
        let undecided = self.waiting.get(&edge).is_none_or(VecDeque::is_empty);
        let missed = join == Join::All && self.heads().contains(&None);
        self.late.get(&edge).is_some_and(|late| *late > 0) || undecided && missed
    }
}

impl State {
    /// Adds a decision to a node with several inbound edges.
    pub(super) fn join(&mut self, net: &Net<'_>, scope: u32, edge: usize, decision: Option<Value>) {
        let at = net.link(edge).to;
        let place = net.place(at);
        let join = net.treats(place.node.join);
        let rounds = self.scope_mut(scope).joins.entry(at).or_default();
        if !rounds.add(edge, decision.clone()) {
            return;
        }
        if let (Join::Each, Some(output)) = (join, decision) {
            let from = vec![(net.link(edge).from, output)];
            self.open(net, scope, at, "next", from);
        }
        loop {
            let rounds = self.scope_mut(scope).joins.entry(at).or_default();
            let round = rounds.round(join, place.into.len());
            if matches!(round, Round::Open) {
                return;
            }
            let taken = rounds.close(&place.into);
            match round {
                Round::Runs => {
                    let from = taken.into_iter();
                    let mut from: Vec<(At, Value)> = from
                        .map(|(edge, output)| (net.link(edge).from, output))
                        .collect();
                    if net.gathers(at) {
                        // Two edges may come from one node.
                        from = BTreeMap::from_iter(from).into_iter().collect();
                    } else {
                        from.truncate(1);
                    }
                    self.open(net, scope, at, "next", from);
                    if join == Join::Race {
                        self.won.push((scope, at));
                    }
                }
                Round::Skips => self.skip(net, scope, at),
                Round::Over | Round::Open => {}
            }
        }
    }

    /// Cancels every execution that could still reach a race in the round that was won. Executions
    /// that lead there only through a join that has run, or that misses an edge, continue. Of several
    /// races, one to which no other race leads comes first.
    pub(super) fn cancel_losers(&mut self, net: &Net<'_>) -> bool {
        let mut left = self.won.clone();
        let mut won = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let leads =
                |from: &(u32, At), to: &(u32, At)| from.0 == to.0 && net.leads(from.1, to.1);
            let is_first = |race: &(u32, At)| !left.iter().any(|other| leads(other, race));
            let first = left.iter().position(is_first).unwrap_or_default();
            won.push(left.remove(first));
        }
        won.into_iter()
            .any(|(scope, race)| self.cancel_losers_of(net, scope, race))
    }

    fn cancel_losers_of(&mut self, net: &Net<'_>, scope: u32, race: At) -> bool {
        let Some(local) = self.scopes.get(&scope) else {
            return false;
        };
        let passes = |edge: &&usize| {
            let link = net.link(**edge);
            let join = net.place(link.to).node.join;
            let spent = |it: &Rounds| it.is_spent(**edge, join);
            !link.backward && (link.to == race || !local.joins.get(&link.to).is_some_and(spent))
        };
        let mut leading = BTreeSet::new();
        let mut todo = vec![race];
        while let Some(at) = todo.pop() {
            for edge in net.place(at).into.iter().filter(passes) {
                let from = net.link(*edge).from;
                if leading.insert(from) {
                    todo.push(from);
                }
            }
        }
        let open = self.open.iter();
        let lost: Vec<u32> = open
            .filter(|(_, open)| open.scope == scope && leading.contains(&open.node))
            .map(|(number, _)| *number)
            .collect();
        let found = !lost.is_empty();
        for number in lost {
            self.cancel(net, number);
        }
        found
    }

    /// Whether a join waits for some of its edges although others are decided.
    pub(super) fn half_decided(&self, net: &Net<'_>, scope: u32) -> bool {
        let mut joins = self.scope(scope).joins.iter();
        joins.any(|(at, rounds)| {
            let mut waiting = rounds.waiting.values().flatten();
            match net.place(*at).node.join {
                Join::AllActive | Join::All | Join::Count(_) => waiting.next().is_some(),
                Join::Any | Join::Race => waiting.any(Option::is_some),
                Join::Each => false,
            }
        })
    }
}
