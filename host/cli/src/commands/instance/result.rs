//! `windlass instance result`.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use clap::Args;
use windlass_store::Store;
use windlass_store::rows::InstanceRow;

use super::find::find;
use crate::app::Context;
use crate::ended;
use crate::exit::Exit;
use crate::wire::Machine;

/// How often a run that is waited for is looked at without a hint.
const LOOK: Duration = Duration::from_millis(500);

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: String,
    /// Wait until the run has ended
    #[arg(long)]
    wait: bool,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let row = find(store.as_ref(), &self.id)?;
        let row = if self.wait { wait(&store, row)? } else { row };
        ended::report(&context.output, store.as_ref(), row, true)
    }
}

/// Waits until somebody has ended the run.
fn wait(store: &Arc<dyn Store>, mut row: InstanceRow) -> anyhow::Result<InstanceRow> {
    let (hint, hinted) = sync_channel(1);
    let wake = move || {
        // A full channel means that a look is due anyway.
        let _ = hint.try_send(());
    };
    let _listener = store.listen(Box::new(wake))?;
    while !row.status.is_final() {
        let _ = hinted.recv_timeout(LOOK);
        match store.instance_by_no(row.no)? {
            Some(now) => row = now,
            None => break,
        }
    }
    Ok(row)
}
