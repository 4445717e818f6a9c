//! Random pairs of JSON values, and a reader that compares them by the digits of their numbers.
//!
//! The reader shares no code with the host: it knows no float and no library, except for its
//! deliberate mistakes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "only tests call it"
)]

use std::cmp::Ordering;

/// A mistake of the reader, to see whether the pairs reveal it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// It makes none.
    None,
    /// Numbers are compared as floats of 64 bits.
    Floats,
    /// Integers are compared as integers of 128 bits where they fit, and else as floats.
    Integers,
    /// A float stands for its binary value.
    Binary,
    /// The exponent is read without its sign.
    Exponent,
    /// Minus zero is less than zero.
    MinusZero,
    /// True is 1, and false is 0.
    Truth,
    /// All values have an order, by their kinds first.
    Kinds,
    /// Null has an order.
    Null,
    /// The order of members counts.
    Members,
    /// A list that begins another one equals it.
    Prefix,
}

/// All mistakes.
pub const MISTAKES: &[Mistake] = &[
    Mistake::Floats,
    Mistake::Integers,
    Mistake::Binary,
    Mistake::Exponent,
    Mistake::MinusZero,
    Mistake::Truth,
    Mistake::Kinds,
    Mistake::Null,
    Mistake::Members,
    Mistake::Prefix,
];

/// A value as the test reads it.
#[derive(Debug)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as its text.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// Members, in their order.
    Map(Vec<(String, Json)>),
}

/// Reads JSON without blanks and without escapes.
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    fn eat(&mut self, start: &str) -> bool {
        let rest = self.0.strip_prefix(start);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn until(&mut self, ends: &[char]) -> &'a str {
        let end = self.0.find(ends).unwrap_or(self.0.len());
        let (text, rest) = self.0.split_at(end);
        self.0 = rest;
        text
    }

    fn text(&mut self) -> String {
        let text = self.until(&['"']).to_owned();
        assert!(self.eat("\""));
        text
    }

    fn value(&mut self) -> Json {
        if self.eat("\"") {
            return Json::Text(self.text());
        }
        if self.eat("[") {
            let mut items = Vec::new();
            while !self.eat("]") {
                items.push(self.value());
                self.eat(",");
            }
            return Json::List(items);
        }
        if self.eat("{") {
            let mut members = Vec::new();
            while !self.eat("}") {
                assert!(self.eat("\""));
                let name = self.text();
                assert!(self.eat(":"));
                members.push((name, self.value()));
                self.eat(",");
            }
            return Json::Map(members);
        }
        match self.until(&[',', ']', '}']) {
            "null" => Json::Null,
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            number => Json::Number(number.to_owned()),
        }
    }
}

/// Reads a value.
///
/// # Panics
///
/// The text is not JSON, or has blanks or escapes.
pub fn read(text: &str) -> Json {
    let mut reader = Reader(text);
    let value = reader.value();
    assert_eq!(reader.0, "");
    value
}

/// Sign, digits without zeros at their ends, and the power of ten of the last digit.
fn digits(number: &str, mistake: Mistake) -> (bool, Vec<u8>, i64) {
    let (minus, rest) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let mut power = 0_i64;
    let mut mantissa = rest;
    if let Some(at) = rest.find(['e', 'E']) {
        let exponent = &rest[at + 1..];
        power = exponent.parse().unwrap();
        if mistake == Mistake::Exponent {
            power = power.abs();
        }
        mantissa = &rest[..at];
    }
    let mut all: Vec<u8> = Vec::new();
    let mut behind = false;
    for byte in mantissa.bytes() {
        if byte == b'.' {
            behind = true;
            continue;
        }
        all.push(byte - b'0');
        power -= i64::from(behind);
    }
    while all.last() == Some(&0) {
        all.pop();
        power += 1;
    }
    let zeros = all.iter().take_while(|digit| **digit == 0).count();
    all.drain(..zeros);
    if all.is_empty() {
        return (minus && mistake == Mistake::MinusZero, all, 0);
    }
    (minus, all, power)
}

fn order_of_numbers(a: &str, b: &str, mistake: Mistake) -> Ordering {
    let float = |text: &str| text.parse::<f64>().unwrap();
    let is_integer = |text: &str| !text.contains(['.', 'e', 'E']);
    match mistake {
        Mistake::Floats => return float(a).partial_cmp(&float(b)).unwrap(),
        Mistake::Integers => {
            let whole = |text: &str| text.parse::<i128>().ok();
            return match (whole(a), whole(b)) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => float(a).partial_cmp(&float(b)).unwrap(),
            };
        }
        Mistake::Binary if is_integer(a) != is_integer(b) => {
            let exact = |text: &str| match is_integer(text) {
                true => text.to_owned(),
                false => format!("{:.1100}", float(text)),
            };
            if float(a).is_finite() && float(b).is_finite() {
                return order_of_numbers(&exact(a), &exact(b), Mistake::None);
            }
        }
        _ => {}
    }
    let ((a_minus, a, a_power), (b_minus, b, b_power)) = (digits(a, mistake), digits(b, mistake));
    let sizes = || {
        let places = |digits: &[u8], power: i64| match digits.len() {
            0 => i64::MIN,
            count => i64::try_from(count).unwrap() + power,
        };
        let places = places(&a, a_power).cmp(&places(&b, b_power));
        places.then_with(|| {
            let longest = a.len().max(b.len());
            let padded = |digits: &[u8]| {
                let mut padded = digits.to_vec();
                padded.resize(longest, 0);
                padded
            };
            padded(&a).cmp(&padded(&b))
        })
    };
    match (a_minus, b_minus) {
        (false, false) => sizes(),
        (true, true) => sizes().reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

fn number_of(value: bool) -> Json {
    Json::Number(u8::from(value).to_string())
}

/// Whether two values are the same.
pub fn equal(a: &Json, b: &Json, mistake: Mistake) -> bool {
    match (a, b) {
        (Json::Null, Json::Null) => true,
        (Json::Bool(a), Json::Bool(b)) => a == b,
        (Json::Bool(a), Json::Number(_)) if mistake == Mistake::Truth => {
            equal(&number_of(*a), b, mistake)
        }
        (Json::Number(_), Json::Bool(b)) if mistake == Mistake::Truth => {
            equal(a, &number_of(*b), mistake)
        }
        (Json::Number(a), Json::Number(b)) => order_of_numbers(a, b, mistake).is_eq(),
        (Json::Text(a), Json::Text(b)) => a == b,
        (Json::List(a), Json::List(b)) => {
            let same = a.iter().zip(b).all(|(a, b)| equal(a, b, mistake));
            same && (a.len() == b.len() || mistake == Mistake::Prefix)
        }
        (Json::Map(a), Json::Map(b)) if mistake == Mistake::Members => {
            let mut pairs = a.iter().zip(b);
            a.len() == b.len() && pairs.all(|(a, b)| a.0 == b.0 && equal(&a.1, &b.1, mistake))
        }
        (Json::Map(a), Json::Map(b)) => {
            let found = |name: &str| b.iter().find(|(other, _)| other == name);
            let same = |(name, value): &(String, Json)| {
                found(name).is_some_and(|(_, other)| equal(value, other, mistake))
            };
            a.len() == b.len() && a.iter().all(same)
        }
        _ => false,
    }
}

fn rank(value: &Json) -> u8 {
    match value {
        Json::Null => 0,
        Json::Bool(_) => 1,
        Json::Number(_) => 2,
        Json::Text(_) => 3,
        Json::List(_) => 4,
        Json::Map(_) => 5,
    }
}

/// The order of two values; none if they have none. Maps are not asked for.
pub fn order(a: &Json, b: &Json, top: bool, mistake: Mistake) -> Option<Ordering> {
    match (a, b) {
        (Json::Null, Json::Null) => (!top || mistake == Mistake::Null).then_some(Ordering::Equal),
        (Json::Bool(a), Json::Bool(b)) => Some(a.cmp(b)),
        (Json::Number(a), Json::Number(b)) => Some(order_of_numbers(a, b, mistake)),
        (Json::Text(a), Json::Text(b)) => Some(a.cmp(b)),
        (Json::List(a), Json::List(b)) => {
            for (a, b) in a.iter().zip(b) {
                let found = order(a, b, false, mistake)?;
                if found.is_ne() {
                    return Some(found);
                }
            }
            Some(a.len().cmp(&b.len()))
        }
        _ if mistake == Mistake::Kinds => Some(rank(a).cmp(&rank(b))),
        _ => None,
    }
}

/// A generator of values as texts.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(count).unwrap()).unwrap()
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn number(&mut self) -> String {
        const EDGES: &[&str] = &[
            "0",
            "-0",
            "0.0",
            "-0.0",
            "1",
            "1.0",
            "-1",
            "2",
            "10",
            "0.1",
            "0.2",
            "0.3",
            "9007199254740991",
            "9007199254740992",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775808",
            "-9223372036854775809",
            "18446744073709551615",
            "18446744073709551616",
            "18446744073709551617",
            "170141183460469231731687303715884105727",
            "170141183460469231731687303715884105728",
            "-170141183460469231731687303715884105728",
            "-170141183460469231731687303715884105729",
            "340282366920938463463374607431768211455",
            "340282366920938463463374607431768211456",
            "1e23",
            "99999999999999991611392",
            "99999999999999991611393",
            "100000000000000000000000",
            "1e308",
            "1.7976931348623157e308",
            "1.7976931348623159e308",
            "1e400",
            "1e-400",
            "5e-324",
            "2e-324",
            "1e999999999",
            "0.1000000000000000055511151231257827",
            "0.10000000000000000555111512312578270211815834045410156250",
            "4111111111111111111111",
            "1.10",
            "5e10",
        ];
        match self.below(4) {
            0 | 1 => self.pick(EDGES).to_owned(),
            2 => {
                let count = 1 + self.below(40);
                let mut text: String = (0..count)
                    .map(|_| char::from(b'0' + u8::try_from(self.below(10)).unwrap()))
                    .collect();
                text = match text.trim_start_matches('0') {
                    "" => "0".to_owned(),
                    trimmed => trimmed.to_owned(),
                };
                if self.below(2) == 0 {
                    let fraction = 1 + self.below(20);
                    text.push('.');
                    for _ in 0..fraction {
                        text.push(char::from(b'0' + u8::try_from(self.below(10)).unwrap()));
                    }
                }
                if self.below(3) == 0 {
                    let exponent = self.below(700);
                    text.push_str(&format!(
                        "{}{exponent}",
                        self.pick(&["e", "E-", "e+", "e-0"])
                    ));
                }
                format!("{}{text}", self.pick(&["", "-"]))
            }
            _ => {
                // A float as it is printed.
                let float = f64::from_bits(self.next());
                match float.is_finite() {
                    true => format!("{float:?}"),
                    false => "3".to_owned(),
                }
            }
        }
    }

    /// Another text of the same number.
    fn rewritten(&mut self, number: &str) -> String {
        let (minus, all, power) = digits(number, Mistake::None);
        if all.is_empty() {
            return self.pick(&["0", "-0", "0.00", "0e5", "-0E-7"]).to_owned();
        }
        let sign = if minus { "-" } else { "" };
        let mut text: String = all.iter().map(|digit| char::from(b'0' + digit)).collect();
        let zeros = self.below(5);
        text.push_str(&"0".repeat(zeros));
        let mut power = power - i64::try_from(zeros).unwrap();
        if (0..60).contains(&power) && self.below(2) == 0 {
            text.push_str(&"0".repeat(usize::try_from(power).unwrap()));
            return format!(
                "{sign}{text}{}",
                self.pick(&["", ".0", ".000", "e0", "E+0"])
            );
        }
        if text.len() > 1 && self.below(2) == 0 {
            let at = 1 + self.below(text.len() - 1);
            power += i64::try_from(text.len() - at).unwrap();
            text.insert(at, '.');
        }
        format!("{sign}{text}e{power}")
    }

    /// A number that is very near, or the same.
    fn near(&mut self, number: &str) -> String {
        let mantissa = number.find(['e', 'E']).unwrap_or(number.len());
        let (mantissa, exponent) = number.split_at(mantissa);
        match self.below(3) {
            0 => match mantissa.contains('.') {
                true => format!("{mantissa}0000001{exponent}"),
                false => format!("{mantissa}.0000001{exponent}"),
            },
            1 => {
                let mut bytes = mantissa.as_bytes().to_vec();
                let last = bytes.len() - 1;
                bytes[last] = b'0' + (bytes[last] - b'0' + 1) % 10;
                format!("{}{exponent}", String::from_utf8(bytes).unwrap())
            }
            _ => match number.strip_prefix('-') {
                Some(positive) => positive.to_owned(),
                None => format!("-{number}"),
            },
        }
    }

    fn value(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 10 } else { 14 }) {
            0 => "null".to_owned(),
            1 => self.pick(&["true", "false"]).to_owned(),
            2 => {
                let texts = [
                    "\"\"", "\"5\"", "\"1.0\"", "\"a\"", "\"B\"", "\"10\"", "\"é\"", "\"true\"",
                ];
                self.pick(&texts).to_owned()
            }
            3..10 => self.number(),
            10..12 => {
                let items: Vec<_> = (0..self.below(4)).map(|_| self.value(depth - 1)).collect();
                format!("[{}]", items.join(","))
            }
            _ => {
                let names = ["a", "b", "c"];
                let from = self.below(3);
                let members: Vec<_> = (0..self.below(4))
                    .map(|at| {
                        let name = names[(at + from) % 3];
                        format!("\"{name}\":{}", self.value(depth - 1))
                    })
                    .collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }

    /// Another value that is likely to be equal or near.
    fn kin(&mut self, value: &Json) -> String {
        if self.below(12) == 0 {
            return self.value(1);
        }
        match value {
            Json::Number(number) => match self.below(3) {
                0 => self.near(number),
                _ => self.rewritten(number),
            },
            Json::Bool(value) if self.below(3) == 0 => u8::from(*value).to_string(),
            Json::Text(text) if self.below(3) == 0 && text.parse::<f64>().is_ok() => text.clone(),
            Json::Null => "null".to_owned(),
            Json::Bool(value) => value.to_string(),
            Json::Text(text) => format!("\"{text}\""),
            Json::List(items) => {
                let mut items: Vec<_> = items.iter().map(|item| self.kin(item)).collect();
                if self.below(6) == 0 {
                    items.push("1".to_owned());
                }
                format!("[{}]", items.join(","))
            }
            Json::Map(members) => {
                let mut members: Vec<_> = members
                    .iter()
                    .map(|(name, value)| format!("\"{name}\":{}", self.kin(value)))
                    .collect();
                if self.below(2) == 0 {
                    members.reverse();
                }
                format!("{{{}}}", members.join(","))
            }
        }
    }

    /// Two values, which are often equal or near.
    pub fn pair(&mut self) -> (String, String) {
        let a = self.value(2);
        let b = match self.below(4) {
            0 => self.value(2),
            _ => self.kin(&read(&a)),
        };
        (a, b)
    }
}

/// Whether a value has an object in it.
pub fn has_map(value: &Json) -> bool {
    match value {
        Json::List(items) => items.iter().any(has_map),
        Json::Map(_) => true,
        _ => false,
    }
}
