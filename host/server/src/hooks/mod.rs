//! The handling of a hook: which triggers a request may start, how it is verified, the input of its
//! run and the answer to its sender.
//!
//! A plain trigger is bound to a stimulus, and the store starts it. A direct trigger verifies,
//! answers, has parameters in its path, or makes the input of the request ([`is_direct`](windlass_model::http::is_direct)): no
//! stimulus has its hash, so only the server starts it, after the checks that the trigger demands.
//!
//! A hook that starts one run and resumes none is cached for an edition of the published workflows
//! ([`Edition`]), and its calls read nothing: the transaction of the run checks the edition. A call that
//! the cache would refuse is looked up anew, so the cache decides nothing but where a run starts.
//!
//! Bounds: any other call of a hook reads the store twice at most before its body is read, and one of an
//! unknown hook twelve times, since its answer names the methods of the path. The rules of triggers
//! are cached by the digest of their definition, which never changes, for [`KNOWN`] triggers.

mod find;
mod input;
mod respond;
mod verifying;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use windlass_model::Digest;
use windlass_model::definition::StartTrigger;
use windlass_model::http::{Respond, Verify};
use windlass_runtime::operations::OfEdition;
use windlass_store::Store;
use windlass_store::published::Edition;

pub(crate) use find::{Direct, Found, find, methods};
pub(crate) use input::request;
pub(crate) use respond::{answer, node_of};
pub(crate) use verifying::accepted;

/// The most cached plain hooks and direct triggers: only published ones are cached.
const KNOWN: usize = 4096;

/// The longest path, in bytes, of a hook that is cached with what it starts.
const KNOWN_BYTES: usize = 256;

/// The shortest time between two log lines about unusable secrets.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// The cache of hooks that were called before.
#[derive(Default)]
pub(crate) struct Hooks {
    plain: Mutex<HashSet<Digest>>,
    rules: Mutex<HashMap<(Digest, String), Arc<Rules>>>,
    /// The hooks that start one run and resume none, by method and path.
    known: OfEdition<String, Arc<Found>>,
    /// The time at which an unusable secret was last logged, by the monotonic clock.
    logged: Mutex<Option<Duration>>,
}

/// The key of a hook whose path is short.
fn key(method: &str, path: &str) -> Option<String> {
    (path.len() <= KNOWN_BYTES).then(|| format!("{method} {path}"))
}

/// The rules of a direct trigger.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) verify: Option<Verify>,
    pub(crate) respond: Respond,
}

impl Hooks {
    /// What a request starts, if it starts one run, and is known to since this edition.
    pub(crate) fn known(
        &self,
        store: &dyn Store,
        method: &str,
        path: &str,
    ) -> Option<(Arc<Found>, Edition)> {
        self.known.get(store, key(method, path)?.as_str())
    }

    fn note_known(&self, edition: Option<Edition>, method: &str, path: &str, found: Found) {
        if let Some(key) = key(method, path) {
            self.known.keep(edition, key, Arc::new(found));
        }
    }

    /// Whether a plain hook is cached as one that starts workflows. Delivering the stimulus decides
    /// what a call does, so a wrong entry costs one transaction, and is then removed.
    fn has(&self, hook: Digest) -> bool {
        self.plain.lock().contains(&hook)
    }

    pub(crate) fn note(&self, hook: Digest) {
        let mut plain = self.plain.lock();
        if plain.len() >= KNOWN && !plain.contains(&hook) {
            plain.clear();
        }
        plain.insert(hook);
    }

    pub(crate) fn forget(&self, hook: Digest) {
        self.plain.lock().remove(&hook);
    }

    fn rules(&self, definition: Digest, key: &str) -> Option<Arc<Rules>> {
        let rules = self.rules.lock();
        rules.get(&(definition, key.to_owned())).map(Arc::clone)
    }

    fn note_rules(
        &self,
        definition: Digest,
        key: &str,
        trigger: &StartTrigger,
    ) -> Option<Arc<Rules>> {
        let StartTrigger::Http {
            verify, respond, ..
        } = trigger
        else {
            return None;
        };
        let noted = Arc::new(Rules {
            verify: verify.clone(),
            respond: respond.clone(),
        });
        let mut rules = self.rules.lock();
        if rules.len() >= KNOWN {
            rules.clear();
        }
        rules.insert((definition, key.to_owned()), Arc::clone(&noted));
        Some(noted)
    }

    /// Whether an unusable secret is logged now: strangers may call a hook at any rate.
    fn may_log(&self, now: Duration) -> bool {
        let mut logged = self.logged.lock();
        let is_due = logged.is_none_or(|last| now.saturating_sub(last) >= LOG_EVERY);
        if is_due {
            *logged = Some(now);
        }
        is_due
    }
}
