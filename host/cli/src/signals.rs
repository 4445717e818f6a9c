//! Signals that end the process, and the one that makes a host read its settings again.

use std::future::Future;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// Receives SIGINT and SIGTERM, which otherwise kill the process.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// Receives SIGHUP, which otherwise kills the process. Must be called inside of tokio.
pub(crate) fn hangups() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}

impl Signals {
    /// Installs the handlers. Must be called inside of tokio.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Awaits a future, unless a signal comes first.
    pub(crate) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.next() => None,
        }
    }

    /// Ends the process at the next signal, in any state.
    pub(crate) fn end_at_next(self) -> io::Result<()> {
        self.at_next(|| std::process::exit(i32::from(Exit::Interrupted.number())))
    }

    /// The thread has its own tokio: the threads that end the process may wait for a store that
    /// does not answer, after the first tokio is gone.
    fn at_next(mut self, act: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new().name("signals".to_owned());
        thread.spawn(move || {
            tokio.block_on(self.next());
            act();
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn the_next_signal_is_heard_when_no_listener_is_left() {
        let tokio = tokio::runtime::Runtime::new().unwrap();
        let signals = {
            let _inside = tokio.enter();
            Signals::new().unwrap()
        };
        let (tell, told) = channel();
        signals.at_next(move || tell.send(()).unwrap()).unwrap();
        drop(tokio);
        kill_process(getpid(), Signal::TERM).unwrap();
        told.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}
