//! `cargo xtask api`: a client that was generated from the HTTP API's own document asks a
//! running host everything that the document allows, and much that it does not. Whatever it is
//! answered has to be in the document, and never be a failure of the host.
//!
//! The client is schemathesis, from PyPI, in a virtual environment of the target directory.

use crate::{guests, host, place, pypi, servers};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The client, of a version that is known to work.
const CLIENT: &str = "4.32.5";

/// What it holds against each answer. `ignored_auth` is not among it: the document wants a token,
/// and the host that is asked here listens on this machine alone, without one.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,unsupported_method";

/// Requests that are made up for each operation.
const EXAMPLES: &str = "25";

/// How often it is looked whether the host listens; half a minute in all.
const LOOKS: u32 = 600;

/// Workflows that the client finds: one that ends, one that waits, one that begins by a request.
const WORKFLOWS: [&str; 2] = [
    "workflow: waits\nnodes: { ask: { event: approval } }\n",
    "workflow: hooked\ntriggers: { hook: { http: { path: /orders } } }\nnodes: { a: { set: { b: 1 } } }\n",
];

/// A host that does not outlive the test.
struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds the host, and asks it.
pub(crate) fn run() -> Result<()> {
    guests::run(&guests::Args::everything())?;
    check(&host::release()?)
}

/// Asks a host that is built. Where there is no Python this says so, and fails where it
/// must not be left out.
pub(crate) fn check(programs: &Path) -> Result<()> {
    let client = match pypi::program("schemathesis", CLIENT, "schemathesis") {
        Ok(client) => client,
        Err(error) if !servers::required() => {
            host::say(&format!(
                "NOT RUN: no client of the HTTP API can be had, and neither CI nor {} is set: \
                 {error:#}",
                servers::REQUIRE
            ));
            return Ok(());
        }
        Err(error) => return Err(error),
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
            // The same requests each time, so that what fails once fails again.
            .args(["--seed", "1", "--generation-deterministic"])
            // A paused host would refuse whatever comes after.
            .args(["--exclude-path-regex", "^/api/v1/admin/(un)?pause"]),
    )
}

/// Starts a host that listens somewhere.
fn serve(programs: &Path, place: &Path) -> Result<(Host, String)> {
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
