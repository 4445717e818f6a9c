//! Sentences name their subjects, in documents, messages, help and comments.
//!
//! A vague word stands where the noun was not found: not the pronoun but a member, a stimulus or a
//! token ends a wait. The name of a test is such a sentence: its subject, and what holds.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Words, and pairs of words, that name nothing.
const VAGUE: [&str; 11] = [
    "whoever",
    "whatever",
    "somebody",
    "someone",
    "nobody",
    "anybody",
    "everybody",
    "everyone",
    "what is",
    "what was",
    "who is",
];

/// Words that name nothing, anywhere in the name of a test.
const VAGUE_IN_NAMES: [&str; 15] = [
    "what",
    "whatever",
    "whichever",
    "who",
    "whom",
    "whoever",
    "nobody",
    "nobodys",
    "somebody",
    "someone",
    "anybody",
    "anyone",
    "everybody",
    "everyone",
    "something",
];

/// Words that are no subject of a name.
const NO_SUBJECTS: [&str; 8] = [
    "it", "its", "they", "there", "this", "that", "those", "these",
];

/// Reports vague words in documents, in messages, in comments and in names of tests.
pub(crate) fn vague(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result<()> {
    for file in files {
        let name = file.to_string_lossy();
        let path = root.join(file);
        let read = || {
            std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))
        };
        if name.ends_with(".md") {
            for (no, line) in prose(&read()?) {
                wrong.extend(told(&name, no, &line));
            }
        } else if name.ends_with(".rs") {
            let text = read()?;
            for (line, test) in tests(&text, name.contains("/conformance/")) {
                if let Some(word) = vague_in(test) {
                    wrong.push(format!(
                        "{name}:{line}: `{word}` names nothing in `{test}`: name the subject and \
                         what holds"
                    ));
                }
            }
            for part in parts(&text) {
                if part.kind == Kind::Comment || is_shown(&name) {
                    wrong.extend(told(&name, part.line, &part.text));
                }
            }
        }
    }
    Ok(())
}

/// Whether texts in this file are shown to people. Tests make up their own, and this file has a
/// list of the words.
fn is_shown(name: &str) -> bool {
    let tests = [
        "tests/",
        "/tests",
        "conformance",
        "/sim/",
        "xtask/src/words.rs",
    ];
    !tests.iter().any(|part| name.contains(part))
}

fn told(name: &str, line: usize, text: &str) -> Option<String> {
    let word = found(text).next()?;
    let text: String = text.trim().chars().take(80).collect();
    Some(format!(
        "{name}:{line}: `{word}` names nothing: say the noun (\"{text}\")"
    ))
}

/// The vague words of a text.
fn found(text: &str) -> impl Iterator<Item = &'static str> {
    let words: Vec<String> = text
        .split(|letter: char| !letter.is_alphanumeric() && !"`_{}".contains(letter))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let pairs = words.windows(2).map(|pair| pair.join(" "));
    let all: Vec<String> = pairs.chain(words.iter().cloned()).collect();
    all.into_iter()
        .filter_map(|word| VAGUE.into_iter().find(|vague| *vague == word))
}

/// The names of the tests in a source, with their lines. With `all`, every function is one: the cases
/// of a conformance suite have no attribute.
fn tests(source: &str, all: bool) -> Vec<(usize, &str)> {
    let mut is_test = all;
    let mut names = Vec::new();
    for (no, line) in (1..).zip(source.lines()) {
        let line = line.trim_start();
        is_test |= ["#[test]", "#[tokio::test"]
            .iter()
            .any(|it| line.starts_with(it));
        if !is_test || line.starts_with('#') || line.starts_with("//") {
            continue;
        }
        let Some((_, from)) = line.split_once("fn ") else {
            continue;
        };
        let end = from.find(['(', '<']).unwrap_or(from.len());
        names.push((no, from.get(..end).unwrap_or_default()));
        is_test = all;
    }
    names
}

/// The first vague word of a test's name.
fn vague_in(name: &str) -> Option<&str> {
    let mut words = name.split('_');
    let first = words.clone().next();
    let no_subject = first.filter(|word| NO_SUBJECTS.contains(word));
    no_subject.or_else(|| words.find(|word| VAGUE_IN_NAMES.contains(word)))
}

/// The lines of a document, without code.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut inside = false;
    let mut lines = Vec::new();
    for (no, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            let spans = line.split('`').step_by(2);
            lines.push((no, spans.collect::<Vec<_>>().join("` `")));
        }
    }
    lines
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Comment,
    Text,
}

/// A comment or a text literal of a source file.
struct Part {
    kind: Kind,
    line: usize,
    text: String,
}

/// The comments and text literals of a source file.
fn parts(source: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = source;
    let line_of = |rest: &str| {
        let before = source.len() - rest.len();
        1 + source
            .bytes()
            .take(before)
            .filter(|byte| *byte == b'\n')
            .count()
    };
    while let Some(at) = rest.find(['/', '"', '\'']) {
        let (before, from) = rest.split_at(at);
        let line = line_of(from);
        let end = if from.starts_with("//") {
            let end = from.find('\n').unwrap_or(from.len());
            parts.push(Part {
                kind: Kind::Comment,
                line,
                text: from.get(..end).unwrap_or(from).to_owned(),
            });
            end
        } else if from.starts_with('"') {
            let hashes = before
                .bytes()
                .rev()
                .take_while(|byte| *byte == b'#')
                .count();
            let raw = before.trim_end_matches('#').ends_with('r');
            let end = literal(from, raw, hashes);
            parts.push(Part {
                kind: Kind::Text,
                line,
                text: from.get(..end).unwrap_or(from).to_owned(),
            });
            end
        } else if from.starts_with('\'') {
            character(from)
        } else {
            1
        };
        rest = from.get(end..).unwrap_or_default();
    }
    parts
}

/// How long a text literal is.
fn literal(text: &str, raw: bool, hashes: usize) -> usize {
    if raw {
        let end = format!("\"{}", "#".repeat(hashes));
        return text
            .get(1..)
            .unwrap_or_default()
            .find(&end)
            .map_or(text.len(), |at| 1 + at + end.len());
    }
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// How long a character literal is; 1 for a lifetime.
fn character(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => {
            let behind = letters.nth(1).map_or(text.len(), |(at, _)| at);
            text.get(behind..)
                .unwrap_or_default()
                .find('\'')
                .map_or(1, |at| behind + at + 1)
        }
        Some((at, letter))
            if text
                .get(at + letter.len_utf8()..)
                .is_some_and(|rest| rest.starts_with('\'')) =>
        {
            at + letter.len_utf8() + 1
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, found, parts, prose, tests, vague_in};

    #[test]
    fn names_of_tests_have_subjects() {
        let source = "fn it_helps() {}\n    #[test]\n    #[cfg(unix)]\n    fn runs_end() {\n    }\n\
                      #[tokio::test]\nasync fn who_waits() {}\nfn what_helps() {}";
        assert_eq!(tests(source, false), [(4, "runs_end"), (7, "who_waits")]);
        assert_eq!(tests(source, true).len(), 4);
        let names = [
            "runs_end",
            "who_waits",
            "a_run_keeps_what_it_has",
            "it_ends",
            "whats_on",
        ];
        let words = names.map(vague_in);
        assert_eq!(words, [None, Some("who"), Some("what"), Some("it"), None]);
    }

    #[test]
    fn vague_words_are_found_and_others_are_not() {
        let text = "Whoever reads this: what is it, and who was it? Whatsoever, some body.";
        assert_eq!(found(text).collect::<Vec<_>>(), ["what is", "whoever"]);
    }

    #[test]
    fn code_in_a_document_is_no_prose() {
        let text = "nobody\n```\nsomebody\n```\nthe `whoever` of it";
        let lines: Vec<_> = prose(text).into_iter().map(|(no, _)| no).collect();
        assert_eq!(lines, [1, 5]);
        let words = prose(text)
            .into_iter()
            .flat_map(|(_, line)| found(&line).collect::<Vec<_>>());
        assert_eq!(words.collect::<Vec<_>>(), ["nobody"]);
    }

    #[test]
    fn comments_and_texts_are_told_apart() {
        let source = "let a: &'a str = \"x // \\\" y\"; // c '\nlet b = '\"'; let d = r#\"e\"#;";
        let parts: Vec<_> = parts(source)
            .into_iter()
            .map(|part| (part.kind, part.line, part.text))
            .collect();
        let text = |line, text: &str| (Kind::Text, line, text.to_owned());
        let comment = (Kind::Comment, 1, "// c '".to_owned());
        assert_eq!(
            parts,
            [text(1, "\"x // \\\" y\""), comment, text(2, "\"e\"#")]
        );
    }
}
