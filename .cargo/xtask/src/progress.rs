//! Shows how far a long build is. On a terminal cargo draws its own bar. In a log, cargo would print
//! one line for each of several hundred crates and no total: here a line follows each half minute.

use anyhow::{Context, Result};
use std::io::{BufReader, IsTerminal, Read, stderr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The time between two lines of a log.
const EVERY: Duration = Duration::from_secs(30);

/// Longer lines of cargo are printed in pieces of this many bytes.
const LINE: usize = 16_384;

/// How long a first build takes that needs so many minutes of one processor.
pub(crate) fn usually(processor_minutes: usize) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // The last crates depend on each other, so more processors do not help at the end.
    let minutes = processor_minutes.div_ceil(cores) + 1;
    let cores = if cores == 1 {
        "one core"
    } else {
        &format!("{cores} cores")
    };
    format!("; a first build takes about {minutes} minutes on {cores}")
}

/// Runs a build by cargo.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    if stderr().is_terminal() {
        return crate::place::run(command);
    }
    command
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "always")
        .env("CARGO_TERM_PROGRESS_WIDTH", "160")
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    let output = child.stderr.take().context("its output is piped")?;
    let mut log = Log::new();
    lines(output, |line| {
        if let Some(text) = log.line(line) {
            eprintln!("{text}");
        }
    })?;
    let status = child.wait()?;
    anyhow::ensure!(status.success(), "`cargo build` failed: {status}");
    Ok(())
}

/// Gives each line to a function. Cargo ends a line of its bar by a carriage return.
fn lines(output: impl Read, mut take: impl FnMut(&str)) -> Result<()> {
    let mut line = Vec::new();
    for byte in BufReader::new(output).bytes() {
        match byte? {
            b'\r' | b'\n' => {
                take(&String::from_utf8_lossy(&line));
                line.clear();
            }
            byte => line.push(byte),
        }
        if line.len() == LINE {
            take(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    take(&String::from_utf8_lossy(&line));
    Ok(())
}

/// Turns the output of cargo into lines of a log.
struct Log {
    began: Instant,
    next: Duration,
}

impl Log {
    #[expect(
        clippy::disallowed_methods,
        reason = "the line is for people, and shows their time"
    )]
    fn new() -> Self {
        Self {
            began: Instant::now(),
            next: EVERY,
        }
    }

    fn line(&mut self, line: &str) -> Option<String> {
        self.line_at(line, self.began.elapsed())
    }

    /// The line to print for a line of cargo, at this time after the begin.
    fn line_at(&mut self, line: &str, elapsed: Duration) -> Option<String> {
        // The bar ends by the code that clears the rest of the line.
        let line = line.trim_end_matches("\u{1b}[K");
        let text = line.trim();
        let first = text.split(' ').next().unwrap_or_default();
        if matches!(first, "" | "Compiling" | "Downloading" | "Downloaded") {
            return None;
        }
        let Some((done, crates)) = bar(text) else {
            return Some(line.to_owned());
        };
        if elapsed < self.next {
            return None;
        }
        self.next = elapsed + EVERY;
        let (minutes, seconds) = (elapsed.as_secs() / 60, elapsed.as_secs() % 60);
        Some(format!(
            "    {minutes}:{seconds:02}  {done} compiled, now {crates}"
        ))
    }
}

/// The figures of a line like `Building [==>  ] 12/345: one, another(build)`, as `12 of 345` and
/// the names.
fn bar(text: &str) -> Option<(String, &str)> {
    let (_, rest) = text.strip_prefix("Building [")?.split_once("] ")?;
    let (figures, crates) = rest.split_once(": ").unwrap_or((rest, "the last"));
    let (done, total) = figures.split_once('/')?;
    let (done, total): (u32, u32) = (
        done.parse().ok()?,
        total.trim_end_matches(':').parse().ok()?,
    );
    Some((format!("{done} of {total}"), crates))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_shows_the_bar_each_half_minute_and_all_else_at_once() {
        let mut log = Log::new();
        let at = Duration::from_secs;
        let bar = "    Building [==>    ] 12/345: one, another(build)\u{1b}[K";
        assert_eq!(log.line_at(bar, at(29)), None);
        let line = log.line_at(bar, at(90)).unwrap();
        assert_eq!(
            line,
            "    1:30  12 of 345 compiled, now one, another(build)"
        );
        assert_eq!(log.line_at(bar, at(100)), None);
        assert_eq!(log.line_at("   Compiling one v1.0.0", at(100)), None);
        let warning = "warning: unused variable";
        assert_eq!(log.line_at(warning, at(100)).as_deref(), Some(warning));
        let last = "    Building [======>] 344/345:";
        let line = log.line_at(last, at(125)).unwrap();
        assert_eq!(line, "    2:05  344 of 345 compiled, now the last");
    }

    #[test]
    fn lines_end_by_both_kinds_of_return_and_are_bounded() {
        let long = vec![b'a'; LINE + 1];
        let mut got = Vec::new();
        lines(&b"one\rtwo\nthree"[..], |line| got.push(line.to_owned())).unwrap();
        lines(&long[..], |line| got.push(line.len().to_string())).unwrap();
        assert_eq!(got, ["one", "two", "three", "16384", "1"]);
    }
}
