//! Compiles and runs jq filters. An instance caches compiled filters as long as it is reused.

use jaq_core::load::{Arena, File, Loader, lex, parse, span};
use jaq_core::val::ValX;
use jaq_core::{Compiler, Ctx, Exn, Vars, compile, data, load};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use windlass::prelude::*;

use crate::rewrite::Rewriter;
use crate::value::Val;
use crate::{advice, functions, json};

pub(crate) type Data = data::JustLut<Val>;
type Filter = jaq_core::Filter<Data>;

/// More filters than one workflow probably has.
const KEPT: usize = 32;

/// The longest list of outputs, in bytes: more than the output of a node may be.
const LONGEST: usize = 16 << 20;

/// The filter is compiled as the definition of this name.
const MAIN: &str = "__main__";

/// Filters that read the environment or the clock, which a pure component does not have.
const IMPURE: [&str; 2] = ["env", "now"];

thread_local! {
    static COMPILED: RefCell<Vec<(String, Rc<Filter>)>> = const { RefCell::new(Vec::new()) };
}

/// The outputs of a filter over a JSON text, as JSON text: a list of `all`, or the only one.
pub(crate) fn run(code: &str, all: bool, input: &[u8]) -> Result<Vec<u8>> {
    let filter = compiled(code)?;
    let input = json::read(input)
        .map_err(|error| Error::invalid(format!("the input is not JSON: {error}")))?;
    let cx = Ctx::<Data>::new(&filter.lut, Vars::new([]));
    let mut outputs = filter.id.run((cx, input));
    let mut text = String::new();
    if !all {
        // A failure comes after an output, too.
        let output = outputs.next().ok_or_else(|| number_of_outputs(0))?;
        write(&mut text, output, 0)?;
        return match outputs.next() {
            None => Ok(text.into_bytes()),
            Some(Ok(_)) => Err(number_of_outputs(2)),
            Some(Err(exception)) => Err(failure(exception)),
        };
    }
    text.push('[');
    for (at, output) in outputs.enumerate() {
        if at > 0 {
            text.push(',');
        }
        write(&mut text, output, 1)?;
        if text.len() > LONGEST {
            let text = format!("the outputs of the filter are longer than {LONGEST} bytes");
            return Err(Error::invalid(text));
        }
    }
    text.push(']');
    Ok(text.into_bytes())
}

fn number_of_outputs(number: usize) -> Error {
    let text = match number {
        0 => {
            "the filter has no output: give one for every input, like `… // null` or \
             `[…] | first`, or set `all: true`, which gives a list of the outputs"
        }
        _ => {
            "the filter has more than one output: take the first one by `first(…)`, gather them \
             by `[…]`, or set `all: true`, which gives a list of the outputs"
        }
    };
    Error::invalid(text).details(windlass::serde_json::json!({ "outputs": number }))
}

/// `around`: how deep the output lies in that of the node.
fn write(text: &mut String, output: ValX<'_, Val>, around: usize) -> Result<()> {
    let output = output.map_err(failure)?;
    if json::is_deeper(&output, json::DEPTH - around) {
        let text = format!("the output is nested deeper than {} levels", json::DEPTH);
        return Err(Error::invalid(text));
    }
    json::write(text, &output);
    Ok(())
}

fn failure(exception: Exn<'_, Val>) -> Error {
    let Ok(error) = exception.get_err() else {
        return Error::invalid("the filter failed: it halts");
    };
    let value = error.into_val();
    let text = match &value {
        Val::Str(text) => text.as_str().to_owned(),
        other => other.to_json(),
    };
    let failure = Error::invalid(format!("the filter failed: {text}"));
    // `error({..})` in a filter gives data to the conditions of the workflow.
    match windlass::serde_json::from_str::<Value>(&text) {
        Ok(details) if matches!(value, Val::Obj(_)) => failure.details(details),
        _ => failure,
    }
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

/// Definitions that take the place of jaq's.
fn own_definitions() -> Vec<parse::Def<&'static str>> {
    load::parse(include_str!("definitions.jq"), |parser| parser.defs()).unwrap_or_default()
}

/// What the functions of this plugin replace in jaq's. Its definitions come behind jaq's, which
/// use each other.
fn own() -> HashSet<(&'static str, usize)> {
    let native = functions::functions();
    native.map(|(name, args, _)| (name, args.len())).collect()
}

fn definitions(own: &HashSet<(&str, usize)>) -> Vec<parse::Def<&'static str>> {
    let jaq = jaq_core::defs().chain(jaq_std::defs());
    let jaq = jaq.filter(|it| !own.contains(&(it.name, it.args.len())));
    jaq.chain(own_definitions()).collect()
}

fn functions(own: &HashSet<(&str, usize)>) -> Vec<jaq_core::native::Fun<Data>> {
    let jaq = jaq_core::funs().chain(jaq_std::funs());
    let jaq =
        jaq.filter(|(name, args, _)| !own.contains(&(*name, args.len())) && !IMPURE.contains(name));
    jaq.chain(functions::functions()).collect()
}

/// All filters that have a name, with the number of their arguments.
fn named() -> Vec<(&'static str, usize)> {
    let own = own();
    let defined = definitions(&own).into_iter();
    let defined = defined.map(|it| (it.name, it.args.len()));
    let native = functions(&own).into_iter();
    let native = native.map(|(name, args, _)| (name, args.len()));
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
    let body = parsed(code).map_err(|error| load_faults(code, error))?;
    let main = parse::Def {
        name: MAIN,
        args: Vec::new(),
        body,
    };
    let rewriter = Rewriter { code, arena };
    let own = own();
    let definitions = definitions(&own).into_iter();
    let definitions = definitions
        .map(|it| -> parse::Def<&'a str> { it })
        .chain([main]);
    let rewritten = definitions.map(|it| rewriter.definition(it));
    let main = File {
        code: MAIN,
        path: (),
    };
    let modules = Loader::new(rewritten)
        .load(arena, main)
        .map_err(|errors| by_file(errors, |error| load_faults(code, error)))?;
    Compiler::default()
        .with_funs(functions(&own))
        .compile(modules)
        .map_err(|errors| by_file(errors, |errors| errors.into_iter().map(undefined).collect()))
}

fn parsed(code: &str) -> Result<parse::Term<&str>, load::Error<&str>> {
    let tokens = lex::Lexer::new(code).lex().map_err(load::Error::Lex)?;
    let placed = |(expected, token)| (expected, lex::Token::opt_as_str(token, code));
    parse::Parser::new(&tokens)
        .parse(|parser| parser.term())
        .map_err(|errors| load::Error::Parse(errors.into_iter().map(placed).collect()))
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

#[test]
fn the_definitions_are_read() {
    assert!(own_definitions().len() > 50);
}

/// All outputs of a filter, as JSON.
#[cfg(test)]
pub(crate) fn outputs(code: &str, input: &[u8]) -> std::result::Result<Vec<String>, String> {
    let filter = compiled(code).map_err(|error| error.message().to_owned())?;
    let input = json::read(input)?;
    let cx = Ctx::<Data>::new(&filter.lut, Vars::new([]));
    // Like the test runner of jq, which ends at an error without a sign of it.
    let outputs = filter.id.run((cx, input)).map_while(Result::ok);
    Ok(outputs.map(|output| output.to_json()).collect())
}
