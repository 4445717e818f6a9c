//! Definitions: what is published, and when it starts what.
//!
//! An `ETag` is the digest of the published definition.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_model::Digest;
use windlass_runtime::client;
use windlass_store::published::{PublicationQuery, PublicationRow, ScheduleQuery};

use crate::app::{App, AppInner};
use crate::extract::{Named, QueryParams, check_optional};
use crate::page::{Page, PageAsked};
use crate::problem::Problem;
use crate::view::{moment, read};

/// Versions of one workflow that are looked through.
const VERSIONS: u32 = 10_000;

/// Coming times that are said unless somebody wants more.
const COUNT: u16 = 5;

/// Coming times that are said at most, of each schedule.
const MOST: u16 = 1_000;

/// A version of a workflow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Version {
    /// The workflow.
    workflow: String,
    /// From 1.
    version: u32,
    /// The definition, by its digest.
    definition: String,
    /// When it was published.
    published: String,
    /// When it stopped being the published one.
    retracted: Option<String>,
}

fn version(row: &PublicationRow) -> Version {
    Version {
        workflow: row.name.clone(),
        version: row.version,
        definition: row.definition.to_string(),
        published: moment(row.published_ms),
        retracted: row.retracted_ms.map(moment),
    }
}

/// Which versions to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Also those that are not published any more, of each workflow the newest first.
    #[serde(default)]
    retracted: bool,
}

/// Lists the published workflows, by name.
#[utoipa::path(get, path = "/api/v1/definitions", tag = "definitions", params(PageAsked, Filter),
    responses((status = 200, body = Page<Version>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
    QueryParams(filter): QueryParams<Filter>,
) -> Result<Json<Page<Version>>, Box<Problem>> {
    app.ask(move |app| {
        if filter.retracted {
            let rows = versions(app, page.after("versions")?, page.look()?)?;
            let place = |row: &PublicationRow| format!("{} {}", row.name, row.version);
            return page.page("versions", rows, place, |row| Ok(version(&row)));
        }
        let rows = app.store().publications(&PublicationQuery {
            after: page.after("definitions")?,
            limit: page.look()?,
            ..PublicationQuery::default()
        })?;
        let place = |row: &PublicationRow| row.name.clone();
        page.page("definitions", rows, place, |row| Ok(version(&row)))
    })
    .await
    .map(Json)
}

/// Versions behind a place, by name and the newest first.
fn versions(
    app: &AppInner,
    after: Option<String>,
    limit: u32,
) -> Result<Vec<PublicationRow>, Box<Problem>> {
    let unreadable = || Problem::parameter("`cursor` is none that this list has given out");
    let of = |name, after, limit| {
        app.store().publications(&PublicationQuery {
            name,
            retracted: true,
            after,
            limit,
        })
    };
    let Some(place) = after else {
        return Ok(of(None, None, limit)?);
    };
    let (name, version) = place.split_once(' ').ok_or_else(unreadable)?;
    let version: u32 = version.parse().map_err(|_| unreadable())?;
    // The rest of the workflow that the page before ended in.
    let mut rows = of(Some(name.to_owned()), None, VERSIONS)?;
    rows.retain(|row| row.version < version);
    rows.truncate(limit as usize);
    let left = limit.saturating_sub(u32::try_from(rows.len()).unwrap_or(limit));
    if left > 0 {
        rows.extend(of(None, Some(name.to_owned()), left)?);
    }
    Ok(rows)
}

/// Something that starts a workflow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Starter {
    /// Its name in the definition.
    key: String,
    /// The event that starts it.
    event: Option<String>,
    /// What the event has to match.
    #[serde(rename = "match")]
    matches: Option<Value>,
    /// When its schedule comes due next.
    next: Option<String>,
    /// The occurrence that its schedule has decided about last.
    last: Option<String>,
    /// The run of that occurrence.
    instance: Option<Uuid>,
}

/// A version of a workflow, with its definition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DefinitionShown {
    /// What is known of every version.
    version: Version,
    /// What starts it; only what is published is started by anything.
    triggers: Vec<Starter>,
    /// The definition.
    file: Value,
}

/// Which version.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// This version, and not the published one.
    version: Option<u32>,
}

/// Shows a workflow.
#[utoipa::path(get, path = "/api/v1/definitions/{name}", tag = "definitions",
    params(("name" = String, Path, description = "The workflow."), Which),
    responses((status = 200, body = DefinitionShown,
        headers(("etag" = String, description = "The definition, for `If-Match`.")))))]
pub(crate) async fn show(
    State(app): State<App>,
    Named(name): Named,
    QueryParams(which): QueryParams<Which>,
) -> Result<Response, Box<Problem>> {
    let (shown, digest) = app.ask(move |app| shown(app, &name, which.version)).await?;
    Ok(tagged(digest, Json(shown).into_response()))
}

fn shown(
    app: &AppInner,
    name: &str,
    wanted: Option<u32>,
) -> Result<(DefinitionShown, Digest), Box<Problem>> {
    let row = match wanted {
        None => app.store().published(name)?,
        Some(wanted) => {
            let rows = app.store().publications(&PublicationQuery {
                name: Some(name.to_owned()),
                retracted: true,
                after: None,
                limit: VERSIONS,
            })?;
            rows.into_iter().find(|row| row.version == wanted)
        }
    };
    let row = row.ok_or_else(|| missing(name))?;
    let stored = app.store().definition(row.definition)?;
    let triggers = match row.retracted_ms {
        None => starts(app, name)?,
        Some(_) => Vec::new(),
    };
    let shown = DefinitionShown {
        version: version(&row),
        triggers,
        file: stored.map(|stored| read(&stored.json)).unwrap_or_default(),
    };
    Ok((shown, row.definition))
}

fn starts(app: &AppInner, name: &str) -> Result<Vec<Starter>, Box<Problem>> {
    let bindings = app.store().bindings_of(name)?;
    let schedules = app.store().schedules(&ScheduleQuery {
        workflow: Some(name.to_owned()),
        troubled: None,
        until_ms: i64::MAX,
        limit: VERSIONS,
    })?;
    let events = bindings.into_iter().map(|row| Starter {
        key: row.binding.key,
        event: Some(row.binding.name),
        matches: Some(read(&row.binding.matches)),
        next: None,
        last: None,
        instance: None,
    });
    let schedules = schedules.into_iter().map(|row| Starter {
        key: row.key,
        event: None,
        matches: None,
        next: (row.next_ms < i64::MAX).then(|| moment(row.next_ms)),
        last: row.last_planned_ms.map(moment),
        instance: row.last_instance.map(|id| id.0),
    });
    Ok(events.chain(schedules).collect())
}

/// No workflow of this name is published.
pub(crate) fn missing(name: &str) -> Box<Problem> {
    windlass_runtime::Error::NoWorkflow(name.to_owned()).into()
}

/// With the `ETag` of a definition.
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

/// Which of the coming times.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Ahead {
    /// Only of this trigger.
    trigger: Option<String>,
    /// How many of each.
    #[param(minimum = 1, maximum = 1000, default = 5)]
    count: Option<u16>,
}

/// A time at which a schedule comes due.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Coming {
    /// When.
    at: String,
    /// Its name in the definition.
    trigger: String,
}

/// The times at which the schedules of a workflow come due, soonest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Times {
    /// The times.
    items: Vec<Coming>,
}

/// Says when the schedules of a published workflow come due next.
#[utoipa::path(get, path = "/api/v1/definitions/{name}/next", tag = "definitions",
    params(("name" = String, Path, description = "The workflow."), Ahead),
    responses((status = 200, body = Times)))]
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
        let mut plans = client::plans(app.store(), app.now_ms(), &name)?;
        if let Some(key) = &ahead.trigger {
            plans.retain(|plan| plan.key == *key);
        }
        let times = client::times(&plans, usize::from(count));
        let items = times.into_iter().map(|(at_ms, trigger)| Coming {
            at: moment(at_ms),
            trigger,
        });
        let items = items.collect();
        Ok(Json(Times { items }))
    })
    .await
}
