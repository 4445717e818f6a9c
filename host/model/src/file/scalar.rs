//! The meaning of unquoted text: the core schema of YAML 1.2, and nothing of YAML 1.1.
//!
//! If the two silently disagree, so that a person and a parser could read different values, the
//! value is refused.

use serde_json::Number;

use super::tree::Kind;
use crate::decimal::Decimal;

/// The reason why text without quotes is refused.
pub(super) struct Ambiguous {
    pub(super) message: String,
    pub(super) help: String,
}

/// Resolves text without quotes.
pub(super) fn resolve(text: &str) -> Result<Kind, Ambiguous> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Kind::Null),
        "true" | "True" | "TRUE" => return Ok(Kind::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Kind::Bool(false)),
        _ => {}
    }
    if is_special_float(text) {
        return Err(Ambiguous {
            message: format!("`{text}` is a number that JSON does not have"),
            help: "put it in quotes if it is text".to_owned(),
        });
    }
    if let Some(number) = prefixed(text, "0o", 8).or_else(|| prefixed(text, "0x", 16)) {
        return number
            .map(|number| Kind::Number(number.into()))
            .ok_or_else(|| too_long(text));
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return integer(text, digits);
    }
    if is_float(digits) {
        return float(text);
    }
    Ok(Kind::Text {
        text: text.to_owned(),
        plain: true,
    })
}

fn integer(text: &str, digits: &str) -> Result<Kind, Ambiguous> {
    if digits.len() > 1 && digits.starts_with('0') {
        return Err(Ambiguous {
            message: format!("`{text}` begins with a zero: some readers take it for octal"),
            help: format!("put it in quotes if it is text (`\"{text}\"`), or leave the zero out"),
        });
    }
    let plain = text.strip_prefix('+').unwrap_or(text);
    let number = plain.parse::<i64>().map(Number::from);
    let number = number.or_else(|_| plain.parse::<u64>().map(Number::from));
    number.map(Kind::Number).map_err(|_| too_long(text))
}

fn too_long(text: &str) -> Ambiguous {
    Ambiguous {
        message: format!("`{text}` is an integer of more than 64 bits"),
        help: "put it in quotes".to_owned(),
    }
}

fn float(text: &str) -> Result<Kind, Ambiguous> {
    let float = text.parse::<f64>().unwrap_or(f64::NAN);
    let Some(number) = Number::from_f64(float) else {
        return Err(Ambiguous {
            message: format!("`{text}` is a number too large to be one"),
            help: "put it in quotes".to_owned(),
        });
    };
    // YAML allows a plus, and no digit before the point.
    let plain = text.strip_prefix('+').unwrap_or(text);
    let plain = match plain.split_once('.') {
        Some((sign @ ("" | "-"), fraction)) => format!("{sign}0.{fraction}"),
        _ => plain.to_owned(),
    };
    if Decimal::read(&plain) != Decimal::of_float(float) {
        return Err(Ambiguous {
            message: format!("`{text}` has more digits than a number keeps: it would be {number}"),
            help: "put it in quotes if it is text, or leave the last digits out".to_owned(),
        });
    }
    Ok(Kind::Number(number))
}

fn prefixed(text: &str, prefix: &str, radix: u32) -> Option<Option<u64>> {
    let digits = text.strip_prefix(prefix)?;
    let valid = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    valid.then(|| u64::from_str_radix(digits, radix).ok())
}

fn is_special_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

/// `( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
fn is_float(digits: &str) -> bool {
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && all_digits(fraction),
        Some((whole, fraction)) => all_digits(whole) && all_digits(fraction),
        None => !mantissa.is_empty() && all_digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && all_digits(exponent)
    });
    mantissa_fits && exponent_fits
}
