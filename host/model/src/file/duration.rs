//! Durations and instants, in the syntax of files and templates.

use jiff::{SignedDuration, Timestamp};

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

/// Reads `200ms`, `5s`, `90m`, `3d`, `1h30m`, or ISO 8601 like `PT1H30M` and `P3D`, in which a day
/// has 24 hours. None if the text is malformed, negative, or over a hundred years.
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let ms = if text.starts_with(['P', 'p']) {
        iso(text)?
    } else {
        units(text)?
    };
    (ms <= LONGEST_MS).then_some(ms)
}

/// Reads an RFC 3339 instant, like `2026-01-31T12:00:00Z`, into milliseconds since 1970.
pub fn parse_instant_ms(text: &str) -> Option<i64> {
    text.parse::<Timestamp>()
        .ok()
        .map(Timestamp::as_millisecond)
}

fn units(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total: u64 = 0;
    let mut last = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let end = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(end)?;
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

fn iso(text: &str) -> Option<u64> {
    // jiff's durations exclude days and weeks, because a day may have 23 hours; here a day has 24.
    let text = text.to_ascii_uppercase();
    let (date, time) = text
        .strip_prefix('P')?
        .split_once('T')
        .unwrap_or((text.get(1..)?, ""));
    let mut total: u64 = 0;
    let mut rest = date;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        let unit = match rest.get(digits..=digits)? {
            "W" => 604_800_000,
            "D" => 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = rest.get(digits + 1..)?;
    }
    if !time.is_empty() {
        let time: SignedDuration = format!("PT{time}").parse().ok()?;
        total = total.checked_add(u64::try_from(time.as_millis()).ok()?)?;
    }
    (!date.is_empty() || !time.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_or_are_iso() {
        for (text, expected) in [
            ("200ms", Some(200)),
            ("5s", Some(5_000)),
            ("3d", Some(259_200_000)),
            ("1h30m", Some(5_400_000)),
            ("2w", Some(1_209_600_000)),
            ("0s", Some(0)),
            ("PT5S", Some(5_000)),
            ("PT0.25S", Some(250)),
            ("P1DT12H", Some(129_600_000)),
            ("P2W", Some(1_209_600_000)),
            ("", None),
            ("5", None),
            ("s", None),
            ("-5s", None),
            ("5 s", None),
            ("5x", None),
            ("5é", None),
            ("1m1h", None),
            ("1s1s", None),
            ("P", None),
            ("PT", None),
            ("P1Y", None),
            ("P1M", None),
            ("PT-5S", None),
            ("99999999999999999999d", None),
            ("101y", None),
            ("40000d", None),
        ] {
            assert_eq!(parse_duration_ms(text), expected, "{text}");
        }
    }

    #[test]
    fn instants_are_rfc_3339() {
        assert_eq!(parse_instant_ms("1970-01-01T00:00:01Z"), Some(1_000));
        assert_eq!(parse_instant_ms("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse_instant_ms("tomorrow"), None);
        assert_eq!(parse_instant_ms("2026-01-31"), None);
    }
}
