//! One request for each scheme that verifies, from the scheme's documentation where it has one.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use windlass_model::http::{Encoding, Verify};

use super::super::{Verified, verify};

const MINUTE_MS: i64 = 60_000;
pub(super) const TOLERANCE_MS: i64 = 5 * MINUTE_MS;

/// The time of the documented message of Standard Webhooks, in milliseconds.
pub(super) const NOW_MS: i64 = 1_614_265_330_000;

/// A request that verifies.
pub(super) struct Case {
    pub(super) by: Verify,
    pub(super) secret: &'static str,
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) body: &'static str,
    /// Headers that the scheme authenticates: a change to one is refused.
    pub(super) authentic: &'static [&'static str],
}

// GitHub documents this secret, this payload and this signature ("Validating webhook
// deliveries").
pub(super) fn github() -> Case {
    Case {
        by: Verify::Github {
            secrets: Vec::new(),
        },
        secret: "It's a Secret to Everybody",
        headers: &[
            (
                "x-hub-signature-256",
                "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
            ),
            ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ],
        body: "Hello, World!",
        authentic: &["x-hub-signature-256"],
    }
}

// The message that the specification of Standard Webhooks and its libraries document.
pub(super) fn standard() -> Case {
    Case {
        by: Verify::Standard {
            secrets: Vec::new(),
            tolerance_ms: TOLERANCE_MS.unsigned_abs(),
        },
        secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        headers: &[
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            (
                "webhook-signature",
                "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ),
        ],
        body: r#"{"test": 2432232314}"#,
        authentic: &["webhook-id", "webhook-timestamp", "webhook-signature"],
    }
}

pub(super) const EVENT: &str = r#"{"id":"evt_1","object":"event"}"#;

// Stripe documents no message with its signature. OpenSSL has made these, by
// printf '%s' '1614265330.{"id":"evt_1","object":"event"}' | openssl dgst -sha256 -hmac whsec_new
// and the same with whsec_old.
pub(super) const STRIPE_NEW: &str =
    "1d281d0eeb6fac528576ca3769505ff4f8cf11b72bb9b7dbbec2cd69e886177b";
pub(super) const STRIPE_OLD: &str =
    "efffcea6bc2d923dce6bb11bd9c5d0d2ccba505bde7b29eaf59b887a22679aa9";

pub(super) fn stripe() -> Case {
    Case {
        by: Verify::Stripe {
            secrets: Vec::new(),
            tolerance_ms: TOLERANCE_MS.unsigned_abs(),
        },
        secret: "whsec_new",
        headers: &[(
            "stripe-signature",
            "t=1614265330,v1=1d281d0eeb6fac528576ca3769505ff4f8cf11b72bb9b7dbbec2cd69e886177b",
        )],
        body: EVENT,
        authentic: &["stripe-signature"],
    }
}

// printf '%s' '{"id":"evt_1","object":"event"}' | openssl dgst -sha256 -hmac 'shared key'
pub(super) fn hmac_hex() -> Case {
    Case {
        by: hmac(Encoding::Hex, "v0="),
        secret: "shared key",
        headers: &[(
            "x-signature",
            "v0=5f21127f66caa0dd2bb9caf41dc08d9891ad1e28d7f011c9d973a13496252b51",
        )],
        body: EVENT,
        authentic: &["x-signature"],
    }
}

// The same with -binary | base64.
pub(super) fn hmac_base64() -> Case {
    Case {
        by: hmac(Encoding::Base64, ""),
        secret: "shared key",
        headers: &[(
            "x-signature",
            "XyESf2bKoN0rucr0HcCNmJGtHijX8BHJ2XOhNJYlK1E=",
        )],
        body: EVENT,
        authentic: &["x-signature"],
    }
}

pub(super) fn hmac(encoding: Encoding, prefix: &str) -> Verify {
    Verify::Hmac {
        secrets: Vec::new(),
        header: "x-signature".to_owned(),
        encoding,
        prefix: prefix.to_owned(),
        delivery: Some("x-delivery".to_owned()),
    }
}

pub(super) fn bearer() -> Case {
    Case {
        by: Verify::Bearer {
            secrets: Vec::new(),
        },
        secret: "mF_9.B5f-4.1JqM",
        headers: &[("authorization", "Bearer mF_9.B5f-4.1JqM")],
        body: "",
        authentic: &["authorization"],
    }
}

// The example of RFC 7617, section 2.
pub(super) fn basic() -> Case {
    Case {
        by: Verify::Basic {
            user: "Aladdin".to_owned(),
            secrets: Vec::new(),
        },
        secret: "open sesame",
        headers: &[("authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")],
        body: "",
        authentic: &["authorization"],
    }
}

pub(super) fn signed() -> Vec<Case> {
    vec![github(), standard(), stripe(), hmac_hex(), hmac_base64()]
}

pub(super) fn all() -> Vec<Case> {
    let mut all = signed();
    all.extend([bearer(), basic()]);
    all
}

impl Case {
    pub(super) fn headers(&self) -> HeaderMap {
        headers(self.headers)
    }

    /// Verifies the request with other headers.
    pub(super) fn sent(&self, headers: &HeaderMap) -> Option<Verified> {
        let secrets = [Arc::from(self.secret)];
        verify(&self.by, &secrets, headers, self.body.as_bytes(), NOW_MS)
    }

    /// Verifies the request with another body.
    pub(super) fn of_body(&self, body: &[u8]) -> Option<Verified> {
        let secrets = [Arc::from(self.secret)];
        verify(&self.by, &secrets, &self.headers(), body, NOW_MS)
    }

    /// Whether the request verifies on a host with other secrets.
    pub(super) fn with(&self, secrets: &[&str]) -> bool {
        let secrets: Vec<Arc<str>> = secrets.iter().map(|secret| Arc::from(*secret)).collect();
        let body = self.body.as_bytes();
        verify(&self.by, &secrets, &self.headers(), body, NOW_MS).is_some()
    }

    pub(super) fn at(&self, now_ms: i64) -> bool {
        let secrets = [Arc::from(self.secret)];
        let body = self.body.as_bytes();
        verify(&self.by, &secrets, &self.headers(), body, now_ms).is_some()
    }

    /// Verifies the request with one header replaced.
    pub(super) fn replaced(&self, name: &str, value: &[u8]) -> Option<Verified> {
        let mut headers = self.headers();
        let name: HeaderName = name.parse().unwrap();
        // Other values cannot reach a server.
        headers.insert(name, HeaderValue::from_bytes(value).ok()?);
        self.sent(&headers)
    }
}

pub(super) fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, value.parse().unwrap());
    }
    headers
}
