//! Reading runs, and waiting for them.

use std::collections::{BTreeMap, VecDeque};

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_model::{Payload, RunId, RunNo, ScopeNo, Version};
use windlass_runtime::operations::{self, Pinned, Standing};
use windlass_runtime::transfer::{IMPORTED, Origin};
use windlass_store::external::DuePlace;
use windlass_store::rows::{JournalRow, RunRow, TriggerRow};
use windlass_store::{fewer, passing};

use super::lifecycle::patience;
use crate::app::{App, AppInner};
use crate::count::Count;
use crate::extract::{Named, QueryParams};
use crate::gate::Room;
use crate::json::{Json, size};
use crate::named::RunStatus;
use crate::page::{Page, PageAsked};
use crate::problem::Problem;
use crate::raw::Raw;
use crate::view::sections::Section;
use crate::view::{Failure, Names, Run, Trigger, moment, optional, value};

/// A run with its data, its triggers and its journal.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunShown {
    /// The run as lists show it.
    run: Run,
    /// The version of its workflow: the last one that was published as its definition before the
    /// run was created, or the first one after that. Null if its definition was never published.
    #[schema(required = true)]
    version: Option<u32>,
    /// The components that it uses, by node type.
    components: Vec<Component>,
    /// Its input.
    #[schema(value_type = Option<Value>, required = true)]
    input: Option<Raw>,
    /// Its variables.
    #[schema(value_type = Map<String, Value>)]
    vars: BTreeMap<String, Raw>,
    /// Its output.
    #[schema(value_type = Option<Value>, required = true)]
    output: Option<Raw>,
    /// Its pending triggers and waits.
    triggers: Vec<Trigger>,
    /// The critical sections for which its executions wait.
    mutexes: Vec<Section>,
    /// For an imported run: `unsigned`, or `signed by` and the name of a key. The history of an
    /// unsigned run may be forged.
    #[schema(required = true)]
    imported: Option<String>,
    /// Events that concern the run as a whole.
    journal: Vec<Entry>,
    /// Data that are left out because they are large, with the path at which they are. At most 100
    /// variables are listed one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOut>,
}

/// A component that a run uses.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Component {
    /// The node type, as the definition names it: `data/jq@1`.
    node_type: String,
    /// The component, by its digest.
    digest: String,
    /// Its package; null if neither the store nor this machine knows the component.
    #[schema(required = true)]
    package: Option<String>,
    /// The version of the package.
    #[schema(required = true)]
    version: Option<String>,
}

impl From<Pinned> for Component {
    fn from(pinned: Pinned) -> Self {
        let (package, version) = pinned.package.unzip();
        Self {
            node_type: pinned.node_type,
            digest: pinned.digest.to_string(),
            package,
            version,
        }
    }
}

/// Data of a run that are left out of an answer because they are large.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeftOut {
    /// The member of the answer: like `vars`, `input` or `journal`.
    member: &'static str,
    /// The name of the variable, if one value is left out. Otherwise more than one may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    name: Option<String>,
    /// The size in bytes, if one value is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    bytes: Option<Count>,
    /// The path that returns the data; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    path: Option<String>,
}

/// The data of a run in one answer.
struct Shown<'a> {
    app: &'a AppInner,
    row: &'a RunRow,
    left_out: Vec<LeftOut>,
}

/// An input and an output over this size, in bytes, are left out, and variables beyond it.
const VALUE_BYTES: u64 = 1024 * 1024;

/// Triggers beyond this size, in bytes, are left out, and so are the oldest entries of the journal
/// and critical sections.
const ROWS_BYTES: u64 = 256 * 1024;

/// Variables that are left out one by one. Further ones are left out together.
const LISTED: usize = 100;

/// Entries of the journal that one request looks through for its newest.
const LOOKED_THROUGH: usize = 10_000;

/// Rows per read.
const ROWS: u32 = 50;

/// An event that concerns a run as a whole.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Entry {
    /// The time of the event.
    at: String,
    /// The kind of event, like `incident`.
    kind: String,
    /// The details of the event.
    #[schema(value_type = Value)]
    detail: Raw,
}

/// Show a run.
#[utoipa::path(get, path = "/api/v1/runs/{id}", operation_id = "getRun", tag = "runs",
    params(("id" = Uuid, Path, description = "The run.")),
    responses((status = 200, description = "The run with its data, its triggers and its journal.", body = RunShown)))]
pub(crate) async fn show(
    State(app): State<App>,
    id: Named,
) -> Result<Json<RunShown>, Box<Problem>> {
    let id = RunId(id.uuid()?);
    app.read(move |app| shown(app, id)).await.map(Json)
}

fn shown(app: &AppInner, id: RunId) -> Result<RunShown, Box<Problem>> {
    let row = &find(app, id)?;
    let store = app.store();
    let mut shown = Shown {
        app,
        row,
        left_out: Vec::new(),
    };
    let input = store.input(row.no)?;
    let input = shown.value("input", "input", input.as_ref())?;
    let output = store.output(row.no)?;
    let output = shown.value("output", "result", output.as_ref())?;
    let (journal, imported) = shown.journal()?;
    let published = store.published_as(row.definition, row.created_ms)?;
    let components = app.client.pinned(row)?.unwrap_or_default();
    Ok(RunShown {
        run: Names::default().run(app, row)?,
        version: published.map(|row| row.version),
        components: components.into_iter().map(Component::from).collect(),
        input,
        vars: shown.vars()?,
        output,
        triggers: shown.triggers()?,
        mutexes: shown.sections()?,
        imported,
        journal,
        left_out: shown.left_out,
    })
}

impl Shown<'_> {
    fn leave_out(&mut self, member: &'static str, path: Option<String>) {
        self.left_out.push(LeftOut {
            member,
            name: None,
            bytes: None,
            path,
        });
    }

    fn path(&self, last: &str) -> String {
        format!("/api/v1/runs/{}/{last}", self.row.id)
    }

    /// A value, unless it is large.
    fn value(
        &mut self,
        member: &'static str,
        path: &str,
        payload: Option<&Payload>,
    ) -> Result<Option<Raw>, Box<Problem>> {
        if let Some(payload) = payload
            && payload.len() > VALUE_BYTES
        {
            let path = Some(self.path(path));
            self.left_out.push(LeftOut {
                member,
                name: None,
                bytes: Some(Count(payload.len())),
                path,
            });
            return Ok(None);
        }
        optional(self.app, payload)
    }

    /// The variables by name, up to their bound.
    fn vars(&mut self) -> Result<BTreeMap<String, Raw>, Box<Problem>> {
        let (mut vars, mut bytes, mut listed) = (BTreeMap::new(), 0, 0);
        let mut after: Option<String> = None;
        loop {
            let (rows, cut) = vars_of(self.app, self.row.no, after.as_deref(), ROWS)?;
            let more = cut || rows.len() >= ROWS as usize;
            after = rows.last().map(|(name, _)| name.clone()).or(after);
            for (name, payload) in rows {
                let size = payload.len() + name.len() as u64;
                if bytes + size <= VALUE_BYTES {
                    bytes += size;
                    vars.insert(name, value(self.app, &payload)?);
                    continue;
                }
                if payload.inline().is_some() || listed >= LISTED {
                    self.leave_out("vars", Some(self.path("vars")));
                    return Ok(vars);
                }
                listed += 1;
                let path = Some(self.path("vars"));
                self.left_out.push(LeftOut {
                    member: "vars",
                    name: Some(name),
                    bytes: Some(Count(payload.len())),
                    path,
                });
            }
            if !more {
                return Ok(vars);
            }
        }
    }

    /// The soonest triggers, up to their bound.
    fn triggers(&mut self) -> Result<Vec<Trigger>, Box<Problem>> {
        let (mut names, mut triggers, mut bytes) = (Names::default(), Vec::new(), 0);
        let mut after: Option<DuePlace> = None;
        loop {
            let (rows, cut) = triggers_of(self.app, self.row.no, after, ROWS)?;
            let more = cut || rows.len() >= ROWS as usize;
            after = rows.last().map(DuePlace::from).or(after);
            for row in rows {
                let trigger = names.trigger(self.app, &row)?;
                bytes += size(&trigger) as u64;
                if bytes > ROWS_BYTES {
                    let path = format!("/api/v1/triggers?run={}", self.row.id);
                    self.leave_out("triggers", Some(path));
                    return Ok(triggers);
                }
                triggers.push(trigger);
            }
            if !more {
                return Ok(triggers);
            }
        }
    }

    /// The newest entries of the journal, up to their bound, and the origin of the run.
    fn journal(&mut self) -> Result<(Vec<Entry>, Option<String>), Box<Problem>> {
        let (mut entries, mut marks) = (VecDeque::new(), Vec::new());
        let (mut bytes, mut seen, mut gone) = (0_u64, 0_usize, false);
        loop {
            let (rows, cut) = passing(u64::MAX, || journal_of(self.app, self.row.no, seen, ROWS))?;
            let more = cut || rows.len() >= ROWS as usize;
            seen += rows.len();
            for row in rows {
                if row.kind == IMPORTED {
                    marks.push(row.clone());
                }
                let entry = Entry::from(&row);
                let size = size(&entry) as u64;
                bytes += size;
                entries.push_back((size, entry));
                while bytes > ROWS_BYTES
                    && let Some((size, _)) = entries.pop_front()
                {
                    bytes -= size;
                    gone = true;
                }
            }
            if !more {
                break;
            }
            if seen >= LOOKED_THROUGH {
                gone = true;
                break;
            }
        }
        if gone {
            self.leave_out("journal", Some(self.path("journal")));
        }
        let imported = Origin::of(&marks).map(|origin| origin.to_string());
        Ok((
            entries.into_iter().map(|(_, entry)| entry).collect(),
            imported,
        ))
    }

    /// The critical sections, unless the rows that tell about them are large.
    fn sections(&mut self) -> Result<Vec<Section>, Box<Problem>> {
        let Some(definition) = self.app.definition(self.row.definition)? else {
            return Ok(Vec::new());
        };
        let found = passing(VALUE_BYTES, || {
            operations::sections(self.app.store(), self.row, &definition)
                .map_err(Box::<Problem>::from)
        });
        match found {
            Ok(found) => Ok(found.iter().map(Section::from).collect()),
            Err(problem) if problem.exceeds_allowance() => {
                self.leave_out("mutexes", None);
                Ok(Vec::new())
            }
            Err(problem) => Err(problem),
        }
    }
}

/// A variable, as the store has it.
type NamedPayload = (String, Payload);

/// Variables of a run after a name: `most`, or fewer if they are large.
fn vars_of(
    app: &AppInner,
    run: RunNo,
    after: Option<&str>,
    most: u32,
) -> Result<(Vec<NamedPayload>, bool), Box<Problem>> {
    fewer(ROWS_BYTES, most, |limit| {
        Ok(app.store().vars_after(run, ScopeNo::ROOT, after, limit)?)
    })
}

fn triggers_of(
    app: &AppInner,
    run: RunNo,
    after: Option<DuePlace>,
    most: u32,
) -> Result<(Vec<TriggerRow>, bool), Box<Problem>> {
    fewer(ROWS_BYTES, most, |limit| {
        Ok(app.store().triggers_after(run, after, limit)?)
    })
}

fn journal_of(
    app: &AppInner,
    run: RunNo,
    seen: usize,
    most: u32,
) -> Result<(Vec<JournalRow>, bool), Box<Problem>> {
    let skip = u32::try_from(seen).unwrap_or(u32::MAX);
    fewer(ROWS_BYTES, most, |limit| {
        Ok(app.store().journal_after(run, skip, limit)?)
    })
}

impl From<&JournalRow> for Entry {
    fn from(row: &JournalRow) -> Self {
        Self {
            at: moment(row.at_ms),
            kind: row.kind.clone(),
            detail: Raw::read(&row.detail),
        }
    }
}

/// Return the input of a run.
#[utoipa::path(get, path = "/api/v1/runs/{id}/input", operation_id = "getRunInput", tag = "runs",
    params(("id" = Uuid, Path, description = "The run.")),
    responses((status = 200, description = "The input.", body = RunInput)))]
pub(crate) async fn input(
    State(app): State<App>,
    id: Named,
) -> Result<Json<RunInput>, Box<Problem>> {
    let id = RunId(id.uuid()?);
    app.read(move |app| {
        let payload = app.store().input(find(app, id)?.no)?;
        let input = optional(app, payload.as_ref())?;
        Ok(RunInput { input })
    })
    .await
    .map(Json)
}

/// The input of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunInput {
    /// The input.
    #[schema(value_type = Option<Value>, required = true)]
    input: Option<Raw>,
}

/// A variable of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Variable {
    /// Its name.
    name: String,
    /// Its value.
    #[schema(value_type = Value)]
    value: Raw,
}

/// List the variables of a run, by name.
#[utoipa::path(get, path = "/api/v1/runs/{id}/vars", operation_id = "listVariables", tag = "runs",
    params(("id" = Uuid, Path, description = "The run."), PageAsked),
    responses((status = 200, description = "A page of variables.", body = Page<Variable>)))]
pub(crate) async fn vars(
    State(app): State<App>,
    id: Named,
    QueryParams(page): QueryParams<PageAsked>,
) -> Result<Json<Page<Variable>>, Box<Problem>> {
    let id = RunId(id.uuid()?);
    app.read(move |app| {
        let no = find(app, id)?.no;
        let after = page.after("vars")?;
        let rows = page.rows(|limit| {
            let store = app.store();
            Ok(store.vars_after(no, ScopeNo::ROOT, after.as_deref(), limit)?)
        })?;
        let place = |(name, _): &(String, Payload)| name.clone();
        page.part("vars", rows, place, |(name, payload)| {
            let value = value(app, &payload)?;
            Ok(Variable { name, value })
        })
    })
    .await
    .map(Json)
}

/// List the events that concern a run as a whole, the oldest first.
#[utoipa::path(get, path = "/api/v1/runs/{id}/journal", operation_id = "listJournal", tag = "runs",
    params(("id" = Uuid, Path, description = "The run."), PageAsked),
    responses((status = 200, description = "A page of events.", body = Page<Entry>)))]
pub(crate) async fn journal(
    State(app): State<App>,
    id: Named,
    QueryParams(page): QueryParams<PageAsked>,
) -> Result<Json<Page<Entry>>, Box<Problem>> {
    let id = RunId(id.uuid()?);
    app.read(move |app| {
        let no = find(app, id)?.no;
        let list = format!("journal {id}");
        let seen = page.after_number(&list)?.unwrap_or_default();
        let skip = u32::try_from(seen).unwrap_or(u32::MAX);
        let (rows, cut) = page.rows(|limit| Ok(app.store().journal_after(no, skip, limit)?))?;
        let rows = (seen + 1..).zip(rows).collect();
        let place = |(place, _): &(i64, JournalRow)| place.to_string();
        page.part(&list, (rows, cut), place, |(_, row)| Ok(Entry::from(&row)))
    })
    .await
    .map(Json)
}

/// The row of a run.
pub(crate) fn find(app: &AppInner, id: RunId) -> Result<RunRow, Box<Problem>> {
    let missing = || windlass_runtime::Error::NotFound(id.to_string());
    Ok(app.store().run(id)?.ok_or_else(missing)?)
}

/// A wait for an outcome.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wait {
    /// How long to wait, like `5s`. Default: no wait. The host refuses a longer wait than
    /// `max-wait` of its configuration (`1m` by default).
    pub(crate) wait: Option<String>,
}

/// A wait for the outcome of a run, or for its next steps.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Follow {
    /// How long to wait, like `5s`. Default: no wait. The host refuses a longer wait than
    /// `max-wait` of its configuration (`1m` by default).
    wait: Option<String>,
    /// A version of the run, from an earlier answer: the wait ends also when the run has another
    /// version.
    after: Option<String>,
}

/// The status and the outcome of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Outcome {
    /// Its id.
    id: Uuid,
    /// Its status.
    #[schema(value_type = RunStatus)]
    status: &'static str,
    /// Changes with each step of the run.
    version: String,
    /// Whether the requested or awaited change has happened.
    done: bool,
    /// The output, if the run completed.
    #[schema(value_type = Option<Value>, required = true)]
    output: Option<Raw>,
    /// The failure, if the run faulted.
    #[schema(required = true)]
    failure: Option<Failure>,
}

impl Outcome {
    pub(crate) fn of(app: &AppInner, standing: &Standing) -> Result<Self, Box<Problem>> {
        let result = standing.result.as_ref();
        let output = result.and_then(|result| result.output.as_ref());
        Ok(Self {
            id: standing.id.0,
            status: standing.status.name(),
            version: standing.version.0.to_string(),
            done: standing.done,
            output: optional(app, output)?,
            failure: result
                .and_then(|result| result.failure.as_ref())
                .map(Failure::from),
        })
    }
}

/// Return the outcome of a run, or its status if it has not ended by the end of the wait.
#[utoipa::path(get, path = "/api/v1/runs/{id}/result", operation_id = "getResult", tag = "runs",
    params(("id" = Uuid, Path, description = "The run."), Follow),
    responses(
        (status = 200, body = Outcome, description = "The run has ended."),
        (status = 202, body = Outcome, description = "The run has not ended yet."),
    ))]
pub(crate) async fn result(
    State(app): State<App>,
    room: Option<Extension<Room>>,
    id: Named,
    QueryParams(follow): QueryParams<Follow>,
) -> Result<(StatusCode, Json<Outcome>), Box<Problem>> {
    let id = RunId(id.uuid()?);
    let wait = Wait { wait: follow.wait };
    let (patience, _stream) = patience(&app, room.as_ref(), &wait)?;
    let after = follow.after.map(|text| text.parse().map(Version));
    let after = after.transpose().map_err(|_| {
        Problem::parameter("`after` is no version of a run: send `version` of an answer")
    })?;
    let standing = match after {
        Some(after) => app.client.news(id, after, patience).await?,
        None => app.client.result(id, patience).await?,
    };
    answer(&app, standing).await
}

/// An output up to this size, in bytes, takes no room for making its answer.
const SMALL_OUTPUT: u64 = 64 * 1024;

/// The response for a standing.
pub(crate) async fn answer(
    app: &App,
    standing: Standing,
) -> Result<(StatusCode, Json<Outcome>), Box<Problem>> {
    let status = if standing.done {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    let output = (standing.result.as_ref()).and_then(|result| result.output.as_ref());
    let is_here = output.is_none_or(|output| output.inline().is_some());
    let outcome = match output.map_or(0, Payload::len) {
        // Nothing is read, so no other thread is needed.
        ..=SMALL_OUTPUT if is_here => Outcome::of(app, &standing)?,
        ..=SMALL_OUTPUT => app.ask(move |app| Outcome::of(app, &standing)).await?,
        _ => app.read(move |app| Outcome::of(app, &standing)).await?,
    };
    Ok((status, Json(outcome)))
}
