//! A workflow file, and mistakes shown in its text.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use windlass_display::Problems;
use windlass_model::file::SourceMap;
use windlass_model::{Definition, Diagnostic, Digest, limits};
use windlass_store::rows::DefinitionRow;

use crate::codes;
use crate::error::Expected;

/// A workflow file that was read.
pub(crate) struct Source {
    /// The name of the file, as the user gave it.
    pub(crate) name: String,
    /// Its definition.
    pub(crate) definition: Definition,
    canonical: Bytes,
    map: SourceMap,
    text: Arc<str>,
}

/// The name and the text of a file; `-` is standard input.
pub(crate) fn text(path: &Path) -> Result<(String, Arc<str>), Expected> {
    let name = if path == Path::new("-") {
        "standard input".into()
    } else {
        path.display().to_string()
    };
    // Read one byte more than the limit, so that the parser notices that the text is too long.
    let bound = limits::WORKFLOW_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(bound).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(bound).read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        Expected::new(
            codes::FILE_UNREADABLE,
            format!("{name} cannot be read: {error}"),
        )
        .help("Look at the path and the permissions of the file.")
    })?;
    let (text, mistake) = windlass_model::file::decode(&bytes);
    match mistake {
        Some(mistake) => Err(Expected::of_file(problems(name, text, vec![mistake]))),
        None => Ok((name, text)),
    }
}

/// The name of a workflow, if the argument is one: no file has it as its path, and it consists of
/// the characters of names.
pub(crate) fn name_in(argument: &Path) -> Option<&str> {
    let plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let name = argument.to_str()?;
    let is_name = !name.is_empty() && name != "-" && name.chars().all(plain);
    // A directory is no workflow file.
    (is_name && (!argument.exists() || argument.is_dir())).then_some(name)
}

/// Mistakes in a text.
pub(crate) fn problems(name: String, text: Arc<str>, diagnostics: Vec<Diagnostic>) -> Problems {
    Problems {
        name,
        text,
        diagnostics,
    }
}

/// Diagnostics of a host, which knows no places in the text.
pub(crate) fn located(name: String, text: Arc<str>, mut found: Vec<Diagnostic>) -> Problems {
    let map = windlass_model::file::read(&text, &name).map;
    found.iter_mut().for_each(|it| map.locate(it));
    problems(name, text, found)
}

/// An answer of a host, shown in the text if it is about the text.
pub(crate) fn place(name: String, text: &Arc<str>, error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Expected>() {
        Ok(Expected {
            problems: Some(found),
            note,
            ..
        }) => Expected::of_file(located(name, Arc::clone(text), found.diagnostics))
            .note(note)
            .into(),
        Ok(other) => other.into(),
        Err(error) => error,
    }
}

/// A file that was checked.
pub(crate) struct Checked {
    /// The name of the file, as the user gave it.
    pub(crate) name: String,
    /// The number of its nodes.
    pub(crate) nodes: usize,
    /// Its mistakes. None: it can be published.
    pub(crate) mistakes: Option<Expected>,
    /// Its warnings.
    pub(crate) warnings: Problems,
}

/// Finds all mistakes in a file; `-` is standard input.
pub(crate) fn check(
    path: &Path,
    plugins: &windlass_plugins::Host,
    others: &dyn windlass_runtime::Others,
) -> Result<Checked, Expected> {
    let (name, text) = text(path)?;
    let read = windlass_model::file::read(&text, &name);
    let report = windlass_runtime::check_file(&read, plugins, Some(others));
    let shown = |diagnostics| problems(name.clone(), Arc::clone(&text), diagnostics);
    let nodes = read
        .definition
        .map(|definition| definition.all_nodes().len());
    Ok(Checked {
        nodes: nodes.unwrap_or_default(),
        mistakes: (!report.mistakes.is_empty()).then(|| Expected::of_file(shown(report.mistakes))),
        warnings: shown(report.warnings),
        name,
    })
}

impl Source {
    /// The text of the file.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Reads a file; `-` is standard input.
    pub(crate) fn read(path: &Path) -> Result<Self, Expected> {
        let (name, text) = text(path)?;
        let read = windlass_model::file::read(&text, &name);
        let canonical = read.canonical();
        match (read.definition, canonical) {
            (Some(definition), Some(canonical)) => Ok(Self {
                name,
                definition,
                canonical: canonical.into(),
                map: read.map,
                text,
            }),
            _ => {
                let diagnostics = read.diagnostics;
                Err(Expected::of_file(Problems {
                    name,
                    text,
                    diagnostics,
                }))
            }
        }
    }

    /// The definition of a published workflow, whose text is what the store has.
    pub(crate) fn stored(row: DefinitionRow) -> Result<Self, Expected> {
        let name = format!("workflow `{}`", row.name);
        let text: Arc<str> = String::from_utf8_lossy(&row.json).into();
        let read = windlass_model::file::read(&text, &name);
        let Some(definition) = read.definition else {
            let diagnostics = read.diagnostics;
            return Err(Expected::of_file(problems(name, text, diagnostics)));
        };
        Ok(Self {
            name,
            definition,
            canonical: row.json,
            map: read.map,
            text,
        })
    }

    /// The row of the store.
    pub(crate) fn row(&self) -> DefinitionRow {
        DefinitionRow {
            digest: Digest::of(&self.canonical),
            name: self.definition.name.clone(),
            json: self.canonical.clone(),
        }
    }

    /// Warnings about the file, shown in its text.
    pub(crate) fn warnings(&self, mut diagnostics: Vec<Diagnostic>) -> Problems {
        diagnostics
            .iter_mut()
            .for_each(|diagnostic| self.map.locate(diagnostic));
        problems(self.name.clone(), Arc::clone(&self.text), diagnostics)
    }

    /// An error of the runtime, shown in the text if it is about the text.
    pub(crate) fn explain(&self, error: windlass_runtime::Error) -> anyhow::Error {
        match error {
            windlass_runtime::Error::Definition(diagnostics) => self.problems(diagnostics).into(),
            other => other.into(),
        }
    }

    /// An answer of a host, shown in the text if it is about the text.
    pub(crate) fn place(&self, error: anyhow::Error) -> anyhow::Error {
        place(self.name.clone(), &self.text, error)
    }

    fn problems(&self, mut diagnostics: Vec<Diagnostic>) -> Expected {
        diagnostics
            .iter_mut()
            .for_each(|diagnostic| self.map.locate(diagnostic));
        Expected::of_file(Problems {
            name: self.name.clone(),
            text: Arc::clone(&self.text),
            diagnostics,
        })
    }
}

#[cfg(test)]
mod tests {
    use windlass_model::diagnostic::Place;

    use super::*;

    #[test]
    fn the_note_of_an_answer_stays_below_the_mistakes() {
        let text: Arc<str> = "workflow: a\nnodes: { b: { use: c/d } }\n".into();
        let found = Diagnostic::new(codes::USAGE, "it is wrong", Place::at("/nodes/b/use"));
        let answer = Expected::of_file(problems(String::new(), "".into(), vec![found]));
        let answer = answer.note(Some("read this, too".to_owned()));
        let placed = place("a.yaml".to_owned(), &text, answer.into());
        let placed = placed.downcast::<Expected>().unwrap();
        assert_eq!(placed.note.as_deref(), Some("read this, too"));
        let problems = placed.problems.unwrap();
        assert!(problems.diagnostics[0].place.span.is_some(), "{problems:?}");
    }
}
