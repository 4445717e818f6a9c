//! Locks: who may act.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_locks::Listed;
use windlass_runtime::client;

use crate::app::App;
use crate::extract::Asked;
use crate::page::{Page, PageAsked};
use crate::problem::Problem;

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
    Asked(page): Asked<PageAsked>,
) -> Result<Json<Page<Lock>>, Box<Problem>> {
    let after = page.after("locks")?;
    let mut all = match &app.options.locks {
        Some(locks) => locks.list(LISTED).await.map_err(|error| unlisted(&error))?,
        None => Vec::new(),
    };
    // What a run is owned by is a lock, too; of a provider's own for it, that counts.
    let owned = app
        .ask(|app| Ok(client::owned(app.store(), LISTED)?))
        .await?;
    all.extend(owned);
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all.dedup_by(|a, b| a.key == b.key);
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

fn unlisted(error: &windlass_locks::Error) -> Box<Problem> {
    match error {
        windlass_locks::Error::Backend { code, .. } => {
            tracing::warn!(%code, %error, "locks cannot be listed");
            let detail = "the provider of locks does not answer";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
        }
        other => Problem::bug(other),
    }
}
