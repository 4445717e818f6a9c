//! Requests as stimuli: how a definition that begins by one, and the request, find each other.

use serde_json::{Value, json};

/// The name of every stimulus that a request is.
pub const STIMULUS: &str = "windlass.http";

/// The methods that a definition may name.
pub const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// How long a path may be, in bytes.
pub const PATH_BYTES: usize = 256;

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
