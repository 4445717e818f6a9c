//! Durations in the syntax of workflow files.

use std::fmt;
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

/// Why a text is no duration. As text, it follows the name of the value: `timeout is negative`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDuration {
    /// It is no duration in any notation that is read here.
    Malformed,
    /// A number alone.
    Unitless,
    /// It is below zero.
    Negative,
    /// It is longer than a hundred years.
    TooLong,
    /// It counts years or months, whose length differs.
    Vague,
}

impl fmt::Display for NoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => {
                "is not a duration: durations are like `200ms`, `5s`, `1h30m`, `3d` or `PT1H30M`"
            }
            Self::Unitless => "has no unit: write `s` behind it for seconds, or `ms`",
            Self::Negative => "is negative",
            Self::TooLong => "is too long: write at most `36600d`, which is a hundred years",
            Self::Vague => "has years or months, whose length differs: write days or weeks",
        })
    }
}

impl std::error::Error for NoDuration {}

/// Reads a duration as workflow files have it: `200ms`, `5s`, `1h30m`, `3d`, or ISO 8601 like
/// `PT1H30M` and `P3D`, in which a day has 24 hours. A part below a millisecond is dropped.
///
/// # Errors
///
/// The text is malformed or negative, has no unit, or is over a hundred years.
pub fn parse_duration(text: &str) -> Result<Duration, NoDuration> {
    let iso_8601 = text.starts_with(['P', 'p']);
    if text.starts_with('-') || iso_8601 && text.contains('-') {
        return Err(match parse_duration(&text.replace('-', "")) {
            Ok(_) | Err(NoDuration::TooLong | NoDuration::Unitless) => NoDuration::Negative,
            Err(other) => other,
        });
    }
    let ms = match text.strip_prefix(['P', 'p']) {
        Some(rest) => iso(&rest.to_ascii_uppercase())?,
        None => units(text)?,
    };
    match ms <= LONGEST_MS {
        true => Ok(Duration::from_millis(ms)),
        false => Err(NoDuration::TooLong),
    }
}

fn units(text: &str) -> Result<u64, NoDuration> {
    let mut rest = text;
    let (mut total, mut last) = (0_u64, u64::MAX);
    if is_number(text) {
        return Err(NoDuration::Unitless);
    }
    while !rest.is_empty() {
        let (number, after) = number(rest)?;
        let end = after.find(|c: char| !c.is_ascii_alphabetic());
        let (name, after) = cut(after, end.unwrap_or(after.len()))?;
        let known = UNITS.into_iter().find(|(unit, _)| *unit == name);
        let (_, unit) = known.ok_or(NoDuration::Malformed)?;
        // From the largest unit to the smallest, each at most once.
        if unit >= last {
            return Err(NoDuration::Malformed);
        }
        last = unit;
        total = total.saturating_add(number.saturating_mul(unit));
        rest = after;
    }
    match last != u64::MAX {
        true => Ok(total),
        false => Err(NoDuration::Malformed),
    }
}

/// Whether a text consists of digits, perhaps with one dot.
fn is_number(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    digits(whole) && digits(fraction)
}

/// ISO 8601 without its `P`, in upper case.
fn iso(text: &str) -> Result<u64, NoDuration> {
    let (mut rest, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    if rest.is_empty() && time.is_none_or(str::is_empty) {
        return Err(NoDuration::Malformed);
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, after) = number(rest)?;
        let (name, after) = cut(after, 1)?;
        let unit = match name {
            "W" => 604_800_000,
            "D" => 86_400_000,
            "Y" | "M" => return Err(NoDuration::Vague),
            _ => return Err(NoDuration::Malformed),
        };
        total = total.saturating_add(number.saturating_mul(unit));
        rest = after;
    }
    Ok(total.saturating_add(iso_time(time.unwrap_or_default())?))
}

/// Hours, minutes and seconds, the last of which may have a fraction.
fn iso_time(text: &str) -> Result<u64, NoDuration> {
    let mut units = [("H", 3_600_000_u64), ("M", 60_000), ("S", 1_000)].into_iter();
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, after) = number(rest)?;
        let (fraction, after) = match after.strip_prefix(['.', ',']) {
            Some(after) => {
                let end = after.find(|c: char| !c.is_ascii_digit());
                let (digits, after) = cut(after, end.ok_or(NoDuration::Malformed)?)?;
                (Some(digits), after)
            }
            None => (None, after),
        };
        let (name, after) = cut(after, 1)?;
        let unit = units.find(|(unit, _)| *unit == name);
        let (_, unit) = unit.ok_or(NoDuration::Malformed)?;
        rest = after;
        total = total.saturating_add(number.saturating_mul(unit));
        if let Some(digits) = fraction {
            if digits.is_empty() || digits.len() > 9 || !rest.is_empty() {
                return Err(NoDuration::Malformed);
            }
            let scale = 10_u64.pow(u32::try_from(digits.len()).unwrap_or_default());
            let part = digits.parse::<u64>().unwrap_or_default();
            total = total.saturating_add(part.saturating_mul(unit) / scale);
        }
    }
    Ok(total)
}

/// The number at the beginning of a text, and the rest. A number of more than 64 bits is the largest
/// one.
fn number(text: &str) -> Result<(u64, &str), NoDuration> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = cut(text, end.unwrap_or(text.len()))?;
    match digits.is_empty() {
        true => Err(NoDuration::Malformed),
        false => Ok((digits.parse().unwrap_or(u64::MAX), rest)),
    }
}

fn cut(text: &str, at: usize) -> Result<(&str, &str), NoDuration> {
    text.split_at_checked(at).ok_or(NoDuration::Malformed)
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
            let read = match parse_duration(text) {
                Ok(duration) => duration.as_millis().to_string(),
                Err(NoDuration::Malformed) => "malformed".to_owned(),
                Err(NoDuration::Unitless) => "unitless".to_owned(),
                Err(NoDuration::Negative) => "negative".to_owned(),
                Err(NoDuration::TooLong) => "too-long".to_owned(),
                Err(NoDuration::Vague) => "vague".to_owned(),
            };
            assert_eq!(read, expected, "{text:?}");
            checked += 1;
        }
        assert!(checked > 60, "{checked}");
    }
}
