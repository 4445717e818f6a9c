//! Compares the results of our evaluator with those of MiniJinja.

use std::panic::{AssertUnwindSafe, catch_unwind};

use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, ErrorKind, Output, State, Value};
use serde_json::json;
use windlass_test_seeds::Seeds;

use super::super::environment::{ENVIRONMENT, RESULT_BYTES};
use super::super::machine::{apart, like_minijinja};
use super::super::{ExprError, ExprErrorKind, FUEL, Template, Values, names, write};
use super::random::Random;

/// Random templates.
const TEMPLATES: Seeds = Seeds::new(20_000, 40_000);

/// The environment in which MiniJinja evaluates texts.
pub(super) fn environment() -> Environment<'static> {
    let mut env = ENVIRONMENT.clone();
    env.set_fuel(Some(FUEL * 10));
    env.set_recursion_limit(64);
    env.set_formatter(format_in_text);
    env
}

fn format_in_text(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), minijinja::Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
            let mut bytes = Vec::new();
            write::json(value, &mut bytes, RESULT_BYTES, &mut |_| true)
                .map_err(|error| error.into_minijinja())?;
            out.write_str(&String::from_utf8(bytes).unwrap())?;
            Ok(())
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// MiniJinja's result of a template that is one text.
pub(super) fn expected(
    env: &Environment<'_>,
    text: &str,
    values: &Values,
) -> Result<String, String> {
    let context = values.root();
    let trimmed = text.trim();
    let inner = trimmed
        .strip_prefix("{{")
        .and_then(|t| t.strip_suffix("}}"));
    let inner = inner.filter(|inner| !inner.contains("{{") && !inner.contains("{%"));
    let value = match inner {
        Some(inner) => env
            .compile_expression(inner)
            .and_then(|expression| expression.eval(context)),
        None => env.render_str(text, context).map(Value::from),
    };
    let value = value.map_err(|error| match error.kind() {
        ErrorKind::UndefinedError => "Undefined".to_owned(),
        _ => format!("{error:?}"),
    })?;
    let mut bytes = Vec::new();
    write::json(&value, &mut bytes, RESULT_BYTES, &mut |_| true).map_err(|error| error.message)?;
    Ok(String::from_utf8(bytes).unwrap())
}

/// The comparison of one template.
enum Compared {
    Same,
    /// Both fail.
    Wrong,
    OverBudget,
    /// Not comparable: it does not compile, MiniJinja panics, or it compares values on purpose
    /// otherwise.
    Neither,
    Different(String),
}

/// Compares the two results of a seed's template.
fn compare(env: &Environment<'_>, seed: u64) -> Compared {
    let mut random = Random::new(seed);
    let input = random.input();
    let text = random.template();
    let Ok(template) = Template::compile(&json!(text), &[], "") else {
        return Compared::Neither;
    };
    let mut values = Values::new();
    values.input(input.to_string().as_bytes()).unwrap();
    apart::take();
    // What MiniJinja writes as `True` and `None` is no matter of this comparison.
    let found = like_minijinja(|| template.render(&values));
    if apart::take() {
        return Compared::Neither;
    }
    if found.as_ref().is_err_and(ExprError::is_over_budget) {
        return Compared::OverBudget;
    }
    // MiniJinja divides by zero in some places.
    let Ok(expected) = catch_unwind(AssertUnwindSafe(|| expected(env, &text, &values))) else {
        return Compared::Neither;
    };
    let about = format!("WINDLASS_SEED={seed}\n{text}\nwith {input}");
    match (found, expected) {
        (Ok(found), Ok(expected)) if found == expected => Compared::Same,
        (Err(error), Err(expected)) => {
            let undefined = expected.contains("ndefined");
            if error.kind == ExprErrorKind::Undefined && !undefined {
                Compared::Different(format!("{error} instead of {expected}: {about}"))
            } else {
                Compared::Wrong
            }
        }
        (Ok(found), expected) => {
            let found = String::from_utf8_lossy(&found);
            Compared::Different(format!("{found} instead of {expected:?}: {about}"))
        }
        (Err(error), Ok(expected)) => {
            Compared::Different(format!("{error} instead of {expected}: {about}"))
        }
    }
}

#[test]
fn expressions_within_the_budget_have_the_results_of_minijinja() {
    let env = environment();
    let (mut same, mut wrong, mut over) = (0, 0, 0);
    let mut differences = Vec::new();
    let seeds = TEMPLATES.range();
    for seed in seeds.clone() {
        match compare(&env, seed) {
            Compared::Same => same += 1,
            Compared::Wrong => wrong += 1,
            Compared::OverBudget => over += 1,
            Compared::Neither => {}
            Compared::Different(difference) => differences.push(difference),
        }
    }
    let count = differences.len();
    differences.truncate(20);
    assert!(
        count == 0,
        "{count} differences:\n{}",
        differences.join("\n\n")
    );
    // The comparison is meaningful only if enough templates give a result.
    let (told, tried) = (
        format!("{same} same, {wrong} wrong, {over} over budget"),
        seeds.end - seeds.start,
    );
    println!("{told}");
    if TEMPLATES.are_all(&seeds) {
        assert!(same > tried / 10, "{told}");
        assert!(over < tried / 20, "{told}");
    }
}

/// Each filter and function in turn does something else in MiniJinja, and each test fails.
#[test]
fn a_mistake_in_any_filter_test_or_function_is_noticed() {
    let is_found = |env: &Environment<'_>, name: &str| {
        let differs = |seed| matches!(compare(env, seed), Compared::Different(_));
        TEMPLATES.find(name, differs);
    };
    for name in names::FILTERS {
        let mut env = environment();
        env.add_filter(*name, |_: Rest<Value>| "a mistake");
        is_found(&env, name);
    }
    // The names of operators are others for tests that have names as well.
    let is_word = |name: &&&str| name.starts_with(char::is_alphabetic);
    for name in names::TESTS.iter().filter(is_word) {
        let mut env = environment();
        env.add_test(*name, |_: Rest<Value>| -> Result<bool, minijinja::Error> {
            Err(ErrorKind::InvalidOperation.into())
        });
        is_found(&env, name);
    }
    for name in names::FUNCTIONS {
        let mut env = environment();
        env.add_function(*name, |_: Rest<Value>| "a mistake");
        is_found(&env, name);
    }
}

/// The names in a list of MiniJinja's description of an environment.
fn listed(description: &str, list: &str) -> Vec<String> {
    let (_, rest) = description.split_once(&format!("{list}: [")).unwrap();
    let (names, _) = rest.split_once(']').unwrap();
    let names = names
        .split(',')
        .map(|name| name.trim().trim_matches('"').to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

fn sorted<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<_> = names.into_iter().map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn every_filter_test_and_function_of_minijinja_has_a_price() {
    let description = format!("{:?}", *ENVIRONMENT);
    let filters = listed(&description, "filters");
    let [priced, checks] = super::super::machine::priced().map(sorted);
    assert_eq!(sorted(filters.iter().map(String::as_str)), priced);
    assert_eq!(sorted(names::FILTERS.iter().copied()), priced);

    let tests = listed(&description, "tests");
    assert_eq!(sorted(tests.iter().map(String::as_str)), checks);
    // Only `select` can use these two.
    let named = names::TESTS.iter().copied().chain(["safe", "escaped"]);
    assert_eq!(sorted(named), checks);

    let functions = ENVIRONMENT.globals().map(|(name, _)| name.to_owned());
    let functions: Vec<_> = functions.collect();
    let known = sorted(names::FUNCTIONS.iter().copied());
    assert_eq!(sorted(functions.iter().map(String::as_str)), known);
}

#[test]
fn the_generator_uses_every_filter_test_and_function() {
    let generated = super::random::names();
    for (kind, list) in [
        ("filter", names::FILTERS),
        ("test", names::TESTS),
        ("function", names::FUNCTIONS),
    ] {
        for name in list {
            let known = generated
                .iter()
                .any(|(of, known)| *of == kind && known == name);
            assert!(known, "no template has the {kind} `{name}`");
        }
    }
}
