//! Prints diagnostics of arbitrary text.

use std::borrow::Cow;
use std::ops::Range;

use proptest::prelude::*;
use windlass_model::{Code, Diagnostic, Place, position};
use windlass_test_seeds::Seeds;

use crate::visible::{coloured, is_hidden, json, line, visible};
use crate::{Problems, diagnostics, drawn};

fn at(span: Range<usize>) -> Place {
    Place {
        span: Some(span),
        ..Place::at("/at")
    }
}

fn problems(text: &str, diagnostics: Vec<Diagnostic>) -> Problems {
    Problems {
        name: "file.json".to_owned(),
        text: text.into(),
        diagnostics,
    }
}

fn diagnostic(message: &str, span: Range<usize>) -> Diagnostic {
    Diagnostic::new(Code::new("WL-D016"), message, at(span))
}

/// The drawing of one label.
fn one(text: &str, span: Range<usize>) -> String {
    drawn(&problems(text, vec![diagnostic("wrong", span)]), false)
}

#[test]
fn a_long_line_is_cut_to_the_part_under_the_label() {
    let before = "\"aaaaaaa\",".repeat(100_000);
    let text = format!("[{before}\"wrong\",{before}1]");
    let start = 1 + before.len();
    let shown = one(&text, start..start + 7);
    assert!(shown.contains("[file.json:1:1000002]"), "{shown}");
    assert!(shown.contains("… "), "{shown}");
    assert!(shown.contains(",\"wrong\",\"aaaaaaa\""), "{shown}");
    assert!(shown.len() < 2_000, "{shown}");
    let marks = |line: &&str| line.contains('─') && line.contains('·');
    let marked = shown.lines().find(marks).unwrap_or_default();
    let drawn = shown
        .lines()
        .find(|line| line.contains("\"wrong\""))
        .unwrap();
    let column = |line: &str, what: &str| line.split(what).next().unwrap().chars().count();
    assert_eq!(column(marked, "─"), column(drawn, "\"wrong\""), "{shown}");
}

#[test]
fn columns_count_characters_of_the_whole_line() {
    let text = format!("é\u{1b}{}x\n", "é".repeat(70_000));
    let shown = one(&text, text.len() - 2..text.len() - 1);
    assert!(shown.contains("[file.json:1:70003]"), "{shown}");
    assert_eq!(position(&text, text.len() - 2), (1, 70_003));
}

#[test]
fn labels_far_apart_are_all_drawn() {
    let text = format!(
        "[1,{}2,{}3]\n[4]\n",
        " ".repeat(100_000),
        " ".repeat(100_000)
    );
    let mut wrong = diagnostic("wrong", 1..2);
    let last = text.find('3').unwrap();
    wrong
        .related
        .push((at(last..last + 1), "the other one".to_owned()));
    let shown = drawn(&problems(&text, vec![wrong]), false);
    assert!(shown.contains("[1,"), "{shown}");
    assert!(shown.contains("3]"), "{shown}");
    assert!(shown.contains("the other one"), "{shown}");
    assert!(shown.len() < 3_000, "{shown}");
}

#[test]
fn spans_that_are_wrong_are_moved_into_the_text() {
    for text in ["", "\n", "a", "é", "a\r\nb", "\r", "\u{feff}a: 1\r\n"] {
        for (start, end) in [
            (0, 0),
            (1, 0),
            (0, 1),
            (1, 2),
            (2, 9),
            (9, 2),
            (usize::MAX, usize::MAX),
        ] {
            let shown = one(text, Range { start, end });
            assert!(shown.contains("wrong"), "{text:?} {start} {end}: {shown}");
        }
    }
}

#[test]
fn a_login_in_a_drawn_line_is_hidden_and_its_column_stays() {
    let text = "url: \"http://bob:hunter2@host/\"\nnext: 1";
    let shown = one(text, 5..33);
    assert!(
        !shown.contains("hunter2") && !shown.contains("bob"),
        "{shown}"
    );
    assert!(shown.contains("http://***********@host/"), "{shown}");
    assert!(shown.contains(":1:6]"), "{shown}");
}

#[test]
fn control_characters_are_shown() {
    let hostile = "\x1b[2J\x1b]0;title\x07\u{9b}2J\u{202e}x\0\u{7f}\r";
    let mut wrong = diagnostic(hostile, 0..4);
    wrong.help = Some(hostile.to_owned());
    wrong.related.push((at(1..2), hostile.to_owned()));
    let mut problems = problems(&format!("{hostile} {hostile}\n"), vec![wrong]);
    problems.name = hostile.to_owned();
    let shown = drawn(&problems, false);
    assert!(!shown.chars().any(is_hidden), "{shown:?}");
    assert!(shown.contains("␛[2J"), "{shown}");
    assert!(shown.contains("<U+202E>"), "{shown}");
    let coloured = coloured(&drawn(&problems, true)).into_owned();
    assert!(coloured.contains("\x1b[31m"), "{coloured}");
    assert!(!coloured.contains("\x1b[2J"), "{coloured}");
}

#[test]
fn a_quoted_line_break_begins_no_line() {
    let hostile = "a\nerror[WL-X001]:\u{2028}gone\r\tb";
    let mut wrong = diagnostic(hostile, 0..4);
    wrong.related.push((at(1..2), hostile.to_owned()));
    let mut problems = problems("text of the file\n", vec![wrong]);
    problems.name = hostile.to_owned();
    let shown = drawn(&problems, false);
    let begins = |line: &str| line.trim_start().starts_with("error[");
    assert!(!shown.lines().any(begins), "{shown}");
    assert!(
        shown.contains("a␊error[WL-X001]:<U+2028>gone␍␉b"),
        "{shown}"
    );
}

#[test]
fn only_colours_of_this_program_reach_a_terminal() {
    for kept in ["\x1b[31mred\x1b[0m", "\x1b[36;1;4mlink\x1b[0m", "a\tb\nc"] {
        assert_eq!(coloured(kept), kept);
    }
    for (text, shown) in [
        ("\x1b[2J", "␛[2J"),
        ("\x1b[8m", "␛[8m"),
        ("\x1b[m", "␛[m"),
        ("\x1b[31;8m", "␛[31;8m"),
        ("\x1b]8;;x\x07", "␛]8;;x␇"),
        ("a\r\nb\rc", "a\nb␍c"),
    ] {
        assert_eq!(coloured(text), shown);
        assert_eq!(visible(text), shown);
    }
    assert_eq!(visible("\x1b[31mred"), "␛[31mred");
}

#[test]
fn a_line_stays_one_line() {
    let text = "a\tb\nc\r\nd\x1b[31me\x1b[2J";
    assert_eq!(line(text, false), "a␉b␊c␍␊d␛[31me␛[2J");
    assert_eq!(line(text, true), "a␉b␊c␍␊d\x1b[31me␛[2J");
    assert!(matches!(line("plain", false), Cow::Borrowed("plain")));
}

fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<char>().prop_map(String::from),
        prop::sample::select(vec![
            "\t",
            "\r\n",
            "\n",
            "\r",
            "\0",
            "\x1b[2J",
            "\u{9b}",
            "\u{feff}",
            "\u{202e}",
            "漢字",
            "e\u{301}\u{301}",
            "👩\u{200d}👩",
            "\u{200b}",
            "\u{85}",
            "\u{2028}",
            "{\"a\": ",
            "]",
        ])
        .prop_map(str::to_owned),
        (1..300_usize).prop_map(|count| "x".repeat(count)),
        (1..300_usize).prop_map(|count| "字".repeat(count)),
        (1..20_usize).prop_map(|count| "\n".repeat(count)),
        (1..100_usize).prop_map(|count| "\t".repeat(count)),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

fn span() -> impl Strategy<Value = Range<usize>> {
    let end = prop_oneof![9 => 0..2_000_usize, 1 => Just(usize::MAX)];
    (0..2_000_usize, end).prop_map(|(start, end)| start..end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(Seeds::USUAL.cases()))]

    #[test]
    fn no_text_and_no_span_makes_printing_panic(
        text in nasty(),
        message in nasty(),
        spans in prop::collection::vec(span(), 1..24),
        colour: bool,
    ) {
        let mut found = diagnostic(&message, spans[0].clone());
        found.help = Some(message.clone());
        found.related = spans[1..].iter().map(|span| (at(span.clone()), message.clone())).collect();
        let mut problems = problems(&text, vec![found, diagnostic("wrong", spans[0].clone())]);
        problems.name = message;
        let shown = drawn(&problems, colour);
        prop_assert!(shown.contains("wrong"));
        if !colour {
            prop_assert!(!shown.chars().any(is_hidden), "{:?}", shown);
        }
        diagnostics(&problems);
    }

    #[test]
    fn a_label_is_where_its_line_and_column_say(text in nasty(), span in span()) {
        let start = span.start.min(text.len());
        prop_assume!(text.is_char_boundary(start));
        let line_end = text[start..].find('\n').map_or(text.len(), |end| start + end);
        // Not inside a line break of two characters.
        prop_assume!(text[..line_end].trim_end_matches('\r').len() >= start);
        let (line, column) = position(&text, start);
        let shown = one(&text, start..start);
        let place = format!("[file.json:{line}:{column}]");
        prop_assert!(shown.contains(&place), "{} in {}", place, shown);
    }

    #[test]
    fn shown_texts_have_no_hidden_characters(text in nasty()) {
        prop_assert!(!visible(&text).chars().any(is_hidden));
        prop_assert!(!line(&text, false).chars().any(|c| is_hidden(c) || c == '\n' || c == '\t'));
        let document = serde_json::Value::from(text.clone()).to_string();
        let escaped = json(&document).into_owned();
        prop_assert!(!escaped.chars().any(is_hidden));
        prop_assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
    }
}
