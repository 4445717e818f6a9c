//! Reshapes JSON: `data/jq` by a jq filter, `data/set` by templates.

mod advice;
mod filter;
mod functions;
mod json;
mod number;
mod patterns;
mod rewrite;
mod value;

use windlass::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JqConfig {
    /// The filter, in the language of jq.
    #[schemars(extend("x-raw" = true))]
    filter: String,
    /// Gives a list of all outputs of the filter, which is empty if there is none. Without it the
    /// filter must have exactly one output.
    #[serde(default)]
    all: bool,
}

struct Jq;

impl Node for Jq {
    type Config = JqConfig;
    type Input = Raw;
    type Output = Raw;
    const NAME: &'static str = "jq";
    const TITLE: &'static str = "jq filter";
    const DESCRIPTION: &'static str =
        "Runs a jq filter over the input. The output is that of the filter, or a list of `all`.";
    const ICON: &'static str = "braces";

    fn run(config: JqConfig, input: Raw, _: &Context) -> Result<Outcome<Raw>> {
        let output = filter::run(&config.filter, config.all, input.inline()?)?;
        Ok(Raw::json(output).into())
    }
}

impl Check for Jq {
    fn check(configuration: &Configuration) -> Vec<Finding> {
        let filter = configuration.text("/filter").unwrap_or_default();
        let faults = filter::faults(filter);
        let finding = |fault: filter::Fault| {
            let finding = Finding::error(fault.message).member("/filter");
            finding.at(fault.line, fault.column)
        };
        faults.into_iter().map(finding).collect()
    }
}

struct Set;

impl Node for Set {
    type Config = Raw;
    type Input = Ignored;
    type Output = Raw;
    const NAME: &'static str = "set";
    const TITLE: &'static str = "Set";
    const DESCRIPTION: &'static str =
        "Gives its configuration as output, with templates filled in.";
    const ICON: &'static str = "pencil";

    fn run(config: Raw, _: Ignored, _: &Context) -> Result<Outcome<Raw>> {
        Ok(config.into())
    }
}

windlass::plugin! {
    package: "data",
    title: "Data",
    nodes: [Jq, Set],
    checks: [Jq],
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::testkit::{Call, describe};

    fn jq(filter: &str, input: Value) -> windlass::testkit::Report<windlass::testkit::Outcome> {
        let config = json!({ "filter": filter });
        Call::new().config(config).input(input).run::<Jq>()
    }

    #[track_caller]
    fn check(filter: &str, input: Value, expected: Value) {
        assert_eq!(jq(filter, input).output(), expected);
    }

    #[track_caller]
    fn check_invalid(filter: &str, input: Value, expected: &str) {
        match jq(filter, input).error() {
            Error::Invalid(failure) => assert_eq!(failure.message, expected),
            other => panic!("the error is not `invalid` but {other:?}"),
        }
    }

    #[test]
    fn a_wrong_filter_is_found_before_anything_runs() {
        let found = |filter: &str| windlass::testkit::check::<Jq>(json!({ "filter": filter }));
        assert_eq!(found(".a | length"), []);
        let fault = Finding::error("there is no filter `lenth`: did you mean `length`?");
        assert_eq!(found(".a\n| lenth"), [fault.member("/filter").at(2, 3)]);
    }

    #[test]
    fn the_words_of_other_languages_are_explained() {
        let check = |filter: &str, message: &str, at: &str| {
            let found = windlass::testkit::check::<Jq>(json!({ "filter": filter }));
            let column = u32::try_from(filter.find(at).unwrap() + 1).unwrap();
            let expected = Finding::error(message).member("/filter").at(1, column);
            assert_eq!(found, [expected], "{filter}");
        };
        check(
            ".a | split",
            "`split` takes 1 or 2 arguments, and has 0 here",
            "split",
        );
        check(
            "map(.a; .b)",
            "`map` takes 1 argument, and has 2 here",
            "map",
        );
        check(
            "now",
            "there is no filter `now`: a filter reads no clock; pass the time in the input",
            "now",
        );
        check(
            ".a | len",
            "there is no filter `len`: write `length`",
            "len",
        );
        check(
            ".a | frobnicate",
            "there is no filter `frobnicate`; those of jq are in its manual",
            "frobnicate",
        );
        check("$x", "there is no variable `$x`", "$x");
        let empty = "the filter is empty: write `.`, which passes the input on";
        check("", empty, "");
    }

    #[test]
    fn the_signs_of_other_languages_are_explained() {
        for (filter, advice) in [
            (".a === 1", "`==`"),
            (".a && .b", "`and`"),
            (".a || .b", "`or`"),
            ("'a'", "double quotes"),
            (".a | select(.b == 'x')", "double quotes"),
            ("!.a", "`not`"),
            ("{{ .a }}", "the braces"),
            (".a ? 1 : 2", "`if . then 1 else 2 end`"),
        ] {
            let found = windlass::testkit::check::<Jq>(json!({ "filter": filter }));
            assert_eq!(found.len(), 1, "{filter}: {found:?}");
            let said = format!("{found:?}");
            assert!(said.contains(advice), "{filter}: {said}");
        }
        for filter in [".a != ", ".a? | ", "\"it's\" | "] {
            let found = windlass::testkit::check::<Jq>(json!({ "filter": filter }));
            assert_eq!(found.len(), 1, "{filter}: {found:?}");
            let said = format!("{found:?}");
            assert!(!said.contains("means nothing"), "{filter}: {said}");
        }
    }

    #[test]
    fn an_error_of_a_filter_carries_its_value_as_details() {
        let filter = "error({ status: 404, why: .why })";
        let error = jq(filter, json!({ "why": "gone" })).error();
        let details = error.failure().and_then(|failure| failure.details.clone());
        assert_eq!(details, Some(json!({ "status": 404, "why": "gone" })));
        let plain = jq("error(\"no\")", json!(null)).error();
        assert_eq!(plain, Error::invalid("the filter failed: no"));
    }

    #[test]
    fn a_filter_reshapes_its_input() {
        check(
            ".",
            json!({ "a": [1, 2.5, "ü", null] }),
            json!({ "a": [1, 2.5, "ü", null] }),
        );
        check(
            "{ total: (map(.amount) | add) }",
            json!([{ "amount": 2 }, { "amount": 3 }]),
            json!({ "total": 5 }),
        );
        check("test(\"^b\")", json!("berlin"), json!(true));
        check("@base64", json!("windlass"), json!("d2luZGxhc3M="));
        check("@base64d", json!("d2luZGxhc3M"), json!("windlass"));
        check(
            "[@base32 | ., @base32d]",
            json!("ü"),
            json!(["YO6A====", "ü"]),
        );
        check("@csv", json!(["a\"b", 1, null]), json!("\"a\"\"b\",1,"));
        check(
            "[fromstream(tostream)] | .[0] == {\"a\":[1,{}]}",
            json!({ "a": [1, {}] }),
            json!(true),
        );
        check(
            "INDEX(.id) | keys",
            json!([{ "id": 2 }, { "id": 1 }]),
            json!(["1", "2"]),
        );
        check("[(1, 2) * (3, 4)]", json!(null), json!([3, 6, 4, 8]));
        check(
            "$__loc__",
            json!(null),
            json!({ "file": "<top-level>", "line": 1 }),
        );
        check("todate", json!(0), json!("1970-01-01T00:00:00Z"));
        check(
            "[.[] | select(. > 1)] | sort | join(\",\")",
            json!([3, 1, 2]),
            json!("2,3"),
        );
    }

    #[test]
    fn a_filter_has_exactly_one_output() {
        let outputs = |filter: &str, input: Value| match jq(filter, input).error() {
            Error::Invalid(failure) => failure.details,
            other => panic!("the error is not `invalid` but {other:?}"),
        };
        assert_eq!(outputs(".[]", json!([7, 8])), Some(json!({ "outputs": 2 })));
        assert_eq!(outputs("1, null", json!(1)), Some(json!({ "outputs": 2 })));
        assert_eq!(
            outputs("repeat(1)", json!(1)),
            Some(json!({ "outputs": 2 }))
        );
        assert_eq!(outputs("empty", json!(1)), Some(json!({ "outputs": 0 })));
        assert_eq!(outputs(".[]", json!([])), Some(json!({ "outputs": 0 })));
        check(".[]", json!([null]), json!(null));
        check("first(.[])", json!([7, 8]), json!(7));
    }

    #[test]
    fn all_outputs_are_a_list() {
        let all = |filter: &str, input: Value| {
            let config = json!({ "filter": filter, "all": true });
            Call::new().config(config).input(input).run::<Jq>()
        };
        assert_eq!(all(".[]", json!([7, 8])).output(), json!([7, 8]));
        assert_eq!(all(".", json!(null)).output(), json!([null]));
        assert_eq!(all("empty", json!(1)).output(), json!([]));
        let error = all(".[] | tonumber", json!(["1", "x", "3"])).error();
        let text = "the filter failed: string (\"x\") cannot be parsed as a number";
        assert_eq!(error, Error::invalid(text));
        let endless = all("repeat(\"x\" * 100000)", json!(1)).error();
        let text = "the outputs of the filter are longer than 16777216 bytes";
        assert_eq!(endless, Error::invalid(text));
    }

    #[test]
    fn a_failure_after_an_output_is_a_failure() {
        for (filter, input, expected) in [
            (
                ".[] | tonumber",
                json!(["1", "x", "3"]),
                "string (\"x\") cannot be parsed as a number",
            ),
            (
                "tonumber",
                json!("12 apples"),
                "string (\"12 apples\") cannot be parsed as a number",
            ),
            (
                "tonumber",
                json!("1,5"),
                "string (\"1,5\") cannot be parsed as a number",
            ),
            (
                "tonumber",
                json!("0x10"),
                "string (\"0x10\") cannot be parsed as a number",
            ),
            (
                "tonumber",
                json!("2026-11-27"),
                "string (\"2026-11-27\") cannot be parsed as a number",
            ),
            (
                "tonumber",
                json!(""),
                "string (\"\") cannot be parsed as a number",
            ),
            (
                "tonumber",
                json!("1 2"),
                "string (\"1 2\") cannot be parsed as a number",
            ),
            ("1, error(\"no\")", json!(null), "no"),
            (
                ".[] | 10 / .",
                json!([5, 0]),
                "number (10) and number (0) cannot be divided because the divisor is zero",
            ),
        ] {
            check_invalid(filter, input, &format!("the filter failed: {expected}"));
        }
        for text in [
            "{\"a\":1} trailing",
            "1 2",
            "",
            "[1,]",
            "{1:2}",
            "[1",
            "\"\\ud800\"",
            "tru",
        ] {
            let error = jq("fromjson", json!(text)).error();
            let said = error.message();
            assert!(said.contains("is not JSON"), "{text}: {said}");
        }
    }

    #[test]
    fn numbers_that_json_does_not_have_are_those_of_jq() {
        for (filter, text) in [
            ("nan", "null"),
            ("[nan, {a: nan}]", "[null,{\"a\":null}]"),
            (
                "[infinite, -infinite]",
                "[1.7976931348623157e+308,-1.7976931348623157e+308]",
            ),
            (
                "[1e1000, -1e1000]",
                "[1.7976931348623157e+308,-1.7976931348623157e+308]",
            ),
            ("\"1e1000\" | fromjson", "1.7976931348623157e+308"),
            ("\"1e1000\" | tonumber", "1.7976931348623157e+308"),
            ("\"Infinity\" | tonumber", "1.7976931348623157e+308"),
            ("\"-Infinity\" | tonumber", "-1.7976931348623157e+308"),
            ("1e308 * 10", "1.7976931348623157e+308"),
            ("0 | log", "-1.7976931348623157e+308"),
            ("-1 | sqrt", "null"),
            ("[nan] | sort | .[0] | isnan", "true"),
            ("nan == nan", "false"),
            ("4 / 2", "2"),
            ("1 / 3", "0.3333333333333333"),
            (
                "[1, 1.0, 1.10, 100000000000000000000]",
                "[1,1.0,1.10,100000000000000000000]",
            ),
            ("9223372036854775807 + 1", "9223372036854776000"),
            ("9007199254740993 + 0", "9007199254740993"),
        ] {
            let output =
                filter::run(filter, false, b"null").map(|it| String::from_utf8(it).unwrap());
            assert_eq!(output.as_deref(), Ok(text), "{filter}");
        }
        let zero = "because the divisor is zero";
        let divided =
            format!("the filter failed: number (1) and number (0) cannot be divided {zero}");
        check_invalid("1 / 0", json!(1), &divided);
        check_invalid(".x / .y", json!({ "x": 1, "y": 0 }), &divided);
        let remainder =
            "the filter failed: number (5) and number (0) cannot be divided (remainder)";
        check_invalid("5 % 0", json!(1), &format!("{remainder} {zero}"));
    }

    #[test]
    fn the_digits_of_a_number_pass_through() {
        let input = b"{\"n\":123456789012345678901234567890,\"d\":1.10}";
        let output = filter::run("[.n, .d, (.n | tostring)]", false, input).unwrap();
        let expected = "[123456789012345678901234567890,1.10,\"123456789012345678901234567890\"]";
        assert_eq!(String::from_utf8(output).unwrap(), expected);
        let two = b"[18446744073709551616, 18446744073709551617]";
        assert_eq!(filter::run(".[0] == .[1]", false, two).unwrap(), b"false");
    }

    #[test]
    fn patterns_know_unicode() {
        check(
            "[scan(\"\\\\w+\")]",
            json!("Müller, José"),
            json!(["Müller", "José"]),
        );
        check("test(\"^\\\\w+$\")", json!("Zürich"), json!(true));
        check("test(\"é\"; \"i\")", json!("É"), json!(true));
        check("test(\"straße\"; \"i\")", json!("STRAẞE"), json!(true));
        check(
            "[scan(\"\\\\p{L}+\")]",
            json!("a1β2я"),
            json!(["a", "β", "я"]),
        );
        check("[scan(\"\\\\p{Greek}\")]", json!("aβγ"), json!(["β", "γ"]));
        check(
            "gsub(\"\\\\s\"; \"_\")",
            json!("a\u{a0}b c"),
            json!("a_b_c"),
        );
        check(
            "[match(\"(?<k>ö)|(x)\"; \"g\") | .offset, .captures[0].string, .captures[1].offset]",
            json!("aöx"),
            json!([1, "ö", -1, 2, null, 2]),
        );
        check(
            "capture(\"(?<y>\\\\d+)-(?<m>\\\\d+)\")",
            json!("2026-11"),
            json!({ "y": "2026", "m": "11" }),
        );
        check("sub(\"(?<a>.)\"; \"\\(.a)!\")", json!("éa"), json!("é!a"));
        check(
            "split(\", *\"; null)",
            json!("a, b,c"),
            json!(["a", "b", "c"]),
        );
        check_invalid(
            "test(\"(\")",
            json!("a"),
            "the filter failed: Regex failure: unclosed group",
        );
        check_invalid(
            "test(\"a\"; \"q\")",
            json!("a"),
            "the filter failed: q is not a valid modifier string",
        );
    }

    #[test]
    fn updates_go_path_by_path_as_in_jq() {
        check("del(.[0, 2])", json!([1, 2, 3]), json!([2]));
        check("del(.[0], .[1], .[5], .[-1])", json!([1, 2, 3]), json!([]));
        check(
            "del(.a, .b.c)",
            json!({ "a": 1, "b": { "c": 2, "d": 3 } }),
            json!({ "b": { "d": 3 } }),
        );
        check("del(.[1:])", json!([1, 2, 3]), json!([1]));
        check("del(.[] | select(. > 1))", json!([1, 2, 3, 4]), json!([1]));
        check("del(.)", json!(1), json!(null));
        check("del(.a.b)", json!(null), json!(null));
        check(".[2] = 5", json!(null), json!([null, null, 5]));
        check(
            ".a.b[1] |= 3",
            json!(null),
            json!({ "a": { "b": [null, 3] } }),
        );
        check(".[1:3] = [9]", json!([1, 2, 3, 4]), json!([1, 9, 4]));
        check(
            "(.[] | select(. > 1)) |= empty",
            json!([1, 2, 3]),
            json!([1]),
        );
        check(
            ".a += 1 | .b //= 2 | .c *= 3",
            json!({ "a": 1, "c": 2 }),
            json!({ "a": 2, "b": 2, "c": 6 }),
        );
        check_invalid(
            ".[100000000] = 1",
            json!([]),
            "the filter failed: Array index too large",
        );
        check_invalid(
            ".[-1] = 1",
            json!([]),
            "the filter failed: Out of bounds negative array index",
        );
        check_invalid(
            "@base64d",
            json!("QUJDa"),
            "the filter failed: string (\"QUJDa\") trailing base64 byte found",
        );
        check_invalid(
            "\"x\" * 1e9",
            json!(1),
            "the filter failed: Repeat string result too long",
        );
        let deep = "reduce range(200) as $n (1; [.])";
        check_invalid(
            deep,
            json!(1),
            "the output is nested deeper than 126 levels",
        );
        let text = format!("\"{}\" | fromjson", "[".repeat(100_000));
        let error = jq(&text, json!(1)).error();
        assert!(
            error.message().contains("nested deeper"),
            "{}",
            error.message()
        );
    }

    #[test]
    fn a_filter_is_compiled_once_and_keeps_no_state() {
        check(".n", json!({ "n": 1 }), json!(1));
        check(".n", json!({ "n": 2 }), json!(2));
    }

    #[test]
    fn a_broken_filter_is_an_error_with_a_place() {
        check_invalid(
            "{ a: ",
            json!(null),
            "the filter is wrong at 1:6: there is no closing brace",
        );
        check_invalid(
            ".a |\n  foo(1)",
            json!(null),
            "the filter is wrong at 2:3: there is no filter `foo`; those of jq are in its manual",
        );
        check_invalid(
            "$x",
            json!(null),
            "the filter is wrong at 1:1: there is no variable `$x`",
        );
        check_invalid(
            "if . then 1 els 2 end",
            json!(1),
            "the filter is wrong at 1:13: `else` or `end` is expected here",
        );
        check_invalid(
            "now",
            json!(null),
            "the filter is wrong at 1:1: there is no filter `now`: a filter reads no clock; pass the \
             time in the input",
        );
    }

    #[test]
    fn a_filter_that_fails_says_why() {
        check_invalid(
            ".a",
            json!([1]),
            "the filter failed: Cannot index array with string \"a\"",
        );
        check_invalid("error(\"no\")", json!(1), "the filter failed: no");
        check_invalid("halt", json!(1), "the filter failed: it halts");
    }

    #[test]
    fn set_returns_its_configuration() {
        let config = json!({ "a": { "b": [1] } });
        let report = Call::new().config(config.clone()).run::<Set>();
        assert_eq!(report.output(), config);
    }

    #[test]
    fn the_filter_is_passed_as_written() {
        let document = describe::<Plugin>();
        let raw = document.pointer("/nodes/0/config/properties/filter/x-raw");
        assert_eq!(raw, Some(&json!(true)));
    }
}
