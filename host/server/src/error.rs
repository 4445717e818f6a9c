//! Why the server cannot begin.

use windlass_model::Code;

use crate::codes;

/// Why the server cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It would listen beyond this machine, and anybody could do anything.
    #[error("the server would listen on {0}, beyond this machine, without a token")]
    NoToken(std::net::SocketAddr),
    /// The token is one that no request can bring.
    #[error("the token has to be of 16 to 1024 visible ASCII characters")]
    BadToken,
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on: {error}")]
    Listen {
        /// Which.
        address: std::net::SocketAddr,
        /// What the system says.
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

    /// What to do about it.
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
