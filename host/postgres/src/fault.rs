//! Classifies PostgreSQL's errors by their consequences for the caller.

use std::error::Error as _;
use std::io;

use tokio_postgres::error::{DbError, SqlState};

/// An error of the server, of the connection to it, or of a value from it.
pub type Fault = tokio_postgres::Error;

/// The class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The connection is broken, or was never made.
    Unreachable,
    /// It cannot be encrypted as requested, or the server is not trusted.
    Tls,
    /// The server rejects the user's credentials.
    Login,
    /// A part of the address is missing.
    Address,
    /// A value cannot be sent.
    Unsendable,
    /// A value from the server cannot be read.
    Unreadable,
    /// There is no such database.
    NoDatabase,
    /// The user lacks a permission.
    NotAllowed,
    /// The server is a replica, or the session is read-only.
    ReadOnly,
    /// There is no room left on the server's disk.
    Full,
    /// The server has no connection left.
    NoConnection,
    /// Others hold locks for too long.
    Busy,
    /// Stored data is damaged.
    Damaged,
    /// A value violates a constraint.
    Contradiction,
    /// A table, a column or a function does not exist.
    NotLaidOut,
    /// The server lacks a resource, was told to stop, or failed: a retry may succeed.
    Failed,
    /// Any other error of the server.
    Refused,
}

impl Kind {
    /// The class of an error.
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

/// Whether the connection is broken, or was never made.
pub fn is_gone(error: &Fault) -> bool {
    if error.is_closed() {
        return true;
    }
    if of_client(error).is_some() {
        return false;
    }
    match error.code() {
        Some(code) => code.code().starts_with("08") || code.code().starts_with("57P"),
        // It is not from the server: it is of the socket, unless a value could not be read or
        // written.
        None => error
            .source()
            .is_none_or(|source| source.downcast_ref::<io::Error>().is_some()),
    }
}

/// Whether the server aborted a transaction in favour of another one: it can be repeated at once.
pub fn is_conflict(error: &Fault) -> bool {
    let code = error.code().map(|code| code.code());
    matches!(code, Some("40001" | "40P01"))
}

/// Whether the details of an error contain values: a row that violates a constraint, or a value
/// that its type rejects. They may be confidential, and errors go to logs.
fn has_values(code: &SqlState) -> bool {
    code.code().starts_with("22") || code.code().starts_with("23")
}

/// An error with its causes, for people. It names the constraint that a row violates, and shows
/// nothing of the row.
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

/// The class of an error that the client itself detected. Its errors have no codes, so their texts
/// are compared.
fn of_client(error: &Fault) -> Option<Kind> {
    if error.code().is_some() {
        return None;
    }
    let text = error.to_string();
    let begins = |with: &str| text.starts_with(with);
    if begins("error performing TLS handshake") {
        // A server that disconnects in the middle is not a matter of trust.
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

/// Whether a write transaction is refused because the server is a replica. The SQL state is that of
/// any unsupported feature, and the message is in the server's language, so the name of the
/// reporting function decides.
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
    fn errors_of_the_server_have_a_kind() {
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
