//! Tells the processes on one store that there is something new, by NOTIFY.
//!
//! A hint, as the contract has it: while the connection that listens is lost, nothing arrives,
//! and once it is back the listener is called, since it may have missed something. The payload
//! is the sender, so that nobody wakes itself.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, NoTls, Socket};

use super::connect::{Target, quoted};
use super::fault::Fault;

/// How long to wait before a lost connection is made again.
const AGAIN: Duration = Duration::from_secs(1);

/// The channel of a schema.
pub(super) fn channel(schema: &str) -> String {
    quoted(&format!("windlass:{schema}"))
}

/// Ends the subscription when it is dropped.
pub(super) struct Subscription(JoinHandle<()>);

impl Drop for Subscription {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Calls `wake` for as long as the subscription lives.
pub(super) fn subscribe(
    runtime: &tokio::runtime::Handle,
    target: Arc<Target>,
    schema: &str,
    own: String,
    wake: Box<dyn Fn() + Send + Sync>,
) -> Subscription {
    let listen = format!("LISTEN {}", channel(schema));
    Subscription(runtime.spawn(async move {
        loop {
            if let Ok(()) = listen_once(&target, &listen, &own, &*wake).await {
                wake();
            }
            pause(AGAIN).await;
        }
    }))
}

/// Listens until the connection is lost.
async fn listen_once(
    target: &Target,
    listen: &str,
    own: &str,
    wake: &(dyn Fn() + Send + Sync),
) -> Result<(), Fault> {
    let (sender, mut heard) = futures::channel::mpsc::unbounded();
    let (client, task) = dial(target, sender).await?;
    let guard = Aborted(task);
    client.batch_execute(listen).await?;
    // Something may have happened while nobody listened.
    wake();
    while let Some(from) = heard.next().await {
        if from != own {
            wake();
        }
    }
    drop(guard);
    Ok(())
}

struct Aborted(JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

type Heard = futures::channel::mpsc::UnboundedSender<String>;

async fn dial(target: &Target, heard: Heard) -> Result<(Client, JoinHandle<()>), Fault> {
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
async fn hear<S>(mut connection: tokio_postgres::Connection<Socket, S>, heard: Heard)
where
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
