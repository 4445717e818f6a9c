//! Zones that the operator provides. They are for a whole process, so this test has its own.

use jiff::tz::TimeZoneDatabase;
use windlass_model::schedule::{CronRule, use_zones};

/// A file of the time zone database: clocks that are five hours ahead, in the format of RFC 9636.
fn five_hours_ahead() -> Vec<u8> {
    let mut file = Vec::new();
    // The second block is for readers of 64-bit times; both have one kind of local time.
    for _ in 0..2 {
        file.extend(b"TZif2");
        file.extend([0; 15]);
        for count in [0_u32, 0, 0, 0, 1, 4] {
            file.extend(count.to_be_bytes());
        }
        file.extend(18_000_i32.to_be_bytes());
        file.extend([0, 0]);
        file.extend(b"+05\0");
    }
    file.extend(b"\n<+05>-5\n");
    file
}

#[test]
fn zones_of_the_operator_replace_the_compiled_in_ones() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("Moon")).unwrap();
    std::fs::write(dir.path().join("Moon/Base"), five_hours_ahead()).unwrap();
    let zones = TimeZoneDatabase::from_dir(dir.path()).unwrap();
    assert!(use_zones(zones));
    CronRule::parse("0 2 * * *", "Moon/Base").unwrap();
    CronRule::parse("0 2 * * *", "Europe/Berlin").unwrap_err();
    // A process does not change its zones.
    assert!(!use_zones(TimeZoneDatabase::bundled()));
    CronRule::parse("0 2 * * *", "Moon/Base").unwrap();
}
