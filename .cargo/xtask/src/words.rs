//! Sentences name their subjects, in documents, messages, help and comments.
//!
//! A vague word stands where the noun was not found: not the pronoun but a member, a stimulus or a
//! token ends a wait.

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

/// Reports vague words in documents, in messages and in comments.
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
            for part in parts(&read()?) {
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
    use super::{Kind, found, parts, prose};

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
