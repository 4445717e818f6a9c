//! Foreign text in a page of Markdown.
//!
//! The texts of a description and the results of its nodes come from the author of a plugin, or from
//! an attacker. On a page they are words: none begins a heading, a list, a link or a row, and none is
//! HTML. Each piece is cleaned as for a terminal and has the bounds of [`visible::sentence`].

use windlass_display::visible;

/// The most bytes of a block of code.
pub(super) const BLOCK_BYTES: usize = 4_000;

/// The most paragraphs of a text.
const PARAGRAPHS: usize = 8;

/// A text of several paragraphs. Line breaks inside of a paragraph are spaces.
pub(super) fn paragraphs(text: &str) -> Vec<String> {
    let (mut found, mut paragraph) = (Vec::new(), String::new());
    for line in text.lines().map(str::trim).chain([""]) {
        if !line.is_empty() {
            paragraph.push_str(line);
            paragraph.push(' ');
        } else if !paragraph.is_empty() {
            found.push(prose(&std::mem::take(&mut paragraph)));
            if found.len() == PARAGRAPHS {
                break;
            }
        }
    }
    found
}

/// A text as one paragraph, or in a cell. Text between two backticks stays code.
pub(super) fn prose(text: &str) -> String {
    let text = one_line(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    // These begin a block at the start of a line, as does a number with a point or a parenthesis.
    let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = rest.len() - digits.len();
    if rest.starts_with(['-', '+', '=', ':']) {
        out.push('\\');
    } else if number > 0
        && digits.starts_with(['.', ')'])
        && let Some((head, tail)) = rest.split_at_checked(number)
    {
        out.push_str(head);
        out.push('\\');
        rest = tail;
    }
    while let Some((before, after)) = rest.split_once('`') {
        escape(before, &mut out);
        rest = match after.split_once('`') {
            Some((inner, behind)) if !inner.trim().is_empty() => {
                push_code(inner, &mut out);
                behind
            }
            _ => {
                escape("`", &mut out);
                after
            }
        };
    }
    escape(rest, &mut out);
    out
}

/// A name or a value as code, in a paragraph or in a cell.
pub(super) fn code(text: &str) -> String {
    let mut out = String::new();
    push_code(&one_line(text), &mut out);
    out
}

fn push_code(text: &str, out: &mut String) {
    // A second span right behind a first one would join it, and so would a backtick. A bar begins a
    // cell also in code.
    let is_plain = !text.contains(['`', '|', '<']) && !text.trim().is_empty();
    if is_plain && !out.ends_with('`') {
        out.push('`');
        out.push_str(text);
        out.push('`');
    } else {
        out.push_str("<code>");
        escape(text, out);
        out.push_str("</code>");
    }
}

/// A block of code, whose lines are kept. A long text loses its end.
pub(super) fn block(language: &str, text: &str) -> String {
    let cut = text.floor_char_boundary(BLOCK_BYTES);
    let (head, is_cut) = (text.get(..cut).unwrap_or_default(), cut < text.len());
    let mut lines: Vec<_> = head
        .lines()
        .map(|line| visible::line(line, false))
        .collect();
    if is_cut {
        lines.push("…".into());
    }
    let fence = "`".repeat(longest_run(head).max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", lines.join("\n"))
}

/// The most backticks in a row.
fn longest_run(text: &str) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// A text on one line, cleaned, with its spaces collapsed and without its middle if it is long.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    visible::sentence(words.join(" "))
}

/// Takes the meaning from each character that has one in Markdown or in HTML.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '`' => out.push_str("&#96;"),
            '\\' | '*' | '_' | '[' | ']' | '{' | '|' | '~' | '^' | '$' | '#' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_words_on_one_line() {
        let cases = [
            ("Sends an  event.\nOnce.", "Sends an event. Once."),
            ("`GET` if absent, `{ a: b }`", "`GET` if absent, `{ a: b }`"),
            ("a | b", r"a \| b"),
            (
                "`a|b` and `<i>`",
                r"<code>a\|b</code> and <code>&lt;i&gt;</code>",
            ),
            ("a ` b", "a &#96; b"),
            ("``a``", "&#96;`a`&#96;"),
            ("`a``b`", "`a`<code>b</code>"),
            ("`a``<b>`", "`a`<code>&lt;b&gt;</code>"),
            ("# a", r"\# a"),
            ("- a", r"\- a"),
            ("12. a", r"12\. a"),
            ("12) a", r"12\) a"),
            ("12 a", "12 a"),
            ("---", r"\---"),
            ("===", r"\==="),
            ("> a", "&gt; a"),
            ("~~~", r"\~\~\~"),
            ("<script>", "&lt;script&gt;"),
            ("&lt;", "&amp;lt;"),
            ("![a](b)", r"!\[a\](b)"),
            (r"a\|b", r"a\\\|b"),
            ("\x1b[2J\u{202e}", r"␛\[2J&lt;U+202E&gt;"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(prose(text), expected, "{text}");
        }
        assert!(prose(&"<".repeat(1_000_000)).len() < 5 * visible::SENTENCE_BYTES);
    }

    #[test]
    fn code_is_one_span() {
        assert_eq!(code("a.b[]"), "`a.b[]`");
        assert_eq!(code("a`b"), "<code>a&#96;b</code>");
        assert_eq!(code("a\n\nb"), "`a b`");
        assert_eq!(code(""), "<code></code>");
    }

    #[test]
    fn a_text_has_paragraphs_at_empty_lines() {
        let text = "One\nline.\r\n\r\n  # Two.\n\n\n";
        assert_eq!(paragraphs(text), ["One line.", r"\# Two."]);
        assert_eq!(paragraphs(&"a\n\n".repeat(100)).len(), PARAGRAPHS);
        assert_eq!(paragraphs(" \n"), [""; 0]);
    }

    #[test]
    fn a_block_ends_at_its_own_fence() {
        assert_eq!(block("json", "{}"), "```json\n{}\n```");
        assert_eq!(block("text", "```\n````"), "`````text\n```\n````\n`````");
        assert_eq!(block("text", "a\r\n\x1b[2Jb"), "```text\na\n␛[2Jb\n```");
        let long = block("text", &"é\n".repeat(100_000));
        assert!(long.len() < BLOCK_BYTES + 20 && long.ends_with("\n…\n```"));
    }
}
