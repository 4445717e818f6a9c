//! A few connections for reading, opened on demand.
//!
//! Readers are called from any thread, including threads that drive a runtime, where blocking on a
//! future is not allowed. So a statement runs on the store's runtime, and the caller waits for it
//! on a channel.

use std::pin::pin;
use std::sync::{Arc, mpsc};

use futures::TryStreamExt as _;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use windlass_postgres::{Object, Pool, PoolError};

use super::connect::Target;
use super::fault::{Fault, explain, is_gone};
use crate::allowance;
use crate::codes;
use crate::error::{Error, Result};
use crate::health::{Health, Lasts, concerns_all};
use crate::sql::{self, Moments, Param, Source, Sql};

/// Begins a read transaction that sees one moment.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Lends connections, each to one statement or one read transaction at a time.
#[derive(Clone)]
pub(crate) struct ReadPool {
    pool: Pool,
    runtime: tokio::runtime::Handle,
    place: Arc<str>,
    health: Arc<Health>,
}

impl ReadPool {
    pub(super) fn new(
        target: &Target,
        connections: usize,
        runtime: tokio::runtime::Handle,
        health: Arc<Health>,
    ) -> Result<Self> {
        Ok(Self {
            health,
            pool: target.readers(connections)?,
            runtime,
            place: target.place().into(),
        })
    }

    /// The rows that a statement returns. Waits while all connections are in use.
    pub(super) fn rows(&self, sql: &'static str, params: Vec<Param>) -> Result<Vec<Row>> {
        let (pool, left) = (self.clone(), allowance::left());
        self.wait(async move { pool.read(sql, &params, left).await })
    }

    /// Runs a statement without waiting for its outcome.
    pub(super) fn hint(&self, sql: &'static str, params: Vec<Param>) {
        let pool = self.clone();
        self.spawn(async move { pool.hinted(sql, params).await });
    }

    /// Runs a statement whose outcome does not matter.
    pub(super) async fn hinted(&self, sql: &'static str, params: Vec<Param>) {
        let _ = self.read(sql, &params, None).await;
    }

    /// Runs a task on the store's runtime.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Waits for a task on the store's runtime.
    fn wait<T: Send + 'static>(
        &self,
        run: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.runtime.spawn(async move {
            let _ = sender.send(run.await);
        });
        let read = receiver.recv().unwrap_or_else(|_| Err(Error::closed()));
        read.inspect_err(|error| {
            if concerns_all(error) {
                self.health.note(Lasts::Passing, error);
            }
        })
    }

    async fn read(
        &self,
        sql: &'static str,
        params: &[Param],
        left: Option<u64>,
    ) -> Result<Vec<Row>> {
        // The server may have restarted while connections were idle. Repeating a read is safe.
        let mut tries = self.pool.status().max_size;
        loop {
            let client = self.borrow().await?;
            match query(&client, sql, params, left).await {
                Err(fault) if is_gone(&fault) && tries > 0 => tries -= 1,
                read => return read.map_err(|fault| explain(&self.place, &fault))?,
            }
        }
    }

    /// A connection with an open read transaction.
    async fn begin(&self) -> Result<Object> {
        let mut left = self.pool.status().max_size;
        loop {
            let client = self.borrow().await?;
            match client.batch_execute(BEGIN).await {
                Err(fault) if is_gone(&fault) && left > 0 => left -= 1,
                Err(fault) => return Err(explain(&self.place, &fault)),
                Ok(()) => return Ok(client),
            }
        }
    }

    async fn borrow(&self) -> Result<Object> {
        let lent = self.pool.get().await;
        lent.map_err(|error| match error {
            PoolError::Backend(fault) => explain(&self.place, &fault),
            PoolError::Closed => Error::closed(),
            error => Error::new(codes::CONNECTIONS, error.to_string()).transient(),
        })
    }

    /// Lends no more connections.
    pub(super) fn close(&self) {
        self.pool.close();
    }
}

/// The rows of a statement. `left` bounds their bytes as they arrive.
async fn query(
    client: &Object,
    sql: &'static str,
    params: &[Param],
    left: Option<u64>,
) -> Result<Result<Vec<Row>>, Fault> {
    #[cfg(test)]
    super::tests::plans::PREPARED.lock().insert((false, sql));
    let params: Vec<&(dyn ToSql + Sync)> = params
        .iter()
        .map(|param| param as &(dyn ToSql + Sync))
        .collect();
    let statement = client.prepare_cached(sql).await?;
    let Some(left) = left else {
        return client.query(&statement, &params).await.map(Ok);
    };
    let mut rows = pin!(client.query_raw(&statement, params).await?);
    let (mut found, mut bytes) = (Vec::new(), 0_u64);
    while let Some(row) = rows.try_next().await? {
        match allowance::size(&row, row.len()) {
            Ok(size) => bytes = bytes.saturating_add(size),
            Err(error) => return Ok(Err(error)),
        }
        if bytes > left {
            return Ok(Err(allowance::exceeded()));
        }
        found.push(row);
    }
    Ok(Ok(found))
}

fn each<T>(rows: &[Row], read: impl Fn(&dyn sql::Row) -> Result<T>) -> Result<Vec<T>> {
    let read = |row: &Row| allowance::take(row, row.len()).and_then(|()| read(row));
    rows.iter().map(read).collect()
}

impl Source for ReadPool {
    fn all<T>(
        &self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn sql::Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        each(&self.rows(sql.postgres, params)?, read)
    }
}

/// A connection whose statements all see the same moment.
pub(crate) struct Moment<'m> {
    pool: &'m ReadPool,
    client: Arc<Object>,
}

impl Source for Moment<'_> {
    fn all<T>(
        &self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn sql::Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        let (client, place) = (Arc::clone(&self.client), Arc::clone(&self.pool.place));
        let left = allowance::left();
        let rows = self.pool.wait(async move {
            let rows = query(&client, sql.postgres, &params, left).await;
            rows.map_err(|fault| explain(&place, &fault))?
        })?;
        each(&rows, read)
    }
}

impl Drop for Moment<'_> {
    fn drop(&mut self) {
        // The task holds the connection until the server has ended the transaction. Then the pool
        // takes it back, unless it is broken.
        let client = Arc::clone(&self.client);
        self.pool.runtime.spawn(async move {
            let _ = client.batch_execute("ROLLBACK").await;
        });
    }
}

impl Moments for ReadPool {
    type Moment<'m> = Moment<'m>;

    fn moment<T>(&self, read: impl FnOnce(&Moment<'_>) -> Result<T>) -> Result<T> {
        let pool = self.clone();
        let client = Arc::new(self.wait(async move { pool.begin().await })?);
        read(&Moment { pool: self, client })
    }
}
