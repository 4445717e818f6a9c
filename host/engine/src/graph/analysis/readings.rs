//! Readings of values that cannot be there: outputs of nodes that have not run, variables that
//! nothing sets, and members that a schema rules out; and expressions that fail, or whose values are
//! of a kind that their place does not take.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::Value;
use windlass_model::definition::{ErrorEffect, NodeKind, UseRef};
use windlass_model::nearest::did_you_mean;
use windlass_model::schema::members::{self, Found, Kind};
use windlass_model::template::is_template;
use windlass_model::{Definition, Diagnostic, Place};

use super::super::flat::{Flat, FlatNode};
use super::super::{BodyIx, NodeIx};
use super::inputs::{self, Input};
use super::order::{self, Order};
use super::sites::{self, Moment, Site, Sites};
use super::wanted;
use super::{Analysis, Facts, MOST, Ways};
use crate::codes;
use crate::expr::{
    Constants, EVERY_RUN, Findings, Flaw, Known, Operation, Reading, Step, of_template, result,
};

/// Subschemas that all readings of a definition together look at.
const BUDGET: usize = 2_000_000;
/// Subschemas that one reading looks at.
const ONE_BUDGET: usize = 2_000;
/// Names that a message lists.
const LISTED: usize = 8;
/// Steps of a path that are looked at.
const STEPS: usize = 32;

/// The failure that leaves by the port `error` has these members.
const FAILURE: [&str; 2] = ["error", "position"];

pub(super) fn check<'a>(
    definition: &'a Definition,
    flat: &Flat<'a>,
    ways: Option<&Ways>,
    facts: &dyn Fn(&UseRef) -> Option<Facts<'a>>,
    analysis: &mut Analysis,
) {
    let raw = |node_type: &UseRef| facts(node_type).map(|facts| facts.raw);
    let sites = sites::all(flat, &raw);
    flaws(&sites.flaws, analysis);
    let constants = Constants::default();
    failures(&sites, &constants, analysis);
    let mut check = Check {
        inputs: inputs::all(definition),
        flat,
        order: ways.map(|ways| Order::of(flat, ways)),
        input: definition.input.as_ref(),
        outputs: outputs(flat, facts),
        items: BTreeMap::new(),
        set: variables(definition, flat),
        budget: BUDGET,
        analysis,
    };
    check.find_items();
    for (pointer, body, operation) in &sites.operations {
        if check.analysis.is_full() {
            break;
        }
        check.operation(pointer, *body, operation);
    }
    for place in wanted::places(flat) {
        if check.analysis.mistakes.len() >= MOST {
            break;
        }
        check.wanted(&place, &constants);
    }
    for site in &sites.readings {
        if check.analysis.is_full() {
            break;
        }
        match &*site.reading.root {
            "vars" => check.variable(site),
            "nodes" => {
                check.order(site);
                check.members(site);
            }
            "input" | "item" => check.members(site),
            _ => {}
        }
    }
}

/// Operators that fail with every value, and texts that look like expressions.
fn flaws(flaws: &[(String, Flaw)], analysis: &mut Analysis) {
    for (pointer, flaw) in flaws {
        let found = diagnostic(pointer, flaw);
        match flaw.fails {
            true => analysis.mistake(found),
            false => analysis.warning(found),
        }
    }
}

fn diagnostic(pointer: &str, flaw: &Flaw) -> Diagnostic {
    let place = Place::inside(pointer, flaw.at.clone());
    let code = match flaw.fails {
        true => codes::ALWAYS_FAILS,
        false => codes::LOOKS_LIKE_EXPRESSION,
    };
    Diagnostic::new(code, flaw.message.as_str(), place).help(flaw.help.as_str())
}

/// Expressions that need no value and fail.
fn failures(sites: &Sites, constants: &Constants, analysis: &mut Analysis) {
    for (pointer, constant) in &sites.constants {
        if analysis.mistakes.len() >= MOST {
            break;
        }
        let Some(error) = constants.failure(constant) else {
            continue;
        };
        let message = format!(
            "`{}` fails in every run: {}",
            error.expression, error.message
        );
        let place = Place::inside(pointer.as_str(), constant.at.clone());
        let found = Diagnostic::new(codes::ALWAYS_FAILS, message, place);
        analysis.mistake(found.help("the expression reads no value, so its result never changes"));
    }
}

/// The variables that begin with a value or are set by a node.
fn variables<'a>(definition: &'a Definition, flat: &Flat<'a>) -> BTreeSet<&'a str> {
    let mut set: BTreeSet<&str> = definition.vars.keys().map(String::as_str).collect();
    for node in &flat.nodes {
        if let NodeKind::Set(vars) = &node.node.kind {
            set.extend(vars.keys().map(String::as_str));
        }
    }
    set
}

/// The knowledge about the output of a node.
enum Output<'a> {
    Unknown,
    Schema(&'a Value),
    /// An object with exactly these members.
    Members(Vec<&'a str>),
    List,
}

/// By the number of the node.
fn outputs<'a>(flat: &Flat<'a>, facts: &dyn Fn(&UseRef) -> Option<Facts<'a>>) -> Vec<Output<'a>> {
    let mut known: BTreeMap<&UseRef, Option<&'a Value>> = BTreeMap::new();
    let mut of = |node: &FlatNode<'a>| match &node.node.kind {
        NodeKind::Use { node_type, .. } => {
            let schema = known
                .entry(node_type)
                .or_insert_with(|| facts(node_type).map(|facts| facts.output));
            schema.map_or(Output::Unknown, Output::Schema)
        }
        NodeKind::Set(vars) => Output::Members(vars.keys().map(String::as_str).collect()),
        NodeKind::ForEach(_) => Output::List,
        _ => Output::Unknown,
    };
    let mut outputs: Vec<Output<'a>> = Vec::new();
    outputs.resize_with(flat.count(), || Output::Unknown);
    for (at, node) in flat.nodes() {
        if let Some(output) = outputs.get_mut(at.at()) {
            *output = of(node);
        }
    }
    outputs
}

struct Check<'a, 'b> {
    /// The inputs that triggers give.
    inputs: Vec<Input<'a>>,
    flat: &'b Flat<'a>,
    order: Option<Order<'b>>,
    input: Option<&'a Value>,
    outputs: Vec<Output<'a>>,
    /// By body of a for-each: the path whose items its items are.
    items: BTreeMap<BodyIx, Reading>,
    set: BTreeSet<&'a str>,
    budget: usize,
    analysis: &'b mut Analysis,
}

impl<'a> Check<'a, '_> {
    /// The lists of the for-each nodes, as far as each is a single path.
    fn find_items(&mut self) {
        for (at, body) in (0..).map(BodyIx).zip(&self.flat.bodies) {
            let each = body.container.and_then(|name| self.flat.find(name));
            let Some((_, each)) = each else { continue };
            let NodeKind::ForEach(kind) = &each.node.kind else {
                continue;
            };
            let Some(text) = kind.list.as_str() else {
                continue;
            };
            let mut found = Findings::default();
            of_template(&kind.list, &[], "", &mut found);
            let [(_, list)] = found.readings.as_slice() else {
                continue;
            };
            // A filter or an operator makes another list of it.
            let inner = text.trim().trim_start_matches("{{").trim_end_matches("}}");
            let plain = inner
                .trim()
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._".contains(c));
            if !plain {
                continue;
            }
            let mut list = list.clone();
            list.steps.push(Step::Item);
            let list = self.based(list, each.body);
            self.items.insert(at, list);
        }
    }

    /// A path that begins with `item`, as a path from where the item comes.
    fn based(&self, reading: Reading, body: BodyIx) -> Reading {
        match self.items.get(&body).filter(|_| &*reading.root == "item") {
            Some(list) => {
                let steps = list.steps.iter().chain(&reading.steps).take(STEPS);
                Reading {
                    root: list.root.clone(),
                    steps: steps.cloned().collect(),
                    guarded: reading.guarded,
                }
            }
            None => reading,
        }
    }

    /// An operation that fails in all runs is a mistake. If it fails only in those that one of
    /// several triggers starts, that is a warning.
    fn operation(&mut self, pointer: &str, body: BodyIx, operation: &Operation) {
        let reads_input = operation.roots().any(|root| self.is_input(root, body));
        if reads_input && self.budget == 0 {
            return;
        }
        let mut found: Vec<Option<Flaw>> = Vec::new();
        if !reads_input || self.inputs.is_empty() {
            found.push(operation.flaw(EVERY_RUN, &mut |root, steps| {
                self.kinds(root, steps, body, None)
            }));
        } else {
            let several = self.inputs.len() > 1;
            for at in 0..self.inputs.len() {
                let runs = match self.inputs.get(at) {
                    Some(input) if several => {
                        format!("in every run that the trigger `{}` starts", input.trigger)
                    }
                    _ => EVERY_RUN.to_owned(),
                };
                let mut kinds =
                    |root: &str, steps: &[Step]| self.kinds(root, steps, body, Some(at));
                found.push(operation.flaw(&runs, &mut kinds));
            }
        }
        let always = found.iter().all(Option::is_some);
        if always && found.len() > 1 {
            found = vec![operation.flaw(EVERY_RUN, &mut |root, steps| {
                self.kinds(root, steps, body, Some(0))
            })];
        }
        for flaw in found.into_iter().flatten() {
            let found = diagnostic(pointer, &flaw);
            match always {
                true => self.analysis.mistake(found),
                false => self.analysis.warning(found),
            }
        }
    }

    /// A value whose place takes only values of some kinds.
    fn wanted(&mut self, place: &wanted::Place<'_>, constants: &Constants) {
        let Some(text) = place.value.as_str().filter(|text| is_template(text)) else {
            return;
        };
        if let Some(value) = constants.value(text) {
            let refused = value
                .ok()
                .and_then(|value| place.wanted.refusal(text, &value));
            if let Some((code, message, help)) = refused {
                let at = Place::at(place.pointer.as_str());
                self.analysis
                    .mistake(Diagnostic::new(code, message, at).help(help));
            }
            return;
        }
        let Some(result) = result(text).filter(|_| self.budget > 0) else {
            return;
        };
        let inputs: Vec<Option<usize>> = match self.inputs.len() {
            0 => vec![None],
            several => (0..several).map(Some).collect(),
        };
        let mut known = Vec::new();
        for input in inputs {
            known.extend(
                result.knowns(&mut |root, steps| self.kinds(root, steps, place.body, input)),
            );
        }
        if let Some((code, message, help)) = place.wanted.refusal_of_all(text, &known) {
            let at = Place::at(place.pointer.as_str());
            self.analysis
                .mistake(Diagnostic::new(code, message, at).help(help));
        }
    }

    /// Whether paths from this root lead into the input.
    fn is_input(&self, root: &str, body: BodyIx) -> bool {
        let item = || {
            self.items
                .get(&body)
                .is_some_and(|list| &*list.root == "input")
        };
        root == "input" || root == "item" && item()
    }

    /// What the value of a path can be in the runs that one of the triggers starts.
    fn kinds(
        &mut self,
        root: &str,
        steps: &[Step],
        body: BodyIx,
        input: Option<usize>,
    ) -> Vec<Known> {
        let reading = Reading {
            root: root.into(),
            steps: steps.to_vec(),
            guarded: false,
        };
        let reading = self.based(reading, body);
        let found = match &*reading.root {
            "input" => self.kinds_of_input(&reading, input),
            "nodes" if reading.member(1) == Some("output") => {
                let name = reading.member(0).unwrap_or_default();
                let found = self.flat.find(name);
                // The port `error` gives another output.
                let found = found.filter(|(_, node)| !node.node.on_error.has(ErrorEffect::Route));
                match found.and_then(|(at, _)| self.outputs.get(at.at())) {
                    Some(Output::Schema(schema)) => {
                        let schema = *schema;
                        self.kinds_in(schema, &reading, 2)
                    }
                    Some(Output::List) if reading.steps.len() == 2 => Some(vec![Kind::List]),
                    Some(Output::Members(_)) if reading.steps.len() == 2 => {
                        Some(vec![Kind::Object])
                    }
                    _ => None,
                }
            }
            root => match (root, reading.member(0), reading.steps.len()) {
                ("index", None, 0) | ("trigger", Some("attempt"), 1) => Some(vec![Kind::Number]),
                ("run", Some("id"), 1)
                | ("workflow", Some("name"), 1)
                | ("trigger", Some("type"), 1)
                | ("error", Some("class" | "code" | "message"), 1) => Some(vec![Kind::Text]),
                _ => None,
            },
        };
        match found {
            Some(kinds) => kinds.into_iter().map(Known::of_kind).collect(),
            None => vec![Known::Anything],
        }
    }

    /// The kinds of a member of the input that both the trigger and the schema allow. A workflow
    /// whose schema refuses all that a trigger gives has another mistake.
    fn kinds_of_input(&mut self, reading: &Reading, input: Option<usize>) -> Option<Vec<Kind>> {
        let given = input.and_then(|at| {
            let schema = Rc::clone(&self.inputs.get(at)?.schema);
            self.kinds_in(&schema, reading, 0)
        });
        let wanted = self.input;
        let wanted = wanted.and_then(|schema| self.kinds_in(schema, reading, 0));
        let (Some(given), Some(wanted)) = (&given, &wanted) else {
            return given.or(wanted);
        };
        let both = given.iter().filter(|kind| wanted.contains(kind));
        let both: Vec<Kind> = both.copied().collect();
        Some(both).filter(|both| !both.is_empty())
    }

    fn kinds_in(&mut self, schema: &Value, reading: &Reading, skip: usize) -> Option<Vec<Kind>> {
        let mut budget = self.budget.min(ONE_BUDGET);
        let granted = budget;
        let found = members::kinds(schema, &path(reading, skip), &mut budget);
        self.budget -= granted - budget;
        found
    }

    fn variable(&mut self, site: &Site) {
        let Some(name) = site.reading.member(0) else {
            return;
        };
        let full = self.analysis.warnings.len() >= MOST;
        if full || site.reading.guarded || self.set.contains(name) {
            return;
        }
        let message = format!("nothing sets the variable `{name}`, so reading it fails");
        let help = did_you_mean(name, self.set.iter().copied()).unwrap_or_else(|| {
            format!(
                "give it a value in `vars`, or set it in a node; if an event or a consumer brings \
                 it, write `vars.{name} | default(…)`"
            )
        });
        let place = Place::at(site.pointer.as_str());
        let found = Diagnostic::new(codes::NEVER_SET, message, place).help(help);
        self.analysis.warning(found);
    }

    fn order(&mut self, site: &Site) {
        let Some(order) = &self.order else { return };
        let reading = &site.reading;
        // A link is there before its node runs.
        if reading.guarded || reading.member(1) != Some("output") {
            return;
        }
        let Some((x, node)) = reading.member(0).and_then(|name| self.flat.find(name)) else {
            return;
        };
        let Some(moment) = self.moment_in(node.body, site) else {
            return;
        };
        let (y, after) = match moment {
            Moment::Before(y) => (y, false),
            Moment::Failing(y) | Moment::After(y) => (y, true),
            Moment::End => return,
        };
        if self.flat.is_compensating(x) || self.flat.is_compensating(y) || (after && x == y) {
            return;
        }
        let (a, b) = (self.flat.name(x), self.flat.name(y));
        let always = format!("`nodes.{a}.output` is always null here");
        let (message, help) = match order.of_pair(x, y) {
            order::Known::Before | order::Known::Unreached => return,
            order::Known::Chance => {
                let message = format!(
                    "`nodes.{a}.output` may be null here: node `{b}` does not wait for node `{a}`"
                );
                let help = format!(
                    "let the edges lead from `{a}` to `{b}`, or test it: `… if nodes.{a}.output is \
                     not none else …`"
                );
                let place = Place::at(site.pointer.as_str());
                let found = Diagnostic::new(codes::NOT_RUN, message, place).help(help);
                return self.analysis.warning(found);
            }
            order::Known::After => (
                format!("{always}: node `{a}` runs only after node `{b}`"),
                format!("read it in a node after `{a}`, or let `{a}` run before `{b}`"),
            ),
            order::Known::Instead(fork) => (
                format!(
                    "{always}: node `{}` leads either to node `{a}` or to node `{b}`",
                    self.flat.name(fork)
                ),
                format!("read it where `{a}` has run, or test it"),
            ),
            order::Known::Own => (
                format!("{always}: node `{b}` has not run before"),
                "a node has an earlier output of its own only in a loop or with `repeat`"
                    .to_owned(),
            ),
        };
        let place = Place::at(site.pointer.as_str());
        let found = Diagnostic::new(codes::NOT_RUN, message, place).help(help);
        self.analysis.mistake(found);
    }

    /// The moment of a site, as seen from a body around it or its own.
    fn moment_in(&self, body: BodyIx, site: &Site) -> Option<Moment> {
        if site.body == body {
            return Some(site.moment);
        }
        let inside = self
            .flat
            .around(site.body)
            .take_while(|around| *around != body);
        let outermost = inside.last()?;
        let container = self.flat.body(outermost)?.container?;
        let (at, node) = self.flat.find(container)?;
        (node.body == body).then_some(Moment::Before(at))
    }

    fn members(&mut self, site: &Site) {
        // Suggestions compare all members.
        let full = self
            .analysis
            .mistakes
            .len()
            .max(self.analysis.warnings.len())
            >= MOST;
        if full || site.reading.guarded {
            return;
        }
        let reading = self.based(site.reading.clone(), site.body);
        let (shown, skip, found) = match &*reading.root {
            "input" => {
                let Some(schema) = self.input else { return };
                ("input".to_owned(), 0, self.follow(schema, &reading, 0))
            }
            "nodes" if reading.member(1) == Some("output") => {
                let name = reading.member(0).unwrap_or_default();
                let Some((at, node)) = self.flat.find(name) else {
                    return;
                };
                let routes = node.node.on_error.has(ErrorEffect::Route);
                if routes
                    && reading
                        .member(2)
                        .is_some_and(|name| FAILURE.contains(&name))
                {
                    return;
                }
                (
                    format!("nodes.{name}.output"),
                    2,
                    self.of_output(at, &reading),
                )
            }
            _ => return,
        };
        if !matches!(found, Found::Possible) {
            self.report(site, &reading, &shown, skip, found);
        }
    }

    fn of_output(&mut self, at: NodeIx, reading: &Reading) -> Found {
        let first = reading.member(2);
        match self.outputs.get(at.at()) {
            Some(Output::Schema(schema)) => {
                let schema = *schema;
                self.follow(schema, reading, 2)
            }
            Some(Output::Members(names)) => match first {
                Some(name) if !names.contains(&name) => Found::Closed {
                    depth: 0,
                    known: names.iter().map(|name| (*name).to_owned()).collect(),
                },
                _ => Found::Possible,
            },
            Some(Output::List) if first.is_some() => Found::NoMembers {
                depth: 0,
                kind: "a list",
            },
            _ => Found::Possible,
        }
    }

    fn follow(&mut self, schema: &Value, reading: &Reading, skip: usize) -> Found {
        let path = path(reading, skip);
        let mut budget = self.budget.min(ONE_BUDGET);
        let granted = budget;
        let found = members::follow(schema, &path, &mut budget);
        self.budget -= granted - budget;
        found
    }

    fn report(&mut self, site: &Site, reading: &Reading, of: &str, skip: usize, found: Found) {
        let depth = match &found {
            Found::Possible => return,
            Found::Undeclared { depth, .. }
            | Found::Closed { depth, .. }
            | Found::NoMembers { depth, .. } => *depth,
        };
        let mut whole = of.to_owned();
        for step in reading.steps.iter().skip(skip).take(depth) {
            match step {
                Step::Member(name) => whole.push_str(&format!(".{name}")),
                Step::Item => whole.push_str("[…]"),
            }
        }
        let name = reading.member(skip + depth).unwrap_or_default();
        let listed = |known: &[String]| {
            let near = did_you_mean(name, known.iter().map(String::as_str));
            near.or_else(|| (!known.is_empty()).then(|| format!("there are {}", list(known))))
        };
        let (message, help, is_mistake) = match &found {
            Found::Closed { known, .. } => (
                format!("`{whole}` has no member `{name}`"),
                listed(known),
                true,
            ),
            Found::NoMembers { kind, .. } => {
                let help = (*kind == "a list").then(|| {
                    format!(
                        "take an item of it, like `{whole}[0]`, or go through it with a for-each"
                    )
                });
                let step = match name {
                    "" => "no items".to_owned(),
                    name => format!("no member `{name}`"),
                };
                (format!("`{whole}` is {kind} and has {step}"), help, true)
            }
            Found::Undeclared { known, .. } => (
                format!("the schema of `{whole}` declares no member `{name}`"),
                listed(known),
                false,
            ),
            Found::Possible => return,
        };
        let place = Place::at(site.pointer.as_str());
        let mut found = Diagnostic::new(codes::NO_MEMBER, message, place);
        found.help = help;
        match is_mistake {
            true => self.analysis.mistake(found),
            false => self.analysis.warning(found),
        }
    }
}

/// The steps of a reading, without the first ones.
fn path(reading: &Reading, skip: usize) -> Vec<members::Into<'_>> {
    let steps = reading.steps.iter().skip(skip).take(STEPS);
    let steps = steps.map(|step| match step {
        Step::Member(name) => members::Into::Member(name),
        Step::Item => members::Into::Item,
    });
    steps.collect()
}

fn list(names: &[String]) -> String {
    let mut shown: Vec<String> = names
        .iter()
        .take(LISTED)
        .map(|it| format!("`{it}`"))
        .collect();
    if names.len() > LISTED {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}
