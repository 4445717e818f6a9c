//! Commands carried out by a running host, over HTTP.
//!
//! Where work is done is decided once, by [`Backend`], before any command begins. What a host
//! answers is shown by the same functions that show what is found in a store.

mod asking;
mod instances;
mod plugins;
mod server;
mod stimuli;
mod triggers;
mod workflows;

pub(crate) use server::{Server, mistakes};

use crate::app::Context;
use crate::codes;
use crate::commands::{Command, lock, workflow};
use crate::error::Expected;
use crate::exit::Exit;
use asking::Asking;

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
            Self::Server(server) => ask(command, context, &server),
        }
    }
}

/// Does a command by asking the host.
fn ask(command: Command, context: &Context, server: &Server) -> anyhow::Result<Exit> {
    let asking = Asking { context, server };
    match command {
        Command::Run(run) => asking.run(run),
        Command::Instance(command) => asking.instance(command),
        Command::Trigger(command) => asking.trigger(command),
        Command::Event(command) => asking.event(command),
        Command::Bookmark(command) => asking.bookmark(command),
        Command::DeadLetter(command) => asking.dead_letter(command),
        // Files are read here, whoever runs them.
        Command::Workflow(
            local @ (workflow::Command::Validate(_) | workflow::Command::Graph(_)),
        ) => local.run(context),
        Command::Workflow(command) => asking.workflow(command),
        Command::Lock(lock::Command::List(list)) => asking.locks(&list),
        Command::Plugin(command) => asking.plugin(command),
        // These need no store.
        local @ (Command::Explain(_)
        | Command::Completions(_)
        | Command::Config(_)
        | Command::Trust(_)
        | Command::Keys(_)) => local.run(context),
        Command::Serve(_) | Command::Store(_) | Command::Doctor(_) => Err(not_there().into()),
    }
}

fn not_there() -> Expected {
    Expected::new(
        codes::NOT_BY_SERVER,
        "A host cannot be asked for this command",
    )
    .help("Leave `--server` out (and unset $WINDLASS_SERVER) to do it here, on the store.")
}
