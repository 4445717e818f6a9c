//! Reshapes JSON: `data/jq` by a jq filter, `data/set` by templates.

mod advice;
mod filter;

use windlass::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JqConfig {
    /// The filter, in the language of jq.
    #[schemars(extend("x-raw" = true))]
    filter: String,
}

struct Jq;

impl Node for Jq {
    type Config = JqConfig;
    type Input = Raw;
    type Output = Raw;
    const NAME: &'static str = "jq";
    const TITLE: &'static str = "jq filter";
    const DESCRIPTION: &'static str =
        "Runs a jq filter over the input. The output is the filter's first one, or null.";
    const ICON: &'static str = "braces";

    fn run(config: JqConfig, input: Raw, _: &Context) -> Result<Outcome<Raw>> {
        let output = filter::run(&config.filter, input.inline()?)?;
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
        assert_eq!(plain, Error::invalid("the filter failed: \"no\""));
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
        check("todate", json!(0), json!("1970-01-01T00:00:00Z"));
        check(
            "[.[] | select(. > 1)] | sort | join(\",\")",
            json!([3, 1, 2]),
            json!("2,3"),
        );
    }

    #[test]
    fn the_first_of_many_outputs_counts_and_none_is_null() {
        check(".[]", json!([7, 8]), json!(7));
        check("empty", json!(1), json!(null));
    }

    #[test]
    fn a_filter_is_compiled_once_and_keeps_no_state() {
        check(".n", json!({ "n": 1 }), json!(1));
        check(".n", json!({ "n": 2 }), json!(2));
    }

    #[test]
    fn a_broken_filter_says_where_and_what() {
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
            "the filter failed: cannot index [1] with \"a\"",
        );
        check_invalid("error(\"no\")", json!(1), "the filter failed: \"no\"");
        check_invalid("halt", json!(1), "the filter failed: it halts");
    }

    #[test]
    fn set_gives_back_what_it_is_configured_with() {
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
