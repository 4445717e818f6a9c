//! Commands carried out by a running host, over HTTP.
//!
//! Where work is done is decided once, by [`Backend`], before any command begins. What a host
//! answers is shown as the same command shows it when it looks into a store itself.

mod commands;
mod server;

pub(crate) use server::Server;

use crate::app::Context;
use crate::commands::Command;
use crate::exit::Exit;

/// Where commands do their work.
pub(crate) enum Backend {
    /// In the store, by this process.
    Store,
    /// In a host that runs, which is asked.
    Server(Server),
}

impl Backend {
    /// Does a command.
    pub(crate) fn carry_out(self, command: Command, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::Store => command.run(context),
            Self::Server(server) => commands::run(command, context, &server),
        }
    }
}
