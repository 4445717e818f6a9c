//! Notifies the other processes on a store of new work and of changed runs, by NOTIFY.
//!
//! A notification is a hint, as the contract says: while the listening connection is lost, none
//! arrives, and once it is restored the listener is called, because it may have missed some. The
//! payload names the sender, so that a process ignores its own notifications.
//!
//! | payload | meaning |
//! |---|---|
//! | `SENDER` | new work may be available |
//! | `SENDER attend` | the sender waits for runs of others, for `ATTENTION_MS` |
//! | `SENDER runs 1,2,3` | commits of the sender have changed these runs |
//! | `SENDER runs *` | commits of the sender have changed more runs than it counts |

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::Client;
use windlass_model::RunNo;
use windlass_postgres::{Driver, quoted};

use super::fault::Fault;
use super::pool::ReadPool;
use super::shared::PostgresShared;
use crate::sql::params;
use crate::{ATTENTION_MS, Hear, News};

/// The wait before a lost connection is opened again.
const AGAIN: Duration = Duration::from_secs(1);

/// The time between two notifications about changed runs.
const SPACE: Duration = Duration::from_millis(1);

/// The runs in one notification. A number has up to 20 characters, and a payload 8,000 bytes.
const AT_ONCE: usize = 350;

/// The most changed runs that wait for a notification; beyond that, it says `*`.
const UNTOLD: usize = 4096;

/// The statement of a notification.
pub(super) const NOTIFY: &str = "SELECT pg_notify($1, $2)";

/// The name of the channel of a schema.
pub(super) fn channel(schema: &str) -> String {
    format!("windlass:{schema}")
}

/// Ends the subscription when it is dropped.
pub(super) struct Subscription(JoinHandle<()>);

impl Drop for Subscription {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Calls `hear` for as long as the subscription lives. `first` receives a message when the
/// subscription is active, or when the first attempt has failed and is repeated.
pub(super) fn subscribe(
    runtime: &tokio::runtime::Handle,
    shared: Arc<PostgresShared>,
    hear: Hear,
    first: SyncSender<()>,
) -> Subscription {
    let mut first = Some(first);
    let hear: Arc<dyn Fn(News<'_>) + Send + Sync> = Arc::from(hear);
    Subscription(runtime.spawn(async move {
        loop {
            let listening = Listening::begin(&shared, &hear).await;
            if let Some(first) = first.take() {
                let _ = first.send(());
            } else if listening.is_ok() {
                // Notifications may have been missed while the connection was lost.
                shared.is_attended();
                [News::Work, News::SomeRuns].into_iter().for_each(&*hear);
            }
            if let Ok(mut listening) = listening {
                listening.driver.end().await;
            }
            pause(AGAIN).await;
        }
    }))
}

/// A connection that listens.
struct Listening {
    _client: Client,
    driver: Driver,
}

impl Listening {
    async fn begin(
        shared: &Arc<PostgresShared>,
        hear: &Arc<dyn Fn(News<'_>) + Send + Sync>,
    ) -> Result<Self, Fault> {
        let listen = format!("LISTEN {}", quoted(&channel(&shared.options.schema)));
        let (own, hear) = (shared.process.to_string(), Arc::clone(hear));
        let others = Arc::clone(shared);
        let told = move |payload: &str| {
            let (from, news) = payload.split_once(' ').unwrap_or((payload, ""));
            if from == own {
                return;
            }
            match news.split_once(' ').unwrap_or((news, "")) {
                ("", _) => hear(News::Work),
                ("attend", _) => others.is_attended(),
                ("runs", runs) => {
                    let numbers = runs.split(',').map(|run| run.parse().map(RunNo));
                    match numbers.collect::<Result<Vec<_>, _>>() {
                        Ok(runs) => hear(News::Runs(&runs)),
                        Err(_) => hear(News::SomeRuns),
                    }
                }
                // Of a later version.
                _ => {}
            }
        };
        let (client, driver) = shared.target.listener(told).await?;
        client.batch_execute(&listen).await?;
        Ok(Self {
            _client: client,
            driver,
        })
    }
}

/// Runs that were changed and not yet told.
#[derive(Default)]
pub(super) struct Untold {
    runs: Vec<i64>,
    /// More runs were changed than are counted.
    more: bool,
    /// A task tells them.
    telling: bool,
}

impl Untold {
    /// Takes the payload of the next notification.
    fn next(&mut self) -> Option<String> {
        if std::mem::take(&mut self.more) {
            self.runs.clear();
            return Some("*".to_owned());
        }
        let rest = self.runs.len().saturating_sub(AT_ONCE);
        let runs = self.runs.split_off(rest);
        let texts: Vec<String> = runs.iter().map(i64::to_string).collect();
        self.telling = !texts.is_empty();
        self.telling.then(|| texts.join(","))
    }
}

impl PostgresShared {
    /// Notes that another process waits for runs.
    fn is_attended(&self) {
        let until_ms = self.passed_ms() + ATTENTION_MS;
        self.attended_ms.store(until_ms, Ordering::Release);
    }

    /// Tells the other processes of changed runs, if one of them waits for runs. Runs that change
    /// while a notification is on its way are told by the next one.
    pub(super) fn tell(self: &Arc<Self>, runs: &[RunNo], pool: &ReadPool) {
        if runs.is_empty() || self.passed_ms() >= self.attended_ms.load(Ordering::Acquire) {
            return;
        }
        let mut untold = self.untold.lock();
        if untold.runs.len() + runs.len() > UNTOLD {
            untold.more = true;
            untold.runs = Vec::new();
        } else if !untold.more {
            untold.runs.extend(runs.iter().map(|no| no.0));
        }
        if std::mem::replace(&mut untold.telling, true) {
            return;
        }
        drop(untold);
        let (shared, pool) = (Arc::clone(self), pool.clone());
        pool.clone().spawn(async move {
            loop {
                let Some(runs) = shared.untold.lock().next() else {
                    return;
                };
                let payload = format!("{} runs {runs}", shared.process);
                let key = params![channel(&shared.options.schema), payload];
                pool.hinted(NOTIFY, key).await;
                pause(SPACE).await;
            }
        });
    }
}

/// Sleeps where there is no event to wait for.
#[expect(
    clippy::disallowed_methods,
    reason = "between attempts to reach a server, whose clock no test can inject"
)]
pub(super) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
