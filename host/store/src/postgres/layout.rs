//! Creates the tables, and migrates older layouts.
//!
//! The migration is one transaction under an advisory lock: several processes that start together
//! migrate once, and a process that is killed in the middle leaves the old layout.

use windlass_model::failpoint;
use windlass_postgres::quoted;

use super::connect::Connection;
use super::fault::{Fault, explain};
use crate::codes;
use crate::error::{Error, Result};
use crate::sql::layout::{POSTGRES_STEPS, postgres as steps};
use crate::upkeep::Layout;

/// `wlas`: the first key of the advisory lock; the second one is the schema.
const LOCK: i32 = 0x776c_6173;

/// The layout of the schema. Changes nothing.
pub(super) async fn layout(connection: &Connection, place: &str, schema: &str) -> Result<Layout> {
    Ok(Layout {
        found: version(connection, place, schema).await?,
        current: POSTGRES_STEPS,
    })
}

/// Brings the schema to the newest layout.
pub(super) async fn lay_out(connection: &mut Connection, place: &str, schema: &str) -> Result<()> {
    let told = |error: Fault| explain(place, &error);
    // A migration may take longer than any regular statement.
    connection
        .client
        .batch_execute(
            "BEGIN READ WRITE; SET LOCAL statement_timeout TO 0; SET LOCAL lock_timeout TO 0; \
            SET LOCAL idle_in_transaction_session_timeout TO 0;",
        )
        .await
        .map_err(told)?;
    let done = migrate(connection, place, schema).await;
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.client.batch_execute(end).await.map_err(told);
    done.and(ended)
}

async fn migrate(connection: &Connection, place: &str, schema: &str) -> Result<()> {
    let told = |error: Fault| explain(place, &error);
    let client = &connection.client;
    client
        .query(
            "SELECT pg_advisory_xact_lock($1, hashtext($2))",
            &[&LOCK, &schema],
        )
        .await
        .map_err(told)?;
    let there = client
        .query_one("SELECT to_regnamespace($1) IS NOT NULL", &[&quoted(schema)])
        .await
        .and_then(|row| row.try_get::<_, bool>(0))
        .map_err(told)?;
    if !there {
        let create = format!("CREATE SCHEMA {}", quoted(schema));
        client.batch_execute(&create).await.map_err(told)?;
    }
    let version = version(connection, place, schema).await?;
    if version == 0 {
        client
            .batch_execute("CREATE TABLE layout (version BIGINT PRIMARY KEY)")
            .await
            .map_err(told)?;
    }
    for (number, step) in (1_i64..).zip(steps()).skip(version) {
        client.batch_execute(step).await.map_err(told)?;
        failpoint::pass("store-in-migration");
        client
            .execute("INSERT INTO layout (version) VALUES ($1)", &[&number])
            .await
            .map_err(told)?;
    }
    Ok(())
}

/// The number of completed migration steps. Changes nothing.
async fn version(connection: &Connection, place: &str, schema: &str) -> Result<usize> {
    let told = |error: Fault| explain(place, &error);
    let client = &connection.client;
    let tables: i64 = client
        .query_one(
            "SELECT count(*) FROM pg_tables WHERE schemaname = $1",
            &[&schema],
        )
        .await
        .and_then(|row| row.try_get(0))
        .map_err(told)?;
    if tables == 0 {
        return Ok(0);
    }
    let layout: bool = client
        .query_one(
            "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = $1 \
            AND tablename = 'layout')",
            &[&schema],
        )
        .await
        .and_then(|row| row.try_get(0))
        .map_err(told)?;
    if !layout {
        let text = format!("the schema {schema} of {place} has tables of another program");
        return Err(Error::new(codes::NOT_LAID_OUT, text)
            .help("Name another schema or database; this one is left as it is."));
    }
    let version: i64 = client
        .query_one("SELECT coalesce(max(version), 0) FROM layout", &[])
        .await
        .and_then(|row| row.try_get(0))
        .map_err(told)?;
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    if version > POSTGRES_STEPS {
        let text = format!("a newer Windlass has laid out {place}");
        return Err(Error::new(codes::NEWER, text).help("Use that Windlass, or another database."));
    }
    Ok(version)
}
