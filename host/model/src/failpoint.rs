//! Places where a test makes the process die or stop, to prove that no data is lost.
//!
//! Compiled to nothing unless the feature `failpoints` is on, which no released binary has.
//! `WINDLASS_FAILPOINTS=after-claim=abort@3,after-return=stop@1` aborts the process when it passes
//! `after-claim` for the third time, and stops it (as SIGSTOP does) at the first `after-return`;
//! `panic` panics. `WINDLASS_CLOCK_OFFSET` names a file with the number of milliseconds by which
//! the wall clock is ahead of the machine's. The file is read at each reading of the clock, so that
//! a test can step the clock.

/// Passes the failpoint of this name.
#[inline(always)]
pub fn pass(name: &str) {
    #[cfg(feature = "failpoints")]
    armed::pass(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

/// Passes the failpoint `place:name`, for a place that concerns a named object.
#[inline(always)]
pub fn pass_for(place: &str, name: &str) {
    #[cfg(feature = "failpoints")]
    armed::pass(&format!("{place}:{name}"));
    #[cfg(not(feature = "failpoints"))]
    let _ = (place, name);
}

/// The offset of the wall clock that a test has set, in milliseconds.
#[inline(always)]
#[must_use]
pub fn wall_offset_ms() -> i64 {
    #[cfg(feature = "failpoints")]
    return armed::wall_offset_ms();
    #[cfg(not(feature = "failpoints"))]
    0
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Clone, Copy)]
    enum Action {
        Abort,
        Stop,
        Panic,
    }

    struct Point {
        name: String,
        action: Action,
        at: u64,
        passed: AtomicU64,
    }

    fn points() -> &'static [Point] {
        static POINTS: OnceLock<Vec<Point>> = OnceLock::new();
        POINTS.get_or_init(|| {
            let text = std::env::var("WINDLASS_FAILPOINTS").unwrap_or_default();
            text.split(',').filter_map(parse).collect()
        })
    }

    fn parse(text: &str) -> Option<Point> {
        let (name, action) = text.trim().split_once('=')?;
        let (verb, at) = action.split_once('@').unwrap_or((action, "1"));
        Some(Point {
            name: name.to_owned(),
            action: match verb {
                "stop" => Action::Stop,
                "panic" => Action::Panic,
                _ => Action::Abort,
            },
            at: at.parse().ok()?,
            passed: AtomicU64::new(0),
        })
    }

    pub(super) fn wall_offset_ms() -> i64 {
        static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
        let named = || std::env::var_os("WINDLASS_CLOCK_OFFSET").map(PathBuf::from);
        let Some(file) = FILE.get_or_init(named) else {
            return 0;
        };
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    #[expect(clippy::panic, reason = "a test asks for it")]
    pub(super) fn pass(name: &str) {
        for point in points().iter().filter(|point| point.name == name) {
            if point.passed.fetch_add(1, Ordering::SeqCst) + 1 != point.at {
                continue;
            }
            match point.action {
                Action::Abort => std::process::abort(),
                Action::Stop => {
                    let me = std::process::id().to_string();
                    let _ = std::process::Command::new("kill")
                        .args(["-STOP", &me])
                        .status();
                }
                Action::Panic => std::panic::panic_any("a failpoint"),
            }
        }
    }
}
