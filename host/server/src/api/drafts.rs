//! Drafts: workflow texts that are not published yet, and may have mistakes.
//!
//! An `ETag` is the revision of the draft. The store compares it with `If-Match` in the transaction
//! that changes the draft.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use windlass_runtime::client;
use windlass_store::drafts::DraftRow;

use super::publishing::Published;
use crate::app::{App, Large};
use crate::content;
use crate::count::Count;
use crate::extract::{self, Named, QueryParams, WORKFLOW, check_media, text_header};
use crate::json::Json;
use crate::page::{Page, PageAsked};
use crate::problem::{Mistake, Problem};
use crate::view::moment;
use crate::workflow_file::{WorkflowFile, WorkflowText};

/// A draft in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Draft {
    /// The workflow.
    workflow: String,
    /// Grows with each edit.
    revision: Count,
    /// The version from which it was made.
    #[schema(required = true)]
    based_on: Option<u32>,
    /// The time at which it was saved.
    saved: String,
}

fn item(row: &DraftRow) -> Draft {
    Draft {
        workflow: row.name.clone(),
        revision: Count(row.revision),
        based_on: row.based_on,
        saved: moment(row.saved_ms),
    }
}

/// List the drafts, by name.
#[utoipa::path(get, path = "/api/v1/drafts", operation_id = "listDrafts", tag = "drafts", params(PageAsked),
    responses((status = 200, description = "A page of drafts.", body = Page<Draft>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
) -> Result<Json<Page<Draft>>, Box<Problem>> {
    app.read(move |app| {
        let after = page.after("drafts")?;
        let rows = page.rows(|limit| Ok(app.store().drafts(after.as_deref(), limit)?))?;
        let place = |row: &DraftRow| row.name.clone();
        page.part("drafts", rows, place, |row| Ok(item(&row)))
    })
    .await
    .map(Json)
}

/// A draft with its text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DraftShown {
    /// The draft without its text.
    draft: Draft,
    /// The text as it was saved.
    text: String,
}

/// Show a draft.
#[utoipa::path(get, path = "/api/v1/drafts/{name}", operation_id = "getDraft", tag = "drafts",
    params(("name" = String, Path, description = "The workflow.")),
    responses((status = 200, description = "The draft with its text.", body = DraftShown,
        headers(("etag" = String, description = "The revision, for `If-Match`.")))))]
pub(crate) async fn show(
    State(app): State<App>,
    Named(name): Named,
) -> Result<Response, Box<Problem>> {
    let row = app
        .read(move |app| {
            let missing = || Problem::not_found(format!("there is no draft of `{name}`"));
            app.store().draft(&name)?.ok_or_else(missing)
        })
        .await?;
    let shown = DraftShown {
        draft: item(&row),
        text: String::from_utf8_lossy(&row.content).into_owned(),
    };
    Ok(tagged(row.revision, Json(shown).into_response()))
}

/// The result of saving a draft.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Saved {
    /// The workflow.
    workflow: String,
    /// The revision that was saved.
    revision: Count,
    /// Mistakes, which prevent its publication.
    problems: Vec<Mistake>,
    /// Warnings, which do not prevent its publication.
    warnings: Vec<Mistake>,
}

/// Save a draft, even if it has mistakes.
#[utoipa::path(put, path = "/api/v1/drafts/{name}", operation_id = "saveDraft", tag = "drafts",
    params(("name" = String, Path, description = "The workflow."),
        ("If-Match" = Option<String>, Header, description = "Only over this revision."),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if there is none.")),
    request_body(description = "The text of a workflow file.",
        content((WorkflowFile = "application/json"), (WorkflowText = "application/yaml"))),
    responses((status = 200, description = "The draft is saved.", body = Saved,
            headers(("etag" = String, description = "The revision, for `If-Match`."))),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The draft has another revision.")))]
pub(crate) async fn save(
    State(app): State<App>,
    Named(name): Named,
    request: Request,
) -> Result<Response, Box<Problem>> {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    check_media(headers, WORKFLOW)?;
    let expected = revision(headers)?;
    let bytes = extract::read(&parts, body, &app).await?;
    let text = content::text(&content::media_text(headers)?, &bytes)?.into_owned();
    let large = app.large(text.len()).await?;
    let saved = app
        .ask(move |app| {
            let name = Some(name);
            let draft = client::SaveDraft {
                name,
                text,
                expected,
            };
            let plugins = app.resources().plugins()?;
            let (store, now_ms) = (app.store(), app.now_ms());
            let save = || client::save_draft(store, &plugins, now_ms, &draft);
            Ok(Large::work(large, save)?)
        })
        .await?;
    let revision = saved.revision;
    let body = Saved {
        workflow: saved.name,
        revision: Count(revision),
        problems: saved.problems.iter().map(Mistake::from).collect(),
        warnings: saved.warnings.iter().map(Mistake::from).collect(),
    };
    Ok(tagged(revision, Json(body).into_response()))
}

/// Delete a draft.
#[utoipa::path(delete, path = "/api/v1/drafts/{name}", operation_id = "deleteDraft", tag = "drafts",
    params(("name" = String, Path, description = "The workflow."),
        ("If-Match" = Option<String>, Header, description = "Only this revision.")),
    responses((status = 204, description = "The draft is deleted."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The draft has another revision.")))]
pub(crate) async fn discard(
    State(app): State<App>,
    Named(name): Named,
    headers: HeaderMap,
) -> Result<StatusCode, Box<Problem>> {
    let expected = revision(&headers)?;
    app.ask(move |app| Ok(client::discard_draft(app.store(), &name, expected)?))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Publish a draft, and delete it.
#[utoipa::path(post, path = "/api/v1/drafts/{name}/publish", operation_id = "publishDraft", tag = "drafts",
    params(("name" = String, Path, description = "The workflow."),
        ("If-Match" = Option<String>, Header, description = "Only this revision.")),
    responses((status = 200, description = "The draft is published.", body = Published),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The draft has another revision.")))]
pub(crate) async fn publish(
    State(app): State<App>,
    Named(name): Named,
    headers: HeaderMap,
) -> Result<Json<Published>, Box<Problem>> {
    let expected = revision(&headers)?;
    let published = app
        .ask(move |app| {
            let (store, plugins) = (app.store(), app.resources().plugins()?);
            Ok(client::publish_draft(
                store,
                &plugins,
                app.now_ms(),
                &name,
                expected,
            )?)
        })
        .await?;
    app.published();
    Ok(Json(published.into()))
}

/// The revision that a request expects; 0 means that there must be no draft.
fn revision(headers: &HeaderMap) -> Result<Option<u64>, Box<Problem>> {
    let wrong = || Problem::parameter("`If-Match` is a revision, as `ETag` has it");
    match (
        text_header(headers, "if-match")?,
        text_header(headers, "if-none-match")?,
    ) {
        (None, None) => Ok(None),
        (None, Some("*")) => Ok(Some(0)),
        (Some(tag), None) => tag.trim_matches('"').parse().map(Some).map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

fn tagged(revision: u64, mut response: Response) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{revision}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
