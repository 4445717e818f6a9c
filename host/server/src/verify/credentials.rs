//! Schemes that sign nothing: a token or a password in `Authorization`.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use super::{HEADER_BYTES, fields};

const BEARER: &str = "Bearer";
const BASIC: &str = "Basic";

/// `Authorization: Bearer TOKEN` (RFC 6750).
pub(super) fn bearer(secrets: &[Arc<str>], headers: &HeaderMap) -> Option<()> {
    let token = credentials(headers, BEARER)?;
    any_is(secrets, &[], token).then_some(())
}

/// `Authorization: Basic`, with the Base64 of `USER:PASSWORD` (RFC 7617). The user's name has no
/// colon.
pub(super) fn basic(user: &str, secrets: &[Arc<str>], headers: &HeaderMap) -> Option<()> {
    let pair = STANDARD.decode(credentials(headers, BASIC)?).ok()?;
    any_is(secrets, &[user.as_bytes(), b":"], &pair).then_some(())
}

/// The reason why no header can carry this token.
pub(super) fn problem_of_token(secret: &str) -> Option<&'static str> {
    let blank = |byte: u8| byte == b' ' || byte == b'\t';
    let refused = |byte: u8| byte.is_ascii_control() && byte != b'\t';
    if secret.len() > room(BEARER) {
        Some("the token is longer than the header `Authorization` may be (4096 bytes)")
    } else if secret.bytes().any(refused) {
        Some("the token has a line break or another control character in it")
    } else if secret.bytes().last().is_some_and(blank) {
        Some("the token ends with a blank, which HTTP cuts off")
    } else {
        None
    }
}

/// The reason why no header can carry this password.
pub(super) fn problem_of_password(user: &str, secret: &str) -> Option<&'static str> {
    let bytes = base64::encoded_len(user.len() + 1 + secret.len(), true);
    let fits = bytes.is_some_and(|bytes| bytes <= room(BASIC));
    (!fits).then_some("the password is longer than the header `Authorization` may be (4096 bytes)")
}

/// The most bytes of `Authorization` after the name of a scheme and a blank.
const fn room(scheme: &str) -> usize {
    HEADER_BYTES - scheme.len() - 1
}

/// The value of `Authorization` after the name of a scheme, in upper or lower case, and one blank.
fn credentials<'h>(headers: &'h HeaderMap, scheme: &str) -> Option<&'h [u8]> {
    let value = fields::one(headers, header::AUTHORIZATION.as_str())?;
    let (name, rest) = value.split_at_checked(scheme.len())?;
    let named = name.eq_ignore_ascii_case(scheme.as_bytes());
    rest.strip_prefix(b" ").filter(|_| named)
}

/// Whether one of the secrets, after the given prefix, equals the sent value. Digests are compared:
/// they have one length, regardless of the lengths of the secrets. All secrets are tried.
fn any_is(secrets: &[Arc<str>], first: &[&[u8]], sent: &[u8]) -> bool {
    let sent = Sha256::digest(sent);
    let mut found = Choice::from(0);
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        let mut wanted = Sha256::new();
        for part in first {
            wanted.update(part);
        }
        wanted.update(secret.as_bytes());
        found |= wanted.finalize().as_slice().ct_eq(sent.as_slice());
    }
    found.into()
}
