//! The compiled form of an expression or a text.
//!
//! MiniJinja parses, and its tree is converted to this one, which owns its names and knows its
//! filters and tests. Chains (`a.b|c + d`) are flat, so that their evaluation does not recurse.

use minijinja::Value;
use minijinja::machinery::ast::BinOpKind;
pub(super) use minijinja::machinery::ast::CompareOpKind as Compare;

use super::checks::Check;
use super::filters::Filter;

/// A compiled text or expression.
#[derive(Debug)]
pub(in crate::expr) struct Tree {
    pub(super) root: Root,
    /// Names by their number.
    pub(super) names: Box<[Box<str>]>,
}

pub(super) enum Root {
    Expression(Expr),
    Text(Box<[Stmt]>),
}

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Expression(_) => "Expression(…)",
            Self::Text(_) => "Text(…)",
        })
    }
}

/// The number of a name.
pub(super) type Name = u32;

/// The number of the name `loop`.
pub(super) const LOOP: Name = 0;

pub(super) enum Expr {
    Const(Value),
    Name(Name),
    /// A root that no name in the text can hide, followed by properties.
    Path(Name, Box<[Box<str>]>),
    /// The text that a filter block has captured.
    Captured,
    Chain(Box<(Expr, Box<[Step]>)>),
    /// Operators from the outside in.
    Unary(Box<[Unary]>, Box<Expr>),
    If(Box<IfExpr>),
    List(Box<[Expr]>),
    Tuple(Box<[Expr]>),
    Map(Box<[(Expr, Expr)]>),
    /// A function, or a loop that recurses.
    Call(Name, Box<[Arg]>),
}

pub(super) struct IfExpr {
    /// Conditions with their values, evaluated in order.
    pub(super) branches: Box<[(Expr, Expr)]>,
    pub(super) otherwise: Option<Expr>,
}

#[derive(Clone, Copy)]
pub(super) enum Unary {
    Not,
    Neg,
}

/// An operation on the value so far.
pub(super) enum Step {
    Attr(Box<str>),
    Item(Expr),
    Slice(Box<[Option<Expr>; 3]>),
    And(Expr),
    Or(Expr),
    Binary(BinOpKind, Expr),
    /// `<`, `<=`, `>` or `>=`, with the texts of both operands.
    Order(BinOpKind, Expr, Box<[Box<str>]>),
    /// Comparisons, with the texts of all operands.
    Compare(Box<[(Compare, Expr)]>, Box<[Box<str>]>),
    Not,
    Filter(Filter, Box<[Arg]>),
    Test(Check, Box<[Arg]>),
    /// A test about the order of two values, with its name and the texts of both.
    TestOrder(Check, Box<[Arg]>, Box<str>, Box<[Box<str>]>),
    Method(Box<str>, Box<[Arg]>),
    CallValue(Box<[Arg]>),
}

pub(super) enum Arg {
    Plain(Expr),
    Named(Box<str>, Expr),
    Splat(Expr),
    NamedSplat(Expr),
}

/// A branch: its condition, which `else` lacks, and its statements.
pub(super) type Branch = (Option<Expr>, Box<[Stmt]>);

pub(super) enum Stmt {
    Raw(Box<str>),
    Emit(Expr),
    /// `{{ loop(…) }}`, which writes in place.
    Recurse(Arg),
    For(Box<For>),
    If(Box<[Branch]>),
    With(Box<[(Target, Expr)]>, Box<[Stmt]>),
    Set(Target, Expr),
    SetBlock(Target, Option<Expr>, Box<[Stmt]>),
    AutoEscape(Expr, Box<[Stmt]>),
    FilterBlock(Expr, Box<[Stmt]>),
    Do(Expr),
}

pub(super) struct For {
    pub(super) id: u32,
    pub(super) target: Target,
    pub(super) over: Expr,
    pub(super) filter: Option<Expr>,
    pub(super) recursive: bool,
    pub(super) body: Box<[Stmt]>,
    pub(super) otherwise: Box<[Stmt]>,
}

/// The target of an assignment.
pub(super) enum Target {
    Name(Name),
    Unpack(Box<[Target]>),
    /// A property. No value has properties that can be assigned.
    Attr(Expr),
}
