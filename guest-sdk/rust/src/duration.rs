//! Durations in the syntax of workflow files.

use std::time::Duration;

/// The longest duration: a hundred years, in milliseconds.
const LONGEST_MS: u64 = 100 * 366 * 24 * 60 * 60 * 1000;
/// Units, in milliseconds.
const UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

/// Reads a duration as workflow files have it: `200ms`, `5s`, `1h30m`, `3d`, or ISO 8601 like
/// `PT1H30M` and `P3D`, in which a day has 24 hours. None if the text is malformed, negative, or
/// over a hundred years. A part below a millisecond is dropped.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let ms = match text.strip_prefix(['P', 'p']) {
        Some(rest) => iso(&rest.to_ascii_uppercase())?,
        None => units(text)?,
    };
    (ms <= LONGEST_MS).then(|| Duration::from_millis(ms))
}

fn units(text: &str) -> Option<u64> {
    let mut rest = text;
    let (mut total, mut last) = (0_u64, u64::MAX);
    while !rest.is_empty() {
        let (number, after) = number(rest)?;
        let end = after.find(|c: char| !c.is_ascii_alphabetic());
        let (name, after) = after.split_at_checked(end.unwrap_or(after.len()))?;
        let (_, unit) = UNITS.into_iter().find(|(unit, _)| *unit == name)?;
        // From the largest unit to the smallest, each at most once.
        if unit >= last {
            return None;
        }
        last = unit;
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = after;
    }
    (last != u64::MAX).then_some(total)
}

/// ISO 8601 without its `P`, in upper case.
fn iso(text: &str) -> Option<u64> {
    let (mut rest, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    if rest.is_empty() && time.is_none_or(str::is_empty) {
        return None;
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, after) = number(rest)?;
        let unit = match after.split_at_checked(1)? {
            ("W", after) => (604_800_000, after),
            ("D", after) => (86_400_000, after),
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit.0)?)?;
        rest = unit.1;
    }
    match time {
        Some(time) => total.checked_add(iso_time(time)?),
        None => Some(total),
    }
}

/// Hours, minutes and seconds, the last of which may have a fraction.
fn iso_time(text: &str) -> Option<u64> {
    let mut units = [('H', 3_600_000_u64), ('M', 60_000), ('S', 1_000)].into_iter();
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, after) = number(rest)?;
        let (fraction, after) = match after.strip_prefix(['.', ',']) {
            Some(after) => {
                let end = after.find(|c: char| !c.is_ascii_digit())?;
                let (digits, after) = after.split_at_checked(end)?;
                (Some(digits), after)
            }
            None => (None, after),
        };
        let mut chars = after.chars();
        let name = chars.next()?;
        let (_, unit) = units.find(|(unit, _)| *unit == name)?;
        rest = chars.as_str();
        total = total.checked_add(number.checked_mul(unit)?)?;
        if let Some(digits) = fraction {
            if digits.is_empty() || digits.len() > 9 || !rest.is_empty() {
                return None;
            }
            let scale = 10_u64.checked_pow(u32::try_from(digits.len()).ok()?)?;
            let part = digits.parse::<u64>().ok()?.checked_mul(unit)? / scale;
            total = total.checked_add(part)?;
        }
    }
    Some(total)
}

/// The number at the begin of a text, and the rest.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_workflow_files() {
        let cases = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/cases/durations.txt"
        );
        let cases = std::fs::read_to_string(cases).unwrap();
        let mut checked = 0;
        for line in cases.lines().filter(|line| !line.starts_with('#')) {
            let (text, expected) = line.split_once('\t').unwrap();
            let read = parse_duration(text).map(|it| it.as_millis());
            let expected = (expected != "-").then(|| expected.parse::<u128>().unwrap());
            assert_eq!(read, expected, "{text:?}");
            checked += 1;
        }
        assert!(checked > 60, "{checked}");
    }
}
