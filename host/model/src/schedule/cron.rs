//! Cron expressions in a time zone.
//!
//! The library parses the expression and searches the calendar. It gets no time zone: its own rules
//! for clock changes differ by the kind of expression and give up after two hours; ours are those
//! of [`super::zone`] for every expression.

use std::ops::Range;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::civil::{DateTime, date};
use jiff::tz::TimeZone;

use super::zone;
use crate::diagnostic::{Diagnostic, Place};
use crate::{Code, codes};

/// The longest expression, in bytes.
const LONGEST: usize = 512;

/// The names of the fields, and the values that they accept.
const FIELDS: [(&str, &str); 6] = [
    ("seconds", "0 to 59"),
    ("minutes", "0 to 59"),
    ("hours", "0 to 23"),
    (
        "day of month",
        "1 to 31, `L` for the last one, `15W` for the weekday nearest to one",
    ),
    ("month", "1 to 12 or `jan` to `dec`"),
    (
        "day of week",
        "0 to 7 or `sun` to `sat`, `fri#2` for the second one, `friL` for the last one",
    ),
];

/// A cron expression in a time zone.
#[derive(Clone, Debug)]
pub struct CronRule {
    cron: Cron,
    zone: TimeZone,
}

impl CronRule {
    /// Reads five fields (minutes, hours, day of month, month, day of week), or six with seconds
    /// first, or a shorthand like `@hourly`; and the name of an IANA time zone.
    ///
    /// # Errors
    ///
    /// The mistakes, at `/cron` (with the bytes inside the expression) and `/timezone`.
    pub fn parse(expression: &str, timezone: &str) -> Result<Self, Vec<Diagnostic>> {
        let cron = read(expression);
        let zone = zone::zones().get(timezone);
        let mut wrong = Vec::new();
        if let Err(mistake) = &cron {
            wrong.push(Diagnostic::clone(mistake));
        }
        if zone.is_err() {
            wrong.push(unknown_zone(timezone));
        }
        match (cron, zone) {
            (Ok(cron), Ok(zone)) => Ok(Self { cron, zone }),
            _ => Err(wrong),
        }
    }

    /// The first occurrence after an instant. None: there is none before the year 5000.
    pub(super) fn next_after(&self, after_ms: i64) -> Option<i64> {
        let after = Timestamp::from_millisecond(after_ms).ok()?;
        let reached = zone::reached(&self.zone, after)?;
        let time: DateTime = self.cron.find_next_occurrence(&reached, false).ok()?;
        Some(zone::instant(&self.zone, time)?.as_millisecond())
    }

    /// The last occurrence that is not after an instant. None: there is none.
    pub(super) fn latest(&self, until_ms: i64) -> Option<i64> {
        let until = Timestamp::from_millisecond(until_ms).ok()?;
        let reached = zone::reached(&self.zone, until)?;
        let time: DateTime = self.cron.find_previous_occurrence(&reached, true).ok()?;
        Some(zone::instant(&self.zone, time)?.as_millisecond())
    }
}

fn read(expression: &str) -> Result<Cron, Box<Diagnostic>> {
    if expression.len() > LONGEST {
        let message = format!("a cron expression has at most {LONGEST} bytes");
        return Err(mistake(codes::BAD_CRON, message, None).into());
    }
    if let Some(word) = foreign_word(expression) {
        return Err(word.into());
    }
    let parser = CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Disallowed)
        .build();
    if !expression.trim_start().starts_with('@') {
        check_fields(&parser, expression)?;
    }
    let cron = parser.parse(expression).map_err(|error| {
        Box::new(mistake(codes::BAD_CRON, format!("`{expression}`: {error}"), None)
            .help("five fields, like `0 2 * * *`, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`"))
    })?;
    let begin = date(2000, 1, 1).at(0, 0, 0, 0);
    match cron.find_next_occurrence(&begin, true) {
        Ok(_) => Ok(cron),
        Err(_) => Err(mistake(
            codes::NEVER_DUE,
            format!("`{expression}` never happens: no calendar has such a day"),
            None,
        )
        .into()),
    }
}

/// The mistake for a word that other systems know.
fn foreign_word(expression: &str) -> Option<Diagnostic> {
    const WORDS: [&str; 6] = [
        "@hourly",
        "@daily",
        "@weekly",
        "@monthly",
        "@yearly",
        "@annually",
    ];
    let lower = expression.trim().to_ascii_lowercase();
    let word = lower.split_whitespace().next().unwrap_or_default();
    if !word.starts_with('@') || WORDS.contains(&lower.as_str()) {
        return None;
    }
    let help = match word {
        "@every" => match lower.split_whitespace().nth(1) {
            Some(time) => format!("write `every: {time}` in place of `cron`"),
            None => "write `every: 5m` in place of `cron`".to_owned(),
        },
        "@reboot" => {
            "no trigger fires when a host starts; `windlass event send` after the start can start a \
             run"
            .to_owned()
        }
        "@midnight" => "write `@daily`".to_owned(),
        _ => "the words are `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`; all other times \
              need five fields, like `0 2 * * *`"
            .to_owned(),
    };
    let message = format!("`{expression}` is no cron expression");
    Some(mistake(codes::BAD_CRON, message, None).help(help))
}

/// The smallest and the largest value of each field, and the unit in which they begin again.
const RANGES: [(u32, u32, &str); 6] = [
    (0, 59, "minute"),
    (0, 59, "hour"),
    (0, 23, "day"),
    (1, 31, "month"),
    (1, 12, "year"),
    (0, 6, "week"),
];

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];

const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The number of a value of a field, which may be a name.
fn value(field: &str, text: &str) -> Option<u32> {
    let (names, first): (&[&str], u32) = match field {
        "month" => (&MONTHS, 1),
        "day of week" => (&DAYS, 0),
        _ => (&[], 0),
    };
    let named = names
        .iter()
        .position(|name| name.eq_ignore_ascii_case(text));
    let named = named.and_then(|at| Some(u32::try_from(at).ok()? + first));
    named.or_else(|| text.parse().ok())
}

/// The counterpart of a range or a step that other dialects of cron have.
fn foreign_part(field: &str, text: &str) -> Option<String> {
    let at = FIELDS.iter().position(|(name, _)| *name == field)?;
    let (first, last, _) = RANGES.get(at)?;
    let of_part = |part: &str| {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, format!("/{step}")),
            None => (part, String::new()),
        };
        match range.split_once('-') {
            None if step.is_empty() => None,
            None => value(field, range).map(|_| format!("{range}-{last}{step}")),
            Some((from, to)) => {
                let is_back = value(field, from)? > value(field, to)? && step.is_empty();
                let end = match *last {
                    last if value(field, from) == Some(last) => from.to_owned(),
                    last => format!("{from}-{last}"),
                };
                let begin = match value(field, to) == Some(*first) {
                    true => to.to_owned(),
                    false => format!("{first}-{to}"),
                };
                is_back.then(|| format!("{end},{begin}"))
            }
        }
    };
    let parts = text.split(',');
    let mut meant = false;
    let parts = parts.map(|part| match of_part(part) {
        Some(other) => {
            meant = true;
            other
        }
        None => part.to_owned(),
    });
    let whole = parts.collect::<Vec<_>>().join(",");
    meant.then_some(whole)
}

/// The steps of a valid expression that go beyond their field, so that only the first value of the
/// range remains.
pub(super) fn beyond(expression: &str) -> Vec<Diagnostic> {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let without = RANGES.len().saturating_sub(fields.len());
    let mut found = Vec::new();
    for (field, ((first, last, whole), (name, _))) in
        fields.iter().zip(RANGES.iter().zip(FIELDS).skip(without))
    {
        for part in field.split(',') {
            let Some((range, step)) = part.split_once('/') else {
                continue;
            };
            let Ok(step) = step.parse::<u32>() else {
                continue;
            };
            let bounds = match range.split_once('-') {
                _ if matches!(range, "*" | "?") => Some((*first, *last)),
                Some((from, to)) => value(name, from).zip(value(name, to)),
                None => value(name, range).map(|from| (from, *last)),
            };
            let Some((from, to)) = bounds else {
                continue;
            };
            if from > to || step <= to - from {
                continue;
            }
            let written = range
                .split('-')
                .next()
                .filter(|it| value(name, it).is_some());
            let from = written.map_or_else(|| from.to_string(), str::to_owned);
            let is_whole = to == *last;
            let start = field.as_ptr() as usize - expression.as_ptr() as usize;
            let why = match is_whole {
                true => format!("the field ends with {last} and begins again with each {whole}"),
                false => "its range ends before the next step".to_owned(),
            };
            let message = format!("`{part}` in the field {name} is `{from}` alone: {why}");
            let unit = match name {
                _ if !is_whole => "",
                "seconds" => "s",
                "minutes" => "m",
                "hours" => "h",
                "day of month" => "d",
                _ => "",
            };
            let help = match unit {
                "" => format!("if it is meant, write `{from}`"),
                unit => format!(
                    "`every: {step}{unit}` in place of `cron` counts on; if it is meant, write `{from}`"
                ),
            };
            let place = Place::inside("/cron", start..start + field.len());
            found.push(Diagnostic::new(codes::STEP_BEYOND, message, place).help(help));
        }
    }
    found
}

/// Tries the fields one by one, so that a mistake is reported with its field.
fn check_fields(parser: &CronParser, expression: &str) -> Result<(), Box<Diagnostic>> {
    let fields: Vec<(Range<usize>, &str)> = expression
        .split_whitespace()
        .map(|field| {
            let start = field.as_ptr() as usize - expression.as_ptr() as usize;
            (start..start + field.len(), field)
        })
        .collect();
    let without = match fields.len() {
        5 => 1,
        6 => 0,
        count => {
            let fields = if count == 1 { "field" } else { "fields" };
            return Err(mistake(
                codes::BAD_CRON,
                format!("`{expression}` has {count} {fields}; a cron expression has five"),
                None,
            )
            .help("minutes, hours, day of month, month, day of week; with seconds before them if they matter")
            .into());
        }
    };
    for ((span, field), (name, takes)) in fields.into_iter().zip(FIELDS.iter().skip(without)) {
        let is_read = |field: &str| {
            let alone = FIELDS.map(|(other, _)| if other == *name { field } else { "*" });
            plausible(name, field) && parser.parse(&alone.join(" ")).is_ok()
        };
        // The library accepts an empty list, and would then try every hour of 3,000 years.
        let is_empty = field.split(',').all(str::is_empty);
        if is_empty || !is_read(field) {
            return Err(mistake(
                codes::BAD_CRON,
                format!("`{field}` is nothing for the field {name}"),
                Some(span),
            )
            .help(match foreign_part(name, field).filter(|meant| is_read(meant)) {
                Some(meant) => format!("write `{meant}`"),
                None => format!(
                    "{name}: {takes}; `*` for all, `1,2` for some, `1-5` for a range, `*/5` for \
                     every fifth"
                ),
            })
            .into());
        }
    }
    Ok(())
}

/// Whether the words of a field belong to that field: the library replaces words by numbers before
/// it splits the fields, so `jan` would be valid as an hour, and `1mon` would be eleven.
fn plausible(name: &str, field: &str) -> bool {
    field
        .to_ascii_uppercase()
        .split([',', '-', '/', '#', '+', '*', '?'])
        .all(|word| match name {
            "month" => numeric(word) || MONTHS.contains(&word),
            "day of week" => {
                let day = word.strip_suffix('L').unwrap_or(word);
                numeric(day) || DAYS.contains(&day)
            }
            "day of month" => numeric(word.trim_end_matches(['L', 'W'])),
            _ => numeric(word),
        })
}

fn numeric(word: &str) -> bool {
    word.len() <= 4 && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn mistake(code: Code, message: String, span: Option<Range<usize>>) -> Diagnostic {
    let place = Place {
        span,
        ..Place::at("/cron")
    };
    Diagnostic::new(code, message, place)
}

fn unknown_zone(name: &str) -> Diagnostic {
    const ADVICE: &str = "use a name of the IANA database, like `Europe/Berlin` or `UTC`";
    let found = |message: String, help: String| {
        Diagnostic::new(codes::UNKNOWN_ZONE, message, Place::at("/timezone")).help(help)
    };
    if name.trim().is_empty() {
        let message = "the name of the time zone is empty".to_owned();
        return found(message, format!("{ADVICE}; without `timezone` it is `UTC`"));
    }
    let message = format!("there is no time zone `{name}`");
    if let Some(hours) = offset(name) {
        // The names of fixed offsets have the sign of POSIX.
        let fixed = match hours {
            0 => "UTC".to_owned(),
            1.. => format!("Etc/GMT-{hours}"),
            _ => format!("Etc/GMT+{}", hours.abs()),
        };
        let help = format!(
            "an offset is no time zone, because it does not change with the season: {ADVICE}. \
             `{fixed}` is always {hours:+} hours from UTC"
        );
        return found(message, help);
    }
    let lower = name.trim().to_lowercase();
    if matches!(lower.as_str(), "z" | "zulu" | "utc") {
        return found(message, "did you mean `UTC`?".to_owned());
    }
    // A city without its continent.
    let city = lower.replace(' ', "_");
    let names = || zone::zones().available().map(|zone| zone.to_string());
    let of_city = names().find(|zone| {
        let (_, last) = zone.rsplit_once('/').unwrap_or_default();
        last.eq_ignore_ascii_case(&city)
    });
    if let Some(zone) = of_city {
        return found(message, format!("did you mean `{zone}`?"));
    }
    // Short names have neighbours that mean other hours.
    let most = if name.contains('/') {
        3
    } else {
        name.len() / 5
    };
    let nearest = names()
        .map(|zone| {
            (
                strsim::damerau_levenshtein(&lower, &zone.to_lowercase()),
                zone,
            )
        })
        .min();
    match nearest {
        Some((distance, zone)) if distance <= most => {
            found(message, format!("did you mean `{zone}`?"))
        }
        _ => found(message, ADVICE.to_owned()),
    }
}

/// The hours of a text like `UTC+2`, `GMT-05:00` or `+01:00`, east of Greenwich. None: it is no
/// offset, or not one of whole hours within the names of the database.
fn offset(name: &str) -> Option<i32> {
    let lower = name.trim().to_ascii_lowercase();
    let rest = ["utc", "gmt"].iter().find_map(|it| lower.strip_prefix(it));
    let rest = rest.unwrap_or(&lower).trim();
    let (sign, digits) = match rest.strip_prefix('+') {
        Some(digits) => (1, digits),
        None => (-1, rest.strip_prefix(['-', '−'])?),
    };
    let hours = match digits.split_once(':') {
        Some((hours, "00")) => hours,
        Some(_) => return None,
        None => digits
            .strip_suffix("00")
            .filter(|it| it.len() == 2)
            .unwrap_or(digits),
    };
    let hours: i32 = hours.parse().ok()?;
    let named = if sign > 0 { 14 } else { 12 };
    (hours <= named).then_some(sign * hours)
}
