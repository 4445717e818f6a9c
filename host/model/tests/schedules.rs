//! Compares years of occurrences with a walk over the minutes.
//!
//! The walk does not use the algorithm of the schedule. It goes through the minutes as the clocks
//! of a place show them, one after another: a matching minute happens when it is shown for the
//! first time, not when it is repeated, and a skipped minute happens when the clock continues after
//! the gap. The walk interprets the fields by itself.
//!
//! Zones whose clocks agree in those years share a walk, and each is compared by itself.
//! A seed makes an expression for each of its kinds of zone; [`windlass_test_seeds`] has the
//! variables of the environment that choose seeds.

#![expect(clippy::unwrap_used, reason = "a test that fails says so by a panic")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use windlass_model::definition::{StartTrigger, Timing};
use windlass_model::schedule::Schedule;
use windlass_test_seeds::Seeds;

const SEEDS: Seeds = Seeds::new(8, 16);

/// Each seed takes one in this many zones, and the seeds of the normal run take all of them.
const PARTS: u64 = 8;

const MINUTE_MS: i64 = 60_000;
const DAY: i64 = 24 * 60;
/// How long before the compared years the walk begins, in minutes: long enough to know which times
/// the clocks have shown if an hour is being repeated at the beginning.
const LEAD: i64 = 2 * DAY;

/// A deliberate mistake of the walk, which the comparison has to reveal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    /// A minute that is shown again happens again.
    HoursRepeat,
    /// A minute that no clock shows never happens.
    GapsSwallow,
    /// A day has to match by month and by week, where one of them is enough.
    DaysMatchBoth,
    /// The week begins one day late.
    WeeksAreLate,
}

/// A deterministic source of numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // Splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll(high - low + 1)
    }
}

/// One field: its values, and its text.
struct Field {
    text: String,
    takes: u64,
    all: bool,
}

impl Field {
    fn all(low: u64, high: u64) -> Self {
        let takes = (low..=high).fold(0, |bits, value| bits | 1 << value);
        Self {
            text: "*".to_owned(),
            takes,
            all: true,
        }
    }

    fn list(dice: &mut Dice, low: u64, high: u64, most: u64) -> Self {
        let mut values: Vec<u64> = (0..dice.between(1, most))
            .map(|_| dice.between(low, high))
            .collect();
        values.sort_unstable();
        values.dedup();
        let words: Vec<String> = values.iter().map(u64::to_string).collect();
        Self {
            text: words.join(","),
            takes: values.iter().fold(0, |bits, value| bits | 1 << value),
            all: false,
        }
    }

    fn steps(dice: &mut Dice, low: u64, high: u64, shortest: u64) -> Self {
        let step = dice.between(shortest, (high - low) / 2);
        let values = (low..=high).step_by(usize::try_from(step).unwrap());
        Self {
            text: format!("*/{step}"),
            takes: values.fold(0, |bits, value| bits | 1 << value),
            all: false,
        }
    }

    fn range(dice: &mut Dice, low: u64, high: u64) -> Self {
        let from = dice.between(low, high);
        let to = dice.between(from, high);
        Self {
            text: format!("{from}-{to}"),
            takes: (from..=to).fold(0, |bits, value| bits | 1 << value),
            all: false,
        }
    }

    fn takes(&self, value: i64) -> bool {
        self.takes >> value & 1 == 1
    }
}

struct Expression {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

impl Expression {
    /// Mostly at night, when clocks are changed; rare enough that five years are a quick
    /// comparison.
    fn any(dice: &mut Dice) -> Self {
        let minutes = match dice.roll(6) {
            0 => Field::steps(dice, 0, 59, 7),
            1 => Field::list(dice, 0, 59, 3),
            _ => Field::list(dice, 0, 59, 1),
        };
        let hours = match dice.roll(10) {
            0 if minutes.takes.count_ones() == 1 => Field::all(0, 23),
            1 => Field::range(dice, 0, 4),
            2 => Field::list(dice, 0, 23, 2),
            _ => Field::list(dice, 0, 4, 1),
        };
        let days = match dice.roll(4) {
            0 => Field::list(dice, 1, 31, 4),
            1 => Field::steps(dice, 1, 31, 2),
            _ => Field::all(1, 31),
        };
        let months = match dice.roll(4) {
            0 => Field::list(dice, 1, 12, 6),
            _ => Field::all(1, 12),
        };
        let weekdays = match dice.roll(3) {
            0 => Field::range(dice, 0, 6),
            _ => Field::all(0, 6),
        };
        Self {
            minutes,
            hours,
            days,
            months,
            weekdays,
        }
    }

    fn text(&self) -> String {
        let Self {
            minutes,
            hours,
            days,
            months,
            weekdays,
        } = self;
        format!(
            "{} {} {} {} {}",
            minutes.text, hours.text, days.text, months.text, weekdays.text
        )
    }

    /// Whether it matches a day, given by its number since 1970.
    fn takes_day(&self, day: i64, mistake: Option<Mistake>) -> bool {
        let (_, month, of_month) = civil(day);
        // 1 January 1970 was a Thursday.
        let thursday = if mistake == Some(Mistake::WeeksAreLate) {
            3
        } else {
            4
        };
        let weekday = (day + thursday).rem_euclid(7);
        let (by_month, by_week) = (self.days.takes(of_month), self.weekdays.takes(weekday));
        let day = match (self.days.all, self.weekdays.all) {
            (false, false) if mistake != Some(Mistake::DaysMatchBoth) => by_month || by_week,
            _ => by_month && by_week,
        };
        day && self.months.takes(month)
    }
}

/// Year, month and day of a number of days since 1970-01-01, by counting.
fn civil(day: i64) -> (i64, i64, i64) {
    let (mut year, mut rest) = (1970, day);
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while rest >= 365 + i64::from(leap(year)) {
        rest -= 365 + i64::from(leap(year));
        year += 1;
    }
    let february = 28 + i64::from(leap(year));
    for (month, days) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
        if rest < days {
            return (year, month, rest + 1);
        }
        rest -= days;
    }
    unreachable!("a year has no more days")
}

/// The offsets of a place: from which minute on its clocks are how many minutes ahead of UTC.
type Clocks = Vec<(i64, i64)>;

/// The offsets of a zone between two instants, in minutes. None: an offset has seconds, or changes
/// within a minute, which no zone does any more.
fn clocks(zone: &TimeZone, from: i64, until: i64) -> Option<Clocks> {
    let at = |minute: i64| Timestamp::from_millisecond(minute * MINUTE_MS).unwrap();
    let ahead = |instant: Timestamp| {
        let seconds = i64::from(zone.to_offset(instant).seconds());
        (seconds % 60 == 0).then_some(seconds / 60)
    };
    let mut clocks = vec![(from, ahead(at(from))?)];
    for change in zone.following(at(from)).map(|change| change.timestamp()) {
        if change >= at(until) {
            break;
        }
        let ms = change.as_millisecond();
        if ms % MINUTE_MS != 0 {
            return None;
        }
        if ahead(change)? != clocks.last()?.1 {
            clocks.push((ms / MINUTE_MS, ahead(change)?));
        }
    }
    Some(clocks)
}

/// Walks from one instant to another and returns the minutes at which the expression happens.
fn walk(
    expression: &Expression,
    clocks: &Clocks,
    (from, until): (i64, i64),
    mistake: Option<Mistake>,
) -> Vec<i64> {
    let mut found = Vec::new();
    // The next minute that the clocks have not shown yet.
    let mut fresh = from + clocks.first().unwrap().1;
    let (mut day, mut takes_day) = (i64::MIN, false);
    let mut takes_hour = |shown: i64| {
        if shown.div_euclid(DAY) != day {
            day = shown.div_euclid(DAY);
            takes_day = expression.takes_day(day, mistake);
        }
        takes_day && expression.hours.takes(shown.rem_euclid(DAY) / 60)
    };
    let mut changes = clocks.iter().peekable();
    let (mut ahead, mut minute) = (0, from);
    while minute < until {
        if let Some((_, now_ahead)) = changes.next_if(|(at, _)| *at == minute) {
            ahead = *now_ahead;
        }
        // An hour of the clock without an occurrence is passed at once, if no clock changes in it.
        let left = 60 - fresh.rem_euclid(60);
        let calm = changes.peek().is_none_or(|(at, _)| minute + left <= *at);
        if calm && fresh == minute + ahead && !takes_hour(fresh) {
            (fresh, minute) = (fresh + left, minute + left);
            continue;
        }
        // The times that are shown now and were not before: usually one minute, none while an hour
        // is repeated, and many after a gap.
        let mut happens = false;
        match mistake {
            Some(Mistake::HoursRepeat) => fresh = fresh.min(minute + ahead),
            Some(Mistake::GapsSwallow) => fresh = fresh.max(minute + ahead),
            _ => {}
        }
        while fresh <= minute + ahead {
            happens |= takes_hour(fresh) && expression.minutes.takes(fresh.rem_euclid(60));
            fresh += 1;
        }
        if happens {
            found.push(minute);
        }
        minute += 1;
    }
    found
}

/// The minutes of five years in the past, whose rules no government can change any more, from a day
/// and a minute that the seed chooses.
fn five_years(dice: &mut Dice) -> (i64, i64) {
    let day = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond() / MINUTE_MS;
    let from = day("2020-01-01T00:00:00Z") + i64::try_from(dice.roll(366 * 1440)).unwrap();
    (from, from + 5 * 366 * DAY)
}

/// Compares five years in the seed's zones. Returns the number of occurrences, or the difference.
fn compare_all(seed: u64, mistake: Option<Mistake>) -> Result<usize, String> {
    let mut dice = Dice(seed);
    let (from, until) = five_years(&mut dice);
    let mut alike: BTreeMap<Clocks, Vec<String>> = BTreeMap::new();
    let zones = TimeZoneDatabase::bundled();
    let names: Vec<String> = zones.available().map(|name| name.to_string()).collect();
    assert!(names.len() > 500, "all zones are there: {}", names.len());
    let part = (0..)
        .zip(names)
        .filter(|(at, _)| (at + seed).is_multiple_of(PARTS));
    for (_, name) in part {
        let zone = zones.get(&name).unwrap();
        let clocks = clocks(&zone, from - LEAD, until).unwrap();
        alike.entry(clocks).or_default().push(name);
    }
    let mut occurrences = 0;
    for (clocks, names) in &alike {
        let expression = Expression::any(&mut dice);
        let mut expected = walk(&expression, clocks, (from - LEAD, until), mistake);
        expected.retain(|minute| *minute >= from);
        for name in names {
            occurrences += compare(&expression.text(), name, &expected, (from, until))?;
        }
    }
    Ok(occurrences)
}

/// Takes half a minute: an independent reader walks over each minute of the years.
#[test]
fn five_years_in_every_zone_are_as_a_walk_over_the_minutes_finds_them() {
    let seeds = SEEDS.range();
    let mut occurrences = 0;
    for seed in seeds.clone() {
        let compared = compare_all(seed, None);
        occurrences += compared.unwrap_or_else(|it| panic!("WINDLASS_SEED={seed} {it}"));
    }
    println!("{occurrences} occurrences");
    let enough = !SEEDS.are_all(&seeds) || occurrences > 100_000;
    assert!(enough, "there was something to compare");
}

#[test]
fn a_mistake_of_the_walk_is_noticed() {
    for mistake in [
        Mistake::HoursRepeat,
        Mistake::GapsSwallow,
        Mistake::DaysMatchBoth,
        Mistake::WeeksAreLate,
    ] {
        SEEDS.find(mistake, |seed| compare_all(seed, Some(mistake)).is_err());
    }
}

/// Compares, and returns the number of occurrences, or the difference.
fn compare(
    expression: &str,
    timezone: &str,
    expected: &[i64],
    (from, until): (i64, i64),
) -> Result<usize, String> {
    let schedule = Schedule::of(&StartTrigger::Cron {
        expression: expression.to_owned(),
        timezone: timezone.to_owned(),
        timing: Timing::default(),
    });
    let Some(Ok(schedule)) = schedule else {
        // Some samples never happen, like the 30th of February; then the walk found nothing.
        return match expected {
            [] => Ok(0),
            _ => Err(format!("{expression} is refused, and happens")),
        };
    };
    let before = from * MINUTE_MS - 1;
    let found: Vec<i64> = schedule
        .occurrences(i64::MIN, before)
        .take_while(|ms| *ms < until * MINUTE_MS)
        .map(|ms| ms / MINUTE_MS)
        .collect();
    let mut text = String::new();
    for (word, those, others) in [
        ("missing", expected, found.as_slice()),
        ("too many", found.as_slice(), expected),
    ] {
        let wrong = those
            .iter()
            .filter(|one| others.binary_search(one).is_err());
        for minute in wrong.take(10) {
            let zone = TimeZoneDatabase::bundled().get(timezone).unwrap();
            let instant = Timestamp::from_millisecond(*minute * MINUTE_MS).unwrap();
            write!(text, "\n  {word} {}", instant.to_zoned(zone)).unwrap();
        }
    }
    match found == expected {
        true => Ok(found.len()),
        false => Err(format!("{expression} in {timezone}:{text}")),
    }
}
