//! Tells the processes on one store that there is something new, by NOTIFY.
//!
//! A hint, as the contract has it: while the connection that listens is lost, nothing arrives,
//! and once it is back the listener is called, since it may have missed something. The payload
//! is the sender, so that nobody wakes itself.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, NoTls, Socket};

use super::connect::{Target, quoted};
use super::fault::Fault;

/// How long to wait before a lost connection is made again.
const AGAIN: Duration = Duration::from_secs(1);

/// The channel of a schema, as it is called.
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

/// Calls `wake` for as long as the subscription lives. `first` hears when the subscription
/// stands, or that the first attempt at it has failed and is made again.
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
    Subscription(runtime.spawn(async move {
        loop {
            let listening = Listening::begin(&target, &listen).await;
            if let Some(first) = first.take() {
                let _ = first.send(());
            } else if listening.is_ok() {
                // Something may have happened while nobody listened.
                wake();
            }
            if let Ok(mut listening) = listening {
                while let Some(from) = listening.heard.next().await {
                    if from != own {
                        wake();
                    }
                }
            }
            pause(AGAIN).await;
        }
    }))
}

/// A connection that listens.
struct Listening {
    heard: UnboundedReceiver<String>,
    _client: Client,
    _driver: Aborted,
}

impl Listening {
    async fn begin(target: &Target, listen: &str) -> Result<Self, Fault> {
        let (sender, heard) = unbounded();
        let (client, task) = dial(target, sender).await?;
        let driver = Aborted(task);
        client.batch_execute(listen).await?;
        Ok(Self {
            heard,
            _client: client,
            _driver: driver,
        })
    }
}

/// Ends what drives a connection together with its user.
struct Aborted(JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn dial(
    target: &Target,
    heard: UnboundedSender<String>,
) -> Result<(Client, JoinHandle<()>), Fault> {
    let config = target.config();
    Ok(match target.tls() {
        None => {
            let (client, connection) = config.connect(NoTls).await?;
            (client, tokio::spawn(hear(connection, heard)))
        }
        Some(tls) => {
            let (client, connection) = config.connect(tls.clone()).await?;
            (client, tokio::spawn(hear(connection, heard)))
        }
    })
}

/// Drives a connection, and passes on who has notified. Ends with the connection.
async fn hear<S>(
    mut connection: tokio_postgres::Connection<Socket, S>,
    heard: UnboundedSender<String>,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut messages = futures::stream::poll_fn(move |context| connection.poll_message(context));
    while let Some(Ok(message)) = messages.next().await {
        if let AsyncMessage::Notification(news) = message {
            let _ = heard.unbounded_send(news.payload().to_owned());
        }
    }
}

/// Waits, where there is nothing to be observed.
#[expect(
    clippy::disallowed_methods,
    reason = "between attempts to reach a server, whose time is nobody's to inject"
)]
pub(super) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
