//! Searches the whole file for rows that differ from the values that were written.

use std::path::Path;

use rusqlite::Connection;

use super::fault::explain;
use crate::error::Result;
use crate::sql::row::{holds, int, text};
use crate::sums::{Of, describe};

/// Every kind of row with a checksum: its key, its name, its content and the checksum.
const ALL: [(Of, &str); 8] = [
    (
        Of::Head,
        "SELECT no, version, 0, '', state, NULL, state_sum FROM run",
    ),
    (
        Of::Output,
        "SELECT no, 0, 0, '', output, output_meta, output_sum FROM run",
    ),
    (
        Of::Input,
        "SELECT run, 0, 0, '', input, input_meta, sum FROM origin",
    ),
    (
        Of::Var,
        "SELECT run, scope, 0, name, body, meta, sum FROM var",
    ),
    (
        Of::Item,
        "SELECT run, list, place, '', body, meta, sum FROM item",
    ),
    (
        Of::Scope,
        "SELECT run, scope, 0, '', state, NULL, sum FROM scope",
    ),
    (
        Of::Execution,
        "SELECT no, 0, 0, '', output, output_meta, sum FROM execution",
    ),
    (
        Of::Blob,
        "SELECT 0, 0, 0, '', content, digest, sum FROM blob",
    ),
];

/// One line for each altered row in the store.
pub(super) fn altered(path: &Path, connection: &Connection) -> Result<Vec<String>> {
    let told = |error: rusqlite::Error| explain(path, &error);
    let mut lines = Vec::new();
    for (of, sql) in ALL {
        let mut statement = connection.prepare(sql).map_err(told)?;
        let mut rows = statement.query([]).map_err(told)?;
        while let Some(row) = rows.next().map_err(told)? {
            let key = [int(row, 0)?, int(row, 1)?, int(row, 2)?];
            let name = text(row, 3)?;
            if !holds(row, 4, of, key, &name)? {
                lines.push(describe(of, key, &name));
            }
        }
    }
    Ok(lines)
}
