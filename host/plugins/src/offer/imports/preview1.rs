//! `windlass:preview1`: what the adapter of WASI preview 1 (`load/preview1.wat`) needs.

use std::time::Duration;

use wasmtime_wasi::I32Exit;

use crate::bindings::host::windlass::preview1::{process, sleep};
use crate::offer::guest::Guest;
use crate::offer::printed::Stream;

impl process::Host for Guest {
    fn print(&mut self, to: process::Stream, bytes: Vec<u8>) {
        let stream = match to {
            process::Stream::Stdout => Stream::Stdout,
            process::Stream::Stderr => Stream::Stderr,
        };
        self.print(stream, &bytes);
    }

    fn exit(&mut self, status: u32) -> wasmtime::Result<()> {
        Err(I32Exit(status.cast_signed()).into())
    }
}

impl sleep::Host for Guest {
    #[expect(
        clippy::disallowed_methods,
        reason = "the guest waits in real time, as by the clocks of WASI"
    )]
    async fn sleep(&mut self, nanoseconds: u64) {
        if let Some(call) = &self.call {
            call.pause();
        }
        // The end of the call drops this wait.
        tokio::time::sleep(Duration::from_nanos(nanoseconds)).await;
    }
}
