//! Reports about panics of this process, without data.
//!
//! A report says where and in which program a panic happened. It has no text of a panic that was
//! composed at run time, because that may contain values of runs; it has texts that stand in the
//! program. The frames have names of functions and files of the source, and no values.
//!
//! Bounds: a process writes [`PER_PROCESS`] reports at most, a directory keeps the newest [`KEPT`],
//! and the frames of a report have [`FRAMES`] bytes at most.

use std::backtrace::Backtrace;
use std::fmt::Write as _;
use std::panic::{self, PanicHookInfo};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use windlass_model::Clock as _;
use windlass_runtime::SystemClock;

use crate::commands::moment;
use crate::output::Output;
use crate::private;

/// Reports that one process writes at most: a panic may repeat with every request.
const PER_PROCESS: u32 = 4;

/// Reports that the directory keeps.
pub(crate) const KEPT: usize = 16;

/// Bytes of the frames.
const FRAMES: usize = 64 << 10;

/// The largest report that is read, in bytes.
pub(crate) const LARGEST: u64 = 128 << 10;

/// The beginning and the end of the names of reports.
const NAME: (&str, &str) = ("crash-", ".txt");

/// Lets each panic of this process write a report, and log itself. The main thread reports its own
/// panic as a bug, so the hook prints no text of the panic.
pub(crate) fn report_panics(output: Output, command: &'static str) {
    panic::set_hook(Box::new(move |panic| {
        tracing::error!(%panic, "panicked");
        static WRITTEN: AtomicU32 = AtomicU32::new(0);
        let no = WRITTEN.fetch_add(1, Ordering::Relaxed);
        if no >= PER_PROCESS {
            return;
        }
        let Some(directory) = directory() else {
            return;
        };
        let at_ms = SystemClock::new().wall_ms();
        let frames = Backtrace::force_capture().to_string();
        let text = text(panic, command, at_ms, &frames);
        match write(&directory, at_ms, no, &text) {
            Ok(path) => output.note(&format!(
                "A thread of windlass has panicked, which is a bug: the report {} has no data of \
                 runs; attach it to a bug report, or the file that `windlass doctor --bundle` makes.",
                path.display()
            )),
            Err(error) => output.note(&format!(
                "A thread of windlass has panicked, which is a bug. No report could be written in \
                 {}: {error}",
                directory.display()
            )),
        }
    }));
}

/// The directory of the reports; none without a home.
pub(crate) fn directory() -> Option<PathBuf> {
    Some(private::data()?.join("crashes"))
}

/// The reports in a directory, the newest first.
pub(crate) fn reports(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<_> = paths
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(NAME.0) && name.ends_with(NAME.1)
        })
        .collect();
    // The names begin with the time, in digits of equal number.
    found.sort_unstable_by(|one, other| other.cmp(one));
    found
}

/// Writes a report, and removes the oldest ones.
fn write(directory: &Path, at_ms: i64, no: u32, text: &str) -> std::io::Result<PathBuf> {
    let name = format!(
        "{}{at_ms:014}-{}-{no}{}",
        NAME.0,
        std::process::id(),
        NAME.1
    );
    let path = directory.join(name);
    windlass_files::write_new(&path, text.as_bytes())?;
    for old in reports(directory).into_iter().skip(KEPT) {
        // Another process may have removed it.
        let _ = std::fs::remove_file(old);
    }
    Ok(path)
}

/// The program and its system, as in reports and bundles.
pub(crate) fn about() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    format!(
        "windlass {} ({profile}), {} {} {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        kernel.trim()
    )
}

fn text(panic: &PanicHookInfo<'_>, command: &str, at_ms: i64, frames: &str) -> String {
    let thread = std::thread::current();
    let place = panic.location().map(ToString::to_string);
    let message = match panic.payload().downcast_ref::<&'static str>() {
        Some(text) => (*text).to_owned(),
        None => "(left out: it was composed at run time, and may contain data)".to_owned(),
    };
    let frames = match frames.char_indices().find(|(at, _)| *at >= FRAMES) {
        Some((end, _)) => frames.get(..end).unwrap_or_default(),
        None => frames,
    };
    let mut text = String::from("A crash of windlass, version 1 of this report\n\n");
    for (name, value) in [
        ("program", about().as_str()),
        ("command", command),
        ("time", &moment(at_ms)),
        ("thread", thread.name().unwrap_or("(without a name)")),
        ("place", place.as_deref().unwrap_or("(unknown)")),
        ("message", &message),
    ] {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name:<8} {value}");
    }
    let _ = writeln!(text, "\nframes:\n{}", frames.trim_end());
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// The report about a panic of a thread.
    fn report(panics: impl FnOnce() + Send + 'static) -> String {
        static ONE: Mutex<()> = Mutex::new(());
        static TEXT: Mutex<String> = Mutex::new(String::new());
        let _one = ONE.lock();
        let before = panic::take_hook();
        panic::set_hook(Box::new(|panic| {
            // Other tests of this process may fail meanwhile.
            if std::thread::current().name() == Some("reported") {
                *TEXT.lock().unwrap() = text(panic, "serve", 0, "0: some::frame");
            }
        }));
        let thread = std::thread::Builder::new().name("reported".to_owned());
        thread.spawn(panics).unwrap().join().unwrap_err();
        panic::set_hook(before);
        TEXT.lock().unwrap().clone()
    }

    #[test]
    fn a_report_has_texts_of_the_program_and_none_with_values() {
        let literal = report(|| panic!("a text of the program"));
        for part in [
            "a text of the program",
            "command  serve",
            "thread   reported",
            "crash.rs:",
            "some::frame",
        ] {
            assert!(literal.contains(part), "{part}: {literal}");
        }
        let value = String::from("hunter2");
        let composed = report(move || panic!("no such customer: {value}"));
        assert!(!composed.contains("hunter2"), "{composed}");
        assert!(!composed.contains("customer"), "{composed}");
        assert!(composed.contains("left out"), "{composed}");
        let failed = report(|| {
            let read = "hunter2".parse::<u8>();
            let read = read.map_err(|_| "hunter2");
            read.expect("it can be read");
        });
        assert!(!failed.contains("hunter2"), "{failed}");
        let other = report(|| panic::panic_any(String::from("hunter2")));
        assert!(!other.contains("hunter2"), "{other}");
    }

    #[test]
    fn the_newest_reports_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("crashes");
        for no in 0..20 {
            write(&directory, 1_700_000_000_000 + i64::from(no), no, "text").unwrap();
        }
        std::fs::write(directory.join("notes.md"), "mine").unwrap();
        let kept = reports(&directory);
        assert_eq!(kept.len(), KEPT);
        assert!(kept[0].to_string_lossy().contains("1700000000019-"));
        assert!(directory.join("notes.md").exists());
    }
}
