//! Ids and numbers.
//!
//! People and other systems name a run by a UUID. In the store it has a number, because a
//! number takes a third of the bytes in every row and index that contains it. The process that
//! writes runs, triggers and execution rows numbers them from a range that belongs to its
//! incarnation, so the number of a row is known before the row is written, and no two processes
//! choose the same one.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// The number of a run inside one store.
    RunNo(i64)
}
number! {
    /// The number of a batch of operations on runs. Only grows.
    BatchNo(i64)
}
number! {
    /// The number of an execution row inside one store.
    ExecutionNo(i64)
}
number! {
    /// The number of a trigger row inside one store. A row is reused by its successor.
    TriggerNo(i64)
}
number! {
    /// The sequence number of a trigger inside its run. The engine takes it from the
    /// run's state: repeating a step after a crash yields the same one.
    Seq(u64)
}
number! {
    /// One life of one process as a member of a store. Only grows.
    Incarnation(i64)
}
number! {
    /// How often the ownership of the run has changed. Only grows.
    Epoch(i64)
}
number! {
    /// How often the run has been committed. Only grows.
    Version(i64)
}
number! {
    /// How often the trigger has been claimed. Only grows.
    Token(i64)
}
number! {
    /// The number of a bookmark inside one store, in the order of creation.
    BookmarkNo(i64)
}
number! {
    /// The number of a queued or buffered stimulus inside one store, in the order of arrival.
    StimulusNo(i64)
}
number! {
    /// The number of a dead letter inside one store, in the order in which they were dead-lettered.
    LetterNo(i64)
}

number! {
    /// A scope of variables and outputs inside one run: an item of a for-each, or the root.
    /// The engine takes its number from the run's state.
    ScopeNo(u64)
}
number! {
    /// The number of a row of the trigger index, for a trigger of a published workflow. Kept while
    /// the trigger is unchanged.
    BindingNo(i64)
}
number! {
    /// A schedule of a published workflow. Kept over all its versions.
    ScheduleNo(i64)
}
number! {
    /// The number of a request to reload or refresh definitions, in the order of creation.
    UpkeepNo(i64)
}

impl ScopeNo {
    /// The root scope, which every run has.
    pub const ROOT: Self = Self(0);
}

/// Marks the sequence numbers of external triggers.
const EXTERNAL: u64 = 1 << 63;

impl Seq {
    /// The sequence number of an external trigger, which the engine did not make (from people,
    /// control requests, or stimuli that arrived while no node waited): unique in its run,
    /// because its row's number is unique in the store.
    pub fn external(no: TriggerNo) -> Self {
        Self(EXTERNAL | no.0.cast_unsigned())
    }

    /// Whether it is that of an external trigger.
    pub fn is_external(self) -> bool {
        self.0 & EXTERNAL != 0
    }

    /// The row of an external trigger.
    pub fn external_no(self) -> Option<TriggerNo> {
        self.is_external()
            .then(|| TriggerNo((self.0 & !EXTERNAL).cast_signed()))
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

id! {
    /// The id of a run, as clients know it.
    RunId
}
id! {
    /// The id of an external trigger, as its client knows it.
    TriggerId
}
id! {
    /// The id of a stimulus, as its sender knows it.
    StimulusId
}

/// SHA-256 of a component, a definition, a blob or other bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

/// The text is not 64 hexadecimal digits, with or without `sha256:` before them.
#[derive(Debug, thiserror::Error)]
#[error("a digest is `sha256:` and 64 hexadecimal digits")]
pub struct InvalidDigest;

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// 64 lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        use fmt::Write as _;
        self.0
            .iter()
            .fold(String::with_capacity(64), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        if hex.len() != 64 {
            return Err(InvalidDigest);
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| InvalidDigest)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| InvalidDigest)?;
        }
        Ok(Self(digest))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Assigns the numbers that belong to one incarnation: the incarnation in the upper 31 bits, a
/// counter in the lower 32.
///
/// A process that uses up a counter, four thousand million numbers of one kind, gets `None` and has
/// to join again.
#[derive(Debug)]
pub struct Numbers {
    incarnation: Incarnation,
    runs: AtomicU32,
    triggers: AtomicU32,
    executions: AtomicU32,
}

impl Numbers {
    /// The numbers of a member that has just joined.
    pub fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            runs: AtomicU32::new(1),
            triggers: AtomicU32::new(1),
            executions: AtomicU32::new(1),
        }
    }

    /// The incarnation to which the numbers belong.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The next number for a run.
    pub fn run(&self) -> Option<RunNo> {
        self.next(&self.runs).map(RunNo)
    }

    /// The next number for a trigger row.
    pub fn trigger(&self) -> Option<TriggerNo> {
        self.next(&self.triggers).map(TriggerNo)
    }

    /// The next number for an execution row.
    pub fn execution(&self) -> Option<ExecutionNo> {
        self.next(&self.executions).map(ExecutionNo)
    }

    fn next(&self, counter: &AtomicU32) -> Option<i64> {
        // A wrapped counter reaches zero; every later number would be a repetition, so the counter
        // stays there.
        let low = counter
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |value| {
                (value != 0).then(|| value.wrapping_add(1))
            })
            .ok()?;
        Some((self.incarnation.0 << 32) | i64::from(low))
    }
}
