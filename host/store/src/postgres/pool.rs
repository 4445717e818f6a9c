//! Connections for reading: a few, opened as they are needed.
//!
//! Readers are called from threads of all kinds, also such as drive a runtime of their own,
//! where blocking on a future is not allowed. So a statement is run on the store's runtime, and
//! the caller waits for it on a channel.

use std::sync::mpsc;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use windlass_postgres::{Pool, PoolError};

use super::connect::Target;
use super::fault::{Fault, explain, is_gone};
use super::values::Param;
use crate::codes;
use crate::error::{Error, Result};

/// Lends connections, each to one statement at a time.
pub(super) struct ReadPool {
    pool: Pool,
    runtime: tokio::runtime::Handle,
    place: String,
}

impl ReadPool {
    pub(super) fn new(
        target: &Target,
        connections: usize,
        runtime: tokio::runtime::Handle,
    ) -> Result<Self> {
        Ok(Self {
            pool: target.readers(connections)?,
            runtime,
            place: target.place().to_owned(),
        })
    }

    /// What a statement finds. Waits while all connections are lent.
    pub(super) fn rows(&self, sql: &'static str, params: Vec<Param>) -> Result<Vec<Row>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let (pool, place) = (self.pool.clone(), self.place.clone());
        self.runtime.spawn(async move {
            let _ = sender.send(read(&pool, &place, sql, &params).await);
        });
        receiver.recv().unwrap_or_else(|_| Err(Error::closed()))
    }

    /// The first row, if there is one.
    pub(super) fn one(&self, sql: &'static str, params: Vec<Param>) -> Result<Option<Row>> {
        Ok(self.rows(sql, params)?.into_iter().next())
    }

    /// Runs a statement whose outcome nobody waits for.
    pub(super) fn hint(&self, sql: &'static str, params: Vec<Param>) {
        let (pool, place) = (self.pool.clone(), self.place.clone());
        self.runtime.spawn(async move {
            let _ = read(&pool, &place, sql, &params).await;
        });
    }

    /// Nothing is lent any more.
    pub(super) fn close(&self) {
        self.pool.close();
    }
}

async fn read(pool: &Pool, place: &str, sql: &str, params: &[Param]) -> Result<Vec<Row>> {
    // The server may have been away while connections were not in use. Reading again does no
    // harm.
    for _ in 0..pool.status().max_size {
        match attempt(pool, place, sql, params).await? {
            Err(fault) if is_gone(&fault) => {}
            read => return read.map_err(|fault| explain(place, &fault)),
        }
    }
    let read = attempt(pool, place, sql, params).await?;
    read.map_err(|fault| explain(place, &fault))
}

async fn attempt(
    pool: &Pool,
    place: &str,
    sql: &str,
    params: &[Param],
) -> Result<Result<Vec<Row>, Fault>> {
    let client = match pool.get().await {
        Ok(client) => client,
        Err(PoolError::Backend(fault)) => return Err(explain(place, &fault)),
        Err(PoolError::Closed) => return Err(Error::closed()),
        Err(error) => return Err(Error::new(codes::CONNECTIONS, error.to_string()).transient()),
    };
    let params: Vec<&(dyn ToSql + Sync)> = params
        .iter()
        .map(|param| &**param as &(dyn ToSql + Sync))
        .collect();
    let statement = match client.prepare_cached(sql).await {
        Ok(statement) => statement,
        Err(fault) => return Ok(Err(fault)),
    };
    Ok(client.query(&statement, &params).await)
}
