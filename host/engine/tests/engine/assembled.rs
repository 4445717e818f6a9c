//! Random workflows with all features: nested bodies, critical sections, repetition and
//! compensation.

use windlass_model::Definition;
use windlass_model::definition::{
    ErrorEffect, ErrorRule, Incidents, NodeKind, OnError, OnItemError, Repeat, Retry, When,
};

use crate::kit;
use crate::wild::{Dice, Wild};

/// Conditions about failures, which the observer of a run knows as well.
pub(crate) const PERMANENT: &str = "error.class == 'permanent'";
pub(crate) const FIRST: &str = "error.details.n == 1";
pub(crate) const NUMBERED: &str = "error.details.n is defined";

/// A workflow with for-each nodes and all other features.
pub(crate) fn assemble(parts: Vec<Wild>, seed: u64) -> Option<Definition> {
    let mut dice = Dice(seed);
    let mut all = Vec::new();
    for (at, part) in parts.into_iter().enumerate() {
        // A part that cannot be repaired is left out.
        let mended = part.repair();
        all.extend(mended.map(|part| renamed(part, &format!("p{at}_"))));
    }
    let mut inner: Option<Definition> = None;
    // The last part is the innermost body.
    while let Some(mut definition) = all.pop() {
        if let Some(body) = inner.take() {
            let names: Vec<String> = definition.nodes.keys().cloned().collect();
            let name = &names[dice.below(names.len())];
            let mut made = kit::definition("f: each 1\nf| x:").nodes;
            let mut container = made.remove("f").expect("it was made");
            let NodeKind::ForEach(each) = &mut container.kind else {
                panic!("a for-each")
            };
            each.concurrency = 1 + u32::try_from(dice.below(3)).expect("few");
            if dice.below(2) == 0 {
                each.on_item_error = OnItemError::Continue;
            }
            each.body.nodes = body.nodes;
            each.body.edges = body.edges;
            let place = definition.nodes.get_mut(name).expect("a node");
            container.join = place.join;
            container.first = place.first;
            container.start = place.start;
            *place = container;
            for edge in definition
                .edges
                .iter_mut()
                .filter(|edge| edge.from == *name)
            {
                edge.port = "done".to_owned();
                edge.when = When::Always;
            }
        }
        decorate(&mut definition, &mut dice);
        inner = Some(definition);
    }
    let mut definition = inner?;
    if dice.below(2) == 0 {
        definition.options.incidents = Incidents::Continue;
    }
    for at in 0..2 {
        let mut undo = kit::node();
        if at == 0 {
            undo.retry = retry();
        }
        let name = format!("undo{at}");
        let named = definition
            .all_nodes()
            .iter()
            .any(|(_, _, node)| node.compensate.as_deref() == Some(name.as_str()));
        // Without a node that it undoes, it would be an entry of the workflow.
        if named {
            definition.nodes.insert(name, undo);
        }
    }
    kit::compile(&definition).ok()?;
    Some(definition)
}

fn retry() -> Option<Retry> {
    kit::definition("a: retry 3 5 exponential jitter").nodes["a"]
        .retry
        .clone()
}

/// Rules by which a node continues after some or all failures.
fn rules(dice: &mut Dice) -> OnError {
    let rule = |when: Option<&str>, effect| ErrorRule {
        when: when.map(str::to_owned),
        effect,
    };
    match dice.below(4) {
        0 => OnError {
            rules: vec![rule(Some(PERMANENT), ErrorEffect::Continue)],
        },
        1 => OnError {
            rules: vec![
                rule(Some(FIRST), ErrorEffect::Fail),
                rule(Some(NUMBERED), ErrorEffect::Continue),
                rule(None, ErrorEffect::Fail),
            ],
        },
        _ => OnError::always(ErrorEffect::Continue),
    }
}

fn renamed(mut definition: Definition, prefix: &str) -> Definition {
    let nodes = std::mem::take(&mut definition.nodes);
    let nodes = nodes.into_iter();
    definition.nodes = nodes
        .map(|(name, node)| (format!("{prefix}{name}"), node))
        .collect();
    for edge in &mut definition.edges {
        edge.from = format!("{prefix}{}", edge.from);
        edge.to = format!("{prefix}{}", edge.to);
    }
    definition
}

fn decorate(definition: &mut Definition, dice: &mut Dice) {
    for (name, node) in &mut definition.nodes {
        let each = matches!(node.kind, NodeKind::ForEach(_));
        match dice.below(12) {
            // Each level has its own key, since a node must not wait for a section that is held
            // around it.
            0 | 1 => node.mutex = Some(name[..2].to_owned()),
            2 => {
                node.repeat = Some(Repeat {
                    max: Some(1 + u32::try_from(dice.below(3)).expect("few")),
                    every_ms: Some(dice.below(2) as u64),
                    until: (dice.below(2) == 0).then(|| "vars.x".to_owned()),
                });
            }
            3 | 4 => {
                node.retry = retry();
                if let Some(retry) = node.retry.as_mut().filter(|_| dice.below(2) == 0) {
                    retry.when = Some(NUMBERED.to_owned());
                }
            }
            5 => node.on_error = rules(dice),
            6 => node.wait_timeout_ms = Some(50),
            _ => {}
        }
        if !each && dice.below(4) == 0 {
            node.compensate = Some(format!("undo{}", dice.below(2)));
        }
    }
}
