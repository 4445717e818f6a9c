//! Starts the servers that many test processes share, prints the variables by which these find the
//! servers, one `NAME=VALUE` in each line, and stops the servers when its input ends.
//!
//! A server that is not installed is left out: the tests that need it then say so, or fail.

use std::io::{Write as _, stdin, stdout};

use windlass_test_servers::{Options, POSTGRES, PostgreSql, REDIS, Redis};

fn main() -> anyhow::Result<()> {
    let postgres =
        PostgreSql::is_installed().then(|| PostgreSql::start_with(Options { fsync: false }));
    let redis = Redis::is_installed().then(Redis::start);
    let (postgres, redis) = (postgres.transpose()?, redis.transpose()?);
    let mut out = stdout().lock();
    if let Some(postgres) = &postgres {
        writeln!(out, "{POSTGRES}={}", postgres.port())?;
    }
    if let Some(redis) = &redis {
        writeln!(out, "{REDIS}={}", redis.port())?;
    }
    writeln!(out)?;
    out.flush()?;
    std::io::copy(&mut stdin().lock(), &mut std::io::sink())?;
    Ok(())
}
