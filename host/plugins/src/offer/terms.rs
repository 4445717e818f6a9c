//! The terms of the calls of a plugin.

use std::sync::Arc;

use crate::codes;
use crate::grant::Table;
use crate::grant::proof::Standing;
use crate::grant::settings::{Grants, Limits};
use crate::hold::lane::Track;

/// The terms of every instance of a plugin.
pub(crate) struct Terms {
    pub(crate) name: String,
    pub(crate) limits: Limits,
    pub(crate) grants: Grants,
    pub(crate) standing: Standing,
    pub(crate) track: Arc<Track>,
    /// The rules that they follow; none for a call before the package is known.
    pub(crate) rules: Option<Arc<Table>>,
}

impl Terms {
    /// Whether these rules lead to the same terms.
    pub(crate) fn follow(&self, now: &Table) -> bool {
        let package = self.package();
        self.rules.as_ref().is_some_and(|rules| {
            rules.generation == now.generation
                || rules.limits == now.limits
                    && rules.settings.get(package) == now.settings.get(package)
        })
    }

    /// The name without the version.
    pub(crate) fn package(&self) -> &str {
        self.name.split('@').next().unwrap_or_default()
    }

    /// Why nothing is granted although settings of this name grant something.
    pub(crate) fn advice(&self) -> Option<String> {
        (self.standing == Standing::Unproved).then(|| {
            let code = codes::UNPROVED;
            let name = &self.name;
            format!("nothing proves that the grants of its name are for this {name} [{code}]")
        })
    }
}
