//! Checksums of what lies in rows: a value that was changed behind the store's back, or that lies in
//! a row that is not its own, is noticed when it is read and by `windlass store check`.
//!
//! A sum is over the key of the row and its content. Rows of older layouts have none and count as
//! sound. It tells accidents and not attacks: who can write the file can write a sum, too.

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, Error as Fault, Row};

/// What a sum is of. The numbers are part of what is summed.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Of {
    /// By instance and version: a state.
    Head = 1,
    /// By instance.
    Output = 2,
    /// By instance.
    Input = 3,
    /// By instance, scope and name.
    Var = 4,
    /// By instance, list and place.
    Item = 5,
    /// By instance and scope.
    Scope = 6,
    /// By record: an output.
    Run = 7,
    /// By digest, which takes the place of what is said beside a payload.
    Blob = 8,
}

/// A key with fewer parts has zeros behind them.
pub(super) type Key = [i64; 3];

/// Bytes that say what a sum is of.
const HEAD: usize = 3 + 5 * 8;

/// Up to this size, in bytes, content is gathered before it is summed.
const SMALL: usize = 512;

/// The sum of a body, of what is said beside it, and of the key of their row.
pub(super) fn sum(of: Of, key: Key, name: &str, body: Option<&[u8]>, meta: Option<&[u8]>) -> u32 {
    let parts = [
        name.as_bytes(),
        body.unwrap_or_default(),
        meta.unwrap_or_default(),
    ];
    let mut head = [0; HEAD];
    head[..3].copy_from_slice(&[of as u8, u8::from(body.is_some()), u8::from(meta.is_some())]);
    // The lengths keep what ends one part from beginning the next.
    let [one, two, three] = key;
    let numbers = [one, two, three, length(parts[0]), length(parts[1])];
    head[3..].copy_from_slice(numbers.map(i64::to_le_bytes).as_flattened());
    let size = HEAD + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut small = [0; SMALL];
    let Some(all) = small.get_mut(..size) else {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head);
        parts.iter().for_each(|part| sum.update(part));
        return sum.finalize();
    };
    // At once, since a sum of short pieces is slow.
    let mut rest = &mut *all;
    for part in [&head[..], parts[0], parts[1], parts[2]] {
        let (place, after) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = after;
    }
    crc32fast::hash(all)
}

fn length(part: &[u8]) -> i64 {
    (part.len() as u64).cast_signed()
}

/// The sum of a payload; none if there is none.
pub(super) fn of_payload(
    of: Of,
    key: Key,
    name: &str,
    (body, meta): (Option<&[u8]>, Option<&str>),
) -> Option<u32> {
    (body.is_some() || meta.is_some()).then(|| sum(of, key, name, body, meta.map(str::as_bytes)))
}

/// The sum of a state.
pub(super) fn of_state(no: i64, version: i64, state: &[u8]) -> u32 {
    sum(Of::Head, [no, version, 0], "", Some(state), None)
}

/// Content that is not what was written.
#[derive(Debug, thiserror::Error)]
#[error("the checksum of {what} does not hold")]
pub(super) struct Altered {
    what: String,
}

/// Refuses a row whose columns from `column` on (body, what is said beside it, and their sum) are
/// not what was written under its key.
pub(super) fn check(
    row: &Row<'_>,
    column: usize,
    of: Of,
    key: Key,
    name: &str,
) -> Result<(), Fault> {
    if holds(row, column, of, key, name)? {
        return Ok(());
    }
    let what = describe(of, key, name);
    let altered = Box::new(Altered { what });
    Err(Fault::FromSqlConversionFailure(column, Type::Blob, altered))
}

/// Whether such columns are what was written.
pub(super) fn holds(
    row: &Row<'_>,
    column: usize,
    of: Of,
    key: Key,
    name: &str,
) -> Result<bool, Fault> {
    let ValueRef::Integer(known) = row.get_ref(column + 2)? else {
        return Ok(true);
    };
    let (body, meta) = (content(row, column)?, content(row, column + 1)?);
    Ok(known == i64::from(sum(of, key, name, body, meta)))
}

fn content<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r [u8]>, Fault> {
    Ok(match row.get_ref(column)? {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Some(bytes),
        _ => None,
    })
}

fn describe(of: Of, [one, two, three]: Key, name: &str) -> String {
    match of {
        Of::Head => format!("the state of instance {one}"),
        Of::Output => format!("the output of instance {one}"),
        Of::Input => format!("the input of instance {one}"),
        Of::Var => format!("the variable `{name}` in scope {two} of instance {one}"),
        Of::Item => format!("item {three} of list {two} of instance {one}"),
        Of::Scope => format!("the state of scope {two} of instance {one}"),
        Of::Run => format!("the output of record {one}"),
        Of::Blob => "a large value".to_owned(),
    }
}

/// Every row with a sum: its key, its name, its content and the sum.
const ALL: [(Of, &str); 8] = [
    (
        Of::Head,
        "SELECT no, version, 0, '', state, NULL, state_sum FROM instance",
    ),
    (
        Of::Output,
        "SELECT no, 0, 0, '', output, output_meta, output_sum FROM instance",
    ),
    (
        Of::Input,
        "SELECT instance, 0, 0, '', input, input_meta, sum FROM origin",
    ),
    (
        Of::Var,
        "SELECT instance, scope, 0, name, body, meta, sum FROM var",
    ),
    (
        Of::Item,
        "SELECT instance, list, place, '', body, meta, sum FROM item",
    ),
    (
        Of::Scope,
        "SELECT instance, scope, 0, '', state, NULL, sum FROM scope",
    ),
    (
        Of::Run,
        "SELECT no, 0, 0, '', output, output_meta, sum FROM run",
    ),
    (
        Of::Blob,
        "SELECT 0, 0, 0, '', content, digest, sum FROM blob",
    ),
];

/// A line for everything in the store that is not what was written.
pub(super) fn altered(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut lines = Vec::new();
    for (of, sql) in ALL {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let key = [row.get(0)?, row.get(1)?, row.get(2)?];
            let name: String = row.get(3)?;
            if !holds(row, 4, of, key, &name)? {
                lines.push(describe(of, key, &name));
            }
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::{HEAD, Of, SMALL, sum};

    #[test]
    fn a_sum_is_of_the_key_the_name_and_each_part() {
        let body = Some(&b"ab"[..]);
        let sums = [
            sum(Of::Var, [1, 2, 3], "n", body, None),
            sum(Of::Item, [1, 2, 3], "n", body, None),
            sum(Of::Var, [1, 3, 2], "n", body, None),
            sum(Of::Var, [1, 2, 3], "m", body, None),
            sum(Of::Var, [1, 2, 3], "na", Some(b"b"), None),
            sum(Of::Var, [1, 2, 3], "n", Some(b"a"), Some(b"b")),
            sum(Of::Var, [1, 2, 3], "n", Some(b""), body),
            sum(Of::Var, [1, 2, 3], "n", None, body),
        ];
        let long = vec![b'a'; SMALL];
        let cut = |at: usize| {
            let (body, meta) = long.split_at(at);
            sum(Of::Run, [1, 2, 3], "", Some(body), Some(meta))
        };
        let sums = sums.into_iter().chain([cut(1), cut(2), cut(SMALL)]);
        let sums: Vec<_> = sums.collect();
        let different: std::collections::BTreeSet<_> = sums.iter().collect();
        assert_eq!(different.len(), sums.len());
    }

    /// Files hold sums of all sizes.
    #[test]
    fn a_sum_is_the_same_however_it_is_computed() {
        for size in [
            0,
            1,
            80,
            SMALL - HEAD - 1,
            SMALL - HEAD,
            SMALL - HEAD + 1,
            5_000,
        ] {
            let body: Vec<_> = (0..=u8::MAX).cycle().take(size).collect();
            let mut pieces = crc32fast::Hasher::new();
            pieces.update(&[7, 1, 0]);
            for number in [5, -6, 7, 0, i64::try_from(size).unwrap()] {
                pieces.update(&number.to_le_bytes());
            }
            pieces.update(&body);
            let found = sum(Of::Run, [5, -6, 7], "", Some(&body), None);
            assert_eq!(found, pieces.finalize(), "{size}");
        }
    }
}
