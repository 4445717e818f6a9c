//! The stored form of a schedule: JSON with a version.
//!
//! Two schedules are the same if these bytes are: then publishing another version of the workflow
//! does not change the plan.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Schedule;
use crate::definition::{StartTrigger, Timing};
use crate::file::duration_text;

const VERSION: u32 = 1;

/// The stored bytes are not a schedule that this version can read.
#[derive(Debug, thiserror::Error)]
#[error("the schedule cannot be read: {0}")]
pub struct UnreadableSpec(String);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    v: u32,
    rule: Rule,
    timing: Timing,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Rule {
    Cron {
        expression: String,
        timezone: String,
    },
    Every {
        ms: u64,
    },
}

/// The schedule of a start trigger as bytes; none for a trigger without a schedule.
pub fn encode(trigger: &StartTrigger) -> Option<Bytes> {
    let (rule, timing) = match trigger {
        StartTrigger::Event { .. } | StartTrigger::Http { .. } => return None,
        StartTrigger::Cron {
            expression,
            timezone,
            timing,
        } => (
            Rule::Cron {
                expression: expression.clone(),
                timezone: timezone.clone(),
            },
            timing,
        ),
        StartTrigger::Every { every_ms, timing } => (Rule::Every { ms: *every_ms }, timing),
    };
    let spec = Spec {
        v: VERSION,
        rule,
        timing: timing.clone(),
    };
    // Every part serialises to JSON: strings, numbers, and a value that was JSON before.
    serde_json::to_vec(&spec).ok().map(Bytes::from)
}

fn read(spec: &[u8]) -> Result<Spec, UnreadableSpec> {
    let read: Spec =
        serde_json::from_slice(spec).map_err(|error| UnreadableSpec(error.to_string()))?;
    if read.v != VERSION {
        return Err(UnreadableSpec(format!("it is of version {}", read.v)));
    }
    Ok(read)
}

/// The times of a schedule, for people: `0 2 * * * Europe/Berlin`, or `every 15m`.
///
/// # Errors
///
/// As for [`decode`].
pub fn rule(spec: &[u8]) -> Result<String, UnreadableSpec> {
    Ok(match read(spec)?.rule {
        Rule::Cron {
            expression,
            timezone,
        } => format!("{expression} {timezone}"),
        Rule::Every { ms } => format!("every {}", duration_text(ms)),
    })
}

/// Reads the bytes that [`encode`] wrote.
///
/// # Errors
///
/// The bytes are not a schedule, or a newer version wrote them.
pub fn decode(spec: &[u8]) -> Result<Schedule, UnreadableSpec> {
    let read = read(spec)?;
    let timing = read.timing;
    let trigger = match read.rule {
        Rule::Cron {
            expression,
            timezone,
        } => StartTrigger::Cron {
            expression,
            timezone,
            timing,
        },
        Rule::Every { ms } => StartTrigger::Every {
            every_ms: ms,
            timing,
        },
    };
    match Schedule::of(&trigger) {
        Some(Ok(schedule)) => Ok(schedule),
        Some(Err(wrong)) => {
            let reasons: Vec<&str> = wrong.iter().map(|one| one.message.as_str()).collect();
            Err(UnreadableSpec(reasons.join("; ")))
        }
        None => Err(UnreadableSpec("it is no schedule".to_owned())),
    }
}
