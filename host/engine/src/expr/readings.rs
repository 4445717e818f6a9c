//! The values that an expression looks up, with the members that it takes from them.
//!
//! [`super::Needs`] says which values an expression needs. A reading also says how the expression
//! goes on from there, and whether it handles a value that is missing. Expressions that do not
//! compile have no readings: their mistakes are reported where they are compiled. The same walk
//! collects the flaws of expressions and texts.

use std::collections::BTreeSet;

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Stmt, UnaryOpKind};
use serde_json::Value as Json;
use windlass_model::template::is_template;

use super::constants::Constant;
use super::flaws::{self, EVERY_RUN, Flaw, Operation, Plain};
use super::known::{self, Known, Operand};
use super::needs::{self, Cause, bodies};
use super::read;
use super::source::{check_length, single};
use super::template::escaped;

/// One look-up of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reading {
    /// The name that it begins with, like `nodes`.
    pub(crate) root: Box<str>,
    /// The constant steps after it, up to the first that is computed.
    pub(crate) steps: Vec<Step>,
    /// Whether the expression tests the value, or replaces a missing one.
    pub(crate) guarded: bool,
}

/// A step from a value into it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// To the member of this name.
    Member(Box<str>),
    /// To an item of a list, by its position.
    Item,
}

impl Reading {
    /// The name of the member at this step.
    pub(crate) fn member(&self, at: usize) -> Option<&str> {
        match self.steps.get(at)? {
            Step::Member(name) => Some(name),
            Step::Item => None,
        }
    }

    /// Whether a test of `self` also concerns `other`: it is about the same value, a part of it, or
    /// the same variable or node.
    fn covers(&self, other: &Self) -> bool {
        let same_object = matches!(&*self.root, "nodes" | "vars")
            && !self.steps.is_empty()
            && self.steps.first() == other.steps.first();
        self.root == other.root && (same_object || other.steps.starts_with(&self.steps))
    }
}

/// What expressions and texts tell without values, each with the pointer of its text.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) readings: Vec<(String, Reading)>,
    pub(crate) flaws: Vec<(String, Flaw)>,
    /// Operations that may be flaws if more is known about the values of their paths.
    pub(crate) operations: Vec<(String, Operation)>,
    /// Texts without readings and flaws.
    pub(crate) constants: Vec<(String, Constant)>,
}

impl Findings {
    /// Adds the findings of one text. `offset` is where the walked part of it begins.
    fn add(&mut self, pointer: &str, offset: usize, walk: Walk<'_>, bare: bool) {
        let text = walk.text;
        let (readings, flaws, operations) = walk.finish();
        if readings.is_empty() && flaws.is_empty() && (bare || is_template(text)) {
            let constant = Constant {
                text: text.to_owned(),
                bare,
                at: offset..offset.saturating_add(text.len()),
            };
            self.constants.push((pointer.to_owned(), constant));
        }
        let readings = readings.into_iter();
        self.readings
            .extend(readings.map(|it| (pointer.to_owned(), it)));
        self.flaws.extend(flaws.into_iter().map(|mut flaw| {
            flaw.at = flaw.at.start + offset..flaw.at.end + offset;
            (pointer.to_owned(), flaw)
        }));
        self.operations.extend(operations.into_iter().map(|mut it| {
            it.at = it.at.start + offset..it.at.end + offset;
            (pointer.to_owned(), it)
        }));
    }
}

/// Adds the findings of a template at `pointer`. The properties named in `raw` are not read.
pub(crate) fn of_template(value: &Json, raw: &[String], pointer: &str, out: &mut Findings) {
    match value {
        Json::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| !raw.contains(key)) {
                of_template(value, &[], &format!("{pointer}/{}", escaped(key)), out);
            }
        }
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                of_template(item, &[], &format!("{pointer}/{index}"), out);
            }
        }
        Json::String(text) if is_template(text) => of_text(text, pointer, out),
        Json::String(text) => {
            let mut walk = Walk::of(text);
            walk.plain.part(text, 0);
            out.add(pointer, 0, walk, false);
        }
        _ => {}
    }
}

/// The members of the cause of a run that the expressions of a template at `pointer` read without
/// testing them, each with the pointer of its text.
pub fn cause_paths(cause: Cause, value: &Json, pointer: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Findings::default();
    of_template(value, &[], pointer, &mut found);
    let of_cause = found.readings.into_iter();
    let of_cause = of_cause.filter(|(_, it)| *it.root == *cause.name() && !it.guarded);
    let members = |reading: &Reading| {
        let names = reading.steps.iter().map_while(|step| match step {
            Step::Member(name) => Some(name.to_string()),
            Step::Item => None,
        });
        names.collect()
    };
    of_cause
        .map(|(pointer, reading)| (pointer, members(&reading)))
        .collect()
}

/// The findings of a bare expression at `pointer`.
pub(crate) fn of_condition(text: &str, pointer: &str) -> Findings {
    let mut found = Findings::default();
    let trimmed = text.trim();
    if check_length(trimmed, true, "").is_err() {
        return found;
    }
    if let Ok(expr) = read::expression(trimmed) {
        let mut walk = Walk::of(trimmed);
        walk.expr(&expr, false);
        let offset = text.len() - text.trim_start().len();
        found.add(pointer, offset, walk, true);
    }
    found
}

fn of_text(text: &str, pointer: &str, out: &mut Findings) {
    if check_length(text, false, "").is_err() {
        return;
    }
    if let Ok(stmt) = read::text(text) {
        let mut walk = Walk::of(text);
        walk.locals = needs::Findings::of_stmt(text, &stmt, needs::About::Run).locals;
        walk.stmt(&stmt);
        out.add(pointer, 0, walk, false);
    }
}

/// What the result of a text with expressions can be. None: it has mistakes.
pub(crate) fn result(text: &str) -> Option<Operand> {
    check_length(text, false, "").ok()?;
    let trimmed = text.trim();
    let stmt = read::text(trimmed).ok()?;
    match single(&stmt, trimmed) {
        Some((inner, _)) => {
            let expr = read::expression(inner).ok()?;
            Some(Operand::of(&expr, &BTreeSet::new()))
        }
        None => Some(Operand::Known(Known::Text)),
    }
}

/// Tests of the kind of a value.
const KIND_TESTS: [&str; 9] = [
    "boolean", "float", "int", "integer", "iterable", "mapping", "number", "sequence", "string",
];

#[derive(Default)]
struct Walk<'t> {
    text: &'t str,
    readings: Vec<Reading>,
    flaws: Vec<Flaw>,
    operations: Vec<Operation>,
    /// Paths whose kind the text tests.
    tested: Vec<known::Path>,
    plain: Plain,
    locals: BTreeSet<String>,
}

impl<'t> Walk<'t> {
    fn of(text: &'t str) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    fn finish(mut self) -> (Vec<Reading>, Vec<Flaw>, Vec<Operation>) {
        let tested: Vec<Reading> = self
            .readings
            .iter()
            .filter(|it| it.guarded)
            .cloned()
            .collect();
        for reading in self.readings.iter_mut().filter(|it| !it.guarded) {
            reading.guarded = tested.iter().any(|tested| tested.covers(reading));
        }
        let mut seen = BTreeSet::new();
        self.readings.retain(|reading| seen.insert(reading.clone()));
        self.flaws.extend(self.plain.finish());
        for operation in &mut self.operations {
            operation.forget(&self.tested);
        }
        self.operations.retain(Operation::has_path);
        (self.readings, self.flaws, self.operations)
    }

    fn stmt(&mut self, stmt: &Stmt<'_>) {
        match stmt {
            Stmt::EmitExpr(s) => self.expr(&s.expr, false),
            Stmt::ForLoop(s) => {
                self.expr(&s.iter, false);
                s.filter_expr.iter().for_each(|expr| self.expr(expr, false));
            }
            Stmt::IfCond(s) => self.truth(&s.expr),
            Stmt::WithBlock(s) => {
                let values = s.assignments.iter().map(|(_, value)| value);
                values.for_each(|value| self.expr(value, false));
            }
            Stmt::Set(s) => self.expr(&s.expr, false),
            Stmt::SetBlock(s) => s.filter.iter().for_each(|expr| self.expr(expr, false)),
            Stmt::AutoEscape(s) => self.expr(&s.enabled, false),
            Stmt::FilterBlock(s) => self.expr(&s.filter, false),
            Stmt::Do(s) => {
                self.expr(&s.call.expr, false);
                self.args(&s.call.args);
            }
            Stmt::EmitRaw(s) => {
                self.plain.part(s.raw, s.span().start_offset as usize);
            }
            Stmt::Template(_) => {}
        }
        for body in bodies(stmt) {
            body.iter().for_each(|inner| self.stmt(inner));
        }
    }

    /// An expression of which only the truth matters.
    fn truth(&mut self, expr: &Expr<'_>) {
        match expr {
            Expr::UnaryOp(e) if matches!(e.op, UnaryOpKind::Not) => self.truth(&e.expr),
            Expr::BinOp(e) if matches!(e.op, BinOpKind::ScAnd | BinOpKind::ScOr) => {
                self.truth(&e.left);
                self.truth(&e.right);
            }
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => self.expr(expr, true),
            other => self.expr(other, false),
        }
    }

    /// `guarded` tells whether a missing value is handled.
    fn expr(&mut self, expr: &Expr<'_>, guarded: bool) {
        for operation in flaws::operations(self.text, expr, &self.locals) {
            match operation.flaw(EVERY_RUN, &mut |_, _| vec![Known::Anything]) {
                Some(flaw) => self.flaws.push(flaw),
                None if operation.has_path() => self.operations.push(operation),
                None => {}
            }
        }
        match expr {
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => self.path(expr, guarded),
            Expr::Const(_) => {}
            Expr::Slice(e) => {
                self.expr(&e.expr, guarded);
                let bounds = [&e.start, &e.stop, &e.step].into_iter().flatten();
                bounds.for_each(|bound| self.expr(bound, false));
            }
            Expr::UnaryOp(e) if matches!(e.op, UnaryOpKind::Not) => self.truth(&e.expr),
            Expr::UnaryOp(e) => self.expr(&e.expr, guarded),
            Expr::BinOp(e) => {
                let guarded = guarded
                    || matches!(e.op, BinOpKind::Eq | BinOpKind::Ne)
                        && (is_none(&e.left) || is_none(&e.right));
                match e.op {
                    BinOpKind::ScAnd | BinOpKind::ScOr => self.truth(&e.left),
                    _ => self.expr(&e.left, guarded),
                }
                self.expr(&e.right, guarded);
            }
            Expr::Compare(e) => {
                let tested = is_none(&e.expr) || e.ops.iter().any(|op| is_none(&op.expr));
                self.expr(&e.expr, guarded || tested);
                let others = e.ops.iter().map(|op| &op.expr);
                others.for_each(|other| self.expr(other, guarded || tested));
            }
            Expr::IfExpr(e) => {
                self.truth(&e.test_expr);
                self.expr(&e.true_expr, guarded);
                e.false_expr.iter().for_each(|e| self.expr(e, guarded));
            }
            Expr::Filter(e) => {
                let guarded = guarded || matches!(e.name, "default" | "d");
                e.expr.iter().for_each(|e| self.expr(e, guarded));
                self.args(&e.args);
            }
            Expr::Test(e) => {
                if KIND_TESTS.contains(&e.name) {
                    self.tested.extend(known::constant_path(&e.expr));
                }
                self.expr(&e.expr, true);
                self.args(&e.args);
            }
            Expr::Call(e) => {
                // The callee is the name of a function, or a mistake.
                self.args(&e.args);
            }
            Expr::List(e) => e.items.iter().for_each(|e| self.expr(e, guarded)),
            Expr::Tuple(e) => e.items.iter().for_each(|e| self.expr(e, guarded)),
            Expr::Map(e) => {
                let all = e.keys.iter().chain(&e.values);
                all.for_each(|e| self.expr(e, guarded));
            }
        }
    }

    fn args(&mut self, args: &[CallArg<'_>]) {
        for arg in args {
            match arg {
                CallArg::Pos(e)
                | CallArg::Kwarg(_, e)
                | CallArg::PosSplat(e)
                | CallArg::KwargSplat(e) => self.expr(e, false),
            }
        }
    }

    /// A path, as far as its steps are constant.
    fn path(&mut self, expr: &Expr<'_>, guarded: bool) {
        let mut steps: Vec<Step> = Vec::new();
        let mut at = expr;
        loop {
            match at {
                Expr::Var(var) => {
                    if !self.locals.contains(var.id) {
                        steps.reverse();
                        self.readings.push(Reading {
                            root: var.id.into(),
                            steps,
                            guarded,
                        });
                    }
                    return;
                }
                Expr::GetAttr(e) => {
                    steps.push(Step::Member(e.name.into()));
                    at = &e.expr;
                }
                Expr::GetItem(e) => {
                    match &e.subscript_expr {
                        Expr::Const(key) if key.value.as_str().is_some() => {
                            let name = key.value.as_str().unwrap_or_default();
                            steps.push(Step::Member(name.into()));
                        }
                        Expr::Const(_) => steps.push(Step::Item),
                        computed => {
                            // The steps after a computed one lead into an unknown value.
                            steps.clear();
                            self.expr(computed, false);
                        }
                    }
                    at = &e.expr;
                }
                other => return self.expr(other, guarded),
            }
        }
    }
}

fn is_none(expr: &Expr<'_>) -> bool {
    matches!(expr, Expr::Const(it) if it.value.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(found: &Findings) -> Vec<String> {
        let one = |reading: &Reading| {
            let mut text = reading.root.to_string();
            for step in &reading.steps {
                match step {
                    Step::Member(name) => text.push_str(&format!(".{name}")),
                    Step::Item => text.push_str("[]"),
                }
            }
            if reading.guarded {
                text.push('?');
            }
            text
        };
        found.readings.iter().map(|(_, it)| one(it)).collect()
    }

    fn in_text(text: &str) -> Vec<String> {
        let mut found = Findings::default();
        of_text(text, "", &mut found);
        shown(&found)
    }

    #[track_caller]
    fn check(condition: &str, expected: &[&str]) {
        let found = of_condition(condition, "");
        assert_eq!(shown(&found), expected, "{condition}");
        let text = format!("a {{{{ {condition} }}}} b");
        assert_eq!(in_text(&text), expected, "{text}");
    }

    #[test]
    fn readings_have_their_constant_steps() {
        check("input.a['b'][0].c", &["input.a.b[].c"]);
        check("input.a[vars.i].c", &["vars.i", "input.a"]);
        check("(input.a | first).b", &["input.a"]);
        check("range(input.n)", &["input.n"]);
        check("input.n > 1 and item.x", &["input.n", "item.x"]);
    }

    #[test]
    fn a_tested_value_is_guarded_wherever_the_text_reads_it() {
        check("input.a | default(vars.b)", &["input.a?", "vars.b"]);
        check(
            "input.a is defined and input.a.b > 1",
            &["input.a?", "input.a.b?"],
        );
        check("vars.a.b if vars.a else 0", &["vars.a?", "vars.a.b?"]);
        check("nodes.a.output == none", &["nodes.a.output?"]);
        check(
            "nodes.a.output or nodes.b.output",
            &["nodes.a.output?", "nodes.b.output"],
        );
        check("input.a is defined and input.b", &["input.a?", "input.b"]);
    }

    #[test]
    fn locals_are_no_readings_and_broken_text_has_none() {
        let text = "{% for x in input.list %}{{ x.a }}{{ loop.index }}{% endfor %}";
        assert_eq!(in_text(text), ["input.list"]);
        let text = "{% if nodes.a.output %}{{ nodes.a.output.b }}{% endif %}";
        assert_eq!(in_text(text), ["nodes.a.output?", "nodes.a.output.b?"]);
        assert!(in_text("{{ input.a + }}").is_empty());
        assert!(shown(&of_condition("input.a >", "")).is_empty());
    }
}
