//! Parses expressions and texts with MiniJinja, and refuses what MiniJinja does not read to its end.

use minijinja::ErrorKind;
use minijinja::machinery::ast::{Expr, Stmt};
use minijinja::machinery::{parse, parse_expr, tokenize};

use super::environment::syntax;

/// How the message of an error begins at which the parser wanted more.
pub(super) const END_OF_INPUT: &str = "unexpected end of input";

/// Parses one expression.
///
/// # Errors
///
/// The parser's message: the text is no expression, or more than one.
pub(super) fn expression(text: &str) -> Result<Expr<'_>, String> {
    whole(text, true, parse_expr(text))
}

/// Parses a text that may contain expressions.
///
/// # Errors
///
/// The parser's message about a part that is no expression and no statement.
pub(super) fn text(text: &str) -> Result<Stmt<'_>, String> {
    whole(text, false, parse(text, "text", syntax()))
}

/// MiniJinja's parser drops the error of its lexer behind a literal text, and takes what cannot be
/// read for the end: `a == 'x' && b` is `a == 'x'` to it. So the lexer reads every text to the end.
fn whole<T>(text: &str, bare: bool, parsed: Result<T, minijinja::Error>) -> Result<T, String> {
    let parsed = parsed.map_err(|error| say(&error));
    // The parser has found the mistake before the first token that cannot be read, unless it only
    // missed a token.
    if matches!(&parsed, Err(message) if !message.starts_with(END_OF_INPUT)) {
        return parsed;
    }
    match tokenize(text, bare, syntax()).find_map(Result::err) {
        Some(unread) => Err(say(&unread)),
        None => parsed,
    }
}

/// MiniJinja's message without the name of the template, which means nothing to the user.
pub(super) fn say(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) if error.kind() == ErrorKind::SyntaxError => detail.to_owned(),
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}
