//! Workflows in the form in which they are generated and interpreted, and their text.

use serde_json::{Map, Value, json};

use super::expr::{Expr, Template};

#[derive(Clone, Debug)]
pub(crate) struct Workflow {
    pub(crate) name: String,
    pub(crate) vars: Vec<(&'static str, Value)>,
    pub(crate) body: Body,
    /// Whether a failed node ends the run.
    pub(crate) faults: bool,
    /// Whether nodes without effects share a commit.
    pub(crate) burst: bool,
}

/// Nodes that run together in a scope, and the edges between them.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) output: Option<Template>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) input: Option<Template>,
    pub(crate) join: Join,
    pub(crate) start: bool,
    pub(crate) first: bool,
    pub(crate) retry: Option<Retry>,
    /// Rules: the first that fits decides.
    pub(crate) on_error: Vec<(Option<Expr>, OnError)>,
    pub(crate) repeat: Option<Repeat>,
    pub(crate) mutex: Option<&'static str>,
    pub(crate) priority: Option<i32>,
    pub(crate) compensate: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Set(Vec<(&'static str, Template)>),
    Wait {
        ms: i64,
    },
    Event {
        name: String,
        /// Contains the item, if the node is inside a for-each.
        matches: Template,
        /// The payload of the stimulus; none if no stimulus is sent.
        answer: Option<Value>,
    },
    ForEach(Box<Each>),
    Call(String),
    End {
        terminate: bool,
        output: Option<Template>,
    },
    /// The message and the details.
    Fail(Template, Option<Template>),
    Echo,
    /// Fails as `retryable` until this attempt.
    Flaky(u32),
    /// Fails with this class.
    Fails(&'static str),
    /// Sends its input to these ports.
    Port(Vec<&'static str>),
    /// Asks this number of times to be called again.
    Poll(u32),
}

#[derive(Clone, Debug)]
pub(crate) struct Each {
    pub(crate) list: Template,
    pub(crate) concurrency: usize,
    /// Whether a failed item has the output `null`.
    pub(crate) lenient: bool,
    pub(crate) body: Body,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Join {
    AllActive,
    All,
    Any,
    Race,
    Count(usize),
    Each,
}

#[derive(Clone, Debug)]
pub(crate) struct Retry {
    pub(crate) attempts: u32,
    pub(crate) classes: Vec<&'static str>,
    pub(crate) when: Option<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum OnError {
    Fail,
    Continue,
    Route,
}

impl OnError {
    fn word(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Continue => "continue",
            Self::Route => "route",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Repeat {
    pub(crate) max: u32,
    pub(crate) until: Option<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: String,
    pub(crate) port: &'static str,
    pub(crate) to: String,
    pub(crate) when: When,
}

#[derive(Clone, Debug)]
pub(crate) enum When {
    Always,
    If(Expr),
    Else,
}

impl Workflow {
    /// The text of the workflow file.
    pub(crate) fn written(&self) -> String {
        let mut file = Map::new();
        file.insert("workflow".to_owned(), json!(self.name));
        let vars: Map<String, Value> = self
            .vars
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        file.insert("vars".to_owned(), vars.into());
        self.body.write(&mut file);
        let incidents = if self.faults { "fault" } else { "continue" };
        let commit = if self.burst { "burst" } else { "every-node" };
        let options = json!({ "incidents": incidents, "commit": commit });
        file.insert("options".to_owned(), options);
        serde_json::to_string_pretty(&file).unwrap()
    }
}

impl Body {
    fn write(&self, file: &mut Map<String, Value>) {
        let nodes: Map<String, Value> = self
            .nodes
            .iter()
            .map(|node| (node.name.clone(), node.written()))
            .collect();
        file.insert("nodes".to_owned(), nodes.into());
        if !self.edges.is_empty() {
            let edges: Vec<Value> = self.edges.iter().map(Edge::written).collect();
            file.insert("edges".to_owned(), edges.into());
        }
        if let Some(output) = &self.output {
            file.insert("output".to_owned(), output.written());
        }
    }

    /// All nodes, including those in for-each bodies.
    pub(crate) fn all(&self) -> Vec<&Node> {
        let inside = |node| match node {
            &Node {
                kind: Kind::ForEach(ref each),
                ..
            } => each.body.all(),
            _ => Vec::new(),
        };
        let nodes = self.nodes.iter();
        nodes
            .flat_map(|node| std::iter::once(node).chain(inside(node)))
            .collect()
    }
}

impl Node {
    pub(crate) fn new(name: String, kind: Kind) -> Self {
        Self {
            name,
            kind,
            input: None,
            join: Join::AllActive,
            start: false,
            first: false,
            retry: None,
            on_error: Vec::new(),
            repeat: None,
            mutex: None,
            priority: None,
            compensate: None,
        }
    }

    /// The ports by which edges may leave it.
    pub(crate) fn ports(&self) -> Vec<&'static str> {
        let done: &[&str] = match &self.kind {
            Kind::End { .. } => &[],
            Kind::Fail(..) if !self.may(OnError::Continue) => &[],
            Kind::Port(_) => &["done", "left", "right"],
            _ => &["done"],
        };
        let error: &[&str] = if self.may(OnError::Route) {
            &["error"]
        } else {
            &[]
        };
        [done, error].concat()
    }

    /// Whether a rule has this effect.
    pub(crate) fn may(&self, effect: OnError) -> bool {
        self.on_error.iter().any(|(_, has)| *has == effect)
    }

    fn written(&self) -> Value {
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        let with = match &self.kind {
            Kind::Flaky(until) => Some(json!({ "until": until })),
            Kind::Fails(class) => Some(json!({ "class": class, "message": "as it should" })),
            Kind::Port(ports) => Some(json!({ "ports": ports })),
            Kind::Poll(times) => Some(json!({ "times": times, "after-ms": times % 2 })),
            _ => None,
        };
        if let Some(with) = with {
            put("with", with);
        }
        match &self.kind {
            Kind::Set(assigned) => {
                let assigned = assigned.iter();
                let assigned: Map<String, Value> = assigned
                    .map(|(name, value)| ((*name).to_owned(), value.written()))
                    .collect();
                put("set", assigned.into());
            }
            Kind::Wait { ms } => {
                put("wait", json!(format!("{ms}ms")));
            }
            Kind::Event {
                name,
                matches,
                answer,
            } => {
                put("event", json!(name));
                put("match", matches.written());
                if answer.is_none() {
                    put("wait-timeout", json!("5ms"));
                }
            }
            Kind::ForEach(each) => {
                put("for-each", each.list.written());
                put("concurrency", json!(each.concurrency));
                let fails = if each.lenient { "continue" } else { "fail" };
                put("on-item-error", json!(fails));
                each.body.write(&mut map);
            }
            Kind::Call(name) => {
                put("workflow", json!(name));
            }
            Kind::End { terminate, output } => {
                let mut end = Map::new();
                end.insert("terminate".to_owned(), json!(terminate));
                if let Some(output) = output {
                    end.insert("output".to_owned(), output.written());
                }
                put("end", end.into());
            }
            Kind::Fail(message, None) => {
                put("fail", message.written());
            }
            Kind::Fail(message, Some(data)) => {
                let fail = json!({ "message": message.written(), "data": data.written() });
                put("fail", fail);
            }
            Kind::Echo => {
                put("use", json!("echo/echo"));
            }
            Kind::Flaky(_) => {
                put("use", json!("steps/flaky"));
            }
            Kind::Fails(_) => {
                put("use", json!("steps/fail"));
            }
            Kind::Port(_) => {
                put("use", json!("steps/port"));
            }
            Kind::Poll(_) => {
                put("use", json!("steps/poll"));
            }
        }
        self.write_common(&mut map);
        map.into()
    }

    fn write_common(&self, map: &mut Map<String, Value>) {
        let mut put = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        if let Some(input) = &self.input {
            put("input", input.written());
        }
        match self.join {
            Join::AllActive => {}
            Join::All => put("join", json!("all")),
            Join::Any => put("join", json!("any")),
            Join::Race => put("join", json!("race")),
            Join::Count(count) => put("join", json!({ "count": count })),
            Join::Each => put("join", json!("each")),
        }
        if self.start {
            put("start", json!(true));
        }
        if self.first {
            put("first", json!(true));
        }
        if let Some(retry) = &self.retry {
            let mut written = json!({
                "max-attempts": retry.attempts,
                "delay": "1ms",
                "backoff": "fixed",
                "jitter": false,
                "classes": retry.classes,
            });
            if let (Some(when), Some(map)) = (&retry.when, written.as_object_mut()) {
                map.insert("when".to_owned(), json!(when.written()));
            }
            put("retry", written);
        }
        match self.on_error.as_slice() {
            [] => {}
            [(None, effect)] => put("on-error", json!(effect.word())),
            rules => {
                let rules = rules.iter().map(|(when, effect)| match when {
                    Some(when) => json!({ "when": when.written(), "do": effect.word() }),
                    None => json!(effect.word()),
                });
                put("on-error", rules.collect());
            }
        }
        if let Some(repeat) = &self.repeat {
            let mut written = json!({ "max": repeat.max });
            if let (Some(until), Some(map)) = (&repeat.until, written.as_object_mut()) {
                map.insert("until".to_owned(), json!(until.written()));
            }
            put("repeat", written);
        }
        if let Some(mutex) = self.mutex {
            put("mutex", json!(mutex));
        }
        if let Some(priority) = self.priority {
            put("priority", json!(priority));
        }
        if let Some(undo) = &self.compensate {
            put("compensate", json!(undo));
        }
    }
}

impl Edge {
    fn written(&self) -> Value {
        let from = match self.port {
            "done" => self.from.clone(),
            port => format!("{}.{port}", self.from),
        };
        let ends = format!("{from} -> {}", self.to);
        match &self.when {
            When::Always => json!(ends),
            When::Else => json!({ ends: "else" }),
            When::If(condition) => json!({
                "from": self.from,
                "port": self.port,
                "to": self.to,
                "when": condition.written(),
            }),
        }
    }
}
