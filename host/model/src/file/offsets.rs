//! Where a part of a text stands in the file.
//!
//! Quotes, escapes, folded lines and the indentation of a block make the text of a value differ from
//! its part of the file. A message about one character of the text needs the offset in the file.
//! Reading stays free of this: the two are compared only when there is a mistake to show.

use std::iter::Peekable;
use std::ops::Range;
use std::str::CharIndices;

/// The place in `file` of the bytes `part` of `text`, which was read from `span`. None if the text
/// and the file do not fit together, like for an alias.
pub(super) fn in_file(
    file: &str,
    span: &Range<usize>,
    text: &str,
    part: Range<usize>,
) -> Option<Range<usize>> {
    let mut source = Source::new(file.get(span.clone())?);
    let (mut start, mut end) = (None, None);
    for (at, c) in text.char_indices() {
        let before = source.skip_to(c)?;
        if at >= part.start {
            start.get_or_insert(before);
        }
        if at >= part.end {
            end.get_or_insert(before);
            break;
        }
        source.take(c)?;
        if at + c.len_utf8() == part.end {
            // The end of a part is right behind it, and not behind the line break that follows.
            end = Some(source.offset());
        }
    }
    let behind = source.offset();
    let (start, end) = (start.unwrap_or(behind), end.unwrap_or(behind));
    Some(span.start + start..span.start + end.max(start))
}

/// The part of a file that a text was read from.
struct Source<'f> {
    chars: Peekable<CharIndices<'f>>,
    length: usize,
    style: Style,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Without quotes, or a block.
    Plain,
    Single,
    Double,
}

impl<'f> Source<'f> {
    fn new(part: &'f str) -> Self {
        let mut chars = part.char_indices().peekable();
        let style = match chars.peek() {
            Some((_, '"')) => Style::Double,
            Some((_, '\'')) => Style::Single,
            _ => Style::Plain,
        };
        if style != Style::Plain {
            chars.next();
        }
        Self {
            chars,
            length: part.len(),
            style,
        }
    }

    fn offset(&mut self) -> usize {
        self.chars.peek().map_or(self.length, |(at, _)| *at)
    }

    fn next(&mut self) -> Option<char> {
        self.chars.next().map(|(_, c)| c)
    }

    fn peek(&mut self) -> Option<char> {
        self.chars.peek().map(|(_, c)| *c)
    }

    /// Skips indentation and line breaks that are not part of the text, and returns the offset of
    /// the next character, which is `wanted`.
    fn skip_to(&mut self, wanted: char) -> Option<usize> {
        loop {
            let here = self.offset();
            match self.peek()? {
                c if c == wanted => return Some(here),
                // A line break is folded into a space.
                '\n' if wanted == ' ' => return Some(here),
                '\\' if self.style == Style::Double => {
                    let mut ahead = self.chars.clone();
                    ahead.next();
                    match ahead.peek() {
                        // An escaped line break is not part of the text.
                        Some((_, '\n' | '\r')) => self.chars = ahead,
                        _ => return Some(here),
                    }
                }
                c if c.is_whitespace() => drop(self.next()),
                _ => return None,
            }
        }
    }

    /// Consumes what stands for `c` in the file.
    fn take(&mut self, c: char) -> Option<()> {
        match (self.style, self.next()?) {
            (Style::Double, '\\') => self.escape(c),
            (Style::Single, '\'') => (self.next()? == '\'').then_some(()),
            _ => Some(()),
        }
    }

    /// Consumes the rest of an escape for `c`, whose backslash is consumed.
    fn escape(&mut self, c: char) -> Option<()> {
        let digits = match self.next()? {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return Some(()),
        };
        (0..digits).try_for_each(|_| self.next().map(drop))?;
        // JSON writes a character beyond the first 65,536 as two escapes.
        if digits == 4 && u32::from(c) > 0xffff {
            (0..6).try_for_each(|_| self.next().map(drop))?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::in_file;

    /// Checks that `part` of `text` stands at the mark `^` in the file; the mark is not in it.
    #[track_caller]
    fn check(marked: &str, text: &str, part: &str) {
        let file = marked.replace('^', "");
        let expected = marked.find('^').unwrap();
        let at = text.find(part).unwrap();
        let found = in_file(&file, &(0..file.len()), text, at..at + part.len()).unwrap();
        assert_eq!(found.start, expected, "{file}");
        let shown = file.get(found).unwrap();
        assert!(shown.len() >= part.len(), "{file}: {shown}");
    }

    #[test]
    fn parts_are_found_in_every_style() {
        check("it is ^here", "it is here", "here");
        check("grö\u{df}er ^here", "grö\u{df}er here", "here");
        check("\"a \\\"b\\\"\\t^here\"", "a \"b\"\there", "here");
        check("\"\\u00e9\\x41 ^here\"", "éA here", "here");
        check("\"\\ud83d\\ude00^here\"", "\u{1f600}here", "here");
        check("\"a\\\n  b ^here\"", "ab here", "here");
        check("'it''s ^here'", "it's here", "here");
        check("one\n      two ^here\n", "one two here", "here");
        check("one\n      two ^here\n", "one\ntwo here\n", "here");
        check("one\n\n      two ^here\n", "one\ntwo here\n", "here");
        check("one\r\n      two ^here\r\n", "one\ntwo here\n", "here");
    }

    #[test]
    fn an_offset_outside_the_text_has_no_place() {
        assert_eq!(in_file("*name", &(0..5), "text", 0..1), None);
        assert_eq!(in_file("\"\\u00", &(0..5), "ab", 1..2), None);
        assert_eq!(in_file("ab", &(1..7), "ab", 0..1), None);
    }

    #[test]
    fn a_place_at_the_end_is_behind_the_text() {
        assert_eq!(in_file("a b", &(0..3), "a b", 3..3), Some(3..3));
    }
}
