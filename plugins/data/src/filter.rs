//! Compiles and runs jq filters. An instance caches compiled filters as long as it is reused.

use jaq_core::load::{Arena, File, Loader, lex, parse, span};
use jaq_core::{Compiler, Ctx, Vars, compile, data, load};
use jaq_json::{Val, read};
use std::cell::RefCell;
use std::rc::Rc;
use windlass::prelude::*;

use crate::advice;

type Lut = data::JustLut<Val>;
type Filter = jaq_core::Filter<Lut>;

/// More filters than one workflow probably has.
const KEPT: usize = 32;

/// Filters that read the environment or the clock, which a pure component does not have.
const IMPURE: [&str; 2] = ["env", "now"];

thread_local! {
    static COMPILED: RefCell<Vec<(String, Rc<Filter>)>> = const { RefCell::new(Vec::new()) };
}

/// The first output of a filter over a JSON text, as JSON text.
pub(crate) fn run(code: &str, input: &[u8]) -> Result<Vec<u8>> {
    let filter = compiled(code)?;
    let input = read::parse_single(input)
        .map_err(|error| Error::invalid(format!("the input is not JSON: {error}")))?;
    let cx = Ctx::<Lut>::new(&filter.lut, Vars::new([]));
    let first = filter.id.run((cx, input)).next();
    let output = match first {
        None => return Ok(b"null".to_vec()),
        Some(Ok(output)) => output,
        Some(Err(exception)) => {
            let Ok(error) = exception.get_err() else {
                return Err(Error::invalid("the filter failed: it halts"));
            };
            let failure = Error::invalid(format!("the filter failed: {error}"));
            // `error({..})` in a filter gives data to the conditions of the workflow.
            let value = error.into_val().to_string();
            return Err(match windlass::serde_json::from_str::<Value>(&value) {
                Ok(value) if value.is_object() => failure.details(value),
                _ => failure,
            });
        }
    };
    Ok(output.to_string().into_bytes())
}

fn compiled(code: &str) -> Result<Rc<Filter>> {
    COMPILED.with_borrow_mut(|kept| {
        if let Some((_, filter)) = kept.iter().find(|(known, _)| known == code) {
            return Ok(Rc::clone(filter));
        }
        let arena = Arena::default();
        let filter = compile(code, &arena).map_err(|faults| wrong(&located(code, faults)))?;
        let filter = Rc::new(filter);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((code.to_owned(), Rc::clone(&filter)));
        Ok(filter)
    })
}

/// A fault of a filter, and its place: from 1, the column in characters.
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// The faults of a filter that can be found without an input.
pub(crate) fn faults(code: &str) -> Vec<Fault> {
    match compile(code, &Arena::default()) {
        Ok(_) => Vec::new(),
        Err(faults) => located(code, faults),
    }
}

fn located(code: &str, faults: Faults<'_>) -> Vec<Fault> {
    let fault = |(part, message)| {
        let (line, column) = position(code, part);
        Fault {
            message,
            line,
            column,
        }
    };
    let mut located: Vec<Fault> = faults.into_iter().map(fault).collect();
    // What cannot be read often leaves several brackets open.
    located.dedup_by_key(|fault| (fault.line, fault.column));
    located
}

fn wrong(faults: &[Fault]) -> Error {
    let texts: Vec<_> = faults
        .iter()
        .map(|fault| format!("{}:{}: {}", fault.line, fault.column, fault.message))
        .collect();
    let error = Error::invalid(format!("the filter is wrong at {}", texts.join("; at ")));
    match faults.first() {
        Some(first) => error.at(first.line, first.column),
        None => error,
    }
}

/// The faults of a filter, each with the faulty part.
type Faults<'a> = Vec<(&'a str, String)>;

fn definitions() -> impl Iterator<Item = parse::Def<&'static str>> {
    jaq_core::defs()
        .chain(jaq_std::defs())
        .chain(jaq_json::defs())
}

fn functions() -> impl Iterator<Item = jaq_core::native::Fun<Lut>> {
    jaq_core::funs()
        .chain(jaq_std::funs())
        .chain(jaq_json::funs())
        .filter(|(name, ..)| !IMPURE.contains(name))
}

/// All filters that have a name, with the number of their arguments.
fn named() -> Vec<(&'static str, usize)> {
    let defined = definitions().map(|it| (it.name, it.args.len()));
    let native = functions().map(|(name, args, _)| (name, args.len()));
    defined
        .chain(native)
        .filter(|(name, _)| !name.starts_with('_'))
        .collect()
}

fn compile<'a>(code: &'a str, arena: &'a Arena) -> Result<Filter, Faults<'a>> {
    if code.trim().is_empty() {
        let message = "the filter is empty: write `.`, which passes the input on";
        return Err(vec![(code, message.to_owned())]);
    }
    let modules = Loader::new(definitions())
        .load(arena, File { code, path: () })
        .map_err(|errors| by_file(errors, |error| load_faults(code, error)))?;
    Compiler::default()
        .with_funs(functions())
        .compile(modules)
        .map_err(|errors| by_file(errors, |errors| errors.into_iter().map(undefined).collect()))
}

fn by_file<'a, E>(
    errors: load::Errors<&'a str, (), E>,
    faults: impl Fn(E) -> Faults<'a>,
) -> Faults<'a> {
    errors
        .into_iter()
        .flat_map(|(_, error)| faults(error))
        .collect()
}

fn load_faults<'a>(code: &str, error: load::Error<&'a str>) -> Faults<'a> {
    let advised = |part: &'a str, fault: String| {
        let start = span(code, part).start;
        let before = code.get(..start).unwrap_or_default();
        let after = code.get(start..).unwrap_or_default();
        (part, advice::on_sign(before, after).unwrap_or(fault))
    };
    match error {
        load::Error::Io(errors) => errors,
        load::Error::Lex(errors) => errors
            .into_iter()
            .map(|(expected, part)| advised(part, lex_fault(&expected)))
            .collect(),
        load::Error::Parse(errors) => errors
            .into_iter()
            .map(|(expected, part)| advised(part, parse_fault(&expected)))
            .collect(),
    }
}

fn lex_fault(expected: &lex::Expect<&str>) -> String {
    match expected {
        lex::Expect::Delim(_) => format!("there is no {}", expected.as_str()),
        _ => format!("a {} is expected here", expected.as_str()),
    }
}

fn parse_fault(expected: &parse::Expect<&str>) -> String {
    match expected {
        parse::Expect::Nothing => "the filter should end here".to_owned(),
        parse::Expect::ElseOrEnd => "`else` or `end` is expected here".to_owned(),
        _ => format!("{} is expected here", expected.as_str()),
    }
}

fn undefined((part, what): compile::Error<&str>) -> (&str, String) {
    let name = match what {
        compile::Undefined::Filter(arity) => {
            return (part, advice::no_filter(part, arity, &named()));
        }
        _ => format!("{} `{part}`", what.as_str()),
    };
    (part, format!("there is no {name}"))
}

/// Line and column of a part of a text, from 1.
fn position(whole: &str, part: &str) -> (u32, u32) {
    let before = whole.get(..span(whole, part).start).unwrap_or(whole);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let short = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    (short(line), short(column))
}
