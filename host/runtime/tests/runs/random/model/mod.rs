//! An interpreter of workflows, written from `docs/workflow-format.md` and `docs/patterns.md`.
//!
//! The order of parallel branches is not determined, so the interpreter does not choose one. It
//! receives the executions in the order in which they were recorded, and returns the predicted
//! result of each, or that the execution is impossible. If a record fits several open executions,
//! the interpreter follows each of them.

mod joins;
mod lists;
mod mistake;
mod net;
mod spread;
mod step;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::expr::View;
use super::flow::Kind;
pub(crate) use mistake::Mistake;
pub(crate) use net::{At, Net};
pub(crate) use step::{Reported, Seen, Shown};

/// A failure, by class, code and details. The code is empty where the documents do not name it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) class: String,
    pub(crate) code: String,
    /// `null` if there are none.
    pub(crate) details: Value,
}

/// How a run ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) status: &'static str,
    pub(crate) output: Option<Value>,
    pub(crate) fault: Option<Fault>,
}

/// The state of a run at one time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    input: Value,
    scopes: BTreeMap<u32, Scope>,
    open: BTreeMap<u32, Open>,
    /// The holders of critical sections.
    held: BTreeMap<&'static str, u32>,
    numbers: u32,
    steps: u32,
    /// The nodes that can be undone, with their outputs.
    undo: Vec<(At, Value)>,
    /// How the run ends once all of them are undone.
    undoing: Option<End>,
    /// The output of the run from an `end` node.
    output: Option<Value>,
    pub(crate) ended: Option<End>,
    /// Cancelled executions, which have to be recorded as such.
    pub(crate) gone: Vec<Gone>,
    /// Nodes whose failure was not tried again.
    pub(crate) incidents: Vec<(At, Fault)>,
    /// The first numbers of the known node runs.
    bound: BTreeSet<u64>,
    skipped: Vec<At>,
    work: VecDeque<(u32, usize, Option<Value>)>,
    /// Races that were won in this step.
    won: Vec<(u32, At)>,
}

/// The root is number 0.
#[derive(Clone, Debug, Default, PartialEq)]
struct Scope {
    body: usize,
    /// The scope around it, and the for-each.
    around: Option<(u32, u32)>,
    index: usize,
    item: Value,
    vars: BTreeMap<String, Value>,
    latest: BTreeMap<At, Value>,
    joins: BTreeMap<At, joins::Rounds>,
    /// Active loops, with those of their exits that were taken.
    loops: BTreeMap<usize, BTreeSet<usize>>,
    /// The output of the item from an `end` node.
    output: Option<Value>,
}

/// A node run that is not over.
#[derive(Clone, Debug, PartialEq)]
struct Open {
    scope: u32,
    node: At,
    attempt: u32,
    kind: &'static str,
    phase: Phase,
    /// The outputs of the nodes before it, if there are any.
    from: Vec<(At, Value)>,
    round: u32,
    polled: u32,
    /// The number that the records of this node run share, once one is known.
    first: Option<u64>,
    /// The step in which it came to its critical section.
    arrived: u32,
    /// When its wait began.
    since_ms: i64,
    /// The input of a child.
    given: Value,
    /// The result of its wait: a retry does not wait for it again.
    kept: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// It has to be executed.
    Due,
    /// It waits, and is executed again after the wait.
    Waits,
    /// Items of a for-each are in progress: the node itself is not executed.
    Lists(lists::List),
    /// A for-each is executed again, with the outputs of its items.
    Collects(Result<Value, Fault>),
}

/// A cancelled node run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gone {
    pub(crate) node: At,
    pub(crate) attempt: u32,
    pub(crate) first: Option<u64>,
}

impl State {
    /// A run that has just begun.
    pub(crate) fn begin(net: &Net<'_>, input: &Value) -> Self {
        let vars = net.workflow.vars.iter();
        let root = Scope {
            vars: vars
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            ..Scope::default()
        };
        let mut state = Self {
            input: input.clone(),
            scopes: BTreeMap::from([(0, root)]),
            open: BTreeMap::new(),
            held: BTreeMap::new(),
            numbers: 1,
            steps: 0,
            undo: Vec::new(),
            undoing: None,
            output: None,
            ended: None,
            gone: Vec::new(),
            incidents: Vec::new(),
            bound: BTreeSet::new(),
            skipped: Vec::new(),
            work: VecDeque::new(),
            won: Vec::new(),
        };
        for node in net.entries(0) {
            state.open(net, 0, node, "start", Vec::new());
        }
        state.settle(net);
        state
    }

    /// Cancels the run. None: it is over, or is undoing nodes, which cannot be cancelled.
    pub(crate) fn cancelled(&self, net: &Net<'_>) -> Option<Self> {
        if self.ended.is_some() || self.undoing.is_some() {
            return None;
        }
        let mut state = self.clone();
        state.end(net, "cancelled", None);
        state.settle(net);
        Some(state)
    }

    /// The variables of the run.
    pub(crate) fn vars(&self) -> &BTreeMap<String, Value> {
        &self.scope(0).vars
    }

    /// The open executions, for people.
    pub(crate) fn told(&self, net: &Net<'_>) -> Vec<String> {
        let open = self.open.values();
        open.map(|open| {
            let scope = self.scope(open.scope);
            let within = match scope.around {
                Some(_) => format!(" of item {}", scope.index),
                None => String::new(),
            };
            let phase = match &open.phase {
                Phase::Lists(_) => "works on its items",
                Phase::Waits => "waits",
                Phase::Due | Phase::Collects(_) => "is due",
            };
            let (name, attempt) = (net.name(open.node), open.attempt);
            format!("{name}{within}: attempt {attempt} ({}) {phase}", open.kind)
        })
        .collect()
    }

    fn scope(&self, scope: u32) -> &Scope {
        self.scopes.get(&scope).unwrap()
    }

    fn scope_mut(&mut self, scope: u32) -> &mut Scope {
        self.scopes.get_mut(&scope).unwrap()
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// A scope and the scopes around it.
    fn around(&self, scope: u32) -> Vec<u32> {
        let next = |at: &u32| self.scope(*at).around.map(|(around, _)| around);
        std::iter::successors(Some(scope), next).collect()
    }

    /// The values that expressions of a scope see.
    fn view(&self, net: &Net<'_>, scope: u32, attempt: u32) -> View {
        let own = self.scope(scope);
        let mut view = View {
            input: self.input.clone(),
            item: own.item.clone(),
            index: own.index,
            attempt,
            ..View::default()
        };
        for at in self.around(scope).into_iter().rev() {
            let scope = self.scope(at);
            view.vars.extend(scope.vars.clone());
            let latest = scope.latest.iter();
            view.outputs
                .extend(latest.map(|(node, output)| (net.name(*node).to_owned(), output.clone())));
        }
        view
    }

    /// The default input of a node: the outputs before it, or else the item or the input of the
    /// run.
    fn default_input(&self, net: &Net<'_>, open: &Open) -> Value {
        let gathers = net.gathers(open.node);
        if gathers {
            let from = open.from.iter();
            return from
                .map(|(node, output)| (net.name(*node).to_owned(), output.clone()))
                .collect::<serde_json::Map<_, _>>()
                .into();
        }
        if let Some((_, output)) = open.from.first() {
            return output.clone();
        }
        let scope = self.scope(open.scope);
        match scope.around {
            Some(_) => scope.item.clone(),
            None => self.input.clone(),
        }
    }

    /// Opens a node run.
    fn open(
        &mut self,
        net: &Net<'_>,
        scope: u32,
        node: At,
        kind: &'static str,
        from: Vec<(At, Value)>,
    ) {
        let number = self.number();
        self.touch(net, scope, node);
        let open = Open {
            scope,
            node,
            attempt: 1,
            kind,
            phase: Phase::Due,
            from,
            round: 1,
            polled: 0,
            first: None,
            arrived: self.steps,
            since_ms: 0,
            given: Value::Null,
            kept: None,
        };
        self.open.insert(number, open);
    }

    /// Whether a node run can enter its critical section.
    fn is_let_in(&self, net: &Net<'_>, number: u32) -> bool {
        let open = self.open.get(&number).unwrap();
        let Some(key) = net.place(open.node).node.mutex else {
            return true;
        };
        match self.held.get(key) {
            Some(holder) => *holder == number,
            None => {
                let mut others = self.open.values();
                others.all(|other| {
                    let first = match net.makes(Mistake::LastGoesFirst) {
                        true => other.arrived <= open.arrived,
                        false => other.arrived >= open.arrived,
                    };
                    net.place(other.node).node.mutex != Some(key) || first
                })
            }
        }
    }

    /// Ends a node run.
    fn close(&mut self, number: u32) -> Open {
        self.held.retain(|_, holder| *holder != number);
        self.open.remove(&number).unwrap()
    }

    /// Cancels a node run with everything inside it.
    fn cancel(&mut self, net: &Net<'_>, number: u32) {
        let open = self.close(number);
        if let Phase::Lists(list) = &open.phase {
            for scope in list.live.clone() {
                self.close_scope(net, scope);
            }
        }
        self.gone.push(Gone {
            node: open.node,
            attempt: open.attempt,
            first: open.first,
        });
        self.fruitless(net, open.scope, open.node);
    }

    /// Ends the run, or begins to undo its completed nodes.
    fn end(&mut self, net: &Net<'_>, status: &'static str, fault: Option<Fault>) {
        // The outputs of nodes are kept.
        let latest = self.scope(0).latest.clone();
        let open: Vec<u32> = self.open.keys().copied().collect();
        for number in open {
            if self.open.contains_key(&number) {
                self.cancel(net, number);
            }
        }
        self.work.clear();
        self.won.clear();
        self.scopes.retain(|scope, _| *scope == 0);
        let root = self.scope_mut(0);
        root.latest = latest;
        root.joins.clear();
        root.loops.clear();
        let mut end = End {
            status,
            output: None,
            fault,
        };
        if status == "completed" {
            let view = self.view(net, 0, 1);
            let made = match (&self.output, &net.workflow.body.output) {
                (Some(output), _) => Ok(output.clone()),
                (None, Some(template)) => template.value(&view),
                (None, None) => Ok(Value::Null),
            };
            match made {
                Ok(output) => end.output = Some(output),
                Err(_) => {
                    end.status = "faulted";
                    end.fault = Some(Fault::new("invalid", "WL-R081"));
                }
            }
        }
        let keeps = status == "cancelled" && net.makes(Mistake::CancelKeeps);
        if end.status != "completed" && !self.undo.is_empty() && !keeps {
            self.undoing = Some(end);
        } else {
            self.ended = Some(end);
        }
    }

    /// Called when nothing is open any more.
    fn rest(&mut self, net: &Net<'_>) {
        if let Some(end) = self.undoing.clone() {
            let forwards = net.makes(Mistake::UndoesForwards);
            let next = match self.undo.len() {
                0 => None,
                _ if forwards => Some(self.undo.remove(0)),
                _ => self.undo.pop(),
            };
            match next {
                Some((node, output)) => {
                    let undo = net.place(node).node.compensate.clone().unwrap();
                    self.open(net, 0, net.at(&undo), "next", vec![(node, output)]);
                }
                None => self.ended = Some(end),
            }
            return;
        }
        let half = self.half_decided(net, 0);
        if half {
            return self.end(net, "faulted", Some(Fault::new("permanent", "WL-R004")));
        }
        self.end(net, "completed", None);
    }
}

impl Fault {
    pub(crate) fn new(class: &str, code: &str) -> Self {
        Self {
            class: class.to_owned(),
            code: code.to_owned(),
            details: Value::Null,
        }
    }

    pub(crate) fn with(self, details: Value) -> Self {
        Self { details, ..self }
    }

    /// Whether a failure equals this one.
    pub(crate) fn is(&self, found: &Self) -> bool {
        self.class == found.class
            && (self.code.is_empty() || self.code == found.code)
            && super::expr::same(&self.details, &found.details)
    }
}

impl Net<'_> {
    /// Whether a node gets its default input as a map by node.
    fn gathers(&self, at: At) -> bool {
        use super::flow::Join;
        let place = self.place(at);
        let sources: BTreeSet<At> = place
            .into
            .iter()
            .map(|edge| self.link(*edge).from)
            .collect();
        let waits = matches!(
            place.node.join,
            Join::AllActive | Join::All | Join::Count(_)
        );
        waits && sources.len() > 1
    }

    /// Whether a node calls another workflow.
    pub(crate) fn is_call(&self, at: At) -> bool {
        matches!(self.place(at).node.kind, Kind::Call(_))
    }
}
