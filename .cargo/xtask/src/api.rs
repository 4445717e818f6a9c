//! `cargo xtask api`: a client that is generated from the HTTP API's document sends a running host
//! requests that the document allows, and many that it does not. Every answer has to be in the
//! document, and none may be a failure of the host.
//!
//! The client is schemathesis, from PyPI, in a virtual environment of the target directory.

use crate::{clients, guests, host, place, pypi, servers};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The version of the client that is known to work.
const CLIENT: &str = "4.32.5";

/// The checks of each answer. `ignored_auth` is not among them: the document requires a token, but
/// this host listens on loopback only, and needs none.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,unsupported_method";

/// Generated requests for each operation.
const EXAMPLES: &str = "25";

/// How often to check whether the host listens; half a minute in total.
const LOOKS: u32 = 600;

/// Workflows that exist for the client: one that ends, one that waits, one that a request starts.
const WORKFLOWS: [&str; 2] = [
    "workflow: waits\nnodes: { ask: { event: approval } }\n",
    "workflow: hooked\ntriggers: { hook: { http: { path: /orders } } }\nnodes: { a: { set: { b: 1 } } }\n",
];

/// A host that is killed at the end of the test.
pub(crate) struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Let generated clients send requests to the HTTP API of a running host.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these clients.
    #[arg(value_enum)]
    only: Option<Only>,

    /// The host is built already.
    #[arg(long)]
    built: bool,
}

/// A kind of clients.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Only {
    /// The client that tries what the document allows, and what it does not.
    Schemathesis,
    /// Clients in Python and TypeScript that are generated from the document.
    Clients,
}

/// Builds the host, and tests it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let programs = if args.built {
        host::built()?
    } else {
        guests::run(&guests::Args::everything())?;
        host::dev(&["windlass"])?
    };
    if args.only != Some(Only::Clients) {
        check(&programs)?;
    }
    if args.only != Some(Only::Schemathesis) {
        clients::check(&programs)?;
    }
    Ok(())
}

/// Installs the client, if it is missing and can be had.
pub(crate) fn prepare() -> Result<()> {
    client().map(|_| ())
}

/// The client; none if it cannot be had and is not required.
fn client() -> Result<Option<PathBuf>> {
    match pypi::program("schemathesis", CLIENT, "schemathesis") {
        Ok(client) => Ok(Some(client)),
        Err(error) if !servers::required() => {
            host::say(&format!(
                "NOT RUN: no client of the HTTP API can be had, and neither CI nor {} is set: \
                 {error:#}",
                servers::REQUIRE
            ));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Tests a host that is already built. Without Python it prints a message, and fails if the test is
/// required.
pub(crate) fn check(programs: &Path) -> Result<()> {
    let Some(client) = client()? else {
        return Ok(());
    };
    host::say("sending a host requests that the document of its HTTP API allows");
    let place = place::target()?.join("api");
    if place.exists() {
        std::fs::remove_dir_all(&place)?;
    }
    let workflows = place.join("workflows");
    std::fs::create_dir_all(&workflows)?;
    for (number, text) in WORKFLOWS.iter().enumerate() {
        std::fs::write(workflows.join(format!("{number}.yaml")), text)?;
    }
    let (_host, address) = serve(programs, &place)?;
    place::run(
        Command::new(client)
            .current_dir(&place)
            .args(["run", &format!("http://{address}/api/openapi.json")])
            .args(["--checks", CHECKS, "--max-examples", EXAMPLES])
            .args(["--phases", "examples,coverage,fuzzing", "--no-color"])
            // The same requests each time, so that a failure can be repeated.
            .args(["--seed", "1", "--generation-deterministic"])
            // A paused host would refuse all later requests.
            .args(["--exclude-path-regex", "^/api/v1/admin/(un)?pause"]),
    )
}

/// Starts a host on a free port.
pub(crate) fn serve(programs: &Path, place: &Path) -> Result<(Host, String)> {
    let log = place.join("serve.log");
    let child = Command::new(programs.join("windlass"))
        .current_dir(place)
        .args(["serve", "--store", "store"])
        .args(["--set", "server.listen=127.0.0.1:0"])
        .args(["--set", "definitions.directory=workflows"])
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log)?)
        .spawn()
        .context("cannot start windlass")?;
    let mut host = Host(child);
    for _ in 0..LOOKS {
        let said = std::fs::read_to_string(&log)?;
        if let Some(address) = listening(&said) {
            return Ok((host, address.to_owned()));
        }
        if host.0.try_wait()?.is_some() {
            bail!("the host ended instead of listening:\n{said}");
        }
        pause();
    }
    bail!("the host does not say where it listens: {}", log.display())
}

fn listening(said: &str) -> Option<&str> {
    let line = said.lines().find(|line| line.contains("listening"))?;
    line.split_once("address=")?.1.split_whitespace().next()
}

#[expect(clippy::disallowed_methods, reason = "another process takes its time")]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}
