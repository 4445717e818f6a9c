//! The permissions and limits of a component: the operator's settings, and the proofs that they
//! apply to it.

pub(crate) mod address;
pub(crate) mod code_key;
pub(crate) mod destination;
pub(crate) mod proof;
pub(crate) mod secrets;
pub(crate) mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use windlass_model::Digest;

use crate::codes;
use crate::description::Description;
use crate::error::Error;
use code_key::CodeKey;
use proof::{Proof, Standing};
use settings::{Grants, Limits, Settings};

/// The part of the rules that an operator changes while the host runs.
pub(crate) struct Table {
    /// The limits of a call, unless the plugin's own settings change them.
    pub(crate) limits: Limits,
    /// By package name.
    pub(crate) settings: BTreeMap<String, Settings>,
    /// How often it was changed. A plugin that was made before the last change is made again.
    pub(crate) generation: u64,
}

/// The rules by which components get permissions and limits.
pub(crate) struct Rules {
    /// Permissions and limits, as they are now.
    pub(crate) table: ArcSwap<Table>,
    /// The most that the memory limit of a plugin may be, in bytes.
    pub(crate) max_memory_bytes: usize,
    /// The components of the library that came with the host.
    pub(crate) library: BTreeSet<Digest>,
    /// Components, or files that components are made of, that are never loaded or called.
    pub(crate) denied: BTreeSet<Digest>,
    /// The components in denied files, as far as this process has seen the files.
    pub(crate) made_of_denied: Mutex<FxHashSet<Digest>>,
    /// The directory of notes about earlier proofs.
    pub(crate) notes_dir: PathBuf,
    /// The key that authenticates this user's notes and compiled code.
    pub(crate) key: CodeKey,
}

impl Table {
    /// The most memory that a call of any package can use.
    pub(crate) fn most_memory(&self) -> u64 {
        let most = self.all_limits().map(Limits::most_memory);
        most.fold(0, u64::max)
    }

    /// The largest value of a limit over all packages.
    pub(crate) fn most(&self, of: impl Fn(&Limits) -> usize) -> usize {
        self.all_limits().map(of).fold(0, usize::max)
    }

    fn all_limits(&self) -> impl Iterator<Item = &Limits> {
        let own = self.settings.values();
        let own = own.filter_map(|settings| settings.limits.as_ref());
        own.chain([&self.limits])
    }
}

impl Rules {
    /// The most memory that a call of any package can use.
    pub(crate) fn most_memory(&self) -> u64 {
        self.table.load().most_memory()
    }

    /// The largest value of a limit over all packages.
    pub(crate) fn most(&self, of: impl Fn(&Limits) -> usize) -> usize {
        self.table.load().most(of)
    }

    /// The table as it is now.
    pub(crate) fn now(&self) -> Arc<Table> {
        self.table.load_full()
    }

    /// Refuses denied components.
    pub(crate) fn permit(&self, digest: &Digest, subject: &str) -> Result<(), Error> {
        if !self.is_denied(digest) {
            return Ok(());
        }
        let message = format!("the component {digest} is denied by `deny` in [plugins]");
        Err(Error::new(codes::DENIED, subject, message))
    }

    pub(crate) fn is_denied(&self, digest: &Digest) -> bool {
        self.denied.contains(digest) || self.made_of_denied.lock().contains(digest)
    }

    /// Denies the component in a denied file: runs, imports and the store of a cluster know it by
    /// its own digest.
    pub(crate) fn deny(&self, component: Digest) {
        self.made_of_denied.lock().insert(component);
    }
}

/// The limits of a component: only a proved component gets more than the default; every component
/// of the name gets less.
pub(crate) fn limits(rules: &Rules, settings: &Settings, standing: &Standing) -> Limits {
    let table = rules.now();
    let default = &table.limits;
    let mut limits = match (&settings.limits, standing) {
        (None, _) => default.clone(),
        (Some(own), Standing::Proved(_)) => own.clone(),
        (Some(own), _) => own.least(default),
    };
    limits.memory_bytes = limits.memory_bytes.min(rules.max_memory_bytes);
    limits
}

/// The capabilities that a proved component both requests and is granted. A consumer has no place
/// for requests: its imports count. The consumers of the library need no grant.
pub(crate) fn grants(
    settings: &Settings,
    standing: &Standing,
    description: &Description,
    imports_http: bool,
) -> Grants {
    let Standing::Proved(proof) = standing else {
        return Grants::default();
    };
    let asks = |capability: &str| {
        let listed = |list: &Vec<String>| list.iter().any(|c| c == capability);
        description.consumer.is_some()
            || description
                .nodes
                .iter()
                .any(|node| listed(&node.capabilities))
    };
    let given = &settings.grants;
    let http = asks("http") && imports_http;
    Grants {
        http: if http { given.http.clone() } else { Vec::new() },
        secrets: if http && asks("secrets") {
            given.secrets.clone()
        } else {
            Vec::new()
        },
        events: given.events && asks("events"),
        consumer: given.consumer || *proof == Proof::Library,
    }
}
