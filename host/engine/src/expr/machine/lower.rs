//! Converts the syntax tree of MiniJinja into a `Tree`. Nothing is computed here; only literals
//! become values.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::Value;
use minijinja::machinery::ast::{self, BinOpKind, CallArg, UnaryOpKind};
use windlass_model::decimal::Decimal;

use super::super::flaws::span_of;
use super::super::source::shorten;
use super::checks::Check;
use super::filters::Filter;
use super::number;
use super::object::{Dict, Items, Kind, depth_of, may_collide};
use super::ops;
use super::tree::{Arg, Expr, For, IfExpr, LOOP, Name, Root, Step, Stmt, Target, Tree, Unary};

impl Tree {
    /// Converts a bare expression.
    pub(in crate::expr) fn of_expr(text: &str, expr: &ast::Expr<'_>) -> Self {
        let mut lower = Lower::new(text, BTreeSet::new());
        let root = Root::Expression(lower.expr(expr));
        lower.finish(root)
    }

    /// Converts a text. `locals` are the names that the text can assign.
    pub(in crate::expr) fn of_text(
        text: &str,
        stmt: &ast::Stmt<'_>,
        locals: &BTreeSet<String>,
    ) -> Self {
        let mut lower = Lower::new(text, locals.iter().map(String::as_str).collect());
        let stmts = match stmt {
            ast::Stmt::Template(template) => lower.body(&template.children),
            other => lower.body(std::slice::from_ref(other)),
        };
        lower.finish(Root::Text(stmts))
    }
}

struct Lower<'a> {
    /// The parsed text, in which the spans are.
    text: &'a str,
    names: Vec<Box<str>>,
    known: BTreeMap<Box<str>, Name>,
    locals: BTreeSet<&'a str>,
    loops: u32,
}

impl<'a> Lower<'a> {
    fn new(text: &'a str, locals: BTreeSet<&'a str>) -> Self {
        let mut lower = Self {
            text,
            names: Vec::new(),
            known: BTreeMap::new(),
            locals,
            loops: 0,
        };
        // The name with the number 0 is `loop`.
        let _: Name = lower.name("loop");
        lower
    }

    fn finish(self, root: Root) -> Tree {
        let names = self.names.into();
        Tree { root, names }
    }

    fn name(&mut self, name: &str) -> Name {
        if let Some(number) = self.known.get(name) {
            return *number;
        }
        let number = Name::try_from(self.names.len()).unwrap_or(Name::MAX);
        self.names.push(name.into());
        self.known.insert(name.into(), number);
        number
    }

    fn body(&mut self, stmts: &[ast::Stmt<'_>]) -> Box<[Stmt]> {
        stmts.iter().map(|stmt| self.stmt(stmt)).collect()
    }

    fn stmt(&mut self, stmt: &ast::Stmt<'_>) -> Stmt {
        match stmt {
            // The parser does not nest templates.
            ast::Stmt::Template(s) => {
                let body = self.body(&s.children);
                Stmt::With(Box::default(), body)
            }
            ast::Stmt::EmitRaw(s) => Stmt::Raw(s.raw.into()),
            ast::Stmt::EmitExpr(s) => self.emit(&s.expr),
            ast::Stmt::ForLoop(s) => self.for_loop(s),
            ast::Stmt::IfCond(s) => self.if_cond(s),
            ast::Stmt::WithBlock(s) => {
                let pairs = s.assignments.iter();
                let pairs = pairs
                    .map(|(target, value)| (self.target(target), self.expr(value)))
                    .collect();
                Stmt::With(pairs, self.body(&s.body))
            }
            ast::Stmt::Set(s) => Stmt::Set(self.target(&s.target), self.expr(&s.expr)),
            ast::Stmt::SetBlock(s) => {
                let filter = s.filter.as_ref().map(|filter| self.expr(filter));
                Stmt::SetBlock(self.target(&s.target), filter, self.body(&s.body))
            }
            ast::Stmt::AutoEscape(s) => Stmt::AutoEscape(self.expr(&s.enabled), self.body(&s.body)),
            ast::Stmt::FilterBlock(s) => {
                Stmt::FilterBlock(self.expr(&s.filter), self.body(&s.body))
            }
            ast::Stmt::Do(s) => Stmt::Do(self.call(&s.call)),
        }
    }

    fn emit(&mut self, expr: &ast::Expr<'_>) -> Stmt {
        if let ast::Expr::Call(call) = expr
            && let ast::Expr::Var(var) = &call.expr
            && var.id == "loop"
            && let [arg] = call.args.as_slice()
        {
            return Stmt::Recurse(self.arg(arg));
        }
        Stmt::Emit(self.expr(expr))
    }

    fn for_loop(&mut self, s: &ast::ForLoop<'_>) -> Stmt {
        let id = self.loops;
        self.loops = self.loops.saturating_add(1);
        Stmt::For(Box::new(For {
            id,
            target: self.target(&s.target),
            over: self.expr(&s.iter),
            filter: s.filter_expr.as_ref().map(|filter| self.expr(filter)),
            recursive: s.recursive,
            body: self.body(&s.body),
            otherwise: self.body(&s.else_body),
        }))
    }

    /// The parser gives `elif` as a statement inside `else`.
    fn if_cond(&mut self, s: &ast::IfCond<'_>) -> Stmt {
        let mut branches = Vec::new();
        let mut next = s;
        loop {
            let condition = self.expr(&next.expr);
            branches.push((Some(condition), self.body(&next.true_body)));
            match next.false_body.as_slice() {
                [] => break,
                [ast::Stmt::IfCond(inner)] => next = inner,
                other => {
                    branches.push((None, self.body(other)));
                    break;
                }
            }
        }
        Stmt::If(branches.into())
    }

    fn target(&mut self, target: &ast::Expr<'_>) -> Target {
        match target {
            ast::Expr::Var(var) => Target::Name(self.name(var.id)),
            ast::Expr::List(list) => {
                Target::Unpack(list.items.iter().map(|item| self.target(item)).collect())
            }
            ast::Expr::GetAttr(attr) => Target::Attr(self.expr(&attr.expr)),
            other => Target::Attr(self.expr(other)),
        }
    }

    fn expr(&mut self, expr: &ast::Expr<'_>) -> Expr {
        if let Some((root, rest)) = super::super::needs::path(expr)
            && !self.locals.contains(root)
            && root != "loop"
        {
            let rest = rest.into_iter().map(Box::from).collect();
            return Expr::Path(self.name(root), rest);
        }
        match expr {
            ast::Expr::Var(e) => Expr::Name(self.name(e.id)),
            ast::Expr::Const(e) => Expr::Const(self.constant(e, expr)),
            ast::Expr::List(e) => {
                let items: Box<[Expr]> = e.items.iter().map(|item| self.expr(item)).collect();
                literal(Kind::List, &items).unwrap_or(Expr::List(items))
            }
            ast::Expr::Tuple(e) => {
                let items: Box<[Expr]> = e.items.iter().map(|item| self.expr(item)).collect();
                literal(Kind::Tuple, &items).unwrap_or(Expr::Tuple(items))
            }
            ast::Expr::Map(e) => {
                let pairs = e.keys.iter().zip(&e.values);
                let pairs: Box<[_]> = pairs
                    .map(|(key, value)| (self.expr(key), self.expr(value)))
                    .collect();
                literal_map(&pairs).unwrap_or(Expr::Map(pairs))
            }
            ast::Expr::UnaryOp(_) => self.unary(expr),
            ast::Expr::IfExpr(e) => self.if_expr(e),
            ast::Expr::Call(e) if matches!(e.expr, ast::Expr::Var(_)) => self.call(e),
            _ => self.chain(expr),
        }
    }

    /// The text of an expression, for people.
    fn written(&self, expr: &ast::Expr<'_>) -> Box<str> {
        let span = span_of(self.text, expr);
        shorten(self.text.get(span).unwrap_or_default()).into()
    }

    /// A literal. MiniJinja rounds numbers with a point or an exponent to floats.
    fn constant(&self, constant: &ast::Const, expr: &ast::Expr<'_>) -> Value {
        let value = &constant.value;
        if !value.is_number() || value.is_integer() {
            return value.clone();
        }
        let span = expr.span();
        let span = span.start_offset as usize..span.end_offset as usize;
        let text = self.text.get(span).unwrap_or_default().replace('_', "");
        match Decimal::read(&text) {
            Some(_) => number::read(&text),
            None => value.clone(),
        }
    }

    fn unary(&mut self, expr: &ast::Expr<'_>) -> Expr {
        let mut ops = Vec::new();
        let mut inner = expr;
        while let ast::Expr::UnaryOp(e) = inner {
            ops.push(match e.op {
                UnaryOpKind::Not => Unary::Not,
                UnaryOpKind::Neg => Unary::Neg,
            });
            inner = &e.expr;
        }
        let inner = self.expr(inner);
        if let ([Unary::Neg], Expr::Const(value)) = (ops.as_slice(), &inner)
            && let Ok(negated) = ops::neg(value)
        {
            return Expr::Const(negated);
        }
        Expr::Unary(ops.into(), Box::new(inner))
    }

    /// `a if b else c if d else e`
    fn if_expr(&mut self, e: &ast::IfExpr<'_>) -> Expr {
        let mut branches = Vec::new();
        let mut next = e;
        let otherwise = loop {
            branches.push((self.expr(&next.test_expr), self.expr(&next.true_expr)));
            match &next.false_expr {
                None => break None,
                Some(ast::Expr::IfExpr(inner)) => next = inner,
                Some(other) => break Some(self.expr(other)),
            }
        };
        let branches = branches.into();
        Expr::If(Box::new(IfExpr {
            branches,
            otherwise,
        }))
    }

    /// An expression whose first operand is on its left.
    fn chain(&mut self, expr: &ast::Expr<'_>) -> Expr {
        let mut steps = Vec::new();
        let mut expr = expr;
        let base = loop {
            if let Some((root, _)) = super::super::needs::path(expr)
                && !self.locals.contains(root)
                && root != "loop"
            {
                break self.expr(expr);
            }
            let (left, step) = match expr {
                ast::Expr::GetAttr(e) => (&e.expr, Step::Attr(e.name.into())),
                ast::Expr::GetItem(e) => (&e.expr, Step::Item(self.expr(&e.subscript_expr))),
                ast::Expr::Slice(e) => {
                    let mut bound = |e: &Option<ast::Expr<'_>>| e.as_ref().map(|e| self.expr(e));
                    let bounds = [bound(&e.start), bound(&e.stop), bound(&e.step)];
                    (&e.expr, Step::Slice(Box::new(bounds)))
                }
                ast::Expr::BinOp(e) => {
                    let right = self.expr(&e.right);
                    let step = match e.op {
                        BinOpKind::ScAnd => Step::And(right),
                        BinOpKind::ScOr => Step::Or(right),
                        BinOpKind::Lt | BinOpKind::Lte | BinOpKind::Gt | BinOpKind::Gte => {
                            let places = [&e.left, &e.right].map(|expr| self.written(expr));
                            Step::Order(e.op, right, Box::new(places))
                        }
                        op => Step::Binary(op, right),
                    };
                    (&e.left, step)
                }
                ast::Expr::Compare(e) => {
                    let operands = std::iter::once(&e.expr).chain(e.ops.iter().map(|op| &op.expr));
                    let places = operands.map(|expr| self.written(expr)).collect();
                    let ops = e.ops.iter().map(|op| (op.op, self.expr(&op.expr)));
                    (&e.expr, Step::Compare(ops.collect(), places))
                }
                ast::Expr::Filter(e) => {
                    let args = self.args(&e.args);
                    let step = Step::Filter(Filter::named(e.name), args);
                    match &e.expr {
                        Some(inner) => (inner, step),
                        None => {
                            steps.push(step);
                            break Expr::Captured;
                        }
                    }
                }
                ast::Expr::Test(e) => {
                    let args = self.args(&e.args);
                    let check = Check::named(e.name);
                    let step = match e.args.as_slice() {
                        [CallArg::Pos(other)] if Check::is_ordering(e.name) => {
                            let places = [&e.expr, other].map(|expr| self.written(expr));
                            Step::TestOrder(check, args, e.name.into(), Box::new(places))
                        }
                        _ => Step::Test(check, args),
                    };
                    (&e.expr, step)
                }
                ast::Expr::Call(e) => match &e.expr {
                    ast::Expr::Var(_) => break self.call(e),
                    ast::Expr::GetAttr(attr) => {
                        let step = Step::Method(attr.name.into(), self.args(&e.args));
                        (&attr.expr, step)
                    }
                    other => (other, Step::CallValue(self.args(&e.args))),
                },
                // The parser gives `x not in y` and `x is not y` as a `not` around the rest.
                ast::Expr::UnaryOp(e) if matches!(e.op, UnaryOpKind::Not) && !steps.is_empty() => {
                    (&e.expr, Step::Not)
                }
                other => break self.expr(other),
            };
            steps.push(step);
            expr = left;
        };
        steps.reverse();
        if steps.is_empty() {
            return base;
        }
        Expr::Chain(Box::new((base, steps.into())))
    }

    fn call(&mut self, e: &ast::Call<'_>) -> Expr {
        match &e.expr {
            ast::Expr::Var(var) => {
                let name = if var.id == "loop" {
                    LOOP
                } else {
                    self.name(var.id)
                };
                Expr::Call(name, self.args(&e.args))
            }
            ast::Expr::GetAttr(attr) => {
                let base = self.expr(&attr.expr);
                let step = Step::Method(attr.name.into(), self.args(&e.args));
                Expr::Chain(Box::new((base, Box::new([step]))))
            }
            other => {
                let base = self.expr(other);
                let step = Step::CallValue(self.args(&e.args));
                Expr::Chain(Box::new((base, Box::new([step]))))
            }
        }
    }

    fn args(&mut self, args: &[CallArg<'_>]) -> Box<[Arg]> {
        args.iter().map(|arg| self.arg(arg)).collect()
    }

    fn arg(&mut self, arg: &CallArg<'_>) -> Arg {
        match arg {
            CallArg::Pos(e) => Arg::Plain(self.expr(e)),
            CallArg::Kwarg(name, e) => Arg::Named((*name).into(), self.expr(e)),
            CallArg::PosSplat(e) => Arg::Splat(self.expr(e)),
            CallArg::KwargSplat(e) => Arg::NamedSplat(self.expr(e)),
        }
    }
}

/// A list of literals becomes one value. Its length is that of its source text.
fn literal(kind: Kind, items: &[Expr]) -> Option<Expr> {
    let values = items.iter().map(|item| match item {
        Expr::Const(value) => Some(value.clone()),
        _ => None,
    });
    let values = values.collect::<Option<Vec<_>>>()?;
    let depth = values.iter().map(depth_of).max().unwrap_or_default();
    let list = Items::new(kind, values, depth);
    Some(Expr::Const(Value::from_object(list)))
}

fn literal_map(pairs: &[(Expr, Expr)]) -> Option<Expr> {
    let pairs = pairs.iter().map(|pair| match pair {
        (Expr::Const(key), Expr::Const(value)) if !may_collide(key) => {
            Some((key.clone(), value.clone()))
        }
        _ => None,
    });
    let pairs = pairs.collect::<Option<Vec<_>>>()?;
    let depth = pairs.iter().map(|(_, value)| depth_of(value)).max();
    let dict = Dict::new(Value::from_pairs(pairs), depth.unwrap_or_default(), 0);
    Some(Expr::Const(Value::from_object(dict)))
}
