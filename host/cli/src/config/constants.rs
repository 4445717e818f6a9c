//! The bounds that are constants of the program: `docs/limits.md` has each of them.
//!
//! A scan of the sources finds the constants that are numbers. `no-bounds.txt` lists those that are
//! no bounds. Durations are none: time that passes takes no memory.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md");
const NO_BOUNDS: &str = include_str!("no-bounds.txt");
const BEGIN: &str = "<!-- other constants -->\n";
const END: &str = "<!-- end of other constants -->\n";

/// The types of constants that may be bounds.
const NUMBERS: [&str; 6] = ["u16", "u32", "u64", "usize", "i32", "i64"];

/// The ends of names of times.
const TIMES: [&str; 3] = ["_MS", "_US", "_S"];

/// A constant: its file below `host`, its name, its value and its doc comment.
struct Constant {
    file: String,
    name: String,
    value: String,
    about: String,
}

impl Constant {
    fn place(&self) -> String {
        format!("{} {}", self.file, self.name)
    }
}

/// The sources of the program, without tests, doubles and simulations.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            if !["tests", "conformance", "sim", "bindings"].contains(&name.as_str()) {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && !["tests.rs", "double.rs"].contains(&name.as_str()) {
            found.push(path);
        }
    }
}

fn is_module(line: &str) -> bool {
    line.starts_with("mod ") && line.ends_with('{')
}

/// The constants that are numbers in one file.
fn constants(file: &str, text: &str) -> Vec<Constant> {
    let mut found: Vec<Constant> = Vec::new();
    let (mut about, mut is_behind) = (String::new(), false);
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" && lines.clone().next().is_some_and(is_module) {
            break;
        }
        if let Some(more) = line.strip_prefix("///") {
            about = format!("{about}{} ", more.trim());
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        let constant = line
            .split_once("const ")
            .filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
        let constant = constant.and_then(|(_, rest)| rest.split_once(": "));
        let constant = constant.and_then(|(name, rest)| {
            let (kind, value) = rest.split_once(" =")?;
            NUMBERS.contains(&kind).then_some((name, value))
        });
        let Some((name, value)) = constant else {
            (about, is_behind) = (String::new(), false);
            continue;
        };
        let mut value = value.trim().to_owned();
        while !value.ends_with(';') {
            value = format!("{value} {}", lines.next().unwrap())
                .trim()
                .to_owned();
        }
        // One doc comment may be about two constants.
        if about.is_empty() && is_behind {
            about = found.last().unwrap().about.clone();
        }
        found.push(Constant {
            file: file.to_owned(),
            name: name.to_owned(),
            value: value.trim_end_matches(';').to_owned(),
            about: std::mem::take(&mut about).trim().to_owned(),
        });
        is_behind = true;
    }
    found
}

fn all() -> Vec<Constant> {
    let mut files = Vec::new();
    for krate in std::fs::read_dir(HOST).unwrap() {
        let source = krate.unwrap().path().join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    let mut found = Vec::new();
    for path in files {
        let file = path.strip_prefix(HOST).unwrap().to_str().unwrap();
        let file = file.replacen("/src/", "/", 1);
        // The first have a table of their own, and this one has examples.
        if !["model/limits.rs", "cli/config/constants.rs"].contains(&file.as_str()) {
            found.extend(constants(&file, &std::fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort_by_key(Constant::place);
    found
}

fn no_bounds() -> BTreeSet<&'static str> {
    let lines = NO_BOUNDS.lines();
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

#[test]
fn the_page_of_limits_has_each_constant_that_is_a_bound() {
    let (all, no_bounds) = (all(), no_bounds());
    assert!(all.len() > 300, "the scan finds {}", all.len());
    let places: BTreeSet<String> = all.iter().map(Constant::place).collect();
    let gone: Vec<_> = no_bounds
        .iter()
        .filter(|place| !places.contains(**place))
        .collect();
    assert!(gone.is_empty(), "no-bounds.txt has no need of {gone:?}");
    let mut table = "| bound | value | constant |\n|---|---|---|\n".to_owned();
    let is_time = |name: &str| TIMES.iter().any(|end| name.ends_with(end));
    let bounds = all
        .iter()
        .filter(|it| !is_time(&it.name) && !no_bounds.contains(it.place().as_str()));
    for bound in bounds {
        let Constant {
            file,
            name,
            value,
            about,
        } = bound;
        assert!(!about.is_empty(), "{file}: {name} has no doc comment");
        let about = about.replace(['[', ']'], "").replace('|', "\\|");
        writeln!(table, "| {about} | `{value}` | `{name}` in {file} |").unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (there, after) = rest.split_once(END).unwrap();
    if std::env::var_os("BLESS").is_some() {
        let page = format!("{before}{BEGIN}{table}{END}{after}");
        return std::fs::write(PAGE, page).unwrap();
    }
    let missing: Vec<_> = table
        .lines()
        .filter(|row| !there.lines().any(|line| line == *row))
        .collect();
    assert_eq!(
        there, table,
        "BLESS=1 writes docs/limits.md anew, or no-bounds.txt names a constant that is no bound: {missing:#?}"
    );
}

#[test]
fn the_scan_sees_constants_however_they_are_written() {
    let text = "
        /// The most
        /// of it.
        pub(crate) const ONE: usize = 1;
        const TWO: u64 =
            2 * 2;
        #[allow(unused)]
        const TEXT: &str = \"3\";
        const FOUR: u32 = 4;
        #[cfg(test)]
        mod tests {
            const FIVE: u32 = 5;
        }
    ";
    let found = constants("a/b.rs", text);
    let found: Vec<_> = found
        .iter()
        .map(|it| format!("{} {} {}", it.name, it.value, it.about))
        .collect();
    assert_eq!(
        found,
        [
            "ONE 1 The most of it.",
            "TWO 2 * 2 The most of it.",
            "FOUR 4 "
        ]
    );
}
