//! The layout of the tables, as a list of steps. Each store records how many steps it has taken.
//!
//! Each database has some steps of its own, from the time before the layouts shared one text. A
//! released step never changes: a new table, column or index is a new step at the end of [`BOTH`].

use super::{Sql, sql};

/// The steps of both databases, after their own steps.
const BOTH: [Sql; 2] = [
    sql!(include_str!("schema_troubles.sql")),
    sql!(include_str!("schema_component_signatures.sql")),
];

/// The steps of SQLite alone.
const SQLITE: [&str; 9] = [
    include_str!("../sqlite/schema.sql"),
    include_str!("../sqlite/schema_definitions.sql"),
    include_str!("../sqlite/schema_stimuli.sql"),
    include_str!("../sqlite/schema_settings.sql"),
    include_str!("../sqlite/schema_drafts.sql"),
    include_str!("../sqlite/schema_components.sql"),
    include_str!("../sqlite/schema_component_use.sql"),
    include_str!("../sqlite/schema_generation.sql"),
    include_str!("../sqlite/schema_sums.sql"),
];

/// The number of steps of SQLite.
pub(crate) const SQLITE_STEPS: usize = SQLITE.len() + BOTH.len();

/// All steps of SQLite, in order.
pub(crate) fn sqlite() -> impl Iterator<Item = &'static str> {
    SQLITE.into_iter().chain(BOTH.map(|step| step.sqlite))
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::BOTH;

    /// The steps of PostgreSQL alone.
    const OWN: [&str; 4] = [
        include_str!("../postgres/schema.sql"),
        include_str!("../postgres/schema_components.sql"),
        include_str!("../postgres/schema_component_use.sql"),
        include_str!("../postgres/schema_snapshots.sql"),
    ];

    /// The number of steps of PostgreSQL.
    pub(crate) const POSTGRES_STEPS: usize = OWN.len() + BOTH.len();

    /// All steps of PostgreSQL, in order.
    pub(crate) fn postgres() -> impl Iterator<Item = &'static str> {
        OWN.into_iter().chain(BOTH.map(|step| step.postgres))
    }
}
#[cfg(feature = "postgres")]
pub(crate) use self::postgres::{POSTGRES_STEPS, postgres};
