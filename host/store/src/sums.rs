//! Checksums of rows. Readers and `windlass store check` use them to detect a value that was
//! changed behind the store's back, or that is in the row of another key.
//!
//! A checksum covers the key of the row and its content. A row without content has none. The
//! checksums detect accidents, not attacks: a program that can write the file can
//! also write a checksum. Only SQLite's tables have them.

use crate::codes;
use crate::error::Error;

/// The kind of content of a checksum. The numbers are part of the checksum.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Of {
    /// By run and version: the state.
    Head = 1,
    /// By run.
    Output = 2,
    /// By run.
    Input = 3,
    /// By run, scope and name.
    Var = 4,
    /// By run, list and place.
    Item = 5,
    /// By run and scope.
    Scope = 6,
    /// By execution record: its output.
    Execution = 7,
    /// By digest, which replaces the metadata of a payload.
    Blob = 8,
}

/// The key of a row; missing parts are zero.
pub(crate) type Key = [i64; 3];

/// Length of the header of a checksum's input: kind, key and lengths.
const HEAD: usize = 3 + 5 * 8;

/// Content up to this size, in bytes, is copied into one buffer before the checksum is computed.
const SMALL: usize = 512;

/// The checksum of a body, its metadata, and the key of its row.
pub(crate) fn sum(of: Of, key: Key, name: &str, body: Option<&[u8]>, meta: Option<&[u8]>) -> u32 {
    let parts = [
        name.as_bytes(),
        body.unwrap_or_default(),
        meta.unwrap_or_default(),
    ];
    let mut head = [0; HEAD];
    head[..3].copy_from_slice(&[of as u8, u8::from(body.is_some()), u8::from(meta.is_some())]);
    // The lengths keep bytes from moving between adjacent parts.
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
    // Computed in one call, because a checksum of short pieces is slow.
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

/// The checksum of a payload; none if there is no payload.
pub(crate) fn of_payload(
    of: Of,
    key: Key,
    name: &str,
    (body, meta): (Option<&[u8]>, Option<&str>),
) -> Option<u32> {
    (body.is_some() || meta.is_some()).then(|| sum(of, key, name, body, meta.map(str::as_bytes)))
}

/// The checksum of a state.
pub(crate) fn of_state(no: i64, version: i64, state: &[u8]) -> u32 {
    sum(Of::Head, [no, version, 0], "", Some(state), None)
}

/// The error for content that does not match its key and checksum.
pub(crate) fn altered(of: Of, key: Key, name: &str) -> Error {
    let what = describe(of, key, name);
    Error::new(
        codes::ALTERED,
        format!("the checksum of {what} does not hold"),
    )
    .help("Look at the store with `windlass store check`, and restore a backup.")
}

/// Describes the content of a checksum for messages.
pub(crate) fn describe(of: Of, [one, two, three]: Key, name: &str) -> String {
    match of {
        Of::Head => format!("the state of run {one}"),
        Of::Output => format!("the output of run {one}"),
        Of::Input => format!("the input of run {one}"),
        Of::Var => format!("the variable `{name}` in scope {two} of run {one}"),
        Of::Item => format!("item {three} of list {two} of run {one}"),
        Of::Scope => format!("the state of scope {two} of run {one}"),
        Of::Execution => format!("the output of record {one}"),
        Of::Blob => "a large value".to_owned(),
    }
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
            sum(Of::Execution, [1, 2, 3], "", Some(body), Some(meta))
        };
        let sums = sums.into_iter().chain([cut(1), cut(2), cut(SMALL)]);
        let sums: Vec<_> = sums.collect();
        let different: std::collections::BTreeSet<_> = sums.iter().collect();
        assert_eq!(different.len(), sums.len());
    }

    /// Stored checksums were computed for content of all sizes.
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
            let found = sum(Of::Execution, [5, -6, 7], "", Some(&body), None);
            assert_eq!(found, pieces.finalize(), "{size}");
        }
    }
}
