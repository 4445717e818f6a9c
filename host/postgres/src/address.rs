//! The parts of an address that the client does not parse by itself.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// How the server is verified.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verify {
    /// The certificates of the trusted authorities.
    pub(crate) roots: Option<PathBuf>,
}

/// Takes `sslmode=verify-ca`, `sslmode=verify-full` and `sslrootcert=…` out of a URL, because the
/// client does not know them. All of them result in full verification; only `sslmode=disable` is
/// possible without a named authority.
pub(crate) fn take_verification(url: &str) -> (String, Option<Verify>) {
    let Some((base, query)) = url.split_once('?') else {
        return (url.to_owned(), None);
    };
    let (mut verified, mut disabled, mut roots) = (false, false, None);
    let mut kept = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", "verify-full" | "verify-ca")) => {
                verified = true;
                kept.push("sslmode=require");
            }
            Some(("sslrootcert", path)) => roots = Some(decoded(path)),
            other => {
                disabled |= other == Some(("sslmode", "disable"));
                kept.push(pair);
            }
        }
    }
    let url = if kept.is_empty() {
        base.to_owned()
    } else {
        format!("{base}?{}", kept.join("&"))
    };
    let verified = verified || (roots.is_some() && !disabled);
    (url, verified.then_some(Verify { roots }))
}

/// Decodes a path in a URL: `%2F` is a `/`.
fn decoded(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = match byte {
            Some(_) => behind.get(2..).unwrap_or_default(),
            None => behind,
        };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Host and database, for people.
pub(crate) fn place(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts: Vec<String> = hosts.collect();
    let ports: Vec<String> = config.get_ports().iter().map(u16::to_string).collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or("?");
    format!("{}:{}/{database}", hosts.join(","), ports.join(","))
}

/// An identifier as SQL text.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the rest of a URL, and the authority; `-` if none is named.
    fn check(url: &str, expected: &str, verify: Option<&str>) {
        let (kept, verified) = take_verification(url);
        assert_eq!(kept, expected);
        let verified = verified.map(|verify| {
            let roots = verify.roots.map(|path| path.display().to_string());
            roots.unwrap_or_else(|| "-".to_owned())
        });
        assert_eq!(verified.as_deref(), verify, "{url}");
    }

    #[test]
    fn verification_is_taken_out_of_the_url() {
        check("postgres://h/d", "postgres://h/d", None);
        let require = "postgres://h/d?sslmode=require";
        check(require, require, None);
        check("postgres://h/d?sslmode=verify-ca", require, Some("-"));
        check(
            "postgres://h/d?sslmode=verify-full&sslrootcert=%2Fa%20b%2fc%&user=u",
            "postgres://h/d?sslmode=require&user=u",
            Some("/a b/c%"),
        );
    }

    #[test]
    fn an_authority_that_is_named_is_asked() {
        check(
            "postgres://h/d?sslrootcert=/r",
            "postgres://h/d",
            Some("/r"),
        );
        let disabled = "postgres://h/d?sslmode=disable";
        check(&format!("{disabled}&sslrootcert=/r"), disabled, None);
    }

    #[test]
    fn a_place_has_no_password() {
        let config: Config = "postgres://me:a/b@h:5/d".parse().unwrap();
        assert_eq!(place(&config), "h:5/d");
    }

    #[test]
    fn a_name_stays_one_name() {
        assert_eq!(quoted("a\"; drop"), "\"a\"\"; drop\"");
    }
}
