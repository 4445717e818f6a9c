//! Schedules, by example. `tests/schedules.rs` compares years of them with a walk over the minutes.

use serde_json::Value;

use super::*;
use crate::definition::Overlap;
use crate::diagnostic::Diagnostic;
use crate::file::instant_ms;

fn cron(expression: &str, timezone: &str) -> StartTrigger {
    StartTrigger::Cron {
        expression: expression.to_owned(),
        timezone: timezone.to_owned(),
        timing: Timing::default(),
    }
}

fn every(every_ms: u64, misfire: Misfire) -> StartTrigger {
    let timing = Timing {
        misfire,
        ..Timing::default()
    };
    StartTrigger::Every { every_ms, timing }
}

fn ready(trigger: &StartTrigger) -> Schedule {
    Schedule::of(trigger).unwrap().unwrap()
}

fn ms(instant: &str) -> i64 {
    instant_ms(instant).unwrap()
}

/// Checks the occurrences after an instant.
fn follows(expression: &str, timezone: &str, after: &str, expected: &[&str]) {
    let schedule = ready(&cron(expression, timezone));
    let after = ms(after);
    let found: Vec<i64> = schedule
        .occurrences(i64::MIN, after)
        .take(expected.len())
        .collect();
    let wanted: Vec<i64> = expected.iter().map(|instant| ms(instant)).collect();
    let said: Vec<String> = found
        .iter()
        .map(|found| {
            jiff::Timestamp::from_millisecond(*found)
                .unwrap()
                .to_string()
        })
        .collect();
    assert_eq!(found, wanted, "{expression} in {timezone}: {said:?}");
    // Backwards, each one is the latest until just before the next.
    for pair in wanted.windows(2) {
        let [one, next] = pair else { continue };
        assert_eq!(schedule.latest(i64::MIN, next - 1), Some(*one));
        assert_eq!(schedule.latest(i64::MIN, *one), Some(*one));
    }
}

#[test]
fn a_time_that_the_clock_leaves_out_happens_at_the_next_instant() {
    // Berlin, 29 March 2026: 02:00 becomes 03:00.
    follows(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-03-28T00:00:00Z",
        &[
            "2026-03-28T02:30:00+01:00",
            "2026-03-29T03:00:00+02:00",
            "2026-03-30T02:30:00+02:00",
        ],
    );
    // New York, 8 March 2026, and all skipped times at once: they happen once, at 03:00.
    follows(
        "*/15 * * * *",
        "America/New_York",
        "2026-03-08T01:30:00-05:00",
        &[
            "2026-03-08T01:45:00-05:00",
            "2026-03-08T03:00:00-04:00",
            "2026-03-08T03:15:00-04:00",
        ],
    );
    // Lord Howe puts its clocks forward by half an hour.
    follows(
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-02T20:00:00+10:30",
        &[
            "2026-10-03T02:15:00+10:30",
            "2026-10-04T02:30:00+11:00",
            "2026-10-05T02:15:00+11:00",
        ],
    );
}

#[test]
fn a_time_that_the_clock_repeats_happens_the_first_time() {
    // Berlin, 25 October 2026: 03:00 becomes 02:00.
    follows(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00:00Z",
        &["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
    );
    follows(
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-25T01:45:00+02:00",
        &[
            "2026-10-25T02:00:00+02:00",
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T03:00:00+01:00",
        ],
    );
    // Asked in the middle of the repeated hour.
    follows(
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-25T02:15:00+01:00",
        &["2026-10-25T03:00:00+01:00"],
    );
    follows(
        "30 1 * * *",
        "America/New_York",
        "2026-10-31T12:00:00Z",
        &["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"],
    );
    follows(
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T12:00:00+11:00",
        &["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"],
    );
}

#[test]
fn days_that_a_place_skipped_or_repeated_are_no_exception() {
    // Samoa had no 30 December 2011.
    follows(
        "0 9 * * *",
        "Pacific/Apia",
        "2011-12-28T12:00:00-10:00",
        &[
            "2011-12-29T09:00:00-10:00",
            "2011-12-31T00:00:00+14:00",
            "2011-12-31T09:00:00+14:00",
        ],
    );
    follows(
        "0 9 30 12 *",
        "Pacific/Apia",
        "2011-06-01T00:00:00Z",
        &["2011-12-31T00:00:00+14:00", "2012-12-30T09:00:00+14:00"],
    );
    // Kwajalein had no 21 August 1993.
    follows(
        "0 12 * * *",
        "Pacific/Kwajalein",
        "1993-08-20T00:00:00Z",
        &["1993-08-20T12:00:00-12:00", "1993-08-22T00:00:00+12:00"],
    );
    // Greenland changes its clocks at midnight: 29 March 2026 begins an hour late, at the end of
    // the 28th.
    follows(
        "30 23 * * *",
        "America/Nuuk",
        "2026-03-28T12:00:00Z",
        &["2026-03-29T00:00:00-01:00", "2026-03-29T23:30:00-01:00"],
    );
}

#[test]
fn fields_have_the_meaning_of_cron() {
    let from = "2026-01-01T00:00:00Z";
    follows("0 2 * * *", "UTC", from, &["2026-01-01T02:00:00Z"]);
    follows(
        "*/20 * * * * *",
        "UTC",
        from,
        &["2026-01-01T00:00:20Z", "2026-01-01T00:00:40Z"],
    );
    follows("0 0 29 2 *", "UTC", from, &["2028-02-29T00:00:00Z"]);
    follows("0 0 L 2 *", "UTC", from, &["2026-02-28T00:00:00Z"]);
    follows(
        "0 9 * * mon-fri",
        "UTC",
        from,
        &[
            "2026-01-01T09:00:00Z",
            "2026-01-02T09:00:00Z",
            "2026-01-05T09:00:00Z",
        ],
    );
    follows(
        "0 0 1 * mon",
        "UTC",
        from,
        &["2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"],
    );
    follows(
        "0 0 * * fri#2",
        "UTC",
        from,
        &["2026-01-09T00:00:00Z", "2026-02-13T00:00:00Z"],
    );
    follows("0 0 * * 7", "UTC", from, &["2026-01-04T00:00:00Z"]);
    follows("@monthly", "UTC", from, &["2026-02-01T00:00:00Z"]);
    follows("0 0 1 JAN,jul *", "utc", from, &["2026-07-01T00:00:00Z"]);
}

#[test]
fn mistakes_have_a_cause_and_a_place() {
    let wrong = |trigger: &StartTrigger| -> Vec<String> {
        let tell = |one: Diagnostic| {
            let span = one
                .place
                .span
                .map(|span| format!(" {span:?}"))
                .unwrap_or_default();
            format!("{} {}{span}: {}", one.code, one.place.pointer, one.message)
        };
        check(trigger, "/triggers/t")
            .into_iter()
            .map(tell)
            .collect()
    };
    for (expression, expected) in [
        (
            "0 25 * * *",
            "WL-D120 /triggers/t/cron 2..4: `25` is nothing for the field hours",
        ),
        (
            "* * * * * * *",
            "WL-D120 /triggers/t/cron: `* * * * * * *` has 7 fields; a cron expression has five",
        ),
        (
            "soon",
            "WL-D120 /triggers/t/cron: `soon` has 1 field; a cron expression has five",
        ),
        (
            "0 0 * 1mon *",
            "WL-D120 /triggers/t/cron 6..10: `1mon` is nothing for the field month",
        ),
        (
            "jan 0 * * *",
            "WL-D120 /triggers/t/cron 0..3: `jan` is nothing for the field minutes",
        ),
        (
            "0 60 0 * * *",
            "WL-D120 /triggers/t/cron 2..4: `60` is nothing for the field minutes",
        ),
        (
            "0 0 * * é",
            "WL-D120 /triggers/t/cron 8..10: `é` is nothing for the field day of week",
        ),
        (
            ", 2 * * * *",
            "WL-D120 /triggers/t/cron 0..1: `,` is nothing for the field seconds",
        ),
        (
            "0 ,, * * *",
            "WL-D120 /triggers/t/cron 2..4: `,,` is nothing for the field hours",
        ),
        (
            "0 0 30 2 *",
            "WL-D122 /triggers/t/cron: `0 0 30 2 *` never happens: no calendar has such a day",
        ),
        (
            "@never",
            "WL-D120 /triggers/t/cron: `@never` is no cron expression",
        ),
    ] {
        assert_eq!(wrong(&cron(expression, "UTC")), [expected]);
    }
    assert_eq!(
        wrong(&cron("0 2 * * *", "Europe/Berln")),
        ["WL-D121 /triggers/t/timezone: there is no time zone `Europe/Berln`"]
    );
    assert_eq!(wrong(&cron("x", "y")).len(), 2);
    let helped = |expression: &str, zone: &str| {
        let found = check(&cron(expression, zone), "");
        found[0].help.clone().unwrap_or_default()
    };
    for (expression, expected) in [
        ("5/15 * * * *", "write `5-59/15`"),
        ("0 22-2 * * *", "write `22-23,0-2`"),
        ("0 0 * * fri-mon", "write `fri-6,0-mon`"),
        ("0 23-0 * * *", "write `23,0`"),
        ("0 0 1 nov-feb *", "write `nov-12,1-feb`"),
        ("1,5/15 * * * *", "write `1,5-59/15`"),
        ("@midnight", "write `@daily`"),
    ] {
        assert_eq!(helped(expression, "UTC"), expected);
    }
    for unhelped in ["99/5 * * * *", "5/0 * * * *", "70-2 * * * *", "-/5 * * * *"] {
        assert!(
            helped(unhelped, "UTC").starts_with("minutes: "),
            "{unhelped}"
        );
    }
    for (zone, expected) in [
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("Z", "UTC"),
        ("utc ", "UTC"),
        ("Europe/Berln", "Europe/Berlin"),
    ] {
        assert_eq!(
            helped("@daily", zone),
            format!("did you mean `{expected}`?")
        );
    }
    assert_eq!(wrong(&every(999, Misfire::Skip)).len(), 1);
    assert_eq!(wrong(&every(999, Misfire::CatchUp(0))).len(), 2);
    assert_eq!(wrong(&every(1_000, Misfire::CatchUp(1_000))).len(), 0);
}

#[test]
fn words_and_zones_of_other_systems_are_explained() {
    let help = |expression: &str, zone: &str| {
        let mut found = check(&cron(expression, zone), "");
        assert_eq!(found.len(), 1, "{expression} {zone}: {found:?}");
        let found = found.remove(0);
        format!("{}: {}", found.message, found.help.unwrap_or_default())
    };
    let says = |expression: &str, zone: &str, said: &str| {
        let help = help(expression, zone);
        assert!(help.contains(said), "{expression} {zone}: {help}");
        assert!(!help.contains("years are disallowed"), "{help}");
    };
    says("@every 5m", "UTC", "write `every: 5m` in place of `cron`");
    says("@every", "UTC", "write `every: 5m`");
    says("@REBOOT", "UTC", "no trigger fires when a host starts");
    says("@fortnightly", "UTC", "`@weekly`");
    says("@daily 5", "UTC", "`@daily 5` is no cron expression");
    assert_eq!(check(&cron(" @Daily", "UTC"), ""), []);
    let utc = "0 2 * * *";
    says(utc, "", "the name of the time zone is empty");
    says(utc, " ", "without `timezone` it is `UTC`");
    says(utc, "UTC+2", "`Etc/GMT-2` is always +2 hours from UTC");
    says(utc, "utc +02:00", "`Etc/GMT-2`");
    says(utc, "GMT-5", "`Etc/GMT+5` is always -5 hours");
    says(utc, "+0100", "`Etc/GMT-1`");
    says(utc, "UTC-0", "`UTC` is always +0 hours");
    // Neither a half hour nor a fifteenth hour has a name.
    for odd in ["+05:30", "UTC+15", "UTC-99999999999", "+", "UTC+é"] {
        says(utc, odd, "use a name of the IANA database");
    }
    // The neighbours of a short name are hours away.
    for short in ["PST", "AEST", "x"] {
        says(utc, short, "use a name of the IANA database");
    }
    says(utc, "Europe/Berln", "did you mean `Europe/Berlin`?");
    says(utc, "Singapor", "did you mean `Singapore`?");
    // The names that the advice has exist.
    for hours in 1..=14 {
        assert_eq!(check(&cron(utc, &format!("Etc/GMT-{hours}")), ""), []);
    }
    for hours in 1..=12 {
        assert_eq!(check(&cron(utc, &format!("Etc/GMT+{hours}")), ""), []);
    }
}

#[test]
fn a_step_beyond_its_field_gets_a_warning() {
    let warned = |expression: &str| {
        let trigger = cron(expression, "UTC");
        assert_eq!(check(&trigger, ""), [], "{expression}");
        let found = warnings(&trigger, "/triggers/t");
        let tell = |it: Diagnostic| {
            assert_eq!(it.place.pointer, "/triggers/t/cron");
            let within = it.place.within.unwrap();
            let part = it.message.split('`').nth(1).unwrap().to_owned();
            (expression[within].to_owned(), part)
        };
        found.into_iter().map(tell).collect::<Vec<_>>()
    };
    let one = |field: &str, part: &str| vec![(field.to_owned(), part.to_owned())];
    assert_eq!(warned("*/90 * * * *"), one("*/90", "*/90"));
    assert_eq!(warned("0 */36 * * *"), one("*/36", "*/36"));
    assert_eq!(warned("*/60 * * * *"), one("*/60", "*/60"));
    assert_eq!(warned("5,*/90 * * * *"), one("5,*/90", "*/90"));
    assert_eq!(warned("*/90 0 * * * *"), one("*/90", "*/90"));
    assert_eq!(warned("10-20/15 * * * *"), one("10-20/15", "10-20/15"));
    assert_eq!(warned("0 0 1 */12 *"), one("*/12", "*/12"));
    assert_eq!(warned("0 0 */31 * *"), one("*/31", "*/31"));
    assert_eq!(warned("0 0 * * */7"), one("*/7", "*/7"));
    assert_eq!(warned("0 0 * * mon-fri/9"), one("mon-fri/9", "mon-fri/9"));
    assert_eq!(warned("0 0 1 Jan-mar/3 *"), one("Jan-mar/3", "Jan-mar/3"));
    let told = |expression: &str| warnings(&cron(expression, "UTC"), "")[0].message.clone();
    assert_eq!(
        told("0 0 * * mon-fri/9"),
        "`mon-fri/9` in the field day of week is `mon` alone: its range ends before the next step"
    );
    assert_eq!(
        told("*/90 * * * *"),
        "`*/90` in the field minutes is `0` alone: the field ends with 59 and begins again with \
         each hour"
    );
    for fine in [
        "*/59 * * * *",
        "*/30 * * * * *",
        "0 */23 * * *",
        "10-20/10 * * * *",
        "0 0 */30 * *",
        "0 0 1 */11 *",
        "0 0 * * */6",
        "@hourly",
        "0 0 * * mon-fri",
        "0 0 * * mon-fri/2",
    ] {
        assert_eq!(warned(fine), [], "{fine}");
    }
}

#[test]
fn intervals_are_counted_from_the_plan_and_do_not_drift() {
    let schedule = ready(&every(10_000, Misfire::FireOnce));
    let since = 3;
    assert_eq!(schedule.next_after(since, since), Some(10_003));
    assert_eq!(schedule.next_after(since, 10_002), Some(10_003));
    assert_eq!(schedule.next_after(since, 10_003), Some(20_003));
    // Asked late, the next occurrence is the same.
    assert_eq!(schedule.next_after(since, 19_999), Some(20_003));
    // A clock before the start of the schedule.
    assert_eq!(schedule.next_after(since, -50_000), Some(10_003));
    assert_eq!(schedule.next_after(since, i64::MAX), None);
}

#[test]
fn missed_occurrences_follow_the_policy() {
    let due = |misfire, last: Option<i64>, now: i64| {
        let due = ready(&every(10_000, misfire)).due(0, last, now);
        (due.happen, due.last)
    };
    let nothing = (vec![], None);
    for misfire in [Misfire::Skip, Misfire::FireOnce, Misfire::CatchUp(3)] {
        assert_eq!(due(misfire, None, 9_999), nothing);
        assert_eq!(due(misfire, None, 10_000), (vec![10_000], Some(10_000)));
        assert_eq!(due(misfire, Some(10_000), 10_000), nothing);
        // The clock was set back after the plan.
        assert_eq!(due(misfire, Some(100_000), 10_000), nothing);
    }
    assert_eq!(
        due(Misfire::Skip, None, 35_000),
        (vec![30_000], Some(30_000))
    );
    assert_eq!(
        due(Misfire::FireOnce, None, 35_000),
        (vec![30_000], Some(30_000))
    );
    assert_eq!(
        due(Misfire::CatchUp(2), None, 35_000),
        (vec![20_000, 30_000], Some(30_000))
    );
    assert_eq!(
        due(Misfire::CatchUp(9), Some(10_000), 35_000),
        (vec![20_000, 30_000], Some(30_000))
    );

    let hourly = |misfire| {
        let StartTrigger::Cron {
            expression,
            timezone,
            mut timing,
        } = cron("0 * * * *", "UTC")
        else {
            unreachable!()
        };
        timing.misfire = misfire;
        ready(&StartTrigger::Cron {
            expression,
            timezone,
            timing,
        })
        .due(0, None, ms("2026-01-01T05:30:00Z"))
    };
    let five = ms("2026-01-01T05:00:00Z");
    assert_eq!(
        hourly(Misfire::Skip),
        Due {
            happen: vec![],
            last: Some(five)
        }
    );
    assert_eq!(hourly(Misfire::FireOnce).happen, [five]);
    assert_eq!(hourly(Misfire::CatchUp(2)).happen, [five - 3_600_000, five]);
}

#[test]
fn an_occurrence_has_one_id_and_one_delay() {
    let id = occurrence_id("report", "nightly", 1_767_225_600_000);
    assert_eq!(id.to_string(), "019b76da-a800-85e6-b680-0f9059dd29df");
    assert_ne!(id, occurrence_id("report", "nightly", 1_767_225_600_001));
    assert_ne!(id, occurrence_id("report", "nightl", 1_767_225_600_000));
    assert_ne!(occurrence_id("ab", "c", 0), occurrence_id("a", "bc", 0));
    assert!(id < occurrence_id("a", "b", 1_767_225_600_001));
    assert_eq!(delay_ms(id, 0), 0);
    assert_eq!(delay_ms(id, 60_000), delay_ms(id, 60_000));
    let delays: Vec<u64> = (0..1_000)
        .map(|n| delay_ms(occurrence_id("a", "b", n), 10))
        .collect();
    for delay in 0..10 {
        assert!(
            delays.iter().filter(|one| **one == delay).count() > 50,
            "{delay}"
        );
    }
    assert!(delays.iter().all(|delay| *delay < 10));
}

#[test]
fn a_stored_schedule_is_read_back_and_later_versions_are_refused() {
    let StartTrigger::Cron {
        expression,
        timezone,
        ..
    } = cron("0 2 * * *", "Europe/Berlin")
    else {
        unreachable!()
    };
    let timing = Timing {
        misfire: Misfire::CatchUp(3),
        overlap: Overlap::Queue,
        jitter_ms: 500,
        input: serde_json::json!({"a": [1, 2.5]}),
    };
    let trigger = StartTrigger::Cron {
        expression,
        timezone,
        timing,
    };
    let bytes = encode(&trigger).unwrap();
    assert_eq!(
        std::str::from_utf8(&bytes).unwrap(),
        r#"{"v":1,"rule":{"cron":{"expression":"0 2 * * *","timezone":"Europe/Berlin"}},"timing":{"misfire":{"catch-up":3},"overlap":"queue","jitter-ms":500,"input":{"a":[1,2.5]}}}"#
    );
    assert_eq!(decode(&bytes).unwrap().timing(), ready(&trigger).timing());
    let event = StartTrigger::Event {
        input: None,
        name: "e".to_owned(),
        matches: Value::Null,
    };
    assert!(encode(&event).is_none());
    let later = String::from_utf8(bytes.to_vec())
        .unwrap()
        .replace("\"v\":1", "\"v\":2");
    for bytes in [later.as_bytes(), b"", b"{}", b"null"] {
        assert!(decode(bytes).is_err());
    }
}

#[test]
fn a_stored_schedule_says_its_times() {
    let timing = Timing::default();
    let cron = StartTrigger::Cron {
        expression: "0 2 * * *".to_owned(),
        timezone: "Europe/Berlin".to_owned(),
        timing: timing.clone(),
    };
    let every = StartTrigger::Every {
        every_ms: 5_400_000,
        timing,
    };
    let said = |trigger| rule(&encode(trigger).unwrap()).unwrap();
    assert_eq!(said(&cron), "0 2 * * * Europe/Berlin");
    assert_eq!(said(&every), "every 1h30m");
    assert!(rule(b"{}").is_err());
}
