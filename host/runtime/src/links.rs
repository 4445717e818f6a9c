//! Links and tokens that resume runs.

use std::sync::Arc;

use windlass_engine::{Graph, RunState, Visit};
use windlass_keys::link::{self, Target};
use windlass_keys::{Keys, KeysError};
use windlass_model::stimulus::{BookmarkTag, WaitId};
use windlass_model::{RunId, Seq};
use windlass_plugins::ResumeTokens;

/// Makes resume tokens with the newest key of a keyring, and links with them.
pub struct Links {
    keys: Arc<Keys>,
    base: String,
}

impl Links {
    /// Links begin with `base`: a URL without a slash at its end, or nothing.
    pub fn new(keys: Arc<Keys>, base: impl Into<String>) -> Self {
        let base = base.into();
        Self { keys, base }
    }

    /// Links of a process without a stored keyring: they are invalid after the process ends.
    pub fn of_test() -> Self {
        let keys = Keys::fixed(windlass_keys::Keyring::random());
        Self::new(Arc::new(keys), "")
    }

    /// The keyring.
    pub fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// The token for a target.
    ///
    /// # Errors
    ///
    /// The keyring cannot be read.
    pub fn token(&self, target: &Target) -> Result<String, KeysError> {
        Ok(link::token(self.keys.ring()?.newest(), target))
    }

    /// The link for a target.
    ///
    /// # Errors
    ///
    /// As [`Self::token`].
    pub fn link(&self, target: &Target) -> Result<String, KeysError> {
        Ok(format!("{}/resume/{}", self.base, self.token(target)?))
    }
}

impl ResumeTokens for Links {
    fn token(&self, wait: WaitId, bookmark: &str) -> Option<String> {
        let target = Target::Wait(wait, BookmarkTag::of(bookmark));
        let token = Links::token(self, &target);
        token
            .inspect_err(|error| tracing::error!(%error, "no resume token can be made"))
            .ok()
    }
}

/// A wait, and whether links for it may have been made before the node named its bookmarks.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) id: WaitId,
    pub(crate) linked: bool,
}

impl Wait {
    /// The wait of a node run in a phase.
    pub(crate) fn of(id: RunId, (first, phase): (Seq, u32), visit: Option<(&str, Visit)>) -> Self {
        let linked =
            visit.map(|(node, visit)| WaitId::of_visit(id, visit.scope, node, visit.visit, phase));
        Self {
            id: linked.unwrap_or_else(|| WaitId::of_run(id, first, phase)),
            linked: linked.is_some(),
        }
    }

    /// As `of`, for a node run in a state.
    pub(crate) fn of_run(
        id: RunId,
        graph: &Graph,
        state: &RunState,
        first: Seq,
        phase: u32,
    ) -> Self {
        let visit = state.visit_of_run(first);
        let visit = visit.and_then(|(node, visit)| Some((&*graph.node(node)?.name, visit)));
        Self::of(id, (first, phase), visit)
    }

    /// The digest by which the store finds the bookmark at this position of the wait.
    pub(crate) fn bookmark(&self, at: usize, name: &str) -> windlass_model::Digest {
        self.id.digest(match (self.linked, at) {
            (true, 0) => BookmarkTag::ANY,
            _ => BookmarkTag::of(name),
        })
    }
}
