//! Refreshing published definitions, and reloading workflow files.
//!
//! One process of a cluster does it at a time. If another process is doing it, the request is
//! answered with 409, and that process looks once more afterwards, so the request is still carried
//! out.

use std::path::Path;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_runtime::codes::IN_PROGRESS;
use windlass_runtime::definitions::{self, Upkept};

use crate::app::App;
use crate::extract::{Document, check_text};
use crate::json::Json;
use crate::options::Settings;
use crate::problem::{Mistake, Problem};

/// The most workflows that one request may name.
const NAMES: usize = 1_000;

/// Selects the workflows to refresh.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefreshRequest {
    /// Names of workflows; none: all published workflows.
    #[serde(default)]
    #[schema(max_items = 1000)]
    names: Vec<String>,
}

/// The result of refreshing published workflows.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RefreshResult)]
pub(crate) struct Refreshed {
    /// Workflows whose triggers are indexed.
    refreshed: Vec<Indexed>,
    /// Workflows whose triggers cannot be indexed with the plugins of the host; their index is
    /// unchanged.
    failed: Vec<NotIndexed>,
    /// Workflows that are not published.
    missing: Vec<String>,
}

/// A version whose triggers are indexed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Indexed {
    /// The workflow.
    workflow: String,
    /// The published version.
    version: u32,
}

/// A workflow whose triggers cannot be indexed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NotIndexed {
    /// The workflow.
    workflow: String,
    /// The code of the reason.
    code: String,
    /// The reason.
    message: String,
}

/// Read published workflows again, and rebuild the index of their triggers.
#[utoipa::path(post, path = "/api/v1/admin/refresh", operation_id = "refreshDefinitions", tag = "admin", request_body = RefreshRequest,
    responses((status = 200, description = "The workflows whose triggers are indexed anew, and those that failed.", body = Refreshed),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "Another process is doing the same, and carries this request out.")))]
pub(crate) async fn refresh(
    State(app): State<App>,
    Document(body): Document<RefreshRequest>,
) -> Result<Json<Refreshed>, Box<Problem>> {
    if body.names.len() > NAMES {
        return Err(Problem::body(format!("`names` are {NAMES} at most")));
    }
    for name in &body.names {
        check_text("a name", name)?;
    }
    let ask = app.ask(move |app| done(app.resources().definitions()?.refresh(&body.names)?));
    let done = ask.await?;
    app.published();
    Ok(Json(done.into()))
}

impl From<definitions::Refreshed> for Refreshed {
    fn from(done: definitions::Refreshed) -> Self {
        let refreshed = done.refreshed.into_iter().map(|it| Indexed {
            workflow: it.name,
            version: it.version,
        });
        let failed = done.failed.into_iter().map(|(workflow, error)| NotIndexed {
            workflow,
            code: error.code().to_string(),
            message: error.to_string(),
        });
        Self {
            refreshed: refreshed.collect(),
            failed: failed.collect(),
            missing: done.missing,
        }
    }
}

/// The result of reloading workflow files.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reloaded {
    /// Versions that are published from files.
    published: Vec<OfFile>,
    /// Versions that were retracted because their files are gone.
    retracted: Vec<OfFile>,
    /// Files that cannot be published. Their published versions are unchanged.
    failed: Vec<NotPublished>,
    /// The settings that have changed. Null if the process is no host.
    #[schema(required = true)]
    settings: Option<Settings>,
}

/// A version that was published from a file.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OfFile {
    /// The file, as the host names it.
    file: String,
    /// The workflow.
    workflow: String,
    /// Its version.
    version: u32,
    /// This version was published already.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    unchanged: Option<bool>,
}

/// A file that cannot be published.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NotPublished {
    /// The file, as the host names it.
    file: String,
    /// The code of the reason.
    code: String,
    /// The reason.
    message: String,
    /// All mistakes in the file's workflow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Mistake>,
}

/// Read the settings and the directories of workflow files again.
///
/// The host takes changed grants, limits and secrets of plugins, and names the other settings that
/// have changed: they need a restart. It publishes each file that differs from its published version.
#[utoipa::path(post, path = "/api/v1/admin/reload", operation_id = "reloadFiles", tag = "admin",
    responses((status = 200, description = "The files that were published or retracted, and those that failed.", body = Reloaded),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "Another process is doing the same, and carries this request out."),
        (status = 422, body = Problem, content_type = "application/problem+json",
            description = "The settings have a mistake. Nothing was reloaded.")))]
pub(crate) async fn reload(State(app): State<App>) -> Result<Json<Reloaded>, Box<Problem>> {
    let ask = app.ask(move |app| {
        let settings = app.options.reload.as_ref().map(|reload| reload());
        let settings = settings
            .transpose()
            .map_err(|(code, text)| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, &code, text))?;
        let done = done(app.resources().definitions()?.reload()?)?;
        Ok((done, settings))
    });
    let (done, settings) = ask.await?;
    app.published();
    let mut reloaded = Reloaded::from(done);
    reloaded.settings = settings;
    Ok(Json(reloaded))
}

impl From<definitions::Reloaded> for Reloaded {
    fn from(done: definitions::Reloaded) -> Self {
        let name = |file: &Path| file.display().to_string();
        let published = done.published.iter().map(|(file, it)| OfFile {
            file: name(file),
            workflow: it.name.clone(),
            version: it.version,
            unchanged: Some(it.unchanged),
        });
        let retracted = done
            .retracted
            .iter()
            .map(|(file, workflow, version)| OfFile {
                file: name(file),
                workflow: workflow.clone(),
                version: *version,
                unchanged: None,
            });
        let failed = done.failed.iter().map(|it| NotPublished {
            file: name(&it.file),
            code: it.error.code().to_string(),
            message: it.error.to_string(),
            errors: match &it.error {
                windlass_runtime::Error::Definition(found) => {
                    found.iter().map(Mistake::from).collect()
                }
                _ => Vec::new(),
            },
        });
        Self {
            published: published.collect(),
            retracted: retracted.collect(),
            failed: failed.collect(),
            settings: None,
        }
    }
}

/// The result, or the problem that another process is in progress.
fn done<T>(upkept: Upkept<T>) -> Result<T, Box<Problem>> {
    match upkept {
        Upkept::Done(done) => Ok(done),
        Upkept::AlreadyInProgress => {
            let detail = "another process is doing the same, and carries this request out";
            Err(Problem::new(StatusCode::CONFLICT, &IN_PROGRESS, detail)
                .help("There is nothing to do; ask again to see how it came out."))
        }
    }
}
