//! Numbers of JSON texts, exactly.
//!
//! JSON bounds neither the digits nor the exponent of a number, and a float of 64 bits keeps about
//! 17 digits. So numbers are compared by their digits. A float stands for the decimal that it is
//! printed as: the shortest one that reads as the same float.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Number, Value};

/// The value of a number of a JSON text.
///
/// Equal numbers are equal, regardless of how they are written: `1`, `1.0` and `10e-1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal<'a> {
    negative: bool,
    /// The digits, without zeros at the ends. None for zero.
    digits: Cow<'a, str>,
    /// The position of the point: the value is `0.digits * 10^point`. 0 for zero.
    point: i128,
}

impl<'a> Decimal<'a> {
    /// Reads a number as JSON writes it. None: the text is no such number, or its exponent has more
    /// than thirty digits. Takes time linear in the text.
    pub fn read(text: &'a str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(unsigned) => (true, unsigned),
            None => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let exponent = exponent.map_or(Some(Exponent::Some(0)), Exponent::read)?;
        let whole = whole.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        let (digits, places) = match (whole, fraction) {
            ("", fraction) => {
                let digits = fraction.trim_start_matches('0');
                let zeros = fraction.len().saturating_sub(digits.len());
                (Cow::Borrowed(digits), -i128::try_from(zeros).ok()?)
            }
            (whole, "") => {
                let places = i128::try_from(whole.len()).ok()?;
                (Cow::Borrowed(whole.trim_end_matches('0')), places)
            }
            (whole, fraction) => {
                let places = i128::try_from(whole.len()).ok()?;
                (Cow::Owned([whole, fraction].concat()), places)
            }
        };
        if digits.is_empty() {
            return Some(Self {
                negative: false,
                digits,
                point: 0,
            });
        }
        let Exponent::Some(exponent) = exponent else {
            return None;
        };
        Some(Self {
            negative,
            digits,
            point: exponent.checked_add(places)?,
        })
    }

    /// The decimal of a float. None if it is not finite.
    pub fn of_float(float: f64) -> Option<Decimal<'static>> {
        let text = Number::from_f64(float)?.to_string();
        Some(Decimal::read(&text)?.into_owned())
    }

    /// The same value, independent of its text.
    pub fn into_owned(self) -> Decimal<'static> {
        Decimal {
            negative: self.negative,
            digits: Cow::Owned(self.digits.into_owned()),
            point: self.point,
        }
    }

    /// Whether it is a whole number.
    pub fn is_whole(&self) -> bool {
        self.point >= self.len()
    }

    /// Whether it is a whole number that two divides.
    pub fn is_even(&self) -> bool {
        match self.point.cmp(&self.len()) {
            Ordering::Less => false,
            Ordering::Equal => {
                let last = self.digits.bytes().next_back();
                last.is_none_or(|digit| digit % 2 == 0)
            }
            Ordering::Greater => true,
        }
    }

    /// Its part before the point, if that has 128 bits.
    pub fn truncated(&self) -> Option<i128> {
        if self.point <= 0 {
            return Some(0);
        }
        // 2^127 has 39 digits.
        let places = usize::try_from(self.point).ok().filter(|it| *it <= 39)?;
        let sign = if self.negative { "-" } else { "" };
        let taken = self.digits.get(..places).unwrap_or(&self.digits);
        let zeros = "0".repeat(places.saturating_sub(taken.len()));
        [sign, taken, &zeros].concat().parse().ok()
    }

    /// The number of its digits.
    fn len(&self) -> i128 {
        i128::try_from(self.digits.len()).unwrap_or(i128::MAX)
    }

    /// Appends it to `out` as JSON, in a form that depends only on its value.
    fn write(&self, out: &mut Vec<u8>) {
        /// Numbers with so many places before the point, or zeros behind it, have no exponent.
        const PLAIN: usize = 40;
        const ZEROS: usize = 6;
        if self.negative {
            out.push(b'-');
        }
        let digits = self.digits.as_bytes();
        let before = usize::try_from(self.point).ok().filter(|it| *it <= PLAIN);
        let zeros = usize::try_from(self.point.saturating_neg()).ok();
        match (before, zeros.filter(|it| *it <= ZEROS)) {
            _ if digits.is_empty() => out.push(b'0'),
            (_, Some(zeros)) => {
                out.extend_from_slice(b"0.");
                out.extend(std::iter::repeat_n(b'0', zeros));
                out.extend_from_slice(digits);
            }
            (Some(before), _) => match digits.split_at_checked(before) {
                Some((whole, fraction)) if !fraction.is_empty() => {
                    out.extend_from_slice(whole);
                    out.push(b'.');
                    out.extend_from_slice(fraction);
                }
                _ => {
                    let zeros = before.saturating_sub(digits.len());
                    out.extend_from_slice(digits);
                    out.extend(std::iter::repeat_n(b'0', zeros));
                }
            },
            _ => {
                let exponent = self.point.saturating_sub(self.len());
                out.extend_from_slice(digits);
                out.extend_from_slice(format!("e{exponent}").as_bytes());
            }
        }
    }
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |of: &Self| match (of.digits.is_empty(), of.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let signs = sign(self).cmp(&sign(other));
        // Digits without zeros at their end are in the order of texts.
        let sizes = || {
            let points = self.point.cmp(&other.point);
            points.then_with(|| self.digits.cmp(&other.digits))
        };
        signs.then_with(|| match self.negative {
            true => sizes().reverse(),
            false => sizes(),
        })
    }
}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The exponent of a number.
enum Exponent {
    Some(i128),
    /// It has more than thirty digits.
    Far,
}

impl Exponent {
    fn read(text: &str) -> Option<Self> {
        const DIGITS: usize = 30;
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = unsigned.trim_start_matches('0');
        if digits.is_empty() {
            return Some(Self::Some(0));
        }
        if digits.len() > DIGITS {
            return Some(Self::Far);
        }
        let size: i128 = digits.parse().ok()?;
        Some(Self::Some(match text.starts_with('-') {
            true => -size,
            false => size,
        }))
    }
}

/// JSON in a form in which equal values have equal bytes: keys sorted, no blanks, and numbers in one
/// form for each value. Numbers whose exponent has more than thirty digits are equal only if their
/// texts are.
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut Vec<u8>) {
    // Writing into a vector does not fail, and neither do texts and numbers.
    match value {
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push(b'{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                drop(serde_json::to_writer(&mut *out, key));
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
        Value::Number(number) => match Decimal::read(number.as_str()) {
            Some(decimal) => decimal.write(out),
            None => out.extend_from_slice(number.as_str().as_bytes()),
        },
        Value::Null | Value::Bool(_) | Value::String(_) => {
            drop(serde_json::to_writer(&mut *out, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Decimal<'_> {
        Decimal::read(text).unwrap()
    }

    #[test]
    fn equal_numbers_are_written_alike() {
        let check = |texts: &[&str], expected: &str| {
            for text in texts {
                let value: Value = serde_json::from_str(text).unwrap();
                let found = String::from_utf8(canonical(&value)).unwrap();
                assert_eq!(found, expected, "{text}");
                assert_eq!(read(text), read(expected), "{text}");
            }
        };
        check(
            &[
                "0",
                "-0",
                "0.0",
                "0e9",
                "-0.000e-400",
                "0E99999999999999999999999999999999",
            ],
            "0",
        );
        check(&["1", "1.0", "10e-1", "0.01e2", "1e0", "1E+0", "1e-0"], "1");
        check(&["-1.50", "-15e-1", "-0.15e1"], "-1.5");
        check(&["1e3", "1000", "1000.000", "0.001e6"], "1000");
        check(&["1e400", "10e399", "0.1e401"], "1e400");
        check(
            &["18446744073709551616", "18446744073709551616.0"],
            "18446744073709551616",
        );
        check(&["0.1", "1e-1", "0.10"], "0.1");
        check(&["0.00000012", "1.2e-7"], "0.00000012");
        check(&["0.000000012", "1.2e-8"], "12e-9");
        check(
            &["123456789012345678901234567890"],
            "123456789012345678901234567890",
        );
    }

    #[test]
    fn equal_json_has_one_form() {
        let check = |value: Value, text: &str| {
            assert_eq!(String::from_utf8(canonical(&value)).unwrap(), text);
        };
        check(
            json!({"b": [1, 2.0, -3.5], "a": {"d": null, "c": "\"x\""}}),
            r#"{"a":{"c":"\"x\"","d":null},"b":[1,2,-3.5]}"#,
        );
        check(
            json!([-0.0, 1e300, true, u64::MAX]),
            "[0,1e300,true,18446744073709551615]",
        );
        check(json!({}), "{}");
    }

    #[test]
    fn numbers_are_in_the_order_of_their_values() {
        let order = [
            "-1e400",
            "-1e399",
            "-10",
            "-9.5",
            "-1",
            "-0.1",
            "-1e-400",
            "0",
            "1e-400",
            "0.1",
            "0.1000000000000000000001",
            "0.9",
            "1",
            "9",
            "10",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551616",
            "18446744073709551617",
            "99999999999999991611393",
            "1e23",
            "1e400",
            "1.1e400",
        ];
        for (a, left) in order.iter().enumerate() {
            for (b, right) in order.iter().enumerate() {
                assert_eq!(read(left).cmp(&read(right)), a.cmp(&b), "{left} {right}");
            }
        }
    }

    #[test]
    fn malformed_and_distant_numbers_are_none() {
        for text in [
            "", "-", "e5", ".5", "1e", "1e+", "1x", "0x1", "inf", "1e1x", "1.5.2", "--1",
        ] {
            assert_eq!(Decimal::read(text), None, "{text}");
        }
        assert_eq!(Decimal::read(&format!("1e{}", "9".repeat(31))), None);
        assert!(Decimal::read(&format!("1e{}", "9".repeat(30))).is_some());
        let far: Value = serde_json::from_str(&format!("1e+{}", "9".repeat(40))).unwrap();
        assert_eq!(canonical(&far), far.to_string().as_bytes());
    }

    #[test]
    fn parts_of_numbers_are_known() {
        assert!(read("1e400").is_whole() && read("1e400").is_even());
        assert!(read("18446744073709551617").is_whole());
        assert!(!read("18446744073709551617").is_even());
        assert!(!read("1.5").is_whole() && !read("1.5").is_even());
        assert!(read("0").is_whole() && read("0").is_even());
        assert_eq!(
            read("-12345678901234567890.75").truncated(),
            Some(-12_345_678_901_234_567_890)
        );
        assert_eq!(read("1e20").truncated(), Some(100_000_000_000_000_000_000));
        assert_eq!(read("0.99").truncated(), Some(0));
        assert_eq!(read("1e400").truncated(), None);
    }

    #[test]
    fn a_float_is_the_decimal_that_it_is_printed_as() {
        assert_eq!(Decimal::of_float(0.1), Some(read("0.1")));
        assert_eq!(Decimal::of_float(1e23), Some(read("1e23")));
        assert_eq!(Decimal::of_float(-0.0), Some(read("0")));
        assert_eq!(Decimal::of_float(f64::INFINITY), None);
    }
}
