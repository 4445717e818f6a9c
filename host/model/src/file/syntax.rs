//! The probable cause of a syntax error in YAML or JSON.
//!
//! YAML's own messages ("mapping values are not allowed in this context") are no help to authors,
//! so the line is searched for the usual causes.

use std::ops::Range;

use granit_parser::{ErrorKind, ScanError};

use super::reader::cut;
use super::tree::is_printable;
use crate::{Code, Diagnostic, Place, codes};

/// The diagnostic of text that is not YAML.
pub(super) fn yaml_mistake(text: &str, error: &ScanError) -> Diagnostic {
    let at = error.marker().byte_offset().unwrap_or(0).min(text.len());
    if let ErrorKind::UnexpectedCharacter { character } = error.kind()
        && !is_printable(*character)
    {
        return unprintable(text, at, *character);
    }
    let line = line_at(text, at);
    if let Some(diagnostic) = equals_sign(text, at, error) {
        return diagnostic;
    }
    let (code, message, help) = explain(line, column_in(text, at), error);
    let place = Place::spanning(char_at(text, begin(text, at, line, error)));
    let mut diagnostic = Diagnostic::new(code, message, place);
    diagnostic.help = help.map(str::to_owned);
    diagnostic
}

/// A character that a file may have only as an escape, at an offset or behind it.
fn unprintable(text: &str, at: usize, character: char) -> Diagnostic {
    let number = u32::from(character);
    let rest = text.get(at..).unwrap_or_default();
    let at = at + rest.find(character).unwrap_or(0);
    let message =
        format!("the file contains the character U+{number:04X}, which has to be an escape");
    let place = Place::spanning(char_at(text, at));
    Diagnostic::new(codes::SYNTAX, message, place).help(format!(
        "write it as `\\u{number:04X}` in a text in double quotes"
    ))
}

/// Where the mistake begins: parsers notice a quote or brace that does not end only at its end.
fn begin(text: &str, at: usize, line: &str, error: &ScanError) -> usize {
    use ErrorKind as K;
    let before = text.get(..at).unwrap_or_default();
    let value = unquoted_value(line);
    if value.starts_with("{{") || value.starts_with("{%") {
        return value.as_ptr() as usize - text.as_ptr() as usize;
    }
    match error.kind() {
        K::UnclosedQuotedScalar | K::InvalidQuotedScalarIndent => {
            before.rfind(['"', '\'']).unwrap_or(at)
        }
        K::ExpectedFlowMappingSeparator
        | K::ExpectedFlowSequenceSeparator
        | K::UnexpectedEofFlowMapping
        | K::UnexpectedEofFlowSequence
        | K::InvalidColonPlacement => {
            let open = open_brace(before);
            // In one line a comma is missing as likely as a brace.
            open.filter(|open| before.get(*open..).is_some_and(|part| part.contains('\n')))
                .unwrap_or(at)
        }
        _ if error.info().contains("tab") => {
            let tab = text.get(at..).and_then(|rest| rest.find('\t'));
            tab.map_or(at, |tab| at + tab)
        }
        _ => at,
    }
}

/// The last `{` or `[` that is not closed in a text.
fn open_brace(text: &str) -> Option<usize> {
    let (mut open, mut quote) = (Vec::new(), None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{' | '[') => open.push(at),
            (None, '}' | ']') => drop(open.pop()),
            _ => {}
        }
    }
    open.pop()
}

/// `key = value`, which YAML reads as a text that goes on in the next line.
fn equals_sign(text: &str, at: usize, error: &ScanError) -> Option<Diagnostic> {
    let is_key = matches!(
        error.kind(),
        ErrorKind::MappingValueNotAllowed | ErrorKind::ExpectedDocumentStart
    );
    let before = text.get(..at).filter(|_| is_key)?;
    let mut lines = before.rsplit('\n');
    let here = lines.next()?;
    let line = [Some(here), lines.next()]
        .into_iter()
        .flatten()
        .find_map(|line| {
            let (key, value) = line.split_once(" = ")?;
            let is_key = !key.contains(": ") && !key.contains('"') && !key.contains("->");
            is_key.then(|| (line, key.trim().trim_start_matches("- "), value.trim()))
        });
    let (line, key, value) = line?;
    let sign = line.find('=')?;
    let start = line.as_ptr() as usize - text.as_ptr() as usize + sign;
    let message = "a key and its value are separated by a colon, and here is an equals sign";
    let diagnostic = Diagnostic::new(codes::SYNTAX, message, Place::spanning(start..start + 1));
    Some(diagnostic.help(format!("write `{}: {}`", cut(key), cut(value))))
}

/// Bytes of the line before an offset.
fn column_in(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before.len() - before.rfind('\n').map_or(0, |newline| newline + 1)
}

/// Whether the colon at a column of a line stands in a value of a map in braces.
fn colon_in_braces(line: &str, column: usize) -> bool {
    let before = line.get(..column).unwrap_or_default();
    let rest = line.get(column..).unwrap_or_default();
    let value = before.rsplit(['{', ',', '[']).next().unwrap_or_default();
    rest.starts_with(": ") && value.contains(": ")
}

fn explain(line: &str, column: usize, error: &ScanError) -> (Code, String, Option<&'static str>) {
    use ErrorKind as K;
    let value = unquoted_value(line);
    if value.starts_with("{%") {
        let message = "a statement needs quotes: YAML takes `{` for the beginning of a map";
        let help = "put the whole value in quotes, like `\"{% … %}\"`";
        return (codes::NEEDS_QUOTES, message.to_owned(), Some(help));
    }
    if value.starts_with("{{") {
        let message = "an expression needs quotes: YAML takes `{` for the beginning of a map";
        return (
            codes::NEEDS_QUOTES,
            message.to_owned(),
            Some("write `\"{{ … }}\"`"),
        );
    }
    let colon = value.contains(": ") || value.ends_with(':');
    let (code, message, help) = match error.kind() {
        K::TabNotAllowed | K::TabInBlockIndentation | K::TabInIndentation => (
            codes::SYNTAX,
            "a tab stands where YAML wants spaces",
            Some("indent with spaces"),
        ),
        K::RecursionLimitExceeded => (codes::TOO_LARGE, "values nest too deep", None),
        K::DirectiveDisallowed => (
            codes::SYNTAX,
            "a directive has no meaning here",
            Some("leave the line with `%` out: every file is read as YAML 1.2"),
        ),
        K::MappingValueNotAllowed if colon => (
            codes::NEEDS_QUOTES,
            "a value with a colon needs quotes: YAML takes `: ` for the end of a key",
            Some("put the whole value in quotes"),
        ),
        K::MisplacedFlowCollectionEnd | K::MismatchedFlowCollectionEnd { .. } => (
            codes::SYNTAX,
            "a closing `}` or `]` has no partner",
            Some(
                "every `}` has its `{` and every `]` its `[`: leave it out, or close the right one",
            ),
        ),
        K::UnknownQuotedScalarEscape
        | K::InvalidQuotedScalarHexEscape
        | K::InvalidLowSurrogateHexEscape => (
            codes::SYNTAX,
            "a text in double quotes has a `\\` that begins no escape",
            Some("write `\\\\` for a backslash, or put the text in single quotes"),
        ),
        K::ExpectedFlowMappingSeparator | K::InvalidColonPlacement | K::MappingValueNotAllowed
            if colon_in_braces(line, column) =>
        {
            (
                codes::NEEDS_QUOTES,
                "a colon stands inside of a value: the value needs quotes, or a comma is missing before the key",
                Some(
                    "put the whole value in quotes, like `{ fail: \"Error: no stock\" }`, or write `{ a: 1, b: 2 }`",
                ),
            )
        }
        K::UnexpectedCharacter { .. } | K::MissingAnchorOrAliasName => (
            codes::NEEDS_QUOTES,
            "a value that begins with a sign of YAML's own needs quotes",
            Some("put the whole value in quotes"),
        ),
        K::InvalidTrailingDoubleQuotedScalar | K::InvalidTrailingSingleQuotedScalar => (
            codes::NEEDS_QUOTES,
            "a value that begins with a quote ends with it, and something follows",
            Some("put the whole value in quotes of the other kind, like `'\"x\" == vars.y'`"),
        ),
        K::UnclosedQuotedScalar | K::InvalidQuotedScalarIndent => (
            codes::SYNTAX,
            "this quote is not closed",
            Some("end the value with the same quote"),
        ),
        K::ExpectedFlowMappingSeparator
        | K::ExpectedFlowSequenceSeparator
        | K::UnclosedFlowCollection { .. }
        | K::UnexpectedEofFlowMapping
        | K::UnexpectedEofFlowSequence
        | K::InvalidColonPlacement => (
            codes::SYNTAX,
            "a `{` or `[` is not closed, or a comma is missing",
            Some(
                "every `{` has its `}` and every `[` its `]`; a value with `: ` in it needs quotes",
            ),
        ),
        K::ExpectedBlockMappingKey
        | K::ExpectedBlockSequenceEntry
        | K::InvalidIndentation
        | K::MappingValueNotAllowed
        | K::BlockSequenceEntryNotAllowed => (
            codes::SYNTAX,
            "the line does not fit to the lines before it",
            Some("the lines of one block are indented by the same number of spaces"),
        ),
        _ if error.info().contains("tab") => (
            codes::SYNTAX,
            "a tab stands where YAML wants spaces",
            Some("indent with spaces"),
        ),
        _ => {
            return (
                codes::SYNTAX,
                format!("this is not YAML: {}", error.info()),
                None,
            );
        }
    };
    (code, message.to_owned(), help)
}

/// The diagnostic of text that is not JSON.
pub(super) fn json_mistake(text: &str, error: &serde_json::Error) -> Diagnostic {
    let line_start = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum::<usize>();
    let at = (line_start + error.column().saturating_sub(1)).min(text.len());
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let (at, message, help) = explain_json(text, at, error, message);
    let place = Place::spanning(char_at(text, at));
    let mut diagnostic = Diagnostic::new(codes::SYNTAX, message, place);
    diagnostic.help = help.map(str::to_owned);
    diagnostic
}

/// The place, the message and the remedy of a mistake in JSON.
fn explain_json(
    text: &str,
    at: usize,
    error: &serde_json::Error,
    message: &str,
) -> (usize, String, Option<&'static str>) {
    let rest = text.get(at..).unwrap_or_default();
    let before = text.get(..at).unwrap_or_default().trim_end();
    let (at, message, help) = match rest.chars().next() {
        _ if error.is_eof() => (
            text.trim_end().len(),
            "the file ends before all braces and brackets are closed",
            "every `{` has its `}` and every `[` its `]`",
        ),
        Some('}' | ']') if before.ends_with(',') => (
            before.len() - 1,
            "a comma stands before a closing brace or bracket",
            "leave the last comma out",
        ),
        Some('/' | '#') => (
            at,
            "JSON has no comments",
            "leave the comment out, or give the file a name that ends in `.yaml`",
        ),
        Some('\'') => (
            at,
            "a text of JSON stands in double quotes",
            "write `\"…\"`",
        ),
        Some(c) if before.is_empty() && !matches!(c, '{' | '[' | '"') => (
            at,
            "this is not JSON",
            "the name of the file ends in `.json`; if the file is YAML, let it end in `.yaml`",
        ),
        Some(c) if message.contains("key must be a string") && c.is_alphabetic() => (
            at,
            "a key of JSON stands in double quotes",
            "write `\"key\": value`",
        ),
        Some(_) if message.contains("expected `,`") => (
            before.len(),
            "a comma is missing before the next value",
            "values and members are separated by commas",
        ),
        _ => return (at, format!("this is not JSON: {message}"), None),
    };
    (at, message.to_owned(), Some(help))
}

/// The value after the key or dash of a line, if it does not begin with a quote.
fn unquoted_value(line: &str) -> &str {
    let line = line.trim().trim_start_matches("- ").trim_start();
    let value = line
        .split_once(": ")
        .map_or(line, |(_, value)| value.trim_start());
    if value.starts_with(['"', '\'', '#']) {
        ""
    } else {
        value
    }
}

fn line_at(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    // A parser often notices a mistake only at the beginning of the next line.
    let before = before.strip_suffix('\n').unwrap_or(before);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    text.get(start..)
        .and_then(|rest| rest.lines().next())
        .unwrap_or_default()
}

/// The range of one character, so that the message has a part to underline.
fn char_at(text: &str, at: usize) -> Range<usize> {
    let start = (0..=at)
        .rev()
        .find(|index| text.is_char_boundary(*index))
        .unwrap_or(0);
    let length = text
        .get(start..)
        .and_then(|rest| rest.chars().next())
        .map_or(0, char::len_utf8);
    start..start + length
}
