//! Sends statements to the server and receives the answers.
//!
//! Waiting for an answer costs a round trip and wakes several threads, which takes longer than most
//! statements. So a statement whose answer is not needed is deferred ([`Session::later`]): it is
//! sent with the next statement whose answer is needed, at the latest with COMMIT. The server
//! carries the statements out in order. When one fails, all later ones fail, and COMMIT becomes a
//! ROLLBACK. Some statements must change a number of rows that is known in advance
//! ([`Session::later_all`]): if they do not, the transaction is repeated.
//!
//! If BEGIN itself fails, the later statements run outside of a transaction. They write nothing,
//! because such a connection writes only in explicit read-write transactions (`connect.rs`).

use std::error::Error as Cause;
use std::iter;
use std::pin::pin;

use bytes::{BufMut as _, BytesMut};
use futures::future::{FutureExt as _, join, ready, try_join_all};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Row, Statement};

use super::heads::Params;
use super::{Done, Failed, Session};
use crate::error::Error;
use crate::postgres::fault::Fault;

const BEGIN: &str = "BEGIN READ WRITE";

/// The maximum number of deferred statements, and of bytes in their parameters.
const MOST: (usize, usize) = (256, 1 << 20);

/// `try_join_all` polls up to this number of futures in order.
const ORDERED: usize = 24;

/// Deferred statements, in order.
#[derive(Default)]
pub(super) struct Later {
    statements: Vec<PutOff>,
    bytes: usize,
}

struct PutOff {
    statement: Statement,
    params: Vec<Encoded>,
    /// The number of rows that it must change.
    expected: Option<u64>,
}

/// A parameter in its wire format.
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

/// Waits for statements. Each is sent when it is first polled, and they are polled in this order.
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

/// Sends the deferred statements and the last one, and waits for all.
pub(super) async fn send<T>(
    client: &Client,
    later: Later,
    last: impl Future<Output = Result<T, Fault>>,
) -> Done<T> {
    #[cfg(test)]
    crate::postgres::tests::trips::count();
    let statements = later.statements.iter();
    let statements = statements.map(|put| client.execute_raw(&put.statement, &put.params));
    let mut statements = pin!(in_order(statements.collect()));
    // A statement that could not be sent must not be missing from the commit.
    let (changed, last) = match statements.as_mut().now_or_never() {
        Some(changed) => (changed?, last.await),
        None => {
            let (changed, last) = join(statements, last).await;
            (changed?, last)
        }
    };
    let expected = later.statements.iter().map(|put| put.expected);
    let mut both = expected.zip(changed);
    match both.all(|(expected, changed)| expected.is_none_or(|expected| expected == changed)) {
        true => Ok(last?),
        false => Err(Failed::Again),
    }
}

impl Session<'_> {
    /// Begins the transaction. BEGIN is sent with the first statement whose answer is needed.
    pub(in crate::postgres) async fn begin(&mut self) -> Done<()> {
        self.later(BEGIN, &[]).await
    }

    /// Defers a statement whose answer is not needed.
    pub(super) async fn later(&mut self, sql: &'static str, params: Params<'_>) -> Done<()> {
        self.put_off(sql, params, None).await
    }

    /// Defers a statement that must change this number of rows.
    pub(super) async fn later_all(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
        rows: usize,
    ) -> Done<()> {
        self.put_off(sql, params, Some(rows as u64)).await
    }

    async fn put_off(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
        expected: Option<u64>,
    ) -> Done<()> {
        let statement = self.connection.prepare(sql).await?;
        let params = encode(&statement, params)?;
        let sizes = params.iter().flat_map(|Encoded(bytes)| bytes);
        self.later.bytes += sizes.map(BytesMut::len).sum::<usize>();
        self.later.statements.push(PutOff {
            statement,
            params,
            expected,
        });
        if self.later.statements.len() >= MOST.0 || self.later.bytes >= MOST.1 {
            self.send_off().await?;
        }
        Ok(())
    }

    /// Sends the deferred statements and waits for them.
    async fn send_off(&mut self) -> Done<()> {
        let later = std::mem::take(&mut self.later);
        send(&self.connection.client, later, ready(Ok(()))).await
    }

    /// The rows that a statement returns.
    pub(in crate::postgres) async fn rows(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Done<Vec<Row>> {
        let statement = self.connection.prepare(sql).await?;
        let later = std::mem::take(&mut self.later);
        let client = &self.connection.client;
        send(client, later, client.query(&statement, params)).await
    }

    /// The rows that each of several statements returns. The statements are sent together.
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

    /// The number of rows that a statement changes.
    pub(super) async fn execute(&mut self, sql: &'static str, params: Params<'_>) -> Done<u64> {
        let statement = self.connection.prepare(sql).await?;
        let later = std::mem::take(&mut self.later);
        let client = &self.connection.client;
        send(client, later, client.execute(&statement, params)).await
    }

    /// Commits, and sends the deferred statements with the COMMIT. Those with an expected number of
    /// rows are checked before.
    pub(in crate::postgres) async fn commit(&mut self) -> Done<()> {
        let mut statements = self.later.statements.iter();
        if statements.any(|put| put.expected.is_some()) {
            self.send_off().await?;
        }
        let later = std::mem::take(&mut self.later);
        let client = &self.connection.client;
        send(client, later, client.batch_execute("COMMIT")).await
    }
}
