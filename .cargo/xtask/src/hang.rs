//! Runs tests, and ends a test program that hangs. Without this, one lost wake-up costs a whole run
//! and leaves nothing to look at.

use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A test program that prints nothing for this long hangs. The longest test takes a fifth of it.
const SILENCE: Duration = Duration::from_secs(8 * 60);

/// How often the test programs are checked.
const EVERY: Duration = Duration::from_millis(200);

/// Runs `cargo test`. `programs` is the directory of the test programs.
///
/// A program that hangs is reported with the stack of each of its threads, and killed: its tests
/// fail, and the other programs run. Systems without `/proc` have no such check.
pub(crate) fn run(command: &mut Command, programs: &Path) -> Result<()> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    let mut output = child.stdout.take().context("its output is piped")?;
    let clock = Clock::new();
    let printed = AtomicU64::new(0);
    let status = std::thread::scope(|scope| {
        let copy = scope.spawn(|| {
            let mut buffer = [0; 16_384];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                printed.store(clock.elapsed().as_secs(), Ordering::Relaxed);
                let mut out = stdout().lock();
                out.write_all(buffer.get(..read).unwrap_or_default())?;
                out.flush()?;
            }
            std::io::Result::Ok(())
        });
        let status = watch(&mut child, programs, &clock, &printed);
        let copied = copy.join().unwrap_or(Ok(()));
        status.and_then(|status| copied.map(|()| status))
    })?;
    anyhow::ensure!(status.success(), "`cargo test` failed: {status}");
    Ok(())
}

/// The time since the tests began.
struct Clock(Instant);

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "a hang is measured in the time of people"
    )]
    fn new() -> Self {
        Self(Instant::now())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pause between two looks decides nothing"
)]
fn watch(
    child: &mut Child,
    programs: &Path,
    clock: &Clock,
    printed: &AtomicU64,
) -> std::io::Result<std::process::ExitStatus> {
    let mut seen = HashMap::new();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let printed = Duration::from_secs(printed.load(Ordering::Relaxed));
        for process in hanging(&mut seen, running(programs), printed, clock.elapsed()) {
            eprintln!(
                "==> process {process} has printed nothing for {} minutes: it hangs, and is killed",
                SILENCE.as_secs() / 60
            );
            report(process);
            let kill = ["-KILL", &process.to_string()];
            let _ = Command::new("kill").args(kill).status();
        }
        std::thread::sleep(EVERY);
    }
}

/// The processes that hang, of those that run now. `seen` has the time at which each was first
/// seen.
fn hanging(
    seen: &mut HashMap<u32, Duration>,
    running: Vec<u32>,
    printed: Duration,
    now: Duration,
) -> Vec<u32> {
    seen.retain(|process, _| running.contains(process));
    let mut hanging = Vec::new();
    for process in running {
        let since = *seen.entry(process).or_insert(now);
        if now.saturating_sub(since.max(printed)) >= SILENCE {
            // The next report follows after as long again, should the process survive.
            seen.insert(process, now);
            hanging.push(process);
        }
    }
    hanging
}

/// The processes that run a program of this directory.
fn running(programs: &Path) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            let program = fs::read_link(entry.path().join("exe")).ok()?;
            (program.parent() == Some(programs)).then_some(process)
        })
        .collect()
}

/// Prints the threads of a process, with their stacks if there is a debugger.
fn report(process: u32) {
    let threads = PathBuf::from(format!("/proc/{process}/task"));
    for thread in fs::read_dir(threads).into_iter().flatten().flatten() {
        let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let (name, waits) = (read("comm"), read("wchan"));
        let number = thread.file_name();
        eprintln!("thread {} {} in {waits}", number.display(), name.trim());
    }
    let stacks = Command::new("gdb")
        .args(["-batch", "-nx", "-p", &process.to_string()])
        .args(["-ex", "thread apply all backtrace 40"])
        .status();
    if let Err(error) = stacks {
        eprintln!("no stacks without gdb: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_hangs_that_is_old_and_silent() {
        let mut seen = HashMap::new();
        let at = Duration::from_secs;
        let mut check = |running: &[u32], printed, now| {
            hanging(&mut seen, running.to_vec(), at(printed), at(now))
        };
        let silence = SILENCE.as_secs();
        assert_eq!(check(&[7], 0, 5_000), [0_u32; 0], "it has just begun");
        assert_eq!(check(&[7, 8], 0, 5_000 + silence - 1), [0_u32; 0]);
        assert_eq!(check(&[7, 8], 5_001, 5_000 + silence), [0_u32; 0]);
        assert_eq!(check(&[7, 8], 5_001, 5_001 + silence), [7]);
        assert_eq!(check(&[7, 8], 5_001, 5_002 + silence), [0_u32; 0], "told");
        assert_eq!(check(&[8], 5_001, 5_002 + 2 * silence), [8]);
    }

    #[test]
    fn a_program_of_a_directory_is_found() {
        let own = std::env::current_exe().unwrap();
        let there = running(own.parent().unwrap());
        assert_eq!(
            there.contains(&std::process::id()),
            cfg!(target_os = "linux")
        );
    }
}
