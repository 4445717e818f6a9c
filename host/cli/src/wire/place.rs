//! The location of the store, from its URL.

use std::fmt;
use std::path::{Path, PathBuf};

use windlass_store::SqliteStore;

use crate::codes;
use crate::config::Config;
use crate::error::Expected;

/// The location of a store. It is displayed without the user and the password that a URL may
/// contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL database, by its URL.
    Postgres(String),
}

impl StoreLocation {
    /// The place that the configuration names.
    pub(crate) fn of(config: &Config) -> Result<Self, Expected> {
        Self::parse(&config.store.url)
    }

    /// The place that a URL or a path names.
    pub(crate) fn parse(url: &str) -> Result<Self, Expected> {
        if is_postgres(url) {
            return Ok(Self::Postgres(url.to_owned()));
        }
        let refused = |help: String| {
            let shown = without_password(url);
            let text = format!("`{shown}` is no store that is known");
            Err(Expected::new(codes::STORE_URL, text).help(help))
        };
        let path = url.strip_prefix("sqlite:");
        let path = path.map(|path| path.strip_prefix("//").unwrap_or(path));
        if path.unwrap_or(url).trim().is_empty() {
            let text = "The name of the store is empty";
            return Err(Expected::new(codes::STORE_URL, text).help(FORMS));
        }
        if path.unwrap_or(url).starts_with(":memory:") {
            return refused(
                "A store cannot be in memory alone. `windlass run --ephemeral` uses a temporary \
                 store."
                    .to_owned(),
            );
        }
        if let Some(path) = path {
            return Ok(Self::Sqlite(PathBuf::from(path)));
        }
        match scheme_of(url) {
            Some(Scheme::Postgres) => refused(format!(
                "An address of PostgreSQL is `postgres://USER@HOST/DATABASE`, with `://` and in \
                 small letters. {OWN_PATH}"
            )),
            Some(Scheme::Pairs) => refused(format!(
                "Keys and values of PostgreSQL are not read here: write \
                 `postgres://USER@HOST/DATABASE?KEY=VALUE`. {OWN_PATH}"
            )),
            Some(Scheme::Other) => refused(format!("{FORMS} {OWN_PATH}")),
            None => Ok(Self::Sqlite(file_in(Path::new(url)))),
        }
    }

    /// The file, if the store is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }

    /// Whether the store exists. A server is not asked.
    ///
    /// # Errors
    ///
    /// The database file is missing, and other files of a store lie beside its place.
    pub(crate) fn exists(&self) -> windlass_store::Result<bool> {
        self.file().map_or(Ok(true), SqliteStore::exists)
    }

    /// A path beside a store that is a file, and otherwise in the project's own directory.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.file().and_then(Path::parent).map_or_else(
            || Path::new(".windlass").join(name),
            |parent| parent.join(name),
        )
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "{}", path.display()),
            Self::Postgres(url) => f.write_str(&without_password(url)),
        }
    }
}

/// The forms of a store's address.
const FORMS: &str = "Write `sqlite:` and the path of a file, or `postgres://USER@HOST/DATABASE`, or \
                     give `--store PATH`.";

/// How to name a file whose name looks like an address.
const OWN_PATH: &str = "A path that looks like an address is written with `./` before it.";

/// A scheme that a text begins with, or seems to.
enum Scheme {
    Postgres,
    Other,
    /// Keys and values, as libpq and others read them: `host=db user=me`.
    Pairs,
}

/// The scheme of a text that is no address of a known store. None: the text is a path.
fn scheme_of(url: &str) -> Option<Scheme> {
    if first_key(url).is_some() {
        return Some(Scheme::Pairs);
    }
    // The part before the first slash: a colon behind it belongs to a path, except in `://`.
    let (first, rest) = url.split_once('/').unwrap_or((url, ""));
    let (scheme, is_address) = match first.split_once(':') {
        Some((scheme, _)) => (scheme, true),
        // `postgres//user@host/database`: the colon was forgotten, or is another sign.
        None => {
            let scheme = first.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            (scheme, rest.starts_with('/') && is_scheme(scheme.trim()))
        }
    };
    let scheme = scheme.trim();
    let known = ["postgres", "postgresql", "pg", "psql"];
    match is_address || url.contains("://") {
        true if known.iter().any(|it| scheme.eq_ignore_ascii_case(it)) => Some(Scheme::Postgres),
        true => Some(Scheme::Other),
        false => None,
    }
}

/// The key that a text of keys and values begins with, like `host` in `host=db password=…`.
fn first_key(url: &str) -> Option<&str> {
    const KEYS: [&str; 16] = [
        "host",
        "hostaddr",
        "port",
        "dbname",
        "user",
        "password",
        "passfile",
        "service",
        "sslmode",
        "connect_timeout",
        "application_name",
        "server",
        "database",
        "data source",
        "user id",
        "username",
    ];
    let (key, _) = url.split_once('=')?;
    let key = key.trim();
    KEYS.iter()
        .any(|it| key.eq_ignore_ascii_case(it))
        .then_some(key)
}

fn is_scheme(text: &str) -> bool {
    const DATABASES: [&str; 12] = [
        "postgres",
        "postgresql",
        "pg",
        "psql",
        "sqlite",
        "sqlite3",
        "mysql",
        "mariadb",
        "redis",
        "mongodb",
        "http",
        "https",
    ];
    DATABASES.iter().any(|it| text.eq_ignore_ascii_case(it))
}

/// Whether a URL names a PostgreSQL database.
pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// The database file that a plain path names, which may be a directory.
fn file_in(path: &Path) -> PathBuf {
    if path.is_file() || path.extension().is_some() {
        path.to_owned()
    } else {
        path.join("windlass.db")
    }
}

/// A URL without its user and its password: `postgres://…@host/db`. Hides too much rather than too
/// little if a password contains characters that end a part of a URL, or if the URL is malformed.
pub(crate) fn without_password(url: &str) -> String {
    if let Some(key) = first_key(url) {
        return format!("{key}=…");
    }
    let (scheme, rest) = match (url.split_once("://"), url.split_once(':')) {
        _ if url.starts_with("sqlite:") => return url.to_owned(),
        (Some((scheme, rest)), _) => (format!("{scheme}://"), rest),
        // Slashes were forgotten.
        (None, Some((scheme, rest))) if !scheme.contains(['/', '@']) => {
            (format!("{scheme}:"), rest)
        }
        (None, _) if url.contains("//") => (String::new(), url),
        (None, _) => return url.to_owned(),
    };
    let place = match rest.rsplit_once('@') {
        Some((_, place)) => format!("…@{place}"),
        None => rest.to_owned(),
    };
    let mut shown = format!("{scheme}{place}");
    if let Some((base, query)) = shown.split_once('?') {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name @ ("user" | "password" | "sslpassword"), _)) => format!("{name}=…"),
            _ => pair.to_owned(),
        });
        shown = format!("{base}?{}", pairs.collect::<Vec<_>>().join("&"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{StoreLocation, without_password};

    fn check(url: &str, expected: Option<&str>) {
        let place = StoreLocation::parse(url)
            .ok()
            .map(|place| place.to_string());
        assert_eq!(place.as_deref(), expected, "{url}");
    }

    #[test]
    fn a_store_is_named_by_a_url_or_a_path() {
        check("sqlite:a/b.db", Some("a/b.db"));
        check("sqlite:///var/w.db", Some("/var/w.db"));
        check("/var/lib/runs", Some("/var/lib/runs/windlass.db"));
        check("runs.db", Some("runs.db"));
        check("postgres://db.example/w", Some("postgres://db.example/w"));
        check("postgresql://u@db/w", Some("postgresql://…@db/w"));
        check("./postgres:w", Some("./postgres:w/windlass.db"));
        check("a/b:c", Some("a/b:c/windlass.db"));
        check("/var//lib", Some("/var//lib/windlass.db"));
        check("data//w", Some("data//w/windlass.db"));
        check("postgres", Some("postgres/windlass.db"));
        check("sqlite:a:b", Some("a:b"));
        check("me@db", Some("me@db/windlass.db"));
        check("run=5/w", Some("run=5/w/windlass.db"));
        check("./host=db", Some("./host=db/windlass.db"));
        check("data;//w", Some("data;//w/windlass.db"));
    }

    #[test]
    fn a_text_that_looks_like_another_address_is_no_path() {
        let refuses = |url: &str, advice: &str| {
            let error = StoreLocation::parse(url).expect_err(url);
            let said = format!("{} {}", error.message, error.help.unwrap_or_default());
            assert!(said.contains(advice), "{url}: {said}");
            assert!(!said.contains("secret"), "{url}: {said}");
        };
        let postgres = "`postgres://USER@HOST/DATABASE`, with `://`";
        for url in [
            "postgres:me@db/w",
            "postgres:me:secret@db/w",
            "postgres:/me:secret@db/w",
            "postgres//me:secret@db/w",
            "postgresql//db/w",
            "POSTGRES://me:secret@db/w",
            "Postgres:db",
            " postgres://me:secret@db/w",
            "pg://db",
            "postgres:",
            "postgres;//me:secret@db/w",
            "postgresql.//db/w",
            "postgres：//me:secret@db/w",
        ] {
            refuses(url, postgres);
        }
        for url in [
            "host=db user=me password=secret",
            "dbname=w",
            " password = 'a secret' host=db",
            "Server=db;Database=w;Password=secret",
            "host=/run/postgresql",
        ] {
            refuses(url, "`postgres://USER@HOST/DATABASE?KEY=VALUE`");
        }
        for url in [
            "mysql://me:secret@db.example/w",
            "mysql//db/w",
            "mysql;//me:secret@db/w",
            "redis:6379",
            "db:5432/w",
            "file:w.db",
            "SQLITE:w.db",
            "://",
            "a/b://c",
        ] {
            refuses(url, "is written with `./` before it");
        }
        for url in [":memory:", "sqlite::memory:", "sqlite://:memory:"] {
            refuses(url, "--ephemeral");
        }
        for url in ["", " ", "sqlite:", "sqlite://"] {
            refuses(url, "The name of the store is empty");
        }
    }

    #[test]
    fn a_user_and_a_password_are_not_shown() {
        let hides = |url: &str, expected: &str| assert_eq!(without_password(url), expected);
        hides(
            "postgres://me:a/b?c@d@db:5432/w?x=1",
            "postgres://…@db:5432/w?x=1",
        );
        hides("redis://:secret@r:1/0", "redis://…@r:1/0");
        hides(
            "postgres://db/w?user=me&password=secret&x=1",
            "postgres://db/w?user=…&password=…&x=1",
        );
        hides("postgres:me:secret@db/w", "postgres:…@db/w");
        hides("postgres//me:secret@db/w", "…@db/w");
        hides(
            "https://me:secret@windlass.example",
            "https://…@windlass.example",
        );
        for path in [
            "runs@2.db",
            "a/runs@2",
            "sqlite:a@b.db",
            "sqlite:///a//b@c.db",
            "./a:b@c",
        ] {
            hides(path, path);
        }
        check("postgres://me:secret@db:5/w", Some("postgres://…@db:5/w"));
        check("postgres://me@db/w", Some("postgres://…@db/w"));
    }
}
