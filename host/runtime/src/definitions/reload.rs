//! Reads the files again, and publishes those that have changed.
//!
//! A file is published when its content differs from the last published content of that file. So a
//! restart does not overrule a version that a user has published by hand. Only an explicit reload
//! publishes every file that differs from the published version.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use windlass_locks::Key;
use windlass_model::codes::NO_WEB_SERVER;
use windlass_model::definition::StartTrigger;
use windlass_model::{Diagnostic, Digest, file, limits};
use windlass_store::Writer as _;
use windlass_store::drafts::{DropSource, Upkeep};
use windlass_store::rows::DefinitionRow;

use super::files::{Content, Files, Ignored, Present, Seen, Stamp};
use super::refresh::lost;
use super::{Definitions, OnRemoval, Upkept};
use crate::catalog::{PublishedOthers, check_file};
use crate::codes;
use crate::error::Error;
use crate::operations::{From, Published, publish_from};

/// The number of sources in one read.
const PAGE: u32 = 1_000;

/// The result of looking at the files.
#[derive(Debug, Default)]
pub struct Reloaded {
    /// The files that were published, now or before.
    pub published: Vec<(PathBuf, Published)>,
    /// Files that were read and have the content that was published from them last, with their
    /// workflows.
    pub same: Vec<(PathBuf, String)>,
    /// Removed files, with the workflow and the version that were retracted.
    pub retracted: Vec<(PathBuf, String, u32)>,
    /// Directories that have lost all their files at once: their workflows are not retracted.
    pub emptied: Vec<PathBuf>,
    /// The files that cannot be published, and why. The earlier versions stay published. Also the
    /// directories that cannot be read: none of their files counts as removed.
    pub failed: Vec<Failed>,
    /// Entries of the directories that are not read, each in one report.
    pub ignored: Vec<Ignored>,
}

/// A file that cannot be published.
#[derive(Debug)]
pub struct Failed {
    /// The file or directory.
    pub file: PathBuf,
    /// Its text, as far as it could be read.
    pub text: Arc<str>,
    /// Why it cannot be published. Mistakes in the text have their places.
    pub error: Error,
    /// The file was tried again and has not changed since the last report about it.
    pub again: bool,
}

impl Definitions {
    /// Reads all files again, and publishes every file that differs from the published version.
    ///
    /// # Errors
    ///
    /// The store or the lock provider fails. The request stays for the next process that reads
    /// requests.
    pub fn reload(&self) -> Result<Upkept<Reloaded>, Error> {
        let no = self.request(Upkeep::Reload)?;
        let done = self.exclusively(&[Key::reload()], |held| {
            let reloaded = self.reload_now(true, false, held)?;
            self.done(no)?;
            Ok::<_, Error>(reloaded)
        })?;
        let Some(reloaded) = done else {
            return Ok(Upkept::AlreadyInProgress);
        };
        let reloaded = reloaded?;
        self.catch_up_reloading()?;
        Ok(Upkept::Done(reloaded))
    }

    /// Looks at the files, and publishes those that have changed since the last look. With `again`,
    /// also those that could not be published then. If no file has changed, the store is not used.
    ///
    /// # Errors
    ///
    /// As [`Self::reload`]; the next look finds the same files again.
    pub fn look(&self, again: bool) -> Result<Upkept<Reloaded>, Error> {
        let present = Present::of(&self.options.directories);
        if !self.files.lock().differ(&present, again) {
            return Ok(Upkept::Done(Reloaded::default()));
        }
        let done =
            self.exclusively(&[Key::reload()], |held| self.reload_now(false, again, held))?;
        let Some(reloaded) = done else {
            return Ok(Upkept::AlreadyInProgress);
        };
        let reloaded = reloaded?;
        // A caller that asked meanwhile was told that a reload is in progress, so its request is
        // carried out now.
        self.catch_up_reloading()?;
        Ok(Upkept::Done(reloaded))
    }

    pub(super) fn reload_now(
        &self,
        force: bool,
        again: bool,
        held: &dyn Fn() -> bool,
    ) -> Result<Reloaded, Error> {
        let mut files = self.files.lock();
        let mut reloaded = Reloaded::default();
        let present = Present::of(&self.options.directories);
        let mut sources = BTreeSet::new();
        if force || !files.begun {
            sources = self.places()?;
        }
        Self::part(&mut files, &present, &sources, force, &mut reloaded);
        // After a restart, the files from which the workflows were published keep them.
        let known = |path: &&PathBuf| sources.contains(*path);
        let (first, then): (Vec<_>, Vec<_>) = present.files.keys().partition(known);
        for path in first.into_iter().chain(then) {
            let Some(stamp) = present.files.get(path) else {
                continue;
            };
            if !force && files.knows(path, stamp, again) {
                continue;
            }
            if !held() {
                return Err(lost());
            }
            self.take_in(&mut files, path, *stamp, force, &mut reloaded)?;
        }
        // The workflow of a file that is gone, or that has another workflow now, is taken over by
        // another file with it. Each file is an heir at most twice: its text is read again, and it
        // may have changed.
        for _ in 0..2 * files.seen.len() {
            let Some((path, stamp)) = files.heir() else {
                break;
            };
            if !held() {
                return Err(lost());
            }
            self.take_in(&mut files, &path, stamp, force, &mut reloaded)?;
        }
        // The heirs were refused at first.
        reloaded.failed.retain(|failed| {
            let seen = files.seen.get(&failed.file);
            seen.is_none_or(|seen| seen.content != Content::Published)
        });
        self.drop_gone(&mut files, &mut reloaded)?;
        files.begun = true;
        let unread = files.unread(&present, force);
        let unread = unread.into_iter();
        reloaded.failed.extend(unread.map(unread_directory));
        reloaded.ignored = files.ignored(present);
        Ok(reloaded)
    }

    /// Finds the files that are gone: they hold no workflow any more.
    fn part(
        files: &mut Files,
        present: &Present,
        sources: &BTreeSet<PathBuf>,
        force: bool,
        reloaded: &mut Reloaded,
    ) {
        files.gone.retain(|file| present.lacks(file));
        let gone = files.lacking(present, sources);
        let mut of: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
        for file in gone {
            let directory = file.parent().unwrap_or(Path::new("")).to_owned();
            of.entry(directory).or_default().push(file);
        }
        for (directory, gone) in of {
            files.seen.retain(|file, _| !gone.contains(file));
            // If several files vanish at once and the directory is empty, its disk is probably
            // unmounted.
            if gone.len() > 1 && present.is_empty(&directory) && !force {
                reloaded.emptied.push(directory);
            } else {
                files.gone.extend(gone);
            }
        }
    }

    /// Retracts the workflows of files that are gone, unless another file has it now.
    fn drop_gone(&self, files: &mut Files, reloaded: &mut Reloaded) -> Result<(), Error> {
        while let Some(file) = files.gone.first().cloned() {
            if let Some((workflow, version)) = self.drop_source(&file)? {
                reloaded.retracted.push((file.clone(), workflow, version));
            }
            files.gone.remove(&file);
        }
        Ok(())
    }

    /// The files from which any process has published a workflow.
    fn places(&self) -> Result<BTreeSet<PathBuf>, Error> {
        let mut places = BTreeSet::new();
        let mut after: Option<String> = None;
        loop {
            let page = self.store.sources(after.as_deref(), PAGE)?;
            places.extend(page.iter().map(|row| PathBuf::from(&row.name)));
            match page.into_iter().nth(PAGE as usize - 1) {
                Some(last) => after = Some(last.name),
                None => return Ok(places),
            }
        }
    }

    fn drop_source(&self, file: &Path) -> Result<Option<(String, u32)>, Error> {
        let name = file.display().to_string();
        let Some(row) = self.store.source(&name)? else {
            return Ok(None);
        };
        let version = self.store.write(DropSource {
            name,
            retract: self.options.on_removal == OnRemoval::Retract,
            at_ms: self.clock.wall_ms(),
        })?;
        self.store.notify();
        Ok(version.map(|version| (row.workflow, version)))
    }

    /// Publishes the content of a file, and records the look.
    fn take_in(
        &self,
        files: &mut Files,
        path: &Path,
        stamp: Stamp,
        force: bool,
        reloaded: &mut Reloaded,
    ) -> Result<(), Error> {
        let before = files.seen.get(path);
        let again =
            before.is_some_and(|seen| seen.stamp == stamp && seen.content != Content::Published);
        let held = before.and_then(|seen| seen.holds.clone());
        let (text, published) = self.publish_file(files, path, force);
        let file = path.to_owned();
        let (content, holds) = match published {
            Ok((workflow, published)) => {
                match published {
                    Some(published) => reloaded.published.push((file, published)),
                    None => reloaded.same.push((file, workflow.clone())),
                }
                (Content::Published, Some(workflow))
            }
            Err(NotPublished::Held { workflow, error }) => {
                reloaded.failed.push(Failed {
                    file,
                    text,
                    error,
                    again,
                });
                (Content::Held(workflow), None)
            }
            Err(NotPublished::Other(Error::Store(error))) => return Err(error.into()),
            Err(NotPublished::Other(error)) => {
                reloaded.failed.push(Failed {
                    file,
                    text,
                    error,
                    again,
                });
                // The version that was published from it stays, so no other file replaces it.
                (Content::Failed, held)
            }
        };
        let seen = Seen {
            stamp,
            content,
            holds,
        };
        files.seen.insert(path.to_owned(), seen);
        Ok(())
    }

    /// The text of a file and the result: the workflow, and the version if it was compared with the
    /// published one.
    #[expect(clippy::type_complexity, reason = "the text belongs to the error, too")]
    fn publish_file(
        &self,
        files: &Files,
        path: &Path,
        force: bool,
    ) -> (Arc<str>, Result<(String, Option<Published>), NotPublished>) {
        let text = match text_of(path) {
            Ok((text, None)) => text,
            Ok((text, Some(mistake))) => {
                return (text, Err(Error::Definition(vec![mistake]).into()));
            }
            Err(error) => return (Arc::from(""), Err(error.into())),
        };
        let published = self.publish_text(files, path, &text, force);
        (text, published)
    }

    fn publish_text(
        &self,
        files: &Files,
        path: &Path,
        text: &str,
        force: bool,
    ) -> Result<(String, Option<Published>), NotPublished> {
        let read = file::read(text, &path.display().to_string());
        let canonical = read.canonical();
        let (Some(definition), Some(json)) = (&read.definition, canonical) else {
            let others = PublishedOthers(self.store.as_ref());
            let report = check_file(&read, &self.plugins, Some(&others));
            return Err(Error::Definition(report.mistakes).into());
        };
        let name = definition.name.clone();
        if let Some(other) = files.holder(&name, path) {
            let error = Error::Refused {
                code: codes::SAME_WORKFLOW,
                message: format!("the workflow `{name}` is in {} already", other.display()),
                help: Some(
                    "give one of the two another name, or take one away: the other one is published \
                     then"
                        .to_owned(),
                ),
            };
            return Err(NotPublished::Held {
                workflow: name,
                error,
            });
        }
        let by_request = |trigger: &StartTrigger| matches!(trigger, StartTrigger::Http { .. });
        if !self.options.web && definition.triggers.values().any(by_request) {
            return Err(Error::Refused {
                code: NO_WEB_SERVER,
                message: format!(
                    "the workflow `{name}` has a trigger by `http`, and there is no web server"
                ),
                help: Some("set `listen` in [server], or let something send an event".to_owned()),
            }
            .into());
        }
        let place = path.display().to_string();
        let digest = Digest::of(&json);
        let mut only = None;
        match self.store.source(&place)? {
            Some(row) if row.workflow != name => drop(self.drop_source(path)?),
            Some(row) if row.definition == digest && !force => {
                let kept = self.store.published_text(&name, row.version)?;
                if kept.as_deref() == Some(text.as_bytes()) {
                    return Ok((name, None));
                }
                // Only comments differ: another version that is published now stays.
                only = Some(row.version);
            }
            _ => {}
        }
        let definition = DefinitionRow {
            digest,
            name: name.clone(),
            json: json.into(),
        };
        let from = From {
            only,
            source: Some(place),
            text: Some(Bytes::copy_from_slice(text.as_bytes())),
            ..From::default()
        };
        let (store, now_ms) = (self.store.as_ref(), self.clock.wall_ms());
        let published = self.index(&name, || {
            publish_from(store, &self.plugins, now_ms, definition, &from)
        })?;
        let published = published.map_err(|error| match error {
            Error::Definition(mut diagnostics) => {
                diagnostics.iter_mut().for_each(|it| read.map.locate(it));
                Error::Definition(diagnostics)
            }
            other => other,
        })?;
        Ok((name, published.filter(|_| only.is_none())))
    }
}

/// Why a file is not published.
enum NotPublished {
    /// Another file holds the workflow.
    Held { workflow: String, error: Error },
    /// Another reason.
    Other(Error),
}

impl std::convert::From<Error> for NotPublished {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl std::convert::From<windlass_store::Error> for NotPublished {
    fn from(error: windlass_store::Error) -> Self {
        Self::Other(error.into())
    }
}

fn unread_directory((file, why): (PathBuf, String)) -> Failed {
    let error = Error::Refused {
        code: codes::SOURCE_UNREADABLE,
        message: format!("the directory {} cannot be read: {why}", file.display()),
        help: Some(
            "the workflows of its files stay published, and changes are not noticed until the directory can be read"
                .to_owned(),
        ),
    };
    Failed {
        file,
        text: Arc::from(""),
        error,
        again: false,
    }
}

/// The text of a file, with the mistake if it is no UTF-8.
fn text_of(path: &Path) -> Result<(Arc<str>, Option<Diagnostic>), Error> {
    // One byte more than the limit, so that the reader notices a text that is too long.
    let bound = limits::WORKFLOW_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(bound).read_to_end(&mut bytes));
    read.map_err(|error| Error::Refused {
        code: codes::SOURCE_UNREADABLE,
        message: format!("{} cannot be read: {error}", path.display()),
        help: Some("look at the permissions of the file".to_owned()),
    })?;
    Ok(file::decode(&bytes))
}
