//! Requests as stimuli: how a request and the triggers by `http` are matched.

mod content;
mod request;

use serde_json::{Value, json};

pub use self::content::{Body, Request, Taking, value_of_bytes};
pub use self::request::{Typed, request_schema};
use crate::Digest;

/// The name of the stimulus of every request.
pub const STIMULUS: &str = "windlass.http";

/// The methods that a definition may name.
pub const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// How long a path may be, in bytes.
pub const PATH_BYTES: usize = 256;

/// Names of secrets, any of which verifies: 1 to [`SECRETS`], so that a key can be rotated. They
/// are literals in the definition.
pub type Secrets = Vec<String>;

/// How many secrets one trigger may name.
pub const SECRETS: usize = 4;

/// How far the time in a signature may differ from the host's clock by default, in milliseconds.
pub const TOLERANCE_MS: u64 = 5 * 60 * 1000;

/// The largest tolerance that a definition may name, in milliseconds.
pub const MAX_TOLERANCE_MS: u64 = 24 * 60 * 60 * 1000;

/// How long a request waits for its answer by default, in milliseconds.
pub const WITHIN_MS: u64 = 10_000;

/// The longest wait for an answer that a definition may name, in milliseconds. The host's own
/// bound of waits applies too.
pub const MAX_WITHIN_MS: u64 = 5 * 60 * 1000;

/// How long the name of a secret, of a header, of a user or a prefix may be, in bytes.
pub const WORD_BYTES: usize = 128;

/// How a request to a hook is verified.
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
        /// How far the signed time may differ from the host's clock.
        tolerance_ms: u64,
    },
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`, which is the
    /// HMAC-SHA256 of the id, the time and the body.
    Standard {
        /// The keys.
        secrets: Secrets,
        /// How far the signed time may differ from the host's clock.
        tolerance_ms: u64,
    },
    /// The HMAC-SHA256 of the body in a header.
    Hmac {
        /// The keys.
        secrets: Secrets,
        /// The header, in lower case.
        header: String,
        /// The encoding of the signature.
        encoding: Encoding,
        /// The prefix of the signature in the header. Default: empty.
        prefix: String,
        /// The header with the delivery's id, in lower case, if the sender sends one. The id is not
        /// signed.
        delivery: Option<String>,
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

/// The encoding of a signature in a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Two hexadecimal digits for each byte, in upper or lower case.
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

    /// Whether a page of another origin in a browser cannot make a request that verifies. A browser
    /// adds a password that its user has typed before to requests of any page; it adds no bearer
    /// token and no signature.
    pub fn excludes_pages(&self) -> bool {
        !matches!(self, Self::Basic { .. })
    }
}

/// The answer to the sender of a request to a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Respond {
    /// The run is stored.
    #[default]
    Accepted,
    /// The output of a node: a status, headers and a body.
    Node {
        /// A node of the outermost level.
        node: String,
        /// How long the sender waits for it. Then the answer is that of [`Self::Accepted`].
        within_ms: u64,
    },
}

/// How a request becomes the input of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intake {
    /// JSON Schema of the query, an object. Texts become values of the types that it names.
    pub query: Option<Value>,
    /// JSON Schema of the parameters of the path, as for the query.
    pub params: Option<Value>,
    /// Whether the request has its body as it was sent, in `raw`, with any media type.
    pub raw: bool,
    /// The input: a template over `request`. None: the request itself.
    pub input: Option<Value>,
}

impl Intake {
    /// Whether the input of a run is the request as it came.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// The match of a request.
pub fn matches(method: &str, path: &str) -> Value {
    json!({ "method": method, "path": path })
}

/// Parameters in the path of one trigger.
pub const PARAMETERS: usize = 4;

/// Whether a definition may name this path: a slash, and then parts of letters, digits, `-`, `.`,
/// `_` and `~` with single slashes between them. The path needs no decoding, so it is matched as it
/// is written.
///
/// A part other than the first may be a parameter, `{name}`. Names of parameters are like those of
/// nodes and differ from each other, and a path has at most [`PARAMETERS`].
pub fn is_path(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/').filter(|_| path.len() <= PATH_BYTES) else {
        return false;
    };
    let mut names: Vec<&str> = Vec::new();
    rest.split('/').enumerate().all(|(at, part)| {
        let Some(name) = parameter(part) else {
            return is_part(part);
        };
        let is_new = !names.contains(&name);
        names.push(name);
        at > 0 && is_new && is_name(name) && names.len() <= PARAMETERS
    })
}

fn is_part(part: &str) -> bool {
    !part.is_empty()
        && part != "."
        && part != ".."
        && part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The name of a parameter, if this part of a path is one.
fn parameter(part: &str) -> Option<&str> {
    part.strip_prefix('{')?.strip_suffix('}')
}

/// Whether a path of a definition has parameters.
pub fn has_parameters(path: &str) -> bool {
    path.contains('{')
}

/// Whether the server starts a trigger itself, after it has verified the request, read its path or
/// made the input of it. No stimulus has the hash of such a trigger, so no unverified request
/// starts it.
pub fn is_direct(path: &str, verify: Option<&Verify>, respond: &Respond, intake: &Intake) -> bool {
    verify.is_some() || *respond != Respond::Accepted || has_parameters(path) || !intake.is_plain()
}

/// The names of the parameters of a path.
pub fn parameter_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(parameter)
}

/// The key of the direct triggers that a request may start: SHA-256 of the method, the first part
/// of the path and the number of its parts. The second zero byte distinguishes it from the hashes
/// of stimuli, which have JSON there.
pub fn shape(method: &str, path: &str) -> Digest {
    let first = path.split('/').nth(1).unwrap_or_default();
    let parts = path.matches('/').count();
    let text = format!("{STIMULUS}\0\0{method}\0{first}\0{parts}");
    Digest::of(text.as_bytes())
}

/// The parameters of a path, by name.
pub type Parameters = Vec<(String, String)>;

/// The parameters of a request's path by the path of a definition; none if the two do not match. A
/// parameter is one part, decoded once. A value is never empty, `.` or `..`, has no slash and no
/// control character, and has at most [`PATH_BYTES`].
pub fn parameters(of: &str, path: &str) -> Option<Parameters> {
    if path.len() > REQUEST_PATH_BYTES {
        return None;
    }
    let (mut wanted, mut given) = (of.split('/'), path.split('/'));
    let mut found = Parameters::new();
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(found),
            (Some(wanted), Some(given)) => match parameter(wanted) {
                Some(name) => found.push((name.to_owned(), decoded(given)?)),
                None if wanted == given => {}
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// A part of a path without its percent signs.
fn decoded(part: &str) -> Option<String> {
    let digit = |byte: u8| {
        let digit = char::from(byte).to_digit(16)?;
        u8::try_from(digit).ok()
    };
    let mut bytes = Vec::with_capacity(part.len().min(PATH_BYTES));
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if bytes.len() == PATH_BYTES {
            return None;
        }
        bytes.push(match byte {
            b'%' => (digit(rest.next()?)? << 4) | digit(rest.next()?)?,
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    let is_value = !matches!(text.as_str(), "" | "." | "..");
    let odd = |c: char| c == '/' || c.is_control();
    (is_value && !text.contains(odd)).then_some(text)
}

/// How long the path of a request with parameters may be, in bytes.
pub const REQUEST_PATH_BYTES: usize = 2048;

/// The rank of a path among those that match a request: the smallest wins. From left to right, a
/// literal part comes before a parameter.
pub fn rank(path: &str) -> Vec<bool> {
    path.split('/')
        .map(|part| parameter(part).is_some())
        .collect()
}

/// Whether two paths of definitions match the same requests: they differ at most in the names of
/// their parameters.
pub fn is_same(path: &str, other: &str) -> bool {
    let is_same = |(one, other): (&str, &str)| {
        one == other || parameter(one).is_some() && parameter(other).is_some()
    };
    path.split('/').count() == other.split('/').count()
        && path.split('/').zip(other.split('/')).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_needs_no_decoding() {
        for path in [
            "/orders",
            "/orders/new",
            "/a/b-c_d.e~f/1",
            "/orders/{id}",
            "/a/{a}/b/{b_1}/{c}/{_d}",
        ] {
            assert!(is_path(path), "{path}");
        }
        for path in [
            "",
            "/",
            "orders",
            "/orders/",
            "//a",
            "/a//b",
            "/a/../b",
            "/a b",
            "/ä",
            "/a?b",
            "/{id}",
            "/a%20b",
            "/a/{}",
            "/a/{A}",
            "/a/{1}",
            "/a/{x}y",
            "/a/{x",
            "/a/x}",
            "/a/{x}/{x}",
            "/a/{a}/{b}/{c}/{d}/{e}",
            "/a/{{x}}",
            "/a/{x y}",
        ] {
            assert!(!is_path(path), "{path}");
        }
    }

    #[test]
    fn parameters_are_whole_parts_decoded_once() {
        let check = |of: &str, path: &str, wanted: Option<&[(&str, &str)]>| {
            let found = parameters(of, path);
            let found: Option<Vec<_>> = found.as_ref().map(|all| {
                let pair = |(name, value): &(String, String)| (name.clone(), value.clone());
                all.iter().map(pair).collect()
            });
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let wanted = wanted.map(|all| all.iter().map(owned).collect::<Vec<_>>());
            assert_eq!(found, wanted, "{of} {path}");
        };
        check("/a/{x}", "/a/1", Some(&[("x", "1")]));
        check("/a/{x}", "/a/b%20%C3%A4", Some(&[("x", "b ä")]));
        check("/a/{x}", "/a/%252F", Some(&[("x", "%2F")]));
        check("/a/{x}/b/{y}", "/a/1/b/2", Some(&[("x", "1"), ("y", "2")]));
        check("/a/b", "/a/b", Some(&[]));
        for path in [
            "/a",
            "/a/",
            "/a/.",
            "/a/..",
            "/a/%2e%2E",
            "/a/b%2Fc",
            "/a/%00",
            "/a/%0a",
            "/a/%",
            "/a/%4",
            "/a/%zz",
            "/a/%ff",
            "/a/1/",
            "/a/1/2",
            "/b/1",
            "a/1",
            "",
        ] {
            check("/a/{x}", path, None);
        }
        for bytes in [PATH_BYTES + 1, REQUEST_PATH_BYTES] {
            let long = format!("/a/{}", "x".repeat(bytes));
            check("/a/{x}", &long, None);
        }
    }

    #[test]
    fn literal_parts_win_from_left_to_right() {
        let mut paths = ["/a/{x}/{y}", "/a/b/c", "/a/{x}/c", "/a/b/{y}"];
        paths.sort_by_key(|path| rank(path));
        assert_eq!(paths, ["/a/b/c", "/a/b/{y}", "/a/{x}/c", "/a/{x}/{y}"]);
    }

    #[test]
    fn paths_are_the_same_with_other_names_of_their_parameters() {
        for (one, other, same) in [
            ("/a", "/a", true),
            ("/a/{x}", "/a/{y}", true),
            ("/a/{x}", "/a/x", false),
            ("/a", "/a/{x}", false),
            ("/a/{x}/b", "/a/{x}/c", false),
        ] {
            assert_eq!(is_same(one, other), same, "{one} {other}");
            assert_eq!(is_same(other, one), same, "{other} {one}");
        }
    }

    #[test]
    fn a_request_has_the_shape_of_each_path_that_matches_it() {
        let of = shape("POST", "/a/1/c");
        for path in ["/a/{x}/{y}", "/a/b/c", "/a/{x}/c"] {
            assert_eq!(shape("POST", path), of, "{path}");
        }
        for (method, path) in [("GET", "/a/b/c"), ("POST", "/b/{x}/c"), ("POST", "/a/{x}")] {
            assert_ne!(shape(method, path), of, "{method} {path}");
        }
    }

    #[test]
    fn only_a_plain_trigger_is_started_by_a_stimulus() {
        let key = || Verify::Bearer {
            secrets: vec!["k".to_owned()],
        };
        let node = Respond::Node {
            node: "n".to_owned(),
            within_ms: 1,
        };
        let plain = Intake::default();
        let input = Intake {
            input: Some(json!({})),
            ..Intake::default()
        };
        assert!(!is_direct("/a", None, &Respond::Accepted, &plain));
        assert!(is_direct("/a", Some(&key()), &Respond::Accepted, &plain));
        assert!(is_direct("/a", None, &node, &plain));
        assert!(is_direct("/a/{x}", None, &Respond::Accepted, &plain));
        assert!(is_direct("/a", None, &Respond::Accepted, &input));
        let stimulus = crate::stimulus::canonical(&matches("POST", "/a"));
        let stimulus = crate::stimulus::hash(STIMULUS, &stimulus, None);
        assert_ne!(stimulus, shape("POST", "/a"));
    }
}
