//! Requests as stimuli: how a definition that begins by one, and the request, find each other.

use serde_json::{Value, json};

/// The name of every stimulus that a request is.
pub const STIMULUS: &str = "windlass.http";

/// The methods that a definition may name.
pub const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// How long a path may be, in bytes.
pub const PATH_BYTES: usize = 256;

/// Names of secrets, all of which verify: 1 to [`SECRETS`], so that a key can be rotated. They
/// stand literally in the definition.
pub type Secrets = Vec<String>;

/// How many secrets one trigger may name.
pub const SECRETS: usize = 4;

/// How far the time in a signature may be from the host's clock unless said otherwise, in
/// milliseconds.
pub const TOLERANCE_MS: u64 = 5 * 60 * 1000;

/// The largest tolerance that a definition may name, in milliseconds.
pub const MAX_TOLERANCE_MS: u64 = 24 * 60 * 60 * 1000;

/// How long a request waits for its answer unless said otherwise, in milliseconds.
pub const WITHIN_MS: u64 = 10_000;

/// The longest wait for an answer that a definition may name, in milliseconds. The host's own
/// bound of waits applies too.
pub const MAX_WITHIN_MS: u64 = 5 * 60 * 1000;

/// How long the name of a secret, of a header, of a user or a prefix may be, in bytes.
pub const WORD_BYTES: usize = 128;

/// How a request to a hook is known to come from its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verify {
    /// `X-Hub-Signature-256: sha256=HEX`, the HMAC-SHA256 of the body. The delivery's id is not
    /// signed.
    Github {
        /// The keys.
        secrets: Secrets,
    },
    /// `Stripe-Signature: t=TIME,v1=HEX`, the HMAC-SHA256 of the time and the body.
    Stripe {
        /// The keys.
        secrets: Secrets,
        /// How far the signed time may be from the host's clock.
        tolerance_ms: u64,
    },
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`, which is the
    /// HMAC-SHA256 of the id, the time and the body.
    Standard {
        /// The keys.
        secrets: Secrets,
        /// How far the signed time may be from the host's clock.
        tolerance_ms: u64,
    },
    /// The HMAC-SHA256 of the body in a header.
    Hmac {
        /// The keys.
        secrets: Secrets,
        /// The header, in lower case.
        header: String,
        /// How the header writes bytes.
        encoding: Encoding,
        /// What stands in the header before the signature. Empty unless said otherwise.
        prefix: String,
    },
    /// `Authorization: Bearer SECRET`.
    Bearer {
        /// The tokens.
        secrets: Secrets,
    },
    /// `Authorization: Basic`, of a user and a password.
    Basic {
        /// The user's name, which has no colon.
        user: String,
        /// The passwords.
        secrets: Secrets,
    },
}

/// How a header writes the bytes of a signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Two digits for each byte, in either case.
    #[default]
    Hex,
    /// Base64 with the standard alphabet.
    Base64,
}

impl Verify {
    /// The names of the secrets.
    pub fn secrets(&self) -> &Secrets {
        match self {
            Self::Github { secrets }
            | Self::Stripe { secrets, .. }
            | Self::Standard { secrets, .. }
            | Self::Hmac { secrets, .. }
            | Self::Bearer { secrets }
            | Self::Basic { secrets, .. } => secrets,
        }
    }
}

/// What the sender of a request to a hook is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Respond {
    /// That the run is written down.
    #[default]
    Accepted,
    /// What a node gives: a status, headers and a body.
    Node {
        /// A node of the outermost level.
        node: String,
        /// How long the sender waits for it. Then the answer is that of [`Self::Accepted`].
        within_ms: u64,
    },
}

/// What a request is matched by.
pub fn matches(method: &str, path: &str) -> Value {
    json!({ "method": method, "path": path })
}

/// Whether a definition may name this path: a slash, and then parts of letters, digits, `-`,
/// `.`, `_` and `~` with single slashes between them. There is nothing to decode in it, so that
/// what is written is what is matched.
pub fn is_path(path: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    path.len() <= PATH_BYTES
        && path
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(part))
}

#[cfg(test)]
mod tests {
    use super::is_path;

    #[test]
    fn a_path_needs_no_decoding() {
        for path in ["/orders", "/orders/new", "/a/b-c_d.e~f/1"] {
            assert!(is_path(path), "{path}");
        }
        for path in [
            "", "/", "orders", "/orders/", "//a", "/a//b", "/a/../b", "/a b", "/ä", "/a?b",
            "/{id}", "/a%20b",
        ] {
            assert!(!is_path(path), "{path}");
        }
    }
}
