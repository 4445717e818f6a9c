//! Publishing a definition: from then on, its triggers start runs.

use std::sync::Arc;

use bytes::Bytes;
use windlass_model::definition::StartTrigger;
use windlass_model::schedule::{self, Schedule};
use windlass_model::{Definition, Diagnostic, http, stimulus, valid};
use windlass_plugins::Host;
use windlass_store::Store;
use windlass_store::published::{NewBinding, NewPublication, NewSchedule, PublicationRow, Retract};
use windlass_store::rows::DefinitionRow;
use windlass_store::write::Fenced;

use super::tell;
use crate::catalog::{PublishedOthers, Report};
use crate::codes;
use crate::error::Error;

/// How often publishing is tried again when other processes publish the same workflow meanwhile.
pub(crate) const TRIES: usize = 16;

/// The limits of the source of a definition.
const PLACE: valid::Kind<'_> = valid::Kind::new("the path of a workflow file", 1, 2_048);

/// The result of publishing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The workflow.
    pub name: String,
    /// Its version, from 1.
    pub version: u32,
    /// The same definition was already published.
    pub unchanged: bool,
    /// The number of its triggers that wait for stimuli.
    pub events: usize,
    /// The number of its schedules.
    pub schedules: usize,
    /// Behaviour that its author may not expect.
    pub warnings: Vec<Diagnostic>,
}

/// Publishes a definition as a version of its workflow. Existing runs keep their version.
///
/// # Errors
///
/// All mistakes in the definition on the current plugins, or the store fails. The earlier version
/// stays published then.
pub fn publish(
    store: &dyn Store,
    plugins: &Host,
    now_ms: i64,
    definition: DefinitionRow,
) -> Result<Published, Error> {
    let published = publish_from(store, plugins, now_ms, definition, &From::default())?;
    Ok(published.ok_or(Fenced)?)
}

/// The expectations and the source of a version to be published.
#[derive(Clone, Debug, Default)]
pub(crate) struct From {
    /// The version that has to be published at present.
    pub(crate) only: Option<u32>,
    /// The revision of its draft.
    pub(crate) draft: Option<u64>,
    /// The place from which it was read.
    pub(crate) source: Option<String>,
    /// Its text, as in [`NewPublication::text`].
    pub(crate) text: Option<Bytes>,
}

/// As [`publish`]; none if an expectation does not hold any more.
pub(crate) fn publish_from(
    store: &dyn Store,
    plugins: &Host,
    now_ms: i64,
    definition: DefinitionRow,
    from: &From,
) -> Result<Option<Published>, Error> {
    let read = windlass_model::file::read_canonical(&definition.json).map_err(Error::Definition)?;
    let others = PublishedOthers(store);
    let mut report = crate::catalog::check(&read, plugins, Some(&others));
    if store.definition(definition.digest)?.is_some() {
        // It was published or has run: a newer check does not take it away.
        report.forgive();
    }
    let Report { mistakes, warnings } = report;
    if !mistakes.is_empty() {
        return Err(crate::catalog::mistaken(&read, mistakes, plugins));
    }
    // A definition that no run could begin with is not published.
    crate::catalog::begins(&read, &definition, plugins)?;
    if let Some(source) = &from.source {
        let wrong = PLACE.check(source);
        wrong.map_err(|wrong| Error::Refused {
            code: codes::BAD_KEY,
            message: format!("the workflow cannot be published from there: {wrong}"),
            help: Some("move the file to a shorter path".to_owned()),
        })?;
    }
    let (bindings, schedules) = (bindings(&read), schedules(&read, now_ms));
    let (name, events, planned) = (definition.name.clone(), bindings.len(), schedules.len());
    let publication = NewPublication {
        definition: Arc::new(definition),
        bindings,
        schedules,
        only: from.only,
        draft: from.draft,
        source: from.source.clone(),
        text: from.text.clone(),
        at_ms: now_ms,
    };
    let made = tell(store, publication)?.ok();
    Ok(made.map(|made| Published {
        name,
        version: made.version,
        unchanged: made.unchanged,
        events,
        schedules: planned,
        warnings,
    }))
}

/// As [`publish`], with the text that the definition was read from, and only if the published version
/// is as `expected`; otherwise none. The store checks
/// this in the transaction that publishes, so concurrent publishing cannot break it.
///
/// # Errors
///
/// As [`publish`]; or other processes keep publishing the same workflow.
pub fn publish_if(
    store: &dyn Store,
    plugins: &Host,
    now_ms: i64,
    definition: &DefinitionRow,
    text: Option<&Bytes>,
    expected: impl Fn(Option<&PublicationRow>) -> bool,
) -> Result<Option<Published>, Error> {
    over(store, &definition.name, expected, |only| {
        let from = From {
            only: Some(only),
            text: text.cloned(),
            ..From::default()
        };
        publish_from(store, plugins, now_ms, definition.clone(), &from)
    })
}

/// Retracts the published version of a workflow and its triggers, only if the version is as
/// `expected`; otherwise none. Returns the version, or none if there was no published version.
///
/// # Errors
///
/// The store fails, or other processes keep publishing the same workflow.
pub fn retract_if(
    store: &dyn Store,
    now_ms: i64,
    name: &str,
    expected: impl Fn(Option<&PublicationRow>) -> bool,
) -> Result<Option<Option<u32>>, Error> {
    over(store, name, expected, |only| {
        let retract = Retract {
            name: name.to_owned(),
            only: Some(only),
            at_ms: now_ms,
        };
        Ok(tell(store, retract)?.ok())
    })
}

/// Changes the published version if it is as expected, and tries again if another process has
/// changed it first. The change gets the expected version number, 0 for none.
fn over<T>(
    store: &dyn Store,
    name: &str,
    expected: impl Fn(Option<&PublicationRow>) -> bool,
    change: impl Fn(u32) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    for _ in 0..TRIES {
        let row = store.published(name)?;
        if !expected(row.as_ref()) {
            return Ok(None);
        }
        let changed = change(row.map_or(0, |row| row.version))?;
        if changed.is_some() {
            return Ok(changed);
        }
    }
    Err(busy(name))
}

/// The error if other processes keep publishing the same workflow.
pub(crate) fn busy(name: &str) -> Error {
    Error::NotNow {
        code: codes::IN_PROGRESS,
        message: format!("the workflow `{name}` is published anew again and again"),
        help: Some("try again later".to_owned()),
    }
}

fn bindings(definition: &Definition) -> Vec<NewBinding> {
    let of = |(key, trigger): (&String, &StartTrigger)| match trigger {
        StartTrigger::Event { name, matches, .. } => {
            let matches = Bytes::from(stimulus::canonical(matches));
            Some(NewBinding {
                key: key.clone(),
                name: name.clone(),
                hash: stimulus::hash(name, &matches, None),
                matches,
                node: None,
            })
        }
        StartTrigger::Http {
            method,
            path,
            verify,
            respond,
            intake,
        } => {
            let matches = Bytes::from(stimulus::canonical(&http::matches(method, path)));
            let hash = if http::is_direct(path, verify.as_ref(), respond, intake) {
                http::shape(method, path)
            } else {
                stimulus::hash(http::STIMULUS, &matches, None)
            };
            Some(NewBinding {
                key: key.clone(),
                name: http::STIMULUS.to_owned(),
                hash,
                matches,
                node: None,
            })
        }
        StartTrigger::Cron { .. } | StartTrigger::Every { .. } => None,
    };
    definition.triggers.iter().filter_map(of).collect()
}

fn schedules(definition: &Definition, now_ms: i64) -> Vec<NewSchedule> {
    let of = |(key, trigger): (&String, &StartTrigger)| {
        let spec = schedule::encode(trigger)?;
        // The file was checked, so the schedule is valid.
        let schedule = Schedule::of(trigger)?.ok()?;
        let next_ms = schedule.next_after(now_ms, now_ms).unwrap_or(i64::MAX);
        let key = key.clone();
        Some(NewSchedule { key, spec, next_ms })
    };
    definition.triggers.iter().filter_map(of).collect()
}
