//! The handlers of the API in this process, on a store.
//!
//! A command that only reads needs no membership of the store, no plugin and no key: the process
//! makes each of those when a request asks for it ([`CommandResources`]).

use std::sync::Arc;

use reqwest::{Method, Url};
use url::Position;
use windlass_server::InProcess;
use windlass_store::Store;

use super::{Answer, Content};
use crate::output::Output;
use crate::wire::{CommandResources, Machine};

/// The base of all URLs. The handlers read the path only.
const BASE: &str = "http://localhost/";

/// The handlers of the API in this process, on a store.
pub(crate) struct Process {
    base: Url,
    handlers: InProcess,
    store: Arc<dyn Store>,
    machine: Machine,
}

impl Process {
    pub(super) fn new(
        machine: Machine,
        store: Arc<dyn Store>,
        output: Output,
    ) -> anyhow::Result<Self> {
        let setup = Arc::clone(&machine.setup);
        let resources = Arc::new(CommandResources::new(setup, Arc::clone(&store), output));
        let clock = Arc::clone(&machine.clock);
        Ok(Self {
            base: BASE.parse()?,
            handlers: InProcess::new(Arc::clone(&store), clock, resources),
            store,
            machine,
        })
    }

    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    pub(super) fn send(
        &self,
        method: Method,
        url: &Url,
        content: Content,
    ) -> anyhow::Result<Answer> {
        let (target, body) = (
            &url[Position::BeforePath..],
            content.body.unwrap_or_default(),
        );
        let answering = self.handlers.answer(method, target, content.headers, body);
        let answer = self.machine.tokio.block_on(answering)?;
        Ok(Answer {
            status: answer.status,
            body: answer.body,
            cause: answer.cause,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.store.close();
    }
}
