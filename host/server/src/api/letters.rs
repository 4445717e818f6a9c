//! Dead letters: triggers, resumptions and stimuli that could not be delivered.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_model::{LetterNo, RunId, RunNo};
use windlass_runtime::client;
use windlass_store::letters::{LetterBody, LetterKind, LetterQuery, LetterRow, Lettered};

use super::runs::find;
use crate::app::{App, AppInner};
use crate::extract::{Document, Named, QueryParams};
use crate::page::{Page, PageAsked};
use crate::problem::Problem;
use crate::view::{Failure, moment, node_name, read};

/// Dead letters that one transaction deletes.
const SLICE: u32 = 500;

/// Transactions of one request.
const SLICES: u32 = 20;

/// A trigger, resumption or stimulus that could not be delivered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Letter {
    /// Its number.
    no: i64,
    /// `trigger`, `resume` or `stimulus`.
    kind: &'static str,
    /// The reason, in a word: like `stale`.
    reason: String,
    /// The run that it was addressed to.
    run: Option<Uuid>,
    /// The time at which it was dead-lettered.
    died: String,
    /// The time at which it was replayed, which is possible once.
    replayed: Option<String>,
    /// The failure of the last delivery.
    failure: Option<Failure>,
    /// The content that could not be delivered.
    body: Value,
}

fn item(app: &AppInner, row: &LetterRow) -> Result<Letter, Box<Problem>> {
    let letter = &row.letter;
    let body = match &letter.body {
        LetterBody::Trigger(dead) => json!({
            "seq": dead.seq,
            "type": dead.kind,
            "node": dead.node.map(|node| node_of(app, dead.run, node)).transpose()?,
            "priority": dead.priority,
            "payload": dead.payload.as_deref().map(read),
        }),
        LetterBody::Stimulus(stimulus) => json!({
            "id": stimulus.id,
            "name": stimulus.name,
            "match": read(&stimulus.matches),
            "correlation": stimulus.correlation,
            "delivery": stimulus.delivery,
            "input": stimulus.input.inline().map(|bytes| read(bytes)),
        }),
    };
    Ok(Letter {
        no: row.no.0,
        kind: letter.body.kind().name(),
        reason: letter.reason.clone(),
        run: row.run_id.map(|id| id.0),
        died: moment(letter.at_ms),
        replayed: row.replayed_ms.map(moment),
        failure: letter.failure.as_ref().map(Failure::from),
        body,
    })
}

/// The name of a node of a run that may have been deleted.
fn node_of(app: &AppInner, run: RunNo, node: u32) -> Result<String, Box<Problem>> {
    let definition = match app.store().run_by_no(run)? {
        Some(row) => app.definition(row.definition)?,
        None => None,
    };
    Ok(node_name(definition.as_ref(), node))
}

/// Selects dead letters.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only dead letters of this kind: `trigger`, `resume` or `stimulus`.
    kind: Option<String>,
    /// Only dead letters of this run.
    #[serde(alias = "instance")]
    run: Option<Uuid>,
}

/// List dead letters, the oldest first.
#[utoipa::path(get, path = "/api/v1/dead-letters", tag = "dead letters", params(PageAsked, Filter),
    responses((status = 200, body = Page<Letter>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
    QueryParams(filter): QueryParams<Filter>,
) -> Result<Json<Page<Letter>>, Box<Problem>> {
    let kind = filter.kind.as_deref().map(|name| {
        let found = LetterKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| Problem::parameter(format!("there is no kind `{name}`")))
    });
    let kind = kind.transpose()?;
    app.ask(move |app| {
        let run = filter.run.map(|id| find(app, RunId(id)));
        let rows = app.store().dead_letters(&LetterQuery {
            kind,
            run: run.transpose()?.map(|row| row.no),
            after: page.after_number("letters")?.map(LetterNo),
            limit: page.look()?,
        })?;
        let place = |row: &LetterRow| row.no.to_string();
        page.page("letters", rows, place, |row| item(app, &row))
    })
    .await
    .map(Json)
}

fn missing(no: i64) -> Box<Problem> {
    Problem::not_found(format!("there is no dead letter {no}"))
}

/// Show a dead letter.
#[utoipa::path(get, path = "/api/v1/dead-letters/{no}", tag = "dead letters",
    params(("no" = i64, Path, description = "The number of the dead letter.")),
    responses((status = 200, body = Letter)))]
pub(crate) async fn show(State(app): State<App>, no: Named) -> Result<Json<Letter>, Box<Problem>> {
    let no = no.number()?;
    app.ask(move |app| {
        let row = app.store().dead_letter(LetterNo(no))?;
        item(app, &row.ok_or_else(|| missing(no))?)
    })
    .await
    .map(Json)
}

fn done(no: i64, lettered: Lettered) -> Result<StatusCode, Box<Problem>> {
    match lettered {
        Lettered::Done => Ok(StatusCode::NO_CONTENT),
        Lettered::NotFound => Err(missing(no)),
        Lettered::Already => Err(Problem::too_late(format!(
            "dead letter {no} was tried again already"
        ))),
        Lettered::Closed => Err(Problem::too_late(format!(
            "the run of dead letter {no} is over, or has gone on without it"
        ))),
    }
}

/// Deliver a dead letter again, which is possible once.
#[utoipa::path(post, path = "/api/v1/dead-letters/{no}/replay", tag = "dead letters",
    params(("no" = i64, Path, description = "The number of the dead letter.")),
    responses((status = 204, description = "The dead letter is replayed."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The dead letter was replayed before, or its run has ended.")))]
pub(crate) async fn replay(State(app): State<App>, no: Named) -> Result<StatusCode, Box<Problem>> {
    let no = no.number()?;
    done(no, app.client.replay(LetterNo(no)).await?)
}

/// Delete a dead letter.
#[utoipa::path(delete, path = "/api/v1/dead-letters/{no}", tag = "dead letters",
    params(("no" = i64, Path, description = "The number of the dead letter.")),
    responses((status = 204, description = "The dead letter is deleted."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The dead letter was replayed before, or its run has ended.")))]
pub(crate) async fn delete(State(app): State<App>, no: Named) -> Result<StatusCode, Box<Problem>> {
    let no = no.number()?;
    app.ask(move |app| {
        let lettered = client::throw_letter_away(app.store(), LetterNo(no))?;
        done(no, lettered)
    })
    .await
}

/// Selects the dead letters to delete.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Purge {
    /// Those older than this, like `7d`.
    older_than: String,
}

/// The result of a purge.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Purged {
    /// How many were deleted.
    deleted: u32,
    /// There are more: repeat the request.
    more: bool,
}

/// Delete the dead letters older than a duration, at most 10,000 per request.
#[utoipa::path(post, path = "/api/v1/dead-letters/purge", tag = "dead letters", request_body = Purge,
    responses((status = 200, body = Purged)))]
pub(crate) async fn purge(
    State(app): State<App>,
    Document(purge): Document<Purge>,
) -> Result<Json<Purged>, Box<Problem>> {
    let older = windlass_model::file::parse_duration_ms(&purge.older_than);
    let older_ms =
        older.ok_or_else(|| Problem::body(format!("`{}` is no duration", purge.older_than)))?;
    app.ask(move |app| {
        let before_ms = app.now_ms().saturating_sub_unsigned(older_ms);
        let mut deleted = 0;
        for _ in 0..SLICES {
            let slice = client::purge_letters(app.store(), before_ms, SLICE)?;
            deleted += slice;
            if slice < SLICE {
                let more = false;
                return Ok(Json(Purged { deleted, more }));
            }
        }
        let more = true;
        Ok(Json(Purged { deleted, more }))
    })
    .await
}
