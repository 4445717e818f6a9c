//! The knowledge about the value of an expression before a run: its kind, or the paths on which it
//! depends.

use std::collections::BTreeSet;

use minijinja::Value;
use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, UnaryOpKind};
use minijinja::value::ValueKind;
use windlass_model::schema::members::Kind;

use super::readings::Step;

/// The knowledge about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Anything,
    Number,
    Zero,
    Boolean,
    Text,
    List,
    Map,
    None,
}

impl Known {
    pub(super) fn is_number(self) -> bool {
        matches!(
            self,
            Self::Number | Self::Zero | Self::Boolean | Self::Anything
        )
    }

    /// The values of a kind of JSON.
    pub(crate) fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::Null => Self::None,
            Kind::Boolean => Self::Boolean,
            Kind::Number => Self::Number,
            Kind::Text => Self::Text,
            Kind::List => Self::List,
            Kind::Object => Self::Map,
        }
    }

    /// The kind of JSON that the value has.
    pub(crate) fn kind(self) -> Option<Kind> {
        Some(match self {
            Self::Anything => return None,
            Self::Number | Self::Zero => Kind::Number,
            Self::Boolean => Kind::Boolean,
            Self::Text => Kind::Text,
            Self::List => Kind::List,
            Self::Map => Kind::Object,
            Self::None => Kind::Null,
        })
    }

    /// The kind in words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anything => "a value",
            Self::Number | Self::Zero => "a number",
            Self::Boolean => "a boolean",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Map => "an object",
            Self::None => "null",
        }
    }

    /// Whether two values have an order.
    pub(super) fn has_order(self, other: Self) -> bool {
        let any = |known| self == known || other == known;
        !any(Self::None) && (any(Self::Anything) || self.name() == other.name())
    }

    pub(super) fn of_constant(value: &Value) -> Self {
        match value.kind() {
            ValueKind::Bool => Self::Boolean,
            ValueKind::Number if f64::try_from(value.clone()).is_ok_and(|it| it == 0.0) => {
                Self::Zero
            }
            ValueKind::Number => Self::Number,
            ValueKind::String => Self::Text,
            ValueKind::Seq | ValueKind::Iterable => Self::List,
            ValueKind::Map => Self::Map,
            ValueKind::None => Self::None,
            _ => Self::Anything,
        }
    }
}

/// A path and its steps, all of them constant.
pub(super) type Path = (Box<str>, Vec<Step>);

/// An expression as far as it is known before a run.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Known(Known),
    Path(Box<str>, Vec<Step>),
    /// One of these, and a run decides which.
    Either(Vec<Operand>),
}

/// The choices of one operand that are looked at.
const CHOICES: usize = 8;

impl Operand {
    /// `locals` are names that the text sets.
    pub(super) fn of(expr: &Expr<'_>, locals: &BTreeSet<String>) -> Self {
        let mut choices = Vec::new();
        collect(expr, locals, &mut choices);
        match choices.len() {
            1 => choices.swap_remove(0),
            0 => Self::Known(Known::Anything),
            more if more > CHOICES => Self::Known(Known::Anything),
            _ => Self::Either(choices),
        }
    }

    /// Whether more is known if the values of its paths are.
    pub(super) fn has_path(&self) -> bool {
        match self {
            Self::Known(_) => false,
            Self::Path(..) => true,
            Self::Either(choices) => choices.iter().any(Self::has_path),
        }
    }

    /// Takes the values of these paths for unknown.
    pub(super) fn forget(&mut self, paths: &[Path]) {
        match self {
            Self::Path(root, steps) if paths.iter().any(|it| it.0 == *root && it.1 == *steps) => {
                *self = Self::Known(Known::Anything);
            }
            Self::Known(_) | Self::Path(..) => {}
            Self::Either(choices) => choices.iter_mut().for_each(|it| it.forget(paths)),
        }
    }

    /// The roots of its paths.
    pub(super) fn roots(&self) -> Vec<&str> {
        match self {
            Self::Known(_) => Vec::new(),
            Self::Path(root, _) => vec![root],
            Self::Either(choices) => choices.iter().flat_map(Self::roots).collect(),
        }
    }

    /// What its value can be. `kinds` are those of a path; anything if they are unknown.
    pub(crate) fn knowns(&self, kinds: &mut dyn FnMut(&str, &[Step]) -> Vec<Known>) -> Vec<Known> {
        match self {
            Self::Known(known) => vec![*known],
            Self::Path(root, steps) => kinds(root, steps),
            Self::Either(choices) => choices.iter().flat_map(|it| it.knowns(kinds)).collect(),
        }
    }
}

/// Adds the values that an expression can have.
fn collect(expr: &Expr<'_>, locals: &BTreeSet<String>, out: &mut Vec<Operand>) {
    if out.len() > CHOICES {
        return;
    }
    match expr {
        Expr::IfExpr(e) => {
            collect(&e.true_expr, locals, out);
            match &e.false_expr {
                Some(other) => collect(other, locals, out),
                None => out.push(Operand::Known(Known::Anything)),
            }
        }
        Expr::BinOp(e) if matches!(e.op, BinOpKind::ScAnd | BinOpKind::ScOr) => {
            collect(&e.left, locals, out);
            collect(&e.right, locals, out);
        }
        Expr::Filter(e) if matches!(e.name, "default" | "d") => {
            let [CallArg::Pos(other)] = e.args.as_slice() else {
                return out.push(Operand::Known(Known::Anything));
            };
            match &e.expr {
                Some(value) => collect(value, locals, out),
                None => out.push(Operand::Known(Known::Anything)),
            }
            collect(other, locals, out);
        }
        other => out.push(match constant_path(other) {
            Some((root, steps)) if !locals.contains(&*root) => Operand::Path(root, steps),
            _ => Operand::Known(of(other)),
        }),
    }
}

/// The result of an expression for all values of its operands.
pub(super) fn of(expr: &Expr<'_>) -> Known {
    match expr {
        Expr::Const(constant) => Known::of_constant(&constant.value),
        Expr::UnaryOp(e) => match e.op {
            UnaryOpKind::Not => Known::Boolean,
            UnaryOpKind::Neg => Known::Number,
        },
        Expr::BinOp(e) => match e.op {
            BinOpKind::Concat => Known::Text,
            BinOpKind::Sub
            | BinOpKind::Div
            | BinOpKind::FloorDiv
            | BinOpKind::Rem
            | BinOpKind::Pow => Known::Number,
            BinOpKind::In
            | BinOpKind::Eq
            | BinOpKind::Ne
            | BinOpKind::Lt
            | BinOpKind::Lte
            | BinOpKind::Gt
            | BinOpKind::Gte => Known::Boolean,
            // A sum of two of a kind is of that kind, and a sum with a number is one.
            BinOpKind::Add => match (of(&e.left), of(&e.right)) {
                (Known::Text, _) | (_, Known::Text) => Known::Text,
                (Known::List, _) | (_, Known::List) => Known::List,
                (Known::Number | Known::Zero, _) | (_, Known::Number | Known::Zero) => {
                    Known::Number
                }
                _ => Known::Anything,
            },
            BinOpKind::Mul => match (of(&e.left), of(&e.right)) {
                (Known::Number | Known::Zero, Known::Number | Known::Zero) => Known::Number,
                _ => Known::Anything,
            },
            BinOpKind::ScAnd | BinOpKind::ScOr => Known::Anything,
        },
        Expr::Compare(_) | Expr::Test(_) => Known::Boolean,
        Expr::Filter(e) => match e.name {
            "capitalize" | "format" | "indent" | "join" | "lower" | "replace" | "string"
            | "title" | "tojson" | "trim" | "upper" => Known::Text,
            "count" | "length" => Known::Number,
            "abs" | "float" | "int" | "round" if e.args.is_empty() => Known::Number,
            "batch" | "dictsort" | "groupby" | "items" | "lines" | "list" | "map" | "reject"
            | "rejectattr" | "select" | "selectattr" | "slice" | "sort" | "split" | "unique"
            | "zip" => Known::List,
            "bool" => Known::Boolean,
            _ => Known::Anything,
        },
        Expr::Call(e) => match &e.expr {
            Expr::Var(name) if name.id == "range" => Known::List,
            Expr::Var(name) if name.id == "dict" => Known::Map,
            _ => Known::Anything,
        },
        Expr::List(_) | Expr::Tuple(_) => Known::List,
        Expr::Map(_) => Known::Map,
        _ => Known::Anything,
    }
}

/// A path whose steps are all constant.
pub(super) fn constant_path(expr: &Expr<'_>) -> Option<Path> {
    let mut steps = Vec::new();
    let mut at = expr;
    loop {
        match at {
            Expr::Var(var) => {
                steps.reverse();
                return Some((var.id.into(), steps));
            }
            Expr::GetAttr(e) => {
                steps.push(Step::Member(e.name.into()));
                at = &e.expr;
            }
            Expr::GetItem(e) => {
                let Expr::Const(key) = &e.subscript_expr else {
                    return None;
                };
                steps.push(match key.value.as_str() {
                    Some(name) => Step::Member(name.into()),
                    None => Step::Item,
                });
                at = &e.expr;
            }
            _ => return None,
        }
    }
}
