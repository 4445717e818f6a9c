//! What is behind a hook: which triggers a request may start, how it is verified, what its run
//! gets and what its sender is answered.
//!
//! A plain trigger is bound to a stimulus, and the store starts it. A direct trigger verifies,
//! answers, or has parameters in its path ([`is_direct`](windlass_model::http::is_direct)): no
//! stimulus has its hash, so the server alone starts it, after the checks that it asks for.
//!
//! Bounds: one call looks into the store twice at most before its body is read. What triggers
//! say is kept by the digest of their definition, which never changes, for [`KNOWN`] triggers.

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

pub(crate) use find::{Direct, Found, find};
pub(crate) use input::Input;
pub(crate) use respond::{answer, node_of};
pub(crate) use verifying::accepted;

/// Plain hooks and direct triggers that are known at once: only those that are published come in.
const KNOWN: usize = 4096;

/// The least time between two log lines about secrets that cannot be used.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// What is known of hooks that were called before.
#[derive(Default)]
pub(crate) struct Hooks {
    plain: Mutex<HashSet<Digest>>,
    rules: Mutex<HashMap<(Digest, String), Arc<Rules>>>,
    /// When a secret that cannot be used was last logged, by the monotonic clock.
    logged: Mutex<Option<Duration>>,
}

/// What a direct trigger says.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) verify: Option<Verify>,
    pub(crate) respond: Respond,
}

impl Hooks {
    /// Whether a plain hook has started workflows, and is not looked up again. The delivery
    /// decides what a call does, so a hook that is here by mistake costs a transaction, and is
    /// then forgotten.
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

    /// Whether a secret that cannot be used is logged now: strangers may call a hook as often as
    /// they like.
    fn may_log(&self, now: Duration) -> bool {
        let mut logged = self.logged.lock();
        let is_due = logged.is_none_or(|last| now.saturating_sub(last) >= LOG_EVERY);
        if is_due {
            *logged = Some(now);
        }
        is_due
    }
}
