//! The server: it listens, and it ends in two steps. First it refuses new work, but still answers
//! requests about runs while they are finished; then it closes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::connections::{Connection, Connections};
use crate::error::Error;
use crate::host;
use crate::listen::{Listener, Patience};
use crate::options::Options;
use crate::routes;

/// How long connections may take to end by themselves when the server closes.
const CLOSING: Duration = Duration::from_secs(2);

/// The HTTP API, webhooks, health and metrics of a host.
pub struct Server {
    app: App,
}

/// A listening server.
pub struct Handle {
    app: App,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// Whether a server may listen on this address with this token.
///
/// # Errors
///
/// It would listen beyond this machine without a token, or no request can carry the token.
pub fn check(listen: SocketAddr, token: Option<&str>) -> Result<(), Error> {
    let good = |token: &str| {
        (16..=1024).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if token.is_some_and(|token| !good(token)) {
        return Err(Error::BadToken);
    }
    if token.is_none() && !is_loopback(listen.ip()) {
        return Err(Error::NoToken(listen));
    }
    Ok(())
}

impl Server {
    /// A server that does not listen yet.
    ///
    /// # Errors
    ///
    /// It would listen beyond this machine without a token, or no request can carry the token.
    pub fn new(options: Options) -> Result<Self, Error> {
        check(options.listen, options.token.as_deref())?;
        Ok(Self {
            app: App::new(options),
        })
    }

    /// The handlers, without a listener: for tests.
    pub fn router(&self) -> Router {
        routes::router(&self.app)
    }

    /// Starts to listen. Must be called inside of tokio.
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub async fn listen(self) -> Result<Handle, Error> {
        let app = self.app.clone();
        let address = app.options.listen;
        let refused = |error| Error::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let bounds = app.bounds();
        let patience = Patience {
            head: Duration::from_millis(bounds.header_ms.min(bounds.timeout_ms)),
            idle: Duration::from_millis(bounds.timeout_ms),
            stall: Duration::from_millis(bounds.stall_ms),
        };
        let metrics = Arc::clone(&app.options.metrics);
        let connections = Connections::new(bounds.connections, metrics);
        let listener = Listener::new(listener, connections, patience, Arc::clone(&app.answers));
        let router = self.router().layer(middleware::from_fn(host::demand));
        let service = router.into_make_service_with_connect_info::<Connection>();
        let (stop, stopped) = oneshot::channel();
        let server = axum::serve(listener, service).with_graceful_shutdown(async move {
            // Dropping the handle ends the server, too.
            let _ = stopped.await;
        });
        let task = tokio::spawn(async move {
            if let Err(error) = server.await {
                tracing::error!(%error, "the server has ended");
            }
        });
        Ok(Handle {
            app,
            address,
            stop: Some(stop),
            task: Some(task),
        })
    }
}

fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => {
            address.is_loopback()
                || address
                    .to_ipv4_mapped()
                    .is_some_and(|four| four.is_loopback())
        }
    }
}

impl Handle {
    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Refuses new work: requests that start or change something are answered with 503 from now on.
    pub fn drain(&self) {
        self.app.drain();
    }

    /// Ends streams and connections.
    pub async fn close(mut self) {
        self.app.drain();
        self.app.close();
        drop(self.stop.take());
        if let Some(mut task) = self.task.take()
            && tokio::time::timeout(CLOSING, &mut task).await.is_err()
        {
            task.abort();
        }
    }
}
