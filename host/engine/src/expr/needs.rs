//! The values that an expression needs, and the mistakes in it that can be found without values.
//!
//! MiniJinja's own `undeclared_variables` misses some uses, for example the value that is sliced. A
//! missed use would be undefined when the expression runs. So this module walks the syntax tree
//! itself, and requests more than is needed where the tree does not tell.

use std::collections::BTreeSet;
use std::ops::Range;

use minijinja::machinery::ast::{CallArg, Expr, Stmt};
use windlass_model::nearest::{did_you_mean, nearest};
use windlass_model::{Code, Diagnostic, weight};

use super::codes::{SHADOWED_NAME, UNKNOWN_FILTER, UNKNOWN_NAME};
use super::missing::Chain;
use super::{foreign, names};

/// The parts of [`super::Values`] that an expression needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The input of the run.
    pub input: bool,
    /// The current item of a for-each.
    pub item: bool,
    /// The position of that item in its list.
    pub index: bool,
    /// These variables. Some may be undeclared in the workflow: a payload can bring them.
    pub vars: BTreeSet<String>,
    /// Every variable: the expression uses `vars` other than in a plain path.
    pub all_vars: bool,
    /// The outputs of these nodes.
    pub nodes: BTreeSet<String>,
    /// The outputs of every node: the expression uses `nodes` other than in a plain path.
    pub all_nodes: bool,
    /// The links that resume these nodes.
    pub links: BTreeSet<String>,
    /// The identity of the run.
    pub run: bool,
    /// The name of the workflow.
    pub workflow: bool,
    /// The trigger of the step.
    pub trigger: bool,
}

impl Needs {
    /// Adds the needs of another expression.
    pub fn merge(&mut self, other: &Self) {
        self.input |= other.input;
        self.item |= other.item;
        self.index |= other.index;
        self.vars.extend(other.vars.iter().cloned());
        self.all_vars |= other.all_vars;
        self.nodes.extend(other.nodes.iter().cloned());
        self.all_nodes |= other.all_nodes;
        self.links.extend(other.links.iter().cloned());
        self.run |= other.run;
        self.workflow |= other.workflow;
        self.trigger |= other.trigger;
    }

    /// Whether it needs everything that another expression needs.
    pub fn covers(&self, other: &Self) -> bool {
        let all = |own: &BTreeSet<String>, others: &BTreeSet<String>| others.is_subset(own);
        (self.input || !other.input)
            && (self.item || !other.item)
            && (self.index || !other.index)
            && (self.all_vars || !other.all_vars && all(&self.vars, &other.vars))
            && (self.all_nodes || !other.all_nodes && all(&self.nodes, &other.nodes))
            && all(&self.links, &other.links)
            && (self.run || !other.run)
            && (self.workflow || !other.workflow)
            && (self.trigger || !other.trigger)
    }

    /// An estimate of the memory that it takes on the heap, in bytes.
    pub fn weight(&self) -> usize {
        [&self.vars, &self.nodes, &self.links]
            .into_iter()
            .map(weight::names)
            .sum()
    }

    /// Whether no value is needed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A path from a root, like `nodes.sum.output.total`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) root: Box<str>,
    pub(super) rest: Box<[Box<str>]>,
}

/// A mistake found on the way.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) help: Option<String>,
    /// Bytes in the text.
    pub(super) at: Range<usize>,
}

/// The beginning of the message about a name that no expression has.
const UNKNOWN: &str = "there is no `";

/// The name that a diagnostic says no expression has.
pub(crate) fn unknown_name(found: &Diagnostic) -> Option<&str> {
    let name = found.message.strip_prefix(UNKNOWN)?;
    name.split('`')
        .next()
        .filter(|_| found.code == UNKNOWN_NAME)
}

/// What an expression is about, which decides about the names that it sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum About {
    /// A run.
    #[default]
    Run,
    /// A failure in a run.
    Failure,
    /// The cause of a run, before the run.
    Cause(Cause),
    /// A run that is about to begin.
    Start,
}

/// What starts a run, as the expressions of its trigger see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `event`: `name`, `match`, `correlation` and `input` of a stimulus.
    Event,
    /// `request`: a request to a hook.
    Request,
}

impl Cause {
    /// The name that expressions give it.
    pub fn name(self) -> &'static str {
        self.root().0
    }

    fn root(self) -> &'static (&'static str, &'static [&'static str]) {
        match self {
            Self::Event => &names::EVENT,
            Self::Request => &names::REQUEST,
        }
    }
}

/// The findings of a walk over a syntax tree.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) needs: Needs,
    pub(super) paths: Vec<Path>,
    pub(super) chains: Vec<Chain>,
    pub(super) mistakes: Vec<Mistake>,
    /// Names assigned by `set`, `for` and `with`, anywhere in the text.
    pub(super) locals: BTreeSet<String>,
    about: About,
    text: Box<str>,
}

impl Findings {
    pub(super) fn of_expr(text: &str, expr: &Expr<'_>, about: About) -> Self {
        let mut findings = Self {
            about,
            text: text.into(),
            ..Self::default()
        };
        findings.expr(expr);
        findings
    }

    pub(super) fn of_stmt(text: &str, stmt: &Stmt<'_>, about: About) -> Self {
        let mut findings = Self {
            about,
            text: text.into(),
            ..Self::default()
        };
        findings.declare(stmt);
        for name in &findings.locals {
            if findings.roots().any(|(root, _)| *root == name.as_str()) {
                let statement = text.find("{%").unwrap_or_default();
                findings.mistakes.push(Mistake {
                    code: SHADOWED_NAME,
                    message: format!("`{name}` already means something here"),
                    help: Some(format!("choose another name, like `my_{name}`")),
                    at: findings.name_after(statement, name),
                });
            }
        }
        findings.stmt(stmt);
        findings
    }

    fn declare(&mut self, stmt: &Stmt<'_>) {
        match stmt {
            Stmt::ForLoop(s) => {
                self.locals.insert("loop".to_owned());
                self.target(&s.target);
            }
            Stmt::Set(s) => self.target(&s.target),
            Stmt::SetBlock(s) => self.target(&s.target),
            Stmt::WithBlock(s) => s.assignments.iter().for_each(|(to, _)| self.target(to)),
            _ => {}
        }
        for body in bodies(stmt) {
            body.iter().for_each(|inner| self.declare(inner));
        }
    }

    fn target(&mut self, target: &Expr<'_>) {
        match target {
            Expr::Var(var) => {
                self.locals.insert(var.id.to_owned());
            }
            Expr::List(list) => list.items.iter().for_each(|item| self.target(item)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.target(item)),
            // Assigning to a property needs a namespace, and there is none.
            other => self.expr(other),
        }
    }

    fn stmt(&mut self, stmt: &Stmt<'_>) {
        match stmt {
            Stmt::EmitExpr(s) => self.expr(&s.expr),
            Stmt::ForLoop(s) => {
                self.expr(&s.iter);
                s.filter_expr.iter().for_each(|filter| self.expr(filter));
            }
            Stmt::IfCond(s) => self.expr(&s.expr),
            Stmt::WithBlock(s) => s.assignments.iter().for_each(|(_, value)| self.expr(value)),
            Stmt::Set(s) => self.expr(&s.expr),
            Stmt::SetBlock(s) => s.filter.iter().for_each(|filter| self.expr(filter)),
            Stmt::AutoEscape(s) => self.expr(&s.enabled),
            Stmt::FilterBlock(s) => self.expr(&s.filter),
            Stmt::Do(s) => {
                self.expr(&s.call.expr);
                self.args(&s.call.args);
            }
            Stmt::Template(_) | Stmt::EmitRaw(_) => {}
        }
        for body in bodies(stmt) {
            body.iter().for_each(|inner| self.stmt(inner));
        }
    }

    fn expr(&mut self, expr: &Expr<'_>) {
        if let Some((root, rest)) = path(expr) {
            self.path(expr, root, &rest);
            return;
        }
        if let Some(chain) = Chain::of(expr) {
            if !self.locals.contains(chain.root()) {
                self.chains.push(chain);
            }
            self.expr(in_front(expr));
            return;
        }
        match expr {
            // Both are paths, unless their base is another expression.
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::GetAttr(e) => self.expr(&e.expr),
            Expr::GetItem(e) => {
                self.expr(&e.expr);
                self.expr(&e.subscript_expr);
            }
            Expr::Slice(e) => {
                self.expr(&e.expr);
                [&e.start, &e.stop, &e.step]
                    .into_iter()
                    .flatten()
                    .for_each(|e| self.expr(e));
            }
            Expr::UnaryOp(e) => self.expr(&e.expr),
            Expr::BinOp(e) => {
                self.expr(&e.left);
                self.expr(&e.right);
            }
            Expr::Compare(e) => {
                self.expr(&e.expr);
                e.ops.iter().for_each(|op| self.expr(&op.expr));
            }
            Expr::IfExpr(e) => {
                self.expr(&e.test_expr);
                self.expr(&e.true_expr);
                e.false_expr.iter().for_each(|e| self.expr(e));
            }
            Expr::Filter(e) => {
                let behind = e.expr.as_ref().map_or(start(expr), end);
                let at = self.name_after(behind, e.name);
                self.known(Kind::Filter, e.name, at);
                e.expr.iter().for_each(|e| self.expr(e));
                self.args(&e.args);
                self.filter_by_name(e.name, &e.args);
            }
            Expr::Test(e) => {
                let at = self.name_after(end(&e.expr), e.name);
                self.known(Kind::Test, e.name, at);
                self.expr(&e.expr);
                self.args(&e.args);
            }
            Expr::Call(e) => {
                self.callee(&e.expr);
                self.args(&e.args);
            }
            Expr::List(e) => e.items.iter().for_each(|e| self.expr(e)),
            Expr::Tuple(e) => e.items.iter().for_each(|e| self.expr(e)),
            Expr::Map(e) => e.keys.iter().chain(&e.values).for_each(|e| self.expr(e)),
        }
    }

    fn args(&mut self, args: &[CallArg<'_>]) {
        for arg in args {
            match arg {
                CallArg::Pos(e)
                | CallArg::Kwarg(_, e)
                | CallArg::PosSplat(e)
                | CallArg::KwargSplat(e) => self.expr(e),
            }
        }
    }

    /// `map("upper")`, `select("odd")` and `selectattr("n", "odd")` name a filter or a test in a
    /// string.
    fn filter_by_name(&mut self, filter: &str, args: &[CallArg<'_>]) {
        let (kind, at) = match filter {
            "map" => (Kind::Filter, 0),
            "select" | "reject" => (Kind::Test, 0),
            "selectattr" | "rejectattr" => (Kind::Test, 1),
            _ => return,
        };
        if let Some(CallArg::Pos(constant @ Expr::Const(name))) = args.get(at)
            && let Some(name) = name.value.as_str()
        {
            self.known(kind, name, start(constant)..end(constant));
        }
    }

    fn callee(&mut self, callee: &Expr<'_>) {
        match callee {
            Expr::Var(var) if self.locals.contains(var.id) => {}
            Expr::Var(var) => self.known(Kind::Function, var.id, start(callee)..end(callee)),
            Expr::GetAttr(e) => {
                let of_loop = matches!(&e.expr, Expr::Var(var) if var.id == "loop");
                if !of_loop {
                    let help = match names::FILTERS.contains(&e.name) {
                        true => Some(format!("there is a filter: `… | {}`", e.name)),
                        false => foreign::remedy(foreign::FUNCTIONS, e.name).map(str::to_owned),
                    };
                    let help = help.unwrap_or_else(|| {
                        format!(
                            "filters take their place, like `x | upper`: {}",
                            all(names::FILTERS)
                        )
                    });
                    let message = format!("values have no methods, so `.{}()` is none", e.name);
                    let at = self.name_after(end(&e.expr), e.name);
                    self.mistake(UNKNOWN_FILTER, message, Some(help), at);
                }
                // `JSON.stringify(x)` is one mistake.
                let unknown = path(&e.expr).is_some_and(|(root, _)| !self.sees(root));
                if of_loop || !unknown {
                    self.expr(&e.expr);
                }
            }
            other => self.expr(other),
        }
    }

    fn known(&mut self, kind: Kind, name: &str, at: Range<usize>) {
        let (word, known, foreign) = kind.names();
        if known.contains(&name) {
            return;
        }
        let help = foreign::remedy(foreign, name)
            .map(str::to_owned)
            .or_else(|| did_you_mean(name, known.iter().copied()))
            .unwrap_or_else(|| format!("there are {}", all(known)));
        let message = format!("there is no {word} `{name}`");
        self.mistake(UNKNOWN_FILTER, message, Some(help), at);
    }

    fn mistake(&mut self, code: Code, message: String, help: Option<String>, at: Range<usize>) {
        self.mistakes.push(Mistake {
            code,
            message,
            help,
            at,
        });
    }

    /// The place of a name that stands behind an offset. The syntax tree has only the places of
    /// whole expressions.
    fn name_after(&self, offset: usize, name: &str) -> Range<usize> {
        let rest = self.text.get(offset..).unwrap_or_default();
        let at = offset + rest.find(name).unwrap_or_default();
        at..at + name.len()
    }

    /// Whether a path can begin with this name.
    fn sees(&self, root: &str) -> bool {
        self.locals.contains(root) || self.roots().any(|(name, _)| *name == root)
    }

    /// The places of the names of a path.
    fn names_of(&self, path: &Expr<'_>) -> Vec<Range<usize>> {
        let (mut places, mut expr) = (Vec::new(), path);
        loop {
            let (inner, at) = match expr {
                Expr::GetAttr(e) => (&e.expr, self.name_after(end(&e.expr), e.name)),
                Expr::GetItem(e) => (&e.expr, start(&e.subscript_expr)..end(&e.subscript_expr)),
                root => {
                    places.push(start(root)..end(root));
                    places.reverse();
                    return places;
                }
            };
            places.push(at);
            expr = inner;
        }
    }

    fn path(&mut self, expr: &Expr<'_>, root: &str, rest: &[&str]) {
        if self.locals.contains(root) {
            return;
        }
        let Some((_, properties)) = self.roots().find(|(name, _)| *name == root) else {
            let at = self.names_of(expr).into_iter().next().unwrap_or_default();
            self.unknown_root(root, rest.is_empty(), at);
            return;
        };
        let second = |found: &Self| found.names_of(expr).into_iter().nth(1).unwrap_or_default();
        if let Some(name) = rest.first()
            && !properties.is_empty()
            && !properties.contains(name)
        {
            let help = did_you_mean(name, properties.iter().copied())
                .unwrap_or_else(|| format!("`{root}` has {}", all(properties)));
            let message = format!("`{root}` has no `{name}`");
            let at = second(self);
            self.mistake(UNKNOWN_NAME, message, Some(help), at);
        }
        match (root, rest) {
            ("input", _) => self.needs.input = true,
            ("item", _) => self.needs.item = true,
            ("index", _) => self.needs.index = true,
            ("vars", [name, ..]) => drop(self.needs.vars.insert((*name).to_owned())),
            ("vars", []) => self.needs.all_vars = true,
            ("nodes", [name, names::LINK, ..]) => drop(self.needs.links.insert((*name).to_owned())),
            ("nodes", [name, more @ ..]) => {
                self.needs.nodes.insert((*name).to_owned());
                let at = self.names_of(expr).into_iter().nth(2).unwrap_or_default();
                self.node_property(name, more.first().copied(), at);
            }
            ("nodes", []) => self.needs.all_nodes = true,
            (names::RUN, _) => self.needs.run = true,
            ("workflow", _) => self.needs.workflow = true,
            ("trigger", _) => self.needs.trigger = true,
            _ => {}
        }
        let rest = rest.iter().map(|name| Box::from(*name)).collect();
        self.paths.push(Path {
            root: root.into(),
            rest,
        });
    }

    /// The names that the expression sees.
    fn roots(&self) -> impl Iterator<Item = &'static (&'static str, &'static [&'static str])> {
        let (run, further): (&[_], _) = match self.about {
            About::Run => (&names::ROOTS, None),
            About::Failure => (&names::ROOTS, Some(&names::ERROR)),
            About::Cause(cause) => (&[], Some(cause.root())),
            About::Start => (&names::START, None),
        };
        run.iter().chain(further)
    }

    fn node_property(&mut self, node: &str, property: Option<&str>, at: Range<usize>) {
        if let Some(property) = property
            && !names::NODE_PROPERTIES.contains(&property)
        {
            let message = format!("`nodes.{node}` has no `{property}`");
            let help = match property {
                "outputs" | "result" | "results" | "response" | "data" => {
                    format!("write `nodes.{node}.output`")
                }
                property => format!(
                    "the output of the node is `nodes.{node}.output`, a member of it \
                     `nodes.{node}.output.{property}`, and the link that resumes the node \
                     `nodes.{node}.link`"
                ),
            };
            self.mistake(UNKNOWN_NAME, message, Some(help), at);
        }
    }

    fn unknown_root(&mut self, root: &str, alone: bool, at: Range<usize>) {
        if names::FUNCTIONS.contains(&root) {
            let message = format!("`{root}` is a function and no value");
            let help = format!("call it: `{root}(…)`");
            return self.mistake(UNKNOWN_NAME, message, Some(help), at);
        }
        if self.about == About::Start && names::ROOTS.iter().any(|(name, _)| *name == root) {
            let message = format!("there is no `{root}` here");
            let help =
                "tags are made before the run begins: they see `input`, `run` and `workflow`";
            return self.mistake(UNKNOWN_NAME, message, Some(help.to_owned()), at);
        }
        if root == names::ERROR.0 {
            let help = "`error` is there only in the conditions of `retry` and `on-error`";
            let message = "there is no `error` here".to_owned();
            return self.mistake(UNKNOWN_NAME, message, Some(help.to_owned()), at);
        }
        if let Some((name, kind)) = [(Cause::Event, "event"), (Cause::Request, "http")]
            .map(|(cause, kind)| (cause.name(), kind))
            .into_iter()
            .find(|(name, _)| *name == root)
        {
            let help = match self.about {
                About::Cause(cause) => {
                    let seen = cause.name();
                    format!("the `input` of this trigger sees `{seen}`, and nothing else")
                }
                _ => format!(
                    "`{name}` is there only in the `input` of a trigger by `{kind}`; a run has its result as `input`"
                ),
            };
            let message = format!("there is no `{name}` here");
            return self.mistake(UNKNOWN_NAME, message, Some(help), at);
        }
        let roots = || self.roots().map(|(name, _)| *name);
        let known = roots().chain(self.locals.iter().map(String::as_str));
        let help = match (foreign::remedy(foreign::NAMES, root), nearest(root, known)) {
            (Some(remedy), _) => remedy.to_owned(),
            (None, Some(name)) => format!("did you mean `{name}`?"),
            (None, None) => {
                let seen = all(&roots().collect::<Vec<_>>());
                match alone {
                    true => format!(
                        "a text stands in quotes, `'{root}'`, and a variable is `vars.{root}`; an \
                         expression sees {seen}"
                    ),
                    false => format!("an expression sees {seen}"),
                }
            }
        };
        self.mistake(UNKNOWN_NAME, format!("{UNKNOWN}{root}`"), Some(help), at);
    }
}

/// What a name that is followed by arguments can be.
#[derive(Clone, Copy)]
enum Kind {
    Filter,
    Test,
    Function,
}

impl Kind {
    /// The word for it, the names that there are, and the names that other systems have.
    fn names(
        self,
    ) -> (
        &'static str,
        &'static [&'static str],
        &'static [(&'static str, &'static str)],
    ) {
        match self {
            Self::Filter => ("filter", names::FILTERS, foreign::FILTERS),
            Self::Test => ("test", names::TESTS, foreign::TESTS),
            Self::Function => ("function", names::FUNCTIONS, foreign::FUNCTIONS),
        }
    }
}

/// Names as a list in a sentence.
fn all(names: &[&str]) -> String {
    let quoted = names.iter().map(|name| format!("`{name}`"));
    quoted.collect::<Vec<_>>().join(", ")
}

fn start(expr: &Expr<'_>) -> usize {
    expr.span().start_offset as usize
}

fn end(expr: &Expr<'_>) -> usize {
    expr.span().end_offset as usize
}

/// `a.b["c"]` as `a` and `[b, c]`.
pub(super) fn path<'a>(expr: &'a Expr<'_>) -> Option<(&'a str, Vec<&'a str>)> {
    let mut names = Vec::new();
    let mut expr = expr;
    loop {
        match expr {
            Expr::Var(var) => {
                names.reverse();
                return Some((var.id, names));
            }
            Expr::GetAttr(e) => {
                names.push(e.name);
                expr = &e.expr;
            }
            Expr::GetItem(e) => {
                let Expr::Const(name) = &e.subscript_expr else {
                    return None;
                };
                names.push(name.value.as_str()?);
                expr = &e.expr;
            }
            _ => return None,
        }
    }
}

/// The path in front of the first position of a chain.
fn in_front<'e, 's>(expr: &'e Expr<'s>) -> &'e Expr<'s> {
    let mut expr = expr;
    while path(expr).is_none() {
        expr = match expr {
            Expr::GetAttr(e) => &e.expr,
            Expr::GetItem(e) => &e.expr,
            _ => return expr,
        };
    }
    expr
}

/// The statements inside a statement.
pub(super) fn bodies<'a, 's>(stmt: &'a Stmt<'s>) -> [&'a [Stmt<'s>]; 2] {
    match stmt {
        Stmt::Template(s) => [&s.children, &[]],
        Stmt::ForLoop(s) => [&s.body, &s.else_body],
        Stmt::IfCond(s) => [&s.true_body, &s.false_body],
        Stmt::WithBlock(s) => [&s.body, &[]],
        Stmt::SetBlock(s) => [&s.body, &[]],
        Stmt::AutoEscape(s) => [&s.body, &[]],
        Stmt::FilterBlock(s) => [&s.body, &[]],
        Stmt::EmitExpr(_) | Stmt::EmitRaw(_) | Stmt::Set(_) | Stmt::Do(_) => [&[], &[]],
    }
}
