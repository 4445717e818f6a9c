//! Hostile expressions end with an error about the budget, in bounded memory.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value as Json, json};
use windlass_test_seeds::Seeds;

use super::super::{
    Bounds, Condition, ExprError, ExprErrorKind, Interrupt, StepBudget, Template, Values,
};
use super::oracle;
use super::random::Random;

/// Random templates, in the process whose memory is limited.
const TEMPLATES: Seeds = Seeds::new(150, 300);

/// The address space of the process that evaluates hostile templates. An evaluation holds at most
/// 64 MiB; the test program, its threads and the input take the rest.
const ADDRESS_SPACE: u64 = 768 * 1024 * 1024;

/// The processor time of that process, in seconds.
const CPU_SECONDS: u64 = 300;

/// The environment variable that selects the test of the child process.
const CHILD: &str = "WINDLASS_EXPR_CHILD";

fn evaluate(text: &str, input: &Json) -> Result<String, ExprError> {
    let template = Template::compile(&json!(text), &[], "/at").unwrap();
    let mut values = Values::new();
    values.input(input.to_string().as_bytes()).unwrap();
    let rendered = template.render(&values)?;
    Ok(String::from_utf8(rendered.to_vec()).unwrap())
}

#[track_caller]
fn check_over(text: &str, input: &Json) {
    assert_eq!(not_over(text, input), None);
}

/// The result of an evaluation that should use up its budget and does not.
fn not_over(text: &str, input: &Json) -> Option<String> {
    let error = match evaluate(text, input) {
        Ok(result) => return Some(format!("{text} gives {} bytes", result.len())),
        Err(error) => error,
    };
    let is_limit = error.class() == windlass_model::Class::Limit;
    (!error.is_over_budget() || !is_limit).then(|| format!("{text}: {error}"))
}

fn check_all_over() {
    let input = hostile_input();
    let wrong: Vec<_> = HOSTILE
        .iter()
        .filter_map(|text| not_over(text, &input))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Templates that need far more than their budget.
const HOSTILE: &[&str] = &[
    "{{ input.text | indent(input.width) }}",
    "{{ input.text | indent(width=input.width, first=true) }}",
    "{{ input.text | replace('', input.text) }}",
    "{{ input.text | replace('a', input.text) }}",
    "{{ input.text * input.width }}",
    "{{ [1] * input.width }}",
    "{{ ('x' * 60000000) ~ ('y' * 60000000) }}",
    "{{ [input.text] * 1000000 }}",
    "{{ (([input.text] * 1000) * 1000) | join }}",
    "{{ ([input.text] * 1000) | join(input.text) }}",
    "{{ input.text | list | tojson(1000000) }}",
    "{{ input.rows | tojson(indent=input.width) }}",
    "{{ '%99999999999d' | format(1) }}",
    "{{ '%*d' | format(input.width, 1) }}",
    "{{ '%.99999999f' | format(1.5) }}",
    "{{ ('%(a).1s' * 100000) | format(a=input.text) }}",
    "{{ [1] | batch(input.width, 'x') }}",
    "{{ [1] | slice(input.width) }}",
    "{{ input.text | title | title | title | title | title | title | title | title | title }}",
    "{% for i in range(1000) %}{% set x = input.text | upper %}{% endfor %}",
    "{% for i in range(100) %}{% for j in range(900) %}{{ input.text }}{% endfor %}{% endfor %}",
    "{% for i in range(90000) %}{% if input.rows == input.same %}{% endif %}{% endfor %}",
    "{% for i in range(90000) %}{% if input.text in input.text %}{% endif %}{% endfor %}",
    "{% for i in range(90000) %}{{ input.rows | sort(attribute='n') | length }}{% endfor %}",
    "{% for i in range(90000) %}{{ input.text | length }}{% endfor %}",
    "{% for i in range(90000) %}{{ input.text[5] }}{% endfor %}",
    "{% for i in range(90000) %}{{ {input.text: 1}[input.text] }}{% endfor %}",
    "{% for i in range(90000) %}{% if input.text > input.text %}{% endif %}{% endfor %}",
    "{% for i in range(90000) %}{% if input.text is upper %}{% endif %}{% endfor %}",
    "{% for i in range(90000) %}{% if input.text is startingwith(input.text) %}{% endif %}{% endfor %}",
    "{% for i in range(90000) %}{{ input.text | trim(input.text) }}{% endfor %}",
    "{% for i in range(90000) %}{{ input.rows | unique | length }}{% endfor %}",
    "{% for i in range(90000) %}{{ input.rows | groupby('a') | length }}{% endfor %}",
    "{% for i in range(90000) %}{{ input.text | float(0) }}{% endfor %}",
    "{{ input.rows | sort(attribute='a,' * 20000000) }}",
    "{% for i in range(90000) %}{% set v = range(100000) %}{% endfor %}",
    "{% for i in range(90000) %}{{ input | dictsort | length }}{% endfor %}",
    "{% for i in range(90000) %}{% if loop.changed(input.rows) %}{% endif %}{% endfor %}",
    "{% set x = [1] %}{% set x = [x, x, x, x, x, x, x, x] %}{% set x = [x, x, x, x, x, x, x, x] %}{% set x = [x, x, x, x, x, x, x, x] %}{% set x = [x, x, x, x, x, x, x, x] %}{% set x = [x, x, x, x, x, x, x, x] %}{% set x = [x, x, x, x, x, x, x, x] %}{% set x = [x, x, x, x, x, x, x, x] %}{% set x = [x, x, x, x, x, x, x, x] %}{% set x = [x, x, x, x, x, x, x, x] %}{{ x == [x] or x | string | length or {x: 1} or x | tojson }}",
    "{% filter indent(input.width) %}{{ input.text }}{% endfilter %}",
    "{% set x %}{% for i in range(90000) %}{{ input.text }}{% endfor %}{% endset %}",
    "{% for x in [input.rows] recursive %}{{ loop([[x]]) }}{% endfor %}",
    "{% for x in [[1]] recursive %}{{ loop([x]) ~ loop([x]) }}{% endfor %}",
    "{{ input.rows | map('batch', input.width, 1) }}",
    "{{ ([input.text] * 100000) | map('upper') }}",
    "{{ ([input.text] * 100000) | select('in', input.text) | length }}",
    "{{ ([input.rows] * 100000) | sum(start=[]) | length }}",
    "{{ ([input.big] * 100000) | map('abs') | list | length }}",
    "{% for i in range(90000) %}{% set x = -input.big %}{% endfor %}",
    "{% for i in range(90000) %}{% if input.big is odd %}{% endif %}{% endfor %}",
    "{% for i in range(90000) %}{% if {input.big: 1} is mapping %}{% endif %}{% endfor %}",
    "{% for i in range(90000) %}{{ 'a' | split(input.text) | length }}{% endfor %}",
    "{% autoescape true %}{{ (input.text ~ '<') | replace('a', '<' | tojson) }}{{ '\"' * 60000000 }}{% endautoescape %}",
];

fn hostile_input() -> Json {
    let text = "a\n".repeat(490_000);
    let rows: Vec<_> = (0..3_000_u32)
        .map(|n| json!({"a": n % 7, "n": (n * 7919 % 3001).to_string(), "c": [[n]]}))
        .collect();
    let digits = format!("1.{}1", "0".repeat(900_000));
    let big: Json = serde_json::from_str(&digits).unwrap();
    json!({ "text": text, "width": 100_000_000_000_000_u64, "rows": rows, "same": rows, "big": big })
}

#[test]
fn expressions_over_their_budget_fail_with_the_code_of_the_budget() {
    check_all_over();
}

#[test]
fn nothing_is_computed_when_a_definition_is_published() {
    // MiniJinja computes constants at compile time: these would take gigabytes.
    for text in [
        "{{ 'x' * 99999999 ~ 'x' * 99999999 ~ 'x' * 99999999 ~ 'x' * 99999999 }}",
        "a {{ [['x' * 99999999], ['y' * 99999999], ['z' * 99999999]] | length }}",
        "{{ 2 ** 100 ** 100 ** 100 }}{% set a = 'x' * 99999999 %}{% set b = a * 99999999 %}",
        "{{ 1 is divisibleby 0 }} {{ ''[::-1] }} {{ 170141183460469231731687303715884105727 ** 2 }}",
    ] {
        let compiled = Template::compile(&json!(vec![text; 10_000]), &[], "/at");
        assert!(compiled.is_ok(), "{text}");
    }
}

#[test]
fn a_zero_divides_nothing_and_an_empty_text_has_no_end() {
    let empty = json!({});
    assert_eq!(
        evaluate("{{ 1 is divisibleby 0 }}", &empty).unwrap(),
        "false"
    );
    assert_eq!(evaluate("{{ ''[::-1] }}", &empty).unwrap(), "\"\"");
    assert_eq!(evaluate("{{ [][::-1] }}", &empty).unwrap(), "[]");
    let cycle = "{% for x in [1] %}{{ loop.cycle() is defined }}{% endfor %}";
    assert_eq!(evaluate(cycle, &empty).unwrap(), "\"false\"");
}

#[test]
fn a_format_is_an_error_where_minijinja_panics() {
    for format in ["%(é", "%(aé)s", "%(\u{202e} a", "%d %(é)d", "%(a)%(é)s"] {
        let error = evaluate("{{ input | format(1) }}", &json!(format)).unwrap_err();
        assert!(error.message.contains("ASCII"), "{format}: {error}");
    }
    let found = evaluate("{{ '%%(é) %(a)sé' | format(a=1) }}", &json!(null));
    assert_eq!(found.unwrap(), "\"%(é) 1é\"");
}

#[test]
fn everything_evaluated_from_the_same_values_shares_its_work() {
    let text = "{{ input.text | upper | lower | length }}";
    let many = Template::compile(&json!(vec![text; 1_000]), &[], "/at").unwrap();
    let mut values = Values::new();
    let input = json!({ "text": "a".repeat(500_000) });
    values.input(input.to_string().as_bytes()).unwrap();
    let error = many.render(&values).unwrap_err();
    assert_eq!(error.kind, ExprErrorKind::Work, "{error}");
    // Conditions share the used-up budget.
    let condition = Condition::compile("input.text | length > 0", "").unwrap();
    assert_eq!(
        condition.test(&values).unwrap_err().kind,
        ExprErrorKind::Work
    );
    assert!(condition.test(&fresh(&input)).unwrap());
}

fn fresh(input: &Json) -> Values {
    let mut values = Values::new();
    values.input(input.to_string().as_bytes()).unwrap();
    values
}

#[test]
fn an_interrupted_evaluation_says_so_and_can_be_done_again() {
    let text = "{% for i in range(9000) %}{{ input.n ~ 'x' * 100 }}{% endfor %}";
    let template = Template::compile(&json!(text), &[], "/at").unwrap();
    let mut values = fresh(&json!({ "n": 1 }));
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    values.interrupted_by(Interrupt::when(move || {
        count.fetch_add(1, Ordering::Relaxed) >= 2
    }));
    let error = template.render(&values).unwrap_err();
    assert_eq!(error.kind, ExprErrorKind::Interrupted);
    assert!(!error.is_over_budget());
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert!(template.render(&fresh(&json!({ "n": 1 }))).is_ok());
}

#[test]
fn short_evaluations_are_interrupted_as_a_long_one_is() {
    let condition = Condition::compile("('x' * 9000)|length == 9000", "/at").unwrap();
    let mut values = fresh(&json!({}));
    values.within(&StepBudget::default());
    values.interrupted_by(Interrupt::when(|| true));
    let before = (0..100).take_while(|_| condition.test(&values) == Ok(true));
    let before = before.count();
    assert!((2..60).contains(&before), "{before}");
    // From then on nothing is evaluated, until the caller goes on.
    assert!(values.was_interrupted());
    let short = Condition::compile("1 + 1 == 2", "/at").unwrap();
    assert_eq!(
        short.test(&values).unwrap_err().kind,
        ExprErrorKind::Interrupted
    );
    values.interrupted_by(Interrupt::default());
    values.budget().go_on();
    assert_eq!(short.test(&values), Ok(true));
}

#[test]
fn a_host_may_bound_values_and_evaluations_further() {
    let bounds = Bounds {
        parsed: 100_000,
        memory: 200_000,
        ..Bounds::default()
    };
    let with = |bounds: Bounds| {
        let mut values = Values::new();
        values.within(&StepBudget::new(bounds));
        values
    };
    let list = serde_json::to_vec(&vec![0; 10_000]).unwrap();
    assert!(with(Bounds::default()).input(&list).is_ok());
    let error = with(bounds).input(&list).unwrap_err();
    let said = "`input` and the values before it take more than 100000 bytes of memory";
    assert_eq!(error.to_string(), said);
    let template = Template::compile(&json!("{{ 'a' * 300000 }}"), &[], "/at").unwrap();
    assert!(template.render(&with(Bounds::default())).is_ok());
    let error = template.render(&with(bounds)).unwrap_err();
    assert_eq!(error.kind, ExprErrorKind::Memory);
    assert!(error.message.contains("200000 bytes"), "{error}");
}

#[test]
fn a_budget_is_renewed_when_nothing_shares_it() {
    let mut budget = StepBudget::new(Bounds {
        made: 10,
        ..Bounds::default()
    });
    budget.make(7).unwrap();
    let other = budget.clone();
    assert!(!budget.renew());
    assert_eq!(budget.made_left(), 3);
    drop(other);
    assert!(budget.renew());
    assert_eq!(budget.made_left(), 10);
}

#[test]
fn values_that_nest_without_end_are_refused() {
    // Each recursion of the loop nests the value some levels deeper.
    let wrapped = format!("{}x{}", "[".repeat(40), "]".repeat(40));
    let text = format!("{{% for x in [[1]] recursive %}}{{{{ loop([{wrapped}]) }}}}{{% endfor %}}");
    check_over(&text, &json!({}));
    let text = format!(
        "{{% for x in [[1]] recursive %}}{{{{ loop([loop.cycle(a={wrapped})]) }}}}{{% endfor %}}"
    );
    check_over(&text, &json!({}));
    let nested = "{% set x = loop.cycle(a=x) %}".repeat(50);
    let text = format!("{{% for i in [1] %}}{{% set x = 1 %}}{nested}{{% endfor %}}");
    check_over(&text, &json!({}));
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let input: Json = serde_json::from_str(&deep).unwrap();
    let text = format!("{{{{ {}input{} == 1 }}}}", "[".repeat(60), "]".repeat(60));
    assert_eq!(evaluate(&text, &input).unwrap(), "false");
}

/// Runs a test again in a process whose memory is limited. Returns whether it passed, and its
/// output.
fn in_child(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let program = std::env::current_exe().unwrap();
    let name = format!("expr::tests::budget::{test}");
    let child = Command::new(program)
        .args([&name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let errors = String::from_utf8_lossy(&child.stderr);
    let passed = child.status.success() && said.contains("1 passed");
    (passed, format!("{}: {said}\n{errors}", child.status))
}

/// Whether this is such a process. If so, its memory and its processor time are limited from now
/// on.
fn is_child() -> bool {
    use rustix::process::{Resource, Rlimit, setrlimit};
    if std::env::var_os(CHILD).is_none() {
        return false;
    }
    for (resource, most) in [(Resource::As, ADDRESS_SPACE), (Resource::Cpu, CPU_SECONDS)] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit).unwrap();
    }
    true
}

#[test]
fn hostile_templates_stay_within_their_memory() {
    if is_child() {
        check_all_over();
        let values = large_values();
        return each_template(|text| {
            if let Ok(template) = Template::compile(&json!(text), &[], "/at") {
                // The result does not matter here; the evaluation only has to end.
                drop(template.render(&values.clone()));
            }
        });
    }
    let (passed, told) = in_child("hostile_templates_stay_within_their_memory", &[]);
    assert!(passed, "{told}");
}

/// MiniJinja counts only instructions.
#[test]
fn an_evaluation_without_this_budget_is_noticed() {
    if is_child() {
        let (env, values) = (oracle::environment(), large_values());
        return each_template(|text| drop(oracle::expected(&env, text, &values)));
    }
    let test = "an_evaluation_without_this_budget_is_noticed";
    let (passed, told) = in_child(test, &[("WINDLASS_LONG", "1")]);
    let seeds = told.lines().filter_map(|line| {
        let (_, behind) = line.split_once("WINDLASS_SEED=")?;
        let (seed, _) = behind.split_once(' ')?;
        seed.parse::<u64>().ok()
    });
    let last = seeds.max();
    TEMPLATES.find("no budget", |seed| !passed && Some(seed) == last);
}

/// Evaluates random templates, each of which is printed before.
fn each_template(evaluate: impl Fn(&str)) {
    for seed in TEMPLATES.range() {
        let mut random = Random::new(seed);
        // Numbers may be large here: widths, counts, bounds of slices and ranges.
        random.scale = [8, 1_000, 10_000_000, u64::MAX >> 1][random.below(4)];
        let text = random.template();
        println!("WINDLASS_SEED={seed} {}", text.escape_debug());
        evaluate(&text);
    }
}

/// Long texts, long lists, deep values.
fn large_values() -> Values {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep, "x"]);
    }
    let text = "Ab ü\n".repeat(40_000);
    let numbers: Vec<_> = (0..50_000_u64).map(|n| n * 7919 % 50_021).collect();
    let rows: Vec<_> = (0..5_000_u32)
        .map(|n| json!({"a": n % 7, "n": "N".repeat(n as usize % 90), "c": [{"a": n}]}))
        .collect();
    let words = vec![text.clone(); 40];
    fresh(&json!({
        "a": deep, "b": {"a": text, "n": numbers}, "n": 1_000_000_000_u64, "f": 1e300,
        "s": text, "xs": numbers, "ws": words, "rows": rows, "none": null, "yes": true,
    }))
}
