//! Converts between local time and instants, with the rules for clock changes.
//!
//! `instant(t)` is the first instant at which the clocks of the zone show `t` or more. So a time
//! that does not exist happens at the next instant that does, and a time that exists twice happens
//! at the first of the two. The function is monotonic, so the order of times is the order of
//! instants.

use std::sync::OnceLock;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

static ZONES: OnceLock<TimeZoneDatabase> = OnceLock::new();

/// The zones of this process: the compiled-in ones, so that every machine and every process has the
/// same rules, unless the operator has provided others.
pub(super) fn zones() -> &'static TimeZoneDatabase {
    ZONES.get_or_init(TimeZoneDatabase::bundled)
}

/// Makes this process use other zones than the compiled-in ones. Returns whether it does: no zone
/// may have been looked up before.
pub fn use_zones(zones: TimeZoneDatabase) -> bool {
    ZONES.set(zones).is_ok()
}

/// The instant of a time on the clocks of this zone. None: beyond the year 9999.
pub(super) fn instant(zone: &TimeZone, time: DateTime) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(time);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(time).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(time).ok(),
        AmbiguousOffset::Gap { after, .. } => {
            // With the offset after the gap, a time in the gap lies before it.
            let ahead = after.to_timestamp(time).ok()?;
            zone.following(ahead)
                .map(|change| change.timestamp())
                .find(|change| zone.to_datetime(*change) >= time)
        }
    }
}

/// The latest time that the clocks of this zone have shown up to an instant, in whole seconds:
/// times up to it have happened, and later ones have not.
pub(super) fn reached(zone: &TimeZone, instant: Timestamp) -> Option<DateTime> {
    let time = zone.to_datetime(instant);
    let ambiguous = zone.to_ambiguous_timestamp(time);
    let AmbiguousOffset::Fold { before, after } = ambiguous.offset() else {
        return whole(time);
    };
    if zone.to_offset(instant) == before {
        return whole(time);
    }
    // In the repeated hour: the clocks have already shown all times up to the moment of the change.
    let back = SignedDuration::from_secs(i64::from(before.seconds() - after.seconds()));
    let change = zone
        .preceding(instant.checked_add(SignedDuration::from_nanos(1)).ok()?)
        .map(|change| change.timestamp())
        .find(|change| zone.to_offset(*change) == after)?;
    let put_back_at = zone.to_datetime(change).checked_add(back).ok()?;
    whole(put_back_at.checked_sub(SignedDuration::from_secs(1)).ok()?)
}

fn whole(time: DateTime) -> Option<DateTime> {
    time.with().subsec_nanosecond(0).build().ok()
}
