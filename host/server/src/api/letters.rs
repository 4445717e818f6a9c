//! Dead letters: triggers, resumptions and stimuli that could not be delivered.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_model::{LetterNo, RunId, RunNo};
use windlass_runtime::operations;
use windlass_store::letters::{LetterBody, LetterKind, LetterQuery, LetterRow, Lettered};

use super::runs::find;
use crate::app::{App, AppInner};
use crate::count::Count;
use crate::extract::{Document, Named, QueryParams, duration_text, no_time};
use crate::json::Json;
use crate::named::{DeadLetterKind, DeliveryKind, TriggerKind};
use crate::nodes::node_name;
use crate::page::{Page, PageAsked};
use crate::problem::{Problem, one_of};
use crate::raw::Raw;
use crate::view::{Failure, moment, seq_text};

/// Dead letters that one transaction deletes.
const SLICE: u32 = 500;

/// Transactions of one request.
const SLICES: u32 = 20;

/// A trigger, resumption or stimulus that could not be delivered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Letter {
    /// Its number.
    no: Count,
    /// Its kind.
    #[schema(value_type = DeadLetterKind)]
    kind: &'static str,
    /// The reason, in a word: like `stale`.
    reason: String,
    /// The run that it was addressed to.
    #[schema(required = true)]
    run: Option<Uuid>,
    /// The time at which it was dead-lettered.
    died: String,
    /// The time at which it was replayed, which is possible once.
    #[schema(required = true)]
    replayed: Option<String>,
    /// The failure of the last delivery.
    #[schema(required = true)]
    failure: Option<Failure>,
    /// The content that could not be delivered.
    body: DeadLetterBody,
}

/// The content of a dead letter.
///
/// `seq`, `type`, `node`, `priority` and `payload` are those of a trigger or a resumption; `id`,
/// `name`, `match`, `correlation`, `delivery` and `input` those of a stimulus.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct DeadLetterBody {
    /// The number of the trigger in its run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    seq: Option<String>,
    /// The type of the trigger.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TriggerKind>, nullable = false)]
    kind: Option<&'static str>,
    /// The node that the trigger executes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    node: Option<String>,
    /// The priority of the trigger.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    priority: Option<i32>,
    /// The payload of the trigger.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>, nullable = false)]
    payload: Option<Raw>,
    /// The id of the stimulus.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    id: Option<Uuid>,
    /// The name of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    name: Option<String>,
    /// The `match` of the stimulus.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>, nullable = false)]
    matches: Option<Raw>,
    /// The correlation that the stimulus names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    correlation: Option<String>,
    /// How the stimulus is delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DeliveryKind>, nullable = false)]
    delivery: Option<&'static str>,
    /// The input of the stimulus.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>, nullable = false)]
    input: Option<Raw>,
}

fn item(app: &AppInner, row: &LetterRow) -> Result<Letter, Box<Problem>> {
    let letter = &row.letter;
    let body = match &letter.body {
        LetterBody::Trigger(dead) => DeadLetterBody {
            seq: Some(seq_text(dead.seq)),
            kind: Some(dead.kind.name()),
            node: dead
                .node
                .map(|node| node_of(app, dead.run, node))
                .transpose()?,
            priority: Some(dead.priority),
            payload: dead.payload.as_deref().map(Raw::read),
            ..DeadLetterBody::default()
        },
        LetterBody::Stimulus(stimulus) => DeadLetterBody {
            id: Some(stimulus.id.0),
            name: Some(stimulus.name.clone()),
            matches: Some(Raw::read(&stimulus.matches)),
            correlation: stimulus.correlation.clone(),
            delivery: Some(stimulus.delivery.name()),
            input: stimulus.input.inline().map(|bytes| Raw::read(bytes)),
            ..DeadLetterBody::default()
        },
    };
    Ok(Letter {
        no: Count::of_row(row.no.0),
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
    let nodes = match app.store().run_by_no(run)? {
        Some(row) => app.nodes(row.definition)?,
        None => None,
    };
    Ok(node_name(nodes.as_deref(), node))
}

/// Selects dead letters.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only dead letters of this kind.
    #[param(value_type = Option<DeadLetterKind>)]
    kind: Option<String>,
    /// Only dead letters of this run.
    run: Option<Uuid>,
    /// The newest first, instead of the oldest.
    #[serde(default)]
    #[param(default = false)]
    newest: bool,
}

/// List dead letters, the oldest first unless the request asks for the newest.
#[utoipa::path(get, path = "/api/v1/dead-letters", operation_id = "listDeadLetters", tag = "dead letters", params(PageAsked, Filter),
    responses((status = 200, description = "A page of dead letters.", body = Page<Letter>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
    QueryParams(filter): QueryParams<Filter>,
) -> Result<Json<Page<Letter>>, Box<Problem>> {
    let kind = filter.kind.as_deref().map(|name| {
        let found = LetterKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            let names = LetterKind::ALL.map(LetterKind::name);
            Problem::parameter(format!("there is no kind `{name}`")).help(one_of(name, &names))
        })
    });
    let kind = kind.transpose()?;
    app.read(move |app| {
        let run = filter.run.map(|id| find(app, RunId(id))).transpose()?;
        let list = match filter.newest {
            true => "newest letters",
            false => "letters",
        };
        let after = page.after_number(list)?.map(LetterNo);
        let rows = page.rows(|limit| {
            Ok(app.store().dead_letters(&LetterQuery {
                kind,
                run: run.as_ref().map(|row| row.no),
                newest: filter.newest,
                after,
                limit,
            })?)
        })?;
        let place = |row: &LetterRow| row.no.to_string();
        page.part(list, rows, place, |row| item(app, &row))
    })
    .await
    .map(Json)
}

fn missing(no: i64) -> Box<Problem> {
    Problem::not_found(format!("there is no dead letter {no}"))
}

/// Show a dead letter.
#[utoipa::path(get, path = "/api/v1/dead-letters/{no}", operation_id = "getDeadLetter", tag = "dead letters",
    params(("no" = Count, Path, description = "The number of the dead letter.")),
    responses((status = 200, description = "The dead letter.", body = Letter)))]
pub(crate) async fn show(State(app): State<App>, no: Named) -> Result<Json<Letter>, Box<Problem>> {
    let no = no.number()?;
    app.read(move |app| {
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
#[utoipa::path(post, path = "/api/v1/dead-letters/{no}/replay", operation_id = "replayDeadLetter", tag = "dead letters",
    params(("no" = Count, Path, description = "The number of the dead letter.")),
    responses((status = 204, description = "The dead letter is replayed."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The dead letter was replayed before, or its run has ended.")))]
pub(crate) async fn replay(State(app): State<App>, no: Named) -> Result<StatusCode, Box<Problem>> {
    let no = no.number()?;
    done(no, app.client.replay(LetterNo(no)).await?)
}

/// Delete a dead letter.
#[utoipa::path(delete, path = "/api/v1/dead-letters/{no}", operation_id = "deleteDeadLetter", tag = "dead letters",
    params(("no" = Count, Path, description = "The number of the dead letter.")),
    responses((status = 204, description = "The dead letter is deleted."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The dead letter was replayed before, or its run has ended.")))]
pub(crate) async fn delete(State(app): State<App>, no: Named) -> Result<StatusCode, Box<Problem>> {
    let no = no.number()?;
    app.ask(move |app| {
        let lettered = operations::throw_letter_away(app.store(), LetterNo(no))?;
        done(no, lettered)
    })
    .await
}

/// Selects the dead letters to delete.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Purge {
    /// Those older than this, like `7d`.
    #[serde(deserialize_with = "duration_text")]
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
#[utoipa::path(post, path = "/api/v1/dead-letters/purge", operation_id = "purgeDeadLetters", tag = "dead letters", request_body = Purge,
    responses((status = 200, description = "How many dead letters are deleted.", body = Purged)))]
pub(crate) async fn purge(
    State(app): State<App>,
    Document(purge): Document<Purge>,
) -> Result<Json<Purged>, Box<Problem>> {
    let older_ms = windlass_model::file::duration_ms(&purge.older_than).map_err(no_time)?;
    app.ask(move |app| {
        let before_ms = app.now_ms().saturating_sub_unsigned(older_ms);
        let mut deleted = 0;
        for _ in 0..SLICES {
            let slice = operations::purge_letters(app.store(), before_ms, SLICE)?;
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
