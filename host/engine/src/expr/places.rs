//! The place of a name in a value, for messages about names that only the graph knows to be wrong.

use std::ops::Range;

use minijinja::machinery::{Span, Token, tokenize};
use serde_json::Value;
use windlass_model::Place;
use windlass_model::template::is_template;

use super::environment::{TOKENS, syntax};
use super::template::escaped;

/// The place of the first use of `root.name`, or of `root` if there is no name, in a template or
/// condition (`bare`) at a pointer. The place of the whole value if it is not found.
pub(crate) fn place_of(
    value: &Value,
    bare: bool,
    pointer: &str,
    root: &str,
    name: Option<&str>,
) -> Place {
    // The reader of definitions bounds how deep values nest.
    let mut open = vec![(value, pointer.to_owned())];
    while let Some((value, at)) = open.pop() {
        match value {
            Value::String(text) if bare || is_template(text) => {
                if let Some(found) = find(text, bare, root, name) {
                    return Place::inside(at, found);
                }
            }
            Value::Array(items) => {
                let items = items.iter().enumerate().rev();
                open.extend(items.map(|(index, item)| (item, format!("{at}/{index}"))));
            }
            Value::Object(map) => {
                let members = map.iter().rev();
                open.extend(members.map(|(key, item)| (item, format!("{at}/{}", escaped(key)))));
            }
            _ => {}
        }
    }
    Place::at(pointer)
}

fn find(text: &str, bare: bool, root: &str, name: Option<&str>) -> Option<Range<usize>> {
    let tokens = tokenize(text, bare, syntax()).map_while(Result::ok);
    let tokens: Vec<(Token<'_>, Span)> = tokens.take(2 * TOKENS).collect();
    let named = |token: &Token<'_>, wanted: &str| match token {
        Token::Ident(word) | Token::Str(word) => *word == wanted,
        Token::String(word) => **word == *wanted,
        _ => false,
    };
    (0..tokens.len()).find_map(|at| {
        let (token, span) = tokens.get(at)?;
        let is_root = matches!(token, Token::Ident(word) if *word == root);
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        let is_member = matches!(before, Some((Token::Dot, _)));
        if !is_root || is_member {
            return None;
        }
        let Some(name) = name else {
            return Some(range(*span));
        };
        let (_, access) = (tokens.get(at + 1)?, tokens.get(at + 2)?);
        named(&access.0, name).then(|| range(access.1))
    })
}

fn range(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}
