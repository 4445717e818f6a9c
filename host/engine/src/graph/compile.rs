//! From a definition to a graph, or to everything that is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::Value;
use windlass_model::definition::{self, Definition, NodeKind, UseRef};
use windlass_model::nearest::did_you_mean;
use windlass_model::{Diagnostic, Place, limits};

use super::loops::{self, Found, Shape};
use super::{
    Edge, EdgeIx, Graph, LOOP_DEPTH, Loop, LoopIx, NodeIx, Plan, PlanKind, Port, When, checks,
    later,
};
use crate::codes;
use crate::expr::{self, Condition, Needs, Template};

pub(super) fn compile(
    definition: &Definition,
    raw: &dyn Fn(&UseRef) -> Vec<String>,
) -> Result<Graph, Vec<Diagnostic>> {
    let mut compiler = Compiler {
        definition,
        found: Vec::new(),
        needs: Needs::default(),
    };
    compiler.sizes()?;
    compiler.found.extend(later::of(definition));
    let names: BTreeMap<&str, NodeIx> = definition
        .nodes
        .keys()
        .map(String::as_str)
        .zip((0..).map(NodeIx))
        .collect();
    let kinds = compiler.kinds(raw);
    let inputs = compiler.inputs();
    let output = definition
        .output
        .as_ref()
        .and_then(|value| compiler.template(value, "/output"));
    let conditions = compiler.conditions();
    let ends = compiler.ends(&names);
    compiler.found.extend(checks::of_nodes(definition));
    let Some(ends) = ends else {
        return Err(compiler.found);
    };
    compiler.found.extend(checks::of_edges(definition));
    let shape = shape(definition, ends);
    let found = loops::find(&shape);
    if found.too_deep {
        let message = format!("loops nest deeper than {LOOP_DEPTH}");
        compiler.report(Diagnostic::new(
            codes::TOO_LARGE,
            message,
            Place::at("/edges"),
        ));
        return Err(compiler.found);
    }
    compiler
        .found
        .extend(checks::of_graph(definition, &shape, &found));
    if !compiler.found.is_empty() {
        return Err(compiler.found);
    }
    let needs = compiler.needs;
    let mut nodes = plans(definition, &shape, &found, &needs, kinds, inputs);
    let edges = edges(definition, &shape, &found, &mut nodes, conditions);
    let (entries, passed_over) = roots(definition, &shape);
    let loops = all_loops(&found, &nodes, &edges, &entries);
    let options = definition.options.clone();
    Ok(Graph {
        nodes,
        edges,
        loops,
        entries,
        passed_over,
        output,
        options,
    })
}

struct Compiler<'a> {
    definition: &'a Definition,
    found: Vec<Diagnostic>,
    /// What all expressions together name.
    needs: Needs,
}

impl Compiler<'_> {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.found.push(diagnostic);
    }

    /// Nothing is looked at more closely before it is known to be bounded.
    fn sizes(&mut self) -> Result<(), Vec<Diagnostic>> {
        let Definition { nodes, edges, .. } = self.definition;
        for (what, pointer, len, most) in [
            ("nodes", "/nodes", nodes.len(), limits::NODES),
            ("edges", "/edges", edges.len(), limits::EDGES),
        ] {
            if len > most {
                let message = format!("there are {len} {what}, which is more than {most}");
                self.report(Diagnostic::new(
                    codes::TOO_LARGE,
                    message,
                    Place::at(pointer),
                ));
            }
        }
        if self.found.is_empty() {
            Ok(())
        } else {
            Err(std::mem::take(&mut self.found))
        }
    }

    fn template(&mut self, value: &Value, pointer: &str) -> Option<Template> {
        self.template_with(value, &[], pointer)
    }

    fn template_with(&mut self, value: &Value, raw: &[String], pointer: &str) -> Option<Template> {
        match Template::compile(value, raw, pointer) {
            Ok(template) => {
                self.use_names(template.needs(), pointer);
                Some(template)
            }
            Err(found) => {
                self.found.extend(found);
                None
            }
        }
    }

    /// Variables may come with a payload, so only nodes can be known not to exist.
    fn use_names(&mut self, needs: &Needs, pointer: &str) {
        let nodes = &self.definition.nodes;
        for name in needs.nodes.iter().filter(|name| !nodes.contains_key(*name)) {
            let message = format!("there is no node `{name}`");
            let mut diagnostic = Diagnostic::new(expr::UNKNOWN_NAME, message, Place::at(pointer));
            diagnostic.help = did_you_mean(name, nodes.keys().map(String::as_str));
            self.found.push(diagnostic);
        }
        self.needs.merge(needs);
    }

    /// By node; none where something is wrong.
    fn kinds(&mut self, raw: &dyn Fn(&UseRef) -> Vec<String>) -> Vec<Option<PlanKind>> {
        let nodes = &self.definition.nodes;
        nodes
            .iter()
            .map(|(name, node)| {
                let at = |key: &str| format!("/nodes/{name}/{key}");
                Some(match &node.kind {
                    NodeKind::Use { node_type, with } => PlanKind::Use {
                        node_type: node_type.clone(),
                        with: self.template_with(with, &raw(node_type), &at("with"))?,
                    },
                    NodeKind::Wait(value) => PlanKind::Wait(self.template(value, &at("wait"))?),
                    // Refused already.
                    NodeKind::ForEach(_) | NodeKind::Workflow { .. } | NodeKind::Event { .. } => {
                        return None;
                    }
                    NodeKind::Fail(value) => PlanKind::Fail(self.template(value, &at("fail"))?),
                    NodeKind::End { terminate, output } => PlanKind::End {
                        terminate: *terminate,
                        output: match output {
                            Some(value) => Some(self.template(value, &at("end/output"))?),
                            None => None,
                        },
                    },
                    NodeKind::Set(vars) => {
                        let mut all = Vec::with_capacity(vars.len());
                        for (var, value) in vars {
                            // Every one is compiled, so that every mistake is reported.
                            all.push((var, self.template(value, &at(&format!("set/{var}")))));
                        }
                        let all = all
                            .into_iter()
                            .map(|(var, value)| Some((var.clone(), value?)));
                        PlanKind::Set(all.collect::<Option<_>>()?)
                    }
                })
            })
            .collect()
    }

    fn inputs(&mut self) -> Vec<Option<Template>> {
        let nodes = &self.definition.nodes;
        nodes
            .iter()
            .map(|(name, node)| {
                self.template(node.input.as_ref()?, &format!("/nodes/{name}/input"))
            })
            .collect()
    }

    fn conditions(&mut self) -> Vec<When> {
        let edges = &self.definition.edges;
        let compile = |(at, edge): (usize, &definition::Edge)| match &edge.when {
            definition::When::Always => When::Always,
            definition::When::Else => When::Else,
            definition::When::If(text) => {
                let pointer = format!("/edges/{at}");
                match Condition::compile(text, &pointer) {
                    Ok(condition) => {
                        self.use_names(condition.needs(), &pointer);
                        When::If(condition)
                    }
                    Err(found) => {
                        self.found.extend(found);
                        When::Always
                    }
                }
            }
        };
        edges.iter().enumerate().map(compile).collect()
    }

    /// Where each edge leads from and to, if all of them lead somewhere.
    fn ends(&mut self, names: &BTreeMap<&str, NodeIx>) -> Option<Vec<(NodeIx, NodeIx)>> {
        let mut ends = Vec::with_capacity(self.definition.edges.len());
        for (at, edge) in self.definition.edges.iter().enumerate() {
            let from = names.get(edge.from.as_str());
            let to = names.get(edge.to.as_str());
            ends.extend(from.copied().zip(to.copied()));
            for (name, node) in [(&edge.from, from), (&edge.to, to)] {
                if node.is_none() {
                    let message = format!("there is no node `{name}`");
                    let place = Place::at(format!("/edges/{at}"));
                    let mut diagnostic = Diagnostic::new(codes::UNKNOWN_NODE, message, place);
                    diagnostic.help = did_you_mean(name, names.keys().copied());
                    self.report(diagnostic);
                }
            }
        }
        (ends.len() == self.definition.edges.len()).then_some(ends)
    }
}

fn shape(definition: &Definition, ends: Vec<(NodeIx, NodeIx)>) -> Shape {
    let mut out = vec![Vec::new(); definition.nodes.len()];
    let mut into = out.clone();
    for (edge, (from, to)) in (0..).map(EdgeIx).zip(&ends) {
        if let Some(out) = out.get_mut(from.at()) {
            out.push(edge);
        }
        if let Some(into) = into.get_mut(to.at()) {
            into.push(edge);
        }
    }
    let roots = (0..)
        .map(NodeIx)
        .zip(definition.nodes.values().zip(&into))
        .filter(|(_, (node, into))| node.start || into.is_empty())
        .map(|(at, _)| at)
        .collect();
    Shape {
        ends,
        out,
        into,
        roots,
    }
}

/// Where a run begins, and what it passes over: other nodes that nothing leads to.
pub(super) fn roots(definition: &Definition, shape: &Shape) -> (Vec<NodeIx>, Vec<NodeIx>) {
    let starts: BTreeSet<NodeIx> = (0..)
        .map(NodeIx)
        .zip(definition.nodes.values())
        .filter(|(_, node)| node.start)
        .map(|(at, _)| at)
        .collect();
    shape
        .roots
        .iter()
        .partition(|root| starts.is_empty() || starts.contains(root))
}

fn plans(
    definition: &Definition,
    shape: &Shape,
    found: &Found,
    needs: &Needs,
    kinds: Vec<Option<PlanKind>>,
    inputs: Vec<Option<Template>>,
) -> Vec<Plan> {
    let rest = kinds.into_iter().zip(inputs);
    (0..)
        .map(NodeIx)
        .zip(definition.nodes.iter().zip(rest))
        .filter_map(|(at, ((name, node), (kind, input)))| {
            let (reentries, inbound): (Vec<_>, Vec<_>) = shape
                .into(at)
                .iter()
                .partition(|edge| found.backward.get(edge.at()));
            let sources: BTreeSet<NodeIx> = inbound.iter().map(|edge| shape.from(*edge)).collect();
            Some(Plan {
                name: name.clone(),
                // There is one for every node, or the mistake has been reported.
                kind: kind?,
                input,
                join: node.join,
                first: node.first,
                retry: node.retry.clone(),
                timeout_ms: node.timeout_ms,
                total_timeout_ms: node.total_timeout_ms,
                on_error: node.on_error,
                gathers: node.join.counts() && sources.len() > 1,
                inbound,
                reentries,
                outbound: shape.out(at).to_vec(),
                ports: ports(definition, shape.out(at)),
                innermost: found.innermost.get(at.at()),
                named: needs.all_nodes || needs.nodes.contains(name),
                needs: Needs::default(),
                rivals: OnceLock::new(),
            })
        })
        .collect()
}

fn ports(definition: &Definition, out: &[EdgeIx]) -> Vec<Port> {
    let mut ports: BTreeMap<&str, Vec<EdgeIx>> = BTreeMap::new();
    for at in out {
        if let Some(edge) = definition.edges.get(at.at()) {
            ports.entry(&edge.port).or_default().push(*at);
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
    definition: &Definition,
    shape: &Shape,
    found: &Found,
    nodes: &mut [Plan],
    conditions: Vec<When>,
) -> Vec<Edge> {
    let mut slots: Vec<(u32, u32)> = vec![(0, 0); nodes.len()];
    let mut edges = Vec::with_capacity(definition.edges.len());
    for ((at, edge), when) in (0..).map(EdgeIx).zip(&definition.edges).zip(conditions) {
        let (from, to) = (shape.from(at), shape.to(at));
        let backward = found.backward.get(at.at());
        let mut port = 0;
        if let Some(plan) = nodes.get_mut(from.at()) {
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

fn all_loops(found: &Found, nodes: &[Plan], edges: &[Edge], entries: &[NodeIx]) -> Vec<Loop> {
    let mut loops: Vec<Loop> = found
        .loops
        .iter()
        .map(|around| {
            let several = around.entries.len() > 1;
            let joins = around.nodes.iter().copied().filter(|node| {
                several
                    && nodes
                        .get(node.at())
                        .is_some_and(|plan| plan.inbound.len() > 1)
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
    let entered = entries
        .iter()
        .filter_map(|entry| nodes.get(entry.at())?.innermost);
    for at in edges.iter().filter_map(|edge| edge.enters).chain(entered) {
        let around = loops.get_mut(at.at());
        if let Some(arrivals) = around.and_then(|around| around.arrivals.as_mut()) {
            *arrivals += 1;
        }
    }
    loops
}
