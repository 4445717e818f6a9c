//! The result of one execution.

use serde_json::{Map, Value, json};

use super::lists::List;
use super::{At, Fault, Mistake, Net, Open, Phase, State};
use crate::random::expr::{ANY, Expr, View, Wrong, holds};
use crate::random::flow::{Kind, OnError, When};

/// The record of an execution.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) node: At,
    /// Identifies the node run.
    pub(crate) first: u64,
    pub(crate) shown: Shown,
    pub(crate) started_ms: i64,
    /// The result of a sub-workflow, if this record received it.
    pub(crate) child: Option<Reported>,
}

/// The predicted parts of a record.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) kind: String,
    pub(crate) attempt: u32,
    pub(crate) status: String,
    pub(crate) output: Option<Value>,
    pub(crate) fault: Option<Fault>,
    /// In order.
    pub(crate) skipped: Vec<At>,
}

/// The reported result of a child.
#[derive(Clone, Debug)]
pub(crate) struct Reported {
    pub(crate) workflow: String,
    pub(crate) input: Value,
    pub(crate) output: Option<Value>,
    pub(crate) fault: Option<Fault>,
}

/// The result of a completed node: its output, its assignments, its ports and, for an `end`,
/// whether it ends the whole run and whether it has an output.
type Came = (
    Value,
    Vec<(String, Value)>,
    Vec<&'static str>,
    Option<(bool, bool)>,
);

/// How an execution ends.
enum Outcome {
    Done {
        output: Value,
        assigned: Vec<(String, Value)>,
        ports: Vec<&'static str>,
        /// For an `end`: whether it ends the whole run, and its output.
        end: Option<(bool, bool)>,
    },
    Failed(Fault),
    Waits(&'static str),
    Again,
    Listed(Vec<Value>),
}

impl Outcome {
    fn done(output: Value) -> Self {
        Self::Done {
            output,
            assigned: Vec::new(),
            ports: vec!["done"],
            end: None,
        }
    }
}

/// An expression of a node failed.
impl From<Wrong> for Outcome {
    fn from(_: Wrong) -> Self {
        Self::Failed(Fault::new("invalid", "WL-R075"))
    }
}

impl State {
    /// The node runs to which a record may belong.
    pub(crate) fn candidates(&self, net: &Net<'_>, seen: &Seen) -> Vec<u32> {
        let open = self.open.iter();
        let fits = |number: u32, open: &Open| {
            let known = match open.first {
                Some(first) => first == seen.first,
                None => !self.bound.contains(&seen.first),
            };
            let due = !matches!(open.phase, Phase::Lists(_));
            open.node == seen.node && known && due && self.is_let_in(net, number)
        };
        open.filter(|(number, open)| fits(**number, open))
            .map(|(number, _)| *number)
            .collect()
    }

    /// Executes a node run. Returns the predicted parts of the record.
    pub(crate) fn execute(
        &mut self,
        net: &Net<'_>,
        number: u32,
        seen: &Seen,
    ) -> Result<Shown, String> {
        self.steps += 1;
        self.skipped.clear();
        self.bound.insert(seen.first);
        let open = self.open.get_mut(&number).unwrap();
        open.first = Some(seen.first);
        let mut open = open.clone();
        let node = net.place(open.node).node;
        if let Some(key) = node.mutex {
            self.held.insert(key, number);
        }
        let mut shown = Shown {
            kind: open.kind.to_owned(),
            attempt: open.attempt,
            status: "completed".to_owned(),
            output: None,
            fault: None,
            skipped: Vec::new(),
        };
        let outcome = self.outcome(net, &mut open, seen)?;
        if let Some(place) = self.open.get_mut(&number) {
            *place = open.clone();
        }
        match outcome {
            Outcome::Waits(kind) => {
                shown.status = "suspended".to_owned();
                self.again(number, kind, Phase::Waits);
            }
            Outcome::Again => {
                shown.status = "suspended".to_owned();
                self.again(number, "loop", Phase::Due);
            }
            Outcome::Listed(items) => {
                shown.status = "suspended".to_owned();
                shown.output = Some(Value::Array(items.clone()));
                self.again(number, "loop", Phase::Lists(List::of(items)));
                self.advance(net, number);
            }
            Outcome::Done {
                output,
                assigned,
                ports,
                end,
            } => self.done(net, number, (output, assigned, ports, end), &mut shown),
            Outcome::Failed(fault) => self.failed(net, number, fault, &mut shown),
        }
        self.settle(net);
        shown.skipped = std::mem::take(&mut self.skipped);
        shown.skipped.sort_unstable();
        Ok(shown)
    }

    /// Continues the node run in its next phase.
    fn again(&mut self, number: u32, kind: &'static str, phase: Phase) {
        let open = self.open.get_mut(&number).unwrap();
        open.kind = kind;
        open.phase = phase;
    }

    fn outcome(&self, net: &Net<'_>, open: &mut Open, seen: &Seen) -> Result<Outcome, String> {
        let node = net.place(open.node).node;
        let view = self.view(net, open.scope, open.attempt);
        if let Phase::Collects(result) = &open.phase {
            return Ok(match result {
                Ok(list) => Outcome::done(list.clone()),
                Err(fault) => Outcome::Failed(fault.clone()),
            });
        }
        let waited = open.phase == Phase::Waits;
        Ok(match &node.kind {
            Kind::Wait { .. } | Kind::Event { .. } | Kind::Call(_) if waited => {
                let outcome = Self::waited(net, open, seen)?;
                let waits = matches!(node.kind, Kind::Event { .. } | Kind::Call(_));
                if let (Outcome::Done { output, .. }, true) = (&outcome, waits) {
                    open.kept = Some(output.clone());
                }
                return Ok(outcome);
            }
            Kind::Event { .. } | Kind::Call(_) if open.kept.is_some() => {
                Outcome::done(open.kept.clone().unwrap_or_default())
            }
            Kind::Wait { .. } => {
                open.since_ms = seen.started_ms;
                Outcome::Waits("timer")
            }
            Kind::Event { matches, .. } => match matches.value(&view) {
                Ok(_) => Outcome::Waits("resume"),
                Err(wrong) => wrong.into(),
            },
            Kind::Call(_) => match self.given(net, open, &view) {
                Ok(given) => {
                    open.given = given;
                    Outcome::Waits("child")
                }
                Err(wrong) => wrong.into(),
            },
            Kind::Set(assigned) => set(assigned, &view),
            Kind::ForEach(each) => match each.list.value(&view) {
                Ok(Value::Array(items)) => Outcome::Listed(items),
                _ => Wrong.into(),
            },
            Kind::End { terminate, output } => {
                let said = output.as_ref().map(|output| output.value(&view));
                match said.transpose() {
                    Ok(said) => Outcome::Done {
                        end: Some((*terminate, said.is_some())),
                        output: said.unwrap_or_default(),
                        assigned: Vec::new(),
                        ports: vec!["done"],
                    },
                    Err(wrong) => wrong.into(),
                }
            }
            Kind::Fail(message, data) => {
                let details = data.as_ref().map(|data| data.value(&view)).transpose();
                match (message.value(&view), details) {
                    (Ok(_), Ok(details)) => {
                        let fault = Fault::new("permanent", "WL-R078");
                        Outcome::Failed(fault.with(details.unwrap_or_default()))
                    }
                    _ => Wrong.into(),
                }
            }
            Kind::Flaky(_) | Kind::Fails(_) | Kind::Poll(_)
                if self.given(net, open, &view).is_err() =>
            {
                Wrong.into()
            }
            Kind::Flaky(until) if open.attempt >= *until => Outcome::done(json!(open.attempt)),
            Kind::Flaky(_) => Outcome::Failed(Fault::new("retryable", "")),
            Kind::Fails(class) => Outcome::Failed(Fault::new(class, "")),
            Kind::Echo | Kind::Port(_) => match self.given(net, open, &view) {
                Ok(output) => Outcome::Done {
                    output,
                    assigned: Vec::new(),
                    ports: match &node.kind {
                        Kind::Port(ports) => ports.clone(),
                        _ => vec!["done"],
                    },
                    end: None,
                },
                Err(wrong) => wrong.into(),
            },
            Kind::Poll(times) if open.polled == *times => Outcome::done(json!(times)),
            Kind::Poll(_) => {
                open.polled += 1;
                Outcome::Again
            }
        })
    }

    /// The result of a node that has waited.
    fn waited(net: &Net<'_>, open: &Open, seen: &Seen) -> Result<Outcome, String> {
        match &net.place(open.node).node.kind {
            Kind::Wait { ms } if seen.started_ms < open.since_ms + ms => {
                let waited = seen.started_ms - open.since_ms;
                Err(format!("it waited for {waited} ms only"))
            }
            Kind::Event {
                answer: Some(answer),
                ..
            } => Ok(Outcome::done(answer.clone())),
            Kind::Event { .. } => Ok(Outcome::Failed(Fault::new("deadline", "WL-R007"))),
            Kind::Call(name) => {
                let Some(child) = &seen.child else {
                    return Err("no sub-workflow has reported".to_owned());
                };
                if child.workflow != *name || !crate::random::expr::same(&open.given, &child.input)
                {
                    let (called, given) = (&child.workflow, &child.input);
                    return Err(format!(
                        "{called} was called on {given} in place of {name} on {}",
                        open.given
                    ));
                }
                Ok(match &child.fault {
                    Some(fault) if !net.makes(Mistake::ChildrenSucceed) => {
                        Outcome::Failed(fault.clone())
                    }
                    _ => Outcome::done(child.output.clone().unwrap_or_default()),
                })
            }
            _ => Ok(Outcome::done(Value::Null)),
        }
    }

    /// The input of a node.
    fn given(&self, net: &Net<'_>, open: &Open, view: &View) -> Result<Value, Wrong> {
        match &net.place(open.node).node.input {
            Some(template) => template.value(view),
            None => Ok(self.default_input(net, open)),
        }
    }

    fn done(
        &mut self,
        net: &Net<'_>,
        number: u32,
        (output, assigned, ports, end): Came,
        shown: &mut Shown,
    ) {
        let open = self.open.get(&number).unwrap().clone();
        let node = net.place(open.node).node;
        let mut view = self.view(net, open.scope, open.attempt);
        view.vars.extend(assigned.iter().cloned());
        view.outputs.insert(node.name.clone(), output.clone());
        let ended = match &node.repeat {
            None => Ok(true),
            Some(repeat) if open.round >= repeat.max + more(net, Mistake::RepeatsMore) => Ok(true),
            Some(repeat) => repeat
                .until
                .as_ref()
                .map_or(Ok(false), |until| holds(until, &view)),
        };
        let taken = match ended {
            Ok(true) => choose(net, open.node, &ports, &view),
            Ok(false) => Ok(Vec::new()),
            Err(wrong) => Err(wrong),
        };
        let Ok(taken) = taken else {
            // A condition could not be evaluated: the node counts as failed.
            return self.failed(net, number, Fault::new("invalid", "WL-R001"), shown);
        };
        shown.output = Some(output.clone());
        let shares = net.makes(Mistake::ItemsShare);
        let scope = self.scope_mut(if shares { 0 } else { open.scope });
        scope.vars.extend(assigned);
        if node.compensate.is_some() && self.undoing.is_none() {
            self.undo.push((open.node, output.clone()));
        }
        if ended == Ok(false) {
            self.scope_mut(open.scope).latest.insert(open.node, output);
            self.again(number, "loop", Phase::Due);
            let open = self.open.get_mut(&number).unwrap();
            (open.round, open.attempt, open.polled) = (open.round + 1, 1, 0);
            open.kept = None;
            return;
        }
        if let Some((terminate, true)) = end {
            match terminate || open.scope == 0 {
                true => self.output = Some(output.clone()),
                false => self.scope_mut(open.scope).output = Some(output.clone()),
            }
        }
        if let Some((true, _)) = end {
            self.close(number);
            self.scope_mut(open.scope).latest.insert(open.node, output);
            return self.end(net, "completed", None);
        }
        self.complete(net, number, &output, &taken);
    }

    /// Ends a node run and takes these of its edges.
    fn complete(&mut self, net: &Net<'_>, number: u32, output: &Value, taken: &[usize]) {
        let open = self.close(number);
        let scope = self.scope_mut(open.scope);
        scope.latest.insert(open.node, output.clone());
        for edge in &net.place(open.node).out {
            let decision = taken.contains(edge).then(|| output.clone());
            self.decide(net, open.scope, *edge, decision);
        }
    }

    fn failed(&mut self, net: &Net<'_>, number: u32, fault: Fault, shown: &mut Shown) {
        let open = self.open.get(&number).unwrap();
        let node = net.place(open.node).node;
        shown.fault = Some(fault.clone());
        let (scope, attempt) = (open.scope, open.attempt);
        let mut view = self.view(net, scope, attempt);
        view.failure = (fault.class.clone(), fault.details.clone());
        // A failure is not tried again if the condition cannot be evaluated.
        let is_true = |when: &Option<Expr>| {
            let held = when.as_ref().map(|when| holds(when, &view));
            held.unwrap_or(Ok(true))
        };
        let again = node.retry.as_ref().is_some_and(|retry| {
            attempt < retry.attempts + more(net, Mistake::RetriesMore)
                && retry.classes.contains(&fault.class.as_str())
                && is_true(&retry.when) == Ok(true)
        });
        let open = self.open.get_mut(&number).unwrap();
        if again {
            shown.status = "waiting-retry".to_owned();
            open.attempt += 1;
            return self.again(number, "retry", Phase::Due);
        }
        shown.status = "failed".to_owned();
        let open = open.clone();
        // The first rule that fits decides, or that cannot be evaluated: then the node fails.
        let mut rules = node
            .on_error
            .iter()
            .map(|(when, effect)| match is_true(when) {
                Ok(true) => Some(*effect),
                Ok(false) => None,
                Err(Wrong) => Some(OnError::Fail),
            });
        let effect = rules.find_map(|effect| effect).unwrap_or(OnError::Fail);
        let (output, port) = match effect {
            OnError::Fail => return self.failed_for_good(net, number, fault),
            OnError::Continue => (Value::Null, "done"),
            OnError::Route => (as_output(&fault), "error"),
        };
        let mut view = self.view(net, open.scope, open.attempt);
        view.outputs.insert(node.name.clone(), output.clone());
        shown.output = Some(output.clone());
        match choose(net, open.node, &[port], &view) {
            Ok(taken) => {
                if !net.makes(Mistake::HandledIsNone) {
                    self.incidents.push((open.node, fault));
                }
                if node.compensate.is_some() && self.undoing.is_none() {
                    self.undo.push((open.node, output.clone()));
                }
                self.complete(net, number, &output, &taken);
            }
            Err(_) => self.failed_for_good(net, number, Fault::new("invalid", "WL-R001")),
        }
    }

    fn failed_for_good(&mut self, net: &Net<'_>, number: u32, fault: Fault) {
        let open = self.close(number);
        self.incidents.push((open.node, fault.clone()));
        if open.scope != 0 {
            self.item_failed(net, open.scope, fault);
        } else if net.workflow.faults && self.undoing.is_none() {
            self.end(net, "faulted", Some(fault));
        } else {
            self.fruitless(net, open.scope, open.node);
        }
    }
}

/// One, if the interpreter makes this mistake.
fn more(net: &Net<'_>, mistake: Mistake) -> u32 {
    u32::from(net.makes(mistake))
}

fn set(assigned: &[(&'static str, crate::random::expr::Template)], view: &View) -> Outcome {
    let mut values = Vec::new();
    for (name, template) in assigned {
        match template.value(view) {
            Ok(value) => values.push(((*name).to_owned(), value)),
            Err(wrong) => return wrong.into(),
        }
    }
    let output: Map<String, Value> = values.iter().cloned().collect();
    Outcome::Done {
        output: output.into(),
        assigned: values,
        ports: vec!["done"],
        end: None,
    }
}

/// A failure as the output of a node that routes failures.
fn as_output(fault: &Fault) -> Value {
    let code = if fault.code.is_empty() {
        ANY
    } else {
        &fault.code
    };
    let details = &fault.details;
    json!({ "error": { "class": fault.class, "code": code, "message": ANY, "details": details } })
}

/// The edges of a node that are taken, given the ports of its outcome.
fn choose(net: &Net<'_>, node: At, ports: &[&str], view: &View) -> Result<Vec<usize>, Wrong> {
    let place = net.place(node);
    let mut taken: Vec<usize> = Vec::new();
    let open = place
        .out
        .iter()
        .filter(|edge| ports.contains(&net.link(**edge).edge.port));
    let open: Vec<usize> = open.copied().collect();
    for &edge in &open {
        let takes = match &net.link(edge).edge.when {
            When::Always => true,
            When::If(condition) => holds(condition, view)?,
            When::Else => false,
        };
        if takes {
            taken.push(edge);
            if place.node.first {
                return Ok(taken);
            }
        }
    }
    for &edge in &open {
        let link = net.link(edge);
        let mut taken_before = taken.iter();
        let others = !net.makes(Mistake::ElseAlways)
            && taken_before.any(|other| net.link(*other).edge.port == link.edge.port);
        if matches!(link.edge.when, When::Else) && !others {
            taken.push(edge);
        }
    }
    Ok(taken)
}
