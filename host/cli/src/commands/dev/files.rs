//! The changes of workflow and plugin files, as `dev` prints them.
//!
//! A mistake is printed when a file with it is saved. If only a plugin has changed, the host tries
//! the file again, and the mistake is printed again only if it is another one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde_json::json;
use windlass_display::Problems;
use windlass_model::Digest;
use windlass_plugins::{LoadEvent, Plugin, Proof, Standing};
use windlass_runtime::definitions::{Failed, Reloaded, Runnable};
use windlass_runtime::{Error, FolderReport};

use super::screen::Screen;
use crate::error::{Expected, sentence};
use crate::report::{report, warn};
use crate::source;

/// Prints the changes of files.
pub(super) struct Files {
    screen: Screen,
    /// The files with mistakes, with a hash of the mistake that was printed about each.
    wrong: Mutex<HashMap<PathBuf, Digest>>,
}

impl Files {
    pub(super) fn new(screen: Screen) -> Self {
        Self {
            screen,
            wrong: Mutex::default(),
        }
    }

    /// Whether a file had a mistake, which is over now.
    fn mended(&self, file: &Path) -> bool {
        self.wrong.lock().remove(file).is_some()
    }

    /// Prints that a file is fine.
    fn fine(&self, file: &Path, event: &str, text: &str) {
        let (mended, place) = (self.mended(file), self.screen.place(file));
        let event = json!({ "event": event, "file": file, "mended": mended, "text": text });
        self.screen.say(&event, |paint| {
            let mended = match mended {
                true => format!("{}; ", paint.good("mended")),
                false => String::new(),
            };
            format!("{} {place}: {mended}{text}", paint.good('✓'))
        });
    }

    /// Prints that an entry of a folder is not read.
    fn ignored(&self, path: &Path, why: &str) {
        let place = self.screen.place(path);
        let event = json!({ "event": "ignored", "file": path, "text": why });
        self.screen.say(&event, |paint| {
            format!("{} {place}: ignored: {why}", paint.warning('-'))
        });
    }

    /// Prints that a file is gone.
    fn gone(&self, file: &Path, event: &str, text: &str) {
        self.wrong.lock().remove(file);
        let place = self.screen.place(file);
        let event = json!({ "event": event, "file": file, "text": text });
        self.screen.say(&event, |paint| {
            format!("{} {place}: {text}", paint.warning('-'))
        });
    }

    /// Records a mistake. Returns whether it has to be printed.
    fn is_news(&self, file: &Path, mistake: &str, again: bool) -> bool {
        let hash = Digest::of(mistake.as_bytes());
        let before = self.wrong.lock().insert(file.to_owned(), hash);
        !(again && before == Some(hash))
    }

    /// Prints which files with mistakes are gone: the host has nothing to report about a file from
    /// which nothing was published or loaded.
    fn forget_gone(&self) {
        let gone: Vec<PathBuf> = {
            let wrong = self.wrong.lock();
            let gone = wrong.keys().filter(|file| !file.exists());
            gone.cloned().collect()
        };
        for file in gone {
            self.gone(&file, "gone", "the file with the mistake is gone");
        }
    }

    fn failed(&self, failed: &Failed) {
        let Failed {
            file,
            text,
            error,
            again,
        } = failed;
        let place = self.screen.place(file);
        let (mistake, expected) = match error {
            Error::Definition(found) => {
                let problems = Problems {
                    name: place,
                    text: text.clone(),
                    diagnostics: found.clone(),
                };
                (format!("{found:?}"), Expected::of_file(problems))
            }
            Error::Refused {
                code,
                message,
                help,
            } => {
                let text = format!("{place}: {message}");
                let mut expected = Expected::new(code.clone(), text);
                expected.help = help.as_deref().map(sentence);
                (message.clone(), expected)
            }
            other => {
                let text = format!("{place}: {other}");
                (other.to_string(), Expected::new(other.code(), text))
            }
        };
        if self.is_news(file, &mistake, *again) {
            report(&self.screen.output, &expected);
        }
    }

    fn loaded(&self, file: &Path, plugin: &Plugin, replaced: bool) {
        // The library is no news for its user.
        if matches!(plugin.standing(), Standing::Proved(Proof::Library)) {
            return;
        }
        let nodes = plugin.description.nodes.iter();
        let nodes: Vec<_> = nodes.map(|node| node.id.to_string()).collect();
        let again = if replaced {
            " is loaded again"
        } else {
            " is loaded"
        };
        let text = match nodes.as_slice() {
            [] => format!("{}{again}", plugin.name()),
            nodes => format!("{}{again}, with {}", plugin.name(), nodes.join(", ")),
        };
        self.fine(file, "loaded", &text);
    }
}

impl FolderReport for Files {
    fn definitions(&self, found: &Reloaded) {
        for (file, published) in &found.published {
            let (name, version) = (&published.name, published.version);
            let text = match published.unchanged {
                true => format!("{name} is published, still as version {version}"),
                false => format!("{name} is published, as version {version}"),
            };
            self.fine(file, "published", &text);
            let name = self.screen.place(file);
            let warnings = published.warnings.clone();
            let text = std::fs::read_to_string(file).unwrap_or_default();
            warn(
                &self.screen.output,
                &source::located(name, text.into(), warnings),
            );
        }
        for (file, workflow) in &found.same {
            self.fine(file, "unchanged", &format!("{workflow} is published"));
        }
        for (file, workflow, version) in &found.retracted {
            let text = format!("the file is gone, so {workflow} version {version} is retracted");
            self.gone(file, "retracted", &text);
        }
        for directory in &found.emptied {
            let text = "all files are gone at once, so the published workflows stay";
            self.gone(directory, "emptied", text);
        }
        found.failed.iter().for_each(|failed| self.failed(failed));
        for ignored in &found.ignored {
            self.ignored(&ignored.path, ignored.why);
        }
        self.forget_gone();
    }

    fn runnable(&self, of: &Runnable) {
        let (workflow, version) = (&of.workflow, of.version);
        match &of.mistake {
            Some(mistake) => {
                let message = &mistake.message;
                let text = format!("{workflow} version {version} cannot run any more: {message}");
                let mut expected = Expected::new(mistake.code.clone(), text);
                expected.help = mistake.help.as_deref().map(sentence);
                report(&self.screen.output, &expected);
            }
            None => {
                let text = format!("{workflow} version {version} can run again");
                let event = json!({ "event": "runnable", "workflow": workflow, "text": text });
                self.screen
                    .say(&event, |paint| format!("{} {text}", paint.good('✓')));
            }
        }
    }

    fn plugin(&self, event: &LoadEvent) {
        match event {
            LoadEvent::Loaded {
                file,
                plugin,
                replaced,
            } => self.loaded(file, plugin, replaced.is_some()),
            LoadEvent::Failed { file, error, kept } => {
                // The host reports a failure again only if the file or the failure has changed.
                self.is_news(file, &error.message, false);
                let text = format!("{}: {}", self.screen.place(file), error.message);
                let kept = kept.map(|_| "The version before it stays loaded.".to_owned());
                let expected = Expected::new(error.code.clone(), text).note(kept);
                report(&self.screen.output, &expected);
            }
            // The report about a compilation that takes long says it.
            LoadEvent::Compiling { .. } => {}
            LoadEvent::Compiled { digest, result } => match result {
                Ok(plugin) => {
                    let text = format!("{} of earlier runs is compiled", plugin.name());
                    self.fine(&plugin.file, "compiled", &text);
                }
                Err(error) => {
                    let text = format!("the component {digest} of earlier runs: {}", error.message);
                    report(
                        &self.screen.output,
                        &Expected::new(error.code.clone(), text),
                    );
                }
            },
            LoadEvent::Ignored { path, why } => self.ignored(path, why),
            LoadEvent::Removed { file, .. } => {
                let text = "the file is gone; only runs that have begun still use its nodes";
                self.gone(file, "removed", text);
            }
        }
    }
}
