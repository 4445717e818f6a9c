//! Scopes of a run besides its root.

use std::collections::BTreeMap;

use windlass_model::{Payload, ScopeNo};

use super::data::StoredRun;
use crate::write::Commit;

/// The initial variables of a run.
pub(super) fn root_vars(vars: &[(String, Payload)]) -> BTreeMap<(ScopeNo, String), Payload> {
    let root = |(name, value): &(String, Payload)| ((ScopeNo::ROOT, name.clone()), value.clone());
    vars.iter().map(root).collect()
}

impl StoredRun {
    /// Writes a step's changes of scopes, variables and items.
    pub(super) fn put_scoped(&mut self, commit: &Commit) {
        for (scope, name, value) in &commit.vars {
            self.vars.insert((*scope, name.clone()), value.clone());
        }
        for (scope, state) in &commit.scopes {
            match state {
                Some(state) => {
                    self.scopes.insert(*scope, state.clone());
                }
                None => {
                    self.scopes.remove(scope);
                    self.vars.retain(|(of, _), _| of != scope);
                }
            }
        }
        for item in &commit.items {
            let place = (item.list, item.index);
            self.items.insert(place, item.output.clone());
        }
        for list in &commit.lists_done {
            self.items.retain(|(of, _), _| of != list);
        }
    }
}
