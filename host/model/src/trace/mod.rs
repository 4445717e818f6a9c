//! W3C trace context (<https://www.w3.org/TR/trace-context/>), as the headers `traceparent` and
//! `tracestate` have it.
//!
//! A header is hostile until it is read here. A malformed one is ignored, as the specification
//! demands, so it refuses no request.

mod state;

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::{RunId, Seq};

pub use state::{MAX_MEMBERS, MAX_STATE_BYTES, TRACE_STATE, TraceState};

/// The name of the header, and of the attribute of CloudEvents.
pub const TRACE_PARENT: &str = "traceparent";

/// The length of a context of version `00`, in bytes.
const LEN: usize = 55;

/// The longest text that is read, in bytes: later versions may have further fields.
const MAX_LEN: usize = 512;

/// The flags that are passed on: `sampled`, and `random` of level 2.
const KNOWN_FLAGS: u8 = 0b11;

/// The flag of a trace that its caller records.
const SAMPLED: u8 = 1;

/// The length of the stored form without a state: its version, both ids and the flags.
const STORED: usize = 26;

/// A position in a trace: the trace, and the span that is the parent of what follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The id of the trace; not zero.
    pub trace: [u8; 16],
    /// The id of the span; not zero.
    pub span: [u8; 8],
    /// See [`Self::is_sampled`]; unknown flags are zero.
    pub flags: u8,
    /// What the tracers of the trace tell each other.
    pub state: Option<TraceState>,
}

impl TraceContext {
    /// A sampled position in a trace, without a state.
    pub fn sampled(trace: [u8; 16], span: [u8; 8]) -> Self {
        Self {
            trace,
            span,
            flags: SAMPLED,
            state: None,
        }
    }

    /// The same position with the state in these values of the header `tracestate`.
    pub fn with_state<'v>(self, values: impl IntoIterator<Item = &'v str>) -> Self {
        Self {
            state: TraceState::read(values),
            ..self
        }
    }

    /// Whether the caller records the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The context in a header `traceparent` or an attribute, without a state, if it is well-formed.
    pub fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    /// The stored form, of at most 26 + [`MAX_STATE_BYTES`] bytes: a version, both ids, the flags, and
    /// the state.
    pub fn to_stored(&self) -> Vec<u8> {
        let state = self.state.as_ref().map_or("", TraceState::as_str);
        let mut bytes = Vec::with_capacity(STORED + state.len());
        bytes.push(0);
        bytes.extend(self.trace);
        bytes.extend(self.span);
        bytes.push(self.flags);
        bytes.extend(state.bytes());
        bytes
    }

    /// Reads the stored form. None: it is not one of this version.
    pub fn from_stored(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (trace, rest) = rest.split_first_chunk()?;
        let (span, rest) = rest.split_first_chunk()?;
        let (flags, state) = rest.split_first()?;
        if *version != 0 {
            return None;
        }
        let context = Self::checked(*trace, *span, *flags)?;
        if state.is_empty() {
            return Some(context);
        }
        let state = TraceState::read([std::str::from_utf8(state).ok()?])?;
        Some(Self {
            state: Some(state),
            ..context
        })
    }

    fn checked(trace: [u8; 16], span: [u8; 8], flags: u8) -> Option<Self> {
        let is_zero = trace == [0; 16] || span == [0; 8];
        (!is_zero).then_some(Self {
            trace,
            span,
            flags: flags & KNOWN_FLAGS,
            state: None,
        })
    }
}

/// The header `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trace = u128::from_be_bytes(self.trace);
        let span = u64::from_be_bytes(self.span);
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

/// The text is no trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a trace context looks like `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`")]
pub struct NoTraceContext;

impl FromStr for TraceContext {
    type Err = NoTraceContext;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read(text).ok_or(NoTraceContext)
    }
}

fn read(text: &str) -> Option<TraceContext> {
    let bytes = text.as_bytes();
    if bytes.len() > MAX_LEN {
        return None;
    }
    let (fields, rest) = bytes.split_at_checked(LEN)?;
    let mut fields = fields.split(|byte| *byte == b'-');
    let [version] = hex(fields.next()?)?;
    let trace = hex(fields.next()?)?;
    let span = hex(fields.next()?)?;
    let [flags] = hex(fields.next()?)?;
    let is_whole = match version {
        0 => rest.is_empty(),
        0xff => false,
        _ => rest.is_empty() || rest.starts_with(b"-"),
    };
    if fields.next().is_some() || !is_whole {
        return None;
    }
    TraceContext::checked(trace, span, flags)
}

/// Exactly as many bytes in lower-case hexadecimal digits.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    if digits.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        for digit in pair {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            *byte = *byte << 4 | value;
        }
    }
    Some(bytes)
}

/// The id of the trace of a run that continues no trace: that of the run.
pub fn trace_of(run: RunId) -> [u8; 16] {
    *run.0.as_bytes()
}

/// The id of the trace that begins with an execution after a long wait.
pub fn trace_after(run: RunId, seq: Seq) -> [u8; 16] {
    derived(b"trace", run, &[&seq.0.to_be_bytes()])
}

/// The id of the span of a run as a whole.
pub fn span_of_run(run: RunId) -> [u8; 8] {
    derived(b"run", run, &[])
}

/// The id of the span of an execution: of the run, of the trigger that it executes, and of the
/// attempt. So a step that is repeated after a crash has the same span.
pub fn span_of(run: RunId, seq: Seq, attempt: u32) -> [u8; 8] {
    derived(
        b"execution",
        run,
        &[&seq.0.to_be_bytes(), &attempt.to_be_bytes()],
    )
}

fn derived<const N: usize>(kind: &[u8], run: RunId, parts: &[&[u8]]) -> [u8; N] {
    let mut sha = Sha256::new();
    sha.update(kind);
    sha.update([0]);
    sha.update(run.0.as_bytes());
    for part in parts {
        sha.update(part);
    }
    let mut id = [0; N];
    id.iter_mut()
        .zip(sha.finalize())
        .for_each(|(to, from)| *to = from);
    // No id is zero.
    if let Some(last) = id.last_mut() {
        *last |= 1;
    }
    id
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn check(text: &str, read: Option<&str>) {
        let found = TraceContext::read(text).map(|context| context.to_string());
        assert_eq!(found.as_deref(), read, "{text:?}");
    }

    #[test]
    fn a_context_is_read_as_the_specification_says() {
        check(GOOD, Some(GOOD));
        let with = |from: &str, to: &str| GOOD.replacen(from, to, 1);
        // Flags without a meaning are not passed on.
        check(&with("-01", "-ff"), Some(&with("-01", "-03")));
        check(&with("-01", "-00"), Some(&with("-01", "-00")));
        // A later version may have further fields.
        check(&with("00-", "cc-"), Some(GOOD));
        let longer = format!("{}-what-comes-later", with("00-", "cc-"));
        check(&longer, Some(GOOD));
        for wrong in [
            String::new(),
            "00".to_owned(),
            GOOD.to_uppercase(),
            format!("{GOOD} "),
            format!(" {GOOD}"),
            format!("{GOOD}-00"),
            format!("{}.later", with("00-", "cc-")),
            format!("{}-{}", with("00-", "cc-"), "x".repeat(MAX_LEN)),
            with("00-", "ff-"),
            with("00-", "0-"),
            with("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            with("b7ad6b7169203331", &"0".repeat(16)),
            with("0af7", "0ag7"),
            with("0af7", "0aé"),
            with("-01", "-0x"),
            with("-b7ad", "_b7ad"),
        ] {
            check(&wrong, None);
        }
    }

    #[test]
    fn ids_are_derived_and_differ() {
        let run = |byte| RunId(Uuid::from_bytes([byte; 16]));
        let spans = [
            span_of_run(run(1)),
            span_of_run(run(2)),
            span_of(run(1), Seq(1), 1),
            span_of(run(1), Seq(1), 2),
            span_of(run(1), Seq(2), 1),
            span_of(run(2), Seq(1), 1),
        ];
        for (place, one) in spans.iter().enumerate() {
            assert!(!spans[..place].contains(one), "{place}");
        }
        assert_eq!(span_of(run(1), Seq(1), 1), spans[2]);
        assert_ne!(trace_after(run(1), Seq(1)), trace_of(run(1)));
    }

    proptest! {
        #[test]
        fn no_text_and_no_bytes_make_the_readers_panic(text in ".{0,80}", bytes: Vec<u8>) {
            let _ = TraceContext::read(&text);
            let _ = TraceContext::from_stored(&bytes);
        }

        #[test]
        fn a_context_survives_its_text_and_its_bytes(trace: [u8; 16], span: [u8; 8], flags in 0_u8..4) {
            if let Some(context) = TraceContext::checked(trace, span, flags) {
                prop_assert_eq!(TraceContext::read(&context.to_string()), Some(context.clone()));
                for state in ["", "a=1,b=2"] {
                    let context = context.clone().with_state([state]);
                    prop_assert_eq!(TraceContext::from_stored(&context.to_stored()), Some(context));
                }
            }
        }
    }
}
