//! Durations and sizes as they are written in a configuration: `30s`, `64MiB`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use windlass_model::file::{NoTime, duration_ms};

/// A duration of whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Millis(pub(crate) u64);

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

/// A size in bytes, or a share of the machine's memory in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Bytes(Size),
    Percent(u8),
}

impl FromStr for Share {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hint = "a size like `512MiB` or `4GiB`, or a share like `50%`";
        let Some(percent) = text.trim().strip_suffix('%') else {
            return text.parse().map(Self::Bytes).map_err(|_| hint);
        };
        let percent = percent.trim().parse().ok();
        let percent = percent.filter(|percent| (1..=100).contains(percent));
        percent.map(Self::Percent).ok_or(hint)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(size) => size.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// A rate: so many events in each period, evenly spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// At least 1.
    pub(crate) count: u32,
    /// One of [`PERIODS`].
    pub(crate) per_ms: u64,
}

const PERIODS: [(&str, u64); 3] = [("s", 1000), ("m", 60_000), ("h", 3_600_000)];

const TIMES: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

const SIZES: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

impl Millis {
    /// The duration as the standard library's type.
    pub(crate) fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl Size {
    /// The size as an index type; a size beyond the address space becomes the largest index.
    pub(crate) fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(split)?;
    let (_, factor) = SIZES.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn write(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let smallest = units.last().map_or("", |(name, _)| *name);
    let fitting = units
        .iter()
        .find(|(_, factor)| value > 0 && value.is_multiple_of(*factor));
    let (unit, factor) = fitting.copied().unwrap_or((smallest, 1));
    write!(f, "{}{unit}", value / factor)
}

impl FromStr for Millis {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        duration_ms(text).map(Self)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A number gets the error that names the missing unit.
        struct Written;

        impl de::Visitor<'_> for Written {
            type Value = Millis;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Millis, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Millis, E> {
                Err(E::custom(NoTime::unitless(&number.into())))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Millis, E> {
                Err(E::custom(NoTime::unitless(&number.into())))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Millis, E> {
                let finite = serde_json::Number::from_f64(number);
                let wrong = finite.map(|number| NoTime::unitless(&number));
                Err(wrong.map_or_else(
                    || E::invalid_type(de::Unexpected::Float(number), &self),
                    E::custom,
                ))
            }
        }

        deserializer.deserialize_any(Written)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, &TIMES)
    }
}

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hint = "a size like `512B`, `64KiB`, `4MiB` or `1GiB`";
        parse_size(text).map(Self).ok_or(hint)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, &SIZES)
    }
}

impl FromStr for Rate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (count, unit) = text.split_once('/')?;
            let count = count.trim().parse().ok().filter(|count| *count > 0)?;
            let (_, per_ms) = PERIODS.into_iter().find(|(name, _)| *name == unit.trim())?;
            Some(Self { count, per_ms })
        };
        read().ok_or("a rate like `10/s`, `100/m` or `1000/h`")
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = PERIODS.iter().find(|(_, per_ms)| *per_ms == self.per_ms);
        write!(f, "{}/{}", self.count, known.map_or("", |(name, _)| *name))
    }
}

/// A type that a configuration writes as a text.
macro_rules! text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string" })
            }
        }
    };
}

/// A type whose errors are hints at its form.
macro_rules! unit {
    ($name:ident) => {
        text!($name);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse()
                    .map_err(|hint| de::Error::custom(format!("`{text}` is not {hint}")))
            }
        }
    };
}

text!(Millis);
unit!(Size);
unit!(Rate);
unit!(Share);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, ms: Option<u64>) {
        assert_eq!(
            text.parse::<Millis>().ok().map(|millis| millis.0),
            ms,
            "{text}"
        );
    }

    #[test]
    fn durations_need_a_unit_and_must_fit() {
        check("200ms", Some(200));
        check("1h30m", Some(5_400_000));
        check("3d", Some(259_200_000));
        check("5", None);
        check("s", None);
        check("-1s", None);
        check("1.5s", None);
        check("5parsecs", None);
        check("99999999999999999999d", None);
        check("18446744073709551615s", None);
    }

    #[test]
    fn written_units_are_read_back() {
        for ms in [0, 1, 999, 1000, 60_000, 90_000, 86_400_000] {
            assert_eq!(Millis(ms).to_string().parse(), Ok(Millis(ms)));
        }
        for bytes in [0, 1, 1024, 1536, 64 << 20, 3 << 30] {
            assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }
        for share in [Share::Percent(50), Share::Bytes(Size(3 << 30))] {
            assert_eq!(share.to_string().parse(), Ok(share));
        }
        for text in ["10/s", "1/m", "4294967295/h"] {
            let rate = text.parse::<Rate>().map(|rate| rate.to_string());
            assert_eq!(rate.as_deref(), Ok(text));
        }
        for text in [
            "",
            "10",
            "0/s",
            "-1/s",
            "10/d",
            "10 s",
            "1.5/s",
            "/s",
            "4294967296/s",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_a_part_of_the_whole() {
        for text in ["0%", "101%", "-1%", "50", "%", "1.5%"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
