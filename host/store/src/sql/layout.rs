//! The layout of the tables, as a list of steps. Each store records how many steps it has taken, and
//! which layout a program has to know to work on it.
//!
//! The first step of each database has a text of its own. A released step never changes
//! (`steps.txt`): a new table, column or index is a new step at the end of [`LATER`].
//!
//! A step is additive if programs that do not know it may go on working on the store: they read
//! what they need, and nothing that they write contradicts the step. Every other step is refused
//! while such a program is a member. A new version of bytes inside a row (the state of the engine,
//! a payload) that older programs cannot read is a step, too: one without statements that is not
//! additive. `docs/compatibility.md` has the rules.

use super::{Sql, sql};
use crate::codes;
use crate::error::Error;

/// The version of this program.
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// The number of members that an error names.
const NAMED: usize = 5;

/// The steps of both databases, after the first one.
const LATER: [(Sql, Kind); 0] = [];

/// Whether programs that do not know a step may work on a store that has taken it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// They may.
    #[cfg_attr(not(test), expect(dead_code, reason = "no step since the first one"))]
    Additive,
    /// They must not.
    Breaking,
}

/// A step of the layout of one database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) sql: &'static str,
    pub(crate) kind: Kind,
}

/// All steps of one database that a program knows, in order. The number of steps that a store has
/// taken is its layout.
pub(crate) struct Steps(Vec<Step>);

impl Steps {
    /// The steps of SQLite, and further ones that a test adds.
    pub(crate) fn sqlite(further: &[Step]) -> Self {
        let later = LATER.map(|(sql, kind)| Step {
            sql: sql.sqlite,
            kind,
        });
        Self::of(include_str!("../sqlite/schema.sql"), &later, further)
    }

    fn of(first: &'static str, later: &[Step], further: &[Step]) -> Self {
        let first = Step {
            sql: first,
            kind: Kind::Breaking,
        };
        Self([&[first][..], later, further].concat())
    }

    /// The newest layout that the program knows.
    pub(crate) fn known(&self) -> usize {
        self.0.len()
    }

    /// The steps that a store has not taken, with their numbers.
    pub(crate) fn after(&self, found: usize) -> impl Iterator<Item = (i64, Step)> {
        (1..).zip(self.0.iter().copied()).skip(found)
    }

    /// The lowest layout that a program has to know to work on a store of the newest layout.
    pub(crate) fn required(&self) -> i64 {
        self.breaking_after(0).unwrap_or(0)
    }

    /// The last step that is not additive, if a store of layout `found` has not taken it.
    pub(crate) fn breaking_after(&self, found: usize) -> Option<i64> {
        let breaking = self
            .after(found)
            .filter(|(_, it)| it.kind == Kind::Breaking);
        breaking.last().map(|(number, _)| number)
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::{LATER, Step, Steps};

    impl Steps {
        /// The steps of PostgreSQL, and further ones that a test adds.
        pub(crate) fn postgres(further: &[Step]) -> Self {
            let later = LATER.map(|(sql, kind)| Step {
                sql: sql.postgres,
                kind,
            });
            Self::of(include_str!("../postgres/schema.sql"), &later, further)
        }
    }
}

/// Records what a program has to know. Done with every migration.
pub(crate) const REQUIRE: Sql = sql!(
    "INSERT INTO requirement (no, layout, program) VALUES (1, ?1, ?2) \
    ON CONFLICT (no) DO UPDATE SET layout = excluded.layout, program = excluded.program \
    WHERE excluded.layout > requirement.layout"
);

/// Reads it.
pub(crate) const REQUIREMENT: Sql = sql!("SELECT layout, program FROM requirement");

/// Members whose program does not know a layout.
pub(crate) const BEHIND: Sql = sql!(
    "SELECT incarnation, name, pid, program FROM member \
    WHERE layout < ?1 ORDER BY incarnation"
);

/// A member that does not know a layout, and lives.
pub(crate) struct Behind {
    pub(crate) incarnation: i64,
    pub(crate) name: String,
    pub(crate) pid: i64,
    /// The version of its program.
    pub(crate) program: String,
}

/// What a store demands of a program.
pub(crate) struct Requirement {
    /// The lowest layout that the program has to know.
    pub(crate) layout: i64,
    /// The version of the program that took that step.
    pub(crate) program: String,
}

/// Accepts a store with more steps than the program knows if all that the program lacks are
/// additive.
///
/// # Errors
///
/// `WL-S003`: the store demands more.
pub(crate) fn accept(
    place: &str,
    (found, known): (usize, usize),
    required: Option<&Requirement>,
) -> Result<(), Error> {
    match required {
        Some(required) if required.layout <= i64::try_from(known).unwrap_or(i64::MAX) => Ok(()),
        Some(required) => Err(too_old(place, known, required)),
        None => {
            let text = format!(
                "a newer Windlass has laid out {place}: it has layout {found}, and this Windlass \
                {PROGRAM} knows {known}"
            );
            Err(Error::new(codes::NEWER, text).help("Use that Windlass, or another store."))
        }
    }
}

/// Refuses to migrate a store of an older layout, unless this process may.
///
/// # Errors
///
/// `WL-S023`: the store has an older layout, and `migrates` is false.
pub(crate) fn permit(
    place: &str,
    (found, known): (usize, usize),
    migrates: bool,
) -> Result<(), Error> {
    if migrates || found >= known {
        return Ok(());
    }
    let text = format!(
        "{place} has layout {found} of an older Windlass, and this Windlass {PROGRAM} works on \
        layout {known}"
    );
    Err(Error::new(codes::NOT_MIGRATED, text).help(
        "`windlass serve`, `windlass run` or `windlass store migrate` of this version migrates it; \
        until then use the older one.",
    ))
}

/// The error of a program that does not know a layout that a store demands.
pub(crate) fn too_old(place: &str, known: usize, required: &Requirement) -> Error {
    let Requirement { layout, program } = required;
    let text = format!(
        "{place} needs Windlass {program} or a newer one: it demands layout {layout}, and this \
        Windlass {PROGRAM} knows {known}"
    );
    Error::new(codes::NEWER, text).help(format!(
        "Use Windlass {program}. To go back, restore a backup from before the upgrade."
    ))
}

/// The error for a step that is not additive, while members live that do not know it.
pub(crate) fn in_the_way(place: &str, layout: i64, behind: &[Behind]) -> Error {
    let named = behind.iter().take(NAMED).map(|member| {
        let Behind {
            incarnation,
            name,
            pid,
            program,
        } = member;
        format!("member {incarnation} ({name}, process {pid}, Windlass {program})")
    });
    let mut named = named.collect::<Vec<_>>().join(", ");
    if behind.len() > NAMED {
        named.push_str(&format!(", and {} more", behind.len() - NAMED));
    }
    let text = format!(
        "{place} cannot be brought to layout {layout} while older programs work on it: {named}"
    );
    Error::new(codes::MEMBERS_BEHIND, text).help(
        "Stop them, and start this one again. In PostgreSQL a killed process counts as a member \
        until its lease has run out.",
    )
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use std::fmt::Write as _;

    use windlass_model::Digest;

    use super::{Kind, Steps};

    #[test]
    fn a_released_step_never_changes() {
        let mut lines = String::new();
        for (name, steps) in [
            ("sqlite", Steps::sqlite(&[])),
            ("postgres", Steps::postgres(&[])),
        ] {
            for (number, step) in steps.after(0) {
                let digest = Digest::of(step.sql.as_bytes());
                let kind = match step.kind {
                    Kind::Additive => "additive",
                    Kind::Breaking => "breaking",
                };
                writeln!(lines, "{name} {number} {kind} {digest}").unwrap();
            }
        }
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/steps.txt");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(golden, &lines).unwrap();
        }
        assert_eq!(std::fs::read_to_string(golden).unwrap(), lines);
    }
}
