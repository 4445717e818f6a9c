//! The statements that SQLite and PostgreSQL share, written once. Code about groups of writes or
//! lanes belongs to each backend.
//!
//! A statement is translated into the dialect of each database when the host is compiled
//! ([`sql!`]). Both backends return rows as [`Row`], and [`row`] reads values from them. Readers
//! run on a [`Source`], verbs on a [`Transaction`].
//!
//! Where to put new code:
//!
//! * a reader: a function over `Source` in the file of its subject, and a line in the list of
//!   `crate::read`;
//! * a verb: an `async fn` over `Transaction` in the file of its subject, and a line in the list of
//!   `crate::write`;
//! * a table, a column or an index: a step in [`layout`];
//! * a statement of the hot path with the same text in both databases: [`hot`].

pub(crate) mod batches;
pub(crate) mod components;
pub(crate) mod drafts;
pub(crate) mod external;
pub(crate) mod holding;
pub(crate) mod hot;
pub(crate) mod importing;
pub(crate) mod layout;
pub(crate) mod letters;
pub(crate) mod listing;
pub(crate) mod lives;
mod param;
pub(crate) mod planning;
pub(crate) mod published;
pub(crate) mod publishing;
pub(crate) mod queueing;
pub(crate) mod readers;
pub(crate) mod row;
pub(crate) mod rows;
pub(crate) mod settings;
pub(crate) mod snapshot;
pub(crate) mod stimulus_rows;
pub(crate) mod sweeping;
pub(crate) mod transaction;
pub(crate) mod trees;
pub(crate) mod words;

pub(crate) use self::param::{Param, params};
pub(crate) use self::readers::{InTables, Tables};
pub(crate) use self::row::Row;
pub(crate) use self::transaction::Transaction;
use crate::error::Result;

/// One statement, in the dialect of each database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sql {
    pub(crate) sqlite: &'static str,
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "of the other backend")
    )]
    pub(crate) postgres: &'static str,
}

/// Makes a [`Sql`] from a constant text.
///
/// * Parameters are `?1`, `?2` and so on, which are `$1` and `$2` for PostgreSQL.
/// * `{one|other}` is `one` for SQLite and `other` for PostgreSQL; each may be empty.
/// * `CROSS JOIN … ON`, which keeps SQLite from changing the order of its loops, is `JOIN … ON` for
///   PostgreSQL.
macro_rules! sql {
    ($text:expr) => {{
        const TEXT: &str = $text;
        const SQLITE: [u8; $crate::sql::words::length(TEXT, false)] =
            $crate::sql::words::write(TEXT, false);
        const POSTGRES: [u8; $crate::sql::words::length(TEXT, true)] =
            $crate::sql::words::write(TEXT, true);
        $crate::sql::Sql {
            sqlite: const { $crate::sql::words::text(&SQLITE) },
            postgres: const { $crate::sql::words::text(&POSTGRES) },
        }
    }};
}
pub(crate) use sql;

/// Carries out statements that only read, each by itself.
pub(crate) trait Source {
    /// All rows that a statement returns.
    fn all<T>(
        &self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Result<Vec<T>>;

    /// The first row, if there is one. For statements that return at most one.
    fn one<T>(
        &self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.all(sql, params, read)?.into_iter().next())
    }
}

/// Lets several statements see the same moment.
pub(crate) trait Moments {
    /// A source whose statements see one moment.
    type Moment<'m>: Source
    where
        Self: 'm;

    /// Reads with statements that all see the same moment.
    fn moment<T>(&self, read: impl FnOnce(&Self::Moment<'_>) -> Result<T>) -> Result<T>;
}
