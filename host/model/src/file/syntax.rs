//! The probable cause of a syntax error in YAML or JSON.
//!
//! YAML's own messages ("mapping values are not allowed in this context") are no help to authors,
//! so the line is searched for the usual causes.

use std::ops::Range;

use granit_parser::{ErrorKind, ScanError};

use crate::{Code, Diagnostic, Place, codes};

/// The diagnostic of text that is not YAML.
pub(super) fn yaml_mistake(text: &str, error: &ScanError) -> Diagnostic {
    let at = error.marker().byte_offset().unwrap_or(0).min(text.len());
    let line = line_at(text, at);
    let (code, message, help) = explain(line, error);
    let place = Place {
        pointer: String::new(),
        span: Some(char_at(text, at)),
    };
    let mut diagnostic = Diagnostic::new(code, message, place);
    diagnostic.help = help.map(str::to_owned);
    diagnostic
}

fn explain(line: &str, error: &ScanError) -> (Code, String, Option<&'static str>) {
    use ErrorKind as K;
    let value = unquoted_value(line);
    if value.starts_with("{{") || value.starts_with("{%") {
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
            "a quote does not end",
            Some("look for its beginning before here"),
        ),
        K::ExpectedFlowMappingSeparator
        | K::ExpectedFlowSequenceSeparator
        | K::UnclosedFlowCollection { .. }
        | K::UnexpectedEofFlowMapping
        | K::UnexpectedEofFlowSequence
        | K::InvalidColonPlacement => (
            codes::SYNTAX,
            "a `{` or `[` is not closed before here, or a comma is missing",
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
            Some("what belongs together is indented by the same number of spaces"),
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
    let message = message
        .split(" at line ")
        .next()
        .unwrap_or_default()
        .to_owned();
    let place = Place {
        pointer: String::new(),
        span: Some(char_at(text, at)),
    };
    let diagnostic = Diagnostic::new(codes::SYNTAX, format!("this is not JSON: {message}"), place);
    if message.contains("trailing comma") {
        return diagnostic.help("leave the last comma out");
    }
    diagnostic
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
