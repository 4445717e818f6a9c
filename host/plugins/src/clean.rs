//! Texts of guests, made safe to store and to show.

use windlass_model::limits::MESSAGE_BYTES;
use windlass_model::visible;

/// A text of a guest on one line.
pub(crate) fn escape(text: &str) -> String {
    visible::line(text, false).into_owned()
}

/// Cleans each line of a text, and keeps the lines.
pub(crate) fn escape_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(escape).collect();
    lines.join("\n")
}

/// A text of a guest, made safe to store and to show.
pub(crate) fn message(text: &str) -> String {
    let mut end = text.len().min(MESSAGE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    escape(text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_and_control_characters_are_made_visible() {
        assert_eq!(escape_lines("a\r\n\u{1b}b\tc\n"), "a\n␛b␉c");
        assert_eq!(escape("a\nb"), "a␊b");
    }
}
