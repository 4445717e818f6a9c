//! Filters of jq that jaq does not have, or that answer otherwise there.

use std::fmt::Write;
use std::num::FpCategory;

use jaq_core::box_iter::box_once;
use jaq_core::native::{Filter, Fun, bome, unary, v};
use jaq_core::val::ValXs;
use jaq_core::{Bind, Cv, Error, Exn, Native, RunPtr};

use crate::filter::Data;
use crate::json;
use crate::number::Num;
use crate::patterns;
use crate::value::{Val, fail, fail_of, positions, shown, unique};

type Result<T> = std::result::Result<T, Error<Val>>;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

pub(crate) fn functions() -> impl Iterator<Item = Fun<Data>> {
    let mut all = values().into_vec();
    for filters in [texts(), numbers(), paths(), formats(), patterns::filters()] {
        all.extend(filters.into_vec());
    }
    all.into_iter()
        .map(|(name, arguments, run)| (name, arguments, Native::<Data>::new(run)))
}

fn values() -> Box<[Filter<RunPtr<Data>>]> {
    Box::new([
        ("type", v(0), |cv| bome(Ok(Val::text(cv.1.kind())))),
        ("length", v(0), |cv| {
            bome(match &cv.1 {
                Val::Null => Ok(Val::from(0_usize)),
                Val::Bool(_) => Err(fail_of(&cv.1, "has no length")),
                Val::Num(Num::Int(int)) => match int.checked_abs() {
                    Some(int) => Ok(Val::Num(Num::Int(int))),
                    None => Ok(Val::from(2_f64.powi(63))),
                },
                Val::Num(number) => Ok(Val::from(number.to_f64().abs())),
                Val::Str(text) => Ok(Val::from(text.chars().count())),
                Val::Arr(items) => Ok(Val::from(items.len())),
                Val::Obj(members) => Ok(Val::from(members.len())),
            })
        }),
        ("keys", v(0), |cv| {
            bome(keys(&cv.1).map(|mut keys| {
                keys.sort();
                Val::list(keys)
            }))
        }),
        ("keys_unsorted", v(0), |cv| bome(keys(&cv.1).map(Val::list))),
        ("has", v(1), |cv| {
            unary(cv, |value, key| {
                Ok(Val::Bool(match (&value, &key) {
                    (Val::Null, _) => false,
                    (Val::Obj(members), Val::Str(key)) => members.contains_key(key.as_str()),
                    (Val::Arr(items), Val::Num(at)) => {
                        let end = items.len() as f64;
                        (0.0..end).contains(&at.to_f64())
                    }
                    _ => {
                        let (kind, by) = (value.kind(), key.kind());
                        let text = format!("Cannot check whether {kind} has a {by} key");
                        return Err(fail(text));
                    }
                }))
            })
        }),
        ("contains", v(1), |cv| {
            unary(cv, |value, part| contains(&value, &part).map(Val::Bool))
        }),
        ("indices", v(1), |cv| unary(cv, indices)),
        ("reverse", v(0), |cv| {
            bome(match cv.1 {
                Val::Null => Ok(Val::list(Vec::new())),
                Val::Str(text) => Ok(Val::text(text.chars().rev().collect::<String>())),
                Val::Arr(items) => {
                    let mut items = unique(items);
                    items.reverse();
                    Ok(Val::list(items))
                }
                other => {
                    let text = format!("Cannot reverse {}", shown(&other));
                    Err(fail(text))
                }
            })
        }),
        ("flatten", v(1), |cv| {
            unary(cv, |value, depth| {
                let Val::Num(depth) = depth else {
                    return Err(fail("flatten depth must be a number"));
                };
                if depth.to_f64() < 0.0 {
                    return Err(fail("flatten depth must not be negative"));
                }
                let mut flat = Vec::new();
                flatten(value, depth.to_f64(), &mut flat)?;
                Ok(Val::list(flat))
            })
        }),
        ("bsearch", v(1), |cv| {
            unary(cv, |value, item| {
                let Some(items) = value.as_list() else {
                    return Err(fail_of(&value, "cannot be searched from"));
                };
                // Also for a position that is not there.
                let signed = |at: usize| isize::try_from(at).unwrap_or(isize::MAX);
                Ok(Val::from(match items.binary_search(&item) {
                    Ok(at) => signed(at),
                    Err(at) => -1 - signed(at),
                }))
            })
        }),
    ])
}

fn keys(value: &Val) -> Result<Vec<Val>> {
    match value {
        Val::Arr(items) => Ok((0..items.len()).map(Val::from).collect()),
        Val::Obj(members) => Ok(members.keys().map(|key| Val::text(&**key)).collect()),
        other => Err(fail_of(other, "has no keys")),
    }
}

fn contains(value: &Val, part: &Val) -> Result<bool> {
    Ok(match (value, part) {
        (Val::Str(value), Val::Str(part)) => value.contains(part.as_str()),
        (Val::Arr(items), Val::Arr(parts)) => {
            let is_in = |part| {
                items
                    .iter()
                    .any(|item| contains(item, part).unwrap_or(false))
            };
            parts.iter().all(is_in)
        }
        (Val::Obj(members), Val::Obj(parts)) => parts.iter().all(|(key, part)| {
            let member = members.get(key);
            member.is_some_and(|member| contains(member, part).unwrap_or(false))
        }),
        _ if value.kind() == part.kind() => value == part,
        _ => {
            let (left, right) = (shown(value), shown(part));
            let text = format!("{left} and {right} cannot have their containment checked");
            return Err(fail(text));
        }
    })
}

fn indices(value: Val, part: Val) -> Result<Val> {
    match (&value, &part) {
        (Val::Null, _) => Ok(Val::Null),
        (Val::Arr(items), Val::Arr(part)) => Ok(positions(items, part)),
        (Val::Arr(items), part) => Ok(positions(items, std::slice::from_ref(part))),
        (Val::Str(text), Val::Str(part)) => {
            if part.is_empty() {
                return Ok(Val::Null);
            }
            let starts = text.char_indices().enumerate();
            let found = starts.filter(|(_, (byte, _))| {
                let rest = text.get(*byte..).unwrap_or_default();
                rest.starts_with(part.as_str())
            });
            Ok(found.map(|(at, _)| Val::from(at)).collect())
        }
        _ => value.get(&part),
    }
}

fn flatten(value: Val, depth: f64, flat: &mut Vec<Val>) -> Result<()> {
    use jaq_core::ValT;
    for item in value.values() {
        match item? {
            list @ Val::Arr(_) if depth > 0.0 => flatten(list, depth - 1.0, flat)?,
            item => flat.push(item),
        }
    }
    Ok(())
}

fn texts() -> Box<[Filter<RunPtr<Data>>]> {
    Box::new([
        ("tojson", v(0), |cv| {
            bome(match json::is_deeper(&cv.1, json::DEPTH) {
                true => Err(fail(format!(
                    "it is nested deeper than {} levels",
                    json::DEPTH
                ))),
                false => Ok(Val::text(cv.1.to_json())),
            })
        }),
        ("fromjson", v(0), |cv| {
            bome(match cv.1.as_text() {
                None => Err(fail_of(&cv.1, "only strings can be parsed")),
                Some(text) => json::read(text.as_bytes())
                    .map_err(|error| fail(format!("{} is not JSON: {error}", shown(&cv.1)))),
            })
        }),
        ("tonumber", v(0), |cv| {
            bome(match &cv.1 {
                Val::Num(_) => Ok(cv.1),
                Val::Str(text) => {
                    let number = number(text).map(Val::Num);
                    number.ok_or_else(|| fail_of(&cv.1, "cannot be parsed as a number"))
                }
                other => Err(fail_of(other, "cannot be parsed as a number")),
            })
        }),
        ("utf8bytelength", v(0), |cv| {
            bome(match cv.1.as_text() {
                Some(text) => Ok(Val::from(text.len())),
                None => Err(fail_of(&cv.1, "only strings have UTF-8 byte length")),
            })
        }),
        ("explode", v(0), |cv| {
            bome(match cv.1.as_text() {
                Some(text) => {
                    let code = |one| Val::Num(Num::Int(i64::from(u32::from(one))));
                    Ok(text.chars().map(code).collect())
                }
                None => Err(fail_of(&cv.1, "cannot be exploded")),
            })
        }),
        ("implode", v(0), |cv| bome(implode(&cv.1))),
        ("ascii_downcase", v(0), |cv| {
            bome(match cv.1.as_text() {
                Some(text) => Ok(Val::text(text.to_ascii_lowercase())),
                None => Err(fail("ascii_downcase input must be a string")),
            })
        }),
        ("ascii_upcase", v(0), |cv| {
            bome(match cv.1.as_text() {
                Some(text) => Ok(Val::text(text.to_ascii_uppercase())),
                None => Err(fail("ascii_upcase input must be a string")),
            })
        }),
        ("startswith", v(1), |cv| {
            unary(cv, |text, part| match (&text, &part) {
                (Val::Str(text), Val::Str(part)) => Ok(Val::Bool(text.starts_with(&**part))),
                _ => Err(fail("startswith() requires string inputs")),
            })
        }),
        ("endswith", v(1), |cv| {
            unary(cv, |text, part| match (&text, &part) {
                (Val::Str(text), Val::Str(part)) => Ok(Val::Bool(text.ends_with(&**part))),
                _ => Err(fail("endswith() requires string inputs")),
            })
        }),
        ("ltrimstr", v(1), |cv| {
            unary(cv, |text, part| {
                Ok(match (text.as_text(), part.as_text()) {
                    (Some(whole), Some(part)) => match whole.strip_prefix(part) {
                        Some(rest) => Val::text(rest),
                        None => text,
                    },
                    _ => text,
                })
            })
        }),
        ("rtrimstr", v(1), |cv| {
            unary(cv, |text, part| {
                Ok(match (text.as_text(), part.as_text()) {
                    (Some(whole), Some(part)) => match whole.strip_suffix(part) {
                        Some(rest) => Val::text(rest),
                        None => text,
                    },
                    _ => text,
                })
            })
        }),
        ("trim", v(0), |cv| bome(trimmed(&cv.1, str::trim))),
        ("ltrim", v(0), |cv| bome(trimmed(&cv.1, str::trim_start))),
        ("rtrim", v(0), |cv| bome(trimmed(&cv.1, str::trim_end))),
        ("split", v(1), |cv| {
            unary(cv, |text, separator| match (&text, &separator) {
                (Val::Str(_), Val::Str(_)) => text / separator,
                _ => Err(fail("split input and separator must be strings")),
            })
        }),
        ("join", v(1), |cv| {
            unary(cv, |items, separator| join(items, &separator))
        }),
    ])
}

/// A number as people write it: also with blanks around it, a `+`, or without digits on one side
/// of the point.
fn number(text: &str) -> Option<Num> {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned {
        "nan" | "NaN" => return Some(Num::Float(f64::NAN)),
        "Infinity" if text.starts_with('-') => return Some(Num::Float(f64::NEG_INFINITY)),
        "Infinity" => return Some(Num::Float(f64::INFINITY)),
        _ => {}
    }
    let is_digit = |one: &u8| matches!(one, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    if !unsigned.bytes().all(|one| is_digit(&one)) {
        return None;
    }
    // JSON has no number `+1` or `01`: the digits of one of these are not kept.
    let zeros = unsigned.len() - unsigned.trim_start_matches('0').len();
    let has_zeros =
        zeros > 1 || (zeros == 1 && unsigned.as_bytes().get(1).is_some_and(u8::is_ascii_digit));
    if text.starts_with('+') || has_zeros {
        let float: f64 = text.parse().ok()?;
        return Some(match text.parse() {
            Ok(int) => Num::Int(int),
            Err(_) => float.into(),
        });
    }
    Num::parse(text)
}

fn implode(value: &Val) -> Result<Val> {
    let Some(items) = value.as_list() else {
        return Err(fail("implode input must be an array"));
    };
    let mut text = String::with_capacity(items.len());
    for item in items {
        let code = match item {
            Val::Num(code) if !code.is_nan() => code.to_f64(),
            _ => {
                let what = "can't be imploded, unicode codepoint needs to be numeric";
                return Err(fail_of(item, what));
            }
        };
        let code = u32::try_from(code as i64).ok();
        // As in jq, the replacement character stands for a number that is no character.
        text.push(
            code.and_then(char::from_u32)
                .unwrap_or(char::REPLACEMENT_CHARACTER),
        );
    }
    Ok(Val::text(text))
}

fn trimmed(value: &Val, trim: fn(&str) -> &str) -> Result<Val> {
    match value.as_text() {
        Some(text) => Ok(Val::text(trim(text))),
        None => Err(fail_of(value, "cannot be trimmed")),
    }
}

fn join(items: Val, separator: &Val) -> Result<Val> {
    use jaq_core::ValT;
    let mut joined: Option<Val> = None;
    for item in items.values() {
        let item = match item? {
            Val::Null => Val::text(""),
            item @ (Val::Bool(_) | Val::Num(_)) => item.into_string(),
            item => item,
        };
        let before = match joined {
            None => Val::text(""),
            Some(before) => (before + separator.clone())?,
        };
        joined = Some((before + item)?);
    }
    Ok(joined.unwrap_or_else(|| Val::text("")))
}

fn numbers() -> Box<[Filter<RunPtr<Data>>]> {
    Box::new([
        ("nan", v(0), |_| bome(Ok(Val::from(f64::NAN)))),
        ("infinite", v(0), |_| bome(Ok(Val::from(f64::INFINITY)))),
        ("isnan", v(0), |cv| {
            bome(float(&cv.1).map(|it| it.is_nan().into()))
        }),
        ("isinfinite", v(0), |cv| {
            bome(float(&cv.1).map(|it| it.is_infinite().into()))
        }),
        ("isnormal", v(0), |cv| {
            bome(float(&cv.1).map(|it| (it.classify() == FpCategory::Normal).into()))
        }),
        ("floor", v(0), |cv| bome(rounded(&cv.1, f64::floor))),
        ("ceil", v(0), |cv| bome(rounded(&cv.1, f64::ceil))),
        ("round", v(0), |cv| bome(rounded(&cv.1, f64::round))),
        ("trunc", v(0), |cv| bome(rounded(&cv.1, f64::trunc))),
        ("abs", v(0), |cv| {
            bome(match cv.1 < Val::from(0_usize) {
                true => -cv.1,
                false => Ok(cv.1),
            })
        }),
        ("range", v(3), |mut cv| {
            let by = cv.0.pop_var();
            let upto = cv.0.pop_var();
            range(cv.0.pop_var(), upto, by)
        }),
    ])
}

fn float(value: &Val) -> Result<f64> {
    match value {
        Val::Num(number) => Ok(number.to_f64()),
        other => Err(fail_of(other, "number required")),
    }
}

fn rounded(value: &Val, round: fn(f64) -> f64) -> Result<Val> {
    match value {
        Val::Num(Num::Int(_)) => Ok(value.clone()),
        other => float(other).map(|number| Val::from(round(number))),
    }
}

fn range<'a>(from: Val, upto: Val, by: Val) -> ValXs<'a, Val> {
    let (Val::Num(mut at), Val::Num(upto), Val::Num(by)) = (from, upto, by) else {
        return box_once(Err(fail("Range bounds must be numeric").into()));
    };
    let step = by.to_f64();
    Box::new(std::iter::from_fn(move || {
        let is_inside = match step {
            step if step > 0.0 => at < upto,
            step if step < 0.0 => at > upto,
            _ => false,
        };
        let next = at.compute(&by, i64::checked_add, std::ops::Add::add);
        is_inside.then(|| Ok(Val::Num(std::mem::replace(&mut at, next))))
    }))
}

fn paths() -> Box<[Filter<RunPtr<Data>>]> {
    let two_filters = || [Bind::Fun(()), Bind::Fun(())].into();
    Box::new([
        ("setpath", v(2), |mut cv| {
            let value = cv.0.pop_var();
            let path = cv.0.pop_var();
            let mut changed = cv.1;
            let Val::Arr(path) = path else {
                let text = "Path must be specified as an array";
                return box_once(Err(fail(text).into()));
            };
            let set = changed.change(&path, &mut |_| Ok(Some(value.clone())));
            box_once(set.map(|_| changed))
        }),
        ("delpaths", v(1), |cv| {
            unary(cv, |mut value, paths| {
                let Val::Arr(paths) = paths else {
                    return Err(fail("Paths must be specified as an array"));
                };
                value.remove(&paths)?;
                Ok(value)
            })
        }),
        ("_modify", two_filters(), |cv| box_once(modify(cv))),
    ])
}

/// `paths |= change`: the first output of the change takes the place of the value at each path. Values
/// for which the change has no output are removed at the end.
fn modify(mut cv: Cv<'_, Data>) -> std::result::Result<Val, Exn<'_, Val>> {
    let (change, change_cx) = cv.0.pop_fun();
    let (paths, paths_cx) = cv.0.pop_fun();
    let mut value = cv.1;
    let found = paths.paths((paths_cx, (value.clone(), Default::default())));
    let found = found.map(|found| {
        let (_, path) = found?;
        let mut path: Vec<Val> = path.iter().cloned().collect();
        path.reverse();
        Ok(path)
    });
    let found = found.collect::<std::result::Result<Vec<_>, Exn<'_, Val>>>()?;
    let mut removed = Vec::new();
    for path in found {
        let is_changed = value.change(&path, &mut |before| {
            change.run((change_cx.clone(), before)).next().transpose()
        })?;
        if !is_changed {
            removed.push(Val::list(path));
        }
    }
    value.remove(&removed)?;
    Ok(value)
}

fn formats() -> Box<[Filter<RunPtr<Data>>]> {
    Box::new([
        ("@text", v(0), |cv| bome(Ok(Val::text(plain(&cv.1))))),
        ("@json", v(0), |cv| bome(Ok(Val::text(cv.1.to_json())))),
        ("@csv", v(0), |cv| {
            let cell = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
            bome(row(&cv.1, "csv", ",", cell))
        }),
        ("@tsv", v(0), |cv| {
            let cell = |text: &str| {
                let text = text.replace('\\', "\\\\").replace('\t', "\\t");
                text.replace('\r', "\\r").replace('\n', "\\n")
            };
            bome(row(&cv.1, "tsv", "\t", cell))
        }),
        ("@html", v(0), |cv| {
            let text = plain(&cv.1).replace('&', "&amp;").replace('<', "&lt;");
            let text = text.replace('>', "&gt;").replace('\'', "&apos;");
            bome(Ok(Val::text(text.replace('"', "&quot;"))))
        }),
        ("@uri", v(0), |cv| {
            let mut out = String::new();
            for byte in plain(&cv.1).bytes() {
                match byte {
                    b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                        out.push(char::from(byte));
                    }
                    _ => {
                        // Writing to a text does not fail.
                        let _ = write!(out, "%{byte:02X}");
                    }
                }
            }
            bome(Ok(Val::text(out)))
        }),
        ("@sh", v(0), |cv| {
            let quoted = |item: &Val| match item {
                Val::Str(text) => Ok(format!("'{}'", text.replace('\'', "'\\''"))),
                Val::Arr(_) | Val::Obj(_) => Err(fail_of(item, "can not be escaped for shell")),
                other => Ok(other.to_json()),
            };
            let items = match &cv.1 {
                Val::Arr(items) => items.as_slice(),
                other => std::slice::from_ref(other),
            };
            let words: Result<Vec<_>> = items.iter().map(quoted).collect();
            bome(words.map(|words| Val::text(words.join(" "))))
        }),
        ("@base64", v(0), |cv| {
            bome(Ok(Val::text(encode(plain(&cv.1).as_bytes(), BASE64))))
        }),
        ("@base32", v(0), |cv| {
            bome(Ok(Val::text(encode(plain(&cv.1).as_bytes(), BASE32))))
        }),
        ("@base64d", v(0), |cv| {
            bome(decoded(&cv.1, BASE64, "base64"))
        }),
        ("@base32d", v(0), |cv| {
            bome(decoded(&cv.1, BASE32, "base32"))
        }),
    ])
}

fn plain(value: &Val) -> String {
    match value {
        Val::Str(text) => text.as_str().to_owned(),
        other => other.to_json(),
    }
}

fn row(value: &Val, name: &str, separator: &str, cell: fn(&str) -> String) -> Result<Val> {
    let Some(items) = value.as_list() else {
        let what = format!("cannot be {name}-formatted, only array");
        return Err(fail_of(value, &what));
    };
    let cell = |item: &Val| match item {
        Val::Null => Ok(String::new()),
        Val::Num(number) if number.is_nan() => Ok(String::new()),
        Val::Str(text) => Ok(cell(text)),
        Val::Arr(_) | Val::Obj(_) => {
            let what = format!("is not valid in a {name} row");
            Err(fail_of(item, &what))
        }
        other => Ok(other.to_json()),
    };
    let cells: Result<Vec<_>> = items.iter().map(cell).collect();
    Ok(Val::text(cells?.join(separator)))
}

/// Base 64 or 32, by the length of the alphabet.
fn encode(bytes: &[u8], alphabet: &[u8]) -> String {
    let bits = alphabet.len().ilog2();
    let mut out = String::with_capacity(bytes.len() * 2);
    let (mut held, mut count) = (0_u32, 0);
    let mask = (1 << bits) - 1;
    let mut push = |index: u32| {
        let letter = alphabet.get((index & mask) as usize);
        out.push(char::from(letter.copied().unwrap_or(b'=')));
    };
    for byte in bytes {
        held = (held << 8 | u32::from(*byte)) & 0xffff;
        count += 8;
        while count >= bits {
            count -= bits;
            push(held >> count);
        }
    }
    if count > 0 {
        push(held << (bits - count));
    }
    let group = if bits == 6 { 4 } else { 8 };
    while !out.len().is_multiple_of(group) {
        out.push('=');
    }
    out
}

/// Without regard to the padding, as in jq. Bytes that are not UTF-8 are replaced.
fn decoded(value: &Val, alphabet: &[u8], name: &str) -> Result<Val> {
    let text = plain(value);
    let bits = alphabet.len().ilog2();
    let mut bytes = Vec::with_capacity(text.len());
    let (mut held, mut count) = (0_u32, 0);
    let letters = text.trim_end_matches('=');
    for letter in letters.bytes() {
        let Some(index) = alphabet.iter().position(|it| *it == letter) else {
            let what = format!("is not valid {name} data");
            return Err(fail_of(value, &what));
        };
        held = (held << bits | u32::try_from(index).unwrap_or(0)) & 0xffff;
        count += bits;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(held >> count & 0xff).unwrap_or(0));
        }
    }
    // A whole letter is left over.
    if count >= bits {
        let what = format!("trailing {name} byte found");
        return Err(fail_of(value, &what));
    }
    Ok(Val::text(String::from_utf8_lossy(&bytes)))
}
