//! Finds users and passwords in the addresses of a text, which are not drawn.

use std::ops::Range;

/// The users and passwords in a line: what stands before the `@` of an address, also of an address
/// with too few or too many slashes behind its scheme.
pub(crate) fn logins(line: &str) -> Vec<Range<usize>> {
    let slash = |c: char| matches!(c, '/' | '\\');
    let ends = |c: char| {
        c.is_whitespace() || slash(c) || matches!(c, '"' | '\'' | '`' | '<' | '>' | '?' | '#')
    };
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, mark) in line.match_indices([':', '/', '\\']) {
        let behind = line.get(at + mark.len()..).unwrap_or_default();
        let rest = behind.trim_start_matches(slash);
        let slashes = behind.len() - rest.len() + usize::from(mark != ":");
        let begin = line.len() - rest.len();
        let authority = rest.split(ends).next().unwrap_or_default();
        let Some(length) = authority.rfind('@').filter(|length| *length > 0) else {
            continue;
        };
        let login = authority.get(..length).unwrap_or_default();
        let is_address = match mark {
            // `http:/user@host`, or `postgres:user:password@host` without any slash.
            ":" => slashes > 0 || login.contains(':'),
            _ => slashes > 1,
        };
        if is_address && found.last().is_none_or(|last| last.end < begin) {
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
        assert_eq!(
            found("http:/bob:pw@h postgres:me:pw@db/x //me:pw@h http:\\\\me:pw@h https:////a:b@h"),
            ["bob:pw", "me:pw", "me:pw", "me:pw", "a:b"]
        );
        assert_eq!(found("http://u:p:w@h"), ["u:p:w"], "found once");
        for line in [
            "use: http/request@1",
            "{use:http/request@1}",
            "to: bob@example",
            "mailto:bob@example",
            "at 10:30@home",
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
