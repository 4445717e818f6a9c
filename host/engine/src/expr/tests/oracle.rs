//! Compares the results of our evaluator with those of MiniJinja.

use std::panic::{AssertUnwindSafe, catch_unwind};

use minijinja::value::ValueKind;
use minijinja::{Environment, ErrorKind, Output, State, Value};
use serde_json::json;

use super::super::environment::{ENVIRONMENT, RESULT_BYTES};
use super::super::{ExprErrorKind, FUEL, Template, Values, names, write};
use super::random::Random;

/// How many random templates are compared.
const TEMPLATES: u64 = 10_000;

/// The environment in which MiniJinja evaluates texts.
fn environment() -> Environment<'static> {
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
            write::json(value, &mut bytes, RESULT_BYTES).map_err(|error| error.into_minijinja())?;
            out.write_str(&String::from_utf8(bytes).unwrap())?;
            Ok(())
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// MiniJinja's result of a template that is one text.
fn expected(env: &Environment<'_>, text: &str, values: &Values) -> Result<String, String> {
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
    write::json(&value, &mut bytes, RESULT_BYTES).map_err(|error| error.message)?;
    Ok(String::from_utf8(bytes).unwrap())
}

#[test]
fn what_is_within_the_budget_is_what_minijinja_makes_of_it() {
    let seed = std::env::var("WINDLASS_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let env = environment();
    let (mut same, mut wrong, mut over) = (0, 0, 0);
    let mut differences = Vec::new();
    for seed in seed..seed + TEMPLATES {
        let mut random = Random::new(seed);
        let input = random.input();
        let text = random.template();
        let Ok(template) = Template::compile(&json!(text), &[], "") else {
            continue;
        };
        let mut values = Values::new();
        values.input(input.to_string().as_bytes()).unwrap();
        let found = template.render(&values);
        // MiniJinja divides by zero in some places.
        let expected = catch_unwind(AssertUnwindSafe(|| expected(&env, &text, &values)));
        let about = format!("WINDLASS_SEED={seed}\n{text}\nwith {input}");
        match (found, expected) {
            (Err(error), _) if error.is_over_budget() => over += 1,
            (_, Err(_)) => {}
            (Ok(found), Ok(Ok(expected))) if found == expected => same += 1,
            (Err(error), Ok(Err(expected))) => {
                wrong += 1;
                let undefined = expected.contains("ndefined");
                if error.kind == ExprErrorKind::Undefined && !undefined {
                    differences.push(format!("{error} instead of {expected}: {about}"));
                }
            }
            (Ok(found), Ok(expected)) => {
                let found = String::from_utf8_lossy(&found);
                differences.push(format!("{found} instead of {expected:?}: {about}"));
            }
            (Err(error), Ok(Ok(expected))) => {
                differences.push(format!("{error} instead of {expected}: {about}"));
            }
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
    assert!(
        same > TEMPLATES / 10,
        "{same} same, {wrong} wrong, {over} over budget"
    );
    assert!(
        over < TEMPLATES / 20,
        "{same} same, {wrong} wrong, {over} over budget"
    );
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
