//! The mistakes of people who know other systems: each wrong file gets one diagnostic, at the
//! character, with a code that has a page.
//!
//! `tests/cases/newcomers` has the files, and beside each the diagnostics as a person reads them.
//! `BLESS=1` writes the latter anew; read the difference before you keep it. A file with another
//! number of mistakes than one says so in its first line: `# mistakes: 2`. Mistakes that only the
//! plugins of a host find are in `tests/cases/mistakes`. `tests/cases/authors` has right files, with
//! the conditions that authors write.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_engine::{Facts, Graph, analyse};
use windlass_model::definition::UseRef;
use windlass_model::{Diagnostic, file, position};

/// The collection does not shrink below this.
const FILES: usize = 150;

/// The field that node types of the library take as it is written.
fn raw(node_type: &UseRef) -> Vec<String> {
    match &*node_type.package {
        "data" => vec!["filter".to_owned()],
        "text" => vec!["template".to_owned()],
        _ => Vec::new(),
    }
}

/// The mistakes in a file, and the warnings.
fn found(text: &str, name: &str) -> Vec<Diagnostic> {
    let read = file::read(text, name);
    let Some(definition) = read.definition else {
        return read.diagnostics;
    };
    let mut found = Graph::compile(&definition, &raw).err().unwrap_or_default();
    let ports = ["done".to_owned()];
    let analysis = analyse(&definition, &|node_type| {
        Some(Facts {
            ports: &ports,
            raw: raw(node_type),
            output: &Value::Null,
            suspends: false,
        })
    });
    found.extend(analysis.mistakes);
    found.extend(analysis.warnings);
    found.iter_mut().for_each(|it| read.map.locate(it));
    found
}

/// A diagnostic with the line of the file, and a mark below the characters that it is about.
fn drawn(diagnostic: &Diagnostic, text: &str) -> String {
    let Some(span) = diagnostic.place.span.clone() else {
        panic!("{} has no place", diagnostic.message);
    };
    let marked = text.get(span.clone());
    let marked = marked.unwrap_or_else(|| panic!("{span:?} is no part of the file"));
    let (line, column) = position(text, span.start);
    let shown = text.split('\n').nth(line - 1).unwrap();
    let width = shown.chars().count();
    assert!(
        column <= width + 1,
        "{line}:{column} is outside of `{shown}`"
    );
    let marked = marked.lines().next().unwrap_or_default().chars().count();
    let mark = "^".repeat(marked.clamp(1, width + 2 - column));
    let visible = |c: char| if c.is_control() { '·' } else { c };
    let shown: String = shown.chars().map(visible).collect();
    let mut drawn = format!(
        "{line}:{column} {} {}\n",
        diagnostic.code, diagnostic.message
    );
    writeln!(drawn, "  | {shown}\n  | {}{mark}", " ".repeat(column - 1)).unwrap();
    if let Some(help) = &diagnostic.help {
        writeln!(drawn, "  help: {help}").unwrap();
    }
    drawn
}

#[test]
fn correct_workflows_of_newcomers_have_no_diagnostics() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = std::fs::read_dir(root.join("tests/cases/authors")).unwrap();
    let mut files = 0;
    for path in entries.map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&path).unwrap();
        let found = found(&text, path.file_name().unwrap().to_str().unwrap());
        let drawing: String = found.iter().map(|it| drawn(it, &text)).collect();
        assert_eq!(drawing, "", "{}", path.display());
        files += 1;
    }
    assert!(files >= 3, "{files}");
}

/// How many mistakes the file is meant to have.
fn meant(text: &str) -> usize {
    let first = text.lines().next().unwrap_or_default();
    let number = first.strip_prefix("# mistakes: ").map(str::parse);
    number.map_or(1, Result::unwrap)
}

#[test]
fn every_mistake_of_a_newcomer_gets_one_diagnostic_at_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = std::fs::read_dir(root.join("tests/cases/newcomers")).unwrap();
    let is_case = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("yaml" | "json"))
    };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(is_case)
        .collect();
    files.sort();
    assert!(files.len() >= FILES, "there are only {} files", files.len());
    let mut wrong = String::new();
    for path in &files {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let found = found(&text, name);
        for diagnostic in &found {
            let page = root.join("docs/errors").join(diagnostic.code.to_string());
            let page = page.with_extension("md");
            assert!(page.is_file(), "{name}: {} has no page", diagnostic.code);
        }
        let drawing: String = found.iter().map(|it| drawn(it, &text)).collect();
        if found.len() != meant(&text) {
            writeln!(wrong, "{name} has {} mistakes:\n{drawing}", found.len()).unwrap();
        }
        let golden = path.with_extension("txt");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&golden, &drawing).unwrap();
            continue;
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        if drawing != expected {
            writeln!(wrong, "{name}\nexpected:\n{expected}\nfound:\n{drawing}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
