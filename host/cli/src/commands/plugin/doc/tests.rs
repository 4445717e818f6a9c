//! Pages of hostile descriptions, read by a parser of Markdown.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde_json::{Map, Value, json};
use windlass_display::visible;
use windlass_model::{Class, LogLine};
use windlass_plugins::{Description, Purity};
use windlass_test_seeds::Seeds;

use super::members::{ROWS, members};
use super::page::{Called, PAGE_BYTES, Subject, page};
use crate::commands::plugin::example::{Ask, Example, Got, Ran};

/// The parts of a page that a reader sees.
#[derive(Debug, Default)]
struct Seen {
    headings: Vec<String>,
    paragraphs: Vec<String>,
    /// Rows of all tables, with their heads.
    rows: Vec<Vec<String>>,
    /// Blocks of code, with their languages.
    blocks: Vec<(String, String)>,
    /// What no foreign text may become.
    strange: Vec<String>,
}

fn seen(page: &str) -> Seen {
    let mut seen = Seen::default();
    let (mut text, mut row, mut language) = (String::new(), Vec::new(), None);
    // Smart punctuation changes texts.
    let options = Options::all() - Options::ENABLE_SMART_PUNCTUATION;
    for event in Parser::new_ext(page, options) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(of))) => {
                (language, text) = (Some(of.into_string()), String::new());
            }
            Event::Start(Tag::Heading { .. } | Tag::Paragraph | Tag::TableCell | Tag::Item) => {
                text.clear()
            }
            Event::Text(more) | Event::Code(more) => text.push_str(&more),
            Event::InlineHtml(html) if ["<code>", "</code>"].contains(&&*html) => {}
            Event::End(TagEnd::Heading(_)) => seen.headings.push(std::mem::take(&mut text)),
            Event::End(TagEnd::Paragraph | TagEnd::Item) => {
                seen.paragraphs.push(std::mem::take(&mut text));
            }
            Event::End(TagEnd::TableCell) => row.push(std::mem::take(&mut text)),
            Event::End(TagEnd::TableHead | TagEnd::TableRow) => {
                seen.rows.push(std::mem::take(&mut row));
            }
            Event::End(TagEnd::CodeBlock) => {
                let text = std::mem::take(&mut text);
                seen.blocks
                    .push((language.take().unwrap_or_default(), text));
            }
            Event::Start(
                Tag::Table(_) | Tag::TableHead | Tag::TableRow | Tag::List(None) | Tag::Strong,
            )
            | Event::End(TagEnd::Table | TagEnd::List(false) | TagEnd::Strong) => {}
            other => seen.strange.push(format!("{other:?}")),
        }
    }
    seen
}

fn description(document: &Value) -> Description {
    Description::read("it", document.to_string().as_bytes()).unwrap()
}

fn page_of(document: &Value, called: &[Called<'_>]) -> String {
    let description = description(document);
    let subject = Subject {
        description: &description,
        purity: Purity::Pure,
        imports: &[],
    };
    page(&subject, called)
}

/// A description with one node, and a text wherever a description has one.
fn hostile(text: &str) -> Value {
    let schema = json!({
        "type": "object",
        "description": text,
        "properties": { text: {
            "description": text, "default": text, "enum": [text, [text]], "pattern": "a|b`c|",
        } },
        "required": [text],
        "$defs": { "x": true },
    });
    json!({
        "windlass": 1, "package": "it", "version": "1.2.3-rc.1+a", "title": text,
        "description": text,
        "nodes": [{
            "name": "node", "title": text, "description": text, "ports": [text],
            "capabilities": [text], "resources": { "instance": "run" },
            "config": schema, "input": schema, "output": schema,
        }],
        "consumer": { "types": [text], "routes": [text] },
    })
}

/// A text without its spaces and without the marks of code.
fn bare(text: &str) -> String {
    let is_bare = |c: &char| !c.is_whitespace() && *c != '`';
    text.chars().filter(is_bare).collect()
}

/// As [`bare`], of a text as a page shows it.
fn shown(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    bare(&visible::sentence(words.join(" ")))
}

/// Each text of the description stands on its page as it is, and nothing else comes of it.
#[track_caller]
fn check(text: &str) {
    let page = page_of(&hostile(text), &[]);
    let seen = seen(&page);
    assert_eq!(seen.strange, [""; 0], "{text:?}:\n{page}");
    let heads: Vec<&str> = seen.headings.iter().skip(1).map(String::as_str).collect();
    let expected = [
        "it/node",
        "Configuration: with",
        "Input",
        "Output",
        "Consumer",
    ];
    assert_eq!(heads, expected, "{text:?}:\n{page}");
    let title = bare(seen.headings.first().unwrap());
    assert!(title.ends_with(&shown(text)), "{title}");
    assert_eq!(seen.rows.len(), 6, "{text:?}:\n{page}");
    for row in &seen.rows {
        assert_eq!(row.len(), 6, "{text:?}: {row:?}\n{page}");
    }
    for row in seen.rows.iter().skip(1).step_by(2) {
        assert_eq!(bare(row.last().unwrap()), shown(text), "{page}");
    }
    let paragraphs = seen.paragraphs.iter().map(|it| bare(it));
    let paragraphs: BTreeSet<_> = paragraphs.collect();
    // Empty lines divide a description, and the text of a schema is one line.
    assert!(paragraphs.contains(&shown(text)), "{text:?}:\n{page}");
}

#[test]
fn no_text_of_a_description_is_more_than_a_text() {
    for text in [
        "a",
        "a\nb",
        "a\n\n# b\n\n| c |\n|---|\n| d |",
        "| a | b |",
        "a|b",
        r"a\|b",
        r"\",
        "`a|b`",
        "```\na\n```",
        "a ` b",
        "``a`b``|`",
        "`a``<b>`c`",
        "<script>alert(1)</script>",
        "<!-- a",
        "&lt;&#124;&amp;",
        "[a](javascript:b)",
        "![a](b)",
        "[a]: b",
        "[^1]: a",
        "<https://a.example>",
        "- [ ] a",
        "1. a",
        "---",
        "===",
        "> a",
        "    a",
        "\ta",
        "**a** _b_ ~~c~~ $d$ ~e~ ^f^",
        ":::a",
        "+++",
        "\x1b[2J\u{202e}\u{2028}\u{0}",
        "a {#b}",
        "=\\=",
    ] {
        check(text);
    }
    check(&"x".repeat(20_000));
    check(&"<|`\n".repeat(4_000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(Seeds::USUAL.cases()))]

    #[test]
    fn no_random_text_is_more_than_a_text(text in "[a1`|<>&*_~#+=.)$!\\-\\\\\\[\\](): \n]{1,30}") {
        // A description may be empty, and then it has no place on the page.
        prop_assume!(!shown(&text).is_empty());
        check(&text);
    }
}

fn done(value: Value) -> Got {
    Got {
        what: "done",
        class: None,
        value,
        ports: vec!["done".to_owned()],
        message: String::new(),
    }
}

fn ran(got: Got, log: &str) -> Ran {
    let line = |text: &str| LogLine {
        level: "info".to_owned(),
        message: text.to_owned(),
        fields: vec![("a".to_owned(), text.to_owned())],
    };
    Ran {
        got,
        logs: vec![line(log); if log.is_empty() { 0 } else { 100 }],
        effects: Vec::new(),
        took: Duration::ZERO,
        memory_bytes: 0,
    }
}

#[test]
fn a_result_stands_in_blocks_of_its_own() {
    let document = hostile("a");
    let node = Arc::clone(description(&document).node("node").unwrap());
    let fence = "```\n````\n# a\n\u{1b}[2J";
    let ask = Ask::Node {
        node,
        with: json!({ "a": fence }),
        input: json!([fence, 1]),
    };
    let example = Example::of("`<b>|", ask);
    let failed = Got {
        what: "failure",
        class: Some(Class::Invalid),
        value: Value::Null,
        ports: Vec::new(),
        message: fence.to_owned(),
    };
    let called: Vec<_> = [ran(done(json!({ "x": fence })), fence), ran(failed, "")]
        .into_iter()
        .chain((0..30).map(|_| ran(done(json!(1)), "")))
        .map(|ran| Called {
            example: &example,
            ran,
        })
        .collect();
    let page = page_of(&document, &called);
    let seen = seen(&page);
    assert_eq!(seen.strange, [""; 0], "{page}");
    let examples = seen
        .headings
        .iter()
        .filter(|it| it.starts_with("Example: "));
    assert_eq!(examples.clone().count(), 20);
    assert!(examples.clone().all(|it| it == "Example: `<b>|"), "{page}");
    assert!(page.contains("\n12 further examples are left out.\n"));
    let (languages, blocks): (Vec<_>, Vec<_>) = seen.blocks.iter().take(6).cloned().unzip();
    assert_eq!(languages, ["json", "json", "json", "text", "json", "json"]);
    let value = |at: usize| serde_json::from_str::<Value>(&blocks[at]).unwrap();
    assert_eq!(value(0), json!({ "a": fence }));
    assert_eq!(value(1), json!([fence, 1]));
    assert_eq!(value(2), json!({ "x": fence }));
    assert!(
        blocks[3].starts_with("info  ```\n````\n# a\n␛[2J a=```\n"),
        "{}",
        blocks[3]
    );
    assert!(blocks[3].ends_with("… 50 further lines\n"), "{}", blocks[3]);
    assert!(page.contains("It fails with a failure of class `invalid`:"));
}

/// The rows of a schema: member, type, whether required, default, bounds and meaning.
#[track_caller]
fn check_rows(schema: Value, expected: &[&str]) {
    let found = members(&schema, true);
    let rows: Vec<String> = found
        .rows
        .iter()
        .map(|row| {
            let required = if row.required { "required" } else { "" };
            let cells = [
                &row.member,
                &row.kind,
                required,
                &row.default,
                &row.bounds,
                &row.meaning,
            ];
            cells.map(str::trim).join("; ").replace('`', "")
        })
        .collect();
    assert_eq!(rows, expected, "{schema}");
    assert!(!found.is_cut);
}

#[test]
fn a_table_has_the_members_of_members_and_of_items() {
    check_rows(json!(true), &[]);
    check_rows(
        json!({
            "type": "object",
            "properties": {
                "a": { "type": "string", "minLength": 1, "maxLength": 9, "pattern": "^x", "format": "uri", "x-raw": true },
                "b": { "$ref": "#/$defs/order", "description": "The order." },
                "c": { "type": ["integer", "null"], "minimum": 0, "format": "uint8", "default": 7 },
                "d": { "enum": ["x", 1, null], "default": null },
                "e e": { "type": "array", "items": { "type": "integer", "maximum": 3 }, "uniqueItems": true },
                "f": { "type": "object", "additionalProperties": { "type": "boolean" } },
            },
            "required": ["b"],
            "$defs": { "order": {
                "type": "object",
                "properties": { "lines": {
                    "type": "array",
                    "minItems": 1,
                    "items": { "type": "object", "properties": { "price": { "type": "number" } } },
                } },
            } },
        }),
        &[
            "b; object; required; ; ; The order.",
            "b.lines; list of object; ; ; at least 1 item; ",
            "b.lines[].price; number; ; ; ; ",
            "a; text; ; ; at least 1 character, at most 9 characters, matches ^x, format uri; \
             Passed as it is written: the host fills in no expressions.",
            "c; integer or null; ; 7; at least 0; ",
            "d; text or number or null; ; ; \"x\" or 1 or null; ",
            "\"e e\"; list of integer; ; ; no item twice; ",
            "\"e e\"[]; integer; ; ; at most 3; ",
            "f; object; ; ; ; ",
            "f.*; true or false; ; ; ; ",
        ],
    );
}

#[test]
fn a_table_has_the_members_of_each_alternative() {
    check_rows(
        json!({
            "allOf": [{ "properties": { "a": { "anyOf": [{ "const": "x" }, { "type": "null" }] } } }],
            "oneOf": [
                { "properties": { "kind": { "const": "card" }, "number": {} }, "required": ["kind"] },
                { "properties": { "kind": { "const": "bank" }, "not": { "not": {} } } },
            ],
        }),
        &[
            "a; text or null; ; ; \"x\"; ",
            "kind; text; required; ; \"card\"; ",
            "number; any; ; ; ; ",
            "kind; text; ; ; \"bank\"; ",
            "not; any; ; ; further rules of its schema; ",
        ],
    );
}

#[test]
fn a_schema_that_refers_to_itself_is_told_once() {
    check_rows(
        json!({ "properties": { "left": { "$ref": "#" }, "list": { "type": "array", "items": { "$ref": "#" } } } }),
        &[
            "left; any; ; ; ; Like the whole value.",
            "list; list; ; ; ; ",
            "list[]; any; ; ; ; Like the whole value.",
        ],
    );
    check_rows(
        json!({
            "properties": { "tree": { "$ref": "#/$defs/tree" } },
            "$defs": { "tree": { "type": "object", "properties": { "child": { "$ref": "#/$defs/tree" } } } },
        }),
        &["tree; object; ; ; ; ", "tree.child; any; ; ; ; Like tree."],
    );
    check_rows(json!({ "$ref": "#" }), &[]);
    check_rows(
        json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#/$defs/no" }] }),
        &[],
    );
}

/// A chain of schemas, each of which has the next one many times.
fn doubling(length: usize, each: impl Fn(Value) -> Value) -> Value {
    let defs = (0..length).map(|at| {
        let next = json!({ "$ref": format!("#/$defs/a{}", at + 1) });
        (format!("a{at}"), each(next))
    });
    json!({ "$ref": "#/$defs/a0", "$defs": defs.collect::<Map<_, _>>() })
}

#[test]
fn a_table_of_a_schema_that_grows_without_end_is_cut() {
    let many = |next: Value| vec![next; 100];
    let named = |next: Value| {
        let names = (0..100).map(|at| (format!("a{at}"), next.clone()));
        names.collect::<Map<_, _>>()
    };
    for schema in [
        doubling(50, |next| json!({ "properties": named(next) })),
        doubling(50, |next| json!({ "anyOf": many(next) })),
        doubling(
            50,
            |next| json!({ "allOf": many(next), "anyOf": many(json!({ "$ref": "#" })) }),
        ),
        doubling(
            50,
            |next| json!({ "type": "array", "items": { "anyOf": many(next) } }),
        ),
        doubling(50, |next| json!({ "type": "array", "items": next })),
        json!({ "properties": named(json!({ "description": "x".repeat(2_000) })) }),
    ] {
        let found = members(&schema, false);
        assert!(found.is_cut, "{schema:.100}");
        assert!(found.rows.len() <= ROWS, "{}", found.rows.len());
        let longest = found
            .rows
            .iter()
            .chain([&found.whole])
            .map(|row| row.kind.len())
            .max();
        assert!(longest < Some(10_000), "{longest:?}");
    }
}

#[test]
fn a_page_has_a_bound() {
    let member = json!({ "description": "<".repeat(1_000) });
    let members: Map<_, _> = (0..100)
        .map(|at| (format!("a{at}"), member.clone()))
        .collect();
    let nodes: Vec<Value> = (0..9)
        .map(|at| json!({ "name": format!("n{at}"), "input": { "properties": members } }))
        .collect();
    let document = json!({ "windlass": 1, "package": "it", "version": "1.0.0", "nodes": nodes });
    let page = page_of(&document, &[]);
    assert!(page.len() < PAGE_BYTES + 100, "{}", page.len());
    assert!(page.len() > PAGE_BYTES / 2, "{}", page.len());
    assert!(page.ends_with(&format!(
        "\n\nThe page ends here: it has at most {PAGE_BYTES} bytes.\n"
    )));
    assert_eq!(seen(&page).strange, [""; 0]);
}
