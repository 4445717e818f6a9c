//! `wasi:io/poll`: the waits of WASI, by which guests sleep.
//!
//! A call that waits gives its turn back, as it does in a request: others would stand behind it until
//! their deadlines.

use std::pin::pin;
use std::task::Poll;

use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi_io::bindings::wasi::io::poll::{self, Host, HostPollable};

use crate::offer::guest::{Guest, Ongoing};

/// A guest that may wait.
struct Waiter<'a>(&'a mut Guest);

struct HasWaiter;

impl HasData for HasWaiter {
    type Data<'a> = Waiter<'a>;
}

/// Links the interface in place of the one that is there.
pub(super) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let linked = poll::add_to_linker::<_, HasWaiter>(linker, |guest| Waiter(guest));
    linker.allow_shadowing(false);
    linked
}

/// Does work that may wait. Without a wait the call keeps its turn, and its time counts.
async fn waiting<T>(call: Option<&Ongoing>, work: impl Future<Output = T> + Send) -> T {
    let mut work = pin!(work);
    let begun = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
    match begun {
        Poll::Ready(done) => done,
        Poll::Pending => {
            if let Some(call) = call {
                call.pause();
            }
            work.await
        }
    }
}

impl Host for Waiter<'_> {
    async fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        let (table, call) = self.0.resources();
        waiting(call, table.poll(pollables)).await
    }
}

impl HostPollable for Waiter<'_> {
    async fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        self.0.resources().0.ready(pollable).await
    }

    async fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        let (table, call) = self.0.resources();
        waiting(call, table.block(pollable)).await
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        HostPollable::drop(self.0.resources().0, pollable)
    }
}
