//! The host itself, and the processes that share its store.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_model::metrics::BUDGETS;
use windlass_store::rows::MemberRow;

use crate::app::App;
use crate::count::Count;
use crate::extract::QueryParams;
use crate::json::Json;
use crate::page::{Page, PageAsked};
use crate::problem::Problem;
use crate::view::moment;

/// A budget of memory.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MemoryBudget {
    /// Its name, as in the metrics.
    name: &'static str,
    /// What takes the memory, for people.
    of: &'static str,
    /// The use, in bytes.
    used: Count,
    /// The highest use since the start, in bytes.
    peak: Count,
    /// The bound, in bytes.
    limit: Count,
}

/// Work in the store, of all hosts, each counted up to 10,000.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Waiting {
    /// Triggers that are due.
    due: Count,
    /// Triggers that are due later, or wait for an event.
    pending: Count,
    /// Triggers that cannot run until plugins change.
    parked: Count,
    /// Dead letters that were not replayed.
    dead_letters: Count,
}

/// The most rows of each kind that are counted.
const COUNTED: u32 = 10_000;

/// A host.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HostShown {
    /// The version of the program.
    version: &'static str,
    /// The operating system.
    os: &'static str,
    /// The architecture of its processors.
    arch: &'static str,
    /// The processors that it may use.
    processors: Count,
    /// The time of its start.
    started: String,
    /// The place of its store, without its password.
    #[schema(required = true)]
    store: Option<String>,
    /// The work in the store.
    waiting: Waiting,
    /// Its budgets of memory.
    budgets: Vec<MemoryBudget>,
}

/// Show the host.
#[utoipa::path(get, path = "/api/v1/admin/host", operation_id = "showHost", tag = "admin",
    responses((status = 200, description = "The host.", body = HostShown)))]
pub(crate) async fn show(State(app): State<App>) -> Result<Json<HostShown>, Box<Problem>> {
    let backlog = app.read(|app| Ok(app.store().backlog(app.now_ms(), COUNTED)?));
    let backlog = backlog.await?;
    let budgets = BUDGETS.iter().zip(app.options.metrics.budgets());
    let budgets = budgets.map(|(about, budget)| MemoryBudget {
        name: about.name,
        of: about.of,
        used: Count(budget.get()),
        peak: Count(budget.peak()),
        limit: Count(budget.limit()),
    });
    Ok(Json(HostShown {
        version: env!("CARGO_PKG_VERSION"),
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
        processors: std::thread::available_parallelism()
            .map_or(0, usize::from)
            .into(),
        started: moment(app.started_ms),
        store: app.options.store_place.clone(),
        waiting: Waiting {
            due: Count(backlog.due),
            pending: Count(backlog.pending),
            parked: Count(backlog.parked),
            dead_letters: Count(backlog.dead),
        },
        budgets: budgets.collect(),
    }))
}

/// A process that shares the store.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Member {
    /// The number of this life of the process, as text.
    incarnation: String,
    /// Its name, like `serve`.
    name: String,
    /// Its process id on its machine.
    pid: u32,
    /// The time at which it joined.
    joined: String,
    /// Whether it is the host that answers.
    own: bool,
}

/// List the processes that share the store, in the order in which they joined.
#[utoipa::path(get, path = "/api/v1/admin/members", operation_id = "listMembers", tag = "admin", params(PageAsked),
    responses((status = 200, description = "A page of processes.", body = Page<Member>)))]
pub(crate) async fn members(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
) -> Result<Json<Page<Member>>, Box<Problem>> {
    let after = page.after_number("members")?;
    app.read(move |app| {
        let runtime = app.options.runtime.as_ref();
        let own = runtime.map(|runtime| runtime.incarnation());
        let mut all = app.store().members()?;
        all.retain(|row| after.is_none_or(|after| row.incarnation.0 > after));
        let place = |row: &MemberRow| row.incarnation.0.to_string();
        page.page("members", all, place, |row| {
            Ok(Member {
                incarnation: row.incarnation.0.to_string(),
                pid: row.pid,
                joined: moment(row.joined_ms),
                own: own == Some(row.incarnation),
                name: row.name,
            })
        })
    })
    .await
    .map(Json)
}
