//! Statements that SQLite and PostgreSQL share are written once, in `host/store/src/sql`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The percentage of SQLite's statements that may equal one of PostgreSQL.
const EQUAL_PERCENT: usize = 5;

/// The folders of the two databases.
const SQLITE: &str = "host/store/src/sqlite/";
const POSTGRES: &str = "host/store/src/postgres/";

/// Clauses about locks that only PostgreSQL's statements have.
const LOCKS: [&str; 9] = [
    " FOR UPDATE",
    " FOR NO KEY UPDATE",
    " FOR KEY SHARE",
    " FOR SHARE",
    " OF l",
    " SKIP LOCKED",
    "::smallint",
    "::bigint",
    "::text",
];

/// Reports duplicate statements, if there are too many.
pub(crate) fn twice(root: &Path, files: &[PathBuf], wrong: &mut Vec<String>) -> Result<()> {
    let of = |folder: &str| -> Result<Vec<String>> {
        let mut found = Vec::new();
        for file in files {
            let name = file.to_string_lossy();
            let ours = name.starts_with(folder) && name.ends_with(".rs");
            if ours && !name.contains("/tests") {
                let path = root.join(file);
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                found.extend(statements(&text));
            }
        }
        Ok(found)
    };
    let (sqlite, postgres) = (of(SQLITE)?, of(POSTGRES)?);
    let postgres: BTreeSet<_> = postgres.iter().collect();
    let equal: Vec<_> = sqlite.iter().filter(|sql| postgres.contains(sql)).collect();
    if equal.len() * 100 > sqlite.len() * EQUAL_PERCENT {
        wrong.push(format!(
            "{} of {} statements in {SQLITE} are written in {POSTGRES}, too: write them once, in \
             host/store/src/sql. The first is `{}`",
            equal.len(),
            sqlite.len(),
            equal.first().map_or("", |sql| sql.as_str()),
        ));
    }
    Ok(())
}

/// The statements in the text literals of a source file, without the parts that only one database
/// has.
fn statements(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let source: String = source
        .split_inclusive('\n')
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let mut rest = source.as_str();
    while let Some((_, after)) = rest.split_once('"') {
        let (literal, behind) = literal(after);
        rest = behind;
        let verb = literal.split(' ').next().unwrap_or_default();
        if ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"].contains(&verb) {
            found.push(plain(&literal));
        }
    }
    found
}

/// A literal after its first quotation mark, and the text behind it.
fn literal(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, text.get(at + 1..).unwrap_or_default()),
            '\\' => match letters.next() {
                // The line continues after the leading spaces of the next one.
                Some((_, '\n')) => {
                    while letters.next_if(|(_, next)| next.is_whitespace()).is_some() {}
                }
                Some((_, escaped)) => value.push(escaped),
                None => break,
            },
            other => value.push(other),
        }
    }
    (value, "")
}

/// A statement in the words that both databases share.
fn plain(sql: &str) -> String {
    let mut text = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    for lock in LOCKS {
        text = text.replace(lock, "");
    }
    let text = text.strip_suffix(" LIMIT 1").unwrap_or(&text);
    text.replace("CROSS JOIN", "JOIN")
        .replace('?', "$")
        .replace("least(", "min(")
        .replace("greatest(", "max(")
}

#[cfg(test)]
mod tests {
    use super::statements;

    #[test]
    fn a_statement_of_each_database_is_found() {
        let sqlite = "run(\"SELECT no FROM x CROSS JOIN y \\\n        WHERE no = ?1\")";
        let postgres = "run(\"SELECT no FROM x JOIN y WHERE no = $1 FOR UPDATE\");";
        assert_eq!(statements(sqlite), statements(postgres));
        assert_eq!(statements(sqlite).len(), 1);
        assert!(statements("// \"SELECT 1\"\nlet a = \"no statement\";").is_empty());
    }
}
