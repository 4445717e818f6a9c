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

/// The duration that a person probably meant by another notation: `5 minutes`, `30sec`, `1.5h`,
/// `00:05:00`, `30m1h`. None if the text is none of these.
pub(super) fn meant(text: &str) -> Option<String> {
    let text = text.trim().get(..text.trim().len().min(40))?;
    if let Some(clock) = clock(text) {
        return Some(clock);
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(digits)?;
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, after) = after.split_at_checked(end.unwrap_or(after.len()))?;
        let unit = match unit.to_ascii_lowercase().as_str() {
            "ms" | "milli" | "millis" | "millisecond" | "milliseconds" | "msec" => 0,
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "m" | "min" | "mins" | "minute" | "minutes" => 2,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3,
            "d" | "day" | "days" => 4,
            "w" | "wk" | "week" | "weeks" => 5,
            _ => return None,
        };
        let (name, ms) = UNITS.get(unit)?;
        match number.split_once('.') {
            None => parts.push((*ms, format!("{number}{name}"))),
            Some(_) => {
                // A fraction of a unit is a whole number of a smaller one.
                let value: f64 = number.parse().ok()?;
                let (smaller, factor) = UNITS.iter().rev().find_map(|(name, small)| {
                    #[expect(clippy::cast_precision_loss, reason = "units are small numbers")]
                    let count = value * (*ms as f64) / (*small as f64);
                    (small < ms && count.fract() == 0.0).then_some((name, count))
                })?;
                parts.push((*ms, format!("{factor}{smaller}")));
            }
        }
        rest = after.trim_start_matches([' ', ',']);
    }
    parts.sort_by_key(|(ms, _)| std::cmp::Reverse(*ms));
    let meant: String = parts.into_iter().map(|(_, part)| part).collect();
    parse_duration_ms(&meant).map(|_| meant)
}

/// `HH:MM:SS`
fn clock(text: &str) -> Option<String> {
    let numbers = text.split(':').map(str::parse);
    let numbers: Vec<u32> = numbers.collect::<Result<_, _>>().ok()?;
    let [hours, minutes, seconds] = numbers.as_slice() else {
        return None;
    };
    let parts = [(hours, "h"), (minutes, "m"), (seconds, "s")];
    let parts = parts.iter().filter(|(number, _)| **number > 0);
    let text: String = parts
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    (!text.is_empty()).then_some(text)
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
    fn other_notations_are_understood_for_messages() {
        for (text, expected) in [
            ("5 minutes", Some("5m")),
            ("30sec", Some("30s")),
            ("5 s", Some("5s")),
            ("1.5h", Some("90m")),
            ("00:05:00", Some("5m")),
            ("30m1h", Some("1h30m")),
            ("1 hour, 30 minutes", Some("1h30m")),
            ("1.5.5h", None),
            ("soon", None),
            ("5 minutes ago", None),
            ("5é", None),
            ("", None),
        ] {
            assert_eq!(meant(text).as_deref(), expected, "{text}");
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
