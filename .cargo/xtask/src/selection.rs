//! Which crates a command builds, so that all commands build the same things.
//!
//! The features of a dependency depend on the crates that are built together. Another selection
//! would enable other features, and compile hundreds of crates again. The command line depends on
//! everything, so a selection that contains it enables the same features as the whole workspace.

use crate::place;
use anyhow::{Context, Result, bail};

/// The package that is in every selection.
const ALL_FEATURES: &str = "windlass-cli";

/// The package of the system tests.
const SYSTEM: &str = "windlass-tests";

/// The packages whose tests run the program, which has the node library inside.
const PROGRAM: [&str; 2] = ["windlass-cli", SYSTEM];

/// The package that starts servers.
const SERVERS: &str = "windlass-test-servers";

/// The packages whose tests load guests.
const GUESTS: [&str; 4] = [
    "windlass-plugins",
    "windlass-runtime",
    "windlass-cli",
    SYSTEM,
];

/// Some packages of the workspace, and their targets.
pub(crate) struct Selection {
    /// None: the whole workspace.
    targets: Option<Vec<String>>,
    /// Whether tests are among them that load the guests.
    pub(crate) guests: bool,
    /// Whether tests are among them that run the program.
    pub(crate) program: bool,
    /// Whether tests are among them that use PostgreSQL or Redis.
    pub(crate) servers: bool,
    /// Whether tests are among them that drive a browser.
    pub(crate) browser: bool,
}

/// The module of the system tests that drive a browser.
const BROWSER: &str = "console::";

/// The arguments that select the programs, with the features of every other selection.
pub(crate) const PROGRAMS: [&str; 2] = ["--workspace", "--all-features"];

impl Selection {
    /// The whole workspace, whose tests may be filtered by their names.
    pub(crate) fn everything(filter: Option<&str>) -> Result<Self> {
        Ok(Self {
            targets: None,
            guests: true,
            program: true,
            servers: true,
            browser: drives_browser(&system_tests()?, filter),
        })
    }

    /// The tests of these packages, which may be named without their prefix; with a filter of names,
    /// also the system tests if one of their names contains the filter.
    pub(crate) fn of(names: &[String], filter: Option<&str>) -> Result<Self> {
        let metadata = place::metadata(&place::root()?.join("Cargo.toml"))?;
        let packages = metadata.get("packages").and_then(|it| it.as_array());
        let packages = packages.context("cargo metadata lists no packages")?;
        let mut wanted = Vec::new();
        for name in names {
            let is_it = |package: &&serde_json::Value| {
                let found = package.get("name").and_then(|it| it.as_str());
                found.is_some_and(|found| found == name || found == format!("windlass-{name}"))
            };
            wanted.push(packages.iter().find(is_it).with_context(|| {
                format!("there is no crate `{name}`: `ls host tests` shows the crates")
            })?);
        }
        let name_of = |package: &serde_json::Value| {
            let name = package.get("name").and_then(|it| it.as_str());
            name.unwrap_or_default().to_owned()
        };
        let tests = system_tests()?;
        let matches = filter.is_some_and(|filter| tests.iter().any(|test| test.contains(filter)));
        if matches && !wanted.iter().any(|it| name_of(it) == SYSTEM) {
            wanted.extend(packages.iter().find(|it| name_of(it) == SYSTEM));
        }
        let mut targets = vec!["--all-features".to_owned()];
        let mut all = std::collections::BTreeSet::from([ALL_FEATURES.to_owned()]);
        for package in &wanted {
            let of = package.get("targets").and_then(|it| it.as_array());
            for target in of.into_iter().flatten() {
                let kind = target.pointer("/kind/0").and_then(|it| it.as_str());
                let name = target.get("name").and_then(|it| it.as_str());
                let tested = target.get("test").and_then(serde_json::Value::as_bool);
                let (Some(kind), Some(name), Some(true)) = (kind, name, tested) else {
                    continue;
                };
                match kind {
                    // The option is for all packages, and may stand once.
                    "lib" if !targets.iter().any(|it| it == "--lib") => {
                        targets.push("--lib".to_owned());
                    }
                    "bin" | "test" => targets.extend([format!("--{kind}"), name.to_owned()]),
                    _ => {}
                }
            }
            all.insert(name_of(package));
        }
        if targets.len() == 1 {
            bail!("{} has no tests", names.join(", "));
        }
        for package in all {
            targets.extend(["--package".to_owned(), package]);
        }
        Ok(Self {
            targets: Some(targets),
            guests: wanted.iter().any(|it| GUESTS.contains(&&*name_of(it))),
            program: wanted.iter().any(|it| PROGRAM.contains(&&*name_of(it))),
            servers: wanted.iter().any(|it| {
                let needs = it.get("dependencies").and_then(|it| it.as_array());
                let mut needs = needs.into_iter().flatten();
                name_of(it) == SERVERS || needs.any(|need| name_of(need) == SERVERS)
            }),
            browser: wanted.iter().any(|it| name_of(it) == SYSTEM)
                && drives_browser(&tests, filter),
        })
    }

    /// Whether it is the whole workspace.
    pub(crate) fn is_everything(&self) -> bool {
        self.targets.is_none()
    }

    /// The arguments of a cargo command that builds or runs the tests.
    pub(crate) fn arguments(&self) -> Vec<String> {
        match &self.targets {
            Some(targets) => targets.clone(),
            None => PROGRAMS.map(str::to_owned).to_vec(),
        }
    }
}

/// Whether one of the tests that the filter leaves drives a browser.
fn drives_browser(tests: &[String], filter: Option<&str>) -> bool {
    let mut tests = tests.iter().filter(|test| test.starts_with(BROWSER));
    tests.any(|test| filter.is_none_or(|filter| test.contains(filter)))
}

/// The names of the system tests, `module::function`.
fn system_tests() -> Result<Vec<String>> {
    let mut folders = vec![place::root()?.join("tests/tests/system")];
    let mut names = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path)?;
            let module = path.file_stem().unwrap_or_default().to_string_lossy();
            for rest in source.split("#[test]").skip(1) {
                let function = rest.split("fn ").nth(1).unwrap_or_default();
                let function = function.split('(').next().unwrap_or_default();
                names.push(format!("{module}::{function}"));
            }
        }
    }
    Ok(names)
}
