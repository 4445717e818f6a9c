//! The few expressions that generated workflows use: their text, and an evaluator for them.
//! Generated expressions have correct types, so the only mistakes are those of [`Expr::Missing`].

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A placeholder in a predicted value for text that the documents do not determine.
pub(crate) const ANY: &str = "\u{1}any";

#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Const(Value),
    List(Vec<Expr>),
    /// A member of the run's input.
    Input(&'static str),
    Var(String),
    Output(String),
    Item,
    Index,
    /// The attempt.
    Attempt,
    /// An addition to a missing member: an error.
    Missing,
    /// Whether the failure has this class.
    IsOfClass(&'static str),
    /// Whether the member `n` of the details of the failure is this number.
    DetailIs(i64),
    /// Whether the details of the failure have the member `n`.
    HasDetail,
    /// An addition to a missing member of the details: an error.
    MissingDetail,
    Two(&'static str, Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    IsNone(Box<Expr>),
    /// `then if condition else other`, in this order.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A value and the name of a filter: `length` or `sum`.
    Filter(Box<Expr>, &'static str),
    At(Box<Expr>, usize),
}

/// The values that an expression sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) input: Value,
    pub(crate) vars: BTreeMap<String, Value>,
    pub(crate) outputs: BTreeMap<String, Value>,
    pub(crate) item: Value,
    pub(crate) index: usize,
    pub(crate) attempt: u32,
    /// The class and the details of the failure that a condition is about.
    pub(crate) failure: (String, Value),
}

/// The expression cannot be evaluated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wrong;

impl Expr {
    pub(crate) fn int(value: i64) -> Self {
        Self::Const(json!(value))
    }

    pub(crate) fn text(value: &str) -> Self {
        Self::Const(json!(value))
    }

    pub(crate) fn var(name: &str) -> Self {
        Self::Var(name.to_owned())
    }

    pub(crate) fn two(op: &'static str, left: Self, right: Self) -> Self {
        Self::Two(op, Box::new(left), Box::new(right))
    }

    pub(crate) fn when(then: Self, condition: Self, other: Self) -> Self {
        Self::If(Box::new(then), Box::new(condition), Box::new(other))
    }

    pub(crate) fn filter(self, name: &'static str) -> Self {
        Self::Filter(Box::new(self), name)
    }

    /// The text of the expression, in parentheses where the order could matter.
    pub(crate) fn written(&self) -> String {
        match self {
            Self::Const(Value::Null) => "none".to_owned(),
            Self::Const(value) => value.to_string().replace('"', "'"),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::written).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Input(name) => format!("input.{name}"),
            Self::Var(name) => format!("vars.{name}"),
            Self::Output(node) => format!("nodes.{node}.output"),
            Self::Item => "item".to_owned(),
            Self::Index => "index".to_owned(),
            Self::Attempt => "trigger.attempt".to_owned(),
            Self::Missing => "(input.missing + 1)".to_owned(),
            Self::IsOfClass(class) => format!("(error.class == '{class}')"),
            Self::DetailIs(number) => format!("(error.details.n == {number})"),
            Self::HasDetail => "(error.details.n is defined)".to_owned(),
            Self::MissingDetail => "(error.details.gone + 1)".to_owned(),
            Self::Two(op, left, right) => {
                format!("({} {op} {})", left.written(), right.written())
            }
            Self::Not(inner) => format!("(not {})", inner.written()),
            Self::IsNone(inner) => format!("({} is none)", inner.written()),
            Self::If(then, condition, other) => format!(
                "({} if {} else {})",
                then.written(),
                condition.written(),
                other.written()
            ),
            Self::Filter(inner, name) => format!("({} | {name})", inner.written()),
            Self::At(inner, at) => format!("{}[{at}]", inner.written()),
        }
    }

    pub(crate) fn value(&self, view: &View) -> Result<Value, Wrong> {
        Ok(match self {
            Self::Const(value) => value.clone(),
            Self::List(items) => {
                let items: Result<Vec<Value>, Wrong> =
                    items.iter().map(|item| item.value(view)).collect();
                Value::Array(items?)
            }
            Self::Input(name) => view.input.get(name).cloned().ok_or(Wrong)?,
            Self::Var(name) => view.vars.get(name).cloned().ok_or(Wrong)?,
            Self::Output(node) => view.outputs.get(node).cloned().unwrap_or_default(),
            Self::Item => view.item.clone(),
            Self::Index => json!(view.index),
            Self::Attempt => json!(view.attempt),
            Self::Missing | Self::MissingDetail => return Err(Wrong),
            Self::IsOfClass(class) => json!(view.failure.0 == *class),
            Self::DetailIs(number) => json!(view.failure.1.get("n") == Some(&json!(number))),
            Self::HasDetail => json!(view.failure.1.get("n").is_some()),
            Self::Two(op, left, right) => return two(op, left, right, view),
            Self::Not(inner) => json!(!truth(&inner.value(view)?)),
            Self::IsNone(inner) => json!(inner.value(view)?.is_null()),
            Self::If(then, condition, other) => {
                let chosen = if truth(&condition.value(view)?) {
                    then
                } else {
                    other
                };
                chosen.value(view)?
            }
            Self::Filter(inner, name) => filter(&inner.value(view)?, name)?,
            Self::At(inner, at) => inner.value(view)?.get(*at).cloned().ok_or(Wrong)?,
        })
    }
}

fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(value) => value.as_i64() != Some(0),
        Value::String(value) => !value.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

fn two(op: &str, left: &Expr, right: &Expr, view: &View) -> Result<Value, Wrong> {
    let left = left.value(view)?;
    // These operators evaluate their right side only if needed.
    match op {
        "and" if !truth(&left) => return Ok(left),
        "or" if truth(&left) => return Ok(left),
        "and" | "or" => return right.value(view),
        _ => {}
    }
    let right = right.value(view)?;
    let ints = || Ok((left.as_i64().ok_or(Wrong)?, right.as_i64().ok_or(Wrong)?));
    Ok(match op {
        "==" => json!(left == right),
        "!=" => json!(left != right),
        "<" => ints().map(|(left, right)| json!(left < right))?,
        ">=" => ints().map(|(left, right)| json!(left >= right))?,
        "*" => ints().map(|(left, right)| json!(left * right))?,
        "%" => ints().map(|(left, right)| json!(left % right))?,
        "~" => json!(format!("{}{}", plain(&left), plain(&right))),
        "in" => json!(right.as_array().ok_or(Wrong)?.contains(&left)),
        "+" => match (&left, &right) {
            (Value::Array(left), Value::Array(right)) => {
                left.iter().chain(right).cloned().collect()
            }
            _ => ints().map(|(left, right)| json!(left + right))?,
        },
        _ => return Err(Wrong),
    })
}

fn filter(value: &Value, name: &str) -> Result<Value, Wrong> {
    match (name, value) {
        ("length", Value::Array(items)) => Ok(json!(items.len())),
        ("length", Value::Object(members)) => Ok(json!(members.len())),
        ("sum", Value::Array(items)) => {
            let items: Option<Vec<i64>> = items.iter().map(Value::as_i64).collect();
            Ok(json!(items.ok_or(Wrong)?.iter().sum::<i64>()))
        }
        _ => Err(Wrong),
    }
}

/// A number or a text, as a part of a text.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value in a workflow that may hold expressions.
#[derive(Clone, Debug)]
pub(crate) enum Template {
    Const(Value),
    One(Expr),
    /// Text, an expression, and more text.
    Within(&'static str, Expr, &'static str),
    Map(Vec<(&'static str, Template)>),
}

impl Template {
    pub(crate) fn written(&self) -> Value {
        match self {
            Self::Const(value) => value.clone(),
            Self::One(expr) => json!(format!("{{{{ {} }}}}", expr.written())),
            Self::Within(before, expr, after) => {
                json!(format!("{before}{{{{ {} }}}}{after}", expr.written()))
            }
            Self::Map(members) => members
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.written()))
                .collect::<Map<String, Value>>()
                .into(),
        }
    }

    pub(crate) fn value(&self, view: &View) -> Result<Value, Wrong> {
        Ok(match self {
            Self::Const(value) => value.clone(),
            Self::One(expr) => expr.value(view)?,
            Self::Within(before, expr, after) => {
                json!(format!("{before}{}{after}", plain(&expr.value(view)?)))
            }
            Self::Map(members) => {
                let mut map = Map::new();
                for (name, value) in members {
                    map.insert((*name).to_owned(), value.value(view)?);
                }
                map.into()
            }
        })
    }
}

pub(crate) fn holds(condition: &Expr, view: &View) -> Result<bool, Wrong> {
    condition.value(view).map(|value| truth(&value))
}

/// Whether a value equals the predicted one.
pub(crate) fn same(predicted: &Value, found: &Value) -> bool {
    match (predicted, found) {
        (Value::String(text), Value::String(_)) if text == ANY => true,
        (Value::Array(predicted), Value::Array(found)) => {
            predicted.len() == found.len() && predicted.iter().zip(found).all(|(a, b)| same(a, b))
        }
        (Value::Object(predicted), Value::Object(found)) => {
            let same = |(name, value)| found.get(name).is_some_and(|found| same(value, found));
            predicted.len() == found.len() && predicted.iter().all(same)
        }
        _ => predicted == found,
    }
}
