//! The memory that a compiled workflow takes, estimated.

use windlass_model::definition::{Join, Retry};
use windlass_model::weight::{block, list};

use super::{Body, Edge, ErrorRule, Graph, Loop, NodeIx, Plan, PlanKind, Port, When};
use crate::expr::{Condition, Template};

impl Graph {
    /// An estimate of the memory that the graph takes on the heap, in bytes, those parts included
    /// that are computed later.
    pub fn weight(&self) -> usize {
        let plans = || self.nodes.iter().flatten();
        let races = plans().filter(|plan| plan.is_race()).count();
        let reach = block(self.nodes.len().div_ceil(64) * 8);
        let tables = list::<Option<Plan>>(self.nodes.capacity())
            + list::<NodeIx>(self.by_name.capacity() + self.nodes.len())
            + list::<Edge>(self.edges.capacity())
            + list::<Loop>(self.loops.capacity())
            + list::<Body>(self.bodies.capacity());
        let nodes = plans().map(Plan::weight);
        let edges = self.edges.iter().map(|edge| {
            let when = match &edge.when {
                When::If(condition) => condition.weight(),
                When::Always | When::Else => 0,
            };
            block(edge.id.capacity()) + when
        });
        let loops = self.loops.iter().map(|it| {
            let (exits, joins) = (it.exits.capacity(), it.joins.capacity());
            list::<u32>(exits) + list::<u32>(joins)
        });
        let bodies = self.bodies.iter().map(|body| {
            let entries = body.entries.capacity() + body.passed_over.capacity();
            list::<NodeIx>(entries) + body.output.as_ref().map_or(0, Template::weight)
        });
        tables
            + self.tags.as_ref().map_or(0, Template::weight)
            + races * reach
            + nodes.sum::<usize>()
            + edges.sum::<usize>()
            + loops.sum::<usize>()
            + bodies.sum::<usize>()
    }
}

impl Plan {
    /// Whether the node needs a set of the nodes that lead to it.
    fn is_race(&self) -> bool {
        self.join == Join::Race
    }

    fn weight(&self) -> usize {
        let rules = self.on_error.iter();
        let rules = rules.map(|rule| rule.when.as_ref().map_or(0, Condition::weight));
        let retry = self.retry.as_ref().map_or(0, |retry: &Retry| {
            let when = retry.when.as_ref().map_or(0, |when| block(when.capacity()));
            block(retry.classes.capacity()) + when
        });
        let repeat = self.repeat.as_ref().and_then(|it| it.until.as_ref());
        let conditions = [self.retry_when.as_ref(), repeat];
        let conditions = conditions.into_iter().flatten().map(Condition::weight);
        let edges = self.inbound.capacity() + self.reentries.capacity() + self.outbound.capacity();
        let ports = self
            .ports
            .iter()
            .map(|port| block(port.name.capacity()) + list::<u32>(port.edges.capacity()));
        block(self.name.capacity())
            + self.kind.weight()
            + self.input.as_ref().map_or(0, Template::weight)
            + retry
            + conditions.sum::<usize>()
            + list::<ErrorRule>(self.on_error.capacity())
            + rules.sum::<usize>()
            + self
                .route
                .as_ref()
                .map_or(0, |route| block(route.capacity()))
            + list::<u32>(edges)
            + list::<Port>(self.ports.capacity())
            + ports.sum::<usize>()
            + self.before.weight()
            + self.needs.weight()
            + self.failing.weight()
    }
}

impl PlanKind {
    fn weight(&self) -> usize {
        match self {
            Self::Use { node_type, with } => {
                let requirement = node_type.requirement.as_ref();
                block(node_type.package.capacity())
                    + block(node_type.name.capacity())
                    + requirement.map_or(0, |text| block(text.capacity()))
                    + with.weight()
            }
            Self::ForEach { list, .. } => list.weight(),
            Self::Workflow { name } => block(name.capacity()),
            Self::Wait(template) => template.weight(),
            Self::Event {
                name,
                matches,
                correlation,
            } => {
                let correlation = correlation.as_ref().map_or(0, Template::weight);
                name.weight() + matches.weight() + correlation
            }
            Self::Set(assigned) => {
                let each = assigned.iter();
                let each = each.map(|(name, value)| block(name.capacity()) + value.weight());
                list::<(String, Template)>(assigned.capacity()) + each.sum::<usize>()
            }
            Self::End { output, .. } => output.as_ref().map_or(0, Template::weight),
            Self::Fail { message, data } => {
                message.weight() + data.as_ref().map_or(0, Template::weight)
            }
        }
    }
}
