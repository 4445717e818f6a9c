//! The results of expressions, and the messages about wrong ones.

use serde_json::{Value as Json, json};
use windlass_model::{Class, Code, Failure, JsonText};

use super::*;

mod budget;
mod numbers;
mod oracle;
mod price;
mod random;
mod suffixes;

fn values() -> Values {
    let mut values = Values::new();
    let input = r#"{"order": {"total": 1200, "lines": [{"sku": "a", "n": 2}, {"sku": "b", "n": 3}]},
        "big": 18446744073709551615, "small": -9223372036854775808, "price": 1.0, "z": 1, "a": 2,
        "empty": "", "nothing": null, "nested": {"z": 1, "a": {"y": 2, "b": 3}}}"#;
    values.input(input.as_bytes()).unwrap();
    values.var("currency", br#""EUR""#).unwrap();
    values.var("count", b"3").unwrap();
    values.output("sum", Some(br#"{"total": 7}"#)).unwrap();
    values.output("skipped", None).unwrap();
    values.run("0190", Some("order-7"));
    values.workflow("order-triage");
    values.trigger("manual", 2);
    values
}

/// Renders `template` and compares with JSON text, or with `kind: message` of the error.
#[track_caller]
fn check(template: Json, expected: &str) {
    let template = Template::compile(&template, &[], "/at").unwrap();
    let found = match template.render(&values()) {
        Ok(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Err(error) => format!("{:?}: {}", error.kind, error.message),
    };
    assert_eq!(found, expected);
}

/// Compiles `template` and compares with `code: message` of every diagnostic, one per line.
#[track_caller]
fn check_wrong(template: Json, expected: &[&str]) {
    let diagnostics = Template::compile(&template, &[], "/at").unwrap_err();
    let found: Vec<_> = diagnostics
        .iter()
        .map(|d| match &d.help {
            Some(help) => format!("{} {}: {}; {help}", d.code, d.place.pointer, d.message),
            None => format!("{} {}: {}", d.code, d.place.pointer, d.message),
        })
        .collect();
    assert_eq!(found, expected);
}

#[track_caller]
fn check_condition(text: &str, expected: Result<bool, &str>) {
    let found = match Condition::compile(text, "/edges/0") {
        Ok(condition) => condition.test(&values()).map_err(|error| error.message),
        Err(diagnostics) => Err(diagnostics.iter().map(|d| d.message.as_str()).collect()),
    };
    assert_eq!(
        found.as_ref().map_err(String::as_str),
        expected.as_ref().map_err(|text| *text)
    );
}

#[test]
fn sixty_thousand_variables_and_outputs_are_listed_by_name() {
    const MANY: u64 = 60_000;
    let (mut values, mut names) = (Values::new(), Vec::new());
    for number in 0..MANY {
        // 7,919 and 60,000 have no common factor, so each number appears once.
        let name = format!("x{}", number * 7_919 % MANY);
        values.var(&name, b"1").unwrap();
        values.output(&name, Some(b"2")).unwrap();
        names.push(name);
    }
    values.var("x7", b"3").unwrap();
    names.sort_unstable();
    for listed in ["vars", "nodes"] {
        let template = json!(format!("{{{{ {listed} | list }}}}"));
        let template = Template::compile(&template, &[], "/at").unwrap();
        let found: Vec<String> =
            serde_json::from_slice(&template.render(&values).unwrap()).unwrap();
        assert_eq!(found, names, "{listed}");
    }
    let template = json!("{{ [vars.x7, vars.x8, nodes.x59999.output, vars | length] }}");
    let template = Template::compile(&template, &[], "/at").unwrap();
    assert_eq!(template.render(&values).unwrap(), "[3,1,2,60000]");
}

#[test]
fn a_value_that_is_one_expression_keeps_its_type() {
    check(json!("{{ input.order.total }}"), "1200");
    check(json!("  {{ input.order.total }}\n"), "1200");
    check(json!("{{- input.order.total -}}"), "1200");
    check(json!("{{ input.order.total > 1000 }}"), "true");
    check(json!("{{ nodes.sum.output }}"), r#"{"total":7}"#);
    check(json!("{{ nodes['sum']['output'].total }}"), "7");
    check(json!("{{ {'a': {'b': 1}} }}"), r#"{"a":{"b":1}}"#);
    check(json!("{{ '}}' }}"), r#""}}""#);
    check(json!("{{ none }}"), "null");
    check(
        json!("{{ input.order.lines | map(attribute='n') | sum }}"),
        "5",
    );
    check(
        json!("{{ input.order.lines | map(attribute='sku') }}"),
        r#"["a","b"]"#,
    );
    check(json!("{{ input.order.lines[1:] | length }}"), "1");
}

#[test]
fn mixed_text_gives_a_string() {
    check(
        json!("{{ vars.currency }} {{ input.order.total }}"),
        r#""EUR 1200""#,
    );
    check(
        json!("total {{ nodes.sum.output }}"),
        r#""total {\"total\":7}""#,
    );
    check(
        json!("{{ input.order.lines }}\n{{ vars.count }}\n"),
        r#""[{\"sku\":\"a\",\"n\":2},{\"sku\":\"b\",\"n\":3}]\n3\n""#,
    );
    check(
        json!("{% for l in input.order.lines %}{{ l.sku }};{% endfor %}"),
        r#""a;b;""#,
    );
    check(
        json!("{% if vars.count > 2 %}many{% else %}few{% endif %}"),
        r#""many""#,
    );
    check(json!("{{ '{{' }} stays"), r#""{{ stays""#);
    check(json!("{% raw %}{{ x }}{% endraw %}"), r#""{{ x }}""#);
    check(json!("<b>{{ '<i>' }}</b>"), r#""<b><i></b>""#);
}

#[test]
fn a_value_becomes_text_as_json_writes_it() {
    check(
        json!("a={{ true }} b={{ false }} n={{ none }} {{ [true, none] }} {{ {'a': none} }}"),
        r#""a=true b=false n=null [true,null] {\"a\":null}""#,
    );
    check(json!("n={{ input.nothing }}"), r#""n=null""#);
    for (expression, expected) in [
        (
            "true ~ ' ' ~ none ~ ' ' ~ [false] ~ {'a': 1}",
            r#""true null [false]{\"a\":1}""#,
        ),
        (
            "[true, none, 1.5, 'x', {'a': none}, [1]] | join(' ')",
            r#""true null 1.5 x {\"a\":null} [1]""#,
        ),
        ("['a', 'b'] | join(true)", r#""atrueb""#),
        ("true | string", r#""true""#),
        ("none | string", r#""null""#),
        ("{'a': [none]} | string", r#""{\"a\":[null]}""#),
        ("[true, none] | map('string') | list", r#"["true","null"]"#),
        ("none | upper", r#""NULL""#),
        ("true | title", r#""True""#),
        ("true | replace('r', none)", r#""tnullue""#),
        ("none | trim", r#""null""#),
        ("false | indent(2, true)", r#""  false""#),
        ("true in 'is true'", "true"),
        ("none in 'null'", "true"),
        ("true is startingwith('t')", "true"),
        (
            "'%s %s %s' | format(true, none, {'a': false})",
            r#""true null {\"a\":false}""#,
        ),
        ("'%5s|%d|%s' | format(true, true, 1)", r#"" true|1|1""#),
        ("'%%%s' | format(false)", r#""%false""#),
        ("'%(a)s %(b)d' | format(a=true, b=true)", r#""true 1""#),
        ("'%(a)s' | format({'a': none})", r#""null""#),
        ("{true: none, none: 1}", r#"{"true":null,"null":1}"#),
        ("{true: none} | tojson", r#""{\"true\": null}""#),
    ] {
        check(json!(format!("{{{{ {expression} }}}}")), expected);
    }
    check(
        json!(
            "{% filter upper %}{{ none }}{% endfilter %}{% set x %}{{ true }}{% endset %}{{ x }}"
        ),
        r#""NULLtrue""#,
    );
    check(
        json!("{% for x in [true, none] %}{{ x }};{% endfor %}"),
        r#""true;null;""#,
    );
    check(
        json!("{{ {'a': 1 if false} ~ '' }}"),
        "Undefined: the result is undefined",
    );
}

#[test]
fn a_comment_is_no_part_of_a_text() {
    check(json!("{# c #}x"), r#""x""#);
    check(json!("x{# {{ c }} #}"), r#""x""#);
    check(json!("{# c #}"), r#""""#);
    check(json!("{# a #} {{ 'x' }} {# b #}!"), r#"" x !""#);
    check(json!({"a": ["{# c #}x"]}), r#"{"a":["x"]}"#);
    // Beside a comment, a single expression keeps its type.
    check(json!("{# c #}{{ input.order.total }}"), "1200");
    check(json!("{{ input.order.total }}{# c #}"), "1200");
    check(json!("{# a #}\n{{- input.order.total }} {# b #}\n"), "1200");
    check(json!("{{ '{# c #}' }}"), r#""{# c #}""#);
    check(json!("{{ '{#' }}"), r##""{#""##);
    check(json!("{% raw %}{# c #}{% endraw %}"), r#""{# c #}""#);
    check(json!("{% raw %} {% endraw %}{{ 1 }}"), r#"" 1""#);
    check(json!("{ # }"), r#""{ # }""#);
    let wrong = "WL-D060 /at: `{#` begins a comment, which is not closed in `a{#fff}`; write `#}` \
                 behind the comment; to write `{#` as text, write `{{ \"{#\" }}`";
    check_wrong(json!("a{#fff}"), &[wrong]);
    let (known, unknown) = known_parts(&json!({"a": "{# c #}x"}), &[], &Constants::default());
    assert_eq!((known, unknown), (json!({"a": "x"}), Vec::new()));
}

#[test]
fn numbers_keep_every_bit() {
    check(json!("{{ input.big }}"), "18446744073709551615");
    check(json!("{{ input.small }}"), "-9223372036854775808");
    check(json!("{{ input.price }}"), "1.0");
    check(
        json!([9007199254740993_i64, "{{ 9007199254740993 }}"]),
        "[9007199254740993,9007199254740993]",
    );
    check(json!("{{ input.big * 2 }}"), "36893488147419103230");
    check(
        json!("{{ 1 / 0 }}"),
        "Type: invalid operation: unable to calculate 1 / 0",
    );
    check(
        json!("{{ 1e300 * 1e300 }}"),
        "Type: the result is a number that is not finite",
    );
}

#[test]
fn properties_keep_their_order() {
    check(json!("{{ input.nested }}"), r#"{"z":1,"a":{"y":2,"b":3}}"#);
    check(json!("{{ {'z': 1, 'a': input.z} }}"), r#"{"z":1,"a":1}"#);
}

#[test]
fn values_are_walked() {
    check(
        json!({"a": ["{{ vars.count }}", "x"], "b": {"c": "{{ vars.currency }}!"}}),
        r#"{"a":[3,"x"],"b":{"c":"EUR!"}}"#,
    );
    check(json!({"b": 1, "a": "{ {"}), r#"{"a":"{ {","b":1}"#);
    check(json!(null), "null");
}

#[test]
fn undefined_is_an_error_that_names_the_missing_value() {
    check(
        json!("{{ input.order.totl }}"),
        "Undefined: `input.order.totl` is undefined (did you mean `total`?)",
    );
    check(
        json!("{{ input.order.totl.x + 1 }}"),
        "Undefined: `input.order.totl` is undefined (did you mean `total`?)",
    );
    check(
        json!("a {{ vars.curency }}"),
        "Undefined: `vars.curency` is undefined (did you mean `currency`?)",
    );
    check(
        json!("{{ [input.nope] }}"),
        "Undefined: `input.nope` is undefined (there are `order`, `big`, `small`, `price`, `z`, `a`, `empty`, `nothing` and 1 more)",
    );
    check(
        json!("{{ {'a': input.nope} }}"),
        "Undefined: `input.nope` is undefined (there are `order`, `big`, `small`, `price`, `z`, `a`, `empty`, `nothing` and 1 more)",
    );
    check(
        json!("{{ nodes.other.output }}"),
        "Undefined: `nodes.other` is undefined (there are `skipped`, `sum`)",
    );
    check(
        json!("{{ 1 if false }}"),
        "Undefined: the result is undefined",
    );
    check(
        json!("{{ input.nope | upper }}"),
        "Undefined: `input.nope` is undefined (there are `order`, `big`, `small`, `price`, `z`, `a`, `empty`, `nothing` and 1 more)",
    );
    check(
        json!("{{ input.order.lines[7].sku }}"),
        "Undefined: `input.order.lines[7]` is undefined (the list has 2 items)",
    );
    check(
        json!("{{ input.order.lines[1].sk.x + 1 }}"),
        "Undefined: `input.order.lines[1].sk` is undefined (did you mean `sku`?)",
    );
    check(
        json!("{{ input.order.lines[0]['price'] }}"),
        "Undefined: `input.order.lines[0].price` is undefined (there are `sku`, `n`)",
    );
    check(
        json!("{% for line in input.order.lines %}{{ line[0].x }}{% endfor %}"),
        "Undefined: the result is undefined",
    );
}

#[test]
fn default_handles_undefined() {
    check(json!("{{ input.nope | default('x') }}"), r#""x""#);
    check(
        json!("{{ nodes.skipped.output.decision | default('auto') }}"),
        r#""auto""#,
    );
    check(json!("{{ nodes.skipped.output }}"), "null");
    check(json!("{{ nodes.skipped.output is none }}"), "true");
    check(json!("{{ input.nothing | default('x', true) }}"), r#""x""#);
    check(json!("{{ input.nope is defined }}"), "false");
}

#[test]
fn everything_that_is_seen_has_its_place() {
    check(
        json!("{{ [run.id, run.correlation, workflow.name, trigger.type, trigger.attempt] }}"),
        r#"["0190","order-7","order-triage","manual",2]"#,
    );
    check(json!("{{ vars }}"), r#"{"count":3,"currency":"EUR"}"#);
    check(
        json!("{{ nodes }}"),
        r#"{"skipped":{"output":null},"sum":{"output":{"total":7}}}"#,
    );
    check(json!("{{ trigger }}"), r#"{"type":"manual","attempt":2}"#);
}

#[test]
fn evaluation_is_bounded() {
    check(
        json!("{% for a in range(1000) %}{% for b in range(1000) %}x{% endfor %}{% endfor %}"),
        "Fuel: evaluating takes more than 100000 steps",
    );
    check(
        json!("{{ 'x' * 5000000 }}"),
        "TooLarge: the result is larger than 4194304 bytes",
    );
    check(
        json!("{{ [['x' * 3000000], 'x' * 3000000] }}"),
        "TooLarge: the result is larger than 4194304 bytes",
    );
    check(
        json!("{{ range(10000000) }}"),
        "Type: invalid operation: range has too many elements",
    );
}

#[test]
fn conditions_are_true_or_false() {
    check_condition("input.order.total > 1000", Ok(true));
    check_condition("not (vars.currency == 'EUR' and vars.count)", Ok(false));
    check_condition("nodes.skipped.output", Ok(false));
    check_condition("input.empty", Ok(false));
    check_condition("'b' in input.order.lines | map(attribute='sku')", Ok(true));
    check_condition(
        "input.nope",
        Err(
            "`input.nope` is undefined (there are `order`, `big`, `small`, `price`, `z`, `a`, `empty`, `nothing` and 1 more)",
        ),
    );
    check_condition(
        "input.nope > 1",
        Err(
            "`input.nope` is undefined (there are `order`, `big`, `small`, `price`, `z`, `a`, `empty`, `nothing` and 1 more)",
        ),
    );
    check_condition(
        "{{ vars.count }}",
        Err("a condition is an expression already"),
    );
    check_condition("", Err("the condition is empty in ``"));
    check_condition(
        "vars.count >",
        Err("a value is missing behind `>` in `vars.count >`"),
    );
}

#[test]
fn mistakes_are_found_when_compiling() {
    check_wrong(
        json!("{{ inptu.order }}"),
        &["WL-D061 /at: there is no `inptu` in `{{ inptu.order }}`; did you mean `input`?"],
    );
    check_wrong(
        json!({"a": "{{ order }}", "b": "{{ vars.x | uper }}"}),
        &[
            "WL-D061 /at/a: there is no `order` in `{{ order }}`; a text stands in quotes, `'order'`, and a variable is `vars.order`; an expression sees `input`, `item`, `index`, `vars`, `nodes`, `run`, `workflow`, `trigger`",
            "WL-D062 /at/b: there is no filter `uper` in `{{ vars.x | uper }}`; did you mean `upper`?",
        ],
    );
    check_wrong(
        json!("{{ input.x is oddd }}"),
        &["WL-D062 /at: there is no test `oddd` in `{{ input.x is oddd }}`; did you mean `odd`?"],
    );
    check_wrong(
        json!("{{ now() }}"),
        &[
            "WL-D062 /at: there is no function `now` in `{{ now() }}`; an expression reads no clock, so that a step that is repeated gives the same result: pass the time as `input`, or take it from the output of a node",
        ],
    );
    check_wrong(
        json!("{{ vars.x.upper() }}"),
        &[
            "WL-D062 /at: values have no methods, so `.upper()` is none in `{{ vars.x.upper() }}`; there is a filter: `… | upper`",
        ],
    );
    check_wrong(
        json!("{{ nodes.sum.total }}"),
        &[
            "WL-D061 /at: `nodes.sum` has no `total` in `{{ nodes.sum.total }}`; the output of the node is `nodes.sum.output`, a member of it `nodes.sum.output.total`, and the link that resumes the node `nodes.sum.link`",
        ],
    );
    check_wrong(
        json!("{{ range }}"),
        &["WL-D061 /at: `range` is a function and no value in `{{ range }}`; call it: `range(…)`"],
    );
    check_wrong(
        json!("{{ trigger.typ }}"),
        &["WL-D061 /at: `trigger` has no `typ` in `{{ trigger.typ }}`; did you mean `type`?"],
    );
    check_wrong(
        json!("{{ input.a && input.b }}"),
        &["WL-D060 /at: `&&` means nothing in `{{ input.a && input.b }}`; write `and`"],
    );
    check_wrong(
        json!("{{ input.a "),
        &[
            "WL-D060 /at: `{{` is not closed in `{{ input.a`; write `}}` behind the expression; to write `{{` as text, write `{{ \"{{\" }}`",
        ],
    );
    check_wrong(
        json!({"{{ input.a }}/~": 1}),
        &[
            "WL-D064 /at/{{ input.a }}~1~0: the name of a property cannot be an expression; make the whole value one expression: `{{ { name: value } }}`",
        ],
    );
    check_wrong(
        json!("{% set input = 1 %}"),
        &[
            "WL-D066 /at: `input` already means something here in `{% set input = 1 %}`; choose another name, like `my_input`",
        ],
    );
    check_wrong(
        json!("{% set run = 1 %}"),
        &[
            "WL-D066 /at: `run` already means something here in `{% set run = 1 %}`; choose another name, like `my_run`",
        ],
    );
    check_wrong(
        json!("{% include 'x' %}"),
        &[
            "WL-D060 /at: there is no statement `include` in `{% include 'x' %}`; there are `if`, `for`, `set`, `with` and `filter`",
        ],
    );
    check_wrong(
        json!("{{ input.order['x' }}"),
        &["WL-D060 /at: `[` is not closed in `{{ input.order['x' }}`; write `]` behind it"],
    );
}

#[test]
fn code_that_could_use_up_the_stack_is_refused() {
    for (open, piece, close) in [
        ("{{ ", "not ", "x }}"),
        ("{{ ", "-", "1 }}"),
        ("{{ 1", "+1", " }}"),
        ("{{ input", ".a", " }}"),
        ("{{ ", "(", "1"),
        ("{{ ", "[", "1"),
        ("{{ 1", "|abs", " }}"),
        ("{{ ", "1 if 1 else ", "1 }}"),
        ("{% if 1 %}", "{% elif 1 %}", "{% endif %}"),
        ("", "{% if 1 %}", ""),
    ] {
        let text = format!("{open}{}{close}", piece.repeat(100_000));
        let diagnostics = Template::compile(&json!(text), &[], "/at").unwrap_err();
        assert_eq!(diagnostics[0].code, TOO_LONG, "{piece}");
        // Just below the limit the text may compile or not, but it must not crash.
        for length in [TOKENS / 4, TOKENS / 2 - 4, TOKENS - 8] {
            let text = format!("{open}{}{close}", piece.repeat(length));
            if let Ok(template) = Template::compile(&json!(text), &[], "/at") {
                drop(template.render(&values()));
            }
        }
    }
}

#[track_caller]
fn check_failure(text: &str, details: &str, expected: Result<bool, &str>) {
    let mut failure = Failure::new(Class::Permanent, Code::new("WL-R040"), "no");
    failure.details = JsonText::checked(details.as_bytes()).ok();
    let mut values = values();
    values.error(&failure).unwrap();
    let found = match Condition::about_failure(text, "/retry/when") {
        Ok(condition) => condition.test(&values).map_err(|error| error.message),
        Err(diagnostics) => Err(diagnostics.iter().map(|d| d.message.as_str()).collect()),
    };
    let found = found.as_ref().map_err(String::as_str);
    assert_eq!(found, expected.as_ref().map_err(|text| *text), "{text}");
}

#[test]
fn conditions_about_a_failure_see_it() {
    let status = r#"{"status": 404, "http": {"n": 1}, "final": true}"#;
    check_failure("error.class == 'permanent'", "", Ok(true));
    check_failure("error.code == 'WL-R040'", "", Ok(true));
    check_failure(
        "error.message == 'no' and trigger.attempt < 3",
        "",
        Ok(true),
    );
    check_failure("error.details is none", "", Ok(true));
    check_failure("error.details.status == 404", status, Ok(true));
    check_failure("error.details.status in [403, 404]", status, Ok(true));
    // Without details, or without the member, a comparison is no error.
    for without in ["", "{}", "null", "[1]", "\"text\"", "4"] {
        check_failure("error.details.status == 404", without, Ok(false));
        check_failure("error.details.status != 404", without, Ok(true));
        check_failure("error.details.status in [403, 404]", without, Ok(false));
        check_failure("error.details.final is true", without, Ok(false));
        check_failure("error.details.status", without, Ok(false));
        check_failure("not error.details.status", without, Ok(true));
        check_failure(
            "error.details.a or error['details'].b.c",
            without,
            Ok(false),
        );
        check_failure("error.details.http.n == 1", without, Ok(false));
        let message = "invalid operation: `<` cannot order no value (`error.details.status`) and a \
                       number (`500`); test the value before, or give it a default: `x if x is not \
                       none else 0`";
        check_failure("error.details.status < 500", without, Err(message));
        let guarded = "error.details.status is defined and error.details.status < 500";
        check_failure(guarded, without, Ok(false));
        let sum = "error.details.status.sub + 1 == 5";
        let message = "invalid operation: tried to use + operator on unsupported types undefined \
                       and number";
        check_failure(sum, without, Err(message));
    }
    check_failure(
        "vars.missing == 5",
        "",
        Err("`vars.missing` is undefined (there are `count`, `currency`)"),
    );
    check_failure(
        "vars.missing",
        "",
        Err("`vars.missing` is undefined (there are `count`, `currency`)"),
    );
    check_failure(
        "error.details.http.n == 1 and error.details.status >= 404",
        status,
        Ok(true),
    );
    check_failure("error.details.final is true", status, Ok(true));
    check_failure(
        "error.klass == 'trap'",
        "",
        Err("`error` has no `klass` in `error.klass == 'trap'`"),
    );
    check_failure("input.z == 1 and vars.count == 3", "", Ok(true));
}

#[test]
fn other_expressions_see_no_failure() {
    check_condition(
        "error.class == 'trap'",
        Err("there is no `error` here in `error.class == 'trap'`"),
    );
    check_wrong(
        json!("{{ error.message }}"),
        &[
            "WL-D061 /at: there is no `error` here in `{{ error.message }}`; `error` is there only \
             in the conditions of `retry` and `on-error`",
        ],
    );
    check(json!("{% set error = 1 %}{{ error }}"), "\"1\"");
}

#[track_caller]
fn check_needs(template: Json, expected: &str) {
    let template = Template::compile(&template, &[], "/at").unwrap();
    let needs = template.needs();
    let mut found = Vec::new();
    found.extend(needs.input.then(|| "input".to_owned()));
    found.extend(needs.vars.iter().map(|name| format!("vars.{name}")));
    found.extend(needs.all_vars.then(|| "vars".to_owned()));
    found.extend(needs.nodes.iter().map(|name| format!("nodes.{name}")));
    found.extend(needs.all_nodes.then(|| "nodes".to_owned()));
    found.extend(needs.run.then(|| "run".to_owned()));
    found.extend(needs.workflow.then(|| "workflow".to_owned()));
    found.extend(needs.trigger.then(|| "trigger".to_owned()));
    assert_eq!(found.join(" "), expected);
}

#[test]
fn needs_are_the_named_values() {
    check_needs(json!("{{ input.a }}"), "input");
    check_needs(
        json!(["{{ vars.b }}", "{{ vars['a'] }} {{ nodes.n.output.x }}"]),
        "vars.a vars.b nodes.n",
    );
    check_needs(json!("{{ nodes.n.output[1:2] }}"), "nodes.n");
    check_needs(
        json!("{{ nodes.n.output[nodes.m.output] }}"),
        "nodes.m nodes.n",
    );
    check_needs(json!("{{ nodes[input.which].output }}"), "input nodes");
    check_needs(json!("{{ vars | items }}"), "vars");
    check_needs(json!("{% set n = nodes %}{{ n.a.output }}"), "nodes");
    check_needs(json!("{% set x = vars.x %}{{ x }}"), "vars.x");
    check_needs(
        json!("{% for x in vars.xs if x in vars.ys %}{{ x.input }}{{ loop.index }}{% endfor %}"),
        "vars.xs vars.ys",
    );
    check_needs(json!("{% with a = vars.x %}{{ a }}{% endwith %}"), "vars.x");
    check_needs(
        json!("{% filter replace(vars.a, vars.b) %}x{% endfilter %}"),
        "vars.a vars.b",
    );
    check_needs(
        json!("{% set x | default(vars.a) %}x{% endset %}"),
        "vars.a",
    );
    check_needs(
        json!("{{ run.id }}{{ workflow.name }}{{ trigger.attempt }}"),
        "run workflow trigger",
    );
    check_needs(
        json!(
            "{{ {vars.k: vars.v}[vars.i] is divisibleby(vars.d) and (1 if vars.t else vars.e) }}"
        ),
        "vars.d vars.e vars.i vars.k vars.t vars.v",
    );
    check_needs(json!("text"), "");
}

#[test]
fn whole_values_are_passed_on_by_name() {
    let alias = |text: &str| Template::compile(&json!(text), &[], "").unwrap().alias();
    assert_eq!(alias("{{ input }}"), Some(Alias::Input));
    assert_eq!(alias("{{vars.x}}"), Some(Alias::Var("x".to_owned())));
    assert_eq!(
        alias("{{ nodes.x.output }}"),
        Some(Alias::Output("x".to_owned()))
    );
    for other in [
        "{{ input.a }}",
        "{{ nodes.x }}",
        "{{ vars }}",
        "{{ input }}!",
        "{{ input | d }}",
        "input",
    ] {
        assert_eq!(alias(other), None, "{other}");
    }
}

#[test]
fn constants_are_serialised_once() {
    let constant = |value: Json| {
        Template::compile(&value, &[], "")
            .unwrap()
            .constant()
            .cloned()
    };
    assert_eq!(
        constant(json!({"a": [1, "x"]})).unwrap(),
        r#"{"a":[1,"x"]}"#
    );
    assert_eq!(constant(json!("{{ 1 }}")), None);
}

#[test]
fn raw_properties_are_kept_as_written() {
    let value = json!({"text": "{{ name }} {%", "other": "{{ vars.count }}", "deep": {"text": "{{ vars.count }}"}});
    let template = Template::compile(&value, &["text".to_owned()], "").unwrap();
    assert_eq!(
        template.render(&values()).unwrap(),
        r#"{"deep":{"text":3},"other":3,"text":"{{ name }} {%"}"#
    );
}

#[test]
fn values_that_are_not_json_are_refused() {
    let mut values = Values::new();
    assert!(values.input(b"{").is_err());
    let error = values.output("n", Some(b"\xff")).unwrap_err().to_string();
    assert!(
        error.starts_with("`nodes.n.output` is not JSON: "),
        "{error}"
    );
}

#[test]
fn every_listed_name_exists_in_minijinja() {
    let env = &*environment::ENVIRONMENT;
    for (pattern, list) in [
        ("1|NAME", names::FILTERS),
        ("1 is NAME", names::TESTS),
        ("NAME(1)", names::FUNCTIONS),
    ] {
        for name in list
            .iter()
            .filter(|name| name.starts_with(char::is_alphabetic))
        {
            let text = pattern.replace("NAME", name);
            let result = env
                .compile_expression(&text)
                .and_then(|expression| expression.eval(()));
            use minijinja::ErrorKind::{UnknownFilter, UnknownFunction, UnknownTest};
            if let Err(error) = result {
                assert!(
                    !matches!(error.kind(), UnknownFilter | UnknownFunction | UnknownTest),
                    "{name}"
                );
            }
        }
    }
}
