//! One operation on many runs: preview, begin, follow and stop.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use uuid::Uuid;
use windlass_model::file::instant_ms;
use windlass_model::{BatchNo, RunId, Tags, valid};
use windlass_runtime::operations::batches::{self, Action, Selection, What};

use super::lifecycle::with_version;
use crate::app::App;
use crate::count::Count;
use crate::extract::{Document, Named, QueryParams, check_optional};
use crate::json::Json;
use crate::named::{BatchAction, BatchStanding, RunStatus};
use crate::page::{Page, PageAsked};
use crate::problem::Problem;
use crate::view::{Names, Run, moment};

/// The runs of a batch: those that match all members, of which there is at least one.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = BatchRuns)]
pub(crate) struct Where {
    /// In one of these statuses. Default: in all that the operation concerns.
    #[schema(value_type = Vec<RunStatus>)]
    status: Vec<String>,
    /// Of this workflow.
    workflow: Option<String>,
    /// Created at this instant or later.
    since: Option<String>,
    /// Created before this instant. Runs that are created after the batch are none of it.
    until: Option<String>,
    /// With this subject.
    correlation: Option<String>,
    /// With a failure of this code, like `WL-R001`.
    failure: Option<String>,
    /// Called by this run.
    parent: Option<Uuid>,
    /// With all these tags.
    #[schema(value_type = std::collections::HashMap<String, String>)]
    tags: Tags,
}

impl Where {
    fn selection(self) -> Result<Selection, Box<Problem>> {
        for (name, text) in [
            ("`workflow`", &self.workflow),
            ("`correlation`", &self.correlation),
            ("`failure`", &self.failure),
        ] {
            check_optional(name, text.as_deref())?;
        }
        valid::check_tags(&self.tags).map_err(|wrong| Problem::body(format!("`tags`: {wrong}")))?;
        let time = |name: &str, text: Option<String>| match text {
            None => Ok(None),
            Some(text) => instant_ms(&text).map(Some).map_err(|wrong| {
                Problem::body(format!("`{name}`: {}", wrong.message)).help(wrong.help)
            }),
        };
        Ok(Selection {
            statuses: self.status,
            workflow: self.workflow,
            since_ms: time("since", self.since)?,
            until_ms: time("until", self.until)?,
            correlation: self.correlation,
            failure: self.failure,
            parent: self.parent.map(RunId),
            tags: self.tags,
        })
    }
}

/// A selection in the form of a request.
fn shown(runs: &Selection) -> Value {
    let mut members = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        members.extend(value.map(|value| (name.to_owned(), value)));
    };
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    let time = |ms: Option<i64>| ms.map(|ms| Value::from(moment(ms)));
    add(
        "status",
        (!runs.statuses.is_empty()).then(|| json!(runs.statuses)),
    );
    add("workflow", text(&runs.workflow));
    add("since", time(runs.since_ms));
    add("until", time(runs.until_ms));
    add("correlation", text(&runs.correlation));
    add("failure", text(&runs.failure));
    add("parent", runs.parent.map(|id| json!(id.0)));
    add("tags", (!runs.tags.is_empty()).then(|| json!(runs.tags)));
    Value::Object(members)
}

/// A request for the runs that a batch would concern.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewRequest {
    /// The operation.
    #[schema(value_type = BatchAction)]
    action: String,
    /// The runs.
    #[serde(rename = "where")]
    runs: Where,
}

/// The runs that a batch would concern now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchPreview {
    /// How many match, of the newest 10,000 that were looked at.
    count: Count,
    /// Whether all runs were looked at. If not, there are at least `count`.
    exact: bool,
    /// The newest of them, at most ten.
    examples: Vec<Run>,
}

/// A request to retry runs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryBatch {
    /// The runs.
    #[serde(rename = "where")]
    runs: Where,
    /// The node from which each run continues. Default: all nodes that failed.
    from: Option<String>,
    /// The version of its workflow with which each run continues: `latest` for the published one, or
    /// a number. Default: the definition and the components that it has.
    definition: Option<String>,
}

/// A request to cancel or delete runs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SimpleBatch {
    /// The runs.
    #[serde(rename = "where")]
    runs: Where,
}

/// A run for which the operation was refused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchRefusal {
    /// The run.
    run: Uuid,
    /// The code of the reason.
    code: String,
    /// The reason.
    detail: String,
}

/// One operation on many runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Batch {
    /// Its number.
    batch: Count,
    /// The operation.
    #[schema(value_type = BatchAction)]
    action: &'static str,
    /// The runs, in the form of the request.
    #[serde(rename = "where")]
    runs: Value,
    /// How it stands.
    #[schema(value_type = BatchStanding)]
    standing: &'static str,
    /// The time at which it was requested.
    created: String,
    /// The time at which it ended.
    #[schema(required = true)]
    ended: Option<String>,
    /// The time down to which the runs were looked at, from the newest to the oldest.
    #[schema(required = true)]
    searched_to: Option<String>,
    /// For how many runs the operation was carried out, or is requested of their owners.
    done: Count,
    /// For how many runs it was refused.
    refused: Count,
    /// The first ten of them.
    refusals: Vec<BatchRefusal>,
    /// Why it failed.
    #[schema(required = true)]
    error: Option<String>,
}

fn view(batch: batches::Batch) -> Batch {
    let progress = batch.progress;
    let searched_to = progress.searched_to_ms().map(moment);
    let refusals = progress.refusals.into_iter().map(|refusal| BatchRefusal {
        run: refusal.run.0,
        code: refusal.code,
        detail: refusal.message,
    });
    Batch {
        batch: Count::of_row(batch.no.0),
        action: batch.what.action.name(),
        runs: shown(&batch.what.runs),
        standing: progress.standing.name(),
        created: moment(batch.created_ms),
        ended: batch.ended_ms.map(moment),
        searched_to,
        done: Count(progress.done),
        refused: Count(progress.refused),
        refusals: refusals.collect(),
        error: progress.error,
    }
}

/// Count the runs that a batch would concern, and show examples. Nothing changes.
#[utoipa::path(post, path = "/api/v1/batches/preview", operation_id = "previewBatch", tag = "batches", request_body = PreviewRequest,
    responses((status = 200, body = BatchPreview, description = "The runs.")))]
pub(crate) async fn preview(
    State(app): State<App>,
    Document(request): Document<PreviewRequest>,
) -> Result<Json<BatchPreview>, Box<Problem>> {
    let action = match request.action.as_str() {
        "retry" => Action::Retry {
            from: None,
            definition: None,
        },
        "cancel" => Action::Cancel,
        "delete" => Action::Delete,
        _ => return Err(Problem::body("`action` is `retry`, `cancel` or `delete`")),
    };
    let what = What::new(action, request.runs.selection()?)?;
    let found = app.client.preview_batch(what).await?;
    app.read(move |app| {
        let mut names = Names::default();
        let examples = found.examples.iter().map(|row| names.run(app, row));
        Ok(BatchPreview {
            count: Count(found.count),
            exact: found.exact,
            examples: examples.collect::<Result<_, _>>()?,
        })
    })
    .await
    .map(Json)
}

type Begun = Result<(StatusCode, Json<Batch>), Box<Problem>>;

async fn begin(app: App, action: Action, runs: Where) -> Begun {
    let what = What::new(action, runs.selection()?)?;
    let batch = app.client.add_batch(what).await?;
    Ok((StatusCode::CREATED, Json(view(batch))))
}

/// Retry all runs that match and failed or were cancelled.
#[utoipa::path(post, path = "/api/v1/batches/retry", operation_id = "retryRuns", tag = "batches", request_body = RetryBatch,
    responses((status = 201, body = Batch, description = "The batch is stored; a host carries it out."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Too many batches go on.")))]
pub(crate) async fn retry(
    State(app): State<App>,
    Document(request): Document<RetryBatch>,
) -> Begun {
    check_optional("`from`", request.from.as_deref())?;
    let definition = request.definition.as_deref().map(with_version);
    let action = Action::Retry {
        from: request.from,
        definition: definition.transpose()?.map(Into::into),
    };
    begin(app, action, request.runs).await
}

/// Cancel all runs that match and have not ended.
#[utoipa::path(post, path = "/api/v1/batches/cancel", operation_id = "cancelRuns", tag = "batches", request_body = SimpleBatch,
    responses((status = 201, body = Batch, description = "The batch is stored; a host carries it out."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Too many batches go on.")))]
pub(crate) async fn cancel(
    State(app): State<App>,
    Document(request): Document<SimpleBatch>,
) -> Begun {
    begin(app, Action::Cancel, request.runs).await
}

/// Delete all runs that match and have ended.
#[utoipa::path(post, path = "/api/v1/batches/delete", operation_id = "deleteRuns", tag = "batches", request_body = SimpleBatch,
    responses((status = 201, body = Batch, description = "The batch is stored; a host carries it out."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Too many batches go on.")))]
pub(crate) async fn delete(
    State(app): State<App>,
    Document(request): Document<SimpleBatch>,
) -> Begun {
    begin(app, Action::Delete, request.runs).await
}

/// List batches, the newest first.
#[utoipa::path(get, path = "/api/v1/batches", operation_id = "listBatches", tag = "batches", params(PageAsked),
    responses((status = 200, body = Page<Batch>, description = "A page of batches.")))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
) -> Result<Json<Page<Batch>>, Box<Problem>> {
    let before = page.after_number("batches")?.map(BatchNo);
    let rows = app.client.batches(before, page.look()?).await?;
    let place = |batch: &batches::Batch| batch.no.to_string();
    page.page("batches", rows, place, |batch| Ok(view(batch)))
        .map(Json)
}

/// Show a batch.
#[utoipa::path(get, path = "/api/v1/batches/{batch}", operation_id = "getBatch", tag = "batches",
    params(("batch" = Count, Path, description = "Its number.")),
    responses((status = 200, body = Batch, description = "The batch.")))]
pub(crate) async fn show(State(app): State<App>, no: Named) -> Result<Json<Batch>, Box<Problem>> {
    let no = BatchNo(no.number()?);
    Ok(Json(view(app.client.batch(no).await?)))
}

/// Stop a batch: it ends with the runs that it works on. What it has done stays.
#[utoipa::path(post, path = "/api/v1/batches/{batch}/stop", operation_id = "stopBatch", tag = "batches",
    params(("batch" = Count, Path, description = "Its number.")),
    responses((status = 200, body = Batch, description = "The batch, which stops or has ended before.")))]
pub(crate) async fn stop(State(app): State<App>, no: Named) -> Result<Json<Batch>, Box<Problem>> {
    let no = BatchNo(no.number()?);
    Ok(Json(view(app.client.stop_batch(no).await?)))
}
