//! Drafts, and old versions that are published again.
//!
//! A draft is saved even with mistakes, because authors also save unfinished workflows; every save
//! reports the mistakes. Publishing a draft requires it to be correct, and removes it in the same
//! transaction.

use bytes::Bytes;
use windlass_model::limits::{WORKFLOW_BYTES, WORKFLOW_NAME_BYTES};
use windlass_model::visible::is_hidden;
use windlass_model::{Definition, Diagnostic, Digest, file};
use windlass_plugins::Host;
use windlass_store::Store;
use windlass_store::drafts::{DiscardDraft, DraftRow, NewDraft};
use windlass_store::published::PublicationQuery;
use windlass_store::rows::DefinitionRow;
use windlass_store::write::Fenced;

use super::definitions::{From, Published, publish_from};
use super::tell;
use crate::catalog::PublishedOthers;
use crate::codes;
use crate::error::Error;

/// The limit of versions that are searched.
const VERSIONS: u32 = 100_000;

/// A draft to be saved.
#[derive(Clone, Debug, Default)]
pub struct SaveDraft {
    /// The workflow; none: the name in the text.
    pub name: Option<String>,
    /// The text of the draft.
    pub text: String,
    /// The revision that may be overwritten, 0 for no draft; none: any.
    pub expected: Option<u64>,
}

/// The result of saving a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedDraft {
    /// The workflow.
    pub name: String,
    /// The revision of the draft.
    pub revision: u64,
    /// The mistakes that prevent its publication.
    pub problems: Vec<Diagnostic>,
    /// Behaviour that its author may not expect.
    pub warnings: Vec<Diagnostic>,
}

/// Saves a draft, even with mistakes.
///
/// # Errors
///
/// The draft is too long, its text and the caller name no workflow, the revision is not the
/// expected one, or the store fails. The draft is unchanged then.
pub fn save_draft(
    store: &dyn Store,
    plugins: &Host,
    now_ms: i64,
    draft: &SaveDraft,
) -> Result<SavedDraft, Error> {
    if draft.text.len() > WORKFLOW_BYTES {
        let message = format!("a draft has at most {WORKFLOW_BYTES} bytes");
        return Err(refused(message, "make it shorter"));
    }
    let read = file::read(&draft.text, "draft");
    let said = said(read.definition.as_ref(), &draft.text);
    let report = crate::catalog::check_file(&read, plugins, Some(&PublishedOthers(store)));
    let (problems, warnings) = (report.mistakes, report.warnings);
    let name = match (&draft.name, said) {
        (Some(name), said) if said.is_none_or(|said| said == name) => name.as_str(),
        (None, Some(said)) => said,
        (Some(name), _) => {
            let message = format!("the draft is of another workflow than `{name}`");
            return Err(refused(message, "change the name in one of the two"));
        }
        (None, None) => return Err(nameless()),
    };
    let name = name.to_owned();
    let based_on = store.published(&name)?.map(|row| row.version);
    let revision = save(
        store,
        now_ms,
        &name,
        draft.text.clone().into(),
        based_on,
        draft.expected,
    )?;
    Ok(SavedDraft {
        name,
        revision,
        problems,
        warnings,
    })
}

/// The name of the workflow in a text that may have mistakes.
///
/// # Errors
///
/// The text has no name.
pub fn draft_name(text: &str) -> Result<String, Error> {
    let read = file::read(text, "draft");
    let said = said(read.definition.as_ref(), text);
    said.map(str::to_owned).ok_or_else(nameless)
}

fn said<'a>(definition: Option<&'a Definition>, text: &'a str) -> Option<&'a str> {
    match definition {
        Some(definition) => Some(definition.name.as_str()),
        None => name_in(text),
    }
}

fn nameless() -> Error {
    let message = "the draft does not say which workflow it is of".to_owned();
    refused(message, "begin it with a line like `workflow: NAME`")
}

fn draft(store: &dyn Store, name: &str) -> Result<DraftRow, Error> {
    store.draft(name)?.ok_or_else(|| no_draft(name))
}

/// Publishes the draft of a workflow and removes it. `expected`: only this revision.
///
/// # Errors
///
/// There is no draft, it has changed, it has mistakes, or the store fails. It stays a draft then.
pub fn publish_draft(
    store: &dyn Store,
    plugins: &Host,
    now_ms: i64,
    name: &str,
    expected: Option<u64>,
) -> Result<Published, Error> {
    let draft = draft(store, name)?;
    if expected.is_some_and(|expected| expected != draft.revision) {
        return Err(moved(name));
    }
    let definition = definition_of(&draft)?;
    let from = From {
        draft: Some(draft.revision),
        text: Some(draft.content),
        ..From::default()
    };
    let published = publish_from(store, plugins, now_ms, definition, &from)?;
    published.ok_or_else(|| moved(name))
}

/// Discards the draft of a workflow. `expected`: only this revision.
///
/// # Errors
///
/// There is no such draft, or the store fails.
pub fn discard_draft(store: &dyn Store, name: &str, expected: Option<u64>) -> Result<(), Error> {
    let discard = DiscardDraft {
        name: name.to_owned(),
        revision: expected,
    };
    match tell(store, discard)? {
        Ok(()) => Ok(()),
        Err(Fenced) if store.draft(name)?.is_some() => Err(moved(name)),
        Err(Fenced) => Err(no_draft(name)),
    }
}

/// Publishes an old version again, as a new version.
///
/// # Errors
///
/// There is no such version, it cannot run on the current plugins, or the store fails.
pub fn revert(
    store: &dyn Store,
    plugins: &Host,
    now_ms: i64,
    name: &str,
    version: u32,
) -> Result<Published, Error> {
    let row = of_version(store, name, version)?;
    let from = From {
        text: store.published_text(name, version)?,
        ..From::default()
    };
    let published = publish_from(store, plugins, now_ms, row, &from)?;
    Ok(published.ok_or(Fenced)?)
}

/// Makes a draft of an old version, and replaces the current draft, if there is one. Returns the
/// revision.
///
/// # Errors
///
/// There is no such version, the revision of the draft is not the expected one, or the store fails.
pub fn revert_to_draft(
    store: &dyn Store,
    now_ms: i64,
    name: &str,
    version: u32,
    expected: Option<u64>,
) -> Result<u64, Error> {
    let row = of_version(store, name, version)?;
    let text = match store.published_text(name, version)? {
        Some(text) => text,
        None => {
            let value: serde_json::Value = serde_json::from_slice(&row.json).map_err(|error| {
                Error::Unreadable(format!("version {version} of {name}: {error}"))
            })?;
            let text = serde_json::to_string_pretty(&value).map_err(std::io::Error::from)?;
            text.into()
        }
    };
    save(store, now_ms, name, text, Some(version), expected)
}

/// The definition of a version of a workflow, published or retracted.
pub(super) fn of_version(
    store: &dyn Store,
    name: &str,
    version: u32,
) -> Result<DefinitionRow, Error> {
    let rows = store.publications(&PublicationQuery {
        name: Some(name.to_owned()),
        retracted: true,
        after: None,
        limit: VERSIONS,
    })?;
    let found = rows.into_iter().find(|row| row.version == version);
    let row = found.ok_or_else(|| Error::NotNow {
        code: codes::NO_VERSION,
        message: format!("there is no version {version} of the workflow `{name}`"),
        help: Some("`windlass workflow list --all` shows the versions that there are".to_owned()),
    })?;
    let digest = row.definition;
    let row = store.definition(digest)?;
    row.ok_or_else(|| Error::Unreadable(format!("the store has no definition {digest}")))
}

fn save(
    store: &dyn Store,
    now_ms: i64,
    name: &str,
    text: Bytes,
    based_on: Option<u32>,
    expected: Option<u64>,
) -> Result<u64, Error> {
    let draft = NewDraft {
        name: name.to_owned(),
        content: text,
        based_on,
        expected,
        at_ms: now_ms,
    };
    tell(store, draft)?.map_err(|Fenced| moved(name))
}

/// The definition of a draft without mistakes.
fn definition_of(draft: &DraftRow) -> Result<DefinitionRow, Error> {
    let text = String::from_utf8_lossy(&draft.content);
    let read = file::read(&text, "draft");
    let canonical = read.canonical();
    match (read.definition, canonical) {
        (Some(definition), Some(json)) if definition.name == draft.name => Ok(DefinitionRow {
            digest: Digest::of(&json),
            name: definition.name,
            json: json.into(),
        }),
        (Some(_), Some(_)) => {
            let message = format!("the draft of `{}` is of another workflow", draft.name);
            Err(refused(message, "change the name in the draft"))
        }
        _ => Err(Error::Definition(read.diagnostics)),
    }
}

/// The name of a workflow in a text that cannot be read as a whole.
fn name_in(text: &str) -> Option<&str> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix("workflow:"))?;
    let name = rest.split('#').next()?.trim().trim_matches(['"', '\'']);
    let is_name = (1..=WORKFLOW_NAME_BYTES).contains(&name.len());
    // Nothing in the name of a workflow is hidden, so this text is none.
    (is_name && !name.chars().any(|c| c.is_control() || is_hidden(c))).then_some(name)
}

fn refused(message: String, help: &str) -> Error {
    Error::Refused {
        code: codes::BAD_DRAFT,
        message,
        help: Some(help.to_owned()),
    }
}

fn no_draft(name: &str) -> Error {
    Error::NotNow {
        code: codes::NO_DRAFT,
        message: format!("there is no draft of the workflow `{name}`"),
        help: Some("`windlass workflow draft list` lists the drafts".to_owned()),
    }
}

fn moved(name: &str) -> Error {
    Error::NotNow {
        code: codes::DRAFT_MOVED,
        message: format!("the draft of `{name}` has been changed meanwhile"),
        help: Some("look at it with `windlass workflow draft show`, and try again".to_owned()),
    }
}
