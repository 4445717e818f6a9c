//! The first step of an expression that leads to no value: the error of an undefined result names it.

use minijinja::Value;
use minijinja::machinery::ast::Expr;
use minijinja::value::ValueKind;
use windlass_model::nearest::did_you_mean;
use windlass_model::weight::{block, list};

use super::needs::Path;
use super::values::Values;

/// How many names beside an undefined one are compared with it.
const SIBLINGS: usize = 1_000;

/// How many names an error lists.
const LISTED: usize = 8;

/// How many characters of such a name it shows.
const NAME_CHARS: usize = 40;

/// A value that is reached by names and constant positions, like `input.orders[3].total`.
#[derive(Debug)]
pub(super) struct Chain {
    root: Box<str>,
    steps: Box<[Step]>,
}

#[derive(Clone, Debug)]
enum Step {
    Name(Box<str>),
    At(i64),
}

impl Chain {
    /// The chain of an expression. None: it is none, or a path, which has no positions.
    pub(super) fn of(expr: &Expr<'_>) -> Option<Self> {
        let mut steps = Vec::new();
        let mut expr = expr;
        loop {
            match expr {
                Expr::Var(var) => {
                    steps.reverse();
                    let has_position = steps.iter().any(|step| matches!(step, Step::At(_)));
                    return has_position.then(|| Self {
                        root: var.id.into(),
                        steps: steps.into(),
                    });
                }
                Expr::GetAttr(e) => {
                    steps.push(Step::Name(e.name.into()));
                    expr = &e.expr;
                }
                Expr::GetItem(e) => {
                    let Expr::Const(by) = &e.subscript_expr else {
                        return None;
                    };
                    let step = match by.value.as_str() {
                        Some(name) => Step::Name(name.into()),
                        None => Step::At(by.value.as_i64()?),
                    };
                    steps.push(step);
                    expr = &e.expr;
                }
                _ => return None,
            }
        }
    }

    /// The name that it begins with.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// An estimate of the memory that it takes on the heap, in bytes.
    pub(super) fn weight(&self) -> usize {
        let names = self.steps.iter().map(|step| match step {
            Step::Name(name) => block(name.len()),
            Step::At(_) => 0,
        });
        list::<Step>(self.steps.len()) + block(self.root.len()) + names.sum::<usize>()
    }
}

/// Names the first missing step of these paths and chains, of the first one that leads to no value.
pub(super) fn missing(paths: &[Path], chains: &[Chain], values: &Values) -> Option<String> {
    let of_path = |path: &Path| {
        let steps: Vec<_> = path.rest.iter().cloned().map(Step::Name).collect();
        first(&path.root, &steps, values)
    };
    let of_chain = |chain: &Chain| first(&chain.root, &chain.steps, values);
    let found = paths.iter().find_map(of_path);
    found.or_else(|| chains.iter().find_map(of_chain))
}

fn first(root: &str, steps: &[Step], values: &Values) -> Option<String> {
    let mut known = root.to_owned();
    let Some(mut value) = values.lookup(root, &[]) else {
        return Some(format!("`{known}` is undefined"));
    };
    // The values know the names in front, like those of nodes, in their own way.
    let mut names = Some(Vec::new());
    for step in steps {
        let next = match (step, &mut names) {
            (Step::Name(name), Some(names)) => {
                names.push(name.clone());
                values.lookup(root, names)
            }
            (Step::Name(name), None) => value.get_attr(name).ok(),
            (Step::At(at), names) => {
                *names = None;
                value.get_item(&Value::from(*at)).ok()
            }
        };
        let parent = value;
        known.push_str(&match step {
            Step::Name(name) => format!(".{name}"),
            Step::At(at) => format!("[{at}]"),
        });
        match next.filter(|next| !next.is_undefined()) {
            Some(next) => value = next,
            None => return Some(format!("`{known}` is undefined{}", hint(step, &parent))),
        }
    }
    None
}

/// The names or the length that a value has in place of a missing part, in brackets.
fn hint(step: &Step, parent: &Value) -> String {
    let hint = match (step, parent.kind()) {
        (Step::Name(name), ValueKind::Map) => {
            let siblings: Vec<_> = parent
                .try_iter()
                .into_iter()
                .flatten()
                .take(SIBLINGS)
                .collect();
            let names = || siblings.iter().filter_map(Value::as_str);
            did_you_mean(name, names()).or_else(|| all(names(), parent.len()))
        }
        (Step::At(_), ValueKind::Seq) => parent.len().map(|len| match len {
            0 => "the list is empty".to_owned(),
            1 => "the list has 1 item".to_owned(),
            len => format!("the list has {len} items"),
        }),
        _ => None,
    };
    hint.map(|hint| format!(" ({hint})")).unwrap_or_default()
}

/// The first of these names, if there are any. `len` is the number of all.
fn all<'v>(names: impl Iterator<Item = &'v str>, len: Option<usize>) -> Option<String> {
    let shown: Vec<String> = names
        .take(LISTED)
        .map(|name| format!("`{}`", name.chars().take(NAME_CHARS).collect::<String>()))
        .collect();
    let more = len.unwrap_or_default().saturating_sub(shown.len());
    let names = shown.join(", ");
    match (shown.is_empty(), more) {
        (true, _) => None,
        (_, 0) => Some(format!("there are {names}")),
        (_, more) => Some(format!("there are {names} and {more} more")),
    }
}
