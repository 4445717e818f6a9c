//! The location of a server, and connections to it.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Connect, Manager, ManagerConfig, Pool, RecyclingMethod};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::{place, take_verification};
use crate::fault::Fault;
use crate::trust::{Unusable, tls};

/// How long one attempt to connect may take by default.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a peer may be silent before TCP probes it, and closes the connection.
const SILENCE: Duration = Duration::from_secs(30);

/// The location of a server, with everything that its connections need.
pub struct Target {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    place: String,
}

/// The task that transfers the bytes of a connection. Ends with the connection, and closes it when
/// dropped.
#[derive(Debug)]
pub struct Driver(JoinHandle<()>);

impl Driver {
    /// Closes the connection.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Waits for the end of the connection.
    pub async fn end(&mut self) {
        // A panicked task has ended, too.
        let _ = (&mut self.0).await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Called with the payload of each notification of a connection. Must not block.
type Hear = Box<dyn Fn(&str) + Send>;

impl Target {
    /// Reads a URL (`postgresql://…`) or a text of keys and values. `application` is the name that
    /// the server's administrators see, unless the address contains one.
    ///
    /// # Errors
    ///
    /// The address cannot be parsed, or its certificates cannot be read.
    pub fn read(address: &str, application: &str) -> Result<Self, Unusable> {
        let (address, verify) = take_verification(address);
        let mut config: Config = address
            .parse()
            .map_err(|error: Fault| Unusable::Url(error.to_string()))?;
        if config.get_application_name().is_none() {
            config.application_name(application);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        config.keepalives_idle(SILENCE);
        config.tcp_user_timeout(SILENCE);
        if verify.is_some() {
            config.ssl_mode(SslMode::Require);
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(tls(verify.as_ref())?),
        };
        Ok(Self {
            place: place(&config),
            config,
            tls,
        })
    }

    /// Host and database, for people.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Makes a connection.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, is not trusted, or refuses.
    pub async fn connect(&self) -> Result<(Client, Driver), Fault> {
        let (client, task) = self.dial(None).await?;
        Ok((client, Driver(task)))
    }

    /// A connection that passes its notifications to a listener. The listener must not block.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`].
    pub async fn listen(
        &self,
        hear: impl Fn(&str) + Send + 'static,
    ) -> Result<(Client, Driver), Fault> {
        let (client, task) = self.dial(Some(Box::new(hear))).await?;
        Ok((client, Driver(task)))
    }

    /// A pool of at most so many connections, which are made when they are needed, and on each of
    /// which these statements are run first. Does not connect yet.
    ///
    /// # Errors
    ///
    /// The pool cannot be made.
    pub fn pool(self: &Arc<Self>, connections: usize, set: String) -> Result<Pool, Unusable> {
        let settings = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let members = Members {
            target: Arc::clone(self),
            set,
        };
        let manager = Manager::from_connect(self.config.clone(), members, settings);
        Pool::builder(manager)
            .max_size(connections.max(1))
            .build()
            .map_err(|error| Unusable::Pool(format!("there is no pool: {error}")))
    }

    async fn dial(&self, hear: Option<Hear>) -> Result<(Client, JoinHandle<()>), Fault> {
        match &self.tls {
            None => self.dial_by(NoTls, hear).await,
            Some(tls) => self.dial_by(tls.clone(), hear).await,
        }
    }

    async fn dial_by<T>(
        &self,
        tls: T,
        hear: Option<Hear>,
    ) -> Result<(Client, JoinHandle<()>), Fault>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
    {
        let (client, connection) = self.config.connect(tls).await?;
        Ok((client, tokio::spawn(drive(connection, hear))))
    }
}

/// Drives a connection, and reports its end to the statements in flight.
async fn drive<S>(mut connection: Connection<Socket, S>, hear: Option<Hear>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut messages = futures::stream::poll_fn(move |context| connection.poll_message(context));
    while let Some(Ok(message)) = messages.next().await {
        if let (AsyncMessage::Notification(news), Some(hear)) = (message, &hear) {
            hear(news.payload());
        }
    }
}

/// Connects for a pool.
struct Members {
    target: Arc<Target>,
    set: String,
}

impl Connect for Members {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Fault>> {
        Box::pin(async {
            let (client, task) = self.target.dial(None).await?;
            if let Err(fault) = client.batch_execute(&self.set).await {
                task.abort();
                return Err(fault);
            }
            Ok((client, task))
        })
    }
}
