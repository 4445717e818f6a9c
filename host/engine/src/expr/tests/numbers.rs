//! Comparisons, against a reader of JSON that compares numbers by their digits.

use std::cmp::Ordering;

use serde_json::json;
use windlass_test_seeds::Seeds;
use windlass_test_seeds::json::{MISTAKES, Mistake, Random, equal, has_map, order, read};

use super::super::{ExprErrorKind, Template, Values};

/// Random pairs of values.
const PAIRS: Seeds = Seeds::new(20_000, 1_000_000);

/// Whether an order makes an expression true.
type Holds = fn(Ordering) -> bool;

/// The expressions about a pair.
struct Expressions {
    equality: Vec<(Template, bool)>,
    /// Where members are in another order, objects are not the same.
    unique: Template,
    order: Vec<(Template, Holds)>,
}

impl Expressions {
    fn new() -> Self {
        let compile =
            |text: &str| Template::compile(&json!(format!("{{{{ {text} }}}}")), &[], "").unwrap();
        let equality = [
            ("input.a == input.b", true),
            ("input.a != input.b", false),
            ("input.a in [input.b]", true),
            ("input.a not in ['other', input.b]", false),
            ("[input.a] == [input.b]", true),
            ("input.a is eq(input.b)", true),
            ("{'x': input.a} != {'x': input.b}", false),
        ];
        let order: [(&str, Holds); 8] = [
            ("input.a < input.b", Ordering::is_lt),
            ("input.a <= input.b", Ordering::is_le),
            ("input.a > input.b", Ordering::is_gt),
            ("input.a >= input.b", Ordering::is_ge),
            ("input.a is gt(input.b)", Ordering::is_gt),
            (
                "[input.a] | select('le', input.b) | length == 1",
                Ordering::is_le,
            ),
            ("input.a < input.b <= input.b", Ordering::is_lt),
            ("not input.a is ge(input.b)", Ordering::is_lt),
        ];
        Self {
            unique: compile("([input.a, input.b] | unique | length) == 1"),
            equality: equality
                .map(|(text, wanted)| (compile(text), wanted))
                .into(),
            order: order.map(|(text, holds)| (compile(text), holds)).into(),
        }
    }

    /// What differs for a pair.
    fn difference(&self, a: &str, b: &str, mistake: Mistake) -> Option<String> {
        let (left, right) = (read(a), read(b));
        let mut values = Values::new();
        let input = format!("{{\"a\":{a},\"b\":{b}}}");
        values.input(input.as_bytes()).unwrap();
        let evaluated = |template: &Template| match template.render(&values) {
            Ok(bytes) => Some(&bytes[..] == b"true"),
            Err(error) => {
                assert_eq!(error.kind, ExprErrorKind::Type, "{error} with {input}");
                None
            }
        };
        let same = equal(&left, &right, mistake);
        for (template, wanted) in &self.equality {
            let (found, expected) = (evaluated(template), Some(same == *wanted));
            if found != expected {
                return Some(format!("{template:?}: {found:?} with {input}"));
            }
        }
        if has_map(&left) {
            return None;
        }
        if !has_map(&right) && evaluated(&self.unique) != Some(same) {
            return Some(format!("unique with {input}"));
        }
        let known = order(&left, &right, true, mistake);
        for (template, holds) in &self.order {
            let (found, expected) = (evaluated(template), known.map(holds));
            if found != expected {
                return Some(format!(
                    "{template:?}: {found:?}, not {expected:?}, with {input}"
                ));
            }
        }
        None
    }
}

fn differs(expressions: &Expressions, seed: u64, mistake: Mistake) -> Option<String> {
    let (a, b) = Random::new(seed).pair();
    let found = expressions.difference(&a, &b, mistake)?;
    Some(format!("WINDLASS_SEED={seed}: {found}"))
}

#[test]
fn values_are_compared_by_their_digits() {
    let expressions = Expressions::new();
    let seeds = PAIRS.range();
    let (mut equal_pairs, mut ordered, mut without) = (0_u64, 0_u64, 0_u64);
    for seed in seeds.clone() {
        let found = differs(&expressions, seed, Mistake::None);
        assert_eq!(found, None);
        let (a, b) = Random::new(seed).pair();
        let (a, b) = (read(&a), read(&b));
        equal_pairs += u64::from(equal(&a, &b, Mistake::None));
        match order(&a, &b, true, Mistake::None) {
            Some(_) => ordered += 1,
            None => without += 1,
        }
    }
    println!("{equal_pairs} equal, {ordered} with an order, {without} without");
    if PAIRS.are_all(&seeds) {
        let tried = seeds.end - seeds.start;
        for count in [equal_pairs, ordered, without] {
            assert!(count > tried / 10);
        }
    }
}

#[test]
fn each_mistake_in_comparing_is_found() {
    let expressions = Expressions::new();
    for mistake in MISTAKES.iter().copied() {
        PAIRS.find(mistake, |seed| {
            differs(&expressions, seed, mistake).is_some()
        });
    }
}

/// Renders a template over an input and compares with the JSON text or the message.
#[track_caller]
fn check(text: &str, input: &str, expected: &str) {
    let mut values = Values::new();
    values.input(input.as_bytes()).unwrap();
    let template = Template::compile(&json!(text), &[], "/at").unwrap();
    let found = match template.render(&values) {
        Ok(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Err(error) => error.message,
    };
    assert_eq!(found, expected, "{text} with {input}");
}

#[test]
fn values_of_different_kinds_have_no_order() {
    let wrong = |text: &str, input: &str, message: &str| {
        check(text, input, &format!("invalid operation: {message}"));
    };
    const DIGITS: &str = "a text of digits becomes a number with `x | int` or `x | float`";
    const NULL: &str = "test the value before, or give it a default: `x if x is not none else 0`";
    let text = r#"{"qty": "5", "list": [3, "7", 5], "rows": [{"n": 1}, {"n": null}, {"n": 2}]}"#;
    wrong(
        "{{ input.qty > 100 }}",
        text,
        &format!("`>` cannot order a text (`input.qty`) and a number (`100`); {DIGITS}"),
    );
    wrong(
        "{{ 1 < (input.list | first) < input.qty }}",
        text,
        &format!(
            "`<` cannot order a number (`input.list | first`) and a text (`input.qty`); {DIGITS}"
        ),
    );
    wrong(
        "{{ input.qty is gt(10) }}",
        text,
        &format!("`gt` cannot order a text (`input.qty`) and a number (`10`); {DIGITS}"),
    );
    wrong(
        "{{ input.list | select('lt', 4) | list }}",
        text,
        &format!("`lt` cannot order a text and a number; {DIGITS}"),
    );
    wrong(
        "{{ input.price < 10 }}",
        r#"{"price": null}"#,
        &format!("`<` cannot order null (`input.price`) and a number (`10`); {NULL}"),
    );
    wrong(
        "{{ input.a >= input.a }}",
        r#"{"a": null}"#,
        &format!("`>=` cannot order null (`input.a`) and null (`input.a`); {NULL}"),
    );
    wrong(
        "{{ input.a > 0 }}",
        r#"{"a": true}"#,
        "`>` cannot order a boolean (`input.a`) and a number (`0`); a boolean is tested with \
         `is true`, and becomes a number with `x | int`",
    );
    wrong(
        "{{ [[1, 2], [1, 'x']] | sort }}",
        "{}",
        &format!("`sort` cannot order a text and a number; {DIGITS}"),
    );
    for by in ["sort", "max", "min"] {
        wrong(
            &format!("{{{{ input.list | {by} }}}}"),
            text,
            &format!("`{by}` cannot order a number (item 0) and a text (item 1); {DIGITS}"),
        );
        wrong(
            &format!("{{{{ input.rows | {by}(attribute='n') }}}}"),
            text,
            &format!("`{by}` cannot order a number (item 0) and null (item 1); {NULL}"),
        );
    }
    wrong(
        "{{ input.rows | groupby('n') }}",
        text,
        &format!("`groupby` cannot order a number (item 0) and null (item 1); {NULL}"),
    );
    wrong(
        "{{ {'a': 1, 'b': 'x'} | dictsort(by='value') }}",
        text,
        &format!("`dictsort` cannot order a number (item 0) and a text (item 1); {DIGITS}"),
    );
    check(
        "{{ input.nothing is gt(1) }}",
        "{}",
        "`input.nothing` is undefined",
    );
}

#[test]
fn values_of_one_kind_have_an_order() {
    let input = r#"{"qty": "5", "a": [3, 1.5, 20], "t": ["b", "A"], "n": [null, null],
        "mixed": [1, "1", true, 1.0, null, "a", 1, null]}"#;
    for (text, expected) in [
        ("{{ (input.qty | int) > 100 }}", "false"),
        ("{{ input.qty > '100' }}", "true"),
        ("{{ input.a | sort }}", "[1.5,3,20]"),
        ("{{ input.a | max }}", "20"),
        ("{{ input.t | sort }}", r#"["A","b"]"#),
        ("{{ input.n | sort }}", "[null,null]"),
        ("{{ true > false }}", "true"),
        ("{{ [true, false] | sort }}", "[false,true]"),
        ("{{ [1, 2] < [1, 3] }}", "true"),
        ("{{ [1, 2][:1] < [1, 3] }}", "true"),
        ("{{ input.mixed | unique }}", r#"[1,"1",true,null,"a"]"#),
        (
            "{{ true == 1 or 0 == false or '1' == 1 or none == 0 }}",
            "false",
        ),
        ("{{ true in [1] }}", "false"),
        ("{{ true + 1 }}", "2"),
    ] {
        check(text, input, expected);
    }
}

#[test]
fn numbers_keep_their_value() {
    let input = r#"{"i": 18446744073709551616, "j": 18446744073709551617, "big": 1e400,
        "long": 123456789012345678901234567890123456789012345678901234567890,
        "f": 0.1000000000000000055511151231257827, "half": 12345678901234567890.5,
        "odd": 1234567890123456789012345678901234567890123, "two": [1e400, 1], "e": 1e23}"#;
    for (text, expected) in [
        ("{{ input.i }}", "18446744073709551616"),
        ("{{ input.i == input.j }}", "false"),
        ("{{ input.i + 1 == input.j }}", "true"),
        ("{{ input.i + 1 }}", "18446744073709551617"),
        ("{{ input.big }}", "1e400"),
        ("x{{ input.big }}", r#""x1e400""#),
        ("{{ input.two }}", "[1e400,1]"),
        ("{{ input.two | max }}", "1e400"),
        ("{{ input.two | tojson }}", r#""[1e400, 1]""#),
        (
            "{{ input.long }}",
            "123456789012345678901234567890123456789012345678901234567890",
        ),
        (
            "{{ -input.long }}",
            "-123456789012345678901234567890123456789012345678901234567890",
        ),
        ("{{ input.f == 0.1 }}", "false"),
        ("{{ input.f > 0.1 }}", "true"),
        (
            "{{ 0.1000000000000000055511151231257827 == input.f }}",
            "true",
        ),
        ("{{ input.f | float == 0.1 }}", "true"),
        ("{{ input.half | int }}", "12345678901234567890"),
        ("{{ (-input.half) | abs }}", "12345678901234567890.5"),
        ("{{ input.e == 100000000000000000000000 }}", "true"),
        ("{{ input.e == 99999999999999991611393 }}", "false"),
        ("{{ 1e400 == input.big and 1e401 > input.big }}", "true"),
        (
            "{{ input.big is number and input.big is integer and input.big is even }}",
            "true",
        ),
        ("{{ input.odd is odd and input.odd is not even }}", "true"),
        (
            "{{ input.half is float and input.half is not integer }}",
            "true",
        ),
        ("{{ 'yes' if input.big else 'no' }}", r#""yes""#),
        ("{{ [input.big] | sum if false else 1.0 == 1 }}", "true"),
    ] {
        check(text, input, expected);
    }
    let advice = "which has more digits than integers of 128 bits and floats keep; it can be compared \
                  and passed on, and `| float` rounds it";
    for (text, op) in [
        ("{{ input.f + 1 }}", "+"),
        ("{{ 2 * input.f }}", "*"),
        ("{{ input.f / 2 }}", "/"),
        ("{{ input.f | round }}", "round"),
        ("{{ [1, input.f] | sum }}", "+"),
        ("{{ input.f is divisibleby(2) }}", "divisibleby"),
    ] {
        let message = format!(
            "invalid operation: `{op}` cannot calculate with the number \
             0.1000000000000000055511151231257827, {advice}"
        );
        check(text, input, &message);
    }
    check(
        "{{ input.big | float }}",
        input,
        "invalid operation: the number 1e400 is larger than every float",
    );
    check(
        "{{ input.long | int }}",
        input,
        "invalid operation: the number 12345678901234567890123456789012345678901234567890… has more \
         than 128 bits",
    );
}

#[test]
fn a_value_that_is_no_number_is_not_made_one() {
    let input = r#"{"null": null, "large": 1e39, "small": 1e38}"#;
    for (text, expected) in [
        ("{{ '5' | int }}", "5"),
        ("{{ '-5' | int }}", "-5"),
        ("{{ '+5.9' | int }}", "5"),
        ("{{ '.5' | float }}", "0.5"),
        ("{{ '1e3' | int }}", "1000"),
        ("{{ '9007199254740993.0' | int }}", "9007199254740993"),
        (
            "{{ '170141183460469231731687303715884105727' | int }}",
            "170141183460469231731687303715884105727",
        ),
        (
            "{{ '-170141183460469231731687303715884105728' | int }}",
            "-170141183460469231731687303715884105728",
        ),
        // A float stands for the decimal that it is printed as.
        ("{{ 1e30 | int }}", "1000000000000000000000000000000"),
        (
            "{{ input.small | int }}",
            "100000000000000000000000000000000000000",
        ),
        ("{{ 'ff' | int(base=16) }}", "255"),
        ("{{ '0xFF' | int(0, 16) }}", "255"),
        ("{{ '-0b11' | int(base=2) }}", "-3"),
        ("{{ 'zz' | int(base=36) }}", "1295"),
        ("{{ true | int }}", "1"),
        ("{{ true | float }}", "1.0"),
        ("{{ 'inf' | int(default=3) }}", "3"),
        ("{{ 'x' | float(1.5) }}", "1.5"),
        ("{{ input.null | int(default=0) }}", "0"),
        ("{{ '19' | int(base=8, default=1) }}", "1"),
    ] {
        check(text, input, expected);
    }
    for (text, filter, told) in [
        ("'nan' | int", "int", "the text \"nan\""),
        ("'inf' | int", "int", "the text \"inf\""),
        ("'-Infinity' | int", "int", "the text \"-Infinity\""),
        ("'1e400' | int", "int", "the text \"1e400\""),
        (
            "'170141183460469231731687303715884105728' | int",
            "int",
            "the text \"170141183460469231731687303715884105728\"",
        ),
        (
            "'1e99999999999999999999999999999999' | int",
            "int",
            "the text \"1e99999999999999999999999999999999\"",
        ),
        ("'5 apples' | int", "int", "the text \"5 apples\""),
        ("'' | int", "int", "the text \"\""),
        ("' 5' | int", "int", "the text \" 5\""),
        ("'19' | int(base=8)", "int", "the text \"19\""),
        ("'inf' | int(base=20)", "int", "the text \"inf\""),
        ("input.null | int", "int", "null"),
        ("input.large | int", "int", "the number 1e+39"),
        ("'nan' | float", "float", "the text \"nan\""),
        ("'1e400' | float", "float", "the text \"1e400\""),
        ("'x' | float", "float", "the text \"x\""),
        ("input.null | float", "float", "null"),
    ] {
        let kind = if filter == "int" {
            "a whole number of 128 bits"
        } else {
            "a float"
        };
        let message = format!(
            "invalid operation: `{filter}` cannot make {kind} of {told}; `{filter}(default=0)` gives \
             0 then"
        );
        check(&format!("{{{{ {text} > 100 }}}}"), input, &message);
    }
    let long = format!("{{{{ '{}' | int }}}}", "é".repeat(60));
    let shown = format!("the text \"{}\"…", "é".repeat(50));
    let message = format!(
        "invalid operation: `int` cannot make a whole number of 128 bits of {shown}; \
         `int(default=0)` gives 0 then"
    );
    check(&long, input, &message);
    check(
        "{{ '5' | int(base=1) }}",
        input,
        "invalid operation: the base of `int` is from 2 to 36, and not 1",
    );
    check(
        "{{ input.none | int }}",
        input,
        "`input.none` is undefined (there are `null`, `large`, `small`)",
    );
}

#[test]
fn a_member_with_the_name_of_numbers_is_a_member() {
    let name = "$serde_json::private::Number";
    let input = format!("{{\"{name}\":\"1\",\"b\":2}}");
    check("{{ input }}", &input, &input);
    check("{{ input.b }}", &input, "2");
    check(
        "{{ [input] == [1] }}",
        &format!("{{\"{name}\":\"1\"}}"),
        "false",
    );
}

#[test]
fn numbers_with_many_digits_count_as_memory() {
    let mut values = Values::new();
    let many = format!("[{}]", vec!["1e400"; 3_000_000].join(","));
    let error = values.input(many.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("take more than"), "{error}");
    values.input(b"[1e400]").unwrap();
}
