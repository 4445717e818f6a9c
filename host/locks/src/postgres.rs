//! Locks in a PostgreSQL database: for a cluster, and the default there.
//!
//! A held lock is a row of `windlass_lock`, which is deleted on release, so the table has one row
//! per held lock. Leases are written and compared with the database's clock only, so the clocks of
//! the machines need not agree. No connection is held for a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::OnceCell;
use windlass_postgres::{Kind, Object, Pool, PoolError, Target, quoted, told};

use crate::key::Key;
use crate::leased::{Backend, LEASE, Lease, Leased};
use crate::parts::Parts;
use crate::provider::{Error, Listed, LockProvider, Reach};

/// The most connections. A request takes one for a moment.
const CONNECTIONS: usize = 4;

/// The location of the locks.
#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    /// The server and its database, like `postgres://user@host/database?sslmode=require`.
    pub url: String,
    /// The schema of the table; it is created if it does not exist.
    pub schema: String,
    /// The prefix of each key, so that several clusters can share a table.
    pub prefix: String,
    /// How long a lock lasts without a renewal; at least 100 ms.
    pub lease: Duration,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL, which may hold a password.
        f.debug_struct("Postgres")
            .field("schema", &self.schema)
            .field("prefix", &self.prefix)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Locks in the database at that address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: "windlass".to_owned(),
            prefix: String::new(),
            lease: LEASE,
        }
    }
}

/// Makes the provider. It connects when the first lock is requested.
pub(crate) fn open(options: &Options, parts: Parts) -> Result<Arc<dyn LockProvider>, Error> {
    let unusable = |why| Error::settings(format!("the URL of the locks cannot be used: {why}"));
    let target = Target::read(&options.url, "windlass-locks").map_err(unusable)?;
    let pool = Arc::new(target).pool(CONNECTIONS, String::new());
    let backend = Postgres {
        pool: pool.map_err(unusable)?,
        ready: OnceCell::new(),
        statements: Statements::new(&options.schema),
        prefix: options.prefix.clone(),
        lease_ms: i64::try_from(options.lease.as_millis()).unwrap_or(i64::MAX),
        owner: parts.owner.clone(),
    };
    Ok(Arc::new(Leased::new(backend, options.lease, parts)?))
}

struct Postgres {
    pool: Pool,
    ready: OnceCell<()>,
    statements: Statements,
    prefix: String,
    lease_ms: i64,
    owner: String,
}

/// The statements, with the schema.
struct Statements {
    is_there: String,
    make: String,
    take: String,
    renew: String,
    release: String,
    list: String,
}

impl Statements {
    fn new(schema: &str) -> Self {
        let schema = quoted(schema);
        Self {
            is_there: format!(
                "SELECT to_regclass('{}.windlass_lock') IS NOT NULL",
                schema.replace('\'', "''")
            ),
            // In a separate step, because several processes may create the table at once, and
            // PostgreSQL's own `IF NOT EXISTS` does not prevent a conflict. Statements that are
            // sent together are one transaction, and a failed one leaves no transaction open.
            make: format!(
                "SELECT pg_advisory_xact_lock(hashtextextended('windlass_lock', 0));
                CREATE SCHEMA IF NOT EXISTS {schema};
                CREATE SEQUENCE IF NOT EXISTS {schema}.windlass_lock_token;
                CREATE TABLE IF NOT EXISTS {schema}.windlass_lock (
                    key text PRIMARY KEY,
                    holder text NOT NULL,
                    owner text NOT NULL,
                    token bigint NOT NULL,
                    until timestamptz NOT NULL
                ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
                    autovacuum_vacuum_threshold = 1000);"
            ),
            take: format!(
                "INSERT INTO {schema}.windlass_lock AS lock (key, holder, owner, token, until)
                VALUES ($1, $2, $3, nextval('{}.windlass_lock_token'),
                    clock_timestamp() + $4::bigint * interval '1 millisecond')
                ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, owner = excluded.owner,
                    token = excluded.token, until = excluded.until
                WHERE lock.holder = excluded.holder OR lock.until <= clock_timestamp()
                RETURNING token",
                schema.replace('\'', "''")
            ),
            renew: format!(
                "UPDATE {schema}.windlass_lock AS lock
                SET until = clock_timestamp() + $3::bigint * interval '1 millisecond'
                FROM unnest($1::text[], $2::text[]) AS mine (key, holder)
                WHERE lock.key = mine.key AND lock.holder = mine.holder
                    AND lock.until > clock_timestamp()
                RETURNING lock.holder"
            ),
            // The commit does not wait for the disk: a release that is lost in a crash of the
            // server only means that the lock ends with its lease.
            release: format!(
                "DELETE FROM {schema}.windlass_lock WHERE key = $1 AND holder = $2
                AND set_config('synchronous_commit', 'off', true) IS NOT NULL"
            ),
            list: format!(
                "SELECT substr(key, length($1) + 1), owner, token,
                    (extract(epoch FROM until - clock_timestamp()) * 1000)::bigint
                FROM {schema}.windlass_lock
                WHERE starts_with(key, $1) AND until > clock_timestamp()
                ORDER BY key LIMIT $2"
            ),
        }
    }
}

impl Postgres {
    /// A connection to a database in which the table exists.
    async fn client(&self) -> Result<Object, Error> {
        let client = self.pool.get().await.map_err(|error| of_pool(&error))?;
        let making = || async {
            let there = client.query_one(&self.statements.is_there, &[]).await?;
            if !there.get::<_, bool>(0) {
                client.batch_execute(&self.statements.make).await?;
            }
            Ok(())
        };
        let made = self.ready.get_or_try_init(making).await;
        made.map_err(|error: tokio_postgres::Error| of(&error))?;
        Ok(client)
    }

    fn stored(&self, key: &Key) -> String {
        format!("{}{key}", self.prefix)
    }
}

impl Backend for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn reach(&self) -> Reach {
        Reach::Cluster
    }

    fn take<'a>(
        &'a self,
        key: &'a Key,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<Option<u64>, Error>> {
        async move {
            let client = self.client().await?;
            let key = self.stored(key);
            let asked = async {
                let statement = client.prepare_cached(&self.statements.take).await?;
                let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                    [&key, &holder, &self.owner, &self.lease_ms];
                client.query_opt(&statement, &params).await
            };
            let row = asked.await.map_err(|error| of(&error))?;
            Ok(row.map(|row| row.get::<_, i64>(0).cast_unsigned()))
        }
        .boxed()
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> BoxFuture<'a, Result<Vec<bool>, Error>> {
        async move {
            let client = self.client().await?;
            let keys: Vec<String> = leases.iter().map(|lease| self.stored(&lease.key)).collect();
            let holders: Vec<&str> = leases.iter().map(|lease| lease.holder.as_str()).collect();
            let asked = async {
                let statement = client.prepare_cached(&self.statements.renew).await?;
                client
                    .query(&statement, &[&keys, &holders, &self.lease_ms])
                    .await
            };
            let rows = asked.await.map_err(|error| of(&error))?;
            let renewed: std::collections::HashSet<&str> =
                rows.iter().map(|row| row.get(0)).collect();
            Ok(holders
                .iter()
                .map(|holder| renewed.contains(holder))
                .collect())
        }
        .boxed()
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            let client = self.client().await?;
            let key = self.stored(&lease.key);
            let asked = async {
                let statement = client.prepare_cached(&self.statements.release).await?;
                client.execute(&statement, &[&key, &lease.holder]).await
            };
            asked.await.map_err(|error| of(&error))?;
            Ok(())
        }
        .boxed()
    }

    fn list(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, Error>> {
        async move {
            let client = self.client().await?;
            let limit = i64::from(limit);
            let rows = client
                .query(&self.statements.list, &[&self.prefix, &limit])
                .await
                .map_err(|error| of(&error))?;
            let listed = rows.iter().map(|row| Listed {
                key: row.get(0),
                owner: row.get(1),
                token: row.get::<_, i64>(2).cast_unsigned(),
                lease_ms: u64::try_from(row.get::<_, i64>(3)).ok(),
            });
            Ok(listed.collect())
        }
        .boxed()
    }
}

fn of_pool(error: &PoolError) -> Error {
    match error {
        PoolError::Backend(error) => of(error),
        other => Error::unreachable(format!("no connection to PostgreSQL: {other}")),
    }
}

/// Converts an error of the server, or of the connection to it.
fn of(error: &tokio_postgres::Error) -> Error {
    let state = error.code().map(|state| format!(" ({})", state.code()));
    let message = format!("PostgreSQL: {}{}", told(error), state.unwrap_or_default());
    match Kind::of(error) {
        Kind::Unreachable | Kind::Full | Kind::NoConnection | Kind::Busy | Kind::Failed => {
            Error::unreachable(message)
        }
        _ => Error::refused(message),
    }
}
