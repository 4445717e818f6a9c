//! Bookmarks: the waits of runs.

use std::collections::HashMap;

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_keys::link::Target;
use windlass_model::{BookmarkNo, RunId};
use windlass_runtime::operations::Question;
use windlass_store::stimuli::{BookmarkQuery, BookmarkRow};

use super::runs::find;
use crate::app::App;
use crate::count::Count;
use crate::extract::{Data, Document, Named, QueryParams, check_optional};
use crate::page::{Page, PageAsked};
use crate::permissions::{Caller, Permission};
use crate::problem::Problem;
use crate::raw::Raw;
use crate::view::{Sent, moment};

/// A bookmark at which a run waits. The token is not shown: only its recipients have it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Bookmark {
    /// Its number.
    no: Count,
    /// The run that waits.
    run: Uuid,
    /// The subject of the run: its own correlation.
    #[schema(required = true)]
    subject: Option<String>,
    /// The name of the event.
    name: String,
    /// The value that the event's `match` has to equal.
    #[serde(rename = "match")]
    #[schema(value_type = Value)]
    matches: Raw,
    /// The correlation that an event may name.
    #[schema(required = true)]
    correlation: Option<String>,
    /// Only the token resumes it.
    private: bool,
    /// Resuming it deletes it.
    auto_burn: bool,
    /// The question to a person: the `message` in `metadata`.
    #[schema(required = true)]
    question: Option<String>,
    /// Data that the node has stored with it.
    #[schema(value_type = Option<Value>, required = true)]
    metadata: Option<Raw>,
    /// The time at which the wait began.
    created: String,
    /// The time at which the wait ends by itself: by the bookmark, or by the `wait-timeout` of the
    /// node.
    #[schema(required = true)]
    expires: Option<String>,
    /// A link that resumes it, if `links` was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    link: Option<String>,
}

fn item(row: &BookmarkRow, subject: Option<String>, link: Option<String>) -> Bookmark {
    let bookmark = &row.bookmark;
    let expires_ms = bookmark.expires_ms.into_iter().chain(row.ends_ms).min();
    Bookmark {
        no: Count::of_row(row.no.0),
        run: row.run_id.0,
        subject,
        name: bookmark.name.clone(),
        matches: Raw::read(&bookmark.matches),
        correlation: bookmark.correlation.clone(),
        private: bookmark.private,
        auto_burn: bookmark.auto_burn,
        question: Question::of(row).message,
        metadata: bookmark.metadata.as_deref().map(Raw::read),
        created: moment(bookmark.created_ms),
        expires: expires_ms.map(moment),
        link,
    }
}

/// Which bookmarks to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only bookmarks of this run.
    run: Option<Uuid>,
    /// Only bookmarks of this name.
    name: Option<String>,
    /// Only bookmarks with this correlation.
    correlation: Option<String>,
    /// Include a link for each bookmark, if the caller may resume.
    #[serde(default)]
    links: bool,
}

/// List the bookmarks at which runs wait, the oldest first.
#[utoipa::path(get, path = "/api/v1/bookmarks", operation_id = "listBookmarks", tag = "bookmarks", params(PageAsked, Filter),
    responses((status = 200, description = "A page of bookmarks.", body = Page<Bookmark>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
    QueryParams(filter): QueryParams<Filter>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Page<Bookmark>>, Box<Problem>> {
    if filter.links && !caller.may(Permission::BookmarksResume) {
        return Err(Problem::forbidden(Permission::BookmarksResume));
    }
    check_optional("`name`", filter.name.as_deref())?;
    check_optional("`correlation`", filter.correlation.as_deref())?;
    app.read(move |app| {
        let run = filter.run.map(|id| find(app, RunId(id))).transpose()?;
        let after = page.after_number("bookmarks")?.map(BookmarkNo);
        let rows = page.rows(|limit| {
            Ok(app.store().bookmarks(&BookmarkQuery {
                run: run.as_ref().map(|row| row.no),
                name: filter.name.clone(),
                correlation: filter.correlation.clone(),
                hash: None,
                after,
                limit,
            })?)
        })?;
        let place = |row: &BookmarkRow| row.no.to_string();
        let links = filter.links.then(|| app.resources().links()).transpose()?;
        // Several bookmarks may be of one run.
        let mut subjects = HashMap::<RunId, Option<String>>::new();
        page.part("bookmarks", rows, place, |row| {
            let target = Target::Row(row.bookmark.token);
            let link = links.as_ref().map(|links| links.link(&target));
            let link = link.transpose().map_err(windlass_runtime::Error::Keys)?;
            let subject = match subjects.get(&row.run_id) {
                Some(known) => known.clone(),
                None => {
                    let run = app.store().run(row.run_id)?;
                    let subject = run.and_then(|run| run.correlation);
                    subjects.insert(row.run_id, subject.clone());
                    subject
                }
            };
            Ok(item(&row, subject, link))
        })
    })
    .await
    .map(Json)
}

/// The body of a request to resume.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    /// Input for the waiting run. Default: `null`.
    #[serde(default)]
    #[schema(value_type = Value)]
    input: Data,
}

/// Resume the run that waits at a bookmark.
#[utoipa::path(post, path = "/api/v1/bookmarks/{bookmark}/resume", operation_id = "resumeBookmark", tag = "bookmarks", request_body = Given,
    params(("bookmark" = String, Path, description = "Its number, or its token.")),
    responses((status = 200, description = "The run is resumed.", body = Sent)))]
pub(crate) async fn resume(
    State(app): State<App>,
    Named(named): Named,
    Document(given): Document<Given>,
) -> Result<Json<Sent>, Box<Problem>> {
    let input = given.input.0;
    let sent = match named.parse() {
        Ok(no) => app.client.resume_bookmark(BookmarkNo(no), input).await?,
        Err(_) => {
            let target = super::resume::target(&app, &named).await?;
            app.client.resume(target, input).await?
        }
    };
    if sent.dropped {
        return Err(Problem::not_found("no run waits at this bookmark")
            .help("It was resumed already, it has expired, or the run is over."));
    }
    Ok(Json(sent.into()))
}
