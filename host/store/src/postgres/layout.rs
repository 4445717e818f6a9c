//! Creates the tables, and migrates older layouts.
//!
//! The migration is one transaction under an advisory lock: several processes that start together
//! migrate once, and a process that is killed in the middle leaves the old layout.

use windlass_model::failpoint;
use windlass_postgres::quoted;

use super::PostgresOptions;
use super::connect::Connection;
use super::fault::{Fault, explain};
use crate::codes;
use crate::error::{Error, Result};
use crate::sql::layout::{self, Behind, Requirement, Steps};
use crate::upkeep::Layout;

/// `wlas`: the first key of the advisory lock; the second one is the schema.
const LOCK: i32 = 0x776c_6173;

/// The layout of the schema. Changes nothing.
pub(super) async fn layout(
    connection: &Connection,
    place: &str,
    options: &PostgresOptions,
) -> Result<Layout> {
    let steps = options.steps();
    Ok(Layout {
        found: version(connection, place, &options.schema, &steps).await?,
        current: steps.known(),
    })
}

/// Brings the schema to the newest layout.
pub(super) async fn lay_out(
    connection: &mut Connection,
    place: &str,
    options: &PostgresOptions,
) -> Result<()> {
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
    let done = migrate(connection, place, options).await;
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.client.batch_execute(end).await.map_err(told);
    done.and(ended)
}

async fn migrate(connection: &Connection, place: &str, options: &PostgresOptions) -> Result<()> {
    let (schema, steps) = (options.schema.as_str(), options.steps());
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
    let version = version(connection, place, schema, &steps).await?;
    // Opening a store of the newest layout, or of a newer one, writes nothing.
    if version >= steps.known() {
        return Ok(());
    }
    if version > 0 {
        layout::permit(place, (version, steps.known()), options.migrates)?;
    }
    if let Some(number) = steps.breaking_after(version)
        && version > 0
    {
        let behind = behind(connection, options, number).await.map_err(told)?;
        if !behind.is_empty() {
            return Err(layout::in_the_way(place, number, &behind));
        }
    }
    if version == 0 {
        client
            .batch_execute("CREATE TABLE layout (version BIGINT PRIMARY KEY)")
            .await
            .map_err(told)?;
    }
    for (number, step) in steps.after(version) {
        client.batch_execute(step.sql).await.map_err(told)?;
        failpoint::pass("store-in-migration");
        client
            .execute("INSERT INTO layout (version) VALUES ($1)", &[&number])
            .await
            .map_err(told)?;
    }
    client
        .execute(
            layout::REQUIRE.postgres,
            &[&steps.required(), &layout::PROGRAM],
        )
        .await
        .map_err(told)?;
    Ok(())
}

/// The members that live and do not know a layout. Keeps processes from joining until the end of
/// the transaction, and removes the members whose lease has run out: should such a process go on,
/// it finds that it is a member no more.
async fn behind(
    connection: &Connection,
    options: &PostgresOptions,
    number: i64,
) -> std::result::Result<Vec<Behind>, Fault> {
    let client = &connection.client;
    let sql = "LOCK TABLE member IN SHARE ROW EXCLUSIVE MODE";
    client.batch_execute(sql).await?;
    let ahead_ms = options.ahead_ms();
    let sql = "DELETE FROM member \
        WHERE until_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $1";
    client.execute(sql, &[&ahead_ms]).await?;
    let rows = client.query(layout::BEHIND.postgres, &[&number]).await?;
    let members = rows.iter().map(|row| {
        Ok(Behind {
            incarnation: row.try_get(0)?,
            name: row.try_get(1)?,
            pid: row.try_get(2)?,
            program: row.try_get(3)?,
        })
    });
    members.collect()
}

/// What the store demands of a program; none if its layout has no place for it.
async fn requirement(
    connection: &Connection,
    schema: &str,
) -> std::result::Result<Option<Requirement>, Fault> {
    if !is_there(connection, schema, "requirement").await? {
        return Ok(None);
    }
    let sql = layout::REQUIREMENT.postgres;
    let Some(row) = connection.client.query_opt(sql, &[]).await? else {
        return Ok(None);
    };
    Ok(Some(Requirement {
        layout: row.try_get(0)?,
        program: row.try_get(1)?,
    }))
}

/// Whether the schema has a table.
async fn is_there(
    connection: &Connection,
    schema: &str,
    table: &str,
) -> std::result::Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = $2)";
    let row = connection.client.query_one(sql, &[&schema, &table]).await;
    row.and_then(|row| row.try_get(0))
}

/// The number of completed migration steps. Changes nothing.
async fn version(
    connection: &Connection,
    place: &str,
    schema: &str,
    steps: &Steps,
) -> Result<usize> {
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
    if !is_there(connection, schema, "layout").await.map_err(told)? {
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
    if version > steps.known() {
        let required = requirement(connection, schema).await.map_err(told)?;
        layout::accept(place, (version, steps.known()), required.as_ref())?;
    }
    Ok(version)
}
