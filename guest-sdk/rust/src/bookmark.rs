//! Waiting: the bookmarks of a node, and the reasons why it is called again.

use crate::bindings::node::exports::windlass::node::node as wit;
use crate::bindings::node::windlass::context::context as wit_context;
use crate::data::{from_json, json_payload};
use crate::error::Result;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::time::Duration;

/// An event that a node waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Bookmark {
    name: String,
    matching: Value,
    correlation: Option<String>,
    private: bool,
    auto_burn: bool,
    metadata: Option<Value>,
    expires_ms: Option<u64>,
}

impl Bookmark {
    /// Waits for a stimulus of this name. Resuming the bookmark deletes it.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            matching: Value::Null,
            correlation: None,
            private: false,
            auto_burn: true,
            metadata: None,
            expires_ms: None,
        }
    }

    /// The value that a stimulus has to carry, compared as canonical JSON.
    #[must_use]
    pub fn matching(mut self, value: Value) -> Self {
        self.matching = value;
        self
    }

    /// Only stimuli of this correlation match.
    #[must_use]
    pub fn correlation(mut self, correlation: impl Into<String>) -> Self {
        self.correlation = Some(correlation.into());
        self
    }

    /// Only the token from [`crate::Context::resume_token`] can resume it.
    #[must_use]
    pub fn private(mut self) -> Self {
        self.private = true;
        self
    }

    /// Resuming the bookmark does not delete it.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.auto_burn = false;
        self
    }

    /// Data that is returned unread when the node is called again.
    #[must_use]
    pub fn metadata(mut self, metadata: Value) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// When the wait ends by itself, in milliseconds since 1970.
    #[must_use]
    pub fn expires_at_ms(mut self, instant_ms: u64) -> Self {
        self.expires_ms = Some(instant_ms);
        self
    }

    pub(crate) fn into_wit(self) -> Result<wit::Bookmark> {
        Ok(wit::Bookmark {
            name: self.name,
            match_: Some(json_payload(&self.matching)?),
            correlation: self.correlation,
            private: Some(self.private),
            auto_burn: Some(self.auto_burn),
            metadata: self.metadata.as_ref().map(json_payload).transpose()?,
            expires: self.expires_ms,
        })
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn from_wit(bookmark: wit::Bookmark) -> Result<Self> {
        Ok(Self {
            name: bookmark.name,
            matching: bookmark
                .match_
                .as_ref()
                .map_or(Ok(Value::Null), from_json)?,
            correlation: bookmark.correlation,
            private: bookmark.private.unwrap_or(false),
            auto_burn: bookmark.auto_burn.unwrap_or(true),
            metadata: bookmark.metadata.as_ref().map(from_json).transpose()?,
            expires_ms: bookmark.expires,
        })
    }
}

/// A wait group: resuming one of its bookmarks deletes all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspension {
    /// At least one.
    pub bookmarks: Vec<Bookmark>,
    /// Returned as [`Resumption::state`].
    pub state: Option<Value>,
}

/// Why a node is called again.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// It asked for it, by [`crate::Outcome::again`].
    Again,
    /// A bookmark was resumed.
    Resumed {
        /// Its name.
        bookmark: String,
        /// The input of the resumption.
        input: Value,
        /// The metadata of the bookmark.
        metadata: Option<Value>,
    },
    /// The bookmark of this name expired.
    Expired(String),
    /// It was cancelled and may clean up.
    Cancelled,
    /// A reason that a later host adds.
    Other(String),
}

/// A later call of a node run that suspended or asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Resumption {
    /// The reason.
    pub reason: Reason,
    /// How often the node has been called again, from 1.
    pub phase: u32,
    /// The state that the node returned last.
    pub state: Option<Value>,
}

impl Resumption {
    /// The state in its own type; none if the node returned none.
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        Ok(match &self.state {
            Some(state) => Some(T::deserialize(state)?),
            None => None,
        })
    }

    pub(crate) fn from_wit(call: wit_context::ResumedCall) -> Result<Self> {
        let reason = match call.reason {
            wit_context::Reason::Again => Reason::Again,
            wit_context::Reason::Resumed(resumed) => Reason::Resumed {
                bookmark: resumed.bookmark,
                input: from_json(&resumed.input)?,
                metadata: resumed.metadata.as_ref().map(from_json).transpose()?,
            },
            wit_context::Reason::Expired(bookmark) => Reason::Expired(bookmark),
            wit_context::Reason::Cancelled => Reason::Cancelled,
            wit_context::Reason::Other(other) => Reason::Other(other),
        };
        Ok(Self {
            reason,
            phase: call.phase,
            state: call.state.as_ref().map(from_json).transpose()?,
        })
    }
}

/// The state of a node, as JSON.
pub(crate) fn state(value: impl Serialize) -> Result<Option<Value>> {
    Ok(Some(serde_json::to_value(value)?))
}

/// Whole milliseconds, rounded up so that a wait is never shorter than asked.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
