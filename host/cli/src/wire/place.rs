//! The location of the store, from its URL.

use std::fmt;
use std::path::{Path, PathBuf};

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

    fn parse(url: &str) -> Result<Self, Expected> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return Ok(Self::Sqlite(PathBuf::from(path)));
        }
        if is_postgres(url) {
            return Ok(Self::Postgres(url.to_owned()));
        }
        if !url.contains("://") {
            return Ok(Self::Sqlite(file_in(Path::new(url))));
        }
        let text = format!("`{}` is no store that is known", without_password(url));
        Err(Expected::new(codes::STORE_URL, text).help(
            "Write `sqlite:` and the path of a file, or `postgres://USER@HOST/DATABASE`, \
             or give `--store PATH`.",
        ))
    }

    /// The file, if the store is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => Some(path),
            Self::Postgres(_) => None,
        }
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

/// Whether a URL names a PostgreSQL database.
pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// The database file that a plain path names, which may be a directory.
pub(crate) fn file_in(path: &Path) -> PathBuf {
    if path.is_file() || path.extension().is_some() {
        path.to_owned()
    } else {
        path.join("windlass.db")
    }
}

/// A URL without its user and its password: `postgres://…@host/db`. Hides too much rather than too
/// little if a password contains characters that end a part of a URL, or if the URL is malformed.
pub(crate) fn without_password(url: &str) -> String {
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
        check("postgresql://db/w", Some("postgresql://db/w"));
        check("mysql://db.example/w", None);
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
