//! What an expression or a text is compiled to.
//!
//! MiniJinja parses; the tree is then taken over into this one, which owns its names, knows
//! its filters and tests, and has chains (`a.b|c + d`) flat, so that evaluating them does not
//! recurse.

use minijinja::Value;
use minijinja::machinery::ast::BinOpKind;
pub(super) use minijinja::machinery::ast::CompareOpKind as Compare;

use super::checks::Check;
use super::filters::Filter;

/// A compiled text or expression.
#[derive(Debug)]
pub(in crate::expr) struct Tree {
    pub(super) root: Root,
    /// What names are called, by number.
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
    /// A root that nothing in the text can hide, and the properties taken of it.
    Path(Name, Box<[Box<str>]>),
    /// What a filter block has captured.
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
    /// Conditions with their values, tried in order.
    pub(super) branches: Box<[(Expr, Expr)]>,
    pub(super) otherwise: Option<Expr>,
}

#[derive(Clone, Copy)]
pub(super) enum Unary {
    Not,
    Neg,
}

/// What is done with the value so far.
pub(super) enum Step {
    Attr(Box<str>),
    Item(Expr),
    Slice(Box<[Option<Expr>; 3]>),
    And(Expr),
    Or(Expr),
    Binary(BinOpKind, Expr),
    Compare(Box<[(Compare, Expr)]>),
    Not,
    Filter(Filter, Box<[Arg]>),
    Test(Check, Box<[Arg]>),
    Method(Box<str>, Box<[Arg]>),
    CallValue(Box<[Arg]>),
}

pub(super) enum Arg {
    Plain(Expr),
    Named(Box<str>, Expr),
    Splat(Expr),
    NamedSplat(Expr),
}

/// A condition, which only `else` has not, and what is done if it holds.
pub(super) type Branch = (Option<Expr>, Box<[Stmt]>);

pub(super) enum Stmt {
    Raw(Box<str>),
    Emit(Expr),
    /// `{{ loop(…) }}`, which writes where it stands.
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

/// What is assigned to.
pub(super) enum Target {
    Name(Name),
    Unpack(Box<[Target]>),
    /// A property, which nothing has that could be assigned.
    Attr(Expr),
}
