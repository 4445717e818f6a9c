//! Locks in Redis: for a cluster with much contention.
//!
//! A lock is a key of its own, never one with data, with the lease as its expiry. A script compares
//! and writes in one atomic step. Redis loses locks when it is emptied, fails over or is restored;
//! the holder of a lock then notices the loss at its next renewal, and until then another holder
//! may have it, too.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{RedisError, Script};

use crate::key::Key;
use crate::leased::{Backend, LEASE, Lease, Leased};
use crate::parts::Parts;
use crate::provider::{Error, Listed, LockProvider, Reach};

/// How long one attempt to connect, and one answer, may take.
const ANSWER: Duration = Duration::from_secs(2);

/// Locks per step of a listing.
const PAGE: usize = 500;

// A value is `HOLDER TOKEN OWNER`; the holder has the same length in all of them.
const TAKE: &str = "
    local value = redis.call('GET', KEYS[1])
    if value then
        if string.sub(value, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
        redis.call('PEXPIRE', KEYS[1], ARGV[3])
        return tonumber(string.match(value, ' (%d+) '))
    end
    local token = redis.call('INCR', KEYS[2])
    redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. token .. ' ' .. ARGV[2], 'NX', 'PX', ARGV[3])
    return token";
const RENEW: &str = "
    local ours = {}
    for index, key in ipairs(KEYS) do
        local value = redis.call('GET', key)
        local holder = ARGV[index + 1]
        if value and string.sub(value, 1, #holder) == holder then
            redis.call('PEXPIRE', key, ARGV[1])
            ours[index] = 1
        else
            ours[index] = 0
        end
    end
    return ours";
const RELEASE: &str = "
    local value = redis.call('GET', KEYS[1])
    if value and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
        return redis.call('DEL', KEYS[1])
    end
    return 0";

/// The location of the locks.
#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    /// The server, like `redis://user:password@host:6379/0`.
    pub url: String,
    /// The prefix of each key. The text in braces decides about the node of a Redis Cluster, and
    /// has to be the same for all keys.
    pub prefix: String,
    /// How long a lock lasts without a renewal; at least 100 ms.
    pub lease: Duration,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL, which may hold a password.
        f.debug_struct("Redis")
            .field("prefix", &self.prefix)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Locks in the server at that address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            prefix: "{windlass}".to_owned(),
            lease: LEASE,
        }
    }
}

/// Makes the provider. It connects when the first lock is requested.
pub(crate) fn open(options: &Options, parts: Parts) -> Result<Arc<dyn LockProvider>, Error> {
    if options.url.starts_with("rediss:") {
        let text = "TLS to Redis (`rediss://`) is not built in: use `redis://` in a network of \
            your own or through a tunnel, or keep the locks in PostgreSQL";
        return Err(Error::settings(text));
    }
    // The URL may hold a password, so it is not repeated.
    let client = redis::Client::open(options.url.as_str())
        .map_err(|error| Error::settings(format!("the URL of the locks is none: {error}")))?;
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(ANSWER))
        .set_response_timeout(Some(ANSWER))
        .set_number_of_retries(1)
        .set_min_delay(Duration::from_millis(50));
    let _inside = parts.runtime.enter();
    let connection = ConnectionManager::new_lazy_with_config(client, config)
        .map_err(|error| Error::settings(format!("Redis: {error}")))?;
    let backend = Redis {
        connection,
        take: Script::new(TAKE),
        renew: Script::new(RENEW),
        release: Script::new(RELEASE),
        locks: format!("{}:lock:", options.prefix),
        counter: format!("{}:token", options.prefix),
        lease_ms: u64::try_from(options.lease.as_millis()).unwrap_or(u64::MAX),
        owner: parts.owner.clone(),
    };
    Ok(Arc::new(Leased::new(
        backend,
        options.lease,
        parts.clone(),
    )?))
}

struct Redis {
    connection: ConnectionManager,
    take: Script,
    renew: Script,
    release: Script,
    /// The prefix of the keys of locks.
    locks: String,
    counter: String,
    lease_ms: u64,
    owner: String,
}

impl Redis {
    fn stored(&self, key: &Key) -> String {
        format!("{}{key}", self.locks)
    }

    /// The names of the locks in Redis; at most `limit` and a page.
    async fn names(&self, limit: u32) -> Result<Vec<String>, RedisError> {
        let mut connection = self.connection.clone();
        let pattern = format!("{}*", escaped(&self.locks));
        let (mut names, mut cursor) = (Vec::new(), 0_u64);
        loop {
            let (next, page): (u64, Vec<String>) = redis::cmd("SCAN")
                .arg(cursor)
                .arg("MATCH")
                .arg(&pattern)
                .arg("COUNT")
                .arg(PAGE)
                .query_async(&mut connection)
                .await?;
            names.extend(page);
            cursor = next;
            if cursor == 0 || names.len() >= limit as usize {
                break;
            }
        }
        // A scan may return a name twice.
        names.sort_unstable();
        names.dedup();
        names.truncate(limit as usize);
        Ok(names)
    }

    async fn listed(&self, limit: u32) -> Result<Vec<Listed>, RedisError> {
        let names = self.names(limit).await?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut questions = redis::pipe();
        for name in &names {
            questions.get(name).pttl(name);
        }
        let mut connection = self.connection.clone();
        let answers: Vec<(Option<String>, i64)> = questions.query_async(&mut connection).await?;
        let listed = names
            .iter()
            .zip(answers)
            .filter_map(|(name, (value, left_ms))| {
                let value = value?;
                let mut parts = value.splitn(3, ' ').skip(1);
                Some(Listed {
                    key: name.strip_prefix(&self.locks)?.to_owned(),
                    token: parts.next()?.parse().ok()?,
                    owner: parts.next()?.to_owned(),
                    lease_ms: u64::try_from(left_ms).ok(),
                })
            });
        Ok(listed.collect())
    }
}

impl Backend for Redis {
    fn name(&self) -> &'static str {
        "redis"
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
            let mut connection = self.connection.clone();
            let mut call = self.take.key(self.stored(key));
            call.key(&self.counter)
                .arg(holder)
                .arg(&self.owner)
                .arg(self.lease_ms);
            let token: u64 = call
                .invoke_async(&mut connection)
                .await
                .map_err(|error| of(&error))?;
            Ok((token > 0).then_some(token))
        }
        .boxed()
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> BoxFuture<'a, Result<Vec<bool>, Error>> {
        async move {
            let mut connection = self.connection.clone();
            let mut call = self.renew.arg(self.lease_ms);
            for lease in leases {
                call.key(self.stored(&lease.key)).arg(&lease.holder);
            }
            call.invoke_async(&mut connection)
                .await
                .map_err(|error| of(&error))
        }
        .boxed()
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            let mut connection = self.connection.clone();
            let mut call = self.release.key(self.stored(&lease.key));
            let _: u64 = call
                .arg(&lease.holder)
                .invoke_async(&mut connection)
                .await
                .map_err(|error| of(&error))?;
            Ok(())
        }
        .boxed()
    }

    fn list(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, Error>> {
        async move { self.listed(limit).await.map_err(|error| of(&error)) }.boxed()
    }
}

/// A text, escaped for a pattern of Redis.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Converts an error of the server, or of the connection to it.
fn of(error: &RedisError) -> Error {
    let message = format!("Redis: {error}");
    let passes = error.is_io_error()
        || error.is_timeout()
        || error.is_connection_dropped()
        || error.is_connection_refusal()
        || matches!(
            error.code(),
            Some(
                "LOADING" | "BUSY" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY" | "OOM"
            )
        );
    if passes {
        Error::unreachable(message)
    } else {
        Error::refused(message)
    }
}
