//! A request to a hook: the first byte selects the scheme, then come headers, one per line, an
//! empty line, and the body. The input does not contain the key of the host, so the request must
//! not verify. The body is also signed with the key: then it must verify.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use windlass_model::http::{Encoding, Verify};
use windlass_model::mac;
use windlass_server::verify::verify;

/// 32 random bytes, as text.
const KEY: &[u8; 32] = b"Vq3nT8zL1rXw5YbKc7HdJ2mPf9sGa4Eu";

/// The same for Standard Webhooks: Base64 behind `whsec_`.
const STANDARD_KEY: &str = "whsec_VnEzblQ4ekwxclh3NVliS2M3SGRKMm1QZjlzR2E0RXU=";

/// The time of the requests, in milliseconds since 1970: that of the documented messages in the
/// initial corpus.
const NOW_MS: i64 = 1_614_265_330_000;

const TOLERANCE_MS: u64 = 300_000;

/// Every scheme, indexed by the first byte modulo their number.
fn schemes() -> [Verify; 7] {
    let secrets = || vec!["key".to_owned()];
    let hmac = |encoding, prefix: &str| Verify::Hmac {
        secrets: secrets(),
        header: "x-signature".to_owned(),
        encoding,
        prefix: prefix.to_owned(),
        delivery: Some("x-delivery".to_owned()),
    };
    [
        Verify::Github { secrets: secrets() },
        Verify::Stripe {
            secrets: secrets(),
            tolerance_ms: TOLERANCE_MS,
        },
        Verify::Standard {
            secrets: secrets(),
            tolerance_ms: TOLERANCE_MS,
        },
        hmac(Encoding::Hex, "v0="),
        hmac(Encoding::Base64, ""),
        Verify::Bearer { secrets: secrets() },
        Verify::Basic {
            user: "hook".to_owned(),
            secrets: secrets(),
        },
    ]
}

pub(crate) fn run(data: &[u8]) {
    let [scheme, rest @ ..] = data else {
        return;
    };
    if rest.windows(KEY.len()).any(|part| part == KEY) {
        return;
    }
    let schemes = schemes();
    let by = schemes.get(usize::from(*scheme) % schemes.len()).unwrap();
    let key = String::from_utf8(KEY.to_vec()).unwrap();
    let secret: Arc<str> = match by {
        Verify::Standard { .. } => STANDARD_KEY.into(),
        _ => key.into(),
    };
    let (headers, body) = request(rest);
    let verified = verify(by, &[Arc::clone(&secret)], &headers, body, NOW_MS);
    assert_eq!(verified, None, "a request without the key verifies");

    let hex: String = mac::tag(KEY, &[body])
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let github = schemes.first().unwrap();
    let mut headers = headers;
    let value = format!("sha256={hex}");
    headers.insert("x-hub-signature-256", value.parse().unwrap());
    headers.remove("x-github-delivery");
    let key = String::from_utf8(KEY.to_vec()).unwrap();
    let verified = verify(github, &[key.into()], &headers, body, NOW_MS);
    assert!(verified.is_some(), "a signed request does not verify");
}

/// The headers before the first empty line, and the rest. A line that is not a header is left out,
/// since no server would accept it.
fn request(data: &[u8]) -> (HeaderMap, &[u8]) {
    let mut headers = HeaderMap::new();
    let mut rest = data;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, behind) = rest.split_at(end);
        rest = behind.get(1..).unwrap_or_default();
        if line.is_empty() {
            return (headers, rest);
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let name = HeaderName::from_bytes(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    (headers, rest)
}
