//! Operators that turn values into text or compare them, as filters. MiniJinja's own write `True` and
//! `None`, order values of different kinds, and are computed before a template runs if their operands
//! are constants.

use minijinja::machinery::Span;
use minijinja::machinery::ast::{
    AutoEscape, BinOp, BinOpKind, Block, Call, CallArg, CallBlock, Compare, CompareOp,
    CompareOpKind, Const, Do, EmitExpr, EmitRaw, Expr, Extends, Filter, FilterBlock, ForLoop,
    FromImport, GetAttr, GetItem, IfCond, IfExpr, Import, Include, List, Macro, Map, Set, SetBlock,
    Slice, Spanned, Stmt, Template, Test, Tuple, UnaryOp, UnaryOpKind, Var, WithBlock,
};

/// The filter behind the operator `~`. No template can contain this name, or another one of these.
pub(crate) const JOINED: &str = "~";
/// The filter behind the operator `in`.
pub(crate) const CONTAINED: &str = "~in";
/// The filters behind the operators of order.
pub(crate) const ORDERS: [&str; 4] = ["<", "<=", ">", ">="];

/// A copy of a template whose operators are filters. MiniJinja has no way to change a tree.
pub(crate) fn as_filters<'t>(stmt: &Stmt<'t>) -> Stmt<'t> {
    match stmt {
        Stmt::Template(s) => Stmt::Template(like(s, |s| Template {
            children: body(&s.children),
        })),
        Stmt::EmitExpr(s) => Stmt::EmitExpr(like(s, |s| EmitExpr {
            expr: expr(&s.expr),
        })),
        Stmt::EmitRaw(s) => Stmt::EmitRaw(like(s, |s| EmitRaw { raw: s.raw })),
        Stmt::ForLoop(s) => Stmt::ForLoop(like(s, |s| ForLoop {
            target: expr(&s.target),
            iter: expr(&s.iter),
            filter_expr: option(&s.filter_expr),
            recursive: s.recursive,
            body: body(&s.body),
            else_body: body(&s.else_body),
        })),
        Stmt::IfCond(s) => Stmt::IfCond(like(s, |s| IfCond {
            expr: expr(&s.expr),
            true_body: body(&s.true_body),
            false_body: body(&s.false_body),
        })),
        Stmt::WithBlock(s) => Stmt::WithBlock(like(s, |s| WithBlock {
            assignments: s
                .assignments
                .iter()
                .map(|(target, value)| (expr(target), expr(value)))
                .collect(),
            body: body(&s.body),
        })),
        Stmt::Set(s) => Stmt::Set(like(s, |s| Set {
            target: expr(&s.target),
            expr: expr(&s.expr),
        })),
        Stmt::SetBlock(s) => Stmt::SetBlock(like(s, |s| SetBlock {
            target: expr(&s.target),
            filter: option(&s.filter),
            body: body(&s.body),
        })),
        Stmt::AutoEscape(s) => Stmt::AutoEscape(like(s, |s| AutoEscape {
            enabled: expr(&s.enabled),
            body: body(&s.body),
        })),
        Stmt::FilterBlock(s) => Stmt::FilterBlock(like(s, |s| FilterBlock {
            filter: expr(&s.filter),
            body: body(&s.body),
        })),
        Stmt::Block(s) => Stmt::Block(like(s, |s| Block {
            name: s.name,
            required: s.required,
            body: body(&s.body),
        })),
        Stmt::Import(s) => Stmt::Import(like(s, |s| Import {
            expr: expr(&s.expr),
            name: expr(&s.name),
        })),
        Stmt::FromImport(s) => Stmt::FromImport(like(s, |s| FromImport {
            expr: expr(&s.expr),
            names: s
                .names
                .iter()
                .map(|(name, alias)| (expr(name), option(alias)))
                .collect(),
        })),
        Stmt::Extends(s) => Stmt::Extends(like(s, |s| Extends {
            name: expr(&s.name),
        })),
        Stmt::Include(s) => Stmt::Include(like(s, |s| Include {
            name: expr(&s.name),
            ignore_missing: s.ignore_missing,
        })),
        Stmt::Macro(s) => Stmt::Macro(macro_of(s)),
        Stmt::CallBlock(s) => Stmt::CallBlock(like(s, |s| CallBlock {
            call: call(&s.call),
            macro_decl: macro_of(&s.macro_decl),
        })),
        Stmt::Do(s) => Stmt::Do(like(s, |s| Do {
            call: call(&s.call),
        })),
    }
}

fn like<T, R>(node: &Spanned<T>, of: impl FnOnce(&T) -> R) -> Spanned<R> {
    Spanned::new(of(node), node.span())
}

fn body<'t>(stmts: &[Stmt<'t>]) -> Vec<Stmt<'t>> {
    stmts.iter().map(as_filters).collect()
}

fn option<'t>(value: &Option<Expr<'t>>) -> Option<Expr<'t>> {
    value.as_ref().map(expr)
}

fn exprs<'t>(values: &[Expr<'t>]) -> Vec<Expr<'t>> {
    values.iter().map(expr).collect()
}

fn macro_of<'t>(node: &Spanned<Macro<'t>>) -> Spanned<Macro<'t>> {
    like(node, |s| Macro {
        name: s.name,
        args: exprs(&s.args),
        defaults: exprs(&s.defaults),
        body: body(&s.body),
    })
}

fn call<'t>(node: &Spanned<Call<'t>>) -> Spanned<Call<'t>> {
    like(node, |e| Call {
        expr: expr(&e.expr),
        args: args(&e.args),
    })
}

fn args<'t>(args: &[CallArg<'t>]) -> Vec<CallArg<'t>> {
    let one = |arg: &CallArg<'t>| match arg {
        CallArg::Pos(e) => CallArg::Pos(expr(e)),
        CallArg::Kwarg(name, e) => CallArg::Kwarg(name, expr(e)),
        CallArg::PosSplat(e) => CallArg::PosSplat(expr(e)),
        CallArg::KwargSplat(e) => CallArg::KwargSplat(expr(e)),
    };
    args.iter().map(one).collect()
}

fn expr<'t>(of: &Expr<'t>) -> Expr<'t> {
    match of {
        Expr::Var(e) => Expr::Var(like(e, |e| Var { id: e.id })),
        Expr::Const(e) => Expr::Const(like(e, |e| Const {
            value: e.value.clone(),
        })),
        Expr::Slice(e) => Expr::Slice(like(e, |e| Slice {
            expr: expr(&e.expr),
            start: option(&e.start),
            stop: option(&e.stop),
            step: option(&e.step),
        })),
        Expr::UnaryOp(e) => Expr::UnaryOp(like(e, |e| UnaryOp {
            op: match e.op {
                UnaryOpKind::Not => UnaryOpKind::Not,
                UnaryOpKind::Neg => UnaryOpKind::Neg,
            },
            expr: expr(&e.expr),
        })),
        Expr::BinOp(e) => {
            let (left, right) = (expr(&e.left), expr(&e.right));
            match of_binary(e.op) {
                Some(name) => filter(name, left, right, e.span()),
                None => Expr::BinOp(like(e, |e| BinOp {
                    op: e.op,
                    left,
                    right,
                })),
            }
        }
        Expr::Compare(e) => match e.ops.as_slice() {
            [only] => compared(expr(&e.expr), only.op, expr(&only.expr), e.span()),
            several => chain(&e.expr, several, e.span()),
        },
        Expr::IfExpr(e) => Expr::IfExpr(like(e, |e| IfExpr {
            test_expr: expr(&e.test_expr),
            true_expr: expr(&e.true_expr),
            false_expr: option(&e.false_expr),
        })),
        Expr::Filter(e) => Expr::Filter(like(e, |e| Filter {
            name: e.name,
            expr: option(&e.expr),
            args: args(&e.args),
        })),
        Expr::Test(e) => Expr::Test(like(e, |e| Test {
            name: e.name,
            expr: expr(&e.expr),
            args: args(&e.args),
        })),
        Expr::GetAttr(e) => Expr::GetAttr(like(e, |e| GetAttr {
            expr: expr(&e.expr),
            name: e.name,
        })),
        Expr::GetItem(e) => Expr::GetItem(like(e, |e| GetItem {
            expr: expr(&e.expr),
            subscript_expr: expr(&e.subscript_expr),
        })),
        Expr::Call(e) => Expr::Call(call(e)),
        Expr::List(e) => Expr::List(like(e, |e| List {
            items: exprs(&e.items),
        })),
        Expr::Tuple(e) => Expr::Tuple(like(e, |e| Tuple {
            items: exprs(&e.items),
        })),
        Expr::Map(e) => Expr::Map(like(e, |e| Map {
            keys: exprs(&e.keys),
            values: exprs(&e.values),
        })),
    }
}

fn of_binary(op: BinOpKind) -> Option<&'static str> {
    Some(match op {
        BinOpKind::Concat => JOINED,
        BinOpKind::In => CONTAINED,
        BinOpKind::Lt => "<",
        BinOpKind::Lte => "<=",
        BinOpKind::Gt => ">",
        BinOpKind::Gte => ">=",
        _ => return None,
    })
}

fn filter<'t>(name: &'t str, left: Expr<'t>, right: Expr<'t>, span: Span) -> Expr<'t> {
    let filter = Filter {
        name,
        expr: Some(left),
        args: vec![CallArg::Pos(right)],
    };
    Expr::Filter(Spanned::new(filter, span))
}

fn compared<'t>(left: Expr<'t>, op: CompareOpKind, right: Expr<'t>, span: Span) -> Expr<'t> {
    let equal = |op, left, right| Expr::BinOp(Spanned::new(BinOp { op, left, right }, span));
    match op {
        CompareOpKind::Eq => equal(BinOpKind::Eq, left, right),
        CompareOpKind::Ne => equal(BinOpKind::Ne, left, right),
        CompareOpKind::Lt => filter("<", left, right, span),
        CompareOpKind::Lte => filter("<=", left, right, span),
        CompareOpKind::Gt => filter(">", left, right, span),
        CompareOpKind::Gte => filter(">=", left, right, span),
        CompareOpKind::In => filter(CONTAINED, left, right, span),
        CompareOpKind::NotIn => {
            let op = UnaryOpKind::Not;
            let expr = filter(CONTAINED, left, right, span);
            Expr::UnaryOp(Spanned::new(UnaryOp { op, expr }, span))
        }
    }
}

/// `a < b < c` as `a < b and b < c`. An operand that is a comparison itself would double with each
/// level, so such a chain stays MiniJinja's.
fn chain<'t>(first: &Expr<'t>, ops: &[CompareOp<'t>], span: Span) -> Expr<'t> {
    let doubled = ops.iter().rev().skip(1);
    if !doubled.clone().all(|op| is_plain(&op.expr)) {
        return Expr::Compare(Spanned::new(
            Compare {
                expr: expr(first),
                ops: ops
                    .iter()
                    .map(|op| CompareOp {
                        op: op.op,
                        expr: expr(&op.expr),
                    })
                    .collect(),
            },
            span,
        ));
    }
    let lefts = std::iter::once(first).chain(ops.iter().map(|op| &op.expr));
    let pairs = lefts.zip(ops);
    let pairs = pairs.map(|(left, op)| compared(expr(left), op.op, expr(&op.expr), span));
    let all = pairs.reduce(|left, right| {
        let op = BinOpKind::ScAnd;
        Expr::BinOp(Spanned::new(BinOp { op, left, right }, span))
    });
    all.unwrap_or_else(|| expr(first))
}

/// Whether an expression is a constant, a variable, or a member of one.
fn is_plain(of: &Expr<'_>) -> bool {
    match of {
        Expr::Var(_) | Expr::Const(_) => true,
        Expr::GetAttr(e) => is_plain(&e.expr),
        Expr::GetItem(e) => is_plain(&e.expr) && is_plain(&e.subscript_expr),
        _ => false,
    }
}
