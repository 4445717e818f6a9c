//! Locks: who may act.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_locks::Listed;
use windlass_runtime::client;

use crate::app::App;
use crate::extract::QueryParams;
use crate::page::{Page, PageAsked};
use crate::problem::{Cause, Problem};

/// Locks that are asked for.
const LISTED: u32 = 10_000;

/// A lock that is held.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lock {
    /// What is locked.
    key: String,
    /// Who has it.
    owner: String,
    /// Grows with each holder, as far as the provider remembers. Fences nothing.
    token: u64,
    /// How long its lease lasts from now if nobody renews it, in milliseconds; not there if it
    /// ends with its process.
    lease_ms: Option<u64>,
}

/// Lists the locks that are held, by key, as far as their provider can tell.
#[utoipa::path(get, path = "/api/v1/locks", tag = "locks", params(PageAsked),
    responses((status = 200, body = Page<Lock>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
) -> Result<Json<Page<Lock>>, Box<Problem>> {
    let after = page.after("locks")?;
    let locks = app.ask(|app| Ok(app.resources().locks()?)).await?;
    let mut all = locks.provider.list(LISTED).await.map_err(unlisted)?;
    // With a provider of its own, a burst of a run takes a lock there, and owning the run is none.
    if locks.ownership {
        let owned = app.ask(|app| Ok(client::owned(app.store(), LISTED)?));
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
                token: lock.token,
                lease_ms: lock.lease_ms,
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
