//! Looking at definitions again: those that are published, and the files that they come from.
//!
//! One process of a cluster does it at a time. Whoever finds another one at it is answered 409,
//! and what was asked for is done all the same: the other one looks again.

use std::path::Path;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_runtime::codes::IN_PROGRESS;
use windlass_runtime::definitions::{self, Upkept};

use crate::app::App;
use crate::extract::{Document, check_text};
use crate::problem::{Mistake, Problem};

/// Workflows that one request names at most.
const NAMES: usize = 1_000;

/// Which workflows to look at again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefreshWish {
    /// Their names; none: all that are published.
    #[serde(default)]
    #[schema(max_items = 1000)]
    names: Vec<String>,
}

/// What came of looking at published workflows again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Refreshed {
    /// What is indexed.
    refreshed: Vec<Indexed>,
    /// What cannot be indexed on the plugins of the host, and stays as it was.
    failed: Vec<NotIndexed>,
    /// What is not published.
    missing: Vec<String>,
}

/// A version that is indexed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Indexed {
    /// The workflow.
    workflow: String,
    /// The published version.
    version: u32,
}

/// A workflow that cannot be indexed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NotIndexed {
    /// The workflow.
    workflow: String,
    /// The page that explains why.
    code: String,
    /// Why.
    message: String,
}

/// Reads published workflows again, and indexes what starts them anew.
#[utoipa::path(post, path = "/api/v1/admin/refresh", tag = "admin", request_body = RefreshWish,
    responses((status = 200, body = Refreshed),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "Another process is doing the same, and carries this request out.")))]
pub(crate) async fn refresh(
    State(app): State<App>,
    Document(wish): Document<RefreshWish>,
) -> Result<Json<Refreshed>, Box<Problem>> {
    if wish.names.len() > NAMES {
        return Err(Problem::body(format!("`names` are {NAMES} at most")));
    }
    for name in &wish.names {
        check_text("a name", name)?;
    }
    let ask = app.ask(move |app| done(app.resources().definitions()?.refresh(&wish.names)?));
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

/// What came of looking at the files again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reloaded {
    /// What was published, or was already.
    published: Vec<OfFile>,
    /// What was taken back, because its file is gone.
    retracted: Vec<OfFile>,
    /// What cannot be published. What was published before stays.
    failed: Vec<NotPublished>,
}

/// A version that comes from a file.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OfFile {
    /// The file, as the host names it.
    file: String,
    /// The workflow.
    workflow: String,
    /// Its version.
    version: u32,
    /// It was published already, just so.
    #[serde(skip_serializing_if = "Option::is_none")]
    unchanged: Option<bool>,
}

/// A file that cannot be published.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NotPublished {
    /// The file, as the host names it.
    file: String,
    /// The page that explains why.
    code: String,
    /// Why.
    message: String,
    /// Everything that is wrong with the workflow in the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Mistake>,
}

/// Reads the directories of workflow files again, and publishes whatever differs from what is
/// published.
#[utoipa::path(post, path = "/api/v1/admin/reload", tag = "admin",
    responses((status = 200, body = Reloaded),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "Another process is doing the same, and carries this request out.")))]
pub(crate) async fn reload(State(app): State<App>) -> Result<Json<Reloaded>, Box<Problem>> {
    let ask = app.ask(move |app| done(app.resources().definitions()?.reload()?));
    let done = ask.await?;
    app.published();
    Ok(Json(done.into()))
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
        }
    }
}

/// What was done, unless another process is at it.
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
