//! Stimuli, and how they match bookmarks.
//!
//! A stimulus matches a bookmark if their names and their matches are equal. Both sides compute one
//! hash of the two, only in this module, so that matching is one look-up in an index.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use crate::decimal::canonical;
use crate::{Digest, Payload, RunId, ScopeNo, Seq, TraceContext};

/// An event that is sent to the runs that wait for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stimulus {
    /// The name, which is matched exactly.
    pub name: String,
    /// The match, which is compared as canonical JSON.
    pub matches: Value,
    /// Only bookmarks with this correlation; none: all.
    pub correlation: Option<String>,
    /// Only bookmarks of this run, and nothing is started; none: all.
    pub run: Option<RunId>,
    /// The input of the resumed or started runs.
    pub input: Payload,
    /// How it is delivered.
    pub delivery: Delivery,
    /// How long it is buffered if no run waits for it, in milliseconds.
    pub ttl_ms: u64,
    /// The trace in which it is sent: the runs that it starts continue the trace.
    pub trace: Option<TraceContext>,
}

/// How a stimulus is delivered. Numbers are stored: they are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Delivery {
    /// It starts the workflows whose triggers match.
    Start = 0,
    /// It resumes the runs that wait for it.
    Resume = 1,
    /// Both.
    #[default]
    StartAndResume = 2,
    /// Both, and if no run was started or resumed, it is kept until a run waits for it.
    Buffer = 3,
}

impl Delivery {
    /// Every delivery.
    pub const ALL: [Self; 4] = [
        Self::Start,
        Self::Resume,
        Self::StartAndResume,
        Self::Buffer,
    ];

    /// The default of the sender: a stimulus for one run or correlation is buffered.
    pub fn unsaid(narrowed: bool) -> Self {
        if narrowed {
            Self::Buffer
        } else {
            Self::StartAndResume
        }
    }

    /// Whether it may start runs.
    pub fn starts(self) -> bool {
        !matches!(self, Self::Resume)
    }

    /// Whether it may resume runs.
    pub fn resumes(self) -> bool {
        !matches!(self, Self::Start)
    }

    /// Its name in files and in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Resume => "resume",
            Self::StartAndResume => "start-and-resume",
            Self::Buffer => "buffer",
        }
    }

    /// The delivery stored as this number.
    pub fn from_stored(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no delivery.
#[derive(Debug, thiserror::Error)]
#[error("there is no delivery `{0}`")]
pub struct UnknownDelivery(pub String);

impl FromStr for Delivery {
    type Err = UnknownDelivery;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|delivery| delivery.name() == text)
            .ok_or_else(|| UnknownDelivery(text.to_owned()))
    }
}

/// The name of the stimulus that announces an incident. Its match is `null`.
pub const INCIDENT: &str = "incident";

/// The hash by which stimuli and bookmarks match: SHA-256 of the name, a zero byte, and the
/// canonical JSON of the match. A private bookmark adds a zero byte and its node run, so that no
/// stimulus ever has its hash.
pub fn hash(name: &str, matches: &[u8], private: Option<(RunId, Seq)>) -> Digest {
    let mut sha = Sha256::new();
    sha.update(name.as_bytes());
    sha.update([0]);
    sha.update(matches);
    if let Some((run, first)) = private {
        sha.update([0]);
        sha.update(run.0.as_bytes());
        sha.update(first.0.to_be_bytes());
    }
    Digest(sha.finalize().into())
}

/// Identifies one wait of a node among all runs: the subject of resume tokens.
///
/// It is no secret: a token also proves that the host has made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitId(pub [u8; 16]);

impl WaitId {
    /// A phase of an existing node run.
    pub fn of_run(run: RunId, first: Seq, phase: u32) -> Self {
        Self::new(
            b"run",
            &[
                run.0.as_bytes(),
                &first.0.to_be_bytes(),
                &phase.to_be_bytes(),
            ],
        )
    }

    /// A phase of the visit of a node that may be in the future. Visits of a node in one scope are
    /// counted from 1.
    pub fn of_visit(run: RunId, scope: ScopeNo, node: &str, visit: u32, phase: u32) -> Self {
        Self::new(
            b"visit",
            &[
                run.0.as_bytes(),
                &scope.0.to_be_bytes(),
                &visit.to_be_bytes(),
                &phase.to_be_bytes(),
                node.as_bytes(),
            ],
        )
    }

    fn new(kind: &[u8], parts: &[&[u8]]) -> Self {
        let mut sha = Sha256::new();
        sha.update(kind);
        sha.update([0]);
        for part in parts {
            sha.update(part);
        }
        let [bytes @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _]: [u8; 32] =
            sha.finalize().into();
        Self(bytes)
    }

    /// The digest by which the store finds a bookmark of this wait.
    pub fn digest(&self, bookmark: BookmarkTag) -> Digest {
        Digest::of(&[&b"bookmark"[..], &self.0, &bookmark.0].concat())
    }
}

/// Identifies a bookmark of a wait: the beginning of a digest of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BookmarkTag(pub [u8; 8]);

impl BookmarkTag {
    /// The first bookmark of a wait, regardless of its name: for links that are made before the
    /// node has named its bookmarks.
    pub const ANY: Self = Self([0; 8]);

    /// The bookmark of this name.
    pub fn of(name: &str) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = Digest::of(name.as_bytes()).0;
        Self([a, b, c, d, e, f, g, h])
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_hash_tells_everything_apart() {
        let run = |first| Some((RunId(Uuid::nil()), Seq(first)));
        let hashes = [
            hash("a", b"{}", None),
            hash("b", b"{}", None),
            hash("a", b"[]", None),
            hash("a", b"{}", run(1)),
            hash("a", b"{}", run(2)),
        ];
        for (place, one) in hashes.iter().enumerate() {
            assert!(!hashes[..place].contains(one), "{place}");
        }
        assert_eq!(hashes[0], hash("a", b"{}", None));
    }

    #[test]
    fn waits_are_told_apart() {
        let id = |byte| RunId(Uuid::from_bytes([byte; 16]));
        let visit = |run, scope, node, visit, phase| {
            WaitId::of_visit(id(run), ScopeNo(scope), node, visit, phase)
        };
        let waits = [
            WaitId::of_run(id(1), Seq(1), 0),
            WaitId::of_run(id(2), Seq(1), 0),
            WaitId::of_run(id(1), Seq(2), 0),
            WaitId::of_run(id(1), Seq(1), 1),
            visit(1, 1, "a", 1, 0),
            visit(2, 1, "a", 1, 0),
            visit(1, 2, "a", 1, 0),
            visit(1, 1, "b", 1, 0),
            visit(1, 1, "a", 2, 0),
            visit(1, 1, "a", 1, 1),
        ];
        let tags = [BookmarkTag::ANY, BookmarkTag::of("a"), BookmarkTag::of("b")];
        let digests: Vec<_> = waits
            .iter()
            .flat_map(|wait| tags.map(|tag| wait.digest(tag)))
            .collect();
        for (place, one) in digests.iter().enumerate() {
            assert!(!digests[..place].contains(one), "{place}");
        }
        assert_eq!(waits[0], WaitId::of_run(id(1), Seq(1), 0));
    }

    #[test]
    fn names_of_deliveries_are_read_back() {
        for delivery in Delivery::ALL {
            assert_eq!(delivery.name().parse::<Delivery>().unwrap(), delivery);
            assert_eq!(Delivery::from_stored(delivery as u8), Some(delivery));
        }
        assert!("never".parse::<Delivery>().is_err());
    }
}
