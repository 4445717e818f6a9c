//! Reports about compilations that take long.

use std::sync::Arc;
use std::time::Duration;

/// Reports about compilations that take longer than `after`: once when the time is over, and once
/// at the end.
#[derive(Clone)]
pub struct CompileReport {
    /// The time without a report.
    pub after: Duration,
    /// Receives the reports, on threads that load plugins.
    pub tell: Arc<dyn Fn(&Compiling<'_>) + Send + Sync>,
}

impl std::fmt::Debug for CompileReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompileReport")
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

/// A compilation that takes long.
#[derive(Clone, Copy, Debug)]
pub struct Compiling<'a> {
    /// The file, or the digest of a component that is loaded from the store.
    pub subject: &'a str,
    /// The size of the component, in bytes.
    pub bytes: usize,
    /// How long it took; none while it goes on.
    pub took: Option<Duration>,
}
