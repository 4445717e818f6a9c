//! Translates PostgreSQL's errors into errors of the store.

use windlass_model::Code;
pub(super) use windlass_postgres::{Fault, is_conflict, is_gone};
use windlass_postgres::{Kind, told};

use crate::codes;
use crate::error::Error;

struct Meaning {
    code: Code,
    what: &'static str,
    help: &'static str,
    transient: bool,
}

/// The error message for a fault of the store at `place`.
pub(super) fn explain(place: &str, error: &Fault) -> Error {
    let meaning = meaning(Kind::of(error));
    let text = format!("{} ({place}: {})", meaning.what, told(error));
    let mut told = Error::new(meaning.code, text).help(meaning.help);
    told.transient = meaning.transient;
    told
}

/// The server accepts connections but does not answer.
pub(super) fn silent(place: &str) -> Error {
    let meaning = passes(Kind::Unreachable);
    let text = format!("{} ({place}: it does not answer)", meaning.what);
    Error::new(meaning.code, text)
        .help(meaning.help)
        .transient()
}

/// Errors that last until an operator acts.
fn meaning(kind: Kind) -> Meaning {
    let of = |code, what, help| Meaning {
        code,
        what,
        help,
        transient: false,
    };
    match kind {
        Kind::Tls => of(
            codes::TLS,
            "the connection cannot be encrypted, or the server is not trusted",
            "Let the server offer TLS, name its authority with `sslrootcert`, or say \
             `sslmode=disable` where the network is your own.",
        ),
        Kind::Login => of(
            codes::LOGIN,
            "the database does not let this user in",
            "Check user and password in the store's URL, and the server's `pg_hba.conf`.",
        ),
        Kind::Address => of(
            codes::BAD_URL,
            "the store's URL lacks something",
            "Write it like `postgresql://user@host:5432/database`.",
        ),
        Kind::NoDatabase => of(
            codes::NO_DATABASE,
            "there is no such database",
            "Make it with `createdb`, or name another one in the store's URL.",
        ),
        Kind::NotAllowed => of(
            codes::NOT_ALLOWED,
            "the user may not do that in the database",
            "Make the user the owner of the schema, or let it create one.",
        ),
        Kind::ReadOnly => of(
            codes::READ_ONLY,
            "the database cannot be written",
            "Name the primary server in the store's URL, not a replica.",
        ),
        Kind::NotLaidOut => of(
            codes::NOT_LAID_OUT,
            "the tables in the database are not laid out as this Windlass expects",
            "Name another schema or database; this one is left as it is.",
        ),
        Kind::Unreadable => of(
            codes::CORRUPT,
            "the database has answered something that cannot be read",
            "Stop every process that uses it and restore a backup.",
        ),
        Kind::Damaged => of(
            codes::CORRUPT,
            "the store is damaged",
            "Stop every process that uses it and restore a backup.",
        ),
        Kind::Contradiction => of(
            codes::CONTRADICTION,
            "a write contradicts the stored rows",
            "This is a fault of Windlass: please report it.",
        ),
        Kind::Unsendable => of(
            codes::CONTRADICTION,
            "a write cannot be stored",
            "This is a fault of Windlass: please report it.",
        ),
        passing => passes(passing),
    }
}

/// Errors that may disappear without any action.
fn passes(kind: Kind) -> Meaning {
    let of = |code, what, help| Meaning {
        code,
        what,
        help,
        transient: true,
    };
    match kind {
        Kind::Unreachable => of(
            codes::UNREACHABLE,
            "the database cannot be reached",
            "Check that the server runs and that its address is right; work goes on by itself.",
        ),
        Kind::Full => of(
            codes::FULL,
            "there is no room left for the store",
            "Make room on the server's disk; nothing acknowledged is lost, and work goes on by itself.",
        ),
        Kind::NoConnection => of(
            codes::CONNECTIONS,
            "the server has no connection left",
            "Raise `max_connections`, or let fewer processes share the server.",
        ),
        Kind::Busy => of(
            codes::BUSY,
            "another process has kept the store locked for too long",
            "Look for a session that holds a transaction open, in `pg_stat_activity`.",
        ),
        _ => of(
            codes::IO,
            "the database failed",
            "Look into the server's log; the write may be tried again.",
        ),
    }
}
