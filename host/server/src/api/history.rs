//! The history of a run: its executions, and the definition whose nodes they executed.
//!
//! A definition is also found by its digest, which runs and versions name.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_model::{Digest, ExecutionNo, RunId};
use windlass_runtime::operations::{Given, Inputs};
use windlass_store::rows::ExecutionRow;

use super::runs::find;
use crate::app::{App, AppInner};
use crate::extract::{Named, NamedIn, QueryParams};
use crate::json::Json;
use crate::page::{Page, PageAsked};
use crate::problem::Problem;
use crate::raw::Raw;
use crate::view::Execution;
use crate::view::graph::Graph;
use crate::workflow_file::WorkflowFile;

/// The members of executions to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Brief {
    /// Leave out the outputs and the log lines.
    #[serde(default)]
    #[param(default = false)]
    brief: bool,
}

/// List the executions of a run, the newest first.
#[utoipa::path(get, path = "/api/v1/runs/{id}/executions", operation_id = "listExecutions", tag = "runs",
    params(("id" = uuid::Uuid, Path, description = "The run."), PageAsked, Brief),
    responses((status = 200, description = "A page of executions.", body = Page<Execution>)))]
pub(crate) async fn executions(
    State(app): State<App>,
    id: Named,
    QueryParams(page): QueryParams<PageAsked>,
    QueryParams(Brief { brief }): QueryParams<Brief>,
) -> Result<Json<Page<Execution>>, Box<Problem>> {
    let id = RunId(id.uuid()?);
    app.read(move |app| {
        let row = find(app, id)?;
        let nodes = app.nodes(row.definition)?;
        let list = format!("executions {id}");
        let before = page.after_number(&list)?.map(ExecutionNo);
        // A cursor from another run's history would lead into that history.
        if let Some(no) = before
            && app
                .store()
                .execution(no)?
                .is_none_or(|execution| execution.run != row.no)
        {
            return Err(Problem::parameter("`cursor` leads nowhere any more"));
        }
        let rows = page.rows(|limit| Ok(app.store().executions(row.no, before, limit)?))?;
        let place = |row: &ExecutionRow| row.no.to_string();
        page.part(&list, rows, place, |row| match brief {
            true => Ok(Execution::brief(nodes.as_deref(), &row)),
            false => Execution::whole(app, nodes.as_deref(), &row),
        })
    })
    .await
    .map(Json)
}

/// Show one execution of a run.
#[utoipa::path(get, path = "/api/v1/runs/{id}/executions/{no}", operation_id = "getExecution", tag = "runs",
    params(("id" = uuid::Uuid, Path, description = "The run."),
        ("no" = String, Path, description = "The number of the execution, from a list or an event.")),
    responses((status = 200, description = "The execution.", body = Execution)))]
pub(crate) async fn execution(
    State(app): State<App>,
    NamedIn(id, no): NamedIn,
) -> Result<Json<Execution>, Box<Problem>> {
    let (id, no) = (RunId(id.uuid()?), ExecutionNo(no.number()?));
    let shown = app.read(move |app| shown(app, id, no, true)).await;
    match shown {
        // The execution is shown although its input is made of much.
        Err(problem) if problem.exceeds_allowance() => {
            let without = move |app: &AppInner| self::shown(app, id, no, false);
            app.read(without).await.map(Json)
        }
        shown => shown.map(Json),
    }
}

fn shown(
    app: &AppInner,
    id: RunId,
    no: ExecutionNo,
    with_inputs: bool,
) -> Result<Execution, Box<Problem>> {
    let row = find(app, id)?;
    let execution = app.store().execution(no)?;
    let execution = execution.filter(|execution| execution.run == row.no);
    let missing = || Problem::not_found(format!("the run {id} has no execution {no}"));
    let execution = execution.ok_or_else(missing)?;
    let nodes = app.nodes(row.definition)?;
    let inputs = match with_inputs {
        true => app.client.inputs(&row, &execution)?,
        false => Inputs {
            input: Some(Given::Missing(
                "it is made of more data than one answer may read".to_owned(),
            )),
            ..Inputs::default()
        },
    };
    Execution::whole(app, nodes.as_deref(), &execution)?.got(app, &inputs)
}

/// Whether to add the graph.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct WithGraph {
    /// Add the graph.
    #[serde(default)]
    #[param(default = false)]
    graph: bool,
}

/// A definition, published or not.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoredDefinition {
    /// The name of the workflow.
    workflow: String,
    /// The digest of the definition.
    digest: String,
    /// The definition.
    #[schema(value_type = WorkflowFile)]
    file: Raw,
    /// Its graph, if the request asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    graph: Option<Graph>,
}

/// Return the definition that a run executes, published or not.
#[utoipa::path(get, path = "/api/v1/runs/{id}/definition", operation_id = "getRunDefinition", tag = "runs",
    params(("id" = uuid::Uuid, Path, description = "The run."), WithGraph),
    responses((status = 200, description = "The definition.", body = StoredDefinition)))]
pub(crate) async fn definition(
    State(app): State<App>,
    id: Named,
    QueryParams(with): QueryParams<WithGraph>,
) -> Result<Json<StoredDefinition>, Box<Problem>> {
    let id = RunId(id.uuid()?);
    app.read(move |app| {
        let digest = find(app, id)?.definition;
        let missing = || Problem::not_found(format!("the definition of the run {id} is gone"));
        stored(app, digest, with.graph)?.ok_or_else(missing)
    })
    .await
    .map(Json)
}

/// Return a definition by its digest, published or not.
#[utoipa::path(get, path = "/api/v1/stored-definitions/{digest}", operation_id = "getStoredDefinition", tag = "definitions",
    params(("digest" = String, Path, description = "The digest, as a run or a version names it: `sha256:` and 64 hexadecimal digits, or the digits alone."), WithGraph),
    responses((status = 200, description = "The definition.", body = StoredDefinition)))]
pub(crate) async fn stored_definition(
    State(app): State<App>,
    Named(text): Named,
    QueryParams(with): QueryParams<WithGraph>,
) -> Result<Json<StoredDefinition>, Box<Problem>> {
    let digest: Result<Digest, _> = text.parse();
    let missing = move || Problem::not_found(format!("there is no definition `{text}`"));
    let Ok(digest) = digest else {
        return Err(missing());
    };
    app.read(move |app| stored(app, digest, with.graph)?.ok_or_else(&missing))
        .await
        .map(Json)
}

fn stored(
    app: &AppInner,
    digest: Digest,
    with_graph: bool,
) -> Result<Option<StoredDefinition>, Box<Problem>> {
    let Some(stored) = app.store().definition(digest)? else {
        return Ok(None);
    };
    let parsed = match with_graph {
        true => app.definition(digest)?,
        false => None,
    };
    Ok(Some(StoredDefinition {
        file: Raw::read(&stored.json),
        workflow: stored.name,
        digest: digest.to_string(),
        graph: parsed.as_ref().map(Graph::of),
    }))
}
