mod cases;

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use windlass_model::http::{Encoding, Verify};
use windlass_test_seeds::Seeds;

use cases::{
    EVENT, NOW_MS, STRIPE_NEW, STRIPE_OLD, TOLERANCE_MS, all, basic, bearer, github, headers, hmac,
    hmac_hex, signed, standard, stripe,
};

use super::{HEADER_BYTES, SIGNATURES, Verified, headers_of, problem_of_secret, verify};

#[test]
fn a_documented_request_verifies() {
    for case in all() {
        assert!(case.sent(&case.headers()).is_some(), "{:?}", case.by);
        assert_eq!(problem_of_secret(&case.by, case.secret), None);
    }
}

#[test]
fn one_bit_of_the_body_is_signed() {
    for case in signed() {
        let mut body = case.body.as_bytes().to_vec();
        for bit in 0..body.len() * 8 {
            body[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(case.of_body(&body), None, "{:?}, bit {bit}", case.by);
            body[bit / 8] ^= 1 << (bit % 8);
        }
        for body in [
            b"".as_slice(),
            b"\0",
            &body[1..],
            &[&body, b"\n".as_slice()].concat(),
        ] {
            assert_eq!(case.of_body(body), None, "{:?}", case.by);
        }
        assert!(case.of_body(&body).is_some());
    }
}

#[test]
fn one_bit_of_a_header_is_authenticated() {
    for case in all() {
        for (name, value) in case.headers {
            let mut bytes = value.as_bytes().to_vec();
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                let verified = case.replaced(name, &bytes).is_some();
                // Hex digits and names of schemes may be in upper or lower case.
                let same = matches!(*name, "x-hub-signature-256" | "stripe-signature")
                    || matches!(&case.by, Verify::Hmac { encoding, .. } if *encoding == Encoding::Hex)
                    || (*name == "authorization" && bit / 8 < 6);
                let same = same && bytes.eq_ignore_ascii_case(value.as_bytes());
                let signed = case.authentic.contains(name);
                if verified && signed {
                    assert!(same, "{:?}: {name}, bit {bit}", case.by);
                }
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            for cut in 0..bytes.len() {
                let verified = case.replaced(name, &bytes[..cut]).is_some();
                assert!(!verified || !case.authentic.contains(name), "{name} {cut}");
            }
        }
    }
}

#[test]
fn a_header_that_is_missing_too_long_or_has_two_values_is_refused() {
    for case in all() {
        for (name, value) in case.headers {
            let mut headers = case.headers();
            headers.append(*name, value.parse().unwrap());
            assert!(case.sent(&headers).is_some(), "{name} twice");
            assert!(headers_of(&case.by).contains(name), "{name}");

            let mut headers = case.headers();
            headers.append(*name, HeaderValue::from_static("other"));
            assert_eq!(case.sent(&headers), None, "{name} and another");

            let long = format!("{value}{}", " ".repeat(HEADER_BYTES));
            assert_eq!(case.replaced(name, long.as_bytes()), None, "{name} long");

            let mut headers = case.headers();
            headers.remove(*name);
            let verified = case.sent(&headers).is_some();
            assert_eq!(verified, !case.authentic.contains(name), "{name} missing");
        }
        assert_eq!(case.sent(&HeaderMap::new()), None, "{:?}", case.by);
    }
}

#[test]
fn any_of_several_secrets_verifies_and_no_other_one() {
    for case in all() {
        let good = case.secret;
        assert!(case.with(&["other", good]), "{:?}", case.by);
        assert!(case.with(&[good, "other"]), "{:?}", case.by);
        assert!(
            case.with(&["", "whsec_", "whsec_AAAA", good]),
            "{:?}",
            case.by
        );
        assert!(!case.with(&[]), "{:?}", case.by);
        for bad in [
            "",
            "other",
            "whsec_",
            "whsec_AAAA",
            &good[1..],
            &good[..good.len() - 1],
        ] {
            assert!(!case.with(&[bad]), "{:?} {bad}", case.by);
            assert!(!case.with(&[bad, ""]), "{:?} {bad}", case.by);
        }
    }
}

#[test]
fn a_time_counts_within_the_tolerance_in_both_directions() {
    for case in [standard(), stripe()] {
        for (off, good) in [
            (0, true),
            (TOLERANCE_MS, true),
            (-TOLERANCE_MS, true),
            (TOLERANCE_MS + 1, false),
            (-TOLERANCE_MS - 1, false),
        ] {
            assert_eq!(case.at(NOW_MS + off), good, "{:?} {off}", case.by);
        }
        for now in [0, i64::MIN, i64::MAX] {
            assert!(!case.at(now), "{:?} {now}", case.by);
        }
    }
    // A scheme without a time has no age.
    assert!(github().at(i64::MAX));
}

/// Whether a message of Standard Webhooks is verified that is signed as its headers say.
fn signed_at(time: &str, id: &str, body: &str, now_ms: i64) -> bool {
    let key = [7; 32];
    let message = format!("{id}.{time}.{body}");
    let tag = windlass_model::mac::tag(&key, &[message.as_bytes()]);
    let signature = format!("v1,{}", STANDARD.encode(tag));
    let headers = headers(&[
        ("webhook-id", id),
        ("webhook-timestamp", time),
        ("webhook-signature", &signature),
    ]);
    let by = Verify::Standard {
        secrets: Vec::new(),
        tolerance_ms: u64::MAX,
    };
    let secret = format!("whsec_{}", STANDARD.encode(key));
    verify(&by, &[secret.into()], &headers, body.as_bytes(), now_ms).is_some()
}

#[test]
fn a_time_is_decimal_digits_that_fit() {
    for time in ["0", "1614265330", "0001614265330", "9223372036854775"] {
        assert!(signed_at(time, "a", "", NOW_MS), "{time}");
    }
    for time in [
        "",
        "+1614265330",
        "-1614265330",
        "1614265330.0",
        "1614265330 1",
        "1e9",
        "0x10",
        "９",
        "9223372036854776",
        "18446744073709551616",
        "99999999999999999999999999",
        "000000000000000000000",
    ] {
        assert!(!signed_at(time, "a", "", NOW_MS), "{time}");
    }
    assert!(signed_at("9223372036854775", "a", "", i64::MIN));
}

#[test]
fn one_signature_is_of_one_split_into_id_time_and_body() {
    assert!(signed_at("1", "a", "2.rest", NOW_MS));
    // The text is the same, but the sender's time is a part of the id.
    assert!(!signed_at("2", "a.1", "rest", NOW_MS));
    assert!(!signed_at("2", "", "rest", NOW_MS));
}

#[test]
fn one_of_several_signatures_suffices() {
    let check = |header: &str, good: bool| {
        let case = stripe();
        let verified = case.replaced("stripe-signature", header.as_bytes());
        assert_eq!(verified.is_some(), good, "{header}");
    };
    let (new, old, time) = (STRIPE_NEW, STRIPE_OLD, "t=1614265330");
    check(&format!("{time},v1={old},v1={new}"), true);
    check(&format!("{time},v1={new},v1={old}"), true);
    check(&format!("v1={new},{time}"), true);
    check(&format!("{time},v1=garbage,v1={new},v0={old},,x"), true);
    check(&format!("{time},v1={old}"), false);
    check(&format!("{time},v0={new}"), false);
    check(&format!("{time},v2={new}"), false);
    check(&format!("{time}, v1={new}"), false);
    check(&format!("{time},{time},v1={new}"), false);
    check(&format!("{time},t=1,v1={new}"), false);
    check(&format!("t=,v1={new}"), false);
    check(&format!("v1={new}"), false);
    check(time, false);
    check("", false);
    let others = |count: usize| format!(",v1={old}").repeat(count);
    check(&format!("{time}{},v1={new}", others(SIGNATURES - 1)), true);
    check(&format!("{time}{},v1={new}", others(SIGNATURES)), false);

    let case = standard();
    let good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    let other = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=";
    for (list, wanted) in [
        (format!("{other} {good}"), true),
        (format!("{good} {other}"), true),
        (format!("v1a,xyz {good}"), true),
        (other.to_owned(), false),
        (good.replace("v1,", "v2,"), false),
        (good.replace("v1,", ""), false),
        (good.replace(' ', ","), true),
        (good.trim_end_matches('=').to_owned(), false),
        (
            format!("{} {good}", [other; SIGNATURES - 1].join(" ")),
            true,
        ),
        (format!("{} {good}", [other; SIGNATURES].join(" ")), false),
    ] {
        let verified = case.replaced("webhook-signature", list.as_bytes());
        assert_eq!(verified.is_some(), wanted, "{list}");
    }
}

#[test]
fn both_secrets_of_a_rotation_verify_their_own_signatures() {
    for (signature, secrets, good) in [
        (STRIPE_NEW, vec!["whsec_new", "whsec_old"], true),
        (STRIPE_OLD, vec!["whsec_new", "whsec_old"], true),
        (STRIPE_OLD, vec!["whsec_new"], false),
        (STRIPE_NEW, vec!["whsec_old"], false),
    ] {
        let value = format!("t=1614265330,v1={signature}");
        let headers = headers(&[("stripe-signature", &value)]);
        let secrets: Vec<Arc<str>> = secrets.into_iter().map(Arc::from).collect();
        let by = stripe().by;
        let verified = verify(&by, &secrets, &headers, EVENT.as_bytes(), NOW_MS);
        assert_eq!(verified.is_some(), good, "{signature}");
    }
}

#[test]
fn a_scheme_takes_its_own_form_only() {
    let case = github();
    let hex = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    for value in [
        hex,
        &format!("sha1={hex}"),
        &format!("SHA256={hex}"),
        &format!("sha256= {hex}"),
    ] {
        let verified = case.replaced("x-hub-signature-256", value.as_bytes());
        assert_eq!(verified, None, "{value}");
    }
    // A signature by GitHub's scheme does not verify by Stripe's, with the same secret and body.
    for other in [stripe().by, standard().by, bearer().by, basic().by] {
        let secrets = [Arc::from(case.secret)];
        let verified = verify(&other, &secrets, &case.headers(), b"Hello, World!", NOW_MS);
        assert_eq!(verified, None, "{other:?}");
    }
    for (case, values) in [
        (
            bearer(),
            vec![
                "mF_9.B5f-4.1JqM",
                "Bearer",
                "Bearer ",
                "Bearer  mF_9.B5f-4.1JqM",
                "Bearer mF_9.B5f-4.1JqM x",
                "Basic mF_9.B5f-4.1JqM",
                "BearermF_9.B5f-4.1JqM",
            ],
        ),
        (
            basic(),
            vec![
                "Bearer open sesame",
                "Basic Aladdin:open sesame",
                // Without padding.
                "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ",
                // `aladdin:open sesame`, `Aladdin:`, `:open sesame`, `Aladdin`.
                "Basic YWxhZGRpbjpvcGVuIHNlc2FtZQ==",
                "Basic QWxhZGRpbjo=",
                "Basic Om9wZW4gc2VzYW1l",
                "Basic QWxhZGRpbg==",
                "Basic",
                "Basic ",
            ],
        ),
    ] {
        for value in values {
            assert_eq!(
                case.replaced("authorization", value.as_bytes()),
                None,
                "{value}"
            );
        }
    }
    assert!(
        bearer()
            .replaced("authorization", b"bearer mF_9.B5f-4.1JqM")
            .is_some()
    );
}

#[test]
fn an_empty_secret_verifies_nothing() {
    let tag = STANDARD.encode(windlass_model::mac::tag(&[0; 32], &[b"x"]));
    let hmac = hmac(Encoding::Base64, "");
    // An empty secret would be a key of zeros.
    for (by, name, value) in [
        (&hmac, "x-signature", tag.as_str()),
        (&bearer().by, "authorization", "Bearer "),
        (&basic().by, "authorization", "Basic QWxhZGRpbjo="),
    ] {
        for secrets in [vec![], vec![Arc::from("")]] {
            let headers = headers(&[(name, value)]);
            assert_eq!(verify(by, &secrets, &headers, b"x", NOW_MS), None, "{by:?}");
        }
    }
    let one_zero = verify(
        &hmac,
        &["\0".into()],
        &headers(&[("x-signature", &tag)]),
        b"x",
        0,
    );
    assert!(
        one_zero.is_some(),
        "the tag above is not that of the empty key"
    );
}

#[test]
fn a_secret_that_verifies_nothing_says_why() {
    let check = |by: &Verify, secret: &str, wanted: Option<&str>| {
        let problem = problem_of_secret(by, secret);
        match wanted {
            Some(part) => assert!(problem.is_some_and(|text| text.contains(part)), "{secret}"),
            None => assert_eq!(problem, None, "{secret}"),
        }
    };
    for case in all() {
        check(&case.by, "", Some("empty"));
    }
    let standard = standard().by;
    check(
        &standard,
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        Some("begins"),
    );
    check(&standard, "whsec_", Some("empty"));
    check(&standard, "whsec_a", Some("Base64"));
    check(&standard, "whsec_****", Some("Base64"));
    check(&standard, "whsec_AAAA\n", Some("Base64"));
    let long = "x".repeat(HEADER_BYTES);
    let bearer = bearer().by;
    check(&bearer, "a\n", Some("control"));
    check(&bearer, "a ", Some("blank"));
    check(&bearer, &long, Some("longer"));
    check(&bearer, &long[7..], None);
    check(&basic().by, &long, Some("longer"));
    check(&basic().by, "a\n", None);
    // With `Aladdin:` these are 4088 and 4092 characters of Base64.
    check(&basic().by, &long[..3058], None);
    check(&basic().by, &long[..3059], Some("longer"));
    check(&github().by, &long, None);
}

#[test]
fn a_secret_at_its_bound_verifies() {
    let token = "x".repeat(HEADER_BYTES - "Bearer ".len());
    let value = format!("Bearer {token}");
    let headers = headers(&[("authorization", &value)]);
    assert!(verify(&bearer().by, &[token.into()], &headers, b"", 0).is_some());
}

fn delivery(verified: Option<Verified>) -> Option<[u8; 32]> {
    verified.unwrap().delivery.map(|digest| digest.0)
}

#[test]
fn a_delivery_is_the_same_for_a_duplicate_alone() {
    let mut seen = std::collections::BTreeSet::new();
    for case in signed() {
        let first = delivery(case.sent(&case.headers())).unwrap();
        assert_eq!(delivery(case.sent(&case.headers())), Some(first));
        seen.insert(first);
    }
    // The two forms of `hmac` sign the same body: one scheme, one delivery.
    assert_eq!(seen.len(), signed().len() - 1);

    // Another id of GitHub, or a missing one, is another delivery.
    let case = github();
    let first = delivery(case.sent(&case.headers()));
    assert_ne!(
        delivery(case.replaced("x-github-delivery", b"other")),
        first
    );
    let mut headers = case.headers();
    headers.remove("x-github-delivery");
    assert_ne!(delivery(case.sent(&headers)), first);

    // The same holds for the scheme with chosen headers.
    let case = hmac_hex();
    let first = delivery(case.sent(&case.headers()));
    let ids = ["one", "two", ""].map(|id| {
        let mut headers = case.headers();
        headers.insert("x-delivery", id.parse().unwrap());
        let id = delivery(case.sent(&headers));
        assert_eq!(delivery(case.sent(&headers)), id);
        id
    });
    assert!(ids[0] != first && ids[1] != first && ids[0] != ids[1]);
    assert_eq!(ids[2], first);
    let mut headers = case.headers();
    headers.append("x-delivery", "one".parse().unwrap());
    headers.append("x-delivery", "two".parse().unwrap());
    assert_eq!(case.sent(&headers), None);

    for case in [bearer(), basic()] {
        assert_eq!(delivery(case.sent(&case.headers())), None);
    }
}

/// The delivery of a body, an id and a time that are signed with a key of the test.
fn standard_delivery(id: &str, time: &str, body: &str) -> Option<[u8; 32]> {
    let key = [7; 32];
    let message = format!("{id}.{time}.{body}");
    let tag = STANDARD.encode(windlass_model::mac::tag(&key, &[message.as_bytes()]));
    let headers = headers(&[
        ("webhook-id", id),
        ("webhook-timestamp", time),
        ("webhook-signature", &format!("v1,{tag}")),
    ]);
    let secret = format!("whsec_{}", STANDARD.encode(key));
    let by = standard().by;
    delivery(verify(
        &by,
        &[secret.into()],
        &headers,
        body.as_bytes(),
        NOW_MS,
    ))
}

fn stripe_delivery(time: &str, body: &str) -> Option<[u8; 32]> {
    let key = "k".repeat(32);
    let message = format!("{time}.{body}");
    let bytes: &[u8; 32] = key.as_bytes().try_into().unwrap();
    let tag = windlass_model::mac::tag(bytes, &[message.as_bytes()]);
    let hex: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
    let value = format!("t={time},v1={hex}");
    let headers = headers(&[("stripe-signature", &value)]);
    let by = stripe().by;
    delivery(verify(
        &by,
        &[key.into()],
        &headers,
        body.as_bytes(),
        NOW_MS,
    ))
}

#[test]
fn another_attempt_is_the_same_delivery_and_another_body_or_id_is_not() {
    let first = standard_delivery("a", "1614265330", "body");
    assert_eq!(standard_delivery("a", "1614265331", "body"), first);
    assert_ne!(standard_delivery("b", "1614265330", "body"), first);
    assert_ne!(standard_delivery("a", "1614265330", "bodx"), first);
    assert_ne!(standard_delivery("ab", "1614265330", "ody"), first);

    let first = stripe_delivery("1614265330", "body");
    assert_eq!(stripe_delivery("1614265331", "body"), first);
    assert_ne!(stripe_delivery("1614265330", "bodx"), first);

    // The id of the event, if the body has one.
    let event = r#"{"id": "evt_1", "pending_webhooks": 2, "data": {"id": "in_1"}}"#;
    let first = stripe_delivery("1614265330", event);
    let later = event.replace(": 2", ": 1");
    assert_eq!(stripe_delivery("1614265331", &later), first);
    let others = [
        event.replace("evt_1", "evt_2"),
        // Ids that do not count: of another object, missing, repeated, not a text.
        event.replace("evt_1", "in_1"),
        event.replace(r#""id": "evt_1", "#, ""),
        event.replace(
            "{\"id\": \"evt_1\"",
            "{\"id\": \"evt_1\", \"id\": \"evt_1\"",
        ),
        event.replace(r#""evt_1""#, "1"),
    ];
    for other in others {
        assert_ne!(stripe_delivery("1614265330", &other), first, "{other}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(Seeds::USUAL.cases()))]

    #[test]
    fn random_headers_never_verify(
        values in prop::collection::vec((0..7_usize, 0..4_usize, prop::collection::vec(any::<u8>(), 0..80)), 0..8),
        body in prop::collection::vec(any::<u8>(), 0..64),
        now_ms in any::<i64>(),
    ) {
        const NAMES: [&str; 7] = [
            "x-hub-signature-256",
            "stripe-signature",
            "webhook-id",
            "webhook-timestamp",
            "webhook-signature",
            "x-signature",
            "authorization",
        ];
        let mut headers = HeaderMap::new();
        for (name, form, bytes) in values {
            let hex: String = bytes.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
            let time = now_ms / 1000;
            // Raw bytes, and bytes in the forms that reach the comparison.
            let value = match form {
                0 => bytes,
                1 => format!("t={time},v1={hex}").into_bytes(),
                2 => format!("sha256={hex}").into_bytes(),
                _ => format!("v1,{}", STANDARD.encode(&bytes)).into_bytes(),
            };
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(NAMES[name], value);
            }
        }
        for case in all() {
            let secrets = [Arc::from(case.secret)];
            prop_assert_eq!(verify(&case.by, &secrets, &headers, &body, now_ms), None);
        }
    }
}
