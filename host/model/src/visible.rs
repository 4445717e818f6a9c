//! Cleans foreign text, so that it cannot control a terminal or begin a line of its own.
//!
//! Workflow files, names of files, plugins, answers of servers and lines of guests may contain any
//! characters. A terminal executes control characters, and characters that change the direction of a
//! text hide its content. Both are replaced by a visible form: a picture of the character, or its
//! number. Everything that prints, logs or quotes foreign text uses this module.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character has an effect instead of being visible. Line breaks and tabs do not count,
/// nor do joiners, which some scripts need.
pub fn is_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}'
        | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

/// A hidden character as text.
pub fn push(c: char, out: &mut String) {
    match c {
        '\0'..='\u{1f}' => out.extend(char::from_u32(0x2400 + u32::from(c))),
        '\u{7f}' => out.push('\u{2421}'),
        // Writing into a string cannot fail.
        _ => drop(write!(out, "<U+{:04X}>", u32::from(c))),
    }
}

/// A text with all its hidden characters made visible. A line break of two characters is kept.
pub fn visible(text: &str) -> Cow<'_, str> {
    shown(text, is_hidden, |_| None)
}

/// As [`visible`], for a cell of a table or a line of a log: also line breaks and tabs are made
/// visible, so that the text cannot begin another row. With `colours`, the text may contain colours
/// of this program.
pub fn line(text: &str, colours: bool) -> Cow<'_, str> {
    let moves = |c| is_hidden(c) || matches!(c, '\n' | '\t');
    shown(text, moves, |rest| colours.then(|| colour(rest)).flatten())
}

/// The most bytes of a [`sentence`].
pub const SENTENCE_BYTES: usize = 2_000;

/// The bytes of the end of a sentence that stay when its middle is left out.
const END_BYTES: usize = 500;

/// A sentence that may quote foreign text: one line, with its hidden characters made visible, and
/// without its middle if it is longer than [`SENTENCE_BYTES`].
pub fn sentence(text: impl Into<String>) -> String {
    let text = text.into();
    let text = shortened(&text, SENTENCE_BYTES, END_BYTES).unwrap_or(text);
    match line(&text, false) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    }
}

/// As [`sentence`], for a text of several lines.
pub fn lines(text: impl Into<String>) -> String {
    let text = text.into();
    let text = shortened(&text, SENTENCE_BYTES, END_BYTES).unwrap_or(text);
    match visible(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    }
}

/// A text without its middle, if it is longer than so many bytes; `end` of them are its end.
pub fn shortened(text: &str, most: usize, end: usize) -> Option<String> {
    if text.len() <= most {
        return None;
    }
    let head = text.floor_char_boundary(most.saturating_sub(end));
    let tail = text.ceil_char_boundary(text.len().saturating_sub(end));
    let (head, tail) = (text.get(..head)?, text.get(tail..)?);
    Some(format!("{head} … {tail}"))
}

/// As [`visible`], for a text that may contain colours of this program.
pub fn coloured(text: &str) -> Cow<'_, str> {
    shown(text, is_hidden, colour)
}

/// The length of the colour that a text begins with.
fn colour(text: &str) -> Option<usize> {
    let (codes, _) = text.strip_prefix("\x1b[")?.split_once('m')?;
    let known = |code: &str| {
        matches!(code, "0" | "1" | "2" | "3" | "4" | "22" | "24" | "39")
            || matches!(code.as_bytes(), [b'3', b'1'..=b'6'])
    };
    codes.split(';').all(known).then_some(codes.len() + 3)
}

/// A JSON document with all its hidden characters escaped, which does not change its values.
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut units) {
                // Writing into a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn shown(
    text: &str,
    hides: impl Fn(char) -> bool,
    passes: impl Fn(&str) -> Option<usize>,
) -> Cow<'_, str> {
    if !text.chars().any(&hides) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        let rest = text.get(at..).unwrap_or_default();
        if !hides(c) {
            out.push(c);
        } else if rest.starts_with("\r\n") && !hides('\n') {
            // The next character is the line break.
        } else if let Some(passed) = passes(rest).and_then(|length| rest.get(..length)) {
            out.push_str(passed);
            chars.by_ref().take(passed.len() - 1).for_each(drop);
        } else {
            push(c, &mut out);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_one_line_of_bounded_length() {
        assert_eq!(sentence("a `b` is wrong"), "a `b` is wrong");
        assert_eq!(sentence("a\n\x1b[2J\u{202e}"), "a␊␛[2J<U+202E>");
        assert_eq!(lines("a\n\x1b[2J\u{202e}"), "a\n␛[2J<U+202E>");
        assert!(lines("é\n".repeat(1_000_000)).len() <= SENTENCE_BYTES + 10);
        let long = format!("there is no key `{}` here", "é".repeat(1_000_000));
        let short = sentence(long);
        assert!(short.len() <= SENTENCE_BYTES + 10, "{}", short.len());
        assert!(short.starts_with("there is no key `é") && short.ends_with("é` here"));
        assert!(short.contains(" … "));
        let clean = sentence("\n".repeat(1_000_000));
        assert!(clean.len() < 3 * SENTENCE_BYTES + 10, "{}", clean.len());
        assert_eq!(shortened("abc", 3, 1), None);
        assert_eq!(shortened("abcd", 3, 1).as_deref(), Some("ab … d"));
        assert_eq!(shortened("ééé", 3, 1).as_deref(), Some("é … "));
    }
}
