//! Whether a request to a hook comes from its sender: the schemes by which senders sign requests.
//!
//! Each scheme is a pure function of the secrets, the headers, the body and the time. The caller
//! passes the body unchanged: a body that was parsed and written again has another signature.
//!
//! Bounds: a header counts up to [`HEADER_BYTES`], a header with more than [`SIGNATURES`]
//! signatures verifies nothing, and the body is hashed once for each secret and once for the digest
//! of the delivery. A header that a scheme reads has one value: with two, a request is not verified,
//! and the caller can tell by [`headers_of`] which header has them.
//!
//! Secrets, tags and passwords are compared in constant time, and every secret is tried with every
//! signature. How long the answer takes tells which public part of a request was malformed or too
//! old. It does not tell how much of a signature was correct, or which secret matched.

mod credentials;
mod fields;
mod signed;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use sha2::{Digest as _, Sha256};
use windlass_model::Digest;
use windlass_model::http::Verify;

/// The longest value of a header that a scheme reads, in bytes.
pub const HEADER_BYTES: usize = 4096;

/// How many signatures one header may list.
pub const SIGNATURES: usize = 16;

/// A request that is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Deliveries of one sender with the same digest are the same delivery. None if the scheme
    /// signs nothing: a bearer token and a password identify the sender, not the message.
    pub delivery: Option<Digest>,
}

/// Verifies a request by a scheme. `secrets` are the values of the secrets that the scheme names,
/// any of which may match; `now_ms` is the wall clock in milliseconds since 1970.
///
/// None: the request is not from the sender. The result does not tell which check failed.
pub fn verify(
    by: &Verify,
    secrets: &[Arc<str>],
    headers: &HeaderMap,
    body: &[u8],
    now_ms: i64,
) -> Option<Verified> {
    let delivery = match by {
        Verify::Github { .. } => Some(signed::github(secrets, headers, body)?),
        Verify::Stripe { tolerance_ms, .. } => {
            let clock = fields::Clock::new(now_ms, *tolerance_ms);
            Some(signed::stripe(secrets, headers, body, clock)?)
        }
        Verify::Standard { tolerance_ms, .. } => {
            let clock = fields::Clock::new(now_ms, *tolerance_ms);
            Some(signed::standard(secrets, headers, body, clock)?)
        }
        Verify::Hmac {
            header,
            encoding,
            prefix,
            delivery,
            ..
        } => {
            let id = match delivery {
                Some(header) => fields::one_or_empty(headers, header)?,
                None => &[],
            };
            let text = fields::one(headers, header)?.strip_prefix(prefix.as_bytes())?;
            let tag = fields::tag(text, *encoding)?;
            Some(signed::generic(secrets, tag, id, body)?)
        }
        Verify::Bearer { .. } => {
            credentials::bearer(secrets, headers)?;
            None
        }
        Verify::Basic { user, .. } => {
            credentials::basic(user, secrets, headers)?;
            None
        }
    };
    Some(Verified { delivery })
}

/// The names of the headers that a scheme reads.
pub fn headers_of(by: &Verify) -> Vec<&str> {
    match by {
        Verify::Github { .. } => signed::GITHUB.to_vec(),
        Verify::Stripe { .. } => vec![signed::STRIPE],
        Verify::Standard { .. } => signed::STANDARD_HEADERS.to_vec(),
        Verify::Hmac {
            header, delivery, ..
        } => std::iter::once(header)
            .chain(delivery)
            .map(String::as_str)
            .collect(),
        Verify::Bearer { .. } | Verify::Basic { .. } => vec![AUTHORIZATION.as_str()],
    }
}

/// The reason why this scheme cannot use a secret, for the log. None for a usable secret. The text
/// does not contain the secret.
pub fn problem_of_secret(by: &Verify, secret: &str) -> Option<&'static str> {
    if secret.is_empty() {
        return Some("the secret is empty");
    }
    match by {
        Verify::Github { .. } | Verify::Stripe { .. } | Verify::Hmac { .. } => None,
        Verify::Standard { .. } => signed::standard_key(secret).err(),
        Verify::Bearer { .. } => credentials::problem_of_token(secret),
        Verify::Basic { user, .. } => credentials::problem_of_password(user, secret),
    }
}

/// The digest of a delivery. The length of each part precedes the part, so that different lists of
/// parts have different digests. The number is a version: digests are stored.
fn delivery(scheme: &str, parts: &[&[u8]]) -> Digest {
    let mut hash = Sha256::new();
    hash.update(b"windlass.delivery.1");
    for part in std::iter::once(&scheme.as_bytes()).chain(parts) {
        let bytes = u64::try_from(part.len()).unwrap_or(u64::MAX);
        hash.update(bytes.to_be_bytes());
        hash.update(part);
    }
    Digest(hash.finalize().into())
}
