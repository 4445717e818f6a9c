//! Connections: their settings, and their prepared statements.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::{Client, Statement};
use windlass_postgres::{Driver, Pool, Unusable, quoted};

use super::fault::Fault;
use super::options::PostgresOptions;
use crate::codes;
use crate::error::{Error, Result};

/// The address of the store, and the settings of its connections.
pub(super) struct Target {
    server: Arc<windlass_postgres::Target>,
    /// Settings of every connection.
    common: String,
    /// Additional settings of connections that write.
    writer: String,
}

impl Target {
    /// Reads a URL (`postgresql://…`).
    pub(super) fn new(url: &str, options: &PostgresOptions) -> Result<Self> {
        let server = windlass_postgres::Target::read(url, "windlass").map_err(unusable)?;
        let schema = quoted(&options.schema);
        Ok(Self {
            server: Arc::new(server),
            // A list ends at its limit only if an index gives its order: a bitmap is sorted, and so
            // made of all rows of the range.
            //
            // Statements name tables in the order in which each finds the next one by a key. The
            // statistics of tables that have just grown say that they are empty, and for empty tables
            // the planner prefers other orders, and reading whole tables.
            common: format!(
                "SET enable_bitmapscan TO off; SET enable_seqscan TO off; \
                 SET enable_hashjoin TO off; SET enable_mergejoin TO off; \
                 SET join_collapse_limit TO 1; SET search_path TO {schema}; \
                 SET client_min_messages TO warning; \
                 SET statement_timeout TO {}; SET lock_timeout TO {}; \
                 SET idle_in_transaction_session_timeout TO {}; SET jit TO off;",
                options.statement_ms, options.lock_wait_ms, options.idle_in_transaction_ms
            ),
            // A statement outside of an explicit read-write transaction must not write: it would be
            // committed alone.
            //
            // Statements that write find their rows by a list of numbers whose length the planner does
            // not know, and keep their plans.
            writer: "SET default_transaction_read_only TO on; SET synchronous_commit TO on; \
                SET plan_cache_mode TO force_generic_plan;"
                .to_owned(),
        })
    }

    /// Host and database, without the password, for messages.
    pub(super) fn place(&self) -> &str {
        self.server.place()
    }

    /// A connection that receives notifications, without settings.
    pub(super) async fn listener(
        &self,
        hear: impl Fn(&str) + Send + 'static,
    ) -> std::result::Result<(Client, Driver), Fault> {
        self.server.listen(hear).await
    }

    /// A connection that writes.
    pub(super) async fn writer(&self) -> std::result::Result<Connection, Fault> {
        self.connection(&format!("{}{}", self.common, self.writer))
            .await
    }

    /// A connection that reads, outside of the pool.
    pub(super) async fn reader(&self) -> std::result::Result<Connection, Fault> {
        self.connection(&self.common).await
    }

    /// A pool of at most `connections` connections that read.
    pub(super) fn readers(&self, connections: usize) -> Result<Pool> {
        self.server
            .pool(connections, self.common.clone())
            .map_err(unusable)
    }

    async fn connection(&self, set: &str) -> std::result::Result<Connection, Fault> {
        let (client, driver) = self.server.connect().await?;
        client.batch_execute(set).await?;
        Ok(Connection {
            client,
            driver,
            statements: HashMap::new(),
        })
    }
}

fn unusable(why: Unusable) -> Error {
    match why {
        Unusable::Url(why) => Error::new(codes::BAD_URL, format!("the store's URL is none: {why}"))
            .help("Write it like `postgresql://user@host:5432/database?sslmode=require`."),
        Unusable::Trust(why) => Error::new(codes::TLS, why)
            .help("Name the certificate of the server's authority: `sslrootcert=/path/root.crt`."),
        Unusable::Pool(why) => Error::new(codes::CANNOT_OPEN, why),
    }
}

/// A connection with a cache of prepared statements.
pub(super) struct Connection {
    pub(super) client: Client,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "ends the connection when dropped")
    )]
    driver: Driver,
    statements: HashMap<&'static str, Statement>,
}

impl Connection {
    /// The prepared form of a statement.
    pub(super) async fn prepare(
        &mut self,
        sql: &'static str,
    ) -> std::result::Result<Statement, Fault> {
        #[cfg(test)]
        super::tests::plans::PREPARED.lock().insert((true, sql));
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }
}

#[cfg(test)]
impl Connection {
    /// Drops the connection.
    pub(super) async fn cut(&mut self) -> Fault {
        self.driver.abort();
        while !self.client.is_closed() {
            tokio::task::yield_now().await;
        }
        let lost = self.client.batch_execute("").await;
        lost.expect_err("a connection that is lost")
    }
}
