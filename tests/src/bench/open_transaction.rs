//! The effect of an open transaction on hosts that use the same database.
//!
//! Two servers get the same load alternately. In the database of one of them a transaction holds a
//! snapshot from the first round to the last, so that no dead row is vacuumed there.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use windlass_model::Clock;
use windlass_runtime::{Runtime, StartRequest, SystemClock};
use windlass_test_servers::PostgreSql;

use super::measure::{self, Plan, millis};
use super::rig::{self, Setup};
use super::{Record, flush, scenario};

/// The name in the results.
pub const NAME: &str = "open-transaction";

/// Runs at the same time.
pub const IN_FLIGHT: usize = 24;

/// Steps of each run.
const STEPS: u32 = 50;

/// Rounds on each of the two servers. One takes as long as any other scenario, so the transaction
/// is open for twice as many.
const ROUNDS: usize = 6;

/// A separate server, and a host on it.
struct Side {
    server: PostgreSql,
    setup: Setup,
    runtime: Arc<Runtime>,
    rounds: Vec<Round>,
}

/// The measurements of a server in one round.
struct Round {
    runs_per_second: f64,
    /// Pages that were read, from memory or disk, per committed transaction.
    buffers_per_commit: f64,
    p50_ms: f64,
    p99_ms: f64,
    runs: u64,
}

/// Measures the load with the transaction and without it, and prints each round.
///
/// # Errors
///
/// A server or a host does not start, or a run did not complete.
pub async fn measure(setup: &Setup, time: Duration, say: &impl Fn(&str)) -> Result<Record> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let flush_ms = millis(flush::median(&setup.dir, clock.as_ref())?);
    let chain = scenario::chain("fifty-steps", STEPS);
    let request = Arc::new(rig::request(chain.name, &chain.workflow)?);
    let mut sides = Vec::new();
    for _ in 0..2 {
        sides.push(Side::start(setup, &clock, &request).await?);
    }
    let (with, _) = sides.split_first_mut().context("there are two")?;
    let url = with
        .setup
        .postgres
        .as_deref()
        .context("it has a database")?;
    let snapshot = with.server.hold_snapshot(url)?;
    let begun = clock.monotonic();
    for _ in 0..ROUNDS {
        for side in &mut sides {
            side.round(&request, time, &clock).await?;
        }
        say(&tell(&sides, clock.monotonic().saturating_sub(begun)));
    }
    drop(snapshot);
    let rss_mb = rig::resident_mb()?;
    for side in &sides {
        side.runtime.drain(Duration::from_secs(10)).await;
    }
    let [with, without] = sides.as_slice() else {
        anyhow::bail!("there are two")
    };
    let (first, last) = (with.rounds.first(), with.rounds.last());
    let (first, last) = first.zip(last).context("there were rounds")?;
    let beside = without.rounds.last().context("there were rounds")?;
    let named = Setup {
        postgres: with.setup.postgres.clone(),
        ..setup.clone()
    };
    Ok(Record {
        node_executions_per_second: last.runs_per_second * f64::from(STEPS),
        runs_per_second: last.runs_per_second,
        p50_ms: last.p50_ms,
        p99_ms: last.p99_ms,
        rss_mb,
        flush_ms,
        runs: with.rounds.iter().map(|round| round.runs).sum(),
        share_of_alternating: Some(last.runs_per_second / beside.runs_per_second),
        buffers_per_commit: vec![
            beside.buffers_per_commit,
            first.buffers_per_commit,
            last.buffers_per_commit,
        ],
        ..Record::of(NAME, IN_FLIGHT, &named)
    })
}

impl Side {
    async fn start(
        setup: &Setup,
        clock: &Arc<dyn Clock>,
        request: &Arc<StartRequest>,
    ) -> Result<Self> {
        let server = PostgreSql::start()?;
        let setup = Setup {
            postgres: Some(server.database()?),
            ..setup.clone()
        };
        let runtime = {
            let (setup, clock) = (setup.clone(), Arc::clone(clock));
            tokio::task::spawn_blocking(move || {
                let plugins = setup.plugins(&clock)?;
                rig::start(setup.store(&clock)?, plugins, &clock, None)
            })
            .await??
        };
        // The first runs compile the workflow, and earn the plugins inline calls.
        for _ in 0..IN_FLIGHT {
            measure::one(&runtime, request).await?;
        }
        Ok(Self {
            server,
            setup,
            runtime,
            rounds: Vec::new(),
        })
    }

    /// Keeps runs in flight for a while.
    async fn round(
        &mut self,
        request: &Arc<StartRequest>,
        time: Duration,
        clock: &Arc<dyn Clock>,
    ) -> Result<()> {
        let plan = Plan {
            in_flight: IN_FLIGHT,
            setup: self.setup.clone(),
            time,
            ready: || Ok(()),
        };
        let before = self.looked_at()?;
        let measured = measure::drive(&self.runtime, request, &plan, clock).await?;
        let after = self.looked_at()?;
        let commits = (after.1 - before.1).max(1.0);
        let quantile = |at| measured.times.value_at_quantile(at) as f64 / 1e3;
        self.rounds.push(Round {
            runs_per_second: measured.runs as f64 / measured.elapsed.as_secs_f64(),
            buffers_per_commit: (after.0 - before.0) / commits,
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            runs: measured.runs,
        });
        Ok(())
    }

    /// Pages that were read in the database so far, and transactions that were committed.
    fn looked_at(&self) -> Result<(f64, f64)> {
        let url = self.setup.postgres.as_deref();
        let sql = "select (blks_hit + blks_read) || ' ' || xact_commit from pg_stat_database \
            where datname = current_database()";
        let said = self.server.execute_in(url.unwrap_or_default(), sql)?;
        let (pages, commits) = said.split_once(' ').context("two numbers")?;
        Ok((pages.parse()?, commits.parse()?))
    }
}

/// One line for each round: the seconds since the transaction was opened, and the measurements of
/// each server.
fn tell(sides: &[Side], since: Duration) -> String {
    let mut line = format!("{:6.0} s", since.as_secs_f64());
    for (side, name) in sides.iter().zip(["with", "without"]) {
        if let Some(round) = side.rounds.last() {
            line += &format!(
                "\t{name}: {:.0} runs/s, {:.0} buffers/commit",
                round.runs_per_second, round.buffers_per_commit
            );
        }
    }
    line
}
