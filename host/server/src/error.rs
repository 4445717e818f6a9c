//! Errors at the start of the server.

use windlass_model::Code;

use crate::codes;

/// An error at the start of the server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server would listen beyond this machine without a token, so any client could do
    /// anything.
    #[error("the server would listen on {0}, beyond this machine, without a token")]
    NoToken(std::net::SocketAddr),
    /// No request can carry this token.
    #[error("the token has to be of 16 to 1024 visible ASCII characters")]
    BadToken,
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on: {error}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The error of the system.
        error: std::io::Error,
    },
}

impl Error {
    /// The page that explains it.
    pub fn code(&self) -> Code {
        match self {
            Self::NoToken(_) => codes::NO_TOKEN,
            Self::BadToken => codes::SETTING,
            Self::Listen { .. } => codes::CANNOT_LISTEN,
        }
    }

    /// The remedy.
    pub fn help(&self) -> &'static str {
        match self {
            Self::NoToken(_) => {
                "Set `token` in [server] (or WINDLASS_SERVER__TOKEN), or listen on 127.0.0.1."
            }
            Self::BadToken => "Make one with `openssl rand -hex 32`.",
            Self::Listen { .. } => {
                "Something else may listen there: give another `listen` in [server]."
            }
        }
    }
}
