//! Tests that the checks detect a mistake in a statement that both databases share.
//!
//! SQLite and PostgreSQL run the same text, so they agree even if it is wrong. The conformance
//! cases and the memory store have to detect the mistake. Here each shared statement that writes is
//! mutated, one at a time, in a SQLite store, and a case or a history has to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use rusqlite::Connection;

use super::{OnDisk, SqliteShared, on_disk};
use crate::conformance::history::{HISTORIES, fixed_histories_agree};
use crate::conformance::{CASES, Case, Harness, TestClock};
use crate::sql::Sql;
use crate::sqlite::SqliteOptions;
use crate::sqlite::options::Durability;
use crate::{Error, Result, SqliteStore, Store};

/// How often a mutated statement runs before it fails, so that a case which waits for the missing
/// effect ends with an error.
const RUNS: u32 = 5_000;

/// Mutants that no check can detect, each with the reason.
const HARMLESS: &[(&str, &str)] = &[
    (
        "without extras & 16 <> 0: UPDATE run SET extras = extras & ~16 \
         WHERE no = ?1 AND extras & 16 <> 0",
        "it only saves a write that changes nothing",
    ),
    (
        "without run = ?1: UPDATE external_trigger SET closed = true WHERE run = ?1 \
         AND trigger IN (SELECT no FROM trigger WHERE run = ?1 AND seq < 0)",
        "the triggers are those of the run; with it PostgreSQL uses an index",
    ),
    (
        "without run = ?1: UPDATE external_trigger SET trigger = ?3 \
         WHERE run = ?1 AND trigger = ?2",
        "a trigger has its number in the whole store; with it an index is used",
    ),
    (
        "without run = ?2: DELETE FROM trigger WHERE no = ?1 AND run = ?2",
        "what is cancelled has just been read by its number and run",
    ),
    (
        "without seq >= 0: UPDATE trigger SET state = 0, due_ms = ?2, token = token + 1, \
         reason = NULL WHERE run = ?1 AND kind = 0 AND seq >= 0 AND state IN (0, 2) \
         AND due_ms > ?2",
        "nothing is named from outside with the kind of a start",
    ),
    (
        "without suspicion <= 2048: UPDATE trigger SET suspicion = -suspicion WHERE no = ?1 \
         AND token = ?2 AND state = 1 AND suspicion >= 1 AND suspicion <= 2048",
        "no host marks a guilty trigger, which fails when it is claimed",
    ),
    (
        "left out: DELETE FROM tree WHERE root IN (SELECT coalesce(root, run) FROM origin \
         WHERE run = ?1) AND NOT EXISTS (SELECT 1 FROM origin o WHERE o.root = tree.root \
         AND o.run <> ?1) AND NOT EXISTS (SELECT 1 FROM origin o \
         WHERE o.run = tree.root AND o.run <> ?1)",
        "nobody asks about a tree without runs; another test looks at the table",
    ),
    (
        "without root IN (SELECT coalesce(root, run) FROM origin WHERE run = ?1): \
         DELETE FROM tree WHERE root IN (SELECT coalesce(root, run) FROM origin \
         WHERE run = ?1) AND NOT EXISTS (SELECT 1 FROM origin o WHERE o.root = tree.root \
         AND o.run <> ?1) AND NOT EXISTS (SELECT 1 FROM origin o \
         WHERE o.run = tree.root AND o.run <> ?1)",
        "every other tree has a run; with it an index is used",
    ),
];

/// The change of a statement.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Change {
    /// The statement is carried out and answered, and then undone.
    LeftOut,
    /// The condition with this index is always true.
    Without(usize),
}

/// One mistake in one statement.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Mutant {
    statement: &'static str,
    change: Change,
}

/// The recorder of the shared statements of a test's stores.
#[derive(Default)]
pub(in crate::sqlite) struct Watched {
    /// The statements that write, and how often each has been carried out.
    seen: Mutex<BTreeMap<&'static str, u32>>,
    /// The mutated statement, and its text if the text changes.
    mutant: Option<(Mutant, Option<&'static str>)>,
    /// The number of the random history that is carried out; 0 in a case.
    history: AtomicU64,
}

/// Undoes, on drop, the changes since its creation.
pub(in crate::sqlite) struct Undone<'c>(&'c Connection);

impl Drop for Undone<'_> {
    fn drop(&mut self) {
        // If SQLite has rolled the group back, there is no savepoint.
        let _ = self.0.execute_batch("ROLLBACK TO mutant; RELEASE mutant");
    }
}

/// The statement that is carried out instead of this one.
pub(in crate::sqlite) fn watch<'c>(
    shared: &SqliteShared,
    connection: &'c Connection,
    sql: Sql,
) -> Result<(Sql, Option<Undone<'c>>)> {
    let watched = shared.watched.lock().clone();
    let Some(watched) = watched.filter(|_| writes(sql.sqlite)) else {
        return Ok((sql, None));
    };
    let runs = {
        let mut seen = watched.seen.lock();
        let runs = seen.entry(sql.sqlite).or_default();
        *runs += 1;
        *runs
    };
    let Some((mutant, text)) = &watched.mutant else {
        return Ok((sql, None));
    };
    if mutant.statement != sql.sqlite {
        return Ok((sql, None));
    }
    if runs > RUNS {
        return Err(Error::corrupt("a mutant that is carried out without end"));
    }
    let Some(text) = *text else {
        let undone = connection.execute_batch("SAVEPOINT mutant");
        undone.map_err(|error| Error::corrupt(&error.to_string()))?;
        return Ok((sql, Some(Undone(connection))));
    };
    let mutated = Sql {
        sqlite: text,
        ..sql
    };
    Ok((mutated, None))
}

fn writes(text: &str) -> bool {
    ["INSERT ", "UPDATE ", "DELETE "]
        .iter()
        .any(|verb| text.starts_with(verb))
}

/// The ranges of the conditions in a statement's text.
fn conditions(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut places = Vec::new();
    let (mut depth, mut from) = (0, None);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ' ' if depth == 0 => {
                let rest = &text[at..];
                let between = [" AND ", " OR "]
                    .into_iter()
                    .find(|word| rest.starts_with(*word));
                let end = rest.starts_with(" RETURNING ");
                if let Some(begin) = from
                    && (between.is_some() || end)
                {
                    places.push(begin..at);
                    from = between.map(|word| at + word.len());
                } else if rest.starts_with(" WHERE ") {
                    from = Some(at + " WHERE ".len());
                }
            }
            _ => {}
        }
    }
    places.extend(from.map(|begin| begin..text.len()));
    places
}

impl Mutant {
    /// All mutants of a statement.
    fn all(statement: &'static str) -> impl Iterator<Item = Self> {
        let without = (0..conditions(statement).len()).map(Change::Without);
        let changes = std::iter::once(Change::LeftOut).chain(without);
        changes.map(move |change| Self { statement, change })
    }

    /// The mutated text, if the text changes.
    fn text(self) -> Option<&'static str> {
        let Change::Without(place) = self.change else {
            return None;
        };
        let range = conditions(self.statement)[place].clone();
        let condition = &self.statement[range.clone()];
        let mut text = self.statement.to_owned();
        // The number of parameters stays the same.
        text.replace_range(range, &format!("({condition} OR true)"));
        Some(text.leak())
    }

    fn name(self) -> String {
        let Change::Without(place) = self.change else {
            return format!("left out: {}", self.statement);
        };
        let condition = &self.statement[conditions(self.statement)[place].clone()];
        format!("without {condition}: {}", self.statement)
    }
}

/// A file whose stores record their statements.
struct Watching {
    file: OnDisk,
    watched: Arc<Watched>,
}

impl Watching {
    fn new(mutant: Option<(Mutant, Option<&'static str>)>) -> Self {
        let watched = Watched {
            mutant,
            ..Watched::default()
        };
        Self {
            file: on_disk(),
            watched: Arc::new(watched),
        }
    }

    fn open_it(&self) -> Arc<SqliteStore> {
        let options = SqliteOptions {
            durability: Durability::Normal,
            ..self.file.options()
        };
        let store = SqliteStore::open(self.file.path(), options).unwrap();
        *store.shared.watched.lock() = Some(Arc::clone(&self.watched));
        store
    }
}

impl Harness for Watching {
    fn open(&self) -> Arc<dyn Store> {
        self.open_it()
    }

    fn clock(&self) -> &TestClock {
        self.file.clock()
    }
}

/// A case, or the histories, with the number of times that it runs each statement.
struct Check {
    case: Option<Case>,
    seen: BTreeMap<&'static str, u32>,
}

impl Check {
    fn new(name: &'static str, case: Option<Case>) -> Self {
        let watching = Watching::new(None);
        assert!(holds(case, &watching), "{name} fails");
        let seen = std::mem::take(&mut *watching.watched.seen.lock());
        assert!(seen.values().all(|runs| *runs < RUNS), "{name}: {seen:#?}");
        Self { case, seen }
    }
}

fn holds(case: Option<Case>, watching: &Watching) -> bool {
    quietly(|| match case {
        Some(case) => {
            case(watching);
            true
        }
        None => {
            let histories = u32::try_from(HISTORIES.half()).unwrap();
            let begin = |number| watching.watched.history.store(number, Ordering::Relaxed);
            fixed_histories_agree(watching, histories, begin)
        }
    })
}

thread_local! {
    static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether a check passes. A panic prints nothing.
fn quietly(check: impl FnOnce() -> bool) -> bool {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                loud(panic);
            }
        }));
    });
    QUIET.set(true);
    let held = catch_unwind(AssertUnwindSafe(check));
    QUIET.set(false);
    held.unwrap_or(false)
}

/// Carries out `work` for each element, on two threads.
fn each<T: Send, R: Send>(all: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let (next, done) = (Mutex::new(all.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(one) = next.lock().next() else {
                        return;
                    };
                    let result = work(one);
                    done.lock().push(result);
                }
            });
        }
    });
    done.into_inner()
}

/// How a mutant was noticed.
enum Found {
    ByCase,
    /// The number of the history, from 1.
    ByHistory(u64),
}

/// Carries out the checks on a mutant until one fails.
fn find(checks: &[Check], mutant: Mutant) -> Option<Found> {
    let mutated = Some((mutant, mutant.text()));
    let mut concerned = checks
        .iter()
        .filter(|check| check.seen.contains_key(mutant.statement));
    concerned.find_map(|check| {
        let watching = Watching::new(mutated);
        let noticed = !holds(check.case, &watching);
        noticed.then(|| match watching.watched.history.load(Ordering::Relaxed) {
            0 => Found::ByCase,
            number => Found::ByHistory(number),
        })
    })
}

/// The checks, the shortest first, without those in which threads race.
fn checks() -> Vec<Check> {
    let once = CASES.iter().filter(|(name, _)| {
        let again = [
            "at_once",
            "at_that_moment",
            "histories",
            "large_batches",
            "many_",
            "never",
            "races",
        ];
        !again.iter().any(|part| name.contains(part))
    });
    let cases = once.map(|(name, case)| (*name, Some(*case)));
    let all: Vec<_> = cases.chain([("histories", None)]).collect();
    let mut checks = each(all, |(name, case)| Check::new(name, case));
    checks.sort_by_key(|check| check.seen.values().sum::<u32>());
    checks
}

/// The statements in the source of `sql/` that write.
fn written() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql");
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        // Statements that the backends run outside of the shared verbs, and examples.
        let apart = ["hot.rs", "layout.rs", "words.rs"];
        if apart.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        let source = std::fs::read_to_string(path).unwrap();
        for literal in source.split('"').filter(|text| writes(text)) {
            let lines = literal.split("\\\n").map(str::trim_start);
            let text: String = lines.collect();
            found.push(text);
        }
    }
    assert!(found.len() > 50, "{found:#?}");
    found
}

/// Whether no check carries a statement out. Of a statement whose text depends on the database,
/// only the beginning is compared.
fn is_unseen(text: &str, seen: &BTreeSet<&str>) -> bool {
    let alike = text.split('{').next().unwrap_or_default();
    let exact = alike.len() == text.len();
    let same = |sql: &str| sql.starts_with(alike) && (!exact || sql.len() == text.len());
    !seen.iter().any(|sql| same(sql))
}

/// Takes half a minute: each mutant of each statement runs the cases that execute it.
#[test]
fn a_mistake_in_a_shared_statement_is_noticed() {
    let checks = checks();
    let seen = checks.iter().flat_map(|check| check.seen.keys().copied());
    let statements: BTreeSet<&'static str> = seen.collect();
    let mut unseen = written();
    unseen.retain(|text| is_unseen(text, &statements));

    let mutants: Vec<Mutant> = statements.iter().copied().flat_map(Mutant::all).collect();
    let scratch = Watching::new(None);
    drop(scratch.open_it());
    let connection = Connection::open(scratch.file.path()).unwrap();
    for text in mutants.iter().filter_map(|mutant| mutant.text()) {
        connection.prepare(text).unwrap();
    }
    let count = mutants.len();
    let found = each(mutants, |mutant| (mutant.name(), find(&checks, mutant)));
    println!("{} statements, {count} mutants", statements.len());
    let mut unnoticed = BTreeSet::new();
    for (name, found) in found {
        match found {
            Some(Found::ByCase) => {}
            Some(Found::ByHistory(number)) => println!("mistake {name}: found by history {number}"),
            None => drop(unnoticed.insert(name)),
        }
    }
    println!("{} unnoticed", unnoticed.len());
    for name in &unnoticed {
        println!("{name}");
    }
    let known: BTreeSet<String> = HARMLESS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    assert_eq!(unseen, Vec::<String>::new(), "no check carries these out");
    assert_eq!(unnoticed, known);
}
