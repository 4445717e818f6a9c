//! Connections: how many there are, and how long they may be idle.
//!
//! A connection on which no request is being worked on has to bring one within a time, whatever
//! it does meanwhile: so whoever sends a header a byte a minute is cut off like whoever sends
//! nothing. And whoever is answered has to take something of the answer within a time, or it
//! would be kept for ever.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// A listener that bounds its connections.
pub(crate) struct Listener {
    listener: TcpListener,
    room: Arc<Semaphore>,
    idle: Duration,
}

impl Listener {
    pub(crate) fn new(listener: TcpListener, connections: usize, idle: Duration) -> Self {
        Self {
            listener,
            room: Arc::new(Semaphore::new(connections)),
            idle,
        }
    }
}

impl axum::serve::Listener for Listener {
    type Io = Bounded;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let room = loop {
            // It is never closed.
            if let Ok(room) = Arc::clone(&self.room).acquire_owned().await {
                break room;
            }
        };
        // Errors of accepting are logged and waited for by axum.
        let (stream, address) = axum::serve::Listener::accept(&mut self.listener).await;
        // A small answer is not held back for the next one.
        let _ = stream.set_nodelay(true);
        let io = Bounded {
            stream,
            connection: Connection::default(),
            idle: self.idle,
            patience: None,
            seen: 0,
            stalled: None,
            _room: room,
        };
        (io, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// What a request knows of the connection that it came by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection(Arc<Requests>);

#[derive(Debug, Default)]
struct Requests {
    /// Being worked on.
    now: AtomicUsize,
    /// So far.
    begun: AtomicUsize,
}

/// A request is being worked on.
pub(crate) struct Busy(Arc<Requests>);

impl Connection {
    /// Says that a request is being worked on, for as long as what this answers is there.
    pub(crate) fn busy(&self) -> Busy {
        self.0.begun.fetch_add(1, Ordering::AcqRel);
        self.0.now.fetch_add(1, Ordering::AcqRel);
        Busy(Arc::clone(&self.0))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Connected<IncomingStream<'_, Listener>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        stream.io().connection.clone()
    }
}

/// A connection that may not be idle for long.
pub(crate) struct Bounded {
    stream: TcpStream,
    connection: Connection,
    idle: Duration,
    /// When it has been idle for too long.
    patience: Option<Pin<Box<Sleep>>>,
    /// How many requests there had been when that was reckoned.
    seen: usize,
    /// When nothing of an answer has been taken for too long.
    stalled: Option<Pin<Box<Sleep>>>,
    _room: OwnedSemaphorePermit,
}

impl Bounded {
    /// Ready once the connection has been idle for too long.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let requests = &self.connection.0;
        let begun = requests.begun.load(Ordering::Acquire);
        if requests.now.load(Ordering::Acquire) > 0 {
            self.patience = None;
            return Poll::Pending;
        }
        if self.patience.is_none() || begun != self.seen {
            self.seen = begun;
            self.patience = Some(Box::pin(sleep(self.idle)));
        }
        match &mut self.patience {
            Some(patience) => patience.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }

    /// What became of a write, which is an error once it has waited for too long.
    fn written(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            // Whoever reads its answer is not idle.
            self.patience = None;
            self.stalled = None;
            return written;
        }
        let idle = self.idle;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(idle)));
        stalled
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a peer may be idle is the machine's time"
)]
fn sleep(time: Duration) -> Sleep {
    tokio::time::sleep(time)
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.poll_patience(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
