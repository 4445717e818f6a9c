//! `windlass init`: the files of a new project.
//!
//! The command writes beside the user's own files: it replaces no file, and follows no link that is
//! inside of the directory. All files are checked before the first is written, and a failure takes
//! those away that were written before it.

pub(super) mod tree;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::app::Context;
use crate::codes;
use crate::completion;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::Output;
use tree::{File, Tree};

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Files that are there already are kept, and named. The command prints the next commands."
)]
pub(crate) struct Arguments {
    /// The directory of the project, which is made if it does not exist
    #[arg(value_name = "DIR", default_value = ".", hide_default_value = true)]
    directory: PathBuf,
}

/// A file of a project, and its purpose in a few words.
struct Part {
    path: &'static str,
    purpose: &'static str,
    content: &'static str,
}

const PARTS: [Part; 6] = [
    Part {
        path: "windlass.toml",
        purpose: "the settings",
        content: include_str!("windlass.toml"),
    },
    Part {
        path: "workflows/hello.yaml",
        purpose: "a workflow of three nodes",
        content: include_str!("hello.yaml"),
    },
    Part {
        path: "plugins/README.md",
        purpose: "the folder of your components",
        content: include_str!("plugins.md"),
    },
    Part {
        path: completion::FILE,
        purpose: "by it, editors complete and check workflows",
        // With the node types of the plugins in its place.
        content: windlass_model::file::JSON_SCHEMA,
    },
    Part {
        path: ".vscode/settings.json",
        purpose: "names the schema for VS Code",
        content: include_str!("settings.json"),
    },
    Part {
        path: ".gitignore",
        purpose: "keeps the store out of git",
        content: include_str!("gitignore"),
    },
];

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let schema = completion::of_new_project(context, &self.directory);
        let files: Vec<File<'_>> = PARTS
            .iter()
            .map(|part| File {
                path: part.path,
                content: match part.path {
                    completion::FILE => schema.as_bytes(),
                    _ => part.content.as_bytes(),
                },
            })
            .collect();
        let tree = Tree::open(&self.directory).map_err(|error| self.refused(&error))?;
        let kept = tree.write(&files).map_err(|error| self.refused(&error))?;
        let next = self.next();
        let made = PARTS.iter().filter(|part| !kept.contains(&part.path));
        let item = json!({
            "directory": self.directory,
            "made": made.clone().map(|part| part.path).collect::<Vec<_>>(),
            "kept": kept,
            "next": next.iter().map(|step| &step.command).collect::<Vec<_>>(),
        });
        let output = &context.output;
        output.show(&item, || text(output, &self.directory, made, &kept, &next))?;
        Ok(Exit::Done)
    }

    fn refused(&self, error: &tree::Error) -> Expected {
        let text = format!(
            "No project can be made in {}: {error}",
            self.directory.display()
        );
        Expected::new(codes::INIT, text)
            .help(error.help())
            .exit(Exit::Usage)
    }

    /// The commands that the user may type next.
    fn next(&self) -> Vec<Step> {
        let program = program();
        let step = |command: String, says| Step { command, says };
        let mut next = Vec::new();
        if !is_here(&self.directory) {
            next.push(step(format!("cd {}", operand(&self.directory)), ""));
        }
        next.extend([
            step(
                format!("{program} run workflows/hello.yaml --input name=Ada"),
                "runs the workflow once",
            ),
            step(
                format!("{program} dev"),
                "publishes the workflows, again after each change, and shows their runs",
            ),
            step(
                format!("{program} runs start hello --input name=Ada --watch"),
                "starts a run there: type it in a second terminal, in the same directory",
            ),
        ]);
        next
    }
}

/// A command to type, and its effect.
struct Step {
    command: String,
    says: &'static str,
}

fn text<'p>(
    output: &Output,
    directory: &Path,
    made: impl Iterator<Item = &'p Part>,
    kept: &[&str],
    next: &[Step],
) -> String {
    let paint = output.data;
    let mut text = format!("The project is in {}\n", directory.display());
    for part in made {
        let purpose = paint.dim(part.purpose);
        text.push_str(&format!("  {:<32}{purpose}\n", part.path));
    }
    for path in kept {
        let kept = paint.warning("kept: this file was there already");
        text.push_str(&format!("  {path:<32}{kept}\n"));
    }
    text.push_str("\nNext:\n");
    for step in next {
        text.push_str(&format!("  {}\n", paint.strong(&step.command)));
        if !step.says.is_empty() {
            text.push_str(&format!("      {}\n", paint.dim(step.says)));
        }
    }
    text
}

/// Whether a directory is the current one.
fn is_here(directory: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().ok();
    whole(directory).is_some_and(|named| whole(Path::new(".")) == Some(named))
}

/// This program as the user's shell finds it: by its name if `PATH` leads to it, else by its path.
pub(super) fn program() -> String {
    let name = Path::new("windlass");
    let Ok(own) = std::env::current_exe().and_then(|path| path.canonicalize()) else {
        return quoted(&name.to_string_lossy());
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|path| path.is_file());
    let found = found.and_then(|path| path.canonicalize().ok());
    if found.as_ref() == Some(&own) {
        return quoted(&name.to_string_lossy());
    }
    quoted(&own.to_string_lossy())
}

/// A path as an operand of a command, which must not look like an option.
pub(super) fn operand(path: &Path) -> String {
    let text = path.to_string_lossy();
    match text.starts_with('-') {
        true => quoted(&format!("./{text}")),
        false => quoted(&text),
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_quoted_word_as_it_was() {
        for word in [
            "plain",
            "/a/b.c",
            "two words",
            "it's",
            "$HOME `id` \"x\"",
            "a\nb",
            "",
            "Größe",
            "a;b",
        ] {
            let script = format!("printf %s {}", quoted(word));
            let said = std::process::Command::new("sh")
                .args(["-c", &script])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), word, "{script}");
        }
        assert_eq!(operand(Path::new("-x")), "./-x");
    }

    #[test]
    fn the_workflow_of_a_new_project_has_no_mistake() {
        let read = windlass_model::file::read(include_str!("hello.yaml"), "hello.yaml");
        assert!(read.diagnostics.is_empty(), "{:?}", read.diagnostics);
        assert_eq!(read.definition.unwrap().name, "hello");
    }
}
