//! Durations and instants, in the syntax of files and templates.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde_json::Number;

use super::reader::cut;
use crate::limits::DURATION_MS;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Units, in milliseconds.
const UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

/// The shortest text for a duration: `15m`, `1h30m`.
pub fn duration_text(ms: u64) -> String {
    let (mut left, mut text) = (ms, String::new());
    for (unit, unit_ms) in UNITS.into_iter().rev() {
        let count = left / unit_ms;
        // Weeks are written only if nothing is left: `8d` is easier to read than `1w1d`.
        if count == 0 || (unit == "w" && left % unit_ms != 0) {
            continue;
        }
        text.push_str(&format!("{count}{unit}"));
        left %= unit_ms;
    }
    if text.is_empty() {
        "0s".to_owned()
    } else {
        text
    }
}

/// Units without a fixed length, in ISO 8601.
const VAGUE: [char; 2] = ['Y', 'M'];

pub(super) const DURATIONS: &str = "durations are like `200ms`, `5s`, `1h30m`, `3d` or `PT1H30M`";

const INSTANTS: &str = "instants are like `2026-01-31T12:00:00Z`";

/// Why a text or a number is no duration or no instant, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoTime {
    /// The mistake, in one sentence.
    pub message: String,
    /// The remedy.
    pub help: String,
}

impl NoTime {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        let (message, help) = (message.into(), help.into());
        Self { message, help }
    }

    /// The refusal of a number without a unit.
    pub fn unitless(number: &Number) -> Self {
        let number = number.to_string();
        if number.starts_with('-') {
            return Fault::Negative.about(&number);
        }
        Fault::Unitless.about(&number)
    }
}

impl fmt::Display for NoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.help)
    }
}

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Malformed,
    Negative,
    TooLong,
    Unitless,
    /// It counts years or months.
    Vague,
}

impl Fault {
    fn about(self, text: &str) -> NoTime {
        let cut = cut(text);
        match self {
            Self::Malformed => {
                let help = meant(text).map(|meant| format!("write `{meant}`"));
                let help = help.unwrap_or_else(|| DURATIONS.to_owned());
                match text.trim().is_empty() {
                    true => NoTime::new("the duration is empty", help),
                    false => NoTime::new(format!("`{cut}` is not a duration"), help),
                }
            }
            Self::Negative => NoTime::new(format!("the duration `{cut}` is negative"), DURATIONS),
            Self::TooLong => {
                let days = DURATION_MS / DAY_MS;
                let help = format!("write at most `{days}d`, which is a hundred years");
                NoTime::new(format!("the duration `{cut}` is too long"), help)
            }
            Self::Unitless => {
                let number = text.trim();
                let help = match meant(&format!("{number}s")) {
                    Some(meant) if number.contains('.') => {
                        format!("write `{meant}` for {number} seconds")
                    }
                    _ if number.chars().all(|c| c.is_ascii_digit()) && number.len() <= 20 => {
                        format!("write `{number}s` for seconds, or `{number}ms`")
                    }
                    _ => DURATIONS.to_owned(),
                };
                NoTime::new(format!("the duration `{cut}` has no unit"), help)
            }
            Self::Vague => {
                let message = format!("`{cut}` has years or months, whose length differs");
                NoTime::new(message, "write days or weeks, like `P30D` or `4w`")
            }
        }
    }
}

/// Reads `200ms`, `5s`, `90m`, `3d`, `1h30m`, or ISO 8601 like `PT1H30M` and `P3D`, in which a day
/// has 24 hours, into milliseconds. Every duration of the host is read here: in files, expressions,
/// settings, requests and arguments.
///
/// # Errors
///
/// The text is malformed or negative, has no unit, or is longer than a hundred years.
pub fn duration_ms(text: &str) -> Result<u64, NoTime> {
    length(text).map_err(|fault| fault.about(text))
}

/// Reads an RFC 3339 instant, like `2026-01-31T12:00:00Z`, into milliseconds since 1970.
///
/// # Errors
///
/// The text is malformed, or beyond the last instant that the host can calculate with, which is at
/// the end of the year 9999.
pub fn instant_ms(text: &str) -> Result<i64, NoTime> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant.as_millisecond());
    }
    let cut = cut(text);
    if names_instant(text) {
        let message = format!("the instant `{cut}` is out of range");
        let help = match text.starts_with('-') {
            true => format!("the earliest is `{}`", Timestamp::MIN),
            false => format!("the latest is `{LATEST}`"),
        };
        return Err(NoTime::new(message, help));
    }
    let help = match instant_like(text) {
        Some(false) => "write its offset from UTC behind it: `Z`, or like `+02:00`",
        Some(true) => "no calendar or clock has this day or time",
        None => INSTANTS,
    };
    Err(NoTime::new(format!("`{cut}` is not an instant"), help))
}

/// Reads a duration, which begins at `now_ms`, or an instant, into milliseconds since 1970.
///
/// # Errors
///
/// As those of [`duration_ms`] and [`instant_ms`].
pub fn moment_ms(text: &str, now_ms: i64) -> Result<i64, NoTime> {
    moment(text, |ms| now_ms.saturating_add_unsigned(ms))
}

/// Reads a duration, which ends at `now_ms`, or an instant, into milliseconds since 1970.
///
/// # Errors
///
/// As those of [`duration_ms`] and [`instant_ms`].
pub fn past_ms(text: &str, now_ms: i64) -> Result<i64, NoTime> {
    moment(text, |ms| now_ms.saturating_sub_unsigned(ms))
}

fn moment(text: &str, at: impl FnOnce(u64) -> i64) -> Result<i64, NoTime> {
    let fault = match length(text) {
        Ok(ms) => return Ok(at(ms)),
        Err(fault) => fault,
    };
    let wrong = match instant_ms(text) {
        Ok(instant) => return Ok(instant),
        Err(wrong) => wrong,
    };
    if fault != Fault::Malformed {
        return Err(fault.about(text));
    }
    if names_instant(text) || wrong.help != INSTANTS {
        return Err(wrong);
    }
    let message = match text.trim().is_empty() {
        true => "the duration is empty".to_owned(),
        false => format!("`{}` is neither a duration nor an instant", cut(text)),
    };
    let help = match meant(text) {
        Some(meant) => format!("write `{meant}`"),
        None => "write a duration like `5s` or `3d`, or an instant like `2026-01-31T12:00:00Z`"
            .to_owned(),
    };
    Err(NoTime::new(message, help))
}

/// Whether a text looks like an instant, `2026-01-31T12:00`, and has an offset. None: it does not.
fn instant_like(text: &str) -> Option<bool> {
    const FORM: &[u8] = b"0000-00-00T00:00";
    let (begin, rest) = text.as_bytes().split_at_checked(FORM.len())?;
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't' | b' '),
        form => byte == form,
    };
    let looks = begin.iter().zip(FORM).all(fits);
    let has_offset = rest.iter().any(|byte| b"Zz+-".contains(byte));
    looks.then_some(has_offset)
}

/// The last whole second that is an instant in every zone.
const LATEST: &str = "9999-12-30T22:00:00Z";

/// Whether a text has the form of an instant, even if that is too early or too late.
fn names_instant(text: &str) -> bool {
    has_long_year(text)
        || jiff::fmt::temporal::Pieces::parse(text)
            .is_ok_and(|pieces| pieces.time().is_some() && pieces.offset().is_some())
}

/// Whether a text is like an instant whose year has five digits or more, which no calendar here has.
fn has_long_year(text: &str) -> bool {
    const LONGEST: usize = 40;
    let Some((year, rest)) = text
        .trim_start_matches(['+', '-'])
        .split_once('-')
        .filter(|_| text.len() <= LONGEST)
    else {
        return false;
    };
    let digits = year.trim_start_matches('0');
    digits.len() > 4
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && instant_like(&format!("9999-{rest}")) == Some(true)
}

fn length(text: &str) -> Result<u64, Fault> {
    if text.starts_with('-') || (text.starts_with(['P', 'p']) && text.contains('-')) {
        let positive = length(&text.replace('-', ""));
        return Err(match positive {
            Ok(_) | Err(Fault::TooLong | Fault::Unitless) => Fault::Negative,
            Err(other) => other,
        });
    }
    let ms = if text.starts_with(['P', 'p']) {
        iso(text)?
    } else {
        units(text)?
    };
    if ms > DURATION_MS {
        return Err(Fault::TooLong);
    }
    Ok(ms)
}

/// The duration that a person probably meant by another notation: `5 minutes`, `30sec`, `1.5h`,
/// `00:05:00`, `30m1h`. None if the text is none of these.
fn meant(text: &str) -> Option<String> {
    let text = text.trim();
    // The schedules of some programs begin with this word.
    let text = text.strip_prefix("@every").unwrap_or(text).trim_start();
    let text = text.get(..text.len().min(40))?;
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
    length(&meant).ok().map(|_| meant)
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

fn units(text: &str) -> Result<u64, Fault> {
    if is_number(text) {
        return Err(Fault::Unitless);
    }
    let mut rest = text;
    let mut total: u64 = 0;
    let mut last = u64::MAX;
    while !rest.is_empty() {
        let (number, after) = digits(rest)?;
        let end = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (name, after) = after.split_at_checked(end).ok_or(Fault::Malformed)?;
        let known = UNITS.into_iter().find(|(unit, _)| *unit == name);
        let (_, unit) = known.ok_or(Fault::Malformed)?;
        // From the largest unit to the smallest, each at most once.
        if unit >= last {
            return Err(Fault::Malformed);
        }
        last = unit;
        total = total.saturating_add(number.saturating_mul(unit));
        rest = after;
    }
    (last != u64::MAX).then_some(total).ok_or(Fault::Malformed)
}

/// Whether a text consists of digits, perhaps with one dot.
fn is_number(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    digits(whole) && digits(fraction)
}

/// The whole number at the beginning of a text, and the rest. A number of more than 64 bits is the
/// largest one.
fn digits(text: &str) -> Result<(u64, &str), Fault> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, rest) = text
        .split_at_checked(end.unwrap_or(text.len()))
        .filter(|(number, _)| !number.is_empty())
        .ok_or(Fault::Malformed)?;
    Ok((number.parse().unwrap_or(u64::MAX), rest))
}

fn iso(text: &str) -> Result<u64, Fault> {
    // jiff's durations exclude days and weeks, because a day may have 23 hours; here a day has 24.
    let text = text.to_ascii_uppercase();
    let text = text.strip_prefix('P').ok_or(Fault::Malformed)?;
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    if date.is_empty() && time.is_empty() {
        return Err(Fault::Malformed);
    }
    let mut total: u64 = 0;
    let mut rest = date;
    while !rest.is_empty() {
        let (number, after) = digits(rest)?;
        let mut chars = after.chars();
        let unit = match chars.next() {
            Some('W') => 7 * DAY_MS,
            Some('D') => DAY_MS,
            Some(unit) if VAGUE.contains(&unit) => return Err(Fault::Vague),
            _ => return Err(Fault::Malformed),
        };
        total = total.saturating_add(number.saturating_mul(unit));
        rest = chars.as_str();
    }
    if time.is_empty() {
        return Ok(total);
    }
    let ms = match format!("PT{time}").parse::<SignedDuration>() {
        Ok(time) => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        // The only well-formed times that jiff does not read are longer than 64 bits of seconds.
        Err(_) if is_long(time) => u64::MAX,
        Err(_) => return Err(Fault::Malformed),
    };
    Ok(total.saturating_add(ms))
}

/// Whether a time of ISO 8601 counts whole hours, minutes or seconds, however many.
fn is_long(mut time: &str) -> bool {
    for unit in ['H', 'M', 'S'] {
        if let Ok((_, after)) = digits(time)
            && let Some(after) = after.strip_prefix(unit)
        {
            time = after;
        }
    }
    time.is_empty()
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
            assert_eq!(duration_ms(text).ok(), expected, "{text}");
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
            ("@every 5m", Some("5m")),
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
    fn a_duration_is_written_as_a_person_would() {
        for (ms, text) in [
            (0, "0s"),
            (900_000, "15m"),
            (5_400_000, "1h30m"),
            (8 * DAY_MS, "8d"),
            (14 * DAY_MS, "2w"),
            (1_001, "1s1ms"),
        ] {
            assert_eq!(duration_text(ms), text);
            if ms > 0 {
                assert_eq!(duration_ms(text), Ok(ms));
            }
        }
    }

    #[test]
    fn a_text_that_is_no_duration_is_told_why() {
        const DURATIONS: &str = super::DURATIONS;
        let longest = "write at most `36600d`, which is a hundred years";
        for (text, message, help) in [
            (
                "5",
                "the duration `5` has no unit",
                "write `5s` for seconds, or `5ms`",
            ),
            (
                "1.5",
                "the duration `1.5` has no unit",
                "write `1500ms` for 1.5 seconds",
            ),
            ("-5", "the duration `-5` is negative", DURATIONS),
            ("-5s", "the duration `-5s` is negative", DURATIONS),
            ("PT-5S", "the duration `PT-5S` is negative", DURATIONS),
            ("-PT5S", "the duration `-PT5S` is negative", DURATIONS),
            ("10000w", "the duration `10000w` is too long", longest),
            (
                "99999999999999999999d",
                "the duration `99999999999999999999d` is too long",
                longest,
            ),
            (
                "PT99999999999999999999H",
                "the duration `PT99999999999999999999H` is too long",
                longest,
            ),
            ("P40000D", "the duration `P40000D` is too long", longest),
            (
                "P1Y",
                "`P1Y` has years or months, whose length differs",
                "write days or weeks, like `P30D` or `4w`",
            ),
            ("5 minutes", "`5 minutes` is not a duration", "write `5m`"),
            ("soon", "`soon` is not a duration", DURATIONS),
            ("", "the duration is empty", DURATIONS),
        ] {
            let expected = Err(NoTime::new(message, help));
            assert_eq!(duration_ms(text), expected, "{text}");
        }
        for (text, ms) in [("36600d", DURATION_MS), ("PT878400H", DURATION_MS)] {
            assert_eq!(duration_ms(text), Ok(ms));
        }
    }

    #[test]
    fn a_number_is_no_duration() {
        for (number, expected) in [
            (
                "3000",
                "the duration `3000` has no unit: write `3000s` for seconds, or `3000ms`",
            ),
            (
                "1.5",
                "the duration `1.5` has no unit: write `1500ms` for 1.5 seconds",
            ),
            (
                "1e300",
                "the duration `1e+300` has no unit: durations are like",
            ),
            ("-1", "the duration `-1` is negative: durations are like"),
            (
                "1764000000",
                "the duration `1764000000` has no unit: write `1764000000s`",
            ),
        ] {
            let number = serde_json::from_str(number).unwrap();
            let told = NoTime::unitless(&number).to_string();
            assert!(told.starts_with(expected), "{told}");
        }
    }

    #[test]
    fn instants_are_rfc_3339() {
        let read = |text| instant_ms(text).map_err(|wrong| wrong.message);
        assert_eq!(read("1970-01-01T00:00:01Z"), Ok(1_000));
        assert_eq!(read("1970-01-01T01:00:00+01:00"), Ok(0));
        assert_eq!(read(LATEST), Ok(253_402_207_200_000));
        for text in ["tomorrow", "2026-01-31", "2026-01-31T12:00:00", ""] {
            assert_eq!(read(text), Err(format!("`{text}` is not an instant")));
        }
        for (text, expected) in [
            ("2026-01-31T12:00:00", "offset"),
            ("2026-01-31 12:00", "offset"),
            ("2026-02-30T12:00:00Z", "no calendar"),
            ("2026-01-31T25:00:00+02:00", "no calendar"),
            ("2026-01-31", "instants are like"),
        ] {
            let told = instant_ms(text).unwrap_err().to_string();
            assert!(told.contains(expected), "{told}");
            let told = moment_ms(text, 0).unwrap_err().to_string();
            assert_eq!(
                told.contains(expected),
                expected != "instants are like",
                "{told}"
            );
        }
        for text in [
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59+01:00",
            "10000-01-01T00:00:00Z",
            "+010000-01-01T00:00:00Z",
            "12026-01-31t12:00:00+02:00",
        ] {
            let expected = "is out of range: the latest is `9999-12-30T22:00:00Z`";
            for wrong in [instant_ms(text), moment_ms(text, 0)] {
                let told = wrong.unwrap_err().to_string();
                assert!(told.ends_with(expected), "{told}");
            }
        }
        let told = instant_ms("-010000-01-01T00:00:00Z").unwrap_err();
        assert!(told.help.starts_with("the earliest is"), "{told}");
        for text in [
            "10000-01-01",
            "00010000-01",
            "10000-01-01T00:00",
            "1e400-01-01T00:00:00Z",
        ] {
            let told = moment_ms(text, 0).unwrap_err();
            assert!(
                told.message
                    .ends_with("is neither a duration nor an instant"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_moment_is_a_duration_or_an_instant() {
        let read = |text| moment_ms(text, 1_000).map_err(|wrong| wrong.message);
        assert_eq!(read("5s"), Ok(6_000));
        assert_eq!(read("1970-01-01T00:00:05Z"), Ok(5_000));
        assert_eq!(past_ms("300ms", 1_000).ok(), Some(700));
        assert_eq!(past_ms("1970-01-01T00:00:05Z", 1_000).ok(), Some(5_000));
        for (text, expected) in [
            ("soon", "`soon` is neither a duration nor an instant"),
            (
                "2026-01-31",
                "`2026-01-31` is neither a duration nor an instant",
            ),
            ("", "the duration is empty"),
            ("5", "the duration `5` has no unit"),
            ("10000w", "the duration `10000w` is too long"),
            ("-1s", "the duration `-1s` is negative"),
            (
                "9999-12-31T23:59:59Z",
                "the instant `9999-12-31T23:59:59Z` is out of range",
            ),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()));
        }
    }
}
