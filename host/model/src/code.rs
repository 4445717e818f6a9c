//! Codes of errors: each has a page that `windlass explain` shows.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Names an error for people and scripts, like `WL-D004`. The letter names the area: `C`
/// configuration, `D` definition, `L` locks, `P` plugin, `R` run, `S` store, `U` usage, `X` bug.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(Cow<'static, str>);

impl Code {
    /// A code known at compile time.
    pub const fn new(code: &'static str) -> Self {
        Self(Cow::Borrowed(code))
    }

    /// A code that was read from a text.
    pub fn read(code: impl Into<String>) -> Self {
        Self(Cow::Owned(code.into()))
    }

    /// Like `WL-D004`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
