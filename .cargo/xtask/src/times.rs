//! How long each step takes. `.ci/run` names a file by [`FILE`], to which each step appends a line,
//! and `cargo xtask summary` prints the table at the end.

use crate::{nextest, place};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// The variable with the file of the steps: `SECONDS<tab>NAME` in each line.
const FILE: &str = "WINDLASS_TIMES";

/// The variable with the name under which a process of this program records its own time.
pub(crate) const STEP: &str = "WINDLASS_STEP";

/// The number of tests in the table.
const SLOWEST: usize = 20;

/// The number of crates in the table.
const AGAIN: usize = 20;

/// The time since a step began.
pub(crate) struct Watch(Instant);

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "the figure is for people")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Appends the step to the file, if there is one.
    pub(crate) fn record(&self, name: &str) -> Result<()> {
        let seconds = self.0.elapsed().as_secs();
        let Some(file) = file() else {
            return Ok(());
        };
        let mut file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(&file)
            .with_context(|| format!("cannot write {}", file.display()))?;
        writeln!(file, "{seconds}\t{name}")?;
        Ok(())
    }
}

/// Carries out a step, and records how long it takes.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let watch = Watch::start();
    let result = work()?;
    watch.record(name)?;
    Ok(result)
}

fn file() -> Option<PathBuf> {
    std::env::var_os(FILE).map(PathBuf::from)
}

/// Prints the steps in the file, the slowest tests of the last run, and the crates that were
/// compiled more than once since the file was created.
pub(crate) fn summary() -> Result<()> {
    let file = file().with_context(|| format!("{FILE} names no file"))?;
    let steps = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let mut text = String::from("\nseconds  step (indented: part of the step that follows)\n");
    for line in steps.lines() {
        let (seconds, name) = line.split_once('\t').unwrap_or(("", line));
        writeln!(text, "{seconds:>7}  {name}")?;
    }
    writeln!(text, "\nseconds  test (the {SLOWEST} slowest)")?;
    for (seconds, name) in nextest::slowest(SLOWEST)? {
        writeln!(text, "{seconds:>7.1}  {name}")?;
    }
    let since = std::fs::metadata(&file)?.created()?;
    let crates = compiled(since)?;
    let total: usize = crates.values().map(Vec::len).sum();
    let again: usize = crates.values().map(|places| places.len() - 1).sum();
    writeln!(
        text,
        "\n  times  crate ({total} compilations of {} crates, {again} of them not the first; \
         the {AGAIN} most frequent)",
        crates.len()
    )?;
    let mut crates: Vec<_> = crates.into_iter().collect();
    crates.sort_by_key(|(name, places)| (std::cmp::Reverse(places.len()), name.clone()));
    for (name, places) in crates.into_iter().take(AGAIN) {
        writeln!(text, "{:>7}  {name}: {}", places.len(), counted(&places))?;
    }
    eprintln!("{text}");
    Ok(())
}

/// Equal words of a sorted list, each with its number if there are several.
fn counted(words: &[String]) -> String {
    let groups = words.chunk_by(|a, b| a == b);
    let groups = groups.filter_map(|group| {
        let word = group.first()?;
        Some(match group.len() {
            1 => word.clone(),
            count => format!("{count} × {word}"),
        })
    });
    groups.collect::<Vec<_>>().join(", ")
}

/// The crates that were compiled since that time, by the file in which each begins, and where the
/// compiled code is. Several places of one crate are several compilations.
fn compiled(since: SystemTime) -> Result<BTreeMap<String, Vec<String>>> {
    let target = place::target()?;
    let mut found = BTreeMap::<String, Vec<String>>::new();
    let mut folders = vec![target.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            let in_deps = folder.ends_with("deps");
            if entry.file_type()?.is_dir() {
                // Directories of cargo's profiles lie at most three levels below.
                let depth = path.strip_prefix(&target)?.components().count();
                if depth < 5 && !in_deps {
                    folders.push(path);
                }
                continue;
            }
            let is_unit = in_deps && path.extension().is_some_and(|it| it == "d");
            if !is_unit || entry.metadata()?.modified()? < since {
                continue;
            }
            let rules = std::fs::read_to_string(&path)?;
            let place = folder.strip_prefix(&target)?.parent().unwrap_or(&target);
            if let Some((name, kind)) = unit(&rules) {
                found
                    .entry(name)
                    .or_default()
                    .push(format!("{} {kind}", place.display()));
            }
        }
    }
    found.values_mut().for_each(|places| places.sort());
    Ok(found)
}

/// The crate of a file of rules that rustc has written, and the kind of its compilation.
fn unit(rules: &str) -> Option<(String, &'static str)> {
    let outputs: Vec<(&str, &str)> = rules
        .lines()
        .filter_map(|line| line.split_once(": "))
        .collect();
    let (_, sources) = outputs.first()?;
    // Clippy names its settings before the sources.
    let first = sources.split(' ').find(|source| source.ends_with(".rs"))?;
    let is = |ending: &str| outputs.iter().any(|(output, _)| output.ends_with(ending));
    let kind = match () {
        () if is(".rlib") || is(".so") || is(".wasm") => "library",
        () if is(".rmeta") => "check",
        () => "program",
    };
    let name = match first.split_once("/registry/src/") {
        Some((_, path)) => path.split('/').nth(1)?.to_owned(),
        None => Path::new(first).display().to_string(),
    };
    Some((name, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_named_by_its_crate_and_its_kind() {
        let library = "/t/debug/deps/a-1.d: /home/registry/src/index-1/a-1.2.3/src/lib.rs\n\n\
            /t/debug/deps/liba-1.rlib: /home/registry/src/index-1/a-1.2.3/src/lib.rs\n";
        assert_eq!(unit(library), Some(("a-1.2.3".to_owned(), "library")));
        let check = library.replace(".rlib", ".rmeta");
        assert_eq!(unit(&check), Some(("a-1.2.3".to_owned(), "check")));
        let test =
            "/t/debug/deps/b-1.d: host/b/src/lib.rs\n\n/t/debug/deps/b-1: host/b/src/lib.rs\n";
        assert_eq!(
            unit(test),
            Some(("host/b/src/lib.rs".to_owned(), "program"))
        );
        assert_eq!(unit(""), None);
    }

    #[test]
    fn equal_words_are_counted() {
        let words = ["a", "b", "b"].map(str::to_owned);
        assert_eq!(counted(&words), "a, 2 × b");
    }
}
