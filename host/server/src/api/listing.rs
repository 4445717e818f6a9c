//! Listing runs by what they are, with a bounded search for each page.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_model::file::instant_ms;
use windlass_model::{RunId, RunNo, Status, Tags, valid};
use windlass_store::read::{RunPlace, RunQuery};
use windlass_store::rows::RunRow;

use super::runs::find;
use crate::app::{App, AppInner};
use crate::count::Count;
use crate::extract::{QueryParams, check_optional};
use crate::json::Json;
use crate::page::{PageAsked, cursor};
use crate::problem::{Problem, one_of};
use crate::view::{Names, Run, moment};

/// The name of the list in its cursors.
const LIST: &str = "runs";

/// The most runs that one request for a list of runs looks at, and the most that it counts.
const LOOKED_AT: u32 = 10_000;

/// Selects runs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only runs in these statuses, separated by commas: like `running,suspended`.
    #[param(pattern = "^[a-z,]*$")]
    status: Option<String>,
    /// Only runs of this workflow.
    workflow: Option<String>,
    /// Only runs that were created at this instant or later.
    since: Option<String>,
    /// Only runs that were created before this instant.
    until: Option<String>,
    /// Only runs with this subject.
    correlation: Option<String>,
    /// Only runs with a failure of this code, like `WL-R001`.
    failure: Option<String>,
    /// Only runs that this run has called.
    parent: Option<String>,
    /// Only runs whose ids begin like this, in one page. Excludes all other parameters but `limit`.
    id: Option<String>,
    /// Whether the answer has `matching`.
    #[serde(default)]
    #[param(default = false)]
    count: bool,
}

/// Selects runs by their tags.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "the parameter may be repeated, which `Deserialize` cannot read"
)]
pub(crate) struct Tagged {
    /// Only runs with this tag, like `customer=acme`; may be repeated.
    #[param(style = Form, explode)]
    tag: Option<Vec<String>>,
}

/// The tags of a query.
fn tags(query: &[(String, String)]) -> Result<Tags, Box<Problem>> {
    let mut tags = Tags::new();
    for (_, text) in query.iter().filter(|(key, _)| key == "tag") {
        let tag = text.split_once('=');
        let (name, value) =
            tag.ok_or_else(|| Problem::parameter("`tag` is like `customer=acme`"))?;
        if tags.insert(name.to_owned(), value.to_owned()).is_some() {
            let detail = "`tag` names each tag once: no run has two values of a tag";
            return Err(Problem::parameter(detail));
        }
    }
    valid::check_tags(&tags).map_err(|wrong| Problem::parameter(format!("`tag`: {wrong}")))?;
    Ok(tags)
}

/// A page of runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunPage {
    /// The runs of the page. It may have none, although others follow on a later page.
    items: Vec<Run>,
    /// The `cursor` of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next: Option<String>,
    /// The time down to which the runs were searched: all that were created later are on this page
    /// or on earlier ones. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    searched_to: Option<String>,
    /// The number of runs of all pages, if the request has `count=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    matching: Option<Matching>,
}

/// A number of runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Matching {
    /// The number of runs among the newest 10,000 that the search looks at.
    count: Count,
    /// Whether the search has looked at all runs. If not, there are at least `count`.
    exact: bool,
}

/// List runs, the newest first by the time of their creation. One request looks at most at 10,000 runs.
#[utoipa::path(get, path = "/api/v1/runs", operation_id = "listRuns", tag = "runs", params(PageAsked, Filter, Tagged),
    responses((status = 200, description = "A page of runs.", body = RunPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
    QueryParams(filter): QueryParams<Filter>,
    QueryParams(query): QueryParams<Vec<(String, String)>>,
) -> Result<Json<RunPage>, Box<Problem>> {
    let tags = tags(&query)?;
    if let Some(prefix) = filter.id {
        let other = [
            &filter.status,
            &filter.workflow,
            &filter.since,
            &filter.until,
            &filter.correlation,
            &filter.failure,
            &filter.parent,
            &page.cursor,
        ];
        if filter.count || !tags.is_empty() || other.into_iter().any(Option::is_some) {
            let detail =
                "`id` cannot be given together with another filter, with `cursor` or with `count`";
            return Err(Problem::parameter(detail));
        }
        let found = app.read(move |app| beginning(app, &prefix, &page));
        return found.await.map(Json);
    }
    app.read(move |app| searched(app, &filter, &tags, &page))
        .await
        .map(Json)
}

fn searched(
    app: &AppInner,
    filter: &Filter,
    tags: &Tags,
    page: &PageAsked,
) -> Result<RunPage, Box<Problem>> {
    let query = RunQuery {
        tags: tags.clone(),
        ..filter.query(app)?
    };
    let store = app.store();
    let matching = match filter.count {
        false => None,
        true => {
            let down_to = store.horizon(&query, LOOKED_AT)?;
            let count = store.run_count(&RunQuery {
                down_to,
                limit: LOOKED_AT,
                ..query.clone()
            })?;
            Some(Matching {
                count: Count(count),
                exact: down_to.is_none(),
            })
        }
    };
    let mut query = RunQuery {
        before: place_of(page)?,
        ..query
    };
    query.down_to = store.horizon(&query, LOOKED_AT)?;
    let rows = page.rows(|limit| {
        Ok(store.runs(&RunQuery {
            limit,
            ..query.clone()
        })?)
    })?;
    let mut names = Names::default();
    let mut last = None;
    let shown = page.part(
        LIST,
        rows,
        |row| place_text(row.place()),
        |row: RunRow| {
            let run = names.run(app, &row)?;
            last = Some(row.place());
            Ok(run)
        },
    )?;
    // A page that is not full has every run down to the end of the search.
    let searched_to = if shown.next.is_some() {
        last
    } else {
        query.down_to
    };
    Ok(RunPage {
        items: shown.items,
        next: searched_to.map(|place| cursor(LIST, &place_text(place))),
        searched_to: searched_to.map(|place| moment(place.created_ms)),
        matching,
    })
}

impl Filter {
    fn query(&self, app: &AppInner) -> Result<RunQuery, Box<Problem>> {
        for (name, text) in [
            ("`workflow`", &self.workflow),
            ("`correlation`", &self.correlation),
            ("`failure`", &self.failure),
        ] {
            check_optional(name, text.as_deref())?;
        }
        let statuses = self.status.as_deref().unwrap_or_default();
        let statuses = statuses.split(',').filter(|name| !name.is_empty());
        let time = |name: &str, text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => instant_ms(text).map(Some).map_err(|wrong| {
                let detail = format!("`{name}`: {}", wrong.message);
                Problem::parameter(detail).help(wrong.help)
            }),
        };
        let parent = match &self.parent {
            None => None,
            Some(text) => {
                let id = text.parse::<Uuid>();
                let id = id.map_err(|_| Problem::parameter(format!("`{text}` is not a UUID")))?;
                Some(find(app, RunId(id))?.no)
            }
        };
        Ok(RunQuery {
            statuses: statuses.map(status).collect::<Result<_, _>>()?,
            workflow: self.workflow.clone(),
            since_ms: time("since", &self.since)?,
            until_ms: time("until", &self.until)?,
            correlation: self.correlation.clone(),
            failure: self.failure.clone(),
            parent,
            ..RunQuery::default()
        })
    }
}

/// The place of a run, as its cursor has it.
fn place_text(place: RunPlace) -> String {
    format!("{} {}", place.created_ms, place.no)
}

/// The place after which a page begins.
fn place_of(page: &PageAsked) -> Result<Option<RunPlace>, Box<Problem>> {
    let Some(text) = page.after(LIST)? else {
        return Ok(None);
    };
    let place = text.split_once(' ').and_then(|(created_ms, no)| {
        Some(RunPlace {
            created_ms: created_ms.parse().ok()?,
            no: RunNo(no.parse().ok()?),
        })
    });
    place.map(Some).ok_or_else(Problem::foreign_cursor)
}

/// The runs whose ids begin like this.
fn beginning(app: &AppInner, prefix: &str, page: &PageAsked) -> Result<RunPage, Box<Problem>> {
    let is_id = |c: char| c.is_ascii_hexdigit() || c == '-';
    if prefix.is_empty() || !prefix.chars().all(is_id) {
        let detail = format!("`{prefix}` is not the beginning of a UUID");
        return Err(Problem::parameter(detail));
    }
    let rows = app.store().runs_by_prefix(prefix, page.look()? - 1)?;
    let mut names = Names::default();
    let items = rows.iter().map(|row| names.run(app, row));
    Ok(RunPage {
        items: items.collect::<Result<_, _>>()?,
        next: None,
        searched_to: None,
        matching: None,
    })
}

fn status(name: &str) -> Result<Status, Box<Problem>> {
    let found = Status::ALL.into_iter().find(|status| status.name() == name);
    found.ok_or_else(|| {
        let names = Status::ALL.map(Status::name);
        Problem::parameter(format!("there is no status `{name}`")).help(one_of(name, &names))
    })
}
