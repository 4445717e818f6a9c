//! Asks a plugin to check the configurations of nodes before anything runs.
//!
//! The check is an optional export. A plugin without it accepts every configuration that satisfies
//! its schema. The calls have no capabilities, and all calls for one workflow and plugin share one
//! instance and one deadline.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, InstancePre, TypedFunc};
use windlass_model::{Class, Failure, Payload, Position};

use crate::bindings::{check as wit, node};
use crate::call::alone::alone;
use crate::call::plugin::Plugin;
use crate::clean;
use crate::codes;
use crate::grant::secrets::Secrets;
use crate::grant::settings::Limits;
use crate::offer::guest::Guest;

/// The time limit of all checks of one workflow by one plugin.
const DEADLINE: Duration = Duration::from_secs(3);
/// Findings of one configuration that are kept.
const MAX_FINDINGS: usize = 64;
/// Findings of one plugin about one workflow that are kept, each of at most 6 KiB.
const MAX_IN_ALL: usize = 256;
/// Bytes that one call may return.
const HANDED_BYTES: usize = 1024 * 1024;
/// Bytes of a JSON pointer, and of the name of a source text.
const MAX_POINTER: usize = 1024;

/// The configuration of one node, before anything runs.
#[derive(Clone, Debug)]
pub struct Configured {
    /// The node type, as `package/name`.
    pub node_type: Arc<str>,
    /// The `with` of the node: a JSON object without the members that contain expressions.
    pub config: serde_json::Value,
    /// JSON pointers to these members.
    pub unknown: Vec<String>,
}

/// What a plugin says about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The workflow is refused; otherwise the finding is a warning.
    pub is_error: bool,
    /// The message, for people.
    pub message: String,
    /// A JSON pointer to the member of the configuration; empty: the whole configuration.
    pub pointer: String,
    /// The position inside that member, if it is a text.
    pub position: Option<Position>,
}

impl Plugin {
    /// Whether the plugin exports a check.
    pub fn checks(&self) -> bool {
        self.entries.check.is_some()
    }

    /// The findings about each of these configurations, in their order. If the check crashes,
    /// exceeds a limit, takes longer than 3 s or gets no memory in that time, there are fewer
    /// findings, and the failure. Blocks.
    pub fn check(&self, configured: Vec<Configured>) -> (Vec<Vec<Finding>>, Option<Failure>) {
        let Some(index) = self.entries.check else {
            return (vec![Vec::new(); configured.len()], None);
        };
        let (pre, found) = (self.pre.clone(), Arc::new(Mutex::new(Vec::new())));
        let calls = Calls {
            index,
            configured,
            room: MAX_IN_ALL,
            secrets: self.shared.offer.secrets.clone(),
            found: Arc::clone(&found),
        };
        let limits = Limits {
            deadline: DEADLINE,
            ..self.terms.limits.clone()
        };
        let run = || {
            alone(&self.shared, self.name(), limits, DEADLINE, move |store| {
                Box::pin(calls.make(store, pre))
            })
        };
        // A thread of its own: the caller's may be one that must not block on the runtime.
        let ended = std::thread::scope(|scope| scope.spawn(run).join());
        let failure = match ended {
            Ok(ended) => ended.err(),
            Err(_) => {
                let message = "the host failed while it called the check";
                Some(Failure::new(Class::Permanent, codes::HOST, message))
            }
        };
        (std::mem::take(&mut *found.lock()), failure)
    }
}

/// A finding that is safe to show.
fn finding(level: wit::FindingLevel, secrets: &Secrets) -> Finding {
    let (is_error, finding) = match level {
        wit::FindingLevel::Error(finding) => (true, finding),
        wit::FindingLevel::Warning(finding) => (false, finding),
    };
    // Secrets go before a text is cut: a part of a secret would not be found.
    let text = |text: &str| clean::message(&secrets.redact(text));
    let short = |name: String| {
        let mut name = secrets.redact(&name);
        name.truncate(name.floor_char_boundary(MAX_POINTER));
        clean::message(&name)
    };
    let position = |position: node::Position| Position {
        source: position.source.map(short),
        line: position.line,
        column: position.column,
    };
    Finding {
        is_error,
        message: text(&finding.message),
        pointer: finding.pointer.map(short).unwrap_or_default(),
        position: finding.position.map(position),
    }
}

/// The calls for one workflow.
struct Calls {
    index: ComponentExportIndex,
    configured: Vec<Configured>,
    /// Findings that are still kept.
    room: usize,
    secrets: Secrets,
    /// One entry for each call that has returned.
    found: Arc<Mutex<Vec<Vec<Finding>>>>,
}

impl Calls {
    async fn make(
        mut self,
        store: &mut Store<Guest>,
        pre: InstancePre<Guest>,
    ) -> wasmtime::Result<()> {
        type Check = TypedFunc<(wit::CheckRequest,), (Vec<wit::FindingLevel>,)>;
        let instance = pre.instantiate_async(&mut *store).await?;
        let check: Check = instance.get_typed_func(&mut *store, self.index)?;
        for one in self.configured {
            let request = wit::CheckRequest {
                node_type: one.node_type,
                config: Payload::of(&one.config).into(),
                unknown: one.unknown,
            };
            store.set_hostcall_fuel(HANDED_BYTES);
            let (found,) = check.call_async(&mut *store, (request,)).await?;
            // Cut here: the findings of thousands of nodes would take any amount of memory.
            let kept = found.into_iter().take(self.room.min(MAX_FINDINGS));
            let kept: Vec<_> = kept.map(|level| finding(level, &self.secrets)).collect();
            self.room -= kept.len();
            self.found.lock().push(kept);
        }
        Ok(())
    }
}
