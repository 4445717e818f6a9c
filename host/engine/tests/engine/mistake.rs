//! Deliberate mistakes of the engine, which the random tests have to reveal.
//!
//! The engine runs a workflow of which one rule is changed, and the observer knows the original.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use windlass_model::Definition;
use windlass_model::definition::{ErrorEffect, Join, Node, NodeKind, When};
use windlass_test_seeds::Seeds;

use crate::kit;

/// A changed rule, for all nodes and edges of a workflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    AllActiveIsAny,
    AllIsAny,
    CountIsAny,
    RaceIsAny,
    EachIsAny,
    FirstTakesAll,
    ElseIsAlways,
    MutexLetsIn,
    ItemsOverlap,
    RetriesLess,
    FailuresPass,
}

impl Mistake {
    /// Those of graphs.
    pub(crate) const OF_GRAPHS: [Self; 7] = [
        Self::AllActiveIsAny,
        Self::AllIsAny,
        Self::CountIsAny,
        Self::RaceIsAny,
        Self::EachIsAny,
        Self::FirstTakesAll,
        Self::ElseIsAlways,
    ];

    /// Those of workflows with all features.
    pub(crate) const OF_FEATURES: [Self; 6] = [
        Self::AllActiveIsAny,
        Self::AllIsAny,
        Self::MutexLetsIn,
        Self::ItemsOverlap,
        Self::RetriesLess,
        Self::FailuresPass,
    ];

    /// The workflow with this mistake. None: it does not compile.
    fn made_in(self, definition: &Definition) -> Option<Definition> {
        let mut bent = definition.clone();
        self.bend(&mut bent.nodes);
        let edges = bent.edges.iter_mut();
        if self == Self::ElseIsAlways {
            edges
                .filter(|edge| edge.when == When::Else)
                .for_each(|edge| edge.when = When::Always);
        }
        kit::compile(&bent).is_ok().then_some(bent)
    }

    fn bend(self, nodes: &mut BTreeMap<String, Node>) {
        for node in nodes.values_mut() {
            match (self, node.join) {
                (Self::AllActiveIsAny, Join::AllActive)
                | (Self::AllIsAny, Join::All)
                | (Self::CountIsAny, Join::Count(_))
                | (Self::RaceIsAny, Join::Race)
                | (Self::EachIsAny, Join::Each) => node.join = Join::Any,
                (Self::FirstTakesAll, _) => node.first = false,
                (Self::MutexLetsIn, _) => node.mutex = None,
                _ => {}
            }
            if let (Self::RetriesLess, Some(retry)) = (self, &mut node.retry) {
                retry.max_attempts -= 1;
            }
            if self == Self::FailuresPass {
                let rules = node.on_error.rules.iter_mut();
                rules.for_each(|rule| rule.effect = ErrorEffect::Continue);
            }
            if let NodeKind::ForEach(each) = &mut node.kind {
                each.concurrency += u32::from(self == Self::ItemsOverlap);
                self.bend(&mut each.body.nodes);
            }
        }
    }
}

/// Looks for these mistakes in random cases: `definition` makes the workflow of a case, and `play`
/// panics if the run of the second workflow is not one of the first.
pub(crate) fn find<S: Strategy>(
    seeds: Seeds,
    mistakes: &[Mistake],
    cases: &S,
    definition: impl Fn(&S::Value) -> Option<Definition>,
    play: impl Fn(&Definition, &Definition, &S::Value),
) {
    for mistake in mistakes {
        let mut runner = TestRunner::deterministic();
        seeds.find(mistake, |_| {
            let case = cases.new_tree(&mut runner).expect("a case").current();
            let Some(definition) = definition(&case) else {
                return false;
            };
            let Some(bent) = mistake.made_in(&definition) else {
                return false;
            };
            catch_unwind(AssertUnwindSafe(|| play(&definition, &bent, &case))).is_err()
        });
    }
}
