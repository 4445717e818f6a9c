//! Finds users and passwords in the addresses of a text, which are not drawn.

use std::ops::Range;

/// The users and passwords in a line: what stands between `://` and the `@` before a host.
pub(crate) fn logins(line: &str) -> Vec<Range<usize>> {
    let ends =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | '/' | '?' | '#');
    let mut found = Vec::new();
    for (at, mark) in line.match_indices("://") {
        let begin = at + mark.len();
        let rest = line.get(begin..).unwrap_or_default();
        let authority = rest.split(ends).next().unwrap_or_default();
        if let Some(length) = authority.rfind('@').filter(|length| *length > 0) {
            found.push(begin..begin + length);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_before_a_host_is_a_login() {
        let found = |line: &str| -> Vec<String> {
            logins(line)
                .into_iter()
                .map(|it| line[it].to_owned())
                .collect()
        };
        assert_eq!(
            found("url: http://bob:hünter2@a/x, \"redis://:pw@h\""),
            ["bob:hünter2", ":pw"]
        );
        assert_eq!(found("'postgres://me@db' https://a@b@c"), ["me", "a@b"]);
        for line in [
            "https://medium.example/@bob",
            "a@b.example",
            "http://a b@c",
            "://",
            "://@x",
        ] {
            assert!(found(line).is_empty(), "{line}");
        }
    }
}
