//! The text that a guest prints by `wasi:cli/stdout` and `wasi:cli/stderr`, or by WASI preview 1.
//!
//! A guest keeps the handles of its streams from call to call, so the streams belong to its
//! instance; the text belongs to the call, and no part of a line outlives the call. Whole lines go
//! into the log of the call: before the guest logs by itself, so that the order is kept, and at the
//! end. The end of stderr is kept besides, because it says why a guest crashed.
//!
//! A stream never fails and never waits: what has no room is dropped and counted.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use super::log::Log;
use crate::clean::escape;
use crate::grant::secrets::Secrets;
use crate::grant::settings::Limits;

/// Bytes that a guest may write to a stream at once.
const WRITE_BYTES: usize = 64 * 1024;
/// Bytes of the end of stderr in which secrets are looked for. More than are shown, so that the end
/// of a long secret is not shown because its beginning is gone.
const MAX_STDERR: usize = 16 * 1024;
/// Bytes of the end of stderr in the message of a crash.
pub(crate) const STDERR_BYTES: usize = 1536;
/// Bytes that [`Stderr::explain`] adds to a message, at most.
pub(crate) const MESSAGE_BYTES: usize = STDERR_BYTES + 64;
/// The bytes of a text in which a byte of a secret may be encoded: `%0A` in a URL, `\\n` in JSON.
const ENCODED: usize = 4;
/// Lines of the end of stderr in the message of a crash.
const STDERR_LINES: usize = 16;

/// The text that an instance has printed in its call.
pub(crate) struct Printed {
    max_lines: usize,
    max_bytes: usize,
    /// Whole lines of both streams, in the order of their ends.
    text: Vec<u8>,
    /// The successive parts of the text: the stream of each, and its end.
    parts: Vec<(Stream, usize)>,
    /// The lines of the call that were kept, also those that are in its log already.
    lines: usize,
    /// Their bytes, and those of the lines that have no end yet.
    bytes: usize,
    /// The bytes of the kept lines without a sign, which are no lines of the log.
    blank: usize,
    dropped: u64,
    stdout: Open,
    stderr: Open,
    /// The end of stderr.
    last: Vec<u8>,
}

/// The line of a stream that has no end yet.
#[derive(Default)]
struct Open {
    bytes: Vec<u8>,
    /// There is no room for it.
    over: bool,
}

/// A stream of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn level(self) -> &'static str {
        match self {
            Self::Stdout => "info",
            Self::Stderr => "warn",
        }
    }
}

impl Printed {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            max_lines: limits.log_lines,
            max_bytes: limits.log_bytes,
            text: Vec::new(),
            parts: Vec::new(),
            lines: 0,
            bytes: 0,
            blank: 0,
            dropped: 0,
            stdout: Open::default(),
            stderr: Open::default(),
            last: Vec::new(),
        }
    }

    pub(crate) fn write(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Stderr {
            self.remember(bytes);
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(rest) => {
                    self.extend(stream, rest);
                    self.end_line(stream);
                }
                None => self.extend(stream, piece),
            }
        }
    }

    fn remember(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(MAX_STDERR);
        let over = (self.last.len() + kept).saturating_sub(MAX_STDERR);
        self.last.drain(..over.min(self.last.len()));
        self.last
            .extend_from_slice(bytes.get(bytes.len() - kept..).unwrap_or_default());
    }

    fn open(&mut self, stream: Stream) -> &mut Open {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn extend(&mut self, stream: Stream, bytes: &[u8]) {
        let has_room =
            self.lines < self.max_lines && self.bytes.saturating_add(bytes.len()) <= self.max_bytes;
        let open = self.open(stream);
        if open.over {
            return;
        }
        if has_room {
            open.bytes.extend_from_slice(bytes);
            self.bytes += bytes.len();
        } else {
            let dropped = std::mem::take(&mut open.bytes);
            open.over = true;
            self.bytes -= dropped.len();
        }
    }

    fn end_line(&mut self, stream: Stream) {
        let has_room = self.lines < self.max_lines;
        let line = std::mem::take(self.open(stream));
        if line.over {
            self.dropped += 1;
        } else if line.bytes.trim_ascii().is_empty() {
            self.bytes -= line.bytes.len();
            self.end_blank(stream, &line.bytes);
        } else if !has_room {
            self.bytes -= line.bytes.len();
            self.dropped += 1;
        } else {
            self.lines += 1;
            self.text.extend_from_slice(&line.bytes);
            self.text.push(b'\n');
            let end = self.text.len();
            match self.parts.last_mut() {
                Some((last, to)) if *last == stream => *to = end,
                _ => self.parts.push((stream, end)),
            }
        }
    }

    /// Keeps a line without a sign, which may be in the middle of a secret of several lines.
    fn end_blank(&mut self, stream: Stream, line: &[u8]) {
        let Some((_, to)) = self.parts.last_mut().filter(|(last, _)| *last == stream) else {
            return;
        };
        let blank = self.blank + line.len() + 1;
        if blank > self.max_bytes {
            // A line after one that is left out may be the rest of a secret.
            self.lines = self.max_lines;
            return;
        }
        self.blank = blank;
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
        *to = self.text.len();
    }

    /// Moves the whole lines into the log of the call.
    pub(crate) fn flush(&mut self, log: &mut Log, limits: &Limits, secrets: &Secrets) {
        if self.parts.is_empty() {
            return;
        }
        let (text, mut from) = (std::mem::take(&mut self.text), 0);
        for (stream, to) in std::mem::take(&mut self.parts) {
            // A secret of several lines is only found in all of them.
            let part = String::from_utf8_lossy(text.get(from..to).unwrap_or_default());
            log.print(limits, stream.level(), &secrets.redact(&part));
            from = to;
        }
    }

    /// Moves all that is left into the log of the call that ends, and returns the end of stderr.
    pub(crate) fn end(&mut self, log: &mut Log, limits: &Limits, secrets: &Secrets) -> Stderr {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let open = self.open(stream);
            if open.over || !open.bytes.is_empty() {
                self.end_line(stream);
            }
        }
        self.flush(log, limits, secrets);
        log.drop_lines(self.dropped);
        (self.lines, self.bytes, self.blank, self.dropped) = (0, 0, 0, 0);
        Stderr(std::mem::take(&mut self.last))
    }
}

/// The end of the stderr of a call.
#[derive(Default)]
pub(crate) struct Stderr(Vec<u8>);

impl Stderr {
    /// Adds the last lines of stderr to the message of a crash. Returns whether there are any.
    pub(crate) fn explain(&self, message: &mut String, secrets: &Secrets) -> bool {
        let cut = self.0.len() >= MAX_STDERR;
        let longest = secrets.longest().saturating_mul(ENCODED);
        if cut && longest.saturating_add(STDERR_BYTES) > MAX_STDERR {
            message.push_str("; its stderr is left out: it is long, and so is a secret");
            return true;
        }
        let text = String::from_utf8_lossy(&self.0);
        // The first line lacks its beginning, which may be that of a secret.
        let rest = text.split_once('\n').filter(|_| cut);
        let text = secrets.redact(rest.map_or(&text, |(_, rest)| rest));
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = lines.len().saturating_sub(STDERR_LINES);
        let last = lines.get(last..).unwrap_or_default().join("\n");
        if last.is_empty() {
            return false;
        }
        let last = escape(&last);
        let end = last.ceil_char_boundary(last.len().saturating_sub(STDERR_BYTES));
        let (begins, last) = match last.get(end..) {
            Some(end) if end.len() < last.len() => ("… ", end),
            _ => ("", &*last),
        };
        message.push_str("; the end of its stderr: ");
        message.push_str(begins);
        message.push_str(last);
        true
    }
}

/// A stream of an instance; all of its handles lead here.
pub(crate) struct Printer {
    pub(crate) stream: Stream,
    pub(crate) printed: Arc<Mutex<Printed>>,
}

impl IsTerminal for Printer {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Printer {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(Self {
            stream: self.stream,
            printed: Arc::clone(&self.printed),
        })
    }

    /// Only versions of WASI that the host does not offer ask for it.
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Printer {
    async fn ready(&mut self) {}
}

#[wasmtime_wasi::async_trait]
impl OutputStream for Printer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > WRITE_BYTES {
            return Err(StreamError::trap("it wrote more than it may at once"));
        }
        self.printed.lock().write(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grant::secrets::{Secret, Source};

    use Stream::{Stderr as Err, Stdout as Out};

    fn secrets(value: &str) -> Secrets {
        let secret = Secret {
            source: Source::Value(value.to_owned()),
            to: Vec::new(),
            workflows: None,
        };
        Secrets::new([("key".to_owned(), secret)].into()).unwrap()
    }

    fn ended(printed: &mut Printed, limits: &Limits, secrets: &Secrets) -> (Vec<String>, String) {
        let (mut log, mut message) = (Log::default(), String::new());
        let stderr = printed.end(&mut log, limits, secrets);
        stderr.explain(&mut message, secrets);
        let lines = log.take().into_iter();
        let lines = lines.map(|line| format!("{} {}", line.level, line.message));
        (lines.collect(), message)
    }

    #[track_caller]
    fn check(limits: &Limits, writes: &[(Stream, &[u8])], lines: &[&str], message: &str) {
        let mut printed = Printed::new(limits);
        for (stream, bytes) in writes {
            printed.write(*stream, bytes);
        }
        let of_call = ended(&mut printed, limits, &Secrets::default());
        assert_eq!(of_call.0, lines);
        assert_eq!(of_call.1, message);
        // Nothing is left for the next call.
        let next = ended(&mut printed, limits, &Secrets::default());
        assert_eq!(next, (Vec::new(), String::new()));
        assert_eq!(printed.bytes, 0);
    }

    #[test]
    fn lines_are_those_of_the_guest_however_it_writes_them() {
        check(
            &Limits::default(),
            &[
                (Out, b"a"),
                (Err, b"one\ntw"),
                (Out, b"b\r\n\n  \n"),
                (Err, b"o\nthree"),
                (Out, b"c"),
            ],
            &["warn one", "info ab", "warn two", "info c", "warn three"],
            "; the end of its stderr: one␊two␊three",
        );
    }

    #[test]
    fn bytes_that_are_no_text_and_control_characters_are_made_visible() {
        check(
            &Limits::default(),
            &[
                (Out, b"\xc3"),
                (Out, b"\xbc \xff\x1b[2J\n"),
                (Err, b"\x1b]0;t\x07\xf0\x9f"),
            ],
            &["info ü \u{fffd}␛[2J", "warn ␛]0;t␇\u{fffd}"],
            "; the end of its stderr: ␛]0;t␇\u{fffd}",
        );
    }

    #[test]
    fn lines_without_room_are_dropped_and_counted() {
        let limits = Limits {
            log_lines: 3,
            log_bytes: 10,
            ..Limits::default()
        };
        check(
            &limits,
            &[
                (Out, b"12345\n\n\n"),
                (Out, b"1234567890"),
                (Out, b"1234567890"),
                (Err, b"12345\n"),
                (Out, b"\n1\n"),
            ],
            &[
                "info 12345",
                "warn 12345",
                "warn 2 lines over the limit were dropped",
            ],
            "; the end of its stderr: 12345",
        );
        check(
            &Limits {
                log_lines: 2,
                ..Limits::default()
            },
            &[(Out, b"1\n2\n3\n4\n")],
            &[
                "info 1",
                "info 2",
                "warn 2 lines over the limit were dropped",
            ],
            "",
        );
        let none = Limits {
            log_lines: 0,
            log_bytes: 0,
            ..Limits::default()
        };
        let dropped = "warn 1 lines over the limit were dropped";
        check(
            &none,
            &[(Err, b"why")],
            &[dropped],
            "; the end of its stderr: why",
        );
    }

    #[test]
    fn the_end_of_stderr_is_kept_however_much_is_printed() {
        let limits = Limits::default();
        let mut printed = Printed::new(&limits);
        for number in 0..100_000 {
            printed.write(Err, format!("line {number}\n").as_bytes());
            printed.write(Out, &[b'x'; 100]);
        }
        assert!(printed.text.len() + printed.bytes <= 2 * limits.log_bytes + limits.log_lines);
        assert!(printed.last.capacity() <= 2 * MAX_STDERR);
        let (lines, message) = ended(&mut printed, &limits, &Secrets::default());
        assert_eq!(lines.len(), limits.log_lines + 1);
        assert!(message.starts_with("; the end of its stderr: line 99984␊"));
        assert!(message.ends_with("␊line 99999"), "{message}");
    }

    #[test]
    fn a_long_line_is_shortened_at_its_beginning() {
        let limits = Limits::default();
        let mut printed = Printed::new(&limits);
        for _ in 0..10 {
            printed.write(Err, &"ä".repeat(WRITE_BYTES / 2).into_bytes());
        }
        let (lines, message) = ended(&mut printed, &limits, &Secrets::default());
        assert_eq!(lines, ["warn 1 lines over the limit were dropped"]);
        assert!(message.starts_with("; the end of its stderr: … ä"));
        assert!(message.len() <= MESSAGE_BYTES);
    }

    #[test]
    fn secrets_are_replaced_over_several_lines_and_at_the_beginning_of_the_kept_text() {
        let value = "-----BEGIN-----\nMIIEvQIBADAN\n-----END-----";
        let spaced = secrets("-----BEGIN-----\n\n  \nMIIEvQIBADAN\n\n-----END-----");
        let (secrets, limits) = (secrets(value), Limits::default());
        let mut printed = Printed::new(&limits);
        let text = format!("it is\n{value}, you know\n");
        for byte in text.as_bytes() {
            printed.write(Err, &[*byte]);
        }
        let (lines, message) = ended(&mut printed, &limits, &secrets);
        assert_eq!(lines, ["warn it is", "warn [secret key], you know"]);
        assert_eq!(
            message,
            "; the end of its stderr: it is␊[secret key], you know"
        );

        // Lines without a sign are between those of the secret.
        printed.write(
            Out,
            b"it is\n-----BEGIN-----\n\n  \nMIIEvQIBADAN\n\n-----END-----\n\nend",
        );
        let (lines, _) = ended(&mut printed, &limits, &spaced);
        assert_eq!(lines, ["info it is", "info [secret key]", "info end"]);

        // The beginning of the kept end is in the middle of the secret.
        printed.write(Err, value.as_bytes());
        printed.write(Err, &vec![b'x'; MAX_STDERR - 20]);
        let (_, message) = ended(&mut printed, &limits, &secrets);
        assert!(!message.contains("MII"), "{message}");
    }

    #[test]
    fn no_part_of_a_secret_that_is_longer_than_the_kept_text_is_shown() {
        for (lines, is_shown) in [(200, true), (400, false), (2_000, false)] {
            let value: String = (0..lines).map(|no| format!("MII{no:09}\n")).collect();
            let (secrets, limits) = (secrets(value.trim_end()), Limits::default());
            let mut printed = Printed::new(&limits);
            printed.write(Err, &[b'x'; MAX_STDERR]);
            printed.write(Err, format!("\n{value}why").as_bytes());
            let (_, message) = ended(&mut printed, &limits, &secrets);
            assert!(!message.contains("MII"), "{message}");
            assert_eq!(message.ends_with("why"), is_shown, "{message}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_printed_exceeds_the_limits(
            writes in proptest::collection::vec(
                (any::<bool>(), proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..40)),
                0..40,
            ),
            (log_lines, log_bytes) in (0_usize..20, 0_usize..300),
        ) {
            let limits = Limits { log_lines, log_bytes, ..Limits::default() };
            let mut printed = Printed::new(&limits);
            for (out, bytes) in &writes {
                printed.write(if *out { Out } else { Err }, bytes);
                prop_assert!(printed.bytes <= log_bytes);
                let open = printed.stdout.bytes.len() + printed.stderr.bytes.len();
                prop_assert!(printed.text.len() + open <= 2 * log_bytes + log_lines);
            }
            let mut log = Log::default();
            printed.end(&mut log, &limits, &Secrets::default());
            prop_assert_eq!(printed.bytes, 0);
            prop_assert!(log.take().len() <= log_lines + 1);
        }
    }
}
