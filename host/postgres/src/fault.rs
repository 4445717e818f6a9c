//! What PostgreSQL's errors mean to somebody who wants to go on working.

use std::error::Error as _;
use std::io;

use tokio_postgres::error::{DbError, SqlState};

/// An error of the server, of the connection to it, or of a value that it sent.
pub type Fault = tokio_postgres::Error;

/// What an error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The connection is of no use any more, or was never made.
    Unreachable,
    /// It cannot be encrypted as asked for, or the server is not trusted.
    Tls,
    /// The server does not let the user in.
    Login,
    /// The address lacks something.
    Address,
    /// A value cannot be sent.
    Unsendable,
    /// What the server has sent cannot be read.
    Unreadable,
    /// There is no such database.
    NoDatabase,
    /// The user may not do that.
    NotAllowed,
    /// The server is a replica, or the session only reads.
    ReadOnly,
    /// There is no room left on the server's disk.
    Full,
    /// The server has no connection left.
    NoConnection,
    /// Others hold what is needed, for too long.
    Busy,
    /// What is stored is damaged.
    Damaged,
    /// A value contradicts what is stored.
    Contradiction,
    /// A table, a column or a function is not there.
    NotLaidOut,
    /// The server is short of something, was told to give up, or failed: it may pass.
    Failed,
    /// Whatever else the server refuses.
    Refused,
}

impl Kind {
    /// What an error means.
    pub fn of(error: &Fault) -> Self {
        if is_gone(error) {
            return Self::Unreachable;
        }
        match error.as_db_error() {
            Some(server) if is_of_replica(server) => Self::ReadOnly,
            Some(server) => of_server(server.code().code()),
            None => of_client(error).unwrap_or(Self::Unreadable),
        }
    }
}

/// Whether the connection is of no use any more, or was never made.
pub fn is_gone(error: &Fault) -> bool {
    if error.is_closed() {
        return true;
    }
    if of_client(error).is_some() {
        return false;
    }
    match error.code() {
        Some(code) => code.code().starts_with("08") || code.code().starts_with("57P"),
        // Not from the server: of the socket, unless a value could not be read or written.
        None => error
            .source()
            .is_none_or(|source| source.downcast_ref::<io::Error>().is_some()),
    }
}

/// Whether the server gave a transaction up in favour of another one: it may be done again at
/// once.
pub fn is_conflict(error: &Fault) -> bool {
    let code = error.code().map(|code| code.code());
    matches!(code, Some("40001" | "40P01"))
}

/// Whether the details of an error are values: a row that breaks a constraint, or a value that
/// its type does not take. They may be anybody's data, and an error goes to logs.
fn has_values(code: &SqlState) -> bool {
    code.code().starts_with("22") || code.code().starts_with("23")
}

/// An error with what is behind it, for people. It names the constraint that a row breaks, and
/// shows nothing of the row.
pub fn told(error: &Fault) -> String {
    let mut text = error.to_string();
    if let Some(server) = error.as_db_error() {
        text.push_str(&format!(": {}", server.message()));
        let detail = server.detail().filter(|_| !has_values(server.code()));
        if let Some(detail) = detail {
            text.push_str(&format!("; {detail}"));
        }
    } else if let Some(source) = error.source() {
        text.push_str(&format!(": {source}"));
    }
    text
}

/// What the client itself has found out. Its errors have no codes, so that their texts tell.
fn of_client(error: &Fault) -> Option<Kind> {
    if error.code().is_some() {
        return None;
    }
    let text = error.to_string();
    let begins = |with: &str| text.starts_with(with);
    if begins("error performing TLS handshake") {
        // A server that goes away in the middle says nothing about trust.
        let of_socket = error.source().and_then(|it| it.downcast_ref::<io::Error>());
        let is_cut = of_socket.is_some_and(|it| it.kind() != io::ErrorKind::InvalidData);
        return (!is_cut).then_some(Kind::Tls);
    }
    if begins("authentication error") {
        return Some(Kind::Login);
    }
    if begins("invalid configuration") {
        return Some(Kind::Address);
    }
    begins("error serializing parameter").then_some(Kind::Unsendable)
}

/// Whether a transaction that says that it writes is refused because the server is a replica. The
/// state is that of whatever is not supported, and the message in the server's language: the
/// function that says it tells.
fn is_of_replica(error: &DbError) -> bool {
    *error.code() == SqlState::FEATURE_NOT_SUPPORTED
        && error.routine() == Some("call_bool_check_hook")
}

fn of_server(state: &str) -> Kind {
    match state {
        "28000" | "28P01" => Kind::Login,
        "3D000" => Kind::NoDatabase,
        "42501" => Kind::NotAllowed,
        "25006" => Kind::ReadOnly,
        "53100" => Kind::Full,
        "53300" => Kind::NoConnection,
        "55P03" | "57014" | "40001" | "40P01" | "25P03" => Kind::Busy,
        "XX001" | "XX002" => Kind::Damaged,
        _ => match state.get(..2).unwrap_or_default() {
            "22" | "23" => Kind::Contradiction,
            "42" => Kind::NotLaidOut,
            "40" | "53" | "57" | "58" | "XX" => Kind::Failed,
            _ => Kind::Refused,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, of_server};

    fn check(states: &[&str], kind: Kind) {
        for state in states {
            assert_eq!(of_server(state), kind, "{state}");
        }
    }

    #[test]
    fn what_the_server_says_has_a_meaning() {
        check(&["28000", "28P01"], Kind::Login);
        check(&["53100"], Kind::Full);
        check(&["53200", "58030", "57000", "XX000"], Kind::Failed);
        check(&["40001", "40P01", "55P03", "57014"], Kind::Busy);
        check(&["23505", "22001"], Kind::Contradiction);
        check(&["42501"], Kind::NotAllowed);
        check(&["42P01", "42703"], Kind::NotLaidOut);
        check(&["0A000", "P0001", ""], Kind::Refused);
    }
}
