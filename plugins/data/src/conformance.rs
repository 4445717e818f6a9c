//! Compares this plugin with jq by test files of jq, which are not part of this repository:
//!
//! ```text
//! JQ_TESTS=jq-1.7.1/tests/jq.test cargo test -p data -- --ignored --nocapture jq_s_own_tests
//! ```
//!
//! A test is a filter, an input, and its outputs, each on a line; a blank line ends it.

use crate::filter::{self, faults};
use crate::json;

struct Case {
    line: usize,
    filter: String,
    input: String,
    outputs: Vec<String>,
    must_not_compile: bool,
}

fn cases(text: &str) -> Vec<Case> {
    let is_skipped =
        |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
    let mut lines = text.lines().enumerate().peekable();
    let mut cases = Vec::new();
    while let Some((at, first)) = lines.next() {
        if is_skipped(first) {
            continue;
        }
        let must_not_compile = first.starts_with("%%FAIL");
        let mut rest: Vec<&str> = std::iter::from_fn(|| lines.next_if(|(_, it)| !is_skipped(it)))
            .map(|(_, line)| line)
            .collect();
        let filter = if must_not_compile {
            rest.remove(0)
        } else {
            first
        };
        let input = if must_not_compile { "" } else { rest.remove(0) };
        cases.push(Case {
            line: at + 1,
            filter: filter.to_owned(),
            input: input.to_owned(),
            outputs: rest.into_iter().map(str::to_owned).collect(),
            must_not_compile,
        });
    }
    cases
}

/// What is wrong.
fn difference(case: &Case) -> Option<String> {
    if case.must_not_compile {
        return faults(&case.filter)
            .is_empty()
            .then(|| "compiles".to_owned());
    }
    let actual = match filter::outputs(&case.filter, case.input.as_bytes()) {
        Ok(actual) => actual,
        Err(error) => return Some(error),
    };
    let read = |text: &String| json::read(text.as_bytes());
    let expected: Vec<_> = case.outputs.iter().map(read).collect();
    let read: Vec<_> = actual.iter().map(read).collect();
    let is_equal = expected.len() == read.len()
        && expected
            .iter()
            .zip(&read)
            .all(|(expected, actual)| expected == actual);
    (!is_equal).then(|| actual.join(" ; "))
}

#[test]
#[ignore = "wants the path of a test file of jq in JQ_TESTS"]
fn jq_s_own_tests() {
    let path = std::env::var("JQ_TESTS").expect("JQ_TESTS is the path of a test file of jq");
    let text = std::fs::read_to_string(&path).unwrap();
    let cases = cases(&text);
    let mut different = 0;
    for case in &cases {
        let difference = std::panic::catch_unwind(|| difference(case));
        if let Some(actual) = difference.unwrap_or_else(|_| Some("PANIC".to_owned())) {
            different += 1;
            let Case {
                line,
                filter,
                input,
                outputs,
                ..
            } = case;
            let expected = outputs.join(" ; ");
            println!(
                "{line}: {filter}\n    input    {input}\n    expected {expected}\n    actual   {actual}"
            );
        }
    }
    println!("{path}: {} cases, {different} differ", cases.len());
}
