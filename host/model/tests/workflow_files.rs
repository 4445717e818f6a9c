//! Workflow files: the mistakes in invalid ones, and the definitions of valid ones.
//!
//! `cases/*.yaml` and `cases/*.json` are read, and each result is compared with the `.txt` beside
//! the file. `BLESS=1` writes those anew.

#![expect(clippy::unwrap_used, reason = "a test that fails says so by a panic")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use windlass_model::file::{Read, read, read_canonical};
use windlass_model::{Definition, Diagnostic};
use windlass_test_seeds::Seeds;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn cases() -> Vec<(PathBuf, String)> {
    let mut cases: Vec<_> = fs::read_dir(root().join("tests/cases"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|ext| ext == "yaml" || ext == "json")
        })
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect();
    cases.sort();
    assert!(cases.len() > 40, "the cases are there");
    cases
}

fn read_case((path, text): &(PathBuf, String)) -> Read {
    read(text, path.file_name().unwrap().to_str().unwrap())
}

fn line_and_column(text: &str, at: usize) -> String {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
    format!("{line}:{column}")
}

fn render(text: &str, diagnostics: &[Diagnostic]) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        let span = diagnostic.place.span.clone().unwrap();
        writeln!(
            out,
            "{} {} {}",
            line_and_column(text, span.start),
            diagnostic.code,
            diagnostic.message
        )
        .unwrap();
        writeln!(out, "  at `{}`", text[span].escape_debug()).unwrap();
        if let Some(help) = &diagnostic.help {
            writeln!(out, "  help: {help}").unwrap();
        }
        for (place, why) in &diagnostic.related {
            let at = line_and_column(text, place.span.clone().unwrap().start);
            writeln!(out, "  {at} {why}").unwrap();
        }
    }
    out
}

/// Compares with a golden file, or writes it.
fn golden(path: &Path, found: &str) -> Result<(), String> {
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, found).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    let name = path.display();
    (expected == found).then_some(()).ok_or(format!(
        "{name}\n--- expected\n{expected}--- found\n{found}"
    ))
}

#[test]
fn every_case_is_read_as_its_golden_file_says() {
    let mut failures = Vec::new();
    for case in cases() {
        let read = read_case(&case);
        let found = match &read.definition {
            Some(definition) => format!("{definition:#?}\n"),
            None => render(&case.1, &read.diagnostics),
        };
        failures.extend(golden(&case.0.with_extension("txt"), &found).err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_case_is_good_or_bad_as_its_name_says() {
    for case in cases() {
        let name = case.0.file_name().unwrap().to_str().unwrap();
        let read = read_case(&case);
        assert_eq!(
            read.definition.is_some(),
            name.starts_with("good"),
            "{name}"
        );
        assert_eq!(
            read.diagnostics.is_empty(),
            name.starts_with("good"),
            "{name}"
        );
    }
}

#[test]
fn the_canonical_form_gives_the_same_definition() {
    for case in cases() {
        let read = read_case(&case);
        if let Some(definition) = read.definition.clone() {
            let canonical = read.canonical().unwrap();
            assert_eq!(
                read_canonical(&canonical).unwrap(),
                definition,
                "{}",
                case.0.display()
            );
            // It is a fixed point: reading it as a file changes nothing.
            let text = String::from_utf8(canonical.clone()).unwrap();
            let again = windlass_model::file::read(&text, "canonical.json");
            assert_eq!(again.definition, Some(definition));
            assert_eq!(again.canonical(), Some(canonical));
        }
    }
}

#[test]
fn layout_and_order_do_not_change_the_canonical_form() {
    let a = read(
        "workflow: a\nlayout: { x: 1 }\nnodes: { n: { wait: 5s } }\n",
        "a.yaml",
    );
    let b = read(
        "nodes:\n  n:\n    \"wait\": \"5s\"\nworkflow: 'a'\n",
        "b.yaml",
    );
    assert_eq!(a.canonical(), b.canonical());
    assert_eq!(
        a.canonical().unwrap(),
        br#"{"nodes":{"n":{"wait":"5s"}},"workflow":"a"}"#
    );
}

#[test]
fn the_workflows_in_the_reference_are_right() {
    let page = fs::read_to_string(root().join("../../docs/workflow-format.md")).unwrap();
    let blocks = page.split("```yaml\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    let workflows: Vec<_> = blocks.filter(|text| text.contains("workflow: ")).collect();
    assert_eq!(workflows.len(), 3);
    for text in workflows {
        assert_eq!(render(text, &read(text, "w.yaml").diagnostics), "");
    }
}

#[test]
fn bodies_nest_as_deep_as_values_may_and_no_deeper() {
    let nested = |depth: usize| {
        let mut node = "{ end: }".to_owned();
        for at in 0..depth {
            node = format!("{{ for-each: [1], nodes: {{ n{at}: {node} }} }}");
        }
        format!("workflow: w\nnodes: {{ outer: {node} }}\n")
    };
    let deepest = read(&nested(14), "w.yaml");
    assert_eq!(render("", &deepest.diagnostics), "");
    let definition = deepest.definition.unwrap();
    let pointers: Vec<_> = definition
        .all_nodes()
        .into_iter()
        .map(|(at, ..)| at)
        .collect();
    assert_eq!(pointers.len(), 15);
    assert!(pointers[14].starts_with("/nodes/outer/nodes/n13/nodes/n12/"));
    let text = nested(15);
    let said = render(&text, &read(&text, "w.yaml").diagnostics);
    assert!(said.contains("WL-D013"), "{said}");
}

#[test]
fn nodes_of_all_bodies_count_together() {
    let nodes = |name: &str| -> String {
        let names = (0..5_000).map(|n| format!("{name}{n}: {{ end: }}, "));
        names.collect()
    };
    let text = format!(
        "workflow: w\nnodes:\n  each: {{ for-each: [1], nodes: {{ {} }} }}\n  more: {{ for-each: [1], nodes: {{ {} }} }}\n",
        nodes("a"),
        nodes("b")
    );
    let said = render(&text, &read(&text, "w.yaml").diagnostics);
    assert!(
        said.contains("a workflow has at most 10000 nodes; here are 10002"),
        "{said}"
    );
}

#[test]
fn mistakes_of_one_file_are_bounded() {
    let mut text = "workflow: w\nnodes:\n  n: { wait: 5s }\n".to_owned();
    (0..5_000).for_each(|n| writeln!(text, "unknown{n}: 1").unwrap());
    assert_eq!(
        read(&text, "w.yaml").diagnostics.len(),
        windlass_model::file::DIAGNOSTICS
    );
}

#[test]
fn large_files_are_refused() {
    let text = format!(
        "workflow: w\ndescription: {}\n",
        "x".repeat(4 * 1024 * 1024)
    );
    assert_eq!(
        render(&text, &read(&text, "w.yaml").diagnostics),
        "1:1 WL-D013 a workflow file has at most 4194304 bytes\n  at ``\n"
    );
    let nodes: String = (0..10_001)
        .map(|n| format!("  n{n}: {{ wait: 5s }}\n"))
        .collect();
    let text = format!("workflow: w\nnodes:\n{nodes}");
    assert!(
        render(&text, &read(&text, "w.yaml").diagnostics)
            .starts_with("2:1 WL-D013 a workflow has at most 10000 nodes")
    );
}

#[test]
fn aliases_cannot_explode() {
    let mut text =
        "workflow: w\nnodes: { n: { wait: 5s } }\nlayout:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
            .to_owned();
    for n in 1..20 {
        let items = vec![format!("*a{}", n - 1); 9].join(", ");
        writeln!(text, "  a{n}: &a{n} [{items}]").unwrap();
    }
    let said = render(&text, &read(&text, "w.yaml").diagnostics);
    assert!(said.contains("WL-D012 aliases add more than"), "{said}");
}

#[test]
fn later_diagnostics_find_their_place() {
    let text = "workflow: w\nnodes:\n  a:\n    use: x/y\n    with:\n      url: \"{{ u }}\"\n  b: { wait: 5s }\nedges:\n  - a -> b: cond\n  - { from: a, to: b, when: other }\n";
    let read = read(text, "w.yaml");
    for (pointer, expected) in [
        ("/nodes/a/with/url", "\"{{ u }}\""),
        ("/nodes/a/with/url/missing", "\"{{ u }}\""),
        ("/nodes/a/with", "with"),
        ("/nodes/a", "a"),
        ("/edges/0", "a -> b"),
        ("/edges/0/when", "cond"),
        ("/edges/1/when", "other"),
        ("/edges/7", "edges"),
        ("", "workflow"),
    ] {
        assert_eq!(
            &text[read.map.span(pointer).unwrap()],
            expected,
            "{pointer}"
        );
    }
}

fn definition(text: &str) -> Definition {
    read(text, "w.yaml").definition.unwrap()
}

#[test]
fn edges_have_stable_ids() {
    let ids = |edges: &str| -> Vec<String> {
        let text = format!(
            "workflow: w\nnodes: {{ a: {{ wait: 5s }}, b: {{ wait: 5s }} }}\nedges: [{edges}]\n"
        );
        definition(&text)
            .edges
            .into_iter()
            .map(|edge| edge.id)
            .collect()
    };
    assert_eq!(ids("a -> b, a.error->b"), ["a->b", "a.error->b"]);
    assert_eq!(
        ids("{from: a, to: b}, {from: a, port: done, to: b, id: x}"),
        ["a->b", "x"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(Seeds::USUAL.cases()))]

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC*") {
        read(&text, "w.yaml");
        read(&text, "w.json");
    }

    #[test]
    fn no_yaml_like_text_makes_the_reader_panic(
        parts in prop::collection::vec(prop::sample::select(vec![
            "workflow: w\n", "nodes:\n", "  a:\n", "    use: x/y\n", "edges:\n", "  - a -> b\n", "- ", ": ", "{", "}", "[", "]",
            "&a ", "*a ", "!t ", "\"", "'", "|\n", ">\n", "\t", " ", "\n", "---\n", "...\n", "{{ x }}", "a -> b: ", "#", "? ", "<<",
            "é", "\u{feff}", "%YAML 1.1\n", "when", "from", "to", "5s", "join: ", "retry: ", "wait: ", "a.b.c -> d", "->", "@", "~",
        ]), 0..60)
    ) {
        let text = parts.concat();
        let read = read(&text, "w.yaml");
        // Every place lies inside the text, at character boundaries.
        for diagnostic in &read.diagnostics {
            if let Some(span) = &diagnostic.place.span {
                prop_assert!(text.get(span.clone()).is_some(), "{diagnostic:?}");
            }
        }
        prop_assert_eq!(read.definition.is_some(), read.diagnostics.is_empty());
    }

    #[test]
    fn bytes_that_are_no_canonical_form_are_refused_quietly(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(read_canonical(&bytes));
    }

    #[test]
    fn a_written_workflow_reads_back_the_same(
        names in prop::collection::btree_set("[a-z_][a-z0-9_]{0,6}", 1..8),
        texts in prop::collection::vec("\\PC{0,20}", 8),
        seconds in 0u32..100_000,
        attempts in 1u32..50,
    ) {
        let quote = |text: &str| serde_json::to_string(text).unwrap();
        let names: Vec<_> = names.into_iter().collect();
        let mut yaml = format!("workflow: w\ndescription: {}\nnodes:\n", quote(&texts[0]));
        for (n, name) in names.iter().enumerate() {
            writeln!(yaml, "  \"{name}\":\n    use: p/n@1\n    with: {{ x: {}, n: {seconds} }}", quote(&texts[n % 8])).unwrap();
            writeln!(yaml, "    timeout: {seconds}s\n    retry: {{ max-attempts: {attempts} }}").unwrap();
        }
        yaml.push_str("edges:\n");
        for pair in names.windows(2) {
            writeln!(yaml, "  - {} -> {}: {}", pair[0], pair[1], quote(&texts[3])).unwrap();
        }
        let read = read(&yaml, "w.yaml");
        prop_assert_eq!(&read.diagnostics, &[]);
        prop_assert_eq!(read_canonical(&read.canonical().unwrap()).ok(), read.definition);
    }
}
