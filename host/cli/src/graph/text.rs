//! A workflow as rails and stations, in text: read it downwards, a node on a line.
//!
//! Each edge that has left its node and not yet reached its target is a rail. A node forks off a
//! rail for each edge beyond its first, and joins the rails that lead to it. A backward edge is
//! only named where it leaves, since a rail upwards would cross all others.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use windlass_model::Definition;
use windlass_model::definition::{Edge, Node, NodeKind};

use super::{Order, condition, join, kind};
use crate::output::Paint;

/// Beyond this many columns of rails the texts beside them are not aligned any more.
const LINED_UP: usize = 40;

/// Draws a workflow.
pub(crate) fn text(definition: &Definition, paint: Paint) -> String {
    part(&definition.nodes, &definition.edges, paint)
}

/// The nodes of a workflow or of a body. Bodies are below their container, with a dotted line at
/// their left. The recursion is as deep as bodies nest, which the file format bounds.
fn part(nodes: &BTreeMap<String, Node>, edges: &[Edge], paint: Paint) -> String {
    let order = Order::of(nodes, edges);
    let mut leaving: BTreeMap<&str, Vec<(usize, &Edge)>> = BTreeMap::new();
    for (at, edge) in edges.iter().enumerate() {
        leaving.entry(&edge.from).or_default().push((at, edge));
    }
    let mut drawing = Drawing::default();
    let width = order.nodes.iter().map(|name| name.len()).max().unwrap_or(0);
    for &name in &order.nodes {
        let Some(node) = nodes.get(name) else {
            continue;
        };
        let leaving = leaving.remove(name).unwrap_or_default();
        let (backward, forward): (Vec<_>, Vec<_>) = leaving
            .into_iter()
            .partition(|(at, _)| order.backward.contains(at));
        let forward: Vec<_> = forward.into_iter().map(|(_, edge)| edge).collect();
        drawing.node(name, node, &caption(name, node, width, paint), &forward);
        if let NodeKind::ForEach(each) = &node.kind {
            let body = part(&each.body.nodes, &each.body.edges, paint);
            for line in body.lines() {
                drawing.row(None, format!("  ┊ {line}"));
            }
        }
        drawing.edges(&forward, paint);
        for (_, edge) in backward {
            drawing.row(None, format!("  ↺ {}", leads(edge, paint)));
        }
    }
    drawing.finish()
}

fn caption(name: &str, node: &Node, width: usize, paint: Paint) -> String {
    let mut more = kind(node);
    if let Some(join) = join(node) {
        more = format!("{more}  ({join})");
    }
    format!(
        "{}{:pad$}  {}",
        paint.strong(name),
        "",
        paint.dim(more),
        pad = width - name.len()
    )
}

fn leads(edge: &Edge, paint: Paint) -> String {
    match condition(edge).as_str() {
        "" => edge.to.clone(),
        condition => format!("{}  {}", edge.to, paint.warning(condition)),
    }
}

fn mark(node: &Node) -> char {
    match node.kind {
        NodeKind::Use { .. } | NodeKind::Set(_) => '●',
        NodeKind::ForEach(_) | NodeKind::Workflow { .. } => '◆',
        NodeKind::Wait(_) | NodeKind::Event { .. } => '○',
        NodeKind::End { .. } => '■',
        NodeKind::Fail { .. } => '✖',
    }
}

#[derive(Default)]
struct Drawing<'a> {
    /// For each column, the node that its rail leads to.
    rails: Vec<Option<&'a str>>,
    /// The column of the node drawn last.
    column: usize,
    /// Whether the last node that was drawn has no row below it yet.
    bare: bool,
    rows: Vec<(String, String)>,
}

impl<'a> Drawing<'a> {
    /// Joins the rails that lead to a node, and draws it.
    fn node(&mut self, name: &str, node: &Node, caption: &str, forward: &[&'a Edge]) {
        let arriving: Vec<_> = self
            .rails
            .iter()
            .enumerate()
            .filter(|(_, target)| **target == Some(name))
            .map(|(column, _)| column)
            .collect();
        match arriving.as_slice() {
            [] => {
                if self.bare {
                    self.row(None, String::new());
                }
                self.column = self.free(0);
            }
            [column] => {
                if self.bare {
                    self.row(None, String::new());
                }
                self.column = *column;
            }
            [first, others @ ..] => {
                self.column = *first;
                self.row(Some(('╯', '┴', others)), String::new());
                for column in others {
                    self.set(*column, None);
                }
            }
        }
        let rails = self.drawn(|column| (column == self.column).then(|| mark(node)));
        self.rows.push((rails, caption.to_owned()));
        self.set(self.column, forward.first().map(|edge| edge.to.as_str()));
        self.bare = true;
    }

    /// Forks off the rails that leave the node drawn last.
    fn edges(&mut self, forward: &[&'a Edge], paint: Paint) {
        if let [only] = forward
            && condition(only).is_empty()
        {
            return;
        }
        for (at, edge) in forward.iter().enumerate() {
            let label = format!("  → {}", leads(edge, paint));
            if at == 0 {
                self.row(None, label);
                continue;
            }
            let column = self.free(self.column + 1);
            self.set(column, Some(&edge.to));
            self.row(Some(('╮', '┬', &[column])), label);
        }
    }

    /// A row of rails; with a bend, one that connects the node's column with others.
    fn row(&mut self, bend: Option<(char, char, &[usize])>, text: String) {
        self.bare = false;
        let rails = match bend {
            None => self.drawn(|_| None),
            Some((end, between, columns)) => {
                let last = columns.last().copied().unwrap_or(self.column);
                let mut rails = self.drawn(|column| match column {
                    column if column == self.column => Some('├'),
                    column if column == last => Some(end),
                    column if columns.contains(&column) => Some(between),
                    column if column < self.column || column > last => None,
                    column if self.rails.get(column).is_some_and(Option::is_some) => Some('┼'),
                    _ => Some('─'),
                });
                // The gaps between columns are part of the row, too.
                rails = rails
                    .chars()
                    .enumerate()
                    .map(|(at, drawn)| {
                        let inside = at > 2 * self.column && at < 2 * last;
                        if inside && at % 2 == 1 { '─' } else { drawn }
                    })
                    .collect();
                rails
            }
        };
        self.rows.push((rails, text));
    }

    /// The rails of all columns, except those for which `other` has a character.
    fn drawn(&self, other: impl Fn(usize) -> Option<char>) -> String {
        let columns = self.rails.len().max(self.column + 1);
        let mut text = String::new();
        for column in 0..columns {
            let rail = if self.rails.get(column).is_some_and(Option::is_some) {
                '│'
            } else {
                ' '
            };
            text.push(other(column).unwrap_or(rail));
            text.push(' ');
        }
        text.trim_end().to_owned()
    }

    /// The first free column at or after `from`.
    fn free(&self, from: usize) -> usize {
        (from..)
            .find(|&column| self.rails.get(column).is_none_or(Option::is_none))
            .unwrap_or(from)
    }

    fn set(&mut self, column: usize, target: Option<&'a str>) {
        if self.rails.len() <= column {
            self.rails.resize(column + 1, None);
        }
        if let Some(rail) = self.rails.get_mut(column) {
            *rail = target;
        }
        while self.rails.last().is_some_and(Option::is_none) {
            self.rails.pop();
        }
    }

    fn finish(self) -> String {
        let columns = |rails: &str| rails.chars().count();
        let width = self
            .rows
            .iter()
            .map(|(rails, _)| columns(rails))
            .max()
            .unwrap_or(0);
        let width = width.min(LINED_UP);
        self.rows
            .iter()
            .fold(String::new(), |mut text, (rails, caption)| {
                let pad = width.saturating_sub(columns(rails));
                // Writing into a string cannot fail.
                let _ = writeln!(
                    text,
                    "{}",
                    format!("{rails}{:pad$}  {caption}", "").trim_end()
                );
                text
            })
    }
}
