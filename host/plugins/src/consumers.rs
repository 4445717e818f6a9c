//! The consumer for each type of trigger: a table that is built once for each state of the
//! registry, so that a step only looks up.

use rustc_hash::FxHashMap;
use windlass_model::TriggerType;

use crate::description::Consumer;

/// By type for triggers without a route, and by route and type for the others.
#[derive(Clone)]
pub(crate) struct Consumers<T> {
    plain: Kinds<T>,
    routed: FxHashMap<Box<str>, Kinds<T>>,
}

/// An entry for each type of trigger.
#[derive(Clone)]
struct Kinds<T>(Vec<Option<T>>);

impl<T> Default for Consumers<T> {
    fn default() -> Self {
        Self {
            plain: Kinds::default(),
            routed: FxHashMap::default(),
        }
    }
}

impl<T> Default for Kinds<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone> Consumers<T> {
    /// The table of these consumers, which come in the order of preference. A consumer that names a
    /// type precedes one that takes every type. A consumer with routes gets triggers of these
    /// routes only.
    pub(crate) fn of<'a>(consumers: impl Iterator<Item = (&'a Consumer, T)>) -> Self {
        let mut table = Self::default();
        let (mut naming, mut any) = (Vec::new(), Vec::new());
        for (consumer, who) in consumers {
            for kind in TriggerType::ALL {
                if consumer.types.iter().any(|name| name == kind.name()) {
                    naming.push((consumer, kind, who.clone()));
                } else if consumer.types.iter().any(|name| name == "*") {
                    any.push((consumer, kind, who.clone()));
                }
            }
        }
        for (consumer, kind, who) in naming.into_iter().chain(any) {
            if kind.is_control() {
                continue;
            }
            if consumer.routes.is_empty() {
                table.plain.fill(kind, who.clone());
            }
            for route in &consumer.routes {
                let kinds = table.routed.entry(route.as_str().into()).or_default();
                kinds.fill(kind, who.clone());
            }
        }
        table
    }

    /// The consumer of triggers of this type and route. A route without a consumer has no
    /// substitute: the node names its consumer by the route.
    pub(crate) fn get(&self, kind: TriggerType, route: Option<&str>) -> Option<&T> {
        let kinds = match route {
            None => &self.plain,
            Some(route) => self.routed.get(route)?,
        };
        kinds.0.get(usize::from(kind.stored()))?.as_ref()
    }
}

impl<T> Kinds<T> {
    fn fill(&mut self, kind: TriggerType, who: T) {
        let at = usize::from(kind.stored());
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        if let Some(place) = self.0.get_mut(at) {
            place.get_or_insert(who);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TriggerType::{Cancel, Event, Next, Start};

    /// Checks which of the consumers, given as `(name, types, routes)`, gets the trigger.
    #[track_caller]
    fn check(
        consumers: &[(&str, &[&str], &[&str])],
        kind: TriggerType,
        route: Option<&str>,
        expected: Option<&str>,
    ) {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let described: Vec<_> = consumers
            .iter()
            .map(|(name, types, routes)| {
                let (types, routes) = (texts(types), texts(routes));
                (Consumer { types, routes }, *name)
            })
            .collect();
        let table = Consumers::of(described.iter().map(|(consumer, name)| (consumer, *name)));
        assert_eq!(table.get(kind, route).copied(), expected);
    }

    const ALL: (&str, &[&str], &[&str]) = ("all", &["*"], &[]);
    const STARTS: (&str, &[&str], &[&str]) = ("starts", &["start"], &[]);
    const AUDIT: (&str, &[&str], &[&str]) = ("audit", &["*"], &["audit", "books"]);
    const GUARD: (&str, &[&str], &[&str]) = ("guard", &["start", "event"], &["guard"]);

    #[test]
    fn a_consumer_of_one_type_goes_before_a_consumer_of_every_type() {
        check(&[ALL, STARTS], Start, None, Some("starts"));
        check(&[ALL, STARTS], Next, None, Some("all"));
        check(&[STARTS], Next, None, None);
    }

    #[test]
    fn of_equals_the_first_is_taken() {
        check(&[("a", &["*"], &[]), ALL], Next, None, Some("a"));
        check(&[("a", &["next", "next"], &[]), ALL], Next, None, Some("a"));
    }

    #[test]
    fn a_route_finds_its_consumer() {
        check(&[ALL, AUDIT, GUARD], Next, Some("audit"), Some("audit"));
        check(&[ALL, AUDIT, GUARD], Next, Some("books"), Some("audit"));
        check(&[ALL, AUDIT, GUARD], Event, Some("guard"), Some("guard"));
    }

    #[test]
    fn a_route_without_a_consumer_finds_none() {
        check(&[ALL, AUDIT, GUARD], Next, Some("elsewhere"), None);
        check(&[ALL, AUDIT, GUARD], Next, Some("guard"), None);
        check(&[ALL], Next, Some(""), None);
    }

    #[test]
    fn a_consumer_with_routes_takes_these_alone() {
        check(&[AUDIT, ALL], Next, None, Some("all"));
        check(&[AUDIT], Next, None, None);
    }

    #[test]
    fn no_consumer_takes_a_control_trigger() {
        check(&[ALL, AUDIT], Cancel, None, None);
        check(&[("grasping", &["cancel"], &[])], Cancel, None, None);
    }
}
