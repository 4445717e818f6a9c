//! Reads and writes JSON without a loss of digits.

use std::fmt::Write;
use std::rc::Rc;

use hifijson::token::{Expect, Lex};
use hifijson::{Error, LexAlloc, SliceLexer};

use crate::number::Num;
use crate::value::{Map, Val};

/// How deep lists and objects may lie in each other: as deep as the host reads JSON.
pub(crate) const DEPTH: usize = 126;

/// Exactly one value. `nan` is a number, as in jq.
pub(crate) fn read(bytes: &[u8]) -> Result<Val, String> {
    let mut lexer = SliceLexer::new(bytes);
    let read = lexer.exactly_one(Lex::ws_peek, |next, lexer| value(next, lexer, 0));
    read.map_err(|wrong| {
        let at = bytes.len() - lexer.as_slice().len();
        match wrong {
            Error::Depth => format!("it is nested deeper than {DEPTH} levels"),
            error => format!("{error} at byte {at}"),
        }
    })
}

fn value<L: LexAlloc>(next: u8, lexer: &mut L, depth: usize) -> Result<Val, Error> {
    if matches!(next, b'[' | b'{') && depth == DEPTH {
        return Err(Error::Depth);
    }
    Ok(match next {
        b'n' if lexer.strip_prefix(b"null") => Val::Null,
        b'n' if lexer.strip_prefix(b"nan") => Val::from(f64::NAN),
        b'N' if lexer.strip_prefix(b"NaN") => Val::from(f64::NAN),
        b't' if lexer.strip_prefix(b"true") => Val::Bool(true),
        b'f' if lexer.strip_prefix(b"false") => Val::Bool(false),
        b'0'..=b'9' | b'-' => {
            let number = lexer.num_string().validated();
            let (text, _) = number?;
            Val::Num(Num::parse(text.as_ref()).ok_or(Expect::Value)?)
        }
        b'"' => Val::text(text(lexer)?),
        b'[' => {
            let mut items = Vec::new();
            lexer.discarded().seq(b']', Lex::ws_peek, |next, lexer| {
                items.push(value(next, lexer, depth + 1)?);
                Ok::<_, Error>(())
            })?;
            Val::list(items)
        }
        b'{' => {
            let mut members = Map::default();
            lexer.discarded().seq(b'}', Lex::ws_peek, |next, lexer| {
                if next != b'"' {
                    return Err(Expect::String.into());
                }
                let key = text(lexer)?;
                lexer.expect(Lex::ws_peek, b':').ok_or(Expect::Colon)?;
                let next = lexer.ws_peek().ok_or(Expect::Value)?;
                members.insert(Rc::from(key), value(next, lexer, depth + 1)?);
                Ok::<_, Error>(())
            })?;
            Val::object(members)
        }
        _ => return Err(Expect::Value.into()),
    })
}

fn text<L: LexAlloc>(lexer: &mut L) -> Result<String, Error> {
    let text = lexer.discarded().str_string();
    Ok(text?.as_ref().to_owned())
}

/// Whether more lists and objects than this lie in each other.
pub(crate) fn is_deeper(value: &Val, depth: usize) -> bool {
    let is_below = |value| depth == 0 || is_deeper(value, depth - 1);
    match value {
        Val::Arr(items) => depth == 0 || items.iter().any(is_below),
        Val::Obj(members) => depth == 0 || members.values().any(is_below),
        _ => false,
    }
}

pub(crate) fn write(out: &mut String, value: &Val) {
    write_some(out, value, usize::MAX);
}

/// Writes a value, and stops soon after so many bytes.
pub(crate) fn write_some(out: &mut String, value: &Val, most: usize) {
    match value {
        Val::Null => out.push_str("null"),
        Val::Bool(true) => out.push_str("true"),
        Val::Bool(false) => out.push_str("false"),
        Val::Num(number) => {
            // Writing to a text does not fail.
            let _ = write!(out, "{number}");
        }
        Val::Str(text) => quote(out, text, most),
        Val::Arr(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                if out.len() > most {
                    break;
                }
                write_some(out, item, most);
            }
            out.push(']');
        }
        Val::Obj(members) => {
            out.push('{');
            for (at, (key, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                if out.len() > most {
                    break;
                }
                quote(out, key, most);
                out.push(':');
                write_some(out, value, most);
            }
            out.push('}');
        }
    }
}

fn quote(out: &mut String, text: &str, most: usize) {
    out.push('"');
    let end = text.floor_char_boundary(most.min(text.len()));
    for one in text.get(..end).unwrap_or(text).chars() {
        match one {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{7f}' => {
                // Writing to a text does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(one));
            }
            _ => out.push(one),
        }
    }
    out.push('"');
}
