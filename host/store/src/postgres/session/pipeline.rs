//! How statements go to the server, and their answers come back.
//!
//! Whoever waits for an answer waits for a round trip and for several threads to be woken, which
//! takes longer than most statements do. So one whose answer nobody looks at is put off
//! ([`Session::later`]): it goes with the next that somebody waits for, at the latest with
//! COMMIT. The server carries them out in this order. When one fails, so does all that comes
//! after it, and COMMIT is a ROLLBACK.
//!
//! Were BEGIN itself to fail, what follows would be outside of a transaction. It would write
//! nothing: a connection that writes does so in transactions that say it (`connect.rs`).

use std::error::Error as Cause;
use std::iter;
use std::pin::pin;

use bytes::{BufMut as _, BytesMut};
use futures::future::{FutureExt as _, join, ready, try_join_all};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Row, Statement};

use super::heads::Params;
use super::{Done, Session};
use crate::error::Error;
use crate::postgres::fault::Fault;

const BEGIN: &str = "BEGIN READ WRITE";

/// How many statements, and bytes of their parameters, are put off before they are sent.
const MOST: (usize, usize) = (256, 1 << 20);

/// Of so many futures at most it is known that they are looked at in their order.
const ORDERED: usize = 24;

/// Statements that are put off, in order.
#[derive(Default)]
pub(super) struct Later {
    statements: Vec<(Statement, Vec<Encoded>)>,
    bytes: usize,
}

/// A parameter as it goes over the wire.
#[derive(Debug)]
struct Encoded(Option<BytesMut>);

impl ToSql for Encoded {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Cause + Sync + Send>> {
        let Some(bytes) = &self.0 else {
            return Ok(IsNull::Yes);
        };
        out.put_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Encodes parameters for a statement.
fn encode(statement: &Statement, params: Params<'_>) -> Done<Vec<Encoded>> {
    let encode = |(kind, value): (&Type, &&(dyn ToSql + Sync))| {
        let mut bytes = BytesMut::new();
        match value.to_sql_checked(kind, &mut bytes) {
            Ok(IsNull::Yes) => Ok(Encoded(None)),
            Ok(IsNull::No) => Ok(Encoded(Some(bytes))),
            Err(why) => Err(Error::corrupt(&format!("a value that cannot be sent ({why})")).into()),
        }
    };
    statement.params().iter().zip(params).map(encode).collect()
}

/// Waits for statements, each of which is sent when it is first looked at, which is in this order.
pub(super) fn in_order<T>(
    statements: Vec<impl Future<Output = Result<T, Fault>>>,
) -> impl Future<Output = Result<Vec<T>, Fault>> {
    let mut statements = statements.into_iter();
    let lists = iter::from_fn(|| {
        let list: Vec<_> = statements.by_ref().take(ORDERED).collect();
        (!list.is_empty()).then(|| try_join_all(list))
    });
    let answers = try_join_all(lists.collect::<Vec<_>>());
    async move { Ok(answers.await?.into_iter().flatten().collect()) }
}

/// Sends what was put off and what comes after it, and waits for all.
pub(super) async fn send<T>(
    client: &Client,
    later: Later,
    last: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let later = later.statements.iter();
    let later = later.map(|(statement, params)| client.execute_raw(statement, params));
    let mut later = pin!(in_order(later.collect()));
    // What could not be sent must not be missing from what is committed.
    if let Some(sent) = later.as_mut().now_or_never() {
        sent?;
        return last.await;
    }
    let (later, last) = join(later, last).await;
    later?;
    last
}

impl Session<'_> {
    /// Begins the transaction, with the first statement that is waited for.
    pub(in crate::postgres) async fn begin(&mut self) -> Done<()> {
        self.later(BEGIN, &[]).await
    }

    /// Puts off a statement of which nobody looks at the answer.
    pub(super) async fn later(&mut self, sql: &'static str, params: Params<'_>) -> Done<()> {
        let statement = self.connection.prepare(sql).await?;
        let params = encode(&statement, params)?;
        let sizes = params.iter().flat_map(|Encoded(bytes)| bytes);
        self.later.bytes += sizes.map(BytesMut::len).sum::<usize>();
        self.later.statements.push((statement, params));
        if self.later.statements.len() >= MOST.0 || self.later.bytes >= MOST.1 {
            let later = std::mem::take(&mut self.later);
            send(&self.connection.client, later, ready(Ok(()))).await?;
        }
        Ok(())
    }

    /// The rows that a statement gives.
    pub(in crate::postgres) async fn rows(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Done<Vec<Row>> {
        let statement = self.connection.prepare(sql).await?;
        let later = std::mem::take(&mut self.later);
        let client = &self.connection.client;
        Ok(send(client, later, client.query(&statement, params)).await?)
    }

    /// The rows that each of several statements gives, which are sent together.
    pub(super) async fn all<const N: usize>(
        &mut self,
        asked: [(&'static str, Params<'_>); N],
    ) -> Done<[Vec<Row>; N]> {
        let mut statements = Vec::with_capacity(N);
        for (sql, params) in asked {
            statements.push((self.connection.prepare(sql).await?, params));
        }
        let later = std::mem::take(&mut self.later);
        let client = &self.connection.client;
        let asked = statements.iter();
        let asked = asked.map(|(statement, params)| client.query(statement, params));
        let asked = in_order(asked.collect());
        let rows = send(client, later, asked).await?;
        rows.try_into()
            .map_err(|_| Error::corrupt("fewer answers than questions").into())
    }

    /// How many rows a statement has changed.
    pub(super) async fn execute(&mut self, sql: &'static str, params: Params<'_>) -> Done<u64> {
        let statement = self.connection.prepare(sql).await?;
        let later = std::mem::take(&mut self.later);
        let client = &self.connection.client;
        Ok(send(client, later, client.execute(&statement, params)).await?)
    }

    /// Ends the transaction, with all that was put off.
    pub(in crate::postgres) async fn commit(&mut self) -> Result<(), Fault> {
        let later = std::mem::take(&mut self.later);
        let client = &self.connection.client;
        send(client, later, client.batch_execute("COMMIT")).await
    }
}
