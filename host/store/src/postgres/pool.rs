//! Connections for reading: a few, opened as they are needed.
//!
//! Readers are called from threads of all kinds, also such as drive a runtime of their own,
//! where blocking on a future is not allowed. So a statement is run on the store's runtime, and
//! the caller waits for it on a channel.

use std::sync::{Arc, mpsc};

use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row};
use windlass_postgres::{Object, Pool, PoolError};

use super::connect::Target;
use super::fault::{Fault, explain, is_gone};
use super::values::Param;
use crate::codes;
use crate::error::{Error, Result};
use crate::health::{Health, Lasts, concerns_all};
use crate::sql::{self, Source, Sql};

/// Lends connections, each to one statement at a time.
#[derive(Clone)]
pub(super) struct ReadPool {
    pool: Pool,
    runtime: tokio::runtime::Handle,
    place: String,
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
        self.noted(receiver.recv().unwrap_or_else(|_| Err(Error::closed())))
    }

    /// The first row, if there is one.
    pub(super) fn one(&self, sql: &'static str, params: Vec<Param>) -> Result<Option<Row>> {
        Ok(self.rows(sql, params)?.into_iter().next())
    }

    /// What several statements find in one moment. If what the first one finds says so, the
    /// others are left out.
    pub(super) fn moment(
        &self,
        statements: Vec<(&'static str, Vec<Param>)>,
        goes_on: impl Fn(&[Row]) -> bool + Send + Sync + 'static,
    ) -> Result<Vec<Vec<Row>>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let (pool, place) = (self.pool.clone(), self.place.clone());
        self.runtime.spawn(async move {
            let _ = sender.send(read_moment(&pool, &place, &statements, goes_on).await);
        });
        self.noted(receiver.recv().unwrap_or_else(|_| Err(Error::closed())))
    }

    /// Runs a statement whose outcome nobody waits for.
    pub(super) fn hint(&self, sql: &'static str, params: Vec<Param>) {
        let (pool, place) = (self.pool.clone(), self.place.clone());
        self.runtime.spawn(async move {
            let _ = read(&pool, &place, sql, &params).await;
        });
    }

    fn noted<T>(&self, read: Result<T>) -> Result<T> {
        read.inspect_err(|error| {
            if concerns_all(error) {
                self.health.note(Lasts::Passing, error);
            }
        })
    }

    /// Nothing is lent any more.
    pub(super) fn close(&self) {
        self.pool.close();
    }
}

impl Source for ReadPool {
    fn all<T>(
        &self,
        sql: Sql,
        params: Vec<sql::Param>,
        read: impl Fn(&dyn sql::Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        let params = params.into_iter().map(|param| Box::new(param) as Param);
        let rows = self.rows(sql.postgres, params.collect())?;
        rows.iter().map(|row| read(row)).collect()
    }
}

async fn read(pool: &Pool, place: &str, sql: &'static str, params: &[Param]) -> Result<Vec<Row>> {
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
    sql: &'static str,
    params: &[Param],
) -> Result<Result<Vec<Row>, Fault>> {
    #[cfg(test)]
    super::tests::plans::PREPARED.lock().insert((false, sql));
    let client = pool.get().await.map_err(|error| lent(place, error))?;
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

/// Why no connection could be lent.
fn lent(place: &str, error: PoolError) -> Error {
    match error {
        PoolError::Backend(fault) => explain(place, &fault),
        PoolError::Closed => Error::closed(),
        error => Error::new(codes::CONNECTIONS, error.to_string()).transient(),
    }
}

async fn read_moment(
    pool: &Pool,
    place: &str,
    statements: &[(&'static str, Vec<Param>)],
    goes_on: impl Fn(&[Row]) -> bool,
) -> Result<Vec<Vec<Row>>> {
    // As with one statement: the server may have been away.
    let mut left = pool.status().max_size;
    loop {
        let mut client = pool.get().await.map_err(|error| lent(place, error))?;
        match attempt_moment(&mut client, statements, &goes_on).await {
            Err(fault) if is_gone(&fault) && left > 0 => left -= 1,
            read => return read.map_err(|fault| explain(place, &fault)),
        }
    }
}

async fn attempt_moment(
    client: &mut Object,
    statements: &[(&'static str, Vec<Param>)],
    goes_on: &impl Fn(&[Row]) -> bool,
) -> Result<Vec<Vec<Row>>, Fault> {
    let moment = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let mut found = Vec::with_capacity(statements.len());
    for (sql, params) in statements {
        #[cfg(test)]
        super::tests::plans::PREPARED.lock().insert((false, *sql));
        let params: Vec<&(dyn ToSql + Sync)> = params
            .iter()
            .map(|param| &**param as &(dyn ToSql + Sync))
            .collect();
        let statement = moment.prepare_cached(sql).await?;
        found.push(moment.query(&statement, &params).await?);
        if let [first] = found.as_slice()
            && !goes_on(first)
        {
            break;
        }
    }
    moment.commit().await?;
    Ok(found)
}
