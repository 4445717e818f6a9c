//! `cargo xtask test`: runs the tests.

use crate::beside::Beside;
use crate::guests::DEFAULT_TARGET;
use crate::selection::Selection;
use crate::toolchain::Toolchain;
use crate::{
    api, c, clients, console, foreign, go, host, javascript, nextest, place, python, servers, times,
};
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Run the tests: all, or those of some crates.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only tests of the host whose names contain this. With `--package`, also the system tests
    /// whose names contain it.
    name: Option<String>,

    /// Only the tests of this crate, like `runtime`. May be repeated.
    #[arg(long, short, value_name = "CRATE")]
    package: Vec<String>,

    /// Let the random suites try more seeds. Takes about half an hour on two processors.
    #[arg(long)]
    long: bool,
}

/// The variable by which the random suites learn that there is time.
const LONG: &str = "WINDLASS_LONG";

/// Builds the parts that the tests need, and runs the tests.
pub(crate) fn run(args: &Args) -> Result<()> {
    let name = args.name.as_deref();
    let selection = match args.package.as_slice() {
        [] => Selection::everything(name)?,
        packages => Selection::of(packages, name)?,
    };
    let whole = args.package.is_empty() && name.is_none();
    let mut promtool = None;
    if selection.servers {
        // Before the guests, whose compiler comes from Debian as well: two installations at the same
        // time would fail.
        servers::prepare()?;
        promtool = match servers::promtool() {
            Err(error) if !servers::required() => {
                host::say(&format!("the tests run without promtool: {error:#}"));
                None
            }
            found => found?,
        };
    }
    // What PyPI and npm send arrives while this machine compiles.
    let tools = match whole {
        true => Some(Beside::start("tools", &["prepare"])?),
        false => None,
    };
    if selection.browser && !whole {
        console::prepare()?;
    }
    let mut guests = match selection.guests {
        true => Some(Beside::start("guests", &["guests", "--tests"])?),
        false => None,
    };
    if selection.program {
        times::step("  packer", host::packer)?;
        // The packer packs them into the program.
        guests.take().map_or(Ok(()), Beside::wait)?;
    }
    let programs = times::step("  host and tests", || host::tests(&selection))?;
    guests.map_or(Ok(()), Beside::wait)?;
    tools.map_or(Ok(()), Beside::wait)?;
    let servers = match selection.servers {
        true => Some(Servers::start(&programs)?),
        false => None,
    };
    let beside = match whole {
        true => vec![
            Beside::start("schemathesis", &["api", "--built", "schemathesis"])?,
            Beside::start("clients", &["api", "--built", "clients"])?,
            Beside::start("native", &["native"])?,
        ],
        false => Vec::new(),
    };
    host::say("testing the host");
    let mut command = place::cargo_with_library()?;
    command
        .env("WINDLASS_BIN", programs.join("windlass"))
        .env("WINDLASS_FAILPOINT_BIN", programs.join("windlass"))
        .env("WINDLASS_TARGET", place::target()?);
    if selection.program {
        command.env(GUEST_COMPILER, guest_compiler()?);
    }
    if let Some(servers) = &servers {
        command.envs(servers.variables.iter().cloned());
    }
    if let Some(promtool) = promtool {
        command.env(servers::PROMTOOL, promtool);
    }
    if args.long {
        command.env(LONG, "1");
    }
    let tests = times::step("  tests of the host", || {
        nextest::run(&selection.arguments(), name, args.long, command)
    });
    let beside: Vec<Result<()>> = beside.into_iter().map(Beside::wait).collect();
    tests?;
    beside.into_iter().collect::<Result<()>>()?;
    host::say("all tests passed");
    Ok(())
}

/// The variable with the variables by which cargo compiles guests here: a JSON object.
const GUEST_COMPILER: &str = "WINDLASS_GUEST_COMPILER";

fn guest_compiler() -> Result<String> {
    let variables = Toolchain::find(DEFAULT_TARGET)?.environment()?;
    let variables = variables.into_iter().map(|(name, value)| {
        let value = value.to_string_lossy().into_owned();
        (name.to_owned(), serde_json::Value::String(value))
    });
    Ok(serde_json::Value::Object(variables.collect()).to_string())
}

/// Installs the clients of the HTTP API, the programs that generate such clients and those that drive
/// a browser, and builds the plugins in JavaScript, Python, C and Go.
pub(crate) fn prepare() -> Result<()> {
    api::prepare()?;
    clients::prepare()?;
    foreign::prepare()?;
    c::prepare()?;
    go::prepare()?;
    javascript::prepare()?;
    python::prepare()?;
    console::prepare()
}

/// The servers that test processes share. They stop when this is dropped, or this process ends.
struct Servers {
    process: Child,
    variables: Vec<(String, String)>,
}

impl Servers {
    fn start(programs: &Path) -> Result<Self> {
        let mut process = Command::new(programs.join("windlass-test-servers"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the servers that tests share")?;
        let output = BufReader::new(process.stdout.take().context("its output is piped")?);
        let mut variables = Vec::new();
        for line in output.lines() {
            let line = line?;
            let Some((name, value)) = line.split_once('=') else {
                return Ok(Self { process, variables });
            };
            variables.push((name.to_owned(), value.to_owned()));
        }
        anyhow::bail!(
            "the servers that tests share do not start: {}",
            process.wait()?
        )
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // Its input ends.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// The guests' own tests, which run as ordinary programs.
pub(crate) fn natively() -> Result<()> {
    host::say("testing the guest SDK and the plugins natively");
    // Only the SDK has examples in its documentation.
    for (manifest, targets) in [
        ("guest-sdk/rust/Cargo.toml", None),
        ("plugins/Cargo.toml", Some("--tests")),
        ("examples/shout/Cargo.toml", Some("--tests")),
        ("examples/guard/Cargo.toml", Some("--tests")),
    ] {
        let mut command = place::cargo();
        command
            .args(["test", "--workspace", "--manifest-path"])
            .arg(place::root()?.join(manifest))
            .args(targets)
            .env("CARGO_TARGET_DIR", place::target()?.join("guests"))
            // Each package is a program to link.
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        place::run(&mut command)?;
    }
    Ok(())
}
