//! What PostgreSQL's errors mean to somebody who wants to go on working.

use tokio_postgres::error::SqlState;
use windlass_model::Code;

use crate::codes;
use crate::error::Error;

/// An error of the server, of the connection to it, or of a value that it sent.
pub(super) type Fault = tokio_postgres::Error;

struct Meaning {
    code: Code,
    what: &'static str,
    help: &'static str,
    transient: bool,
}

/// An error for people, from one about the store at `place`.
pub(super) fn explain(place: &str, error: &Fault) -> Error {
    let meaning = meaning(error);
    let mut text = format!("{} ({place}: {error}", meaning.what);
    if let Some(server) = error.as_db_error() {
        text.push_str(&format!(": {}", server.message()));
        if let Some(detail) = server.detail() {
            text.push_str(&format!("; {detail}"));
        }
    } else if let Some(source) = std::error::Error::source(error) {
        text.push_str(&format!(": {source}"));
    }
    text.push(')');
    let mut told = Error::new(meaning.code, text).help(meaning.help);
    told.transient = meaning.transient;
    told
}

/// Whether the connection is of no use any more, or was never made.
pub(super) fn is_gone(error: &Fault) -> bool {
    if error.is_closed() {
        return true;
    }
    if of_client(error).is_some() {
        return false;
    }
    match error.code() {
        Some(code) => code.code().starts_with("08") || code.code().starts_with("57P"),
        // Not from the server: of the socket, unless a value could not be read or written.
        None => std::error::Error::source(error)
            .is_none_or(|source| source.downcast_ref::<std::io::Error>().is_some()),
    }
}

/// Whether the server gave a transaction up in favour of another one: it may be done again at
/// once.
pub(super) fn is_conflict(error: &Fault) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
    })
}

/// What the client itself has found out. Its errors have no codes, so that their texts tell.
fn of_client(error: &Fault) -> Option<Meaning> {
    if error.code().is_some() {
        return None;
    }
    let of = |code, what, help| {
        Some(Meaning {
            code,
            what,
            help,
            transient: false,
        })
    };
    let text = error.to_string();
    if text.starts_with("error performing TLS handshake") {
        return of(
            codes::TLS,
            "the connection cannot be encrypted",
            "Let the server offer TLS, name its authority with `sslrootcert`, or say \
             `sslmode=disable` where the network is your own.",
        );
    }
    if text.starts_with("authentication error") {
        return of(
            codes::LOGIN,
            "the database does not let this user in",
            "Give the password in the store's URL.",
        );
    }
    if text.starts_with("invalid configuration") {
        return of(
            codes::BAD_URL,
            "the store's URL lacks something",
            "Write it like `postgresql://user@host:5432/database`.",
        );
    }
    if text.starts_with("error serializing parameter") {
        return of(
            codes::CONTRADICTION,
            "a write cannot be stored",
            "This is a fault of Windlass: please report it.",
        );
    }
    None
}

fn meaning(error: &Fault) -> Meaning {
    let of = |code, what, help, transient| Meaning {
        code,
        what,
        help,
        transient,
    };
    if is_gone(error) {
        return of(
            codes::UNREACHABLE,
            "the database cannot be reached",
            "Check that the server runs and that its address is right; work goes on by itself.",
            true,
        );
    }
    if let Some(meaning) = of_client(error) {
        return meaning;
    }
    let Some(state) = error.code() else {
        return of(
            codes::CORRUPT,
            "the database has answered something that cannot be read",
            "Stop every process that uses it and restore a backup.",
            false,
        );
    };
    match state.code() {
        "28000" | "28P01" => of(
            codes::LOGIN,
            "the database does not let this user in",
            "Check user and password in the store's URL, and the server's `pg_hba.conf`.",
            false,
        ),
        "3D000" => of(
            codes::NO_DATABASE,
            "there is no such database",
            "Make it with `createdb`, or name another one in the store's URL.",
            false,
        ),
        "42501" => of(
            codes::NOT_ALLOWED,
            "the user may not do that in the database",
            "Make the user the owner of the schema, or let it create one.",
            false,
        ),
        "25006" => of(
            codes::READ_ONLY,
            "the database cannot be written",
            "Name the primary server in the store's URL, not a replica.",
            false,
        ),
        "53100" => of(
            codes::FULL,
            "there is no room left for the store",
            "Make room on the server's disk; nothing acknowledged is lost, and work goes on by itself.",
            true,
        ),
        "53300" => of(
            codes::CONNECTIONS,
            "the server has no connection left",
            "Raise `max_connections`, or let fewer processes share the server.",
            true,
        ),
        "55P03" | "57014" | "40001" | "40P01" | "25P03" => of(
            codes::BUSY,
            "another process has kept the store locked for too long",
            "Look for a session that holds a transaction open, in `pg_stat_activity`.",
            true,
        ),
        "XX001" | "XX002" => of(
            codes::CORRUPT,
            "the store is damaged",
            "Stop every process that uses it and restore a backup.",
            false,
        ),
        code if code.starts_with("22") || code.starts_with("23") => of(
            codes::CONTRADICTION,
            "a write contradicts what is stored",
            "This is a fault of Windlass: please report it.",
            false,
        ),
        code if code.starts_with("42") => of(
            codes::NOT_LAID_OUT,
            "the tables in the database are not laid out as this Windlass expects",
            "Name another schema or database; this one is left as it is.",
            false,
        ),
        _ => of(
            codes::IO,
            "the database failed",
            "Look into the server's log; the write may be tried again.",
            true,
        ),
    }
}
