//! Every place of a definition that reads values, and when it does; and the flaws in all places.

use windlass_model::definition::{NodeKind, UseRef, When};

use super::super::flat::{Flat, FlatNode};
use super::super::{BodyIx, NodeIx};
use crate::expr::{Constant, Findings, Flaw, Operation, Reading, of_condition, of_template};

/// A reading in its place.
pub(super) struct Site {
    /// The place of the expression.
    pub(super) pointer: String,
    pub(super) reading: Reading,
    /// The body whose values it sees.
    pub(super) body: BodyIx,
    pub(super) moment: Moment,
}

/// When a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// When the node begins.
    Before(NodeIx),
    /// When an execution of the node has failed.
    Failing(NodeIx),
    /// When the node has run.
    After(NodeIx),
    /// At the end of the body.
    End,
}

/// All sites of a definition.
#[derive(Default)]
pub(super) struct Sites {
    pub(super) readings: Vec<Site>,
    /// Each with the place of its text.
    pub(super) flaws: Vec<(String, Flaw)>,
    /// Operations on values of paths, each with the place of its text and the body of its values.
    pub(super) operations: Vec<(String, BodyIx, Operation)>,
    /// Texts that need no value, each with its place.
    pub(super) constants: Vec<(String, Constant)>,
}

impl Sites {
    fn add(&mut self, found: Findings, body: BodyIx, moment: Moment) {
        self.readings
            .extend(found.readings.into_iter().map(|(pointer, reading)| Site {
                pointer,
                reading,
                body,
                moment,
            }));
        self.flaws.extend(found.flaws);
        self.constants.extend(found.constants);
        let operations = found.operations.into_iter();
        self.operations
            .extend(operations.map(|(pointer, operation)| (pointer, body, operation)));
    }
}

/// The sites of a definition. `raw` names the members of a node type's configuration that are
/// passed as written; none if the node type is unknown, and then nothing is said about them.
pub(super) fn all(flat: &Flat<'_>, raw: &dyn Fn(&UseRef) -> Option<Vec<String>>) -> Sites {
    let mut sites = Sites::default();
    for (name, value) in flat.tags {
        let mut found = Findings::default();
        of_template(value, &[], &format!("/tags/{name}"), &mut found);
        sites.add(found, BodyIx::ROOT, Moment::End);
    }
    for (at, node) in flat.nodes() {
        of_node(at, node, raw, &mut sites);
    }
    for edge in &flat.edges {
        let from = flat.find(&edge.edge.from).map(|(at, _)| at);
        if let (When::If(text), Some(from)) = (&edge.edge.when, from) {
            let found = of_condition(text, &edge.pointer);
            sites.add(found, edge.body, Moment::After(from));
        }
    }
    for (at, body) in (0..).map(BodyIx).zip(&flat.bodies) {
        let mut found = Findings::default();
        if let Some(output) = body.output {
            of_template(output, &[], &format!("{}/output", body.pointer), &mut found);
        }
        sites.add(found, at, Moment::End);
    }
    sites
}

fn of_node(
    at: NodeIx,
    flat_node: &FlatNode<'_>,
    raw: &dyn Fn(&UseRef) -> Option<Vec<String>>,
    sites: &mut Sites,
) {
    let node = flat_node.node;
    let place = |key: &str| format!("{}/{key}", flat_node.pointer);
    let mut found = Findings::default();
    let mut template = |value, raw: &[String], key: &str| {
        of_template(value, raw, &place(key), &mut found);
    };
    match &node.kind {
        NodeKind::Use { node_type, with } => {
            if let Some(raw) = raw(node_type) {
                template(with, &raw, "with");
            }
        }
        NodeKind::ForEach(each) => template(&each.list, &[], "for-each"),
        NodeKind::Workflow { .. } => {}
        NodeKind::Wait(value) => template(value, &[], "wait"),
        NodeKind::Event {
            name,
            matches,
            correlation,
        } => {
            template(name, &[], "event");
            template(matches, &[], "event/match");
            if let Some(correlation) = correlation {
                template(correlation, &[], "event/correlation");
            }
        }
        NodeKind::Set(vars) => {
            for (name, value) in vars {
                template(value, &[], &format!("set/{name}"));
            }
        }
        NodeKind::End { output, .. } => {
            if let Some(output) = output {
                template(output, &[], "end/output");
            }
        }
        NodeKind::Fail { message, data } => {
            let key = if data.is_some() {
                "fail/message"
            } else {
                "fail"
            };
            template(message, &[], key);
            if let Some(data) = data {
                template(data, &[], "fail/data");
            }
        }
    }
    if let Some(input) = &node.input {
        template(input, &[], "input");
    }
    sites.add(found, flat_node.body, Moment::Before(at));
    let mut condition = |text: &str, key: &str, moment| {
        let found = of_condition(text, &place(key));
        sites.add(found, flat_node.body, moment);
    };
    if let Some(until) = node
        .repeat
        .as_ref()
        .and_then(|repeat| repeat.until.as_deref())
    {
        condition(until, "repeat/until", Moment::After(at));
    }
    if let Some(when) = node.retry.as_ref().and_then(|retry| retry.when.as_deref()) {
        condition(when, "retry/when", Moment::Failing(at));
    }
    for (rule, on) in node.on_error.rules.iter().enumerate() {
        if let Some(when) = on.when.as_deref() {
            condition(when, &format!("on-error/{rule}/when"), Moment::Failing(at));
        }
    }
}
