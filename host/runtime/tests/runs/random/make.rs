//! Makes workflows and their inputs from a seed.
//!
//! The behaviour of a generated workflow may depend on the order of its branches, but not on
//! anything else. So nodes of plugins and sub-workflows see only values that do not change while
//! they are called, and an event that is answered is answered as often as its node can wait.

use serde_json::{Value, json};

use super::dice::Dice;
use super::expr::{Expr, Template};
use super::flow::{Body, Each, Edge, Join, Kind, Node, OnError, Repeat, Retry, When, Workflow};
use super::shape;

/// The parts that one seed determines.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) main: Workflow,
    /// Workflows that other workflows call.
    pub(crate) children: Vec<Workflow>,
    pub(crate) input: Value,
    /// Stimuli, as name, match, input, and whether it is sent before the run begins.
    pub(crate) stimuli: Vec<(String, Value, Value, bool)>,
    /// Whether the run is cancelled at some time.
    pub(crate) cancelled: bool,
}

/// How often an event is answered: outside of every for-each, and inside a for-each for each index.
const ANSWERS: (usize, usize) = (4, 30);

/// The limit of items in a list.
const PLACES: usize = 3;

/// A feature of a body that excludes other features.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flavour {
    Plain,
    Loops,
    EachEdge,
    Races,
}

pub(crate) struct Maker {
    seed: u64,
    dice: Dice,
    nodes: usize,
    /// Workflows that may be called.
    children: Vec<String>,
    is_child: bool,
    /// Whether the run is cancelled at some time.
    is_cancelled: bool,
    has_mutex: bool,
    fails: usize,
    undone: Vec<String>,
    flavour: Flavour,
    /// Whether the body may run any number of times.
    often: bool,
    /// The number of for-each nodes around the body.
    depth: usize,
    /// The for-each nodes of the body whose output is never a failure.
    lists: Vec<String>,
    /// Nodes of the body.
    seen: Vec<String>,
}

impl Case {
    /// All workflows of the case.
    pub(crate) fn workflows(&self) -> Vec<&Workflow> {
        self.children.iter().chain([&self.main]).collect()
    }

    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let names: Vec<String> = (0..dice.below(3))
            .map(|at| format!("child_{seed}_{at}"))
            .collect();
        let mut children = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let mut maker = Maker::new(seed, &mut dice, at + 1);
            // A child calls only workflows after it.
            maker.children = names.iter().skip(at + 1).cloned().collect();
            maker.is_child = true;
            children.push(maker.workflow(name.clone()));
            dice = maker.dice;
        }
        let cancelled = dice.percent(12);
        let mut maker = Maker::new(seed, &mut dice, 0);
        maker.children = names;
        maker.is_cancelled = cancelled;
        let main = maker.workflow(format!("random_{seed}"));
        dice = maker.dice;
        let items: Vec<usize> = (0..=dice.below(PLACES)).map(|_| dice.below(9)).collect();
        let input = json!({ "n": dice.below(10), "s": dice.pick(&["", "a", "bc"]), "list": items });
        let stimuli = stimuli(&main, &mut dice);
        Self {
            main,
            children,
            input,
            stimuli,
            cancelled,
        }
    }
}

/// The stimuli for the event nodes of a workflow, as often as the nodes can wait.
fn stimuli(main: &Workflow, dice: &mut Dice) -> Vec<(String, Value, Value, bool)> {
    let mut stimuli = Vec::new();
    for node in main.body.all() {
        let Kind::Event {
            name,
            matches,
            answer: Some(answer),
        } = &node.kind
        else {
            continue;
        };
        let (places, times) = match matches {
            Template::Const(value) => (vec![value.clone()], ANSWERS.0),
            _ => (
                (0..PLACES).map(|at| json!({ "at": at })).collect(),
                ANSWERS.1,
            ),
        };
        for place in places {
            for _ in 0..times {
                stimuli.push((
                    name.clone(),
                    place.clone(),
                    answer.clone(),
                    dice.percent(50),
                ));
            }
        }
    }
    stimuli
}

impl Maker {
    fn new(seed: u64, dice: &mut Dice, no: usize) -> Self {
        Self {
            seed,
            dice: dice.clone(),
            nodes: 100 * no,
            children: Vec::new(),
            is_child: false,
            is_cancelled: false,
            has_mutex: dice.clone().percent(25),
            fails: 0,
            undone: Vec::new(),
            flavour: Flavour::Plain,
            often: false,
            depth: 0,
            lists: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn workflow(&mut self, name: String) -> Workflow {
        self.fails = self.dice.pick(&[0, 30, 60]);
        let undo = if self.dice.percent(35) {
            self.dice.between(1, 2)
        } else {
            0
        };
        self.undone = (0..undo)
            .map(|at| format!("undo_{}_{at}", self.nodes))
            .collect();
        let most = if self.is_child { 4 } else { 9 };
        let mut body = self.body(most);
        let undoes = self.undone.len() > 1 && (self.dice.percent(50) || self.is_cancelled);
        if undoes {
            self.add_undone(&mut body);
        }
        for name in std::mem::take(&mut self.undone) {
            let node = self.undoing(name);
            body.nodes.push(node);
        }
        Workflow {
            name,
            vars: vec![
                ("n0", json!(self.dice.below(5))),
                ("n1", json!(1)),
                ("t0", json!("t")),
                ("l0", json!([])),
                ("o0", json!(null)),
                ("c0", json!(0)),
                ("c1", json!(0)),
            ],
            body,
            faults: undoes || self.dice.percent(60),
            burst: self.dice.percent(60),
        }
    }

    /// Adds two nodes that complete one after the other, and one that fails, or waits until the run
    /// is cancelled: then they are undone.
    fn add_undone(&mut self, body: &mut Body) {
        let is_named = body.nodes.iter().any(|node| node.start);
        let mut before: Option<String> = None;
        for undo in self.undone.clone().into_iter().map(Some).chain([None]) {
            self.nodes += 1;
            let kind = match &undo {
                Some(_) => Kind::Set(vec![self.assigned()]),
                None if self.is_cancelled => Kind::Wait { ms: 10_000 },
                None => Kind::Fails("permanent"),
            };
            let mut node = Node::new(format!("a{:03}", self.nodes), kind);
            node.compensate = undo;
            node.start = is_named && before.is_none();
            body.edges.extend(before.map(|from| Edge {
                from,
                port: "done",
                to: node.name.clone(),
                when: When::Always,
            }));
            before = Some(node.name.clone());
            body.nodes.push(node);
        }
    }

    /// A node that undoes other nodes.
    fn undoing(&mut self, name: String) -> Node {
        let kind = match self.dice.below(5) {
            0 => Kind::Echo,
            1 => Kind::Fails("permanent"),
            2 => Kind::Wait { ms: 1 },
            _ => {
                let entry = Expr::two("+", Expr::var("l0"), Expr::List(vec![Expr::text(&name)]));
                Kind::Set(vec![("l0", Template::One(entry))])
            }
        };
        let mut node = Node::new(name, kind);
        if self.dice.percent(40) {
            node.retry = Some(Retry {
                attempts: 2,
                classes: vec!["permanent"],
                when: None,
            });
        }
        node
    }

    fn body(&mut self, most: usize) -> Body {
        let around = (self.flavour, self.often);
        let (lists, seen) = (
            std::mem::take(&mut self.lists),
            std::mem::take(&mut self.seen),
        );
        self.flavour = self.dice.weighted(&[
            (40, Flavour::Plain),
            (25, Flavour::Loops),
            (12, Flavour::EachEdge),
            (23, Flavour::Races),
        ]);
        self.often |= matches!(self.flavour, Flavour::Loops | Flavour::EachEdge);
        let mut nodes: Vec<Node> = Vec::new();
        let mut edges: Vec<Edge> = Vec::new();
        for at in 0..self.dice.between(1, most) {
            let node = self.node();
            let free: Vec<&Node> = nodes
                .iter()
                .filter(|from| !from.ports().is_empty())
                .collect();
            let apart = at == 0 || free.is_empty() || self.dice.percent(10);
            let many = if apart {
                0
            } else {
                self.dice.between(1, free.len().min(3))
            };
            let mut from: Vec<usize> = (0..many).map(|_| self.dice.below(free.len())).collect();
            from.sort_unstable();
            from.dedup();
            for at in from {
                let before = free.get(at).unwrap();
                let edge = self.edge(before, &node.name);
                edges.push(edge);
            }
            self.note(&node);
            nodes.push(node);
        }
        if self.dice.percent(30) {
            self.shuffle(&mut edges);
        }
        if self.flavour == Flavour::Loops {
            self.add_loops(&mut nodes, &mut edges);
        }
        self.finish(&mut nodes, &mut edges);
        let output = self.output();
        (self.flavour, self.often) = around;
        (self.lists, self.seen) = (lists, seen);
        Body {
            nodes,
            edges,
            output,
        }
    }

    /// Adds the names that later expressions of the body may use.
    fn note(&mut self, node: &Node) {
        if matches!(node.kind, Kind::ForEach(_)) && !node.may(OnError::Route) {
            self.lists.push(node.name.clone());
        }
        self.seen.push(node.name.clone());
    }

    fn shuffle(&mut self, edges: &mut [Edge]) {
        for at in (1..edges.len()).rev() {
            edges.swap(at, self.dice.below(at + 1));
        }
    }

    fn edge(&mut self, from: &Node, to: &str) -> Edge {
        let ports = from.ports();
        let when = if self.dice.percent(40) {
            When::If(self.condition())
        } else {
            When::Always
        };
        // A failed condition behind a failure that is passed on is not tested here.
        let when = match when {
            When::If(_) if from.on_error.is_empty() && self.dice.percent(4) => {
                When::If(Expr::two("<", Expr::Missing, Expr::int(3)))
            }
            other => other,
        };
        Edge {
            from: from.name.clone(),
            port: self.dice.pick(&ports),
            to: to.to_owned(),
            when,
        }
    }

    /// Turns some edges back, each to a node that counts its runs.
    fn add_loops(&mut self, nodes: &mut [Node], edges: &mut Vec<Edge>) {
        for counter in ["c0", "c1"].into_iter().take(self.dice.between(1, 2)) {
            let header = self.dice.below(nodes.len());
            let tail = self.dice.between(header, nodes.len() - 1);
            let mut changed = nodes.to_vec();
            let place = changed.get_mut(header).unwrap();
            let is_header = matches!(&place.kind, Kind::Set(all) if all.iter().any(|(name, _)| name.starts_with('c')));
            if is_header {
                continue;
            }
            let next = Expr::two("+", Expr::var(counter), Expr::int(1));
            let mut counts = Node::new(
                place.name.clone(),
                Kind::Set(vec![(counter, Template::One(next))]),
            );
            counts.compensate.clone_from(&place.compensate);
            *place = counts;
            let mut led: Vec<Edge> = edges.clone();
            for edge in led
                .iter_mut()
                .filter(|edge| edge.from == changed.get(header).unwrap().name)
            {
                edge.port = "done";
            }
            let last = changed.get(tail).unwrap();
            if !last.ports().contains(&"done") {
                continue;
            }
            let again = Expr::two("<", Expr::var(counter), Expr::int(self.small(2, 4)));
            led.push(Edge {
                from: last.name.clone(),
                port: "done",
                to: changed.get(header).unwrap().name.clone(),
                when: When::If(again),
            });
            if let Some(kept) = shape::with_one_entry(&changed, &led, header, tail) {
                nodes.clone_from_slice(&changed);
                *edges = kept;
            }
        }
        // If only a backward edge leads to a node, the body names the node as its start.
        let forward = shape::forward(nodes, edges);
        let begins = |node: &Node| !forward.iter().any(|edge| edge.to == node.name);
        let led_back = |node: &Node| edges.iter().any(|edge| edge.to == node.name);
        if nodes.iter().any(|node| begins(node) && led_back(node)) {
            for node in nodes.iter_mut() {
                node.start = begins(node);
            }
        }
    }

    fn small(&mut self, low: usize, high: usize) -> i64 {
        i64::try_from(self.dice.between(low, high)).unwrap()
    }

    /// Turns the generated parts into a valid workflow.
    fn finish(&mut self, nodes: &mut [Node], edges: &mut Vec<Edge>) {
        // Two edges between the same nodes would need ids.
        let mut known = std::collections::BTreeSet::new();
        edges.retain(|edge| known.insert((edge.from.clone(), edge.port, edge.to.clone())));
        let forward = shape::forward(nodes, edges);
        for node in nodes.iter_mut() {
            let errors = edges
                .iter()
                .any(|edge| edge.from == node.name && edge.port == "error");
            if !errors {
                // A rule that continues stays: edges leave by its port.
                for (_, effect) in &mut node.on_error {
                    if *effect == OnError::Route {
                        *effect = OnError::Fail;
                    }
                }
            }
            let into = forward.iter().filter(|edge| edge.to == node.name).count();
            if into > 1 {
                node.join = self.join(into);
            }
            for port in node.ports() {
                self.put_else(node, port, edges);
            }
            let out = edges.iter().filter(|edge| edge.from == node.name);
            node.first =
                !matches!(node.kind, Kind::Port(_)) && out.count() > 1 && self.dice.percent(20);
        }
    }

    fn put_else(&mut self, node: &Node, port: &str, edges: &mut [Edge]) {
        let mut leaving: Vec<&mut Edge> = edges
            .iter_mut()
            .filter(|edge| edge.from == node.name && edge.port == port)
            .collect();
        let decided = leaving.iter().all(|edge| matches!(edge.when, When::If(_)));
        if decided && leaving.len() > 1 && self.dice.percent(60) {
            // An edge that leads back has to end its loop at some time.
            let forward = leaving.iter_mut().find(|edge| edge.from < edge.to);
            if let Some(edge) = forward {
                edge.when = When::Else;
            }
        }
    }

    fn join(&mut self, into: usize) -> Join {
        let special = match self.flavour {
            Flavour::EachEdge => (50, Join::Each),
            Flavour::Races => (60, Join::Race),
            Flavour::Plain | Flavour::Loops => (0, Join::AllActive),
        };
        let count = Join::Count(self.dice.between(1, into));
        self.dice.weighted(&[
            special,
            (35, Join::AllActive),
            (15, Join::All),
            (15, Join::Any),
            (15, count),
        ])
    }

    fn node(&mut self) -> Node {
        self.nodes += 1;
        let name = format!("a{:03}", self.nodes);
        let kind = self.kind(&name);
        let mut node = Node::new(name, kind);
        let called = matches!(
            node.kind,
            Kind::Echo | Kind::Port(_) | Kind::Call(_) | Kind::Flaky(_)
        );
        if called && self.dice.percent(30) {
            node.input = Some(self.given());
        }
        let ends = matches!(node.kind, Kind::End { .. });
        let passed_on = if self.fails == 0 { 10 } else { 35 };
        if !ends && self.dice.percent(passed_on) {
            node.on_error = self.rules();
        }
        if self.dice.percent(40) {
            let all = ["retryable", "permanent", "invalid", "deadline"];
            let mut classes: Vec<&str> =
                all.into_iter().filter(|_| self.dice.percent(60)).collect();
            if classes.is_empty() {
                classes.push("retryable");
            }
            let when = self.dice.percent(35).then(|| self.about_failure());
            node.retry = Some(Retry {
                attempts: u32::try_from(self.dice.between(1, 3)).unwrap(),
                classes,
                when,
            });
        }
        let repeats = matches!(
            node.kind,
            Kind::Set(_)
                | Kind::Echo
                | Kind::Wait { .. }
                | Kind::Poll(_)
                | Kind::ForEach(_)
                | Kind::Call(_)
        );
        if repeats && self.dice.percent(8) {
            let until = self.dice.percent(50).then(|| self.condition());
            node.repeat = Some(Repeat {
                max: u32::try_from(self.dice.between(1, 3)).unwrap(),
                until,
            });
        }
        if self.has_mutex && !matches!(node.kind, Kind::ForEach(_)) && self.dice.percent(50) {
            node.mutex = Some(self.dice.pick(&["m", "m", "o"]));
        }
        if self.dice.percent(5) {
            node.priority = Some(self.dice.pick(&[-3, 7]));
        }
        if !self.undone.is_empty() && !ends && self.dice.percent(50) {
            node.compensate = Some(self.dice.pick(&self.undone));
        }
        node
    }

    fn kind(&mut self, name: &str) -> Kind {
        let waits = if self.flavour == Flavour::Races {
            25
        } else {
            8
        };
        let events = !self.is_child && !self.often;
        let each = if self.depth < 2 { 14 } else { 0 };
        let calls = if self.children.is_empty() { 0 } else { 12 };
        match self.dice.weighted(&[
            (40, "set"),
            (waits, "wait"),
            (if events && self.depth < 2 { 8 } else { 0 }, "event"),
            (2 + self.fails / 20, "never"),
            (each, "for-each"),
            (calls, "call"),
            (4, "end"),
            (self.fails / 6, "fail"),
            (8, "echo"),
            (self.fails / 8, "flaky"),
            (self.fails / 12, "fails"),
            (7, "port"),
            (3, "poll"),
        ]) {
            "set" => self.set(),
            "wait" => Kind::Wait {
                ms: self.dice.weighted(&[(70, 0), (20, 3), (10, 12), (4, 120)]),
            },
            "event" => self.event(name, true),
            "never" => self.event(name, false),
            "for-each" => self.each(),
            "call" => Kind::Call(self.dice.pick(&self.children)),
            "end" => Kind::End {
                terminate: self.dice.percent(40),
                output: self.dice.percent(60).then(|| self.assigned().1),
            },
            "fail" => {
                let message = Template::Within("no ", self.int(1), " here");
                let data = self.dice.percent(60).then(|| self.details());
                Kind::Fail(message, data)
            }
            "echo" => Kind::Echo,
            "flaky" => Kind::Flaky(u32::try_from(self.dice.between(1, 4)).unwrap()),
            "fails" => Kind::Fails(self.dice.pick(&["retryable", "permanent", "invalid"])),
            "port" => {
                let sets: [&[&str]; 4] =
                    [&["left"], &["left", "right"], &["done"], &["done", "right"]];
                Kind::Port(self.dice.pick(&sets).to_vec())
            }
            _ => Kind::Poll(u32::try_from(self.dice.between(0, 3)).unwrap()),
        }
    }

    /// The effects of failures that are not tried again.
    fn rules(&mut self) -> Vec<(Option<Expr>, OnError)> {
        let effects = [OnError::Continue, OnError::Route, OnError::Fail];
        if self.dice.percent(50) {
            return vec![(None, self.dice.pick(&[OnError::Continue, OnError::Route]))];
        }
        let mut rules = Vec::new();
        for _ in 0..self.dice.between(1, 3) {
            let condition = self.about_failure();
            rules.push((Some(condition), self.dice.pick(&effects)));
        }
        if self.dice.percent(40) {
            rules.push((None, self.dice.pick(&effects)));
        }
        rules
    }

    /// A condition about a failure.
    fn about_failure(&mut self) -> Expr {
        match self.dice.below(12) {
            0 => Expr::MissingDetail,
            1..=3 => {
                let classes = ["retryable", "permanent", "invalid", "deadline"];
                Expr::IsOfClass(self.dice.pick(&classes))
            }
            4..=6 => Expr::DetailIs(self.small(0, 3)),
            7 => Expr::HasDetail,
            8 => Expr::Not(Box::new(Expr::HasDetail)),
            9 => Expr::two("<", Expr::Attempt, Expr::int(2)),
            10 => Expr::two("or", Expr::HasDetail, self.compared()),
            _ => self.condition(),
        }
    }

    /// The data of a `fail` node.
    fn details(&mut self) -> Template {
        match self.dice.below(6) {
            0 => Template::One(self.int(1)),
            1 => Template::Const(Value::Null),
            2 => Template::Map(vec![("other", Template::Const(json!(1)))]),
            _ => Template::Map(vec![("n", Template::One(self.int(0)))]),
        }
    }

    fn set(&mut self) -> Kind {
        let mut assigned = vec![self.assigned()];
        if self.dice.percent(30) {
            let other = self.assigned();
            if assigned.iter().all(|(name, _)| *name != other.0) {
                assigned.push(other);
            }
        }
        if self.depth > 0 && self.dice.percent(70) {
            // The index distinguishes the items of a list.
            assigned.push(("w", Template::One(Expr::Index)));
        }
        Kind::Set(assigned)
    }

    /// A variable and a value of its type.
    fn assigned(&mut self) -> (&'static str, Template) {
        match self.dice.below(8) {
            0 => ("t0", Template::One(self.text())),
            1 => ("t0", Template::Within("<", self.int(1), ">")),
            2 | 3 => {
                let mark = self.dice.pick(&["x", "y", "z"]);
                let entry = Expr::List(vec![Expr::text(mark)]);
                ("l0", Template::One(Expr::two("+", Expr::var("l0"), entry)))
            }
            4 if !self.seen.is_empty() => {
                let node = self.dice.pick(&self.seen);
                ("o0", Template::One(Expr::Output(node)))
            }
            5 => {
                let members = vec![
                    ("a", Template::One(self.int(1))),
                    ("b", Template::One(Expr::var("o0"))),
                ];
                ("o0", Template::Map(members))
            }
            at => {
                let name = if at == 6 { "n0" } else { "n1" };
                let value = self.int(2);
                (name, Template::One(self.unless_early(value)))
            }
        }
    }

    /// In some cases, an expression that fails at the first attempts, or always.
    fn unless_early(&mut self, value: Expr) -> Expr {
        if !self.dice.percent(self.fails / 3) {
            return value;
        }
        let early = Expr::two("<", Expr::Attempt, Expr::int(self.small(2, 5)));
        Expr::when(Expr::Missing, early, value)
    }

    fn int(&mut self, depth: usize) -> Expr {
        let deeper = depth.saturating_sub(1);
        match self.dice.below(if depth == 0 { 5 } else { 11 }) {
            0 => Expr::int(self.small(0, 6)),
            1 => Expr::Input("n"),
            2 => Expr::var("n0"),
            3 => Expr::var("n1"),
            4 if self.depth > 0 => self.dice.pick(&[Expr::Item, Expr::Index]),
            4 => Expr::At(Box::new(Expr::Input("list")), 0),
            5 => Expr::var("l0").filter("length"),
            6 => Expr::Input("list").filter("sum"),
            7 if !self.lists.is_empty() => {
                let list = Expr::Output(self.dice.pick(&self.lists));
                Expr::two("or", list, Expr::List(Vec::new())).filter("length")
            }
            7 | 8 => Expr::two("+", self.int(deeper), self.int(deeper)),
            9 => {
                let product = Expr::two("*", self.int(deeper), self.int(deeper));
                Expr::two("%", product, Expr::int(97))
            }
            _ => {
                let condition = self.condition();
                Expr::when(self.int(deeper), condition, self.int(deeper))
            }
        }
    }

    fn text(&mut self) -> Expr {
        match self.dice.below(4) {
            0 => Expr::text(self.dice.pick(&["p", "q"])),
            1 => Expr::Input("s"),
            2 => Expr::two("~", Expr::var("t0"), Expr::text("u")),
            _ => Expr::two("~", Expr::Input("s"), self.int(1)),
        }
    }

    fn condition(&mut self) -> Expr {
        match self.dice.below(8) {
            0 => {
                let mark = self.dice.pick(&["x", "y", "z"]);
                Expr::two("in", Expr::text(mark), Expr::var("l0"))
            }
            1 if !self.seen.is_empty() => {
                let node = self.dice.pick(&self.seen);
                Expr::IsNone(Box::new(Expr::Output(node)))
            }
            2 => Expr::Not(Box::new(Expr::two("==", Expr::var("t0"), Expr::text("t")))),
            3 => {
                let op = self.dice.pick(&["and", "or"]);
                Expr::two(op, self.compared(), self.compared())
            }
            4 => Expr::two("%", self.int(0), Expr::int(2)),
            _ => self.compared(),
        }
    }

    fn compared(&mut self) -> Expr {
        let op = self.dice.pick(&["<", ">=", "==", "!="]);
        Expr::two(op, self.int(0), Expr::int(self.small(0, 6)))
    }

    /// The input of a plugin node.
    fn given(&mut self) -> Template {
        let mut known = vec![Expr::Input("n"), Expr::int(4)];
        if self.depth > 0 {
            known.extend([Expr::Item, Expr::Index]);
        }
        Template::Map(vec![
            ("n", Template::One(self.dice.pick(&known))),
            ("s", Template::Const(json!("g"))),
            ("list", Template::One(Expr::Input("list"))),
        ])
    }

    fn event(&mut self, name: &str, answered: bool) -> Kind {
        let matches = if self.depth > 0 {
            Template::Map(vec![("at", Template::One(Expr::Index))])
        } else {
            Template::Const(json!(null))
        };
        Kind::Event {
            name: format!("go.{}.{name}", self.seed),
            matches,
            answer: answered.then(|| json!({ "by": self.dice.below(100) })),
        }
    }

    fn each(&mut self) -> Kind {
        let list = match self.dice.below(6) {
            0 => Template::Const(json!([])),
            1 => Template::Const(json!([5, 5])),
            2 => Template::One(Expr::List(vec![self.int(1), self.int(1)])),
            3 => Template::One(self.unless_early(Expr::Input("list"))),
            _ => Template::One(Expr::Input("list")),
        };
        self.depth += 1;
        let most = if self.depth > 1 { 2 } else { 4 };
        let body = self.body(most);
        self.depth -= 1;
        Kind::ForEach(Box::new(Each {
            list,
            concurrency: self.dice.between(1, PLACES),
            lenient: self.dice.percent(40),
            body,
        }))
    }

    fn output(&mut self) -> Option<Template> {
        match self.dice.below(10) {
            0 => None,
            1 if !self.seen.is_empty() => {
                let node = self.dice.pick(&self.seen);
                Some(Template::One(Expr::Output(node)))
            }
            2 if self.fails > 0 && self.dice.percent(30) => Some(Template::One(Expr::Missing)),
            _ => {
                let mut members = vec![
                    ("n0", Template::One(Expr::var("n0"))),
                    ("t0", Template::One(Expr::var("t0"))),
                    ("l0", Template::One(Expr::var("l0"))),
                    ("o0", Template::One(Expr::var("o0"))),
                ];
                if self.depth > 0 {
                    members.push(("item", Template::One(Expr::Item)));
                }
                if let Some(node) = self.seen.last() {
                    members.push(("last", Template::One(Expr::Output(node.clone()))));
                }
                Some(Template::Map(members))
            }
        }
    }
}
