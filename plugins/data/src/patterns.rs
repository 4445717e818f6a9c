//! Regular expressions: the filters `test`, `match`, `capture`, `scan`, `split`, `sub` and their kin.

use std::cell::RefCell;
use std::rc::Rc;

use jaq_core::box_iter::{BoxIter, box_once};
use jaq_core::native::{Filter, bome, v};
use jaq_core::val::{ValX, ValXs};
use jaq_core::{Bind, Cv, Error, Exn, RunPtr};
use regex::{Captures, Regex, RegexBuilder};

use crate::filter::Data;
use crate::value::{Map, Val, fail, fail_of};

type Result<T> = std::result::Result<T, Error<Val>>;

/// Compiled patterns that an instance keeps. Each takes up to 10 MB, and usually 50 kB.
const KEPT: usize = 4;

thread_local! {
    static COMPILED: RefCell<Vec<(String, String, Pattern)>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone)]
struct Pattern {
    regex: Rc<Regex>,
    is_global: bool,
    skips_empty: bool,
}

pub(crate) fn filters() -> Box<[Filter<RunPtr<Data>>]> {
    let two_and_filter = || [Bind::Var(()), Bind::Fun(()), Bind::Var(())].into();
    Box::new([
        ("test", v(2), |cv| {
            bome(on(cv, "", |text, pattern| {
                let is_match = match pattern.skips_empty {
                    false => pattern.regex.is_match(text),
                    true => !found(text, pattern).is_empty(),
                };
                Ok(Val::Bool(is_match))
            }))
        }),
        ("match", v(2), |cv| {
            each(on(cv, "", |text, pattern| {
                let mut offsets = Offsets::new(text);
                let found = found(text, pattern);
                Ok(found
                    .iter()
                    .map(|one| described(one, pattern, &mut offsets))
                    .collect())
            }))
        }),
        ("capture", v(2), |cv| {
            each(on(cv, "", |text, pattern| {
                let found = found(text, pattern);
                Ok(found.iter().map(|one| named(one, pattern)).collect())
            }))
        }),
        ("scan", v(2), |cv| {
            each(on(cv, "g", |text, pattern| {
                let part = |captures: &Captures<'_>, at| match captures.get(at) {
                    Some(part) => Val::text(part.as_str()),
                    None => Val::Null,
                };
                let found = found(text, pattern);
                let scanned = found.iter().map(|one| match one.len() {
                    1 => part(one, 0),
                    groups => (1..groups).map(|at| part(one, at)).collect(),
                });
                Ok(scanned.collect())
            }))
        }),
        ("split", v(2), |cv| {
            bome(on(cv, "g", |text, pattern| {
                let mut parts = Vec::new();
                let mut from = 0;
                for one in found(text, pattern) {
                    let range = one.get_match().range();
                    parts.push(Val::text(text.get(from..range.start).unwrap_or_default()));
                    from = range.end;
                }
                parts.push(Val::text(text.get(from..).unwrap_or_default()));
                Ok(Val::list(parts))
            }))
        }),
        ("sub", two_and_filter(), |cv| substituted(cv, "")),
        ("gsub", two_and_filter(), |cv| substituted(cv, "g")),
    ])
}

/// Runs on the text and the pattern of a filter with the arguments `re; flags`.
fn on(
    mut cv: Cv<'_, Data>,
    more: &str,
    run: impl FnOnce(&str, &Pattern) -> Result<Val>,
) -> Result<Val> {
    let flags = cv.0.pop_var();
    let pattern = cv.0.pop_var();
    run(matched(&cv.1)?, &compiled(&pattern, &flags, more)?)
}

fn matched(input: &Val) -> Result<&str> {
    let text = input.as_text();
    text.ok_or_else(|| fail_of(input, "cannot be matched, as it is not a string"))
}

fn each<'a>(found: Result<Val>) -> ValXs<'a, Val> {
    match found {
        Ok(found) => Box::new(jaq_core::ValT::values(found).map(|item| item.map_err(Exn::from))),
        Err(error) => box_once(Err(error.into())),
    }
}

fn compiled(pattern: &Val, flags: &Val, more: &str) -> Result<Pattern> {
    let not_text = |value| fail_of(value, "is not a string");
    let flags = match flags {
        Val::Null => "",
        flags => flags.as_text().ok_or_else(|| not_text(flags))?,
    };
    let pattern = pattern.as_text().ok_or_else(|| not_text(pattern))?;
    let flags = format!("{flags}{more}");
    COMPILED.with_borrow_mut(|kept| {
        let is_known =
            |(text, with, _): &(String, String, Pattern)| text == pattern && *with == flags;
        if let Some((_, _, known)) = kept.iter().find(|known| is_known(known)) {
            return Ok(known.clone());
        }
        let built = build(pattern, &flags)?;
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((pattern.to_owned(), flags, built.clone()));
        Ok(built)
    })
}

fn build(pattern: &str, flags: &str) -> Result<Pattern> {
    let mut builder = RegexBuilder::new(pattern);
    let (mut is_global, mut skips_empty) = (false, false);
    for flag in flags.chars() {
        match flag {
            'g' => is_global = true,
            'n' => skips_empty = true,
            'i' => {
                builder.case_insensitive(true);
            }
            'x' => {
                builder.ignore_whitespace(true);
            }
            // Of `^` and `$`, which mean the ends of the text without it, too.
            's' => {}
            'p' => {
                builder.dot_matches_new_line(true);
            }
            'l' => return Err(fail("the flag `l` (the longest match) is not supported")),
            _ => return Err(fail(format!("{flags} is not a valid modifier string"))),
        }
    }
    let regex = builder.build().map_err(|error| {
        let text = error.to_string();
        // The last line names the mistake; those before draw the place.
        let why = text.lines().last().unwrap_or_default();
        let why = why.trim_start_matches("error: ");
        fail(format!("Regex failure: {why}"))
    })?;
    Ok(Pattern {
        regex: Rc::new(regex),
        is_global,
        skips_empty,
    })
}

fn found<'t>(text: &'t str, pattern: &Pattern) -> Vec<Captures<'t>> {
    let all = pattern.regex.captures_iter(text);
    let all = all.filter(|one| !pattern.skips_empty || !one.get_match().is_empty());
    all.take(if pattern.is_global { usize::MAX } else { 1 })
        .collect()
}

/// The members of `match`'s output.
fn described(one: &Captures<'_>, pattern: &Pattern, offsets: &mut Offsets<'_>) -> Val {
    let mut parts = one
        .iter()
        .zip(pattern.regex.capture_names())
        .map(|(part, name)| {
            let (offset, length, text) = match part {
                Some(part) => {
                    let offset = offsets.of(part.start());
                    let length = part.as_str().chars().count();
                    (Val::from(offset), length, Val::text(part.as_str()))
                }
                None => (Val::from(-1_isize), 0, Val::Null),
            };
            let members = [
                ("offset", offset),
                ("length", length.into()),
                ("string", text),
            ];
            let members = members.into_iter().map(|(key, value)| (key.into(), value));
            (members.collect::<Map>(), name)
        });
    let (mut whole, _) = parts.next().unwrap_or_default();
    let captures = parts.map(|(mut group, name)| {
        let name = name.map(Val::text).unwrap_or_default();
        group.insert("name".into(), name);
        Val::object(group)
    });
    whole.insert("captures".into(), captures.collect());
    Val::object(whole)
}

/// The named groups of a match.
fn named(one: &Captures<'_>, pattern: &Pattern) -> Val {
    let parts = one.iter().zip(pattern.regex.capture_names());
    let members = parts.filter_map(|(part, name)| {
        let text = part.map(|part| Val::text(part.as_str()));
        Some((name?.into(), text.unwrap_or_default()))
    });
    Val::object(members.collect())
}

/// `sub` and `gsub`. A replacement with several outputs makes several texts: the first one of the
/// first outputs, and so on.
fn substituted<'a>(mut cv: Cv<'a, Data>, more: &str) -> ValXs<'a, Val> {
    let flags = cv.0.pop_var();
    let (replacement, cx) = cv.0.pop_fun();
    let pattern = cv.0.pop_var();
    let run = || -> std::result::Result<Vec<Val>, Exn<'a, Val>> {
        let text = matched(&cv.1)?;
        let pattern = compiled(&pattern, &flags, more)?;
        let mut texts: Vec<Val> = Vec::new();
        let mut from = 0;
        for one in found(text, &pattern) {
            let range = one.get_match().range();
            let between = Val::text(text.get(from..range.start).unwrap_or_default());
            let outputs = replacement.run((cx.clone(), named(&one, &pattern)));
            for (at, output) in outputs.enumerate() {
                let part = (between.clone() + output?)?;
                match texts.get_mut(at) {
                    Some(text) => *text = (std::mem::take(text) + part)?,
                    None => texts.push(part),
                }
            }
            from = range.end;
        }
        if texts.is_empty() {
            return Ok(vec![cv.1.clone()]);
        }
        let rest = Val::text(text.get(from..).unwrap_or_default());
        let ended = texts.into_iter().map(|text| Ok((text + rest.clone())?));
        ended.collect()
    };
    let texts: BoxIter<'a, ValX<'a, Val>> = match run() {
        Ok(texts) => Box::new(texts.into_iter().map(Ok)),
        Err(error) => box_once(Err(error)),
    };
    texts
}

/// Counts characters up to a byte, from the byte that was asked for last.
struct Offsets<'t> {
    text: &'t str,
    bytes: usize,
    characters: usize,
}

impl<'t> Offsets<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            bytes: 0,
            characters: 0,
        }
    }

    fn of(&mut self, byte: usize) -> usize {
        let characters = |from, to| {
            let between = self.text.get(from..to).unwrap_or_default();
            between.chars().count()
        };
        if byte < self.bytes {
            self.characters -= characters(byte, self.bytes);
        } else {
            self.characters += characters(self.bytes, byte);
        }
        self.bytes = byte;
        self.characters
    }
}
