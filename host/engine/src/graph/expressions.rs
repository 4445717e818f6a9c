//! Compiles the expressions of a definition, and reports every mistake in them.

use serde_json::Value;
use windlass_model::definition::{self, NodeKind, UseRef};
use windlass_model::nearest::did_you_mean;
use windlass_model::{Diagnostic, Place};

use super::compile::SUGGESTED;
use super::flat::{Flat, FlatNode};
use super::{BodyIx, ErrorRule, PlanKind, Repeat, When};
use crate::expr::{self, Condition, Needs, Template};

/// The most mistakes in expressions: then further expressions are not looked at.
const MISTAKES: usize = 200;

pub(super) struct Expressions<'a> {
    pub(super) flat: &'a Flat<'a>,
    pub(super) found: Vec<Diagnostic>,
    /// The names that all expressions together use.
    pub(super) needs: Needs,
}

/// The compiled expressions of a node.
pub(super) struct Compiled {
    pub(super) kind: PlanKind,
    pub(super) input: Option<Template>,
    pub(super) repeat: Option<Repeat>,
    pub(super) retry_when: Option<Condition>,
    pub(super) on_error: Vec<ErrorRule>,
}

impl Expressions<'_> {
    /// By node; `None` where the node has a mistake.
    pub(super) fn nodes(&mut self, raw: &dyn Fn(&UseRef) -> Vec<String>) -> Vec<Option<Compiled>> {
        let nodes = &self.flat.nodes;
        let kinds: Vec<_> = nodes.iter().map(|node| self.kind(node, raw)).collect();
        let inputs: Vec<_> = nodes.iter().map(|node| self.input(node)).collect();
        let repeats: Vec<_> = nodes.iter().map(|node| self.repeat(node)).collect();
        let failing: Vec<_> = nodes.iter().map(|node| self.failing(node)).collect();
        let rest = inputs.into_iter().zip(repeats).zip(failing);
        kinds
            .into_iter()
            .zip(rest)
            .map(|(kind, ((input, repeat), (retry_when, on_error)))| {
                Some(Compiled {
                    kind: kind?,
                    input,
                    repeat,
                    retry_when,
                    on_error,
                })
            })
            .collect()
    }

    /// The output template of each body. For a for-each, it is rendered in the scope of an item.
    pub(super) fn outputs(&mut self) -> Vec<Option<Template>> {
        let bodies = (0..).map(BodyIx).zip(&self.flat.bodies);
        bodies
            .map(|(at, body)| self.template(body.output?, &format!("{}/output", body.pointer), at))
            .collect()
    }

    /// The tags of a run.
    pub(super) fn tags(&mut self) -> Option<Template> {
        let tags = self.flat.tags;
        if tags.is_empty() || self.is_full() {
            return None;
        }
        let all = tags
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()));
        match Template::of_tags(&Value::Object(all.collect()), "/tags") {
            Ok(template) => Some(template),
            Err(found) => {
                self.report(found);
                None
            }
        }
    }

    pub(super) fn conditions(&mut self) -> Vec<When> {
        let edges = &self.flat.edges;
        let when = |edge: &super::flat::FlatEdge<'_>| match &edge.edge.when {
            definition::When::Always => When::Always,
            definition::When::Else => When::Else,
            definition::When::If(text) => self
                .condition(text, &edge.pointer, edge.body)
                .map_or(When::Always, When::If),
        };
        edges.iter().map(when).collect()
    }

    fn kind(
        &mut self,
        node: &FlatNode<'_>,
        raw: &dyn Fn(&UseRef) -> Vec<String>,
    ) -> Option<PlanKind> {
        let at = |key: &str| format!("{}/{key}", node.pointer);
        let body = node.body;
        Some(match &node.node.kind {
            NodeKind::Use { node_type, with } => PlanKind::Use {
                node_type: node_type.clone(),
                with: self.template_with(with, &raw(node_type), &at("with"), body)?,
            },
            NodeKind::ForEach(each) => PlanKind::ForEach {
                list: self.template(&each.list, &at("for-each"), body)?,
                concurrency: each.concurrency.max(1),
                on_item_error: each.on_item_error,
                body: self.body_of(node.name)?,
            },
            NodeKind::Workflow { name } => PlanKind::Workflow { name: name.clone() },
            NodeKind::Wait(value) => PlanKind::Wait(self.template(value, &at("wait"), body)?),
            NodeKind::Event {
                name,
                matches,
                correlation,
            } => {
                let name = self.template(name, &at("event"), body);
                let matches = self.template(matches, &at("event/match"), body);
                let correlation = correlation
                    .as_ref()
                    .map(|value| self.template(value, &at("event/correlation"), body));
                PlanKind::Event {
                    name: name?,
                    matches: matches?,
                    correlation: match correlation {
                        Some(compiled) => Some(compiled?),
                        None => None,
                    },
                }
            }
            NodeKind::Fail { message, data } => {
                // A message alone stands directly at the key.
                let place = match data {
                    Some(_) => "fail/message",
                    None => "fail",
                };
                let message = self.template(message, &at(place), body);
                let data = data
                    .as_ref()
                    .map(|data| self.template(data, &at("fail/data"), body));
                PlanKind::Fail {
                    message: message?,
                    data: match data {
                        Some(compiled) => Some(compiled?),
                        None => None,
                    },
                }
            }
            NodeKind::End { terminate, output } => PlanKind::End {
                terminate: *terminate,
                output: match output {
                    Some(value) => Some(self.template(value, &at("end/output"), body)?),
                    None => None,
                },
            },
            NodeKind::Set(vars) => {
                let mut all = Vec::with_capacity(vars.len());
                for (var, value) in vars {
                    // All of them are compiled, so that every mistake is reported.
                    all.push((var, self.template(value, &at(&format!("set/{var}")), body)));
                }
                let all = all
                    .into_iter()
                    .map(|(var, value)| Some((var.clone(), value?)));
                PlanKind::Set(all.collect::<Option<_>>()?)
            }
        })
    }

    fn body_of(&self, name: &str) -> Option<BodyIx> {
        let mut bodies = self.flat.bodies.iter();
        let at = bodies.position(|body| body.container == Some(name))?;
        u32::try_from(at).ok().map(BodyIx)
    }

    fn input(&mut self, node: &FlatNode<'_>) -> Option<Template> {
        let value = node.node.input.as_ref()?;
        self.template(value, &format!("{}/input", node.pointer), node.body)
    }

    fn repeat(&mut self, node: &FlatNode<'_>) -> Option<Repeat> {
        let repeat = node.node.repeat.as_ref()?;
        let pointer = format!("{}/repeat/until", node.pointer);
        let until = repeat.until.as_deref();
        Some(Repeat {
            max: repeat.max,
            every_ms: repeat.every_ms,
            until: until.and_then(|text| self.condition(text, &pointer, node.body)),
        })
    }

    /// The conditions about the failures of a node.
    fn failing(&mut self, node: &FlatNode<'_>) -> (Option<Condition>, Vec<ErrorRule>) {
        let mut compile = |text: &str, place: &str| {
            let pointer = format!("{}/{place}", node.pointer);
            let compiled = Condition::about_failure(text, &pointer);
            self.compiled(compiled, text, &pointer, node.body)
        };
        let retry = node.node.retry.as_ref();
        let when = retry.and_then(|retry| retry.when.as_deref());
        let retry_when = when.and_then(|text| compile(text, "retry/when"));
        let rules = node.node.on_error.rules.iter().enumerate();
        let rules = rules.map(|(at, rule)| ErrorRule {
            when: rule
                .when
                .as_deref()
                .and_then(|text| compile(text, &format!("on-error/{at}/when"))),
            effect: rule.effect,
        });
        (retry_when, rules.collect())
    }

    /// Whether further expressions are not looked at.
    fn is_full(&self) -> bool {
        self.found.len() >= MISTAKES
    }

    fn condition(&mut self, text: &str, pointer: &str, body: BodyIx) -> Option<Condition> {
        if self.is_full() {
            return None;
        }
        self.compiled(Condition::compile(text, pointer), text, pointer, body)
    }

    fn compiled(
        &mut self,
        compiled: Result<Condition, Vec<Diagnostic>>,
        text: &str,
        pointer: &str,
        body: BodyIx,
    ) -> Option<Condition> {
        match compiled {
            Ok(condition) => {
                let place = |root: &str, name: Option<&str>| {
                    expr::place_of(&Value::from(text), true, pointer, root, name)
                };
                self.use_names(condition.needs(), &place, body);
                Some(condition)
            }
            Err(found) => {
                self.report(found);
                None
            }
        }
    }

    /// Reports mistakes. A name that is unknown by itself may be a node's or a variable's.
    fn report(&mut self, found: Vec<Diagnostic>) {
        let flat = self.flat;
        let meant = |it: &Diagnostic| {
            let name = expr::unknown_name(it)?;
            let node = flat.find(name).map(|(_, node)| node.name);
            node.map(|node| format!("the output of node `{node}` is `nodes.{node}.output`"))
        };
        let room = MISTAKES.saturating_sub(self.found.len());
        for mut diagnostic in found.into_iter().take(room) {
            diagnostic.help = meant(&diagnostic).or(diagnostic.help);
            self.found.push(diagnostic);
        }
    }

    fn template(&mut self, value: &Value, pointer: &str, body: BodyIx) -> Option<Template> {
        self.template_with(value, &[], pointer, body)
    }

    fn template_with(
        &mut self,
        value: &Value,
        raw: &[String],
        pointer: &str,
        body: BodyIx,
    ) -> Option<Template> {
        if self.is_full() {
            return None;
        }
        match Template::compile(value, raw, pointer) {
            Ok(template) => {
                let place = |root: &str, name: Option<&str>| {
                    expr::place_of(value, false, pointer, root, name)
                };
                self.use_names(template.needs(), &place, body);
                Some(template)
            }
            Err(found) => {
                self.report(found);
                None
            }
        }
    }

    /// Variables may come with a payload, so a name can be unknown only if it is a node. A body
    /// sees its own nodes and the nodes of the bodies around it.
    fn use_names(
        &mut self,
        needs: &Needs,
        place: &dyn Fn(&str, Option<&str>) -> Place,
        body: BodyIx,
    ) {
        let flat = self.flat;
        let seen = |of: BodyIx| flat.around(body).any(|around| around == of);
        for name in needs.nodes.iter().chain(&needs.links) {
            let found = flat.find(name).map(|(_, node)| node);
            let (message, help) = match found {
                Some(node) if seen(node.body) => continue,
                Some(node) => {
                    let inside = flat.body(node.body).and_then(|body| body.container);
                    let message = format!(
                        "node `{name}` is inside of for-each `{}`, which cannot be seen into",
                        inside.unwrap_or_default()
                    );
                    let help = "hand it out as the `output` of the for-each";
                    (message, Some(help.to_owned()))
                }
                None => {
                    let all = flat.nodes.iter().filter(|node| seen(node.body));
                    let help = match self.found.len() < SUGGESTED {
                        true => did_you_mean(name, all.map(|node| node.name)),
                        false => None,
                    };
                    (format!("there is no node `{name}`"), help)
                }
            };
            let place = place("nodes", Some(name));
            let mut diagnostic = Diagnostic::new(expr::UNKNOWN_NAME, message, place);
            diagnostic.help = help;
            self.found.push(diagnostic);
        }
        for (name, used) in [("item", needs.item), ("index", needs.index)] {
            if used && body == BodyIx::ROOT {
                let message = format!("`{name}` is only there inside of a for-each");
                let help =
                    "the list of a for-each is at its `for-each`, and its `nodes` see the item";
                let unknown = Diagnostic::new(expr::UNKNOWN_NAME, message, place(name, None));
                self.found.push(unknown.help(help));
            }
        }
        self.needs.merge(needs);
    }
}
