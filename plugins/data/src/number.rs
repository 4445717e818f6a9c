//! Numbers of filters. jq computes with doubles and keeps the digits of a number that it only
//! passes on; so does this.

use std::cmp::Ordering;
use std::fmt;
use std::rc::Rc;

/// Doubles below this one hold each integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

#[derive(Clone, Debug)]
pub(crate) enum Num {
    Int(i64),
    Float(f64),
    /// A number of JSON that neither of the others prints as it was written.
    Text(Rc<str>),
}

impl Num {
    /// A number in the syntax of JSON, or in that of a filter.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Ok(int) = text.parse()
            && !text.starts_with('+')
            && text != "-0"
        {
            return Some(Self::Int(int));
        }
        let float: f64 = text.parse().ok()?;
        if Self::Float(float).to_string() == text {
            return Some(Self::Float(float));
        }
        // Rust reads `inf` and `.5`, JSON does not; what it refuses keeps no digits.
        let is_json = text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
            && !text.ends_with('.')
            && !text.contains(".e")
            && !text.contains(".E");
        Some(if is_json {
            Self::Text(text.into())
        } else {
            float.into()
        })
    }

    pub(crate) fn to_f64(&self) -> f64 {
        match self {
            Self::Int(int) => *int as f64,
            Self::Float(float) => *float,
            Self::Text(text) => text.parse().unwrap_or(f64::NAN),
        }
    }

    /// The integer, if it is one and small enough to be exact.
    pub(crate) fn to_int(&self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(*int),
            other => match Self::from(other.to_f64()) {
                Self::Int(int) => Some(int),
                _ => None,
            },
        }
    }

    pub(crate) fn is_nan(&self) -> bool {
        matches!(self, Self::Float(float) if float.is_nan())
    }

    /// Two integers by `exact`, unless it overflows; everything else by `float`.
    pub(crate) fn compute(
        &self,
        other: &Self,
        exact: fn(i64, i64) -> Option<i64>,
        float: fn(f64, f64) -> f64,
    ) -> Self {
        if let (Self::Int(left), Self::Int(right)) = (self, other)
            && let Some(int) = exact(*left, *right)
        {
            return Self::Int(int);
        }
        float(self.to_f64(), other.to_f64()).into()
    }

    pub(crate) fn negated(&self) -> Self {
        match self {
            Self::Int(0) => Self::Float(-0.0),
            Self::Int(int) => match int.checked_neg() {
                Some(int) => Self::Int(int),
                None => (-self.to_f64()).into(),
            },
            other => (-other.to_f64()).into(),
        }
    }
}

impl From<f64> for Num {
    fn from(float: f64) -> Self {
        let is_int = float.abs() < EXACT && float.fract() == 0.0;
        if is_int && !(float == 0.0 && float.is_sign_negative()) {
            return Self::Int(float as i64);
        }
        Self::Float(float)
    }
}

impl PartialEq for Num {
    fn eq(&self, other: &Self) -> bool {
        !self.is_nan() && self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Num {}

impl PartialOrd for Num {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// As in jq, `nan` is less than every number, itself included.
impl Ord for Num {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Self::Int(left), Self::Int(right)) = (self, other) {
            return left.cmp(right);
        }
        let by_double = match self.to_f64().partial_cmp(&other.to_f64()) {
            None if self.is_nan() => Ordering::Less,
            None => Ordering::Greater,
            Some(ordering) => ordering,
        };
        match (self, other) {
            // Digits that a double does not hold count between two numbers that were written down.
            (Self::Text(_), Self::Text(_) | Self::Int(_)) | (Self::Int(_), Self::Text(_))
                if by_double == Ordering::Equal =>
            {
                exactly(&self.to_string(), &other.to_string())
            }
            _ => by_double,
        }
    }
}

/// Compares numbers of the syntax of JSON by all of their digits.
fn exactly(left: &str, right: &str) -> Ordering {
    match (left.strip_prefix('-'), right.strip_prefix('-')) {
        (Some(left), Some(right)) => magnitude(right).cmp(&magnitude(left)),
        (None, None) => magnitude(left).cmp(&magnitude(right)),
        // They are equal as doubles: zero, or about.
        _ => Ordering::Equal,
    }
}

/// The power of ten of the first digit that is not zero, and the digits from there.
fn magnitude(number: &str) -> (i64, String) {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    let zeros = all.len() - significant.len();
    let short = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let power = exponent
        .saturating_add(short(whole.len()))
        .saturating_sub(short(zeros));
    let significant = significant.trim_end_matches('0');
    let power = if significant.is_empty() { 0 } else { power };
    (power, significant.to_owned())
}

/// As jq prints it: `nan` as null, an infinity as the largest double.
impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let float = match self {
            Self::Int(int) => return write!(f, "{int}"),
            Self::Text(text) => match self.to_f64() {
                float if float.is_finite() => return f.write_str(text),
                float => float,
            },
            Self::Float(float) => *float,
        };
        if float.is_nan() {
            return f.write_str("null");
        }
        let float = float.clamp(f64::MIN, f64::MAX);
        // The shortest digits that read as this double again.
        let scientific = format!("{float:e}");
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let count = digits.bytes().filter(u8::is_ascii_digit).count();
        let point = exponent.saturating_add(1);
        if point <= -4 || point > i32::try_from(count).unwrap_or(i32::MAX).saturating_add(15) {
            let sign = if exponent < 0 { '-' } else { '+' };
            return write!(f, "{digits}e{sign}{:02}", exponent.unsigned_abs());
        }
        write!(f, "{float}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_in_jq() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.5, "0.5"),
            (1e17, "1e+17"),
            (123_456_789_012_345_678_901.0, "123456789012345680000"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e300, "1.5e+300"),
            (f64::NAN, "null"),
            (f64::INFINITY, "1.7976931348623157e+308"),
            (f64::NEG_INFINITY, "-1.7976931348623157e+308"),
        ] {
            assert_eq!(Num::Float(number).to_string(), expected);
        }
    }

    #[test]
    fn a_number_that_is_only_passed_on_keeps_its_digits() {
        for text in [
            "0",
            "-0",
            "1.10",
            "1e5",
            "-1E+2",
            "9223372036854775807",
            "9223372036854775808",
            "123456789012345678901234567890",
            "0.1000000000000000055511151231257827",
        ] {
            assert_eq!(Num::parse(text).unwrap().to_string(), text);
        }
        let clamped = Num::parse("1e1000").unwrap().to_string();
        assert_eq!(clamped, "1.7976931348623157e+308");
    }

    #[test]
    fn all_digits_of_written_numbers_are_compared() {
        let number = |text: &str| Num::parse(text).unwrap();
        for (less, greater) in [
            ("18446744073709551616", "18446744073709551617"),
            ("-18446744073709551617", "-18446744073709551616"),
            ("9223372036854775807", "9223372036854775807.5"),
            ("1e5", "100000.00000000000000000001"),
            ("0.10", "0.100000000000000000001"),
        ] {
            assert!(number(less) < number(greater), "{less} < {greater}");
            assert!(number(greater) > number(less), "{less} < {greater}");
        }
        for (left, right) in [
            ("1e5", "100000"),
            ("1.0", "1"),
            ("0.0", "-0"),
            ("10e-1", "1"),
        ] {
            assert_eq!(number(left), number(right));
        }
        assert_ne!(Num::Float(f64::NAN), Num::Float(f64::NAN));
        assert!(Num::Float(f64::NAN) < Num::Float(f64::NAN));
    }
}
