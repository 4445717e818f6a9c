//! The writer thread: takes all waiting writes, carries them out as one transaction in the order in
//! which they were submitted, and answers after the transaction is durable.
//!
//! Writes that may go at any time and for which a client waits, like the creation of a run, are prompt:
//! between two groups they overtake the writes that were taken before, and a long group ends early
//! for them. So a client does not wait behind all steps of large runs.
//!
//! An error in the middle of a group rolls the group back, and its writes are repeated one by one,
//! so that only the failing write fails. If a COMMIT fails, it is unknown whether the group is in
//! the file: the writer opens the connection again and looks for the group before it answers.

use std::time::Duration;

use windlass_model::failpoint;

use super::fault::{self, explain, primary};
use super::open::{self, Opened};
use super::session::{Failed, Session};
use super::settle::{self, Settled, settle};
use super::shared::SqliteShared;
use super::watch;
use crate::codes;
use crate::error::{Error, Result};
use crate::health::{Lasts, concerns_all};
use crate::queue::Batch;
use crate::round::{Item, Round};
use crate::write::Write;

/// Prompt writes do not wait in a group with a write that is larger than this, in bytes.
const LARGE_BYTES: usize = 16 * 1024;

/// How long the writes of a group are carried out while prompt writes wait for its end.
const GROUP_TIME: Duration = Duration::from_millis(10);

/// The outcome of one attempt at a group.
enum Attempt {
    Done,
    /// The write lock could not be taken.
    NotBegun(Error),
    /// The group was rolled back because of this error.
    RolledBack(Error),
    /// It is unknown whether the group is in the file.
    Unknown(Error),
    /// The group is in a file that other processes cannot open.
    Lost(Error),
}

/// Runs until the queue is closed and empty.
pub(super) fn run(shared: &SqliteShared, opened: Opened) {
    let mut opened = Some(opened);
    let mut work = Work::default();
    loop {
        // A failed connection is replaced when the next writes arrive. If that fails too, the
        // writes are answered with the error.
        let opened = match opened.take() {
            Some(opened) => Ok(opened),
            None => open_again(shared),
        };
        let ended = match &opened {
            Ok(opened) => with_connection(shared, opened, &mut work),
            Err(error) => {
                work.refuse(error);
                work.fill(shared)
            }
        };
        if !ended {
            return;
        }
    }
}

/// Another connection to the same file.
fn open_again(shared: &SqliteShared) -> Result<Opened> {
    shared.health.check_stopped()?;
    let opened = open::writer(&shared.path, &shared.options).inspect_err(|error| {
        let lasts = if error.code == codes::LEFT_BEHIND {
            Lasts::Stopped
        } else if [codes::CORRUPT, codes::NOT_A_STORE].contains(&error.code) {
            Lasts::UntilOpened
        } else {
            Lasts::Passing
        };
        shared.health.note(lasts, error);
    })?;
    if opened.file != shared.file {
        let error = watch::replaced(&shared.path, "replaced");
        shared.health.note(Lasts::Stopped, &error);
        return Err(error);
    }
    Ok(opened)
}

/// Works with one connection until it fails. False if the queue is closed and empty.
fn with_connection(shared: &SqliteShared, opened: &Opened, work: &mut Work) -> bool {
    let mut session = match Session::new(opened, shared) {
        Ok(session) => session,
        Err(failed) => {
            work.refuse(&told(shared, failed));
            return work.fill(shared);
        }
    };
    if !work.settle_unknown(shared, opened, &mut session) {
        return true;
    }
    loop {
        while !work.round.left().is_empty() {
            work.let_overtake(shared);
            if !work.run_group(shared, &mut session) {
                return true;
            }
            session.keep_log_short();
        }
        if !work.fill(shared) {
            return false;
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn told(shared: &SqliteShared, failed: Failed) -> Error {
    match failed {
        Failed::Sql(error) => fault::note(&shared.health, &shared.path, &error),
        Failed::Store(error) => {
            if concerns_all(&error) {
                shared.health.note(Lasts::Passing, &error);
            }
            error
        }
    }
}

/// The writes that were taken from the queue together.
#[derive(Default)]
struct Work {
    round: Round,
    /// The number of next writes whose outcome is unknown, and the error that caused it.
    unknown: Option<(usize, Error)>,
    /// The position of a group that was repeated after a failed COMMIT, because it was not in the
    /// file.
    tried_again: Option<usize>,
    /// Whether the last group had prompt writes only, before others: it is their turn.
    owes: bool,
    batches: Vec<Batch>,
}

impl Work {
    /// Waits for writes. False once the queue is closed and empty.
    fn fill(&mut self, shared: &SqliteShared) -> bool {
        self.tried_again = None;
        let prompt = shared.queue.take(&mut self.batches);
        self.round.fill(self.batches.drain(..));
        self.round.set_prompt(prompt.unwrap_or_default());
        prompt.is_some()
    }

    /// Lets prompt writes go before those that were taken earlier, unless the next group is repeated.
    fn let_overtake(&mut self, shared: &SqliteShared) {
        let is_repeated = self.tried_again == Some(self.round.answered());
        if std::mem::take(&mut self.owes) || is_repeated || self.round.prompt() > 0 {
            return;
        }
        if shared.queue.take_prompt(&mut self.batches) > 0 {
            self.tried_again = None;
            self.round.overtake(self.batches.drain(..));
        }
    }

    /// Runs the next group and answers it. False if the connection cannot be used any more.
    fn run_group(&mut self, shared: &SqliteShared, session: &mut Session<'_>) -> bool {
        let size = self
            .round
            .left()
            .len()
            .min(shared.options.group_writes.max(1));
        let mut size = size;
        match self.attempt(shared, session, &mut size) {
            Attempt::Done => {
                let is_prompt = self.round.prompt() == size;
                self.round.answer(size);
                self.owes = is_prompt && !self.round.left().is_empty();
            }
            Attempt::NotBegun(error) => {
                self.round.fail(size, &error);
                self.round.answer(size);
            }
            Attempt::RolledBack(_) => return self.run_singly(shared, session, size),
            Attempt::Unknown(error) => {
                self.unknown = Some((size, error));
                return false;
            }
            Attempt::Lost(error) => {
                self.round.fail(size, &error);
                self.round.answer(size);
                return false;
            }
        }
        true
    }

    /// Runs the writes of a failed group, each in a transaction of its own.
    fn run_singly(
        &mut self,
        shared: &SqliteShared,
        session: &mut Session<'_>,
        size: usize,
    ) -> bool {
        for _ in 0..size {
            match self.attempt(shared, session, &mut 1) {
                Attempt::Done => {}
                Attempt::NotBegun(error) | Attempt::RolledBack(error) => self.round.fail(1, &error),
                Attempt::Unknown(error) => {
                    self.unknown = Some((1, error));
                    return false;
                }
                Attempt::Lost(error) => {
                    self.round.fail(1, &error);
                    self.round.answer(1);
                    return false;
                }
            }
            self.round.answer(1);
        }
        true
    }

    /// Attempts a group of so many writes. Ends it earlier if prompt writes wait, and sets `size` to
    /// the number of writes in it.
    fn attempt(
        &mut self,
        shared: &SqliteShared,
        session: &mut Session<'_>,
        size: &mut usize,
    ) -> Attempt {
        let mut group = self.round.left().iter().take(*size);
        let flush = group.any(|item| matches!(item.write, Write::Flush(_)));
        let clock = shared.options.clock.as_ref();
        let asked = clock.monotonic();
        if let Err(failed) = begin(shared, session, flush) {
            session.roll_back();
            return Attempt::NotBegun(told(shared, failed));
        }
        let begun = clock.monotonic();
        let waited = begun.saturating_sub(asked);
        session.note_wait(waited);
        let turn = Turn::new(shared, begun, self.round.prompt());
        let group = self.round.left_mut().iter_mut().take(*size);
        match carry_out(session, group, turn) {
            Ok(carried_out) => *size = carried_out,
            Err(failed) => {
                session.roll_back();
                return Attempt::RolledBack(told(shared, failed));
            }
        }
        failpoint::pass("store-before-commit");
        if let Err(error) = session.commit() {
            session.roll_back();
            return Attempt::Unknown(fault::note(&shared.health, &shared.path, &error));
        }
        failpoint::pass("store-after-commit");
        if let Err(error) = session.look_at_files() {
            shared.health.note(Lasts::Stopped, &error);
            return Attempt::Lost(error);
        }
        shared.health.well();
        session.advance_mark();
        let metrics = &shared.options.metrics;
        metrics.lock_wait.record(micros(waited));
        let took = clock.monotonic().saturating_sub(begun);
        metrics.commit.record(micros(took));
        metrics.commit_batch.record(*size as u64);
        Attempt::Done
    }

    /// On a new connection, finds out the outcome of a group whose COMMIT failed.
    fn settle_unknown(
        &mut self,
        shared: &SqliteShared,
        opened: &Opened,
        session: &mut Session<'_>,
    ) -> bool {
        let Some((size, why)) = self.unknown.take() else {
            return true;
        };
        let group = self.round.left().iter().take(size);
        match settle(shared, &opened.connection, session, group) {
            Ok(Settled::Written) => self.round.answer(size),
            // On a disk that stays full the group is not repeated again: its submitters get the
            // error.
            Ok(Settled::NotWritten) if self.tried_again == Some(self.round.answered()) => {
                self.round.fail(size, &why);
                self.round.answer(size);
            }
            // The group is not in the file, or repeating it does no harm: it is run again.
            Ok(Settled::NotWritten) => self.tried_again = Some(self.round.answered()),
            Err(error) => {
                let text = format!(
                    "{why}; whether the write lasts cannot be found out: {}",
                    explain(&shared.path, &error)
                );
                let unknown = Error::new(codes::UNKNOWN_OUTCOME, text).help(
                    "Check the disk; the host looks up unacknowledged writes when it starts.",
                );
                self.round.fail(size, &unknown);
                self.round.answer(size);
            }
        }
        true
    }

    /// Answers all remaining writes with an error.
    fn refuse(&mut self, error: &Error) {
        if let Some((size, why)) = self.unknown.take() {
            let text = format!("{why}; whether the write lasts cannot be found out: {error}");
            self.round
                .fail(size, &Error::new(codes::UNKNOWN_OUTCOME, text));
            self.round.answer(size);
        }
        let rest = self.round.left().len();
        self.round.fail(rest, error);
        self.round.answer(rest);
    }
}

/// Decides whether a group ends before its last write, because prompt writes wait. The writes that
/// are not prompt get as much time in each group as those that are.
struct Turn<'a> {
    shared: &'a SqliteShared,
    begun: Duration,
    /// When the prompt writes were carried out.
    after_prompt: Duration,
    /// The prompt writes that come first.
    prompt: usize,
}

impl<'a> Turn<'a> {
    fn new(shared: &'a SqliteShared, begun: Duration, prompt: usize) -> Self {
        Self {
            shared,
            begun,
            after_prompt: begun,
            prompt,
        }
    }

    /// Whether the group ends after so many writes, before this one.
    fn is_over(&mut self, carried_out: usize, next: &Write) -> bool {
        let now = || self.shared.options.clock.monotonic();
        if carried_out == 0 || carried_out < self.prompt {
            return false;
        }
        if carried_out == self.prompt {
            self.after_prompt = now();
            return next.weight() > LARGE_BYTES;
        }
        if !self.shared.queue.is_urgent() {
            return false;
        }
        let now = now();
        let of_prompt = self.after_prompt.saturating_sub(self.begun);
        now.saturating_sub(self.begun) >= GROUP_TIME
            && now.saturating_sub(self.after_prompt) >= of_prompt
    }
}

/// Carries out a group up to its COMMIT. Returns the number of its writes.
fn carry_out<'a>(
    session: &mut Session<'_>,
    group: impl Iterator<Item = &'a mut Item>,
    mut turn: Turn<'_>,
) -> Result<usize, Failed> {
    let (mut traceless, mut carried_out) = (false, 0);
    for item in group {
        if turn.is_over(carried_out, &item.write) {
            break;
        }
        item.answer = Some(Ok(session.carry_out(&item.write)?));
        traceless |= settle::needs_trace(&item.write);
        carried_out += 1;
    }
    session.write_heads()?;
    if traceless {
        session.leave_trace()?;
    }
    session.bound()?;
    Ok(carried_out)
}

/// Takes the write lock. Waits for other processes within the time of the options.
fn begin(shared: &SqliteShared, session: &mut Session<'_>, flush: bool) -> Result<(), Failed> {
    session.check_log()?;
    let tries = shared
        .options
        .busy_wait_ms
        .div_ceil(open::WRITER_WAIT_MS)
        .max(1);
    for _ in 1..tries {
        match session.begin(flush) {
            Err(Failed::Sql(error)) if primary(&error) == Some(rusqlite::ffi::SQLITE_BUSY) => {}
            other => return other,
        }
    }
    session.begin(flush)
}
