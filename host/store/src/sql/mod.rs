//! What is the same in SQLite and PostgreSQL, written once: statements, and how their rows are
//! read. What belongs to groups of writes or to lanes stays with its backend.
//!
//! A statement is written for SQLite and turned into PostgreSQL's words when the host is compiled
//! ([`sql!`]). Both backends give rows by [`Row`], and [`row`] reads values out of them.

pub(crate) mod drafts;
mod param;
pub(crate) mod published;
pub(crate) mod row;

pub(crate) use self::param::{Param, params};
pub(crate) use self::row::Row;
use crate::error::Result;

/// One statement, in the words of each database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sql {
    pub(crate) sqlite: &'static str,
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "of the other backend")
    )]
    pub(crate) postgres: &'static str,
}

/// Makes a [`Sql`] of a constant text. The parameters are `?1`, `?2` and so on, which are `$1` and
/// `$2` for PostgreSQL. `CROSS JOIN … ON`, which keeps SQLite from changing the order of its
/// loops, is `JOIN … ON` there.
macro_rules! sql {
    ($text:expr) => {{
        const SQLITE: &str = $text;
        const BYTES: [u8; $crate::sql::postgres_length(SQLITE)] = $crate::sql::postgres(SQLITE);
        const POSTGRES: &str = match std::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => panic!("the statement is no text"),
        };
        $crate::sql::Sql {
            sqlite: SQLITE,
            postgres: POSTGRES,
        }
    }};
}
pub(crate) use sql;

/// The next byte of a statement in PostgreSQL's words, and what comes after it.
const fn next(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'C', b'R', b'O', b'S', b'S', b' ', rest @ ..] => next(rest),
        [b'?', rest @ ..] => Some((b'$', rest)),
        [other, rest @ ..] => Some((*other, rest)),
        [] => None,
    }
}

/// The length of a statement in PostgreSQL's words, in bytes.
pub(crate) const fn postgres_length(text: &str) -> usize {
    let (mut text, mut length) = (text.as_bytes(), 0);
    while let Some((_, rest)) = next(text) {
        text = rest;
        length += 1;
    }
    length
}

/// A statement in PostgreSQL's words, of [`postgres_length`] bytes.
#[expect(clippy::indexing_slicing, reason = "is carried out by the compiler")]
pub(crate) const fn postgres<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let mut written = [0; LENGTH];
    let (mut text, mut length) = (text.as_bytes(), 0);
    while let Some((byte, rest)) = next(text) {
        written[length] = byte;
        text = rest;
        length += 1;
    }
    written
}

/// Where statements that only read are carried out, each by itself.
pub(crate) trait Source {
    /// Everything that a statement finds.
    fn all<T>(
        &self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Result<Vec<T>>;

    /// The first row, if there is one. For statements that find no more than one.
    fn one<T>(
        &self,
        sql: Sql,
        params: Vec<Param>,
        read: impl Fn(&dyn Row) -> Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.all(sql, params, read)?.into_iter().next())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_statement_is_turned_into_the_words_of_the_other_database() {
        let sql = sql!("SELECT a FROM x CROSS JOIN y ON y.no = ?1 WHERE x.no = ?12");
        assert_eq!(
            sql.sqlite,
            "SELECT a FROM x CROSS JOIN y ON y.no = ?1 WHERE x.no = ?12"
        );
        assert_eq!(
            sql.postgres,
            "SELECT a FROM x JOIN y ON y.no = $1 WHERE x.no = $12"
        );
    }
}
