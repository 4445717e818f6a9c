//! Schemes that sign: HMAC-SHA256 (RFC 2104) over the body, and in some schemes over a time and an
//! id.

use std::sync::Arc;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq as _};
use windlass_model::Digest;
use windlass_model::http::Encoding;

use super::fields::{self, Clock, Tag};
use super::{SIGNATURES, delivery};

/// The headers with GitHub's signature and its id of the delivery.
pub(super) const GITHUB: [&str; 2] = ["x-hub-signature-256", "x-github-delivery"];
/// The header with Stripe's time and signatures.
pub(super) const STRIPE: &str = "stripe-signature";
/// The headers of Standard Webhooks with the id, the time and the signatures.
pub(super) const STANDARD_HEADERS: [&str; 3] =
    ["webhook-id", "webhook-timestamp", "webhook-signature"];

/// The prefix of a secret of Standard Webhooks.
const STANDARD_PREFIX: &str = "whsec_";

/// GitHub signs the body. It does not sign the id of the delivery, so the id counts only together
/// with the body: another id does not make the same body a delivery of another body.
pub(super) fn github(secrets: &[Arc<str>], headers: &HeaderMap, body: &[u8]) -> Option<Digest> {
    let [signature, id] = GITHUB;
    let text = fields::one(headers, signature)?.strip_prefix(b"sha256=")?;
    let tag = fields::tag(text, Encoding::Hex)?;
    let id = fields::one_or_empty(headers, id)?;
    any_matches(plain(secrets), &[body], &[tag]).then(|| delivery("github", &[id, body]))
}

/// Stripe signs `TIME.BODY`. The sender signs each attempt of a delivery with a new time. The body
/// contains the id of the event, and some other members (`pending_webhooks`) may change between
/// attempts: so the id identifies the delivery, or the body itself if it has no id.
pub(super) fn stripe(
    secrets: &[Arc<str>],
    headers: &HeaderMap,
    body: &[u8],
    clock: Clock,
) -> Option<Digest> {
    let mut time = None;
    let mut signatures = Vec::new();
    for item in fields::one(headers, STRIPE)?.split(|byte| *byte == b',') {
        if let Some(text) = item.strip_prefix(b"t=") {
            if time.replace(text).is_some() {
                return None;
            }
        } else if let Some(text) = item.strip_prefix(b"v1=") {
            // Other versions, like `v0` of test events, are weaker or unknown: they do not count.
            signatures.push(text);
        }
    }
    let time = time.filter(|time| clock.admits(time))?;
    let tags = tags(&signatures, Encoding::Hex)?;
    // The time contains no dot, so two different messages have different texts.
    any_matches(plain(secrets), &[time, b".", body], &tags).then(|| match event_id(body) {
        Some(id) => delivery("stripe.event", &[id.as_bytes()]),
        None => delivery("stripe", &[body]),
    })
}

/// The id of Stripe's event: `id` of the outermost object, if it occurs once.
fn event_id(body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Event {
        id: String,
    }
    let event: Event = serde_json::from_slice(body).ok()?;
    event.id.starts_with("evt_").then_some(event.id)
}

/// Standard Webhooks signs `ID.TIME.BODY`. A sender keeps the id when it repeats a delivery.
pub(super) fn standard(
    secrets: &[Arc<str>],
    headers: &HeaderMap,
    body: &[u8],
    clock: Clock,
) -> Option<Digest> {
    let [id, time, signature] = STANDARD_HEADERS;
    let id = fields::one(headers, id)?;
    // If the id could contain a dot, one signed text could be read as another id, time and body.
    if id.is_empty() || id.contains(&b'.') {
        return None;
    }
    let time = fields::one(headers, time)?;
    if !clock.admits(time) {
        return None;
    }
    let list = fields::one(headers, signature)?;
    let signatures: Vec<_> = list
        .split(|byte| *byte == b' ')
        .filter_map(|item| item.strip_prefix(b"v1,"))
        .collect();
    let tags = tags(&signatures, Encoding::Base64)?;
    let keys = secrets
        .iter()
        .filter_map(|secret| standard_key(secret).ok());
    any_matches(keys, &[id, b".", time, b".", body], &tags)
        .then(|| delivery("standard", &[id, body]))
}

/// A tag of the body in a header that the sender chooses. The id of the delivery, empty if the
/// sender sends none, is not signed: it counts only together with the body.
pub(super) fn generic(secrets: &[Arc<str>], tag: Tag, id: &[u8], body: &[u8]) -> Option<Digest> {
    any_matches(plain(secrets), &[body], &[tag]).then(|| match id {
        [] => delivery("hmac", &[body]),
        id => delivery("hmac", &[id, body]),
    })
}

/// The key of a secret of Standard Webhooks: Base64 after `whsec_`. The error says why the secret
/// has none.
pub(super) fn standard_key(secret: &str) -> Result<Vec<u8>, &'static str> {
    let text = secret
        .strip_prefix(STANDARD_PREFIX)
        .ok_or("a secret of Standard Webhooks begins with `whsec_`")?;
    match STANDARD.decode(text) {
        Ok(key) if key.is_empty() => Err("the key behind `whsec_` is empty"),
        Ok(key) => Ok(key),
        Err(_) => Err("the key behind `whsec_` is not Base64 with padding"),
    }
}

/// Secrets that are keys as they are. An empty secret is left out.
fn plain(secrets: &[Arc<str>]) -> impl Iterator<Item = &[u8]> {
    let keys = secrets.iter().map(|secret| secret.as_bytes());
    keys.filter(|key| !key.is_empty())
}

/// The tags of a list. A malformed one is left out: the sender may also sign in a future form.
/// None: there are too many.
fn tags(signatures: &[&[u8]], encoding: Encoding) -> Option<Vec<Tag>> {
    let read = |text: &&[u8]| fields::tag(text, encoding);
    (signatures.len() <= SIGNATURES).then(|| signatures.iter().filter_map(read).collect())
}

/// Whether one of the tags is that of the message by one of the keys. Every pair is compared, so
/// that the time does not reveal which key is in use.
fn any_matches<K: AsRef<[u8]>>(
    keys: impl Iterator<Item = K>,
    message: &[&[u8]],
    tags: &[Tag],
) -> bool {
    if tags.is_empty() {
        return false;
    }
    let mut found = Choice::from(0);
    for key in keys {
        // A key of any length is accepted: a long one is hashed first.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_ref()) else {
            continue;
        };
        for part in message {
            mac.update(part);
        }
        let wanted: Tag = mac.finalize().into_bytes().into();
        for tag in tags {
            found |= wanted.ct_eq(tag);
        }
    }
    found.into()
}
