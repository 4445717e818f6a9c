//! Operations on a whole store: its consistency check and its layout.
//!
//! Each uses a connection of its own, and closes it.

use super::connect::{Connection, Target};
use super::fault::{Fault, explain};
use super::{PostgresOptions, PostgresStore, layout};
use crate::codes;
use crate::error::{Error, Result};
use crate::upkeep::{DIGESTED, DIGESTS, Finding, Layout, OBJECTS, RULES, older};

impl PostgresStore {
    /// The layout of the schema. Changes nothing. Blocks; must not be called from a thread that
    /// drives a runtime.
    ///
    /// # Errors
    ///
    /// `WL-S003`, `WL-S030` to `WL-S037`: as for [`Self::open`].
    pub fn layout(url: &str, options: &PostgresOptions) -> Result<Layout> {
        let target = Target::new(url, options)?;
        alone(async {
            let connection = connect(&target).await?;
            layout::layout(&connection, target.place(), options).await
        })
    }

    /// Brings the schema to the newest layout, as every process does that opens the store, and
    /// returns the layout before. Blocks, as [`Self::layout`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn migrate(url: &str, options: &PostgresOptions) -> Result<Layout> {
        let target = Target::new(url, options)?;
        alone(async {
            let mut connection = connect(&target).await?;
            let before = layout::layout(&connection, target.place(), options).await?;
            layout::lay_out(&mut connection, target.place(), options).await?;
            Ok(before)
        })
    }

    /// Checks the consistency of the store at one moment. Other processes may use the store
    /// meanwhile. Blocks, as [`Self::layout`].
    ///
    /// # Errors
    ///
    /// `WL-S018` if it has an older layout or none; otherwise as for [`Self::open`].
    pub fn check(url: &str, options: &PostgresOptions) -> Result<Vec<Finding>> {
        let target = Target::new(url, options)?;
        alone(async {
            let connection = connect(&target).await?;
            let found = layout::layout(&connection, target.place(), options).await?;
            if found.found < found.current {
                return Err(older(target.place(), found));
            }
            look(&connection)
                .await
                .map_err(|fault| explain(target.place(), &fault))
        })
    }
}

/// Runs a future to its end on this thread.
fn alone<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            let text = format!("no runtime for a connection: {error}");
            Error::new(codes::CANNOT_OPEN, text)
        })?;
    runtime.block_on(work)
}

async fn connect(target: &Target) -> Result<Connection> {
    let connection = target.reader().await;
    connection.map_err(|fault| explain(target.place(), &fault))
}

/// The objects of the store's schema that no layout has: views, triggers and rules.
const FOREIGN: &str = "SELECT 'there is a view ' || c.relname FROM pg_class c \
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('v', 'm', 'f') \
    UNION ALL SELECT 'there is a trigger ' || t.tgname || ' on ' || c.relname \
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
    WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal \
    UNION ALL SELECT 'there is a rule ' || r.rulename || ' on ' || c.relname \
    FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class \
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') \
    ORDER BY 1";

async fn look(connection: &Connection) -> Result<Vec<Finding>, Fault> {
    // Reading the whole store may take longer than any regular statement.
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
        SET LOCAL statement_timeout TO 0; SET LOCAL idle_in_transaction_session_timeout TO 0;";
    connection.client.batch_execute(begin).await?;
    let mut findings: Vec<Finding> = Vec::new();
    if let Some(finding) = Finding::of(OBJECTS, lines(connection, FOREIGN).await?) {
        // A view or a trigger decides what the other rules see.
        findings.push(finding);
        connection.client.batch_execute("COMMIT").await?;
        return Ok(findings);
    }
    for rule in RULES {
        let broken = lines(connection, rule.sql).await?;
        findings.extend(Finding::of(rule.says, broken));
    }
    let mut wrong = Vec::new();
    for (table, column) in DIGESTED {
        let sql = format!("SELECT '{table} ' || no FROM {table} WHERE digest <> sha256({column})");
        wrong.extend(lines(connection, &sql).await?);
    }
    findings.extend(Finding::of(DIGESTS, wrong));
    connection.client.batch_execute("COMMIT").await?;
    Ok(findings)
}

async fn lines(connection: &Connection, sql: &str) -> Result<Vec<String>, Fault> {
    let rows = connection.client.query(sql, &[]).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}
