//! The locks of a cluster.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_locks::Listed;
use windlass_runtime::operations;

use crate::answers::READ;
use crate::app::App;
use crate::count::Count;
use crate::extract::QueryParams;
use crate::gate;
use crate::json::Json;
use crate::page::{Page, PageAsked};
use crate::problem::{Cause, Problem};

/// The most locks that one request reads.
const LISTED: u32 = 10_000;

/// A lock that is held.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lock {
    /// The key of the lock.
    key: String,
    /// The holder.
    owner: String,
    /// Grows with each holder, as far as the provider remembers. It fences nothing.
    token: Count,
    /// How long the lease lasts from now without a renewal, in milliseconds; absent if the lock
    /// ends with its process.
    #[schema(required = true)]
    lease_ms: Option<Count>,
}

/// List the held locks, by key, as far as their provider can list them.
#[utoipa::path(get, path = "/api/v1/locks", operation_id = "listLocks", tag = "locks", params(PageAsked),
    responses((status = 200, description = "A page of locks.", body = Page<Lock>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
) -> Result<Json<Page<Lock>>, Box<Problem>> {
    let after = page.after("locks")?;
    let locks = app.ask(|app| Ok(app.resources().locks()?)).await?;
    if let Some(room) = gate::current() {
        room.for_answer(&app, READ).await?;
    }
    let mut all = locks.provider.list(LISTED).await.map_err(unlisted)?;
    // With a provider of its own, a burst of a run takes a lock there, and ownership of the run is
    // not a lock.
    if locks.ownership {
        let owned = app.read(|app| Ok(operations::owned(app.store(), LISTED)?));
        all.extend(owned.await?);
    }
    all.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    all.retain(|lock| {
        after
            .as_deref()
            .is_none_or(|after| lock.key.as_str() > after)
    });
    page.page(
        "locks",
        all,
        |lock: &Listed| lock.key.clone(),
        |lock| {
            Ok(Lock {
                key: lock.key,
                owner: lock.owner,
                token: Count(lock.token),
                lease_ms: lock.lease_ms.map(Count),
            })
        },
    )
    .map(Json)
}

fn unlisted(error: windlass_locks::Error) -> Box<Problem> {
    let windlass_locks::Error::Backend { code, .. } = &error else {
        return Problem::bug(&error);
    };
    tracing::warn!(%code, %error, "locks cannot be listed");
    let detail = "the provider of locks does not answer";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).caused(Cause::Locks(error.into()))
}
