//! One connection that writes, and the outcome of each transaction on it.
//!
//! If a connection is lost before COMMIT was sent, nothing was written: the lane connects again and
//! repeats the transaction. If it is lost after that, the outcome is unknown. So every transaction
//! inserts its number into `trail`, and the next connection checks that row: it inserts the same
//! number as void, which waits for a transaction that the server still carries out, and reads which
//! of the two rows exists. A void number stays void: a transaction that the server carries out
//! later fails on the duplicate key. The outcome is reported as unknown only if the server cannot
//! be reached to check.

use std::time::Duration;

use windlass_model::failpoint;

use super::connect::Connection;
use super::fault::{Fault, explain, is_conflict, is_gone, silent};
use super::listen::pause;
use super::session::{Done, Failed, Session, Trace};
use super::shared::PostgresShared;
use crate::codes;
use crate::error::{Error, Result};
use crate::write::{Write, Wrote};

/// How often a transaction is repeated that the server aborted in favour of another one.
const CONFLICTS: u32 = 10;

/// The first wait between two attempts to connect; each later one is twice as long.
const BACK_OFF: Duration = Duration::from_millis(50);

/// The maximum wait between two attempts to connect.
const BACK_OFF_MAX: Duration = Duration::from_secs(1);

/// How often a lane reconnects for a transaction during which the connection is lost. After more
/// losses, the transaction itself is the likely cause.
const LOSSES: u32 = 20;

/// After this number of losses, the lane waits before each attempt.
const CHANCE: u32 = 3;

/// The time-out for connecting to a server that does not answer.
const GREETING: Duration = Duration::from_secs(15);

/// How often a lane reconnects to look for a trace when the connection is lost again.
const QUESTIONS: u32 = 100;

/// Why a transaction wrote nothing.
pub(super) enum Refused {
    /// The transaction as a whole failed; its writes may succeed one by one.
    RolledBack(Error),
    /// The database cannot be reached, or the outcome of the transaction is unknown.
    Lost(Error),
}

impl Refused {
    pub(super) fn error(self) -> Error {
        match self {
            Self::RolledBack(error) | Self::Lost(error) => error,
        }
    }
}

/// The content of a transaction.
pub(super) trait Work {
    /// The answer to the content.
    type Answer: Send;

    /// Carries it out, from BEGIN up to its COMMIT. Leaves this trace if it writes something that
    /// must not be repeated.
    fn carry_out(
        &mut self,
        session: &mut Session<'_>,
        trace: Trace,
    ) -> impl Future<Output = Done<Self::Answer>> + Send;
}

/// One write by itself.
pub(super) struct Single<'w>(pub(super) &'w Write);

impl Work for Single<'_> {
    type Answer = Wrote;

    async fn carry_out(&mut self, session: &mut Session<'_>, trace: Trace) -> Done<Wrote> {
        session.begin().await?;
        #[cfg(test)]
        super::tests::trips::begin();
        let wrote = session.carry_out(self.0).await?;
        #[cfg(test)]
        super::tests::trips::note(session.shared, self.0, &wrote);
        if !wrote.is_idle() {
            session.leave_trace(trace).await?;
        }
        Ok(wrote)
    }
}

/// The longest prefix of the writes that can be one batch.
pub(super) struct Plain<'w> {
    pub(super) writes: Vec<&'w Write>,
    /// A fence failed in the last attempt, so the next one reads facts first.
    pub(super) checked: bool,
}

impl Work for Plain<'_> {
    type Answer = Vec<Wrote>;

    async fn carry_out(&mut self, session: &mut Session<'_>, trace: Trace) -> Done<Vec<Wrote>> {
        let answers = session
            .carry_out_batch(&self.writes, self.checked, trace)
            .await;
        if let Err(Failed::Again) = answers {
            self.checked = true;
        }
        answers
    }
}

/// The outcome of one attempt at a transaction.
enum Attempt<T> {
    /// The transaction is committed. It left this trace, if any.
    Done(T, Option<i64>),
    /// Nothing is written, and the connection is gone.
    Gone(Fault),
    /// Nothing is written, and a repetition may succeed.
    Conflict(Error),
    /// Nothing is written.
    RolledBack(Error),
    /// COMMIT was sent and the connection is lost: the answer counts if this trace is found.
    Unknown(T, Option<i64>, Fault),
}

/// A connection that writes, opened on demand.
pub(super) struct WriteConnection {
    /// The process number of this lane's rows in `trail`.
    process: i64,
    connection: Option<Connection>,
    /// The last attempt to connect failed: the next transaction makes a single attempt.
    unreachable: bool,
    /// The newest trace that the lane left.
    trace: i64,
    /// All traces up to this one are deleted.
    swept: i64,
}

impl WriteConnection {
    /// A lane whose traces carry this process number.
    pub(super) fn new(process: i64) -> Self {
        Self {
            process,
            connection: None,
            unreachable: false,
            trace: 0,
            swept: 0,
        }
    }

    /// Carries out a transaction, and repeats it where that is safe.
    pub(super) async fn run<W: Work>(
        &mut self,
        shared: &PostgresShared,
        work: &mut W,
    ) -> std::result::Result<W::Answer, Refused> {
        let place = shared.target.place();
        let (mut conflicts, mut losses) = (0, 0);
        loop {
            self.trace += 1;
            let trace = Trace {
                process: self.process,
                no: self.trace,
                swept: self.swept,
            };
            let connection = self.connected(shared).await.map_err(Refused::Lost)?;
            match attempt(shared, connection, work, trace).await {
                Attempt::Done(answer, left) => {
                    self.left(trace, left);
                    return Ok(answer);
                }
                Attempt::Gone(fault) => {
                    tracing::warn!("the connection to {place} is lost: {fault}");
                    self.connection = None;
                    losses += 1;
                    if losses > LOSSES {
                        return Err(Refused::RolledBack(explain(place, &fault)));
                    }
                    if losses > CHANCE {
                        pause(BACK_OFF * losses).await;
                    }
                }
                Attempt::Conflict(error) => {
                    conflicts += 1;
                    if conflicts > CONFLICTS {
                        return Err(Refused::RolledBack(error));
                    }
                    pause(Duration::from_millis(u64::from(conflicts))).await;
                }
                Attempt::RolledBack(error) => return Err(Refused::RolledBack(error)),
                Attempt::Unknown(answer, left, fault) => {
                    tracing::warn!("the connection to {place} is lost during a commit: {fault}");
                    self.connection = None;
                    if self.is_committed(shared, left, &fault).await? {
                        self.left(trace, left);
                        return Ok(answer);
                    }
                }
            }
        }
    }

    /// Notes the traces that a committed transaction left and deleted.
    fn left(&mut self, trace: Trace, left: Option<i64>) {
        if left.is_some() && trace.sweeps() {
            self.swept = trace.no - 1;
        }
    }

    /// The connection. If it is lost, it is opened again with growing waits, within the time of the
    /// options.
    async fn connected(&mut self, shared: &PostgresShared) -> Result<&mut Connection> {
        let usable = self.connection.take();
        let usable = usable.filter(|connection| !connection.client.is_closed());
        let connection = match usable {
            Some(connection) => connection,
            None => {
                let made = self.connect(shared).await;
                self.unreachable = made.is_err();
                made?
            }
        };
        Ok(self.connection.insert(connection))
    }

    async fn connect(&self, shared: &PostgresShared) -> Result<Connection> {
        if self.unreachable {
            return greeted(shared, self.process).await;
        }
        let mut wait = BACK_OFF;
        let mut waited = Duration::ZERO;
        loop {
            let fault = match greeted(shared, self.process).await {
                Ok(connection) => return Ok(connection),
                Err(fault) => fault,
            };
            let bound = Duration::from_millis(shared.options.reconnect_ms);
            if !fault.transient || waited >= bound {
                return Err(fault);
            }
            pause(wait).await;
            waited += wait;
            wait = (wait * 2).min(BACK_OFF_MAX);
        }
    }

    /// Looks for the trace of a transaction.
    async fn is_committed(
        &mut self,
        shared: &PostgresShared,
        trace: Option<i64>,
        why: &Fault,
    ) -> std::result::Result<bool, Refused> {
        // The transaction wrote nothing that must not be repeated.
        let Some(trace) = trace else {
            return Ok(false);
        };
        let place = shared.target.place();
        let unknown =
            |what: &str| {
                let text = format!(
                    "{}; whether the write lasts cannot be found out: {what}",
                    explain(place, why)
                );
                Refused::Lost(Error::new(codes::UNKNOWN_OUTCOME, text).help(
                    "Check the server; the host looks up unacknowledged writes when it starts.",
                ))
            };
        for _ in 0..QUESTIONS {
            let process = self.process;
            let connection = self.connected(shared).await;
            let connection = connection.map_err(|error| unknown(&error.message))?;
            let mut session = Session::new(connection, shared);
            match session.is_written(process, trace).await {
                Ok(written) => return Ok(written),
                Err(Failed::Sql(fault)) if is_gone(&fault) => self.connection = None,
                Err(failed) => {
                    self.connection = None;
                    return Err(unknown(&failed.told(place).message));
                }
            }
        }
        Err(unknown("the connection is lost again and again"))
    }
}

/// A new connection, or an error if the server does not answer in time.
async fn greeted(shared: &PostgresShared, process: i64) -> Result<Connection> {
    let place = shared.target.place();
    match tokio::time::timeout(GREETING, traced(shared, process)).await {
        Ok(connection) => connection.map_err(|fault| explain(place, &fault)),
        Err(_) => Err(silent(place)),
    }
}

/// A new connection with its lane registered, so that the lane's traces are swept if the process
/// dies.
async fn traced(shared: &PostgresShared, process: i64) -> std::result::Result<Connection, Fault> {
    let connection = shared.target.writer().await?;
    let sql = format!(
        "BEGIN READ WRITE; INSERT INTO trace (process, last) VALUES ({process}, 0) \
            ON CONFLICT (process) DO UPDATE SET at = now(); COMMIT"
    );
    connection.client.batch_execute(&sql).await?;
    Ok(connection)
}

async fn attempt<W: Work>(
    shared: &PostgresShared,
    connection: &mut Connection,
    work: &mut W,
    trace: Trace,
) -> Attempt<W::Answer> {
    let mut session = Session::new(connection, shared);
    let answer = match work.carry_out(&mut session, trace).await {
        Ok(answer) => answer,
        Err(Failed::Sql(fault)) if is_gone(&fault) => return Attempt::Gone(fault),
        Err(failed) => return roll_back(shared, session.connection, failed).await,
    };
    let left = session.trace;
    failpoint::pass("store-before-commit");
    let committed = commit(shared, &mut session).await;
    match committed {
        Ok(()) => {
            failpoint::pass("store-after-commit");
            session.settle();
            Attempt::Done(answer, left)
        }
        Err(Failed::Sql(fault)) if is_gone(&fault) => Attempt::Unknown(answer, left, fault),
        Err(failed) => roll_back(shared, session.connection, failed).await,
    }
}

#[cfg(not(test))]
async fn commit(_shared: &PostgresShared, session: &mut Session<'_>) -> Done<()> {
    session.commit().await
}

/// Commits, unless a test injects trouble.
#[cfg(test)]
async fn commit(shared: &PostgresShared, session: &mut Session<'_>) -> Done<()> {
    use super::tests::troubles::Trouble;
    let trouble = shared.troubles.lock().pop();
    if let Some(Trouble::Written) | None = trouble {
        session.commit().await?;
    }
    if trouble.is_none() {
        return Ok(());
    }
    if let Some(before) = shared.before_trouble.lock().take() {
        before();
    }
    Err(session.connection.cut().await.into())
}

async fn roll_back<T>(
    shared: &PostgresShared,
    connection: &mut Connection,
    failed: Failed,
) -> Attempt<T> {
    let place = shared.target.place();
    if let Err(fault) = connection.client.batch_execute("ROLLBACK").await {
        return Attempt::Gone(fault);
    }
    match failed {
        Failed::Sql(fault) if !is_conflict(&fault) => Attempt::RolledBack(explain(place, &fault)),
        Failed::Store(error) => Attempt::RolledBack(error),
        failed => Attempt::Conflict(failed.told(place)),
    }
}
