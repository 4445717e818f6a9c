//! Which edges of a finished node are taken.

use windlass_model::Failure;
use windlass_model::definition::{ANY_PORT, DONE, ERROR};

use crate::codes;
use crate::expr::{ExprError, Values};
use crate::graph::{Graph, NodeIx, Plan, When};

/// For each outbound edge of a node, whether the edge is taken, given the ports of the outcome.
///
/// # Errors
///
/// A condition could not be evaluated.
pub(super) fn choose(
    graph: &Graph,
    node: NodeIx,
    ports: &[String],
    values: &Values,
) -> Result<Vec<bool>, Failure> {
    let Some(plan) = graph.node(node) else {
        return Ok(Vec::new());
    };
    let mut open = vec![false; plan.ports.len()];
    if ports.is_empty() {
        mark(plan, DONE, &mut open);
    }
    for port in ports {
        mark(plan, port, &mut open);
    }
    if ports.is_empty() || ports.iter().any(|port| port != ERROR) {
        mark(plan, ANY_PORT, &mut open);
    }
    let edges = || {
        plan.outbound
            .iter()
            .map(|at| graph.edge(*at))
            .map(|edge| edge.filter(|edge| is(&open, edge.port)))
    };
    let mut taken = vec![false; plan.outbound.len()];
    let mut used = vec![false; plan.ports.len()];
    let mut any = false;
    for (edge, taken) in edges().zip(&mut taken) {
        let Some(edge) = edge else { continue };
        if plan.first && any {
            break;
        }
        *taken = match &edge.when {
            When::Always => true,
            When::If(condition) => condition
                .test(values)
                .map_err(|error| refuse(&error, &edge.id))?,
            When::Else => false,
        };
        if *taken {
            any = true;
            if let Some(used) = used.get_mut(edge.port as usize) {
                *used = true;
            }
        }
    }
    for (edge, taken) in edges().zip(&mut taken) {
        let Some(edge) = edge else { continue };
        if matches!(edge.when, When::Else) && !is(&used, edge.port) && !(plan.first && any) {
            *taken = true;
            any = true;
        }
    }
    Ok(taken)
}

fn mark(plan: &Plan, port: &str, open: &mut [bool]) {
    let at = plan
        .ports
        .binary_search_by(|known| known.name.as_str().cmp(port));
    if let Some(open) = at.ok().and_then(|at| open.get_mut(at)) {
        *open = true;
    }
}

fn is(flags: &[bool], at: u32) -> bool {
    flags.get(at as usize).copied().unwrap_or_default()
}

fn refuse(error: &ExprError, edge: &str) -> Failure {
    Failure::new(
        error.class(),
        codes::CONDITION,
        format!("the condition of edge `{edge}` could not be evaluated: {error}"),
    )
}
