//! Definitions: what is published.
//!
//! An `ETag` is the digest of the published definition. Requests of this server that change
//! definitions go one after another, so that what `If-Match` found still holds when it counts.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_model::Digest;
use windlass_runtime::client;
use windlass_store::published::{PublicationQuery, PublicationRow, ScheduleQuery};
use windlass_store::rows::DefinitionRow;

use crate::app::{App, Inner};
use crate::codes;
use crate::extract::{self, Asked, Named, check_media, check_optional};
use crate::page::{Page, PageAsked};
use crate::problem::Problem;
use crate::view::{moment, read};

/// Versions of one workflow that are looked through.
const VERSIONS: u32 = 10_000;

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

/// Lists the published workflows, by name.
#[utoipa::path(get, path = "/api/v1/definitions", tag = "definitions", params(PageAsked),
    responses((status = 200, body = Page<Version>)))]
pub(crate) async fn list(
    State(app): State<App>,
    Asked(page): Asked<PageAsked>,
) -> Result<Json<Page<Version>>, Box<Problem>> {
    app.ask(move |app| {
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
    Asked(which): Asked<Which>,
) -> Result<Response, Box<Problem>> {
    let (shown, digest) = app.ask(move |app| shown(app, &name, which.version)).await?;
    Ok(tagged(digest, Json(shown).into_response()))
}

fn shown(
    app: &Inner,
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

fn starts(app: &Inner, name: &str) -> Result<Vec<Starter>, Box<Problem>> {
    let bindings = app.store().bindings_of(name)?;
    let schedules = app.store().schedules(&ScheduleQuery {
        workflow: Some(name.to_owned()),
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

fn missing(name: &str) -> Box<Problem> {
    windlass_runtime::Error::NoWorkflow(name.to_owned()).into()
}

fn tagged(digest: Digest, mut response: Response) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&tag(digest)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

fn tag(digest: Digest) -> String {
    format!("\"{}\"", digest.hex())
}

/// What was published.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Published {
    /// The workflow.
    workflow: String,
    /// Its version, from 1.
    version: u32,
    /// It was published already, just so.
    unchanged: bool,
    /// How many of its triggers wait for events.
    events: usize,
    /// How many of its triggers wait for times.
    schedules: usize,
}

impl From<client::Published> for Published {
    fn from(published: client::Published) -> Self {
        Self {
            workflow: published.name,
            version: published.version,
            unchanged: published.unchanged,
            events: published.events,
            schedules: published.schedules,
        }
    }
}

/// Publishes a workflow. What runs stays on its version.
#[utoipa::path(put, path = "/api/v1/definitions/{name}", tag = "definitions",
    params(("name" = String, Path, description = "The workflow, as in the definition."),
        ("If-Match" = Option<String>, Header, description = "Only if this is published now."),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if none is published.")),
    request_body(description = "The definition, as in a workflow file.",
        content((Value = "application/json"), (String = "application/yaml"))),
    responses((status = 200, body = Published,
            headers(("etag" = String, description = "The definition, for `If-Match`."))),
        (status = 412, body = Problem, content_type = "application/problem+json",
            description = "Something else is published.")))]
pub(crate) async fn publish(
    State(app): State<App>,
    Named(name): Named,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Box<Problem>> {
    check_media(&headers, |media| {
        matches!(media, "application/json" | "application/yaml")
    })?;
    let expected = Expected::read(&headers)?;
    let bytes = extract::read(request.into_body(), &app).await?;
    let row = definition(&name, &bytes)?;
    let digest = row.digest;
    let _turn = app.publishing.lock().await;
    let published = app
        .ask(move |app| {
            expected.check(app, &name)?;
            let plugins = &app.options.plugins;
            Ok(client::publish(app.store(), plugins, app.now_ms(), row)?)
        })
        .await?;
    app.runtime().published();
    let published = Published::from(published);
    Ok(tagged(digest, Json(published).into_response()))
}

/// Reads a definition as it was sent.
fn definition(name: &str, bytes: &[u8]) -> Result<DefinitionRow, Box<Problem>> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| Problem::body("the definition is not UTF-8"))?;
    let read = windlass_model::file::read(text, "the body");
    let canonical = read.canonical();
    let (Some(definition), Some(canonical)) = (read.definition, canonical) else {
        return Err(windlass_runtime::Error::Definition(read.diagnostics).into());
    };
    if definition.name != name {
        let here = &definition.name;
        let detail = format!("the definition is of `{here}`, and the path says `{name}`");
        return Err(Problem::body(detail));
    }
    Ok(DefinitionRow {
        digest: Digest::of(&canonical),
        name: definition.name,
        json: canonical.into(),
    })
}

/// Takes a workflow back: nothing starts it any more. What runs goes on.
#[utoipa::path(delete, path = "/api/v1/definitions/{name}", tag = "definitions",
    params(("name" = String, Path, description = "The workflow."),
        ("If-Match" = Option<String>, Header, description = "Only if this is published now.")),
    responses((status = 204, description = "Nothing of this name is published any more."),
        (status = 412, body = Problem, content_type = "application/problem+json",
            description = "Something else is published.")))]
pub(crate) async fn retract(
    State(app): State<App>,
    Named(name): Named,
    headers: HeaderMap,
) -> Result<StatusCode, Box<Problem>> {
    let expected = Expected::read(&headers)?;
    let _turn = app.publishing.lock().await;
    app.ask(move |app| {
        expected.check(app, &name)?;
        let version = client::retract(app.store(), app.now_ms(), &name)?;
        version
            .map(|_| StatusCode::NO_CONTENT)
            .ok_or_else(|| missing(&name))
    })
    .await
}

/// What a request expects to be published.
enum Expected {
    Anything,
    Nothing,
    Something,
    These(String),
}

impl Expected {
    fn read(headers: &HeaderMap) -> Result<Self, Box<Problem>> {
        let text = |name| extract::text_header(headers, name);
        check_optional("`If-Match`", text("if-match")?)?;
        Ok(match (text("if-match")?, text("if-none-match")?) {
            (None, None) => Self::Anything,
            (Some("*"), None) => Self::Something,
            (Some(tags), None) => Self::These(tags.to_owned()),
            (None, Some("*")) => Self::Nothing,
            (None, Some(_)) => {
                return Err(Problem::parameter("`If-None-Match` is `*` or not there"));
            }
            (Some(_), Some(_)) => {
                let detail = "a request has `If-Match` or `If-None-Match`, and not both";
                return Err(Problem::parameter(detail));
            }
        })
    }

    fn check(&self, app: &Inner, name: &str) -> Result<(), Box<Problem>> {
        if matches!(self, Self::Anything) {
            return Ok(());
        }
        let published = app.store().published(name)?.map(|row| tag(row.definition));
        let holds = match (self, &published) {
            (Self::Anything, _) | (Self::Nothing, None) | (Self::Something, Some(_)) => true,
            (Self::These(tags), Some(now)) => tags.split(',').any(|tag| tag.trim() == now),
            _ => false,
        };
        if holds {
            return Ok(());
        }
        let detail = match published {
            Some(now) => format!("{now} is published, which the request does not expect"),
            None => "nothing is published, which the request does not expect".to_owned(),
        };
        let reply = StatusCode::PRECONDITION_FAILED;
        Err(Problem::new(reply, &codes::PRECONDITION, detail)
            .help("Look at what is published, and send the request again with its `ETag`."))
    }
}
