//! Published definitions, and the due times of their schedules.
//!
//! An `ETag` is the digest of the published definition.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_model::Digest;
use windlass_model::file::DIAGNOSTICS;
use windlass_runtime::{cannot_run, operations};
use windlass_store::passing;
use windlass_store::published::{PublicationQuery, PublicationRow, ScheduleQuery};

use crate::app::{App, AppInner};
use crate::extract::{Named, QueryParams, check_optional};
use crate::json::Json;
use crate::page::{Page, PageAsked};
use crate::problem::{Mistake, Problem};
use crate::raw::Raw;
use crate::view::moment;
use crate::workflow_file::WorkflowFile;

/// The most versions of one workflow that a request reads.
const VERSIONS: u32 = 10_000;

/// Due times per schedule by default.
const COUNT: u16 = 5;

/// The most due times per schedule.
const MOST: u16 = 1_000;

/// A version of a workflow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Version {
    /// The workflow.
    workflow: String,
    /// The number of the version, from 1.
    version: u32,
    /// The definition, by its digest.
    definition: String,
    /// The time at which it was published.
    published: String,
    /// The time at which it was retracted or replaced.
    #[schema(required = true)]
    retracted: Option<String>,
    /// Why its runs cannot begin, or must fail, on the current plugins of the host. Null if it is
    /// not published, the request does not ask, or the process cannot load plugins.
    #[schema(required = true)]
    mistakes: Option<Vec<Mistake>>,
}

fn version(row: &PublicationRow) -> Version {
    Version {
        workflow: row.name.clone(),
        version: row.version,
        definition: row.definition.to_string(),
        published: moment(row.published_ms),
        retracted: row.retracted_ms.map(moment),
        mistakes: None,
    }
}

/// Why runs of a published version cannot begin on the current plugins. None: this process cannot
/// load plugins.
fn mistakes(app: &AppInner, row: &PublicationRow) -> Result<Option<Vec<Mistake>>, Box<Problem>> {
    let Ok(plugins) = app.resources().plugins() else {
        return Ok(None);
    };
    let stored = app.store().definition(row.definition)?;
    let found = stored.map(|stored| cannot_run(&stored, &plugins));
    let found = found.unwrap_or_default();
    let found = found.iter().take(DIAGNOSTICS);
    Ok(Some(found.map(Mistake::from).collect()))
}

/// As [`version`], with the mistakes if they are asked for.
fn checked(app: &AppInner, row: &PublicationRow, asked: bool) -> Result<Version, Box<Problem>> {
    let mut version = version(row);
    if asked && row.retracted_ms.is_none() {
        version.mistakes = mistakes(app, row)?;
    }
    Ok(version)
}

/// Which versions to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Include versions that are no longer published, the newest of each workflow first.
    #[serde(default)]
    retracted: bool,
    /// Only versions of this workflow.
    workflow: Option<String>,
    /// Check whether the published versions can run on the current plugins of the host.
    #[serde(default)]
    check: bool,
}

/// List the published workflows, by name.
#[utoipa::path(get, path = "/api/v1/definitions", operation_id = "listDefinitions", tag = "definitions", params(PageAsked, Filter),
    responses((status = 200, description = "A page of versions.", body = Page<Version>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
    QueryParams(filter): QueryParams<Filter>,
) -> Result<Json<Page<Version>>, Box<Problem>> {
    check_optional("`workflow`", filter.workflow.as_deref())?;
    app.read(move |app| {
        let workflow = filter.workflow.as_deref();
        if filter.retracted {
            let after = page.after("versions")?;
            let rows = page.rows(|limit| versions(app, workflow, after.as_deref(), limit))?;
            let place = |row: &PublicationRow| format!("{} {}", row.name, row.version);
            return page.part("versions", rows, place, |row| {
                checked(app, &row, filter.check)
            });
        }
        let after = page.after("definitions")?;
        let rows = page.rows(|limit| {
            Ok(app.store().publications(&PublicationQuery {
                name: filter.workflow.clone(),
                after: after.clone(),
                limit,
                ..PublicationQuery::default()
            })?)
        })?;
        let place = |row: &PublicationRow| row.name.clone();
        page.part("definitions", rows, place, |row| {
            checked(app, &row, filter.check)
        })
    })
    .await
    .map(Json)
}

/// Versions after a position, by name and the newest first: of one workflow, or of all.
fn versions(
    app: &AppInner,
    workflow: Option<&str>,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<PublicationRow>, Box<Problem>> {
    let unreadable = Problem::foreign_cursor;
    let of = |name: Option<&str>, after: Option<&str>, limit| {
        app.store().publications(&PublicationQuery {
            name: name.map(str::to_owned),
            retracted: true,
            after: after.map(str::to_owned),
            limit,
        })
    };
    let Some(place) = after else {
        return Ok(of(workflow, None, limit)?);
    };
    let (name, version) = place.split_once(' ').ok_or_else(unreadable)?;
    let version: u32 = version.parse().map_err(|_| unreadable())?;
    if workflow.is_some_and(|workflow| workflow != name) {
        return Err(unreadable());
    }
    // First the remaining versions of the workflow in which the previous page ended.
    let mut rows = passing(u64::MAX, || of(Some(name), None, VERSIONS))?;
    rows.retain(|row| row.version < version);
    rows.truncate(limit as usize);
    let left = limit.saturating_sub(u32::try_from(rows.len()).unwrap_or(limit));
    if left > 0 && workflow.is_none() {
        rows.extend(of(None, Some(name), left)?);
    }
    Ok(rows)
}

/// A trigger that starts a workflow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Starter {
    /// Its name in the definition.
    key: String,
    /// The event that starts it.
    #[schema(required = true)]
    event: Option<String>,
    /// The value that the event's `match` has to equal.
    #[serde(rename = "match")]
    #[schema(value_type = Option<Value>, required = true)]
    matches: Option<Raw>,
    /// The next due time of its schedule.
    #[schema(required = true)]
    next: Option<String>,
    /// The last occurrence for which its schedule has decided whether to start a run.
    #[schema(required = true)]
    last: Option<String>,
    /// The last run that its schedule has started.
    #[schema(required = true)]
    run: Option<Uuid>,
    /// Since when its schedule is paused.
    #[schema(required = true)]
    paused: Option<String>,
}

/// A version of a workflow, with its definition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DefinitionShown {
    /// The version without its definition.
    version: Version,
    /// Its triggers; only a published version has any.
    triggers: Vec<Starter>,
    /// The definition.
    #[schema(value_type = WorkflowFile)]
    file: Raw,
}

/// Selects a version.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// This version instead of the published one.
    version: Option<u32>,
}

/// Show a workflow.
#[utoipa::path(get, path = "/api/v1/definitions/{name}", operation_id = "getDefinition", tag = "definitions",
    params(("name" = String, Path, description = "The workflow."), Which),
    responses((status = 200, description = "The version with its triggers and its definition.", body = DefinitionShown,
        headers(("etag" = String, description = "The definition, for `If-Match`.")))))]
pub(crate) async fn show(
    State(app): State<App>,
    Named(name): Named,
    QueryParams(which): QueryParams<Which>,
) -> Result<Response, Box<Problem>> {
    let (shown, digest) = app
        .read(move |app| shown(app, &name, which.version))
        .await?;
    Ok(tagged(digest, Json(shown).into_response()))
}

/// The text of a version.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DefinitionText {
    /// The workflow.
    workflow: String,
    /// The number of the version.
    version: u32,
    /// The text as its author published it last, in YAML or JSON, comments and all. Null if the
    /// version was published without a text.
    #[schema(required = true)]
    text: Option<String>,
}

/// Show the text that a version was published as.
#[utoipa::path(get, path = "/api/v1/definitions/{name}/text", operation_id = "getDefinitionText", tag = "definitions",
    params(("name" = String, Path, description = "The workflow."), Which),
    responses((status = 200, description = "The text of the version.", body = DefinitionText)))]
pub(crate) async fn text(
    State(app): State<App>,
    Named(name): Named,
    QueryParams(which): QueryParams<Which>,
) -> Result<Json<DefinitionText>, Box<Problem>> {
    app.read(move |app| {
        let row = wanted(app, &name, which.version)?;
        let text = app.store().published_text(&name, row.version)?;
        Ok(Json(DefinitionText {
            workflow: row.name,
            version: row.version,
            text: text.map(|text| String::from_utf8_lossy(&text).into_owned()),
        }))
    })
    .await
}

/// A version of a workflow; none: the published one.
fn wanted(
    app: &AppInner,
    name: &str,
    version: Option<u32>,
) -> Result<PublicationRow, Box<Problem>> {
    let row = match version {
        None => app.store().published(name)?,
        Some(version) => {
            let rows = app.store().publications(&PublicationQuery {
                name: Some(name.to_owned()),
                retracted: true,
                after: None,
                limit: VERSIONS,
            })?;
            rows.into_iter().find(|row| row.version == version)
        }
    };
    row.ok_or_else(|| missing(app, name))
}

fn shown(
    app: &AppInner,
    name: &str,
    version: Option<u32>,
) -> Result<(DefinitionShown, Digest), Box<Problem>> {
    let row = wanted(app, name, version)?;
    let stored = app.store().definition(row.definition)?;
    let triggers = match row.retracted_ms {
        None => starts(app, name)?,
        Some(_) => Vec::new(),
    };
    let shown = DefinitionShown {
        version: self::version(&row),
        triggers,
        file: stored
            .map(|stored| Raw::read(&stored.json))
            .unwrap_or_default(),
    };
    Ok((shown, row.definition))
}

fn starts(app: &AppInner, name: &str) -> Result<Vec<Starter>, Box<Problem>> {
    let bindings = app.store().bindings_of(name)?;
    let schedules = app.store().schedules(&ScheduleQuery {
        workflow: Some(name.to_owned()),
        limit: VERSIONS,
        ..ScheduleQuery::default()
    })?;
    let events = bindings.into_iter().map(|row| Starter {
        key: row.binding.key,
        event: Some(row.binding.name),
        matches: Some(Raw::read(&row.binding.matches)),
        next: None,
        last: None,
        run: None,
        paused: None,
    });
    let schedules = schedules.into_iter().map(|row| Starter {
        key: row.key,
        event: None,
        matches: None,
        next: (row.next_ms < i64::MAX).then(|| moment(row.next_ms)),
        last: row.last_planned_ms.map(moment),
        run: row.last_run.map(|id| id.0),
        paused: row.paused_ms.map(moment),
    });
    Ok(events.chain(schedules).collect())
}

/// The problem of a workflow that is not published.
pub(crate) fn missing(app: &AppInner, name: &str) -> Box<Problem> {
    windlass_runtime::Error::no_workflow(app.store(), name).into()
}

/// A response with the `ETag` of a definition.
pub(crate) fn tagged(digest: Digest, mut response: Response) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&tag(digest)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// The `ETag` of a definition.
pub(crate) fn tag(digest: Digest) -> String {
    format!("\"{}\"", digest.hex())
}

/// Selects due times.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Ahead {
    /// Only those of this trigger.
    trigger: Option<String>,
    /// How many for each trigger.
    #[param(minimum = 1, maximum = 1000, default = 5)]
    count: Option<u16>,
}

/// A due time of a schedule.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Coming {
    /// The time.
    at: String,
    /// The name of the trigger in the definition.
    trigger: String,
}

/// The due times of the schedules of a workflow, the soonest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Times {
    /// The due times.
    items: Vec<Coming>,
    /// The names of its paused schedules, which have no due times.
    paused: Vec<String>,
    /// Why runs of the workflow cannot begin then, on the current plugins of the host.
    mistakes: Vec<Mistake>,
}

/// List the next due times of a published workflow's schedules.
#[utoipa::path(get, path = "/api/v1/definitions/{name}/next", operation_id = "listStartTimes", tag = "definitions",
    params(("name" = String, Path, description = "The workflow."), Ahead),
    responses((status = 200, description = "The next due times.", body = Times)))]
pub(crate) async fn next(
    State(app): State<App>,
    Named(name): Named,
    QueryParams(ahead): QueryParams<Ahead>,
) -> Result<Json<Times>, Box<Problem>> {
    check_optional("`trigger`", ahead.trigger.as_deref())?;
    let count = ahead.count.unwrap_or(COUNT);
    if !(1..=MOST).contains(&count) {
        return Err(Problem::parameter(format!("`count` is from 1 to {MOST}")));
    }
    app.ask(move |app| {
        let mut plans = operations::plans(app.store(), app.now_ms(), &name)?;
        if let Some(key) = &ahead.trigger {
            plans.retain(|plan| plan.key == *key);
        }
        let times = operations::times(&plans, usize::from(count));
        let paused = plans.into_iter().filter(|plan| plan.paused);
        let paused = paused.map(|plan| plan.key).collect();
        let items = times.into_iter().map(|(at_ms, trigger)| Coming {
            at: moment(at_ms),
            trigger,
        });
        let items = items.collect();
        let published = app.store().published(&name)?;
        let mistakes = match published {
            Some(row) => mistakes(app, &row)?,
            None => None,
        };
        let mistakes = mistakes.unwrap_or_default();
        Ok(Json(Times {
            items,
            paused,
            mistakes,
        }))
    })
    .await
}
