//! Names of filters, tests and functions that MiniJinja does not have. MiniJinja itself finds them
//! only when it renders.

use std::collections::BTreeSet;

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind};

/// Functions that are there only inside of a macro, a block or a loop.
const INSIDE: [&str; 3] = ["caller", "super", "loop"];

/// Words before a name that the template defines.
const DEFINING: [&str; 6] = ["macro", "set", "for", "with", "as", "import"];

/// An unknown name, and its byte offset in the template.
pub(crate) struct Unknown {
    kind: Kind,
    name: String,
    pub(crate) at: usize,
}

impl Unknown {
    pub(crate) fn message(&self) -> String {
        let kind = match self.kind {
            Kind::Filter => "filter",
            Kind::Test => "test",
            Kind::Function => "function",
        };
        format!("there is no {kind} `{}`", self.name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Filter,
    Test,
    Function,
}

impl Kind {
    /// Whether the environment has such a name. MiniJinja has no list of them, so it is tried.
    fn has(self, environment: &Environment<'_>, name: &str) -> bool {
        let (text, unknown) = match self {
            Self::Filter => (format!("{{{{ none | {name} }}}}"), ErrorKind::UnknownFilter),
            Self::Test => (format!("{{{{ none is {name} }}}}"), ErrorKind::UnknownTest),
            Self::Function => (format!("{{{{ {name}() }}}}"), ErrorKind::UnknownFunction),
        };
        let error = environment.render_str(&text, ()).err();
        error.is_none_or(|error| error.kind() != unknown)
    }
}

/// The unknown names of a template that compiles, each once.
pub(crate) fn names(environment: &Environment<'_>, template: &str) -> Vec<Unknown> {
    let tokens: Vec<_> = tokenize(template, false, SyntaxConfig::default())
        .map_while(Result::ok)
        .collect();
    let token = |at: usize| tokens.get(at).map(|(token, _)| token);
    let word = |at: Option<usize>| match token(at?) {
        Some(Token::Ident(word)) => Some(*word),
        _ => None,
    };
    let ident = |at: usize| word(Some(at));
    let defined: BTreeSet<&str> = (0..tokens.len())
        .filter(|at| {
            let before = word(at.checked_sub(1));
            let is_listed = matches!(at.checked_sub(1).and_then(token), Some(Token::Comma));
            is_listed || before.is_some_and(|before| DEFINING.contains(&before))
        })
        .filter_map(ident)
        .collect();
    let mut seen = BTreeSet::new();
    let mut unknown = Vec::new();
    for (at, (_, span)) in tokens.iter().enumerate() {
        let Some(name) = ident(at) else { continue };
        let before = at.checked_sub(1);
        let kind = match (before.and_then(token), word(before)) {
            (Some(Token::Pipe), _) => Kind::Filter,
            (_, Some("is")) if name != "not" => Kind::Test,
            (_, Some("not")) if word(at.checked_sub(2)) == Some("is") => Kind::Test,
            (_, Some("filter"))
                if matches!(at.checked_sub(2).and_then(token), Some(Token::BlockStart)) =>
            {
                Kind::Filter
            }
            (Some(Token::Dot), _) | (_, Some("macro" | "block")) => continue,
            _ if matches!(token(at + 1), Some(Token::ParenOpen))
                && !defined.contains(name)
                && !INSIDE.contains(&name)
                && !is_keyword(name) =>
            {
                Kind::Function
            }
            _ => continue,
        };
        if seen.insert((kind, name)) && !kind.has(environment, name) {
            unknown.push(Unknown {
                kind,
                name: name.to_owned(),
                at: span.start_offset as usize,
            });
        }
    }
    unknown
}

/// Whether parentheses behind a word are no call: operators, and the words of statements.
fn is_keyword(name: &str) -> bool {
    matches!(
        name,
        "and"
            | "autoescape"
            | "call"
            | "do"
            | "elif"
            | "else"
            | "extends"
            | "filter"
            | "for"
            | "from"
            | "if"
            | "import"
            | "in"
            | "include"
            | "is"
            | "not"
            | "or"
            | "set"
            | "with"
    )
}
