//! A server process, and the watchdog that outlives the test process.

use std::fs::File;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a server may take to start or to stop: far longer than it needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Ends the process in `pid` and removes the folder, once the pipe to the test process breaks.
const WATCHDOG: &str = r#"
cd /
read -r _
pid=$(cat "$1/pid" 2>/dev/null) && kill -CONT "$pid" && kill -"$2" "$pid"
n=0
while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
rm -rf "$1"
"#;

/// Writes its own process id before it becomes the server, so that the watchdog always knows it.
const LAUNCH: &str = r#"echo $$ > "$1/pid" && shift && exec "$@""#;

/// The user of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A server that is started and stopped, with a folder of its own.
#[derive(Debug)]
pub(crate) struct Server {
    folder: TempDir,
    user: Option<User>,
    farewell: Farewell,
    child: Option<Child>,
    watchdog: Child,
}

/// The signal that ends a server whose data are deleted. The server has to handle it: a process
/// that was started in the background of a script may ignore the others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Farewell {
    Quit,
    Term,
}

impl Farewell {
    fn signal(self) -> Signal {
        match self {
            Self::Quit => Signal::QUIT,
            Self::Term => Signal::TERM,
        }
    }

    /// The name in a shell.
    fn name(self) -> &'static str {
        match self {
            Self::Quit => "QUIT",
            Self::Term => "TERM",
        }
    }
}

impl Server {
    /// A folder for a server that is not started yet.
    pub(crate) fn new(name: &str, user: Option<User>, farewell: Farewell) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(&format!("windlass-{name}-"))
            .tempdir()
            .context("cannot make a temporary directory")?;
        if let Some(user) = user {
            std::os::unix::fs::chown(folder.path(), Some(user.uid), Some(user.gid))?;
        }
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(folder.path())
            .arg(farewell.name())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // An interrupt from the terminal must not reach it: it cleans up afterwards.
            .process_group(0)
            .spawn()
            .context("cannot start the watchdog")?;
        Ok(Self {
            folder,
            user,
            farewell,
            child: None,
            watchdog,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn log(&self) -> PathBuf {
        self.folder().join("log")
    }

    /// A command that runs as the server's user, in its folder.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder()).stdin(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }

    /// Starts a program and waits until it is ready. If it ends before that, the error contains its
    /// output.
    pub(crate) fn start(
        &mut self,
        program: &Path,
        arguments: &[String],
        ready: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        if self.child.is_some() {
            bail!("{} runs already", program.display());
        }
        let log = File::options().create(true).append(true).open(self.log())?;
        let child = self
            .command(Path::new("sh"))
            .args(["-c", LAUNCH, "launch"])
            .arg(self.folder())
            .arg(program)
            .args(arguments)
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let pid = child.id();
        self.child = Some(child);
        let begin = now();
        while !ready(pid) {
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                self.child = None;
                bail!("{} ended: {status}\n{}", program.display(), self.said());
            }
            if begin.elapsed() > PATIENCE {
                bail!("{} does not get ready\n{}", program.display(), self.said());
            }
            pause();
        }
        Ok(())
    }

    /// Its output.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Sends a signal to it, if it runs.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        if let Some(child) = &self.child {
            let pid = Pid::from_raw(i32::try_from(child.id())?).context("it has an id")?;
            kill_process(pid, signal)?;
        }
        Ok(())
    }

    /// Ends it by a signal, and waits until it has gone.
    pub(crate) fn end(&mut self, signal: Signal) -> Result<()> {
        self.signal(signal)?;
        // A paused process handles the signal only after it is continued.
        self.signal(Signal::CONT)?;
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let begin = now();
        while child.try_wait()?.is_none() {
            if begin.elapsed() > PATIENCE {
                child.kill()?;
                let status = child.wait()?;
                bail!("it had to be killed (signal {:?})", status.signal());
            }
            pause();
        }
        let _ = std::fs::remove_file(self.folder().join("pid"));
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.end(self.farewell.signal());
        // The pipe breaks, and the watchdog finds no process to end.
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

/// Repeats an attempt until it succeeds.
pub(crate) fn until_it_works<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let begin = now();
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if begin.elapsed() > PATIENCE => return Err(error),
            Err(_) => pause(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a real server takes real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "no event says when a server is ready"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}
