//! The report of `plugin test`: for people, as JSON, and as JUnit XML.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::output::Paint;

/// One test.
pub(super) struct Case {
    /// Its suite.
    suite: &'static str,
    /// Its name.
    name: String,
    /// How long it took.
    took: Duration,
    /// Its result.
    end: End,
}

enum End {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Case {
    /// A test that passes.
    pub(super) fn new(suite: &'static str, name: &str) -> Self {
        Self {
            suite,
            name: name.to_owned(),
            took: Duration::ZERO,
            end: End::Passed,
        }
    }

    pub(super) fn took(mut self, took: Duration) -> Self {
        self.took = took;
        self
    }

    pub(super) fn failed(mut self, why: String) -> Self {
        self.end = End::Failed(why);
        self
    }

    pub(super) fn skipped(mut self, why: &str) -> Self {
        self.end = End::Skipped(why.to_owned());
        self
    }
}

/// All tests.
#[derive(Default)]
pub(super) struct Report {
    cases: Vec<Case>,
}

/// The suites, in the order of the report.
const SUITES: [(&str, &str); 3] = [
    ("own", "The author's tests"),
    ("examples", "Examples"),
    ("conformance", "Conformance"),
];

impl Report {
    pub(super) fn add(&mut self, case: Case) {
        self.cases.push(case);
    }

    /// The number of failed tests.
    pub(super) fn failed(&self) -> usize {
        self.count(|end| matches!(end, End::Failed(_)))
    }

    fn count(&self, is: impl Fn(&End) -> bool) -> usize {
        self.cases.iter().filter(|case| is(&case.end)).count()
    }

    /// For people.
    pub(super) fn text(&self, paint: Paint) -> String {
        let mut text = String::new();
        for (suite, title) in SUITES {
            let cases: Vec<_> = self.cases.iter().filter(|it| it.suite == suite).collect();
            if cases.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{}", paint.strong(title));
            for case in cases {
                let name = &case.name;
                let _ = match &case.end {
                    End::Passed => writeln!(text, "  {} {name}", paint.good('✓')),
                    End::Failed(why) => {
                        let why = why.replace('\n', "\n      ");
                        writeln!(text, "  {} {name}\n      {why}", paint.bad('✗'))
                    }
                    End::Skipped(why) => {
                        let skipped = format!("- {name}: skipped: {why}");
                        writeln!(text, "  {}", paint.dim(skipped))
                    }
                };
            }
        }
        let passed = self.count(|end| matches!(end, End::Passed));
        let skipped = self.count(|end| matches!(end, End::Skipped(_)));
        let failed = self.failed();
        let _ = writeln!(text, "{passed} passed, {failed} failed, {skipped} skipped");
        text
    }

    /// For programs.
    pub(super) fn document(&self) -> Value {
        let cases = self.cases.iter().map(|case| {
            let (end, why) = match &case.end {
                End::Passed => ("passed", None),
                End::Failed(why) => ("failed", Some(why)),
                End::Skipped(why) => ("skipped", Some(why)),
            };
            let took_us = u64::try_from(case.took.as_micros()).unwrap_or(u64::MAX);
            json!({
                "suite": case.suite, "name": case.name, "end": end, "why": why, "took_us": took_us,
            })
        });
        json!(cases.collect::<Vec<_>>())
    }

    /// JUnit XML, as test reporters of CI systems read it. It fits the schema of Jenkins' plugin xUnit
    /// (`junit-10.xsd`), by which `errors` is needed.
    pub(super) fn junit(&self, plugin: &str) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
        let plugin = escaped(plugin);
        for (suite, _) in SUITES {
            let cases: Vec<_> = self.cases.iter().filter(|it| it.suite == suite).collect();
            if cases.is_empty() {
                continue;
            }
            let count = |is: fn(&End) -> bool| cases.iter().filter(|case| is(&case.end)).count();
            let failed = count(|end| matches!(end, End::Failed(_)));
            let skipped = count(|end| matches!(end, End::Skipped(_)));
            let took: Duration = cases.iter().map(|case| case.took).sum();
            let _ = writeln!(
                text,
                "  <testsuite name=\"{plugin} {suite}\" tests=\"{}\" failures=\"{failed}\" errors=\"0\" \
                 skipped=\"{skipped}\" time=\"{:.6}\">",
                cases.len(),
                took.as_secs_f64()
            );
            for case in cases {
                let _ = write!(
                    text,
                    "    <testcase classname=\"{plugin} {suite}\" name=\"{}\" time=\"{:.6}\"",
                    escaped(&case.name),
                    case.took.as_secs_f64()
                );
                let _ = match &case.end {
                    End::Passed => writeln!(text, "/>"),
                    End::Failed(why) => writeln!(
                        text,
                        "><failure message=\"{}\">{}</failure></testcase>",
                        escaped(why.lines().next().unwrap_or_default()),
                        escaped(why)
                    ),
                    End::Skipped(why) => {
                        writeln!(text, "><skipped message=\"{}\"/></testcase>", escaped(why))
                    }
                };
            }
            text.push_str("  </testsuite>\n");
        }
        text.push_str("</testsuites>\n");
        text
    }
}

/// A text as XML. Characters that XML cannot have become replacement characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push('\t'),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                escaped.push(char::REPLACEMENT_CHARACTER);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::default();
        report.add(Case::new("own", "cargo test").took(Duration::from_millis(1500)));
        let hostile = "has to be \"<a>\" & not\n\u{1b}[2J]]>".to_owned();
        report.add(Case::new("examples", "greet").failed(hostile));
        report.add(Case::new("conformance", "unicode").skipped("no text"));
        report
    }

    #[test]
    fn people_read_each_result_and_its_reason() {
        let expected = "The author's tests\n  ✓ cargo test\nExamples\n  ✗ greet\n      \
            has to be \"<a>\" & not\n      \u{1b}[2J]]>\nConformance\n  - unicode: skipped: no text\n\
            1 passed, 1 failed, 1 skipped\n";
        assert_eq!(report().text(Paint(false)), expected);
    }

    #[test]
    fn a_foreign_text_cannot_leave_its_place_in_the_xml() {
        let xml = report().junit("a@1.0.0");
        assert!(xml.contains(
            "<failure message=\"has to be &quot;&lt;a&gt;&quot; &amp; not\">has to be \
             &quot;&lt;a&gt;&quot; &amp; not&#10;\u{fffd}[2J]]&gt;</failure>"
        ));
        assert!(xml.contains("tests=\"1\" failures=\"1\" errors=\"0\" skipped=\"0\""));
        assert!(xml.contains("<skipped message=\"no text\"/>"));
        assert!(xml.contains("time=\"1.500000\"/>"));
    }

    #[test]
    fn a_suite_without_tests_is_not_in_the_xml() {
        let mut report = Report::default();
        report.add(Case::new("conformance", "unicode"));
        let xml = report.junit("a@1.0.0");
        let suites: Vec<&str> = xml
            .lines()
            .filter(|it| it.contains("<testsuite "))
            .collect();
        let expected = "  <testsuite name=\"a@1.0.0 conformance\" tests=\"1\" failures=\"0\" errors=\"0\" \
            skipped=\"0\" time=\"0.000000\">";
        assert_eq!(suites, [expected]);
    }
}
