//! Text: `text/template` renders a MiniJinja template.

mod operators;
mod plain;
mod unknown;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, context};
use windlass::prelude::*;

/// Steps that a template may take: far more than a page of text needs, and few enough to end long
/// before the deadline of a call.
const FUEL: u64 = 1_000_000;
/// How deep macros may call each other.
const RECURSION: usize = 64;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The template. The members of the input are its variables, and the whole
    /// input is `input`. A variable that does not exist is an error.
    #[schemars(extend("x-raw" = true))]
    template: String,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The rendered template.
    text: String,
}

struct Template;

impl Node for Template {
    type Config = Config;
    type Input = Value;
    type Output = Output;
    const NAME: &'static str = "template";
    const TITLE: &'static str = "Template";
    const DESCRIPTION: &'static str = "Fills in a MiniJinja template from the input.";
    const ICON: &'static str = "file-text";

    fn run(config: Config, input: Value, _: &Context) -> Result<Outcome<Output>> {
        let environment = environment()?;
        let input = minijinja::Value::from(Serde(&input));
        let variables = context! { input => input.clone(), ..input };
        let text = plain::render(&environment, &config.template, syntax()?, variables)
            .map_err(|error| wrong(&error, &config.template))?;
        Ok(Output { text }.into())
    }
}

impl Check for Template {
    fn check(configuration: &Configuration) -> Vec<Finding> {
        let template = configuration.text("/template").unwrap_or_default();
        let Ok(environment) = environment() else {
            return Vec::new();
        };
        let finding = |message: String, (line, column)| {
            let finding = Finding::error(message).member("/template");
            finding.at(line, column)
        };
        match environment.template_from_str(template) {
            Ok(_) => unknown::names(&environment, template)
                .into_iter()
                .map(|it| finding(it.message(), position(template, it.at)))
                .collect(),
            Err(error) => vec![finding(why(&error), place(&error, template))],
        }
    }
}

fn environment() -> Result<Environment<'static>> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    environment.set_syntax(syntax()?);
    plain::set(&mut environment);
    Ok(environment)
}

fn syntax() -> Result<SyntaxConfig> {
    SyntaxConfig::builder()
        .keep_trailing_newline(true)
        .build()
        .map_err(|error| Error::other(error.to_string()))
}

fn wrong(error: &minijinja::Error, template: &str) -> Error {
    let (line, column) = place(error, template);
    let why = why(error);
    Error::invalid(format!("the template is wrong in line {line}: {why}")).at(line, column)
}

fn why(error: &minijinja::Error) -> String {
    match error.kind() {
        ErrorKind::OutOfFuel => format!("it takes more than {FUEL} steps"),
        ErrorKind::SyntaxError => error.detail().unwrap_or("syntax error").to_owned(),
        kind => match error.detail() {
            Some(detail) => format!("{kind}: {detail}"),
            None => kind.to_string(),
        },
    }
}

/// Line and column of an error, from 1.
fn place(error: &minijinja::Error, template: &str) -> (u32, u32) {
    match error.range() {
        Some(range) => position(template, range.start),
        None => (short(error.line().unwrap_or(1)), 1),
    }
}

/// Line and column of a byte offset, from 1; the column in characters.
fn position(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (short(line), short(column))
}

fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

windlass::plugin! {
    package: "text",
    title: "Text",
    nodes: [Template],
    checks: [Template],
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::testkit::{Call, Report, describe};

    fn template(template: &str, input: Value) -> Report<windlass::testkit::Outcome> {
        let config = json!({ "template": template });
        Call::new().config(config).input(input).run::<Template>()
    }

    #[track_caller]
    fn check(text: &str, input: Value, expected: &str) {
        assert_eq!(template(text, input).output(), json!({ "text": expected }));
    }

    #[track_caller]
    fn check_invalid(text: &str, input: Value, expected: &str) {
        match template(text, input).error() {
            Error::Invalid(failure) => assert_eq!(failure.message, expected),
            other => panic!("the error is not `invalid` but {other:?}"),
        }
    }

    #[test]
    fn a_template_is_filled_in_from_the_input() {
        check(
            "Hello {{ name }}!\n",
            json!({ "name": "Ada" }),
            "Hello Ada!\n",
        );
        check(
            "{{ input.name }} {{ input | length }}",
            json!({ "name": "Ada" }),
            "Ada 1",
        );
        check("{{ input }}", json!(3), "3");
        check(
            "{% for n in input %}{{ n }},{% endfor %}",
            json!([1, 2]),
            "1,2,",
        );
        check("{{ a | tojson }}", json!({ "a": { "b": 1 } }), "{\"b\": 1}");
        check("<b>{{ a }}</b>", json!({ "a": "<i>" }), "<b><i></b>");
        check("plain", json!(null), "plain");
    }

    #[test]
    fn values_are_written_as_in_json() {
        let input = json!({ "t": true, "f": false, "n": null, "l": [true, null, "a"], "o": { "k": false } });
        for (text, expected) in [
            ("{{ t }} {{ f }} {{ n }}", "true false null"),
            ("{{ l }} {{ o }}", "[true,null,\"a\"] {\"k\":false}"),
            ("{{ l | join(',') }}", "true,null,a"),
            ("{{ [o] | join(',', attribute='k') }}", "false"),
            (
                "{{ [o, l] | join(';') }}",
                "{\"k\":false};[true,null,\"a\"]",
            ),
            ("{{ 'abc' | join('-') }}", "a-b-c"),
            ("{{ 'x' ~ t ~ n ~ l ~ 1 }}", "xtruenull[true,null,\"a\"]1"),
            (
                "{% macro m(v) %}{{ v ~ '' }}{% endmacro %}{{ m(f) }}",
                "false",
            ),
            ("{% block b %}{{ '' ~ f }}{% endblock %}", "false"),
            ("{{ t | string | length }} {{ n | string }}", "4 null"),
            ("{{ '%s %s' | format(t, n) }}", "true null"),
            (
                "{{ '%(a)s' | format(a=t) }} {{ '%05.1f' | format(2.25) }}",
                "true 002.2",
            ),
            (
                "{{ t | upper }} {{ n | lower }} {{ f | capitalize }} {{ n | title }}",
                "TRUE null False Null",
            ),
            (
                "{{ n | trim }} {{ t | replace('ue', f) }} {{ ' a ' | trim }}",
                "null trfalse a",
            ),
            (
                "{{ '-a-' | trim('-') }} {{ 'aa' | replace('a', 'b') }}",
                "a bb",
            ),
            (
                "{% if t is true and n is none %}{{ 1.0 }}{% endif %}",
                "1.0",
            ),
            ("{% set x %}{{ f }}{% endset %}{{ x }}", "false"),
            (
                "{{ 'x' ~ true ~ none }} {{ false ~ '' }}",
                "xtruenull false",
            ),
            (
                "{{ 'x' ~ [true, none, 'a'] ~ {'k': false} }}",
                "x[true,null,\"a\"]{\"k\":false}",
            ),
            ("{{ ['x' ~ true, -1 ~ 2 ~ 1.5] }}", "[\"xtrue\",\"-121.5\"]"),
            (
                "{{ ('x' ~ true) == 'xtrue' and 'x' ~ none == 'xnull' }}",
                "true",
            ),
            (
                "{{ ('x' ~ true) | upper }} {{ ('x' ~ none) ~ (1 + 1) }}",
                "XTRUE xnull2",
            ),
            (
                "{{ true in 'is true' }} {{ none in 'None' }} {{ true not in 'True' }}",
                "true false true",
            ),
            (
                "{{ 2 in [1, 2] }} {{ 'k' in o }} {{ 'a' not in l }}",
                "true true false",
            ),
            (
                "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' == 'b' }}",
                "true false true",
            ),
            (
                "{{ [3, 1] | max }} {{ ['b', 'a'] | sort }} {{ 2 is gt 1 }}",
                "3 [\"a\",\"b\"] true",
            ),
            (
                "{{ [{'a': 2}, {'a': 1}] | sort(attribute='a') | map(attribute='a') }}",
                "[1,2]",
            ),
            (
                "{% set x = 'a' ~ true %}{{ x }}{% if 'a' ~ none == 'anull' %}y{% endif %}",
                "atruey",
            ),
            ("{# c #}x{{ 1 }}", "x1"),
            ("{# c #}x", "x"),
        ] {
            check(text, input.clone(), expected);
        }
        check_invalid(
            "{{ missing ~ 'x' }}",
            json!({}),
            "the template is wrong in line 1: undefined value: `missing` is undefined",
        );
    }

    #[test]
    fn values_of_different_kinds_have_no_order() {
        for (expression, name, kinds) in [
            ("'5' > 100", ">", "a text and a number"),
            ("n < 1", "<", "null and a number"),
            ("t >= 1", ">=", "a boolean and a number"),
            ("1 < 2 < '3'", "<", "a number and a text"),
            ("'a' is gt(1)", ">", "a text and a number"),
            ("[1, '2'] | max", "max", "a number and a text"),
            ("[none, 1] | sort", "sort", "null and a number"),
            (
                "[{'a': 1}, {'a': '2'}] | min(attribute='a')",
                "min",
                "a number and a text",
            ),
        ] {
            let expected = format!(
                "the template is wrong in line 1: invalid operation: `{name}` cannot order {kinds}"
            );
            let text = format!("{{{{ {expression} }}}}");
            check_invalid(&text, json!({ "t": true, "n": null }), &expected);
        }
        check_invalid(
            "{{ 1 in 5 }}",
            json!({}),
            "the template is wrong in line 1: invalid operation: `in` looks into a text, a list or \
             an object",
        );
    }

    #[test]
    fn the_whole_input_is_not_hidden_by_a_member_of_that_name() {
        check("{{ input.input }}", json!({ "input": "x" }), "x");
    }

    #[test]
    fn a_wrong_template_says_where_and_why() {
        check_invalid(
            "a\n{{ missing }}",
            json!({}),
            "the template is wrong in line 2: undefined value: `missing` is undefined",
        );
        check_invalid(
            "{% for %}",
            json!({}),
            "the template is wrong in line 1: unexpected end of block, expected in",
        );
        check_invalid(
            "{% for a in range(2000) %}{% for b in range(2000) %}{{ a }}{% endfor %}{% endfor %}",
            json!({}),
            "the template is wrong in line 1: it takes more than 1000000 steps",
        );
    }

    #[test]
    fn a_wrong_template_is_found_before_anything_runs() {
        let found = |text: &str| windlass::testkit::check::<Template>(json!({ "template": text }));
        assert_eq!(found("{{ a }}"), []);
        let fault = "unexpected end of block, expected in";
        let fault = Finding::error(fault).member("/template").at(2, 8);
        assert_eq!(found("a\n{% for %}"), [fault]);
    }

    #[test]
    fn unknown_filters_tests_and_functions_are_found_before_anything_runs() {
        let found = |text: &str| {
            let found = windlass::testkit::check::<Template>(json!({ "template": text }));
            found.into_iter().next()
        };
        let fault = |message: &str, line, column| {
            Some(Finding::error(message).member("/template").at(line, column))
        };
        let known = [
            "{{ a | upper | default('x') }}",
            "{{ a is defined and b is not none }}",
            "{% filter upper %}x{% endfilter %}",
            "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(1) }}",
            "{% set f = a %}{{ range(3) }}{{ dict(a=1) }}{{ a.b() }}",
            "{% for x in a recursive %}{{ loop(x.b) }}{% endfor %}",
            "a | uper, f(x), is odder",
            "{% include ('x') ignore missing %}{% if (a) %}{% elif (b) %}{% endif %}",
        ];
        for text in known {
            assert_eq!(found(text), None, "{text}");
        }
        for (text, message, line, column) in [
            ("ü {{ a | uper }}", "there is no filter `uper`", 1, 10),
            ("\n{{ a is odder }}", "there is no test `odder`", 2, 9),
            ("{{ a is not odder }}", "there is no test `odder`", 1, 13),
            ("{{ now() }}", "there is no function `now`", 1, 4),
            (
                "{% filter uper %}x{% endfilter %}",
                "there is no filter `uper`",
                1,
                11,
            ),
        ] {
            assert_eq!(found(text), fault(message, line, column), "{text}");
        }
    }

    #[test]
    fn the_template_is_passed_as_written() {
        let document = describe::<Plugin>();
        let raw = document.pointer("/nodes/0/config/properties/template/x-raw");
        assert_eq!(raw, Some(&json!(true)));
    }
}
