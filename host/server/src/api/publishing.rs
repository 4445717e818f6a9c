//! Publishing and retracting definitions, and reverting to an old version.
//!
//! The store compares `If-Match` with the published definition in the transaction that changes it,
//! so concurrent changes cannot overwrite each other.

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_model::Digest;
use windlass_runtime::{PublishedOthers, check_file, operations};
use windlass_store::published::PublicationRow;
use windlass_store::rows::DefinitionRow;

use super::definitions::{missing, tag, tagged};
use crate::app::{App, AppInner, Large};
use crate::codes;
use crate::content;
use crate::count::Count;
use crate::extract::{self, Document, Named, WORKFLOW, check_media, check_optional};
use crate::json::Json;
use crate::problem::{Mistake, Problem};
use crate::workflow_file::{WorkflowFile, WorkflowText};

/// The result of publishing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Published {
    /// The workflow.
    workflow: String,
    /// Its version, from 1.
    version: u32,
    /// This version was published already.
    unchanged: bool,
    /// How many triggers wait for events.
    events: Count,
    /// How many triggers are schedules.
    schedules: Count,
    /// Warnings, which do not prevent the publication.
    warnings: Vec<Mistake>,
}

impl From<operations::Published> for Published {
    fn from(published: operations::Published) -> Self {
        Self {
            workflow: published.name,
            version: published.version,
            unchanged: published.unchanged,
            events: published.events.into(),
            schedules: published.schedules.into(),
            warnings: published.warnings.iter().map(Mistake::from).collect(),
        }
    }
}

/// Publish a workflow. Existing runs stay on their version.
#[utoipa::path(put, path = "/api/v1/definitions/{name}", operation_id = "publishDefinition", tag = "definitions",
    params(("name" = String, Path, description = "The workflow, as in the definition."),
        ("If-Match" = Option<String>, Header, description = "Only if this is published now."),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if none is published.")),
    request_body(description = "The definition, as in a workflow file.",
        content((WorkflowFile = "application/json"), (WorkflowText = "application/yaml"))),
    responses((status = 200, description = "The definition is published.", body = Published,
            headers(("etag" = String, description = "The definition, for `If-Match`."))),
        (status = 412, body = Problem, content_type = "application/problem+json",
            description = "Another version is published.")))]
pub(crate) async fn publish(
    State(app): State<App>,
    Named(name): Named,
    request: Request,
) -> Result<Response, Box<Problem>> {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    check_media(headers, WORKFLOW)?;
    let expected = Expected::read(headers)?;
    let bytes = extract::read(&parts, body, &app).await?;
    let text = content::text(&content::media_text(headers)?, &bytes)?.into_owned();
    let large = app.large(text.len()).await?;
    let (published, digest) = app
        .ask(move |app| {
            Large::work(large, || {
                let row = definition(app, Some(&name), &text)?;
                let plugins = app.resources().plugins()?;
                let holds = |row: Option<&PublicationRow>| expected.holds(row);
                let (store, now_ms) = (app.store(), app.now_ms());
                let text = Some(Bytes::from(text));
                let published =
                    operations::publish_if(store, &plugins, now_ms, &row, text.as_ref(), holds)?;
                let published = published.ok_or_else(|| otherwise(app, &name))?;
                Ok((published, row.digest))
            })
        })
        .await?;
    app.published();
    let published = Published::from(published);
    Ok(tagged(digest, Json(published).into_response()))
}

/// Reads a definition: of this workflow, or of any. If its form is wrong, the problem has the
/// mistakes of all stages.
pub(crate) fn definition(
    app: &AppInner,
    name: Option<&str>,
    text: &str,
) -> Result<DefinitionRow, Box<Problem>> {
    let read = windlass_model::file::read(text, "the body");
    let canonical = read.canonical();
    let (Some(definition), Some(canonical)) = (&read.definition, canonical) else {
        let mistakes = match app.resources().plugins() {
            Ok(plugins) => {
                check_file(&read, &plugins, Some(&PublishedOthers(app.store()))).mistakes
            }
            Err(_) => read.diagnostics,
        };
        return Err(windlass_runtime::Error::Definition(mistakes).into());
    };
    if let Some(name) = name.filter(|name| definition.name != **name) {
        let here = &definition.name;
        let detail = format!("the definition is of `{here}`, and the path says `{name}`");
        return Err(Problem::body(detail));
    }
    Ok(DefinitionRow {
        digest: Digest::of(&canonical),
        name: definition.name.clone(),
        json: canonical.into(),
    })
}

/// The result of retracting a workflow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Retracted {
    /// The workflow.
    workflow: String,
    /// The version that was published before.
    version: u32,
}

/// Retract a workflow: its triggers start no more runs. Existing runs continue.
#[utoipa::path(delete, path = "/api/v1/definitions/{name}", operation_id = "retractDefinition", tag = "definitions",
    params(("name" = String, Path, description = "The workflow."),
        ("If-Match" = Option<String>, Header, description = "Only if this is published now.")),
    responses((status = 200, body = Retracted,
            description = "No version of this name is published any more."),
        (status = 412, body = Problem, content_type = "application/problem+json",
            description = "Another version is published.")))]
pub(crate) async fn retract(
    State(app): State<App>,
    Named(name): Named,
    headers: HeaderMap,
) -> Result<Json<Retracted>, Box<Problem>> {
    let expected = Expected::read(&headers)?;
    app.ask(move |app| {
        let holds = |row: Option<&PublicationRow>| expected.holds(row);
        let version = operations::retract_if(app.store(), app.now_ms(), &name, holds)?;
        let version = version.ok_or_else(|| otherwise(app, &name))?;
        let version = version.ok_or_else(|| missing(app, &name))?;
        let workflow = name;
        Ok(Json(Retracted { workflow, version }))
    })
    .await
}

/// The published definition that a request expects.
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

    fn holds(&self, published: Option<&PublicationRow>) -> bool {
        match (self, published.map(|row| tag(row.definition))) {
            (Self::Anything, _) | (Self::Nothing, None) | (Self::Something, Some(_)) => true,
            (Self::These(tags), Some(now)) => tags.split(',').any(|tag| tag.trim() == now),
            _ => false,
        }
    }
}

/// The problem if the published definition is another one.
fn otherwise(app: &AppInner, name: &str) -> Box<Problem> {
    let detail = match app.store().published(name) {
        Ok(Some(row)) => {
            let now = tag(row.definition);
            format!("{now} is published, which the request does not expect")
        }
        Ok(None) => "nothing is published, which the request does not expect".to_owned(),
        Err(error) => return error.into(),
    };
    let reply = StatusCode::PRECONDITION_FAILED;
    Problem::new(reply, &codes::PRECONDITION, detail)
        .help("Read the published version, and send the request again with its `ETag`.")
}

/// The version to revert to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Back {
    /// Its number.
    version: u32,
    /// Only make it a draft, in place of an existing draft, without publishing it.
    #[serde(default)]
    draft: bool,
}

/// The result of reverting.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reverted {
    /// The workflow.
    workflow: String,
    /// The old version.
    reverted_to: u32,
    /// The number of the new version.
    #[schema(required = true)]
    version: Option<u32>,
    /// This version was published already.
    #[schema(required = true)]
    unchanged: Option<bool>,
    /// The revision of the draft.
    #[schema(required = true)]
    draft: Option<Count>,
}

/// Publish an old version as a new version, or make a draft of it.
#[utoipa::path(post, path = "/api/v1/definitions/{name}/revert", operation_id = "revertDefinition", tag = "definitions",
    request_body = Back,
    params(("name" = String, Path, description = "The workflow.")),
    responses((status = 200, description = "The old version is published again, or is a draft.", body = Reverted)))]
pub(crate) async fn revert(
    State(app): State<App>,
    Named(name): Named,
    Document(back): Document<Back>,
) -> Result<Json<Reverted>, Box<Problem>> {
    let reverted = app
        .ask(move |app| {
            let (store, now_ms, from) = (app.store(), app.now_ms(), back.version);
            let mut reverted = Reverted {
                workflow: name.clone(),
                reverted_to: from,
                version: None,
                unchanged: None,
                draft: None,
            };
            if back.draft {
                let draft = operations::revert_to_draft(store, now_ms, &name, from, None)?;
                reverted.draft = Some(Count(draft));
            } else {
                let plugins = app.resources().plugins()?;
                let published = operations::revert(store, &plugins, now_ms, &name, from)?;
                reverted.version = Some(published.version);
                reverted.unchanged = Some(published.unchanged);
            }
            Ok(reverted)
        })
        .await?;
    app.published();
    Ok(Json(reverted))
}
