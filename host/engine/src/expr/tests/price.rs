//! The work of an expression grows with its time, for every kind of value.
//!
//! Every filter, test, function, operator and statement is applied to every kind of value, small and
//! large, again and again until a small budget is used up. The processor time of this thread until
//! then is compared with that of a plain sum: an operation that reads a large value without paying
//! for it takes a hundred times as long for the same work. About 14,000 combinations take 20 s.

use std::sync::Arc;
use std::time::Duration;

use minijinja::Value;
use minijinja::value::{Enumerator, Object};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use windlass_test_seeds::Seeds;

use super::super::needs::About;
use super::super::source::Source;
use super::super::{ExprErrorKind, Template, Values, WORK};
use super::random::{FILTERS, FUNCTIONS, OPERATORS, TESTS};

/// The budget of one measurement.
const BUDGET: u64 = 96 * 1024;

/// The work that takes as long as the begin of an evaluation, which is not charged.
const FIXED: u64 = 24 * 1024;

/// The parts of all combinations that are tried.
const QUARTERS: Seeds = Seeds::new(1, 4);

/// How often an expression is evaluated at most, unless its budget ends before.
const TIMES: usize = 500;

/// How much longer than a sum an operation may take for the same work.
const FACTOR: f64 = 40.0;

/// The numbers of items of values, of variables and of nodes.
const SIZES: [usize; 2] = [24, 60_000];

/// How the values are made. `N` is the number of items.
const KINDS: &[(&str, &str)] = &[
    ("text", "input.text"),
    ("wide text", "input.wide"),
    ("lines", "input.lines"),
    ("safe text", "input.text|tojson"),
    ("integer", "7"),
    ("large integer", "2 ** 100"),
    ("float", "1e-300"),
    ("not finite", "1e308 * 10"),
    ("exact number", "input.digits"),
    ("null", "none"),
    ("boolean", "true"),
    ("undefined", "(1 if false)"),
    ("invalid", "(range(3)|chain(1))[3]"),
    ("list", "input.list"),
    ("mixed list", "input.mixed"),
    ("words", "input.words"),
    ("rows", "input.rows"),
    ("nested list", "input.nested"),
    ("exact numbers", "input.exacts"),
    ("map", "input.map"),
    ("tuple", "(1,) * N"),
    ("range", "range(N)"),
    ("slice", "input.list[1:]"),
    ("endless list", "range(N)|chain([1])"),
    ("dict", "dict(**input.map)"),
    ("group", "(input.rows|groupby('a'))[0]"),
    ("variables", "vars"),
    ("nodes", "nodes"),
    ("node", "nodes.v0"),
    ("run", "run"),
    ("member", "input"),
];

/// Other uses of a value than by filters, tests, functions and operators.
const OTHERS: &[&str] = &[
    "-item",
    "not item",
    "1 if item else 2",
    "item and 1",
    "item[2]",
    "item[-1]",
    "item['v7']",
    "item[vars.text]",
    "item[item]",
    "item.v7",
    "item.v7.output",
    "item.a.b.c",
    "item[2:]",
    "item[:2]",
    "item[::-1]",
    "[item, item]",
    "(item,)",
    "{'a': item}",
    "{item: 1}",
    "{item: 1}[vars.copy]",
    "dict(item, a=1)",
    "dict(**item)",
    "range(item)",
    "[1]|zip(*item)",
    "1|default(*item)",
    "'a'|upper(**item)",
    "item == item == vars.copy",
    "2 in item in [item]",
    "[item, 1]|sort(attribute='a,v7')",
    "[item, item]|map(attribute='v7')",
    "[item]|map(attribute='v7', default=1)",
    "([item] * 20)|unique",
    "([item] * 20)|join(',')",
    "([item] * 20)|sum(start=[])",
    "([item] * 20)|groupby('a')",
    "'%s %r'|format(item, item)",
    "'%(v7)s'|format(item)",
    "'%*.*f %d'|format(3, 3, item, item)",
    "'%.1000f %.1000e'|format(item, item)",
    "item|round(1000)",
    "item|round(1000, 'ceil')",
    "5e-324|round(1, 'ceil')",
    "1.7e308|round(1000, 'floor')",
];

const STATEMENTS: &[&str] = &[
    "{{ item }}",
    "{% autoescape true %}{{ item }}{% endautoescape %}",
    "{% autoescape 'json' %}{{ item }}{% endautoescape %}",
    "{% autoescape item %}{% endautoescape %}",
    "{% for x in item %}{% endfor %}",
    "{% for x in item if x == 3 %}{% else %}{% endfor %}",
    "{% for x, y in item %}{% endfor %}",
    "{% for x in [item] recursive %}{{ loop([]) }}{% endfor %}",
    "{% for x in [item, item] %}{% if loop.changed(item) %}{% endif %}{% endfor %}",
    "{% for x in [item, item] %}{{ loop.cycle(item, 2) is defined }}{% endfor %}",
    "{% for x in [item, item] %}{% if loop == loop %}{% endif %}{% endfor %}",
    "{% for x in [item, item] %}{% set y = loop|list %}{% endfor %}",
    "{% for x in [item, item] %}{% set y = {loop: 1} %}{% endfor %}",
    "{% for x in [item, item] %}{% set y = loop|items %}{% endfor %}",
    "{% for x in [item, item] %}{% set y = loop|string %}{% endfor %}",
    "{% for x in [1] %}{% set k = loop.cycle(**item) %}{% set r = k|first %}{% endfor %}",
    "{% for x in [1] %}{% set k = loop.cycle(**item) %}{% set r = k is iterable %}{% endfor %}",
    "{% set x, y = item %}",
    "{% with x = item %}{{ x is defined }}{% endwith %}",
    "{% set x %}{{ item }}{% endset %}",
    "{% filter indent(2) %}{{ item }}{% endfilter %}",
    "{% if item %}{% elif item == 2 %}{% endif %}",
];

/// Values of so many items.
fn values(count: usize) -> Values {
    let numbers = |at: usize| at * 7919 % 60_017;
    let list: Vec<_> = (0..count).map(numbers).collect();
    let rows: Vec<_> = (0..count)
        .map(|at| json!({"a": numbers(at) % 7, "n": "n"}))
        .collect();
    let mixed: Vec<_> = (0..count)
        .map(|at| match at % 2 {
            0 => json!(numbers(at)),
            _ => json!(numbers(at) as f64 + 0.5),
        })
        .collect();
    let map: serde_json::Map<_, _> = (0..count)
        .map(|at| (format!("v{at}"), json!(numbers(at))))
        .collect();
    let digits = |count: usize| format!("1.{}1", "0".repeat(count));
    let exacts: Vec<_> = (0..count.min(1_000)).map(|at| digits(30 + at)).collect();
    let input = json!({
        "text": "ab".repeat(count * 8),
        "wide": "äß".repeat(count * 4),
        "lines": "a\n".repeat(count * 8),
        "list": list,
        "mixed": mixed,
        "words": (0..count).map(|at| format!("w{}", numbers(at))).collect::<Vec<_>>(),
        "rows": rows,
        "nested": (0..count).map(|at| vec![vec![at]]).collect::<Vec<_>>(),
        "map": map,
    });
    let input = input.to_string();
    let input = input.strip_suffix('}').unwrap();
    let mut values = Values::new();
    let exact = format!(
        r#","digits":{},"exacts":[{}]}}"#,
        digits(count * 16),
        exacts.join(",")
    );
    values.input(format!("{input}{exact}").as_bytes()).unwrap();
    // Names in ascending order are put at the end of the tables.
    let mut names: Vec<_> = (0..count).map(|at| format!("v{at}")).collect();
    names.sort_unstable();
    for name in names {
        values.var(&name, b"1").unwrap();
        values.output(&name, Some(b"[1]")).unwrap();
    }
    values.run("0190", None);
    values
}

/// The value of an expression.
fn value(text: &str, values: &Values) -> Value {
    let (source, _) = Source::text(&format!("{{{{ {text} }}}}"), "", About::Run).unwrap();
    source.value(&values.limited(WORK)).unwrap()
}

/// An expression for each use of each filter, test, function and operator on `item`, and all the
/// statements.
fn uses() -> Vec<String> {
    let mut uses: Vec<String> = OTHERS.iter().map(|text| (*text).to_owned()).collect();
    let others = ["item", "vars.copy", "2", "'a'"];
    let texts = ["'a'", "vars.text"];
    let paths = ["'a'", "'v7.0'"];
    for (at, other) in others.into_iter().enumerate() {
        let fill = |pattern: &str| {
            let (text, path) = (texts[at % 2], paths[at % 2]);
            let filled = pattern.replace("$e", other).replace("$s", text);
            let filled = filled.replace("$p", path).replace("$i", "2");
            let filled = filled.replace("$b", "true").replace("$f", "'first'");
            filled.replace("$t", "'defined'")
        };
        for (name, patterns) in FILTERS {
            uses.extend(
                patterns
                    .iter()
                    .map(|it| format!("item|{name}({})", fill(it))),
            );
            uses.push(format!("{other}|{name}(item)"));
            uses.push(format!("([item] * 20)|map('{name}')"));
        }
        for (name, pattern) in TESTS {
            let args = fill(pattern);
            uses.push(format!("item is {name}({args})"));
            uses.push(format!("{other} is {name}(item)"));
            let args = if args.is_empty() {
                args
            } else {
                format!(", {args}")
            };
            uses.push(format!("([item] * 20)|select('{name}'{args})"));
        }
        for (name, patterns) in FUNCTIONS {
            uses.extend(patterns.iter().map(|it| format!("{name}({})", fill(it))));
        }
        for operator in OPERATORS {
            uses.push(format!("item {operator} {other}"));
            uses.push(format!("{other} {operator} item"));
        }
    }
    let expressions = uses.iter().map(|text| format!("{{% set r = {text} %}}"));
    let statements = STATEMENTS.iter().map(|text| (*text).to_owned());
    let mut all: Vec<_> = expressions.chain(statements).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The statement again and again. None: it does not compile.
fn repeated(statement: &str) -> Option<Template> {
    let text = format!("{{% for i in range({TIMES}) %}}{statement}{{% endfor %}}");
    Template::compile(&json!(text), &[], "").ok()
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

/// The nanoseconds that one unit of work takes, until a budget is used up.
fn price(template: &Template, values: &Values, budget: u64) -> f64 {
    let values = values.limited(budget);
    let before = processor_time();
    let rendered = template.render(&values);
    let time = processor_time() - before;
    drop(rendered);
    let work = budget - values.budget().work_left();
    time.as_nanos() as f64 / (work + FIXED) as f64
}

/// The price of a step that does next to nothing.
fn reference() -> f64 {
    let template = repeated("{% set r = i + 1 %}").unwrap();
    let values = Values::new();
    let prices = (0..20).map(|_| price(&template, &values, BUDGET));
    prices.fold(f64::INFINITY, f64::min)
}

/// How much more than a sum a statement costs, if that is too much. What else happens on the machine
/// makes a measurement longer, and never shorter.
fn too_cheap(template: &Template, values: &Values, budget: u64, reference: f64) -> Option<f64> {
    let mut times = price(template, values, budget) / reference;
    for tried in 0..6 {
        if times < FACTOR {
            return None;
        }
        if tried > 0 && times > 4.0 * FACTOR {
            break;
        }
        times = times.min(price(template, values, budget) / self::reference());
    }
    Some(times)
}

#[test]
fn work_grows_with_time_for_every_operation_on_every_kind_of_value() {
    let reference = reference();
    let templates: Vec<_> = uses()
        .into_iter()
        .filter_map(|text| Some((repeated(&text)?, text)))
        .collect();
    assert!(templates.len() > 800, "only {} compile", templates.len());
    let mut wrong = Vec::new();
    for count in SIZES {
        let base = values(count);
        for (row, (kind, make)) in KINDS.iter().enumerate() {
            let make = make.replace('N', &count.to_string());
            let values = base.with(value(&make, &base), value(&make, &base));
            let chosen = |at: usize| {
                QUARTERS
                    .range()
                    .any(|seed| (at + row) as u64 % 4 == seed % 4)
            };
            for (_, (template, text)) in templates.iter().enumerate().filter(|(at, _)| chosen(*at))
            {
                if let Some(times) = too_cheap(template, &values, BUDGET, reference) {
                    wrong.push(format!("{text} of a {kind} of {count}: {times:.0} times"));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "these take too long for their work:\n{}",
        wrong.join("\n")
    );
}

/// A map that copies all its keys for every look at them.
#[derive(Debug)]
struct Copied(Vec<Value>);

impl Object for Copied {
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.clone())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }
}

#[test]
fn a_value_that_is_read_without_paying_is_noticed() {
    let copied = |count: usize| {
        let keys = (0..count).map(Value::from).collect();
        Value::from_object(Copied(keys))
    };
    let base = Values::new();
    for text in [
        "{% set r = item|first %}",
        "{% set r = item is iterable %}",
        "{% set r = ([item] * 20)|map('first') %}",
    ] {
        let template = repeated(text).unwrap();
        let reference = reference();
        let small = base.with(copied(SIZES[0]), copied(0));
        assert_eq!(
            too_cheap(&template, &small, BUDGET, reference),
            None,
            "{text}"
        );
        let large = base.with(copied(SIZES[1]), copied(0));
        assert!(
            too_cheap(&template, &large, BUDGET, reference).is_some(),
            "{text}"
        );
    }
}

#[test]
fn many_variables_are_enumerated_within_the_budget() {
    let (base, reference) = (values(60_000), reference());
    for text in [
        "{{ ([vars] * 1000)|map('first')|list|length }}",
        "{{ ([nodes] * 1000)|map('first')|list|length }}",
        "{{ ([vars] * 1000)|select('iterable')|list|length }}",
        "{{ ([vars] * 1000)|map('list')|list|length }}",
        "{{ ([nodes] * 1000)|map('items')|list|length }}",
    ] {
        let template = Template::compile(&json!(text), &[], "").unwrap();
        let times = too_cheap(&template, &base, WORK, reference);
        assert_eq!(times, None, "{text}");
    }
}

#[test]
fn keys_with_one_hash_are_paid_for() {
    let work = |count: usize| {
        let keys = (0..count).map(|at| format!("2 ** 100 + {at}: {at}"));
        let keys = keys.collect::<Vec<_>>().join(", ");
        let text = format!("{{{{ {{ {keys} }} }}}}");
        let (source, _) = Source::text(&text, "", About::Run).unwrap();
        let base = Values::new();
        let values = base.with(source.value(&base).unwrap(), Value::from(0));
        let values = values.limited(WORK);
        let template = Template::compile(&json!("{{ item[2 ** 100] }}"), &[], "").unwrap();
        template.render(&values).unwrap();
        WORK - values.budget().work_left()
    };
    let (few, many) = (work(10), work(100));
    assert!(many > few + 80 * 32, "{few} and {many}");
}

#[test]
fn writing_a_result_is_paid_for() {
    let mut values = Values::new();
    let list = format!("[{}0]", "0,".repeat(100_000));
    values.input(list.as_bytes()).unwrap();
    let template = Template::compile(&json!(["{{ input }}", "{{ input }}"]), &[], "").unwrap();
    assert!(template.render(&values.limited(8 << 20)).is_ok());
    let error = template.render(&values.limited(3 << 20)).unwrap_err();
    assert_eq!(error.kind, ExprErrorKind::Work, "{error}");
}
