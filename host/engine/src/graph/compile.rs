//! Compiles a definition to a graph, or to the list of all its mistakes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use windlass_model::definition::{Definition, NodeKind, UseRef};
use windlass_model::nearest::did_you_mean;
use windlass_model::{Diagnostic, Place, limits};

use super::expressions::{Compiled, Expressions};
use super::flat::Flat;
use super::loops::{self, Found, Shape};
use super::{
    Body, BodyIx, Edge, EdgeIx, Graph, LOOP_DEPTH, Loop, LoopIx, MutexIx, NodeIx, Plan, Port, When,
    checks, nesting,
};
use crate::codes;
use crate::expr::Needs;

/// Mistakes with a suggestion.
pub(super) const SUGGESTED: usize = 100;

pub(super) fn compile(
    definition: &Definition,
    raw: &dyn Fn(&UseRef) -> Vec<String>,
) -> Result<Graph, Vec<Diagnostic>> {
    let flat = Flat::of(definition);
    // The sizes are checked before any work that grows with them.
    sizes(definition, &flat)?;
    let mut expressions = Expressions {
        flat: &flat,
        found: nesting::doubled(&flat),
        needs: Needs::default(),
    };
    let compiled = expressions.nodes(raw);
    let outputs = expressions.outputs();
    let conditions = expressions.conditions();
    let tags = expressions.tags();
    let Expressions {
        mut found, needs, ..
    } = expressions;
    let ends = ends(&flat, &mut found);
    found.extend(checks::of_nodes(&flat));
    found.extend(nesting::of_nodes(&flat));
    let Some(ends) = ends else {
        return Err(found);
    };
    found.extend(checks::of_edges(&flat));
    let shape = shape(&flat, ends);
    let all_loops = loops::find(&shape);
    if all_loops.too_deep {
        let message = format!("loops nest deeper than {LOOP_DEPTH}");
        let place = Place::at("/edges");
        found.push(Diagnostic::new(codes::TOO_LARGE, message, place));
        return Err(found);
    }
    found.extend(checks::of_graph(&flat, &shape, &all_loops));
    if !found.is_empty() {
        return Err(found);
    }
    let bodies = bodies(&flat, &shape, outputs);
    let mut nodes = plans(&flat, &shape, &all_loops, &needs, compiled);
    let entries = || bodies.iter().flat_map(|body| &body.entries);
    for entry in entries() {
        if let Some(Some(plan)) = nodes.get_mut(entry.at()) {
            plan.entry = true;
        }
    }
    let edges = edges(&flat, &shape, &all_loops, &mut nodes, conditions);
    let loops = find_loops(&all_loops, &nodes, &edges, entries());
    let options = definition.options.clone();
    let mut by_name: Vec<NodeIx> = flat.nodes().map(|(at, _)| at).collect();
    by_name.sort_by_key(|at| flat.name(*at));
    Ok(Graph {
        nodes,
        by_name,
        edges,
        loops,
        bodies,
        tags,
        options,
        forward: OnceLock::new(),
    })
}

fn sizes(definition: &Definition, flat: &Flat<'_>) -> Result<(), Vec<Diagnostic>> {
    let mut found = Vec::new();
    let set = flat.nodes.iter().filter_map(|node| match &node.node.kind {
        NodeKind::Set(vars) => Some(vars.keys()),
        _ => None,
    });
    let variables: BTreeSet<&String> = definition.vars.keys().chain(set.flatten()).collect();
    for (what, pointer, len, most) in [
        ("nodes", "/nodes", flat.count(), limits::NODES),
        ("edges", "/edges", flat.edges.len(), limits::EDGES),
        ("variables", "", variables.len(), limits::VARIABLES),
    ] {
        if len > most {
            let message = format!("there are {len} {what}, which is more than {most}");
            let place = Place::at(pointer);
            found.push(Diagnostic::new(codes::TOO_LARGE, message, place));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// The two ends of each edge, if every edge leads to a node of its own body.
fn ends(flat: &Flat<'_>, found: &mut Vec<Diagnostic>) -> Option<Vec<(NodeIx, NodeIx)>> {
    let mut ends = Vec::with_capacity(flat.edges.len());
    for edge in &flat.edges {
        let find = |name| {
            let found = flat.find(name);
            let here = found.filter(|(_, node)| node.body == edge.body);
            here.map(|(at, _)| at)
        };
        let (from, to) = (&edge.edge.from, &edge.edge.to);
        let here = (find(from), find(to));
        ends.extend(here.0.zip(here.1));
        for (end, name, node) in [("from", from, here.0), ("to", to, here.1)] {
            if node.is_some() {
                continue;
            }
            let place = Place::at(format!("{}/{end}", edge.pointer));
            let (message, help) = match flat.find(name) {
                Some(_) => (
                    format!("node `{name}` is in another body, and edges lead nowhere else"),
                    Some(
                        "a body gets data from outside by its `item`, and returns data by its \
                         `output`"
                            .to_owned(),
                    ),
                ),
                None => {
                    let near = flat.nodes.iter().filter(|node| node.body == edge.body);
                    // Comparing all names takes long, and more than this is not read by anyone.
                    let help = (found.len() < SUGGESTED).then(|| {
                        let near = did_you_mean(name, near.map(|node| node.name));
                        near.unwrap_or_else(|| lost(end, name, flat, edge.body))
                    });
                    (format!("there is no node `{name}`"), help)
                }
            };
            let mut diagnostic = Diagnostic::new(codes::UNKNOWN_NODE, message, place);
            diagnostic.help = help;
            found.push(diagnostic);
        }
    }
    (ends.len() == flat.edges.len()).then_some(ends)
}

/// The remedy for an edge whose end has a name that is not near to any other.
fn lost(end: &str, name: &str, flat: &Flat<'_>, body: BodyIx) -> String {
    const NAMED: usize = 8;
    match (end, name) {
        ("from", "start" | "begin" | "trigger" | "input") => {
            return "a workflow begins at the nodes that no edge leads to: leave this edge out"
                .to_owned();
        }
        ("to", "end" | "stop" | "done" | "exit" | "output") => {
            return "a branch ends at the node that no edge leaves: leave this edge out".to_owned();
        }
        _ => {}
    }
    let nodes = flat.nodes.iter().filter(|node| node.body == body);
    let names: Vec<_> = nodes.map(|node| format!("`{}`", node.name)).collect();
    let shown = names.get(..names.len().min(NAMED)).unwrap_or_default();
    match names.len().checked_sub(NAMED).filter(|more| *more > 0) {
        Some(more) => format!("there are {} and {more} more", shown.join(", ")),
        None => format!("there are {}", shown.join(", ")),
    }
}

pub(super) fn shape(flat: &Flat<'_>, ends: Vec<(NodeIx, NodeIx)>) -> Shape {
    let mut out = vec![Vec::new(); flat.count()];
    let mut into = out.clone();
    for (edge, (from, to)) in (0..).map(EdgeIx).zip(&ends) {
        if let Some(out) = out.get_mut(from.at()) {
            out.push(edge);
        }
        if let Some(into) = into.get_mut(to.at()) {
            into.push(edge);
        }
    }
    let is_led_to = |at: NodeIx| into.get(at.at()).is_some_and(|into| !into.is_empty());
    let roots = flat
        .nodes()
        .filter(|(at, node)| (node.node.start || !is_led_to(*at)) && !flat.is_compensating(*at))
        .map(|(at, _)| at)
        .collect();
    Shape {
        ends,
        out,
        into,
        roots,
    }
}

/// The nodes at which a body begins, and the nodes that it passes over: others without inbound
/// edges.
pub(super) fn roots(flat: &Flat<'_>, shape: &Shape, body: BodyIx) -> (Vec<NodeIx>, Vec<NodeIx>) {
    let here = |at: &&NodeIx| flat.node(**at).is_some_and(|node| node.body == body);
    let starts = |at: &NodeIx| flat.node(*at).is_some_and(|node| node.node.start);
    let roots = || shape.roots.iter().filter(here).copied();
    let any = roots().any(|at| starts(&at));
    roots().partition(|at| !any || starts(at))
}

fn bodies(
    flat: &Flat<'_>,
    shape: &Shape,
    outputs: Vec<Option<crate::expr::Template>>,
) -> Vec<Body> {
    let all = (0..).map(BodyIx).zip(flat.bodies.iter().zip(outputs));
    all.map(|(at, (body, output))| {
        let (entries, passed_over) = roots(flat, shape, at);
        let container = body.container.and_then(|name| flat.find(name));
        Body {
            container: container.map(|(at, _)| at),
            parent: body.parent,
            entries,
            output,
            passed_over,
        }
    })
    .collect()
}

fn plans(
    flat: &Flat<'_>,
    shape: &Shape,
    found: &Found,
    needs: &Needs,
    compiled: Vec<Option<Compiled>>,
) -> Vec<Option<Plan>> {
    let keys = flat.nodes.iter().filter_map(|n| n.node.mutex.as_deref());
    let keys: BTreeSet<&str> = keys.collect();
    let mutexes: BTreeMap<&str, MutexIx> = keys.into_iter().zip((0..).map(MutexIx)).collect();
    let all = flat.nodes().zip(compiled);
    let all: Vec<(NodeIx, Plan)> = all
        .filter_map(|((at, flat_node), compiled)| {
            let (reentries, inbound): (Vec<_>, Vec<_>) = shape
                .into(at)
                .iter()
                .partition(|edge| found.backward.get(edge.at()));
            let sources: BTreeSet<NodeIx> = inbound.iter().map(|edge| shape.from(*edge)).collect();
            // Each node has one, or its mistake has been reported.
            let Compiled {
                kind,
                input,
                repeat,
                retry_when,
                on_error,
            } = compiled?;
            let (name, node) = (flat_node.name, flat_node.node);
            let mut own_needs = Needs::default();
            if let Some(until) = repeat.as_ref().and_then(|repeat| repeat.until.as_ref()) {
                own_needs.merge(until.needs());
            }
            let mut before = Needs::default();
            for template in kind.templates().chain(&input) {
                if template.alias().is_none() {
                    before.merge(template.needs());
                }
            }
            let mut failing = Needs::default();
            let rules = on_error.iter().filter_map(|rule| rule.when.as_ref());
            for condition in retry_when.iter().chain(rules) {
                failing.merge(condition.needs());
            }
            let plan = Plan {
                name: name.to_owned(),
                kind,
                body: flat_node.body,
                entry: false,
                input,
                join: node.join,
                first: node.first,
                retry: node.retry.clone(),
                retry_when,
                timeout_ms: node.timeout_ms,
                total_timeout_ms: total_timeout_ms(node),
                wait_timeout_ms: node.wait_timeout_ms,
                on_error,
                repeat,
                mutex: node
                    .mutex
                    .as_deref()
                    .and_then(|key| mutexes.get(key).copied()),
                priority: node.priority,
                route: node.route.clone(),
                compensate: node
                    .compensate
                    .as_deref()
                    .and_then(|undo| flat.find(undo))
                    .map(|(at, _)| at),
                gathers: node.join.counts() && sources.len() > 1,
                inbound,
                reentries,
                outbound: shape.out(at).to_vec(),
                ports: ports(flat, shape.out(at)),
                innermost: found.innermost.get(at.at()),
                named: needs.all_nodes || needs.nodes.contains(name),
                linked: needs.links.contains(name),
                before,
                needs: own_needs,
                failing,
                race_losers: OnceLock::new(),
            };
            Some((at, plan))
        })
        .collect();
    let mut plans: Vec<Option<Plan>> = std::iter::repeat_with(|| None).take(flat.count()).collect();
    for (at, plan) in all {
        if let Some(place) = plans.get_mut(at.at()) {
            *place = Some(plan);
        }
    }
    plans
}

fn ports(flat: &Flat<'_>, out: &[EdgeIx]) -> Vec<Port> {
    let mut ports: BTreeMap<&str, Vec<EdgeIx>> = BTreeMap::new();
    for at in out {
        if let Some(edge) = flat.edge(*at) {
            ports.entry(&edge.edge.port).or_default().push(*at);
        }
    }
    ports
        .into_iter()
        .map(|(name, edges)| Port {
            name: name.to_owned(),
            edges,
        })
        .collect()
}

fn edges(
    flat: &Flat<'_>,
    shape: &Shape,
    found: &Found,
    nodes: &mut [Option<Plan>],
    conditions: Vec<When>,
) -> Vec<Edge> {
    let mut slots: Vec<(u32, u32)> = vec![(0, 0); nodes.len()];
    let mut edges = Vec::with_capacity(flat.edges.len());
    let all = flat.edges.iter().map(|edge| edge.edge);
    for ((at, edge), when) in (0..).map(EdgeIx).zip(all).zip(conditions) {
        let (from, to) = (shape.from(at), shape.to(at));
        let backward = found.backward.get(at.at());
        let mut port = 0;
        if let Some(Some(plan)) = nodes.get_mut(from.at()) {
            let known = plan
                .ports
                .binary_search_by(|port| port.name.cmp(&edge.port));
            port = known
                .ok()
                .and_then(|at| u32::try_from(at).ok())
                .unwrap_or_default();
            if let When::If(condition) = &when {
                plan.needs.merge(condition.needs());
            }
        }
        let slot = slots.get_mut(to.at()).map_or(0, |(forward, back)| {
            let next = if backward { back } else { forward };
            *next += 1;
            *next - 1
        });
        let leaves = if backward {
            None
        } else {
            leaves(found, from, to)
        };
        let inner = found.innermost.get(to.at());
        let enters = inner.filter(|inner| {
            found.innermost.get(from.at()) != Some(*inner) && several_entries(found, *inner)
        });
        let id = edge.id.clone();
        edges.push(Edge {
            id,
            from,
            to,
            port,
            when,
            backward,
            slot,
            leaves,
            enters,
        });
    }
    edges
}

fn several_entries(found: &Found, at: LoopIx) -> bool {
    found
        .loops
        .get(at.at())
        .is_some_and(|around| around.entries.len() > 1)
}

/// The outermost loop that an edge leaves.
fn leaves(found: &Found, from: NodeIx, to: NodeIx) -> Option<LoopIx> {
    let depth = |at: Option<LoopIx>| {
        at.and_then(|at| found.loops.get(at.at()))
            .map_or(0, |around| around.depth + 1)
    };
    let parent = |at: Option<LoopIx>| at.and_then(|at| found.loops.get(at.at())?.parent);
    let mut inside = found.innermost.get(from.at());
    let mut outside = found.innermost.get(to.at());
    let mut left = None;
    while inside != outside {
        if depth(inside) >= depth(outside) {
            left = inside;
            inside = parent(inside);
        } else {
            outside = parent(outside);
        }
    }
    left
}

fn plan_of(nodes: &[Option<Plan>], at: NodeIx) -> Option<&Plan> {
    nodes.get(at.at())?.as_ref()
}

fn find_loops<'a>(
    found: &Found,
    nodes: &[Option<Plan>],
    edges: &[Edge],
    entries: impl Iterator<Item = &'a NodeIx>,
) -> Vec<Loop> {
    let mut loops: Vec<Loop> = found
        .loops
        .iter()
        .map(|around| {
            let several = around.entries.len() > 1;
            let joins = around.nodes.iter().copied().filter(|node| {
                several && plan_of(nodes, *node).is_some_and(|plan| plan.inbound.len() > 1)
            });
            Loop {
                parent: around.parent,
                depth: around.depth,
                exits: Vec::new(),
                arrivals: several.then_some(0),
                joins: joins.collect(),
            }
        })
        .collect();
    for (at, edge) in (0..).map(EdgeIx).zip(edges) {
        if let Some(left) = edge.leaves.and_then(|left| loops.get_mut(left.at())) {
            left.exits.push(at);
        }
    }
    let entered = entries.filter_map(|entry| plan_of(nodes, *entry)?.innermost);
    for at in edges.iter().filter_map(|edge| edge.enters).chain(entered) {
        let around = loops.get_mut(at.at());
        if let Some(arrivals) = around.and_then(|around| around.arrivals.as_mut()) {
            *arrivals += 1;
        }
    }
    loops
}

/// The time limit of a node over all attempts. A node that runs other nodes makes no call that
/// `timeout` could bound, so its `timeout` bounds all that they do.
fn total_timeout_ms(node: &windlass_model::definition::Node) -> Option<u64> {
    let runs_others = matches!(
        node.kind,
        NodeKind::ForEach { .. } | NodeKind::Workflow { .. }
    );
    let timeout_ms = node.timeout_ms.filter(|_| runs_others);
    timeout_ms.into_iter().chain(node.total_timeout_ms).min()
}
