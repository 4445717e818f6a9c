//! The bounds of the settings that are numbers, durations or sizes.
//!
//! A value beyond them is refused when the configuration is read: a host that cannot start its
//! threads, or whose sums overflow, would fail later and without the name of the setting.

use serde_json::Value;

use super::Config;
use super::units::{Millis, Size};
use crate::codes;
use crate::error::Expected;

/// The kinds of settings with bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Count,
    /// Milliseconds.
    Time,
    /// Bytes.
    Size,
}

/// The bounds of one setting, both included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) key: &'static str,
    unit: Unit,
    least: u64,
    most: u64,
}

const S: u64 = 1_000;
const M: u64 = 60 * S;
const D: u64 = 24 * 60 * M;
/// A hundred years: the longest duration.
const C: u64 = windlass_model::limits::DURATION_MS;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const fn count(key: &'static str, least: u64, most: u64) -> Bound {
    let unit = Unit::Count;
    Bound {
        key,
        unit,
        least,
        most,
    }
}

const fn time(key: &'static str, least: u64, most: u64) -> Bound {
    let unit = Unit::Time;
    Bound {
        key,
        unit,
        least,
        most,
    }
}

const fn size(key: &'static str, least: u64, most: u64) -> Bound {
    let unit = Unit::Size;
    Bound {
        key,
        unit,
        least,
        most,
    }
}

/// Every setting that is a number, a duration or a size, sorted by its key.
pub(super) const BOUNDS: &[Bound] = &[
    time("locks.lease", S, D),
    size("plugins.compile-memory", 64 * MIB, 64 * GIB),
    time("plugins.compile-timeout", S, D),
    count("plugins.http.concurrency", 1, 100_000),
    time("plugins.http.connect-timeout", 1, D),
    count("plugins.http.lookups", 1, 1_024),
    count("plugins.http.max-headers", 1, 1_000),
    count("plugins.http.max-redirects", 0, 1_000),
    size("plugins.http.max-response", 0, GIB),
    time("plugins.http.timeout", 1, D),
    size("plugins.limits.blob-bytes", 0, 1_024 * GIB),
    count("plugins.limits.blob-writers", 0, 10_000),
    time("plugins.limits.deadline", 10, D),
    size("plugins.limits.event-bytes", 0, GIB),
    count("plugins.limits.events", 0, 100_000),
    count("plugins.limits.handles", 0, 1_000_000),
    count("plugins.limits.http-requests", 0, 100_000),
    size("plugins.limits.log-bytes", 0, GIB),
    count("plugins.limits.log-lines", 0, 1_000_000),
    size("plugins.limits.memory", 0, 4 * GIB),
    size("plugins.limits.payload", 0, GIB),
    count("plugins.limits.table-elements", 0, 10_000_000),
    size("plugins.max-component", 1, GIB),
    size("plugins.memory", MIB, 1_024 * 1_024 * GIB),
    count("plugins.pool.compiles", 1, 1_024),
    count("plugins.pool.fibers", 1, 100_000),
    count("plugins.pool.instance-calls", 1, 4_000_000_000),
    time("plugins.pool.instance-idle", 0, C),
    count("plugins.pool.instances", 1, 100_000),
    size("plugins.pool.max-memory", 64 * KIB, 4 * GIB),
    count("plugins.quarantine-after", 0, 4_000_000_000),
    time("plugins.slow", 1, D),
    time("plugins.start-wait", 0, D),
    count("plugins.threads", 0, 1_024),
    time("retention.every", S, 365 * D),
    time("retention.grace", 0, C),
    time("retention.keep", 0, C),
    count("retention.slice-rows", 1, 1_000_000),
    count("scheduler.burst-steps", 1, 4_000_000_000),
    time("scheduler.burst-time", 1, D),
    count("scheduler.claim-runs", 1, 100_000),
    count("scheduler.claim-triggers", 1, 100_000),
    size("scheduler.definition-cache", 0, 64 * GIB),
    time("scheduler.drain", 0, 365 * D),
    count("scheduler.in-flight", 1, 10_000_000),
    time("scheduler.lease", 3 * S, D),
    count("scheduler.max-descendants", 1, 4_000_000_000),
    count("scheduler.max-steps", 1, 1_000_000_000_000),
    time("scheduler.near-horizon", 2 * S, 365 * D),
    count("scheduler.reap-runs", 1, 1_000_000),
    size("scheduler.run-data", 0, 64 * GIB),
    time("scheduler.scan-interval", S, D),
    count("scheduler.spare-workers", 0, 1_024),
    size("scheduler.step-memory", MIB, 64 * GIB),
    count("scheduler.workers", 0, 1_024),
    size("server.answers", MIB, 64 * GIB),
    count("server.blocking", 1, 1_024),
    size("server.bodies", MIB, 64 * GIB),
    size("server.body-rate", 0, GIB),
    count("server.client-burst", 1, 4_000_000_000),
    count("server.connections", 1, 1_000_000),
    time("server.header-timeout", 1, D),
    count("server.hook-burst", 1, 4_000_000_000),
    count("server.hooks", 1, 1_000_000),
    count("server.hooks-waiting", 0, 1_000_000),
    size("server.max-answer", 0, GIB),
    size("server.max-body", 0, GIB),
    time("server.max-wait", 0, D),
    count("server.requests", 1, 1_000_000),
    time("server.stall-timeout", 1, D),
    count("server.streams", 0, 1_000_000),
    time("server.timeout", 1, D),
    count("server.waiting", 0, 1_000_000),
    time("store.connect-timeout", 0, D),
    size("store.queue", MIB, 64 * GIB),
    count("telemetry.log-limit", 0, 4_000_000_000),
];

impl Bound {
    /// The bound of a setting.
    pub(super) fn of(key: &str) -> Option<&'static Self> {
        BOUNDS.iter().find(|bound| bound.key == key)
    }

    /// The bounds as text, like `1s to 1d`.
    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        format!("{} to {}", self.show(self.least), self.show(self.most))
    }

    fn show(&self, number: u64) -> String {
        match self.unit {
            Unit::Count => number.to_string(),
            Unit::Time => Millis(number).to_string(),
            Unit::Size => Size(number).to_string(),
        }
    }

    fn number(&self, value: &Value) -> Option<u64> {
        match (self.unit, value) {
            (Unit::Count, Value::Number(number)) => number.as_u64(),
            (Unit::Time, Value::String(text)) => text.parse::<Millis>().ok().map(|found| found.0),
            // A share of the memory is no size.
            (Unit::Size, Value::String(text)) => text.parse::<Size>().ok().map(|found| found.0),
            _ => None,
        }
    }

    /// Refuses a value of the setting, which is written as `key`.
    fn check(&self, key: &str, value: &Value) -> Result<(), Expected> {
        let Some(number) = self.number(value) else {
            return Ok(());
        };
        let bound = match () {
            () if number < self.least => format!("at least {}", self.show(self.least)),
            () if number > self.most => format!("at most {}", self.show(self.most)),
            () => return Ok(()),
        };
        let text = format!("{key} must be {bound}, and is {}", self.show(number));
        Err(Expected::new(codes::CONFIG_VALUE, text)
            .help("`windlass config show --origin` says where the value came from."))
    }
}

/// Refuses settings beyond their bounds, those of grants included.
pub(super) fn check(config: &Config) -> Result<(), Expected> {
    let all = serde_json::to_value(config).unwrap_or_default();
    for bound in BOUNDS {
        let pointer = format!("/{}", bound.key.replace('.', "/"));
        if let Some(value) = all.pointer(&pointer) {
            bound.check(bound.key, value)?;
        }
    }
    let grants = all.pointer("/plugins/grants").and_then(Value::as_object);
    for (package, grant) in grants.into_iter().flatten() {
        let limits = grant.get("limits").and_then(Value::as_object);
        for (name, value) in limits.into_iter().flatten() {
            if let Some(bound) = Bound::of(&format!("plugins.limits.{name}")) {
                bound.check(&format!("plugins.grants.{package}.limits.{name}"), value)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Share;
    use crate::config::schema::{properties, schema};

    /// The settings below a part of the schema that are numbers, durations or sizes. The schema of
    /// the latter two is that of any text, so their defaults tell.
    fn numeric(path: &str, part: &Value, default: &Value, found: &mut Vec<String>) {
        for (name, setting) in properties(part).into_iter().flatten() {
            let (path, default) = match path {
                "" => (name.clone(), &default[name]),
                path => (format!("{path}.{name}"), &default[name]),
            };
            if properties(setting).is_some() {
                numeric(&path, setting, default, found);
                continue;
            }
            let measure = default.as_str().is_some_and(|text| {
                text.parse::<Millis>().is_ok() || text.parse::<Share>().is_ok()
            });
            if measure || setting["type"].to_string().contains("\"integer\"") {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_setting_that_is_a_number_has_bounds() {
        let mut found = Vec::new();
        let default = serde_json::to_value(Config::default()).unwrap();
        numeric("", &schema(), &default, &mut found);
        found.sort_unstable();
        let known: Vec<&str> = BOUNDS.iter().map(|bound| bound.key).collect();
        assert_eq!(found, known);
    }

    #[test]
    fn the_defaults_are_within_the_bounds() {
        assert!(check(&Config::default()).is_ok());
    }

    /// The configuration with one other setting.
    fn with(key: &str, value: Value) -> Result<(), Expected> {
        let mut all = serde_json::to_value(Config::default()).unwrap();
        let mut part = &mut all;
        for name in key.split('.') {
            part = &mut part[name];
        }
        *part = value;
        check(&serde_json::from_value(all).unwrap())
    }

    #[test]
    fn a_value_beyond_a_bound_is_refused_by_name() {
        for bound in BOUNDS {
            let written = |number: u64| match bound.unit {
                Unit::Count => number.into(),
                _ => Value::from(bound.show(number)),
            };
            for within in [bound.least, bound.most] {
                assert!(with(bound.key, written(within)).is_ok(), "{bound:?}");
            }
            let below = bound.least.checked_sub(1);
            let above = (bound.most < C || bound.unit != Unit::Time).then(|| bound.most + 1);
            for beyond in below.into_iter().chain(above) {
                let error = with(bound.key, written(beyond)).unwrap_err().to_string();
                assert!(error.contains(bound.key), "{error}");
            }
        }
    }

    #[test]
    fn limits_of_grants_have_the_same_bounds() {
        let mut all = serde_json::to_value(Config::default()).unwrap();
        all["plugins"]["grants"]["shout"]["limits"]["deadline"] = "1ms".into();
        let error = check(&serde_json::from_value(all).unwrap()).unwrap_err();
        let text = "plugins.grants.shout.limits.deadline must be at least 10ms, and is 1ms";
        assert!(error.to_string().contains(text), "{error}");
    }

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md");

    /// Settings that bound no memory: rows of a transaction, and numbers after which something
    /// changes.
    const NO_MEMORY: [&str; 7] = [
        "plugins.pool.instance-calls",
        "plugins.quarantine-after",
        "retention.slice-rows",
        "scheduler.burst-steps",
        "scheduler.claim-runs",
        "scheduler.claim-triggers",
        "scheduler.reap-runs",
    ];

    #[test]
    fn the_page_of_limits_has_each_setting_that_is_a_bound() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let is_there = |bound: &&Bound| {
            let (section, name) = bound.key.rsplit_once('.').unwrap();
            let (section, alone) = (format!("`[{section}] "), format!("`{name}`"));
            let first = format!("{section}{name}`");
            let has =
                |row: &str| row.contains(&first) || row.contains(&section) && row.contains(&alone);
            page.lines().any(has)
        };
        let counted = BOUNDS.iter().filter(|bound| bound.unit != Unit::Time);
        let missing = counted.filter(|bound| !is_there(bound));
        let missing: Vec<&str> = missing.map(|bound| bound.key).collect();
        assert_eq!(
            missing, NO_MEMORY,
            "docs/limits.md has a row for each other setting"
        );
    }

    /// The table of the constants of `windlass_model::limits`.
    fn constants() -> String {
        let mut table = "| bound | value | constant |\n|---|---|---|\n".to_owned();
        let mut about = String::new();
        for line in include_str!("../../../model/src/limits.rs").lines() {
            if let Some(text) = line.strip_prefix("/// ") {
                about = format!("{about}{text} ");
            } else if let Some(constant) = line.strip_prefix("pub const ") {
                let (name, value) = constant.split_once(": ").unwrap();
                let (_, value) = value.split_once(" = ").unwrap();
                let value = value.trim_end_matches(';');
                table += &format!("| {} | `{value}` | `{name}` |\n", about.trim());
                about.clear();
            } else {
                about.clear();
            }
        }
        table
    }

    #[test]
    fn the_page_of_limits_has_the_constants_of_the_formats() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (before, rest) = page.split_once("<!-- constants -->\n").unwrap();
        let (table, after) = rest.split_once("<!-- end of constants -->\n").unwrap();
        let made = constants();
        assert!(made.contains("| `NODES` |"), "{made}");
        if std::env::var_os("BLESS").is_some() {
            let (begin, end) = ("<!-- constants -->", "<!-- end of constants -->");
            let page = format!("{before}{begin}\n{made}{end}\n{after}");
            return std::fs::write(PAGE, page).unwrap();
        }
        assert_eq!(table, made, "run the test again with BLESS=1");
    }
}
