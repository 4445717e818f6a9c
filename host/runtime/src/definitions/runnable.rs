//! Whether the published workflows can run on the plugins of this process.
//!
//! A workflow stays published when a plugin that it uses is removed or replaced. The change of the
//! plugin is the moment at which an operator can still act, before a start fails.

use std::collections::BTreeMap;

use windlass_model::Diagnostic;
use windlass_store::published::PublicationQuery;

use super::Definitions;
use crate::catalog::cannot_run;
use crate::error::Error;

/// The published workflows that one look reads.
const LOOKED_AT: usize = 1_000;

/// The workflows in one read.
const PAGE: u32 = 200;

/// A published workflow that can run no more, or that can run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runnable {
    /// Its name.
    pub workflow: String,
    /// Its published version.
    pub version: u32,
    /// Why its runs cannot begin: the first mistake. None: they can.
    pub mistake: Option<Diagnostic>,
}

/// The workflows that could not run at the last look, with the messages of their mistakes.
pub(super) type CannotRun = BTreeMap<String, String>;

impl Definitions {
    /// What has changed since the last call, of the first 1,000 workflows by name. Nothing while
    /// plugins wait for the compiler: a plugin that is compiled is not missing. Blocks.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub fn changed_runnable(&self) -> Result<Vec<Runnable>, Error> {
        if !self.plugins.awaited().is_empty() {
            return Ok(Vec::new());
        }
        let mut known = self.cannot_run.lock();
        let (mut now, mut changed) = (CannotRun::new(), Vec::new());
        let (mut after, mut left) = (None, LOOKED_AT);
        loop {
            let page = self.store.publications(&PublicationQuery {
                after,
                limit: PAGE.min(u32::try_from(left).unwrap_or(PAGE)),
                ..PublicationQuery::default()
            })?;
            left = left.saturating_sub(page.len());
            after = page.last().map(|row| row.name.clone());
            let is_last = page.len() < PAGE as usize || left == 0;
            for row in page {
                let stored = self.store.definition(row.definition)?;
                let mistakes = stored.map(|stored| cannot_run(&stored, &self.plugins));
                let mistake = mistakes.unwrap_or_default().into_iter().next();
                let message = mistake.as_ref().map(|mistake| &mistake.message);
                if known.get(&row.name) != message {
                    changed.push(Runnable {
                        workflow: row.name.clone(),
                        version: row.version,
                        mistake: mistake.clone(),
                    });
                }
                if let Some(message) = message {
                    now.insert(row.name, message.clone());
                }
            }
            if is_last {
                break;
            }
        }
        *known = now;
        Ok(changed)
    }
}
