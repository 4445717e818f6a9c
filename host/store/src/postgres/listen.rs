//! Notifies the other processes on a store of new work, by NOTIFY.
//!
//! A notification is a hint, as the contract says: while the listening connection is lost, none
//! arrives, and once it is restored the listener is called, because it may have missed some. The
//! payload names the sender, so that a process ignores its own notifications.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::Client;
use windlass_postgres::{Driver, quoted};

use super::connect::Target;
use super::fault::Fault;

/// The wait before a lost connection is opened again.
const AGAIN: Duration = Duration::from_secs(1);

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

/// Calls `wake` for as long as the subscription lives. `first` receives a message when the
/// subscription is active, or when the first attempt has failed and is repeated.
pub(super) fn subscribe(
    runtime: &tokio::runtime::Handle,
    target: Arc<Target>,
    schema: &str,
    own: String,
    wake: Box<dyn Fn() + Send + Sync>,
    first: SyncSender<()>,
) -> Subscription {
    let listen = format!("LISTEN {}", quoted(&channel(schema)));
    let mut first = Some(first);
    let wake: Arc<dyn Fn() + Send + Sync> = Arc::from(wake);
    Subscription(runtime.spawn(async move {
        loop {
            let listening = Listening::begin(&target, &listen, &own, &wake).await;
            if let Some(first) = first.take() {
                let _ = first.send(());
            } else if listening.is_ok() {
                // Notifications may have been missed while the connection was lost.
                wake();
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
        target: &Target,
        listen: &str,
        own: &str,
        wake: &Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self, Fault> {
        let (own, wake) = (own.to_owned(), Arc::clone(wake));
        let hear = move |from: &str| {
            if from != own {
                wake();
            }
        };
        let (client, driver) = target.listener(hear).await?;
        client.batch_execute(listen).await?;
        Ok(Self {
            _client: client,
            driver,
        })
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
