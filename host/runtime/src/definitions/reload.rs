//! Reads the files again, and publishes those that have changed.
//!
//! A file is published when its content differs from the last published content of that file. So a
//! restart does not overrule a version that a user has published by hand. Only an explicit reload
//! publishes every file that differs from the published version.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_locks::Key;
use windlass_model::codes::NO_WEB_SERVER;
use windlass_model::definition::StartTrigger;
use windlass_model::{Diagnostic, Digest, file, limits};
use windlass_store::Writer as _;
use windlass_store::drafts::{DropSource, Upkeep};
use windlass_store::rows::DefinitionRow;

use super::files::{Files, Present, Seen, Stamp};
use super::refresh::lost;
use super::{Definitions, OnRemoval, Upkept};
use crate::catalog::{PublishedOthers, check_file};
use crate::client::{From, Published, publish_from};
use crate::codes;
use crate::error::Error;

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
    /// The files that cannot be published, and why. The earlier versions stay published.
    pub failed: Vec<Failed>,
}

/// A file that cannot be published.
#[derive(Debug)]
pub struct Failed {
    /// The file.
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
        self.drop_missing(&mut files, &present, force, &mut reloaded)?;
        for (path, stamp) in &present.files {
            if !force && files.knows(path, stamp, again) {
                continue;
            }
            if !held() {
                return Err(lost());
            }
            self.take_in(&mut files, path, *stamp, force, &mut reloaded)?;
        }
        Ok(reloaded)
    }

    /// Retracts the workflows of files that were removed.
    fn drop_missing(
        &self,
        files: &mut Files,
        present: &Present,
        force: bool,
        reloaded: &mut Reloaded,
    ) -> Result<(), Error> {
        let mut missing: BTreeSet<PathBuf> = files.seen.keys().cloned().collect();
        if force || !files.begun {
            missing.extend(self.places()?);
            files.begun = true;
        }
        missing.retain(|file| present.lacks(file));
        let mut of: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
        for file in missing {
            let directory = file.parent().unwrap_or(Path::new("")).to_owned();
            of.entry(directory).or_default().push(file);
        }
        for (directory, lost) in of {
            // If several files vanish at once and the directory is empty, its disk is probably
            // unmounted.
            if lost.len() > 1 && present.is_empty(&directory) && !force {
                files.seen.retain(|file, _| !lost.contains(file));
                reloaded.emptied.push(directory);
                continue;
            }
            for file in lost {
                if let Some((workflow, version)) = self.drop_source(&file)? {
                    reloaded.retracted.push((file.clone(), workflow, version));
                }
                files.seen.remove(&file);
            }
        }
        Ok(())
    }

    /// The files from which any process has published a workflow.
    fn places(&self) -> Result<Vec<PathBuf>, Error> {
        let mut places = Vec::new();
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
        let again = files.seen.get(path);
        let again = again.is_some_and(|seen| seen.stamp == stamp && seen.workflow.is_none());
        let (text, published) = self.publish_file(files, path, force);
        let file = path.to_owned();
        let workflow = match published {
            Ok((workflow, published)) => {
                match published {
                    Some(published) => reloaded.published.push((file, published)),
                    None => reloaded.same.push((file, workflow.clone())),
                }
                Some(workflow)
            }
            Err(Error::Store(error)) => return Err(error.into()),
            Err(error) => {
                reloaded.failed.push(Failed {
                    file,
                    text,
                    error,
                    again,
                });
                None
            }
        };
        files.seen.insert(path.to_owned(), Seen { stamp, workflow });
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
    ) -> (Arc<str>, Result<(String, Option<Published>), Error>) {
        let text = match text_of(path) {
            Ok((text, None)) => text,
            Ok((text, Some(mistake))) => return (text, Err(Error::Definition(vec![mistake]))),
            Err(error) => return (Arc::from(""), Err(error)),
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
    ) -> Result<(String, Option<Published>), Error> {
        let read = file::read(text, &path.display().to_string());
        let canonical = read.canonical();
        let (Some(definition), Some(json)) = (&read.definition, canonical) else {
            let others = PublishedOthers(self.store.as_ref());
            let report = check_file(&read, &self.plugins, Some(&others));
            return Err(Error::Definition(report.mistakes));
        };
        let name = definition.name.clone();
        let same = |(other, seen): (&PathBuf, &Seen)| {
            (other != path && seen.workflow.as_ref() == Some(&name)).then(|| other.clone())
        };
        if let Some(other) = files.seen.iter().find_map(same) {
            return Err(Error::Refused {
                code: codes::SAME_WORKFLOW,
                message: format!("the workflow `{name}` is in {} already", other.display()),
                help: Some("give one of the two another name, or take it away".to_owned()),
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
            });
        }
        let place = path.display().to_string();
        let digest = Digest::of(&json);
        match self.store.source(&place)? {
            Some(row) if row.workflow != name => drop(self.drop_source(path)?),
            Some(row) if row.definition == digest && !force => return Ok((name, None)),
            _ => {}
        }
        let definition = DefinitionRow {
            digest,
            name: name.clone(),
            json: json.into(),
        };
        let from = From {
            source: Some(place),
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
        Ok((name, published))
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
