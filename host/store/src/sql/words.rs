//! Translates the shared text of a statement into the dialect of each database, at compile time.

/// The remaining text, and whether it begins inside braces.
#[derive(Clone, Copy)]
struct Position<'t> {
    rest: &'t [u8],
    inside: bool,
}

/// The text after the next `end`.
const fn behind(mut text: &[u8], end: u8) -> &[u8] {
    while let [first, rest @ ..] = text {
        text = rest;
        if *first == end {
            break;
        }
    }
    text
}

/// The next byte in the dialect of one database, and the position after it.
const fn next(place: Position<'_>, postgres: bool) -> Option<(u8, Position<'_>)> {
    let Position { rest, inside } = place;
    match rest {
        [] => None,
        [b'{', rest @ ..] => {
            let rest = if postgres { behind(rest, b'|') } else { rest };
            next(Position { rest, inside: true }, postgres)
        }
        [b'|', rest @ ..] if inside && !postgres => {
            let rest = behind(rest, b'}');
            next(
                Position {
                    rest,
                    inside: false,
                },
                postgres,
            )
        }
        [b'}', rest @ ..] if inside => next(
            Position {
                rest,
                inside: false,
            },
            postgres,
        ),
        [b'C', b'R', b'O', b'S', b'S', b' ', rest @ ..] if postgres => {
            next(Position { rest, inside }, postgres)
        }
        [b'?', rest @ ..] if postgres => Some((b'$', Position { rest, inside })),
        [other, rest @ ..] => Some((*other, Position { rest, inside })),
    }
}

const fn beginning(text: &str) -> Position<'_> {
    Position {
        rest: text.as_bytes(),
        inside: false,
    }
}

/// The length of a statement in the dialect of one database, in bytes.
pub(crate) const fn length(text: &str, postgres: bool) -> usize {
    let (mut place, mut length) = (beginning(text), 0);
    while let Some((_, after)) = next(place, postgres) {
        place = after;
        length += 1;
    }
    length
}

/// A statement in the dialect of one database, of [`length`] bytes.
#[expect(clippy::indexing_slicing, reason = "is carried out by the compiler")]
pub(crate) const fn write<const LENGTH: usize>(text: &str, postgres: bool) -> [u8; LENGTH] {
    let mut written = [0; LENGTH];
    let (mut place, mut length) = (beginning(text), 0);
    while let Some((byte, after)) = next(place, postgres) {
        written[length] = byte;
        place = after;
        length += 1;
    }
    written
}

/// The text of these bytes.
#[expect(clippy::panic, reason = "is carried out by the compiler")]
pub(crate) const fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("the statement is no text"),
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::{Sql, sql};

    #[track_caller]
    fn check(statement: Sql, sqlite: &str, postgres: &str) {
        assert_eq!(statement.sqlite, sqlite);
        assert_eq!(statement.postgres, postgres);
    }

    #[test]
    fn a_statement_is_written_in_the_words_of_each_database() {
        check(
            sql!("SELECT a FROM x CROSS JOIN y ON y.no = ?1 WHERE x.no = ?12"),
            "SELECT a FROM x CROSS JOIN y ON y.no = ?1 WHERE x.no = ?12",
            "SELECT a FROM x JOIN y ON y.no = $1 WHERE x.no = $12",
        );
        check(
            sql!("UPDATE x SET b = {min|least}(b, ?2), c = c | 1 WHERE no = ?1{| FOR UPDATE}"),
            "UPDATE x SET b = min(b, ?2), c = c | 1 WHERE no = ?1",
            "UPDATE x SET b = least(b, $2), c = c | 1 WHERE no = $1 FOR UPDATE",
        );
        check(
            sql!("SELECT a{, sum|} FROM x{|, y || z}"),
            "SELECT a, sum FROM x",
            "SELECT a FROM x, y || z",
        );
    }
}
