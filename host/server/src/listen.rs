//! Accepts connections, and bounds their idle time.
//!
//! A connection without a request in progress has to send the head of one within a time: a client
//! that sends a header a byte a minute is cut off like one that sends nothing. A client that gets
//! an answer has to read some of it within a time, or its connection would be kept for ever. While a
//! client reads nothing, nothing is read from it: its next request waits until it reads.
//! `connections.rs` decides which connection is closed if there are too many.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

use crate::answers::Answers;
use crate::connections::{Connection, Connections, Entry};

/// The most bytes that a connection may send without completing the head of a request.
const HEAD_BYTES: usize = 64 * 1024;

/// How long accepting pauses when the process has no file descriptors left.
const NO_FILES: Duration = Duration::from_millis(100);

/// How often an answer that its client does not read is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How long a connection may be without a request, and how long a client may read nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For the first request, from the start of the connection; for a later one, from its first
    /// byte.
    pub(crate) head: Duration,
    /// Since the last answer.
    pub(crate) idle: Duration,
    /// Since a part of an answer was written. If requests wait for room for their answers:
    /// [`LOOK`].
    pub(crate) stall: Duration,
}

/// A listener that bounds its connections.
pub(crate) struct Listener {
    listener: TcpListener,
    connections: Arc<Connections>,
    patience: Patience,
    answers: Arc<Answers>,
}

impl Listener {
    pub(crate) fn new(
        listener: TcpListener,
        connections: Arc<Connections>,
        patience: Patience,
        answers: Arc<Answers>,
    ) -> Self {
        Self {
            listener,
            connections,
            patience,
            answers,
        }
    }

    async fn next(&self) -> (TcpStream, SocketAddr) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        loop {
            self.connections.room().await;
            let error = match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) => error,
            };
            // The client is gone already.
            if [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind()) {
                continue;
            }
            tracing::warn!(%error, "no connection can be accepted");
            // The connection that ends now frees a file descriptor.
            let _ = tokio::time::timeout(NO_FILES, self.connections.relief()).await;
        }
    }
}

impl axum::serve::Listener for Listener {
    type Io = Bounded;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = self.next().await;
        // Send a small answer at once, without waiting for the next one.
        let _ = stream.set_nodelay(true);
        // A connection that has ended already has no address, and sends no request.
        let local = stream
            .local_addr()
            .map_or(IpAddr::from([0; 16]), |local| local.ip());
        let io = Bounded {
            stream,
            entry: self.connections.enter(address, local),
            patience: self.patience,
            answers: Arc::clone(&self.answers),
            left: None,
            seen: 0,
            brought: 0,
            stalled: None,
            unread: false,
        };
        (io, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, Listener>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        stream.io().entry.connection()
    }
}

/// A connection whose idle time is bounded.
pub(crate) struct Bounded {
    stream: TcpStream,
    entry: Entry,
    patience: Patience,
    answers: Arc<Answers>,
    /// Fires when the connection has been without a request for too long.
    left: Option<Pin<Box<Sleep>>>,
    /// How many requests there had been when `left` was set.
    seen: usize,
    /// The bytes that it has sent since.
    brought: usize,
    /// The client does not read an answer.
    stalled: Option<Stalled>,
    /// Nothing was read from the client because it does not read.
    unread: bool,
}

/// The time for which a client has read nothing of an answer.
struct Stalled {
    /// Fires at the next look.
    look: Pin<Box<Sleep>>,
    /// The time up to that look.
    until: Duration,
}

impl Bounded {
    /// Ready once the connection has been without a request for too long.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.entry.is_busy() {
            self.left = None;
            return Poll::Pending;
        }
        let begun = self.entry.begun();
        if self.left.is_none() || begun != self.seen {
            self.seen = begun;
            self.brought = 0;
            let first = begun == 0;
            let patience = self.patience;
            let most = if first { patience.head } else { patience.idle };
            self.left = Some(Box::pin(sleep(most)));
        }
        match &mut self.left {
            Some(left) => left.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }

    /// Whether the connection has sent more than the head of a request, but no request. The bytes
    /// that arrive with the end of a head may be its body.
    fn is_flooded(&self) -> bool {
        self.brought > HEAD_BYTES && !self.entry.is_busy()
    }

    /// Counts bytes that arrived while no request was in progress.
    fn note(&mut self, bytes: usize) {
        if bytes == 0 || self.entry.is_busy() {
            return;
        }
        if self.brought == 0 && self.seen > 0 {
            // Another request begins.
            self.left = Some(Box::pin(sleep(self.patience.head)));
        }
        self.brought = self.brought.saturating_add(bytes);
    }

    /// The result of a write, which is an error if the write has waited for too long.
    fn written(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            // A client that reads its answer is not idle.
            self.entry.moved();
            self.left = None;
            self.stalled = None;
            if std::mem::take(&mut self.unread) {
                cx.waker().wake_by_ref();
            }
            return written;
        }
        if self.entry.poll_closing(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let most = self.patience.stall;
        let look = LOOK.min(most);
        let stalled = self.stalled.get_or_insert_with(|| Stalled {
            look: Box::pin(sleep(look)),
            until: look,
        });
        while stalled.look.as_mut().poll(cx).is_ready() {
            if stalled.until >= most || self.answers.are_awaited() {
                self.answers.given_up();
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let more = LOOK.min(most.saturating_sub(stalled.until));
            stalled.look = Box::pin(sleep(more));
            stalled.until = stalled.until.saturating_add(more);
        }
        Poll::Pending
    }
}

/// The current time of the clock that [`sleep`] uses.
pub(crate) fn now() -> tokio::time::Instant {
    sleep(Duration::ZERO).deadline()
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
        // A client that does not read gets no further answer. The write that goes on wakes this.
        if self.stalled.is_some() {
            self.unread = true;
            return Poll::Pending;
        }
        // Bytes that have arrived, but are not read yet, may be a request.
        let closing = self.entry.poll_closing(cx).is_ready();
        if closing && self.brought > 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if self.poll_left(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if self.is_flooded() {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Poll::Ready(Ok(())) = &read {
            self.note(buffer.filled().len().saturating_sub(before));
        } else if closing {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        read
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
