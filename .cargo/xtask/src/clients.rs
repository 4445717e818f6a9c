//! Clients that are generated from the HTTP API's document: one in Python, one in TypeScript. Both
//! generators have to accept the document without a warning, both outputs have to compile, and each
//! client drives a running host.
//!
//! The generators come from PyPI and npm, in the versions of the lock files in `tests/clients`. Node
//! comes from the machine, or else from PyPI.

use crate::node::Node;
use crate::{api, host, place, pypi, servers};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The checked-in document, from which the clients are generated.
const DOCUMENT: &str = "docs/openapi.json";

/// The programs that generate the clients.
struct Generators {
    python: PathBuf,
    node: Node,
    /// The directory in which the packages of npm are installed.
    typescript: PathBuf,
}

/// Generates and compiles the clients, and lets them drive a host that is already built. Without
/// the generators it prints a message, and fails if the test is required.
pub(crate) fn check(programs: &Path) -> Result<()> {
    let Some(generators) = generators()? else {
        return Ok(());
    };
    let place = place::target()?.join("clients");
    let home = place.join("host");
    if home.exists() {
        std::fs::remove_dir_all(&home)?;
    }
    std::fs::create_dir_all(home.join("workflows"))?;
    let (_host, address) = api::serve(programs, &home)?;
    let address = format!("http://{address}");
    python(&generators, &place, &address)?;
    typescript(&generators, &address)
}

/// Installs the generators, if they are missing and can be had.
pub(crate) fn prepare() -> Result<()> {
    generators().map(|_| ())
}

/// The generators; none if they cannot be had and are not required.
fn generators() -> Result<Option<Generators>> {
    match install() {
        Ok(generators) => Ok(Some(generators)),
        Err(error) if !servers::required() => {
            host::say(&format!(
                "NOT RUN: no generator of clients can be had, and neither CI nor {} is set: \
                 {error:#}",
                servers::REQUIRE
            ));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Installs the generators.
fn install() -> Result<Generators> {
    let root = place::root()?.join("tests/clients");
    let wanted = std::fs::read_to_string(root.join("python/requirements.txt"))?;
    let python = pypi::programs("clients", &wanted)?;
    let node = Node::find()?;
    let typescript = place::target()?.join("clients/typescript");
    std::fs::create_dir_all(&typescript)?;
    let from = root.join("typescript");
    for name in [
        "package.json",
        "package-lock.json",
        "tsconfig.json",
        "drive.ts",
    ] {
        std::fs::copy(from.join(name), typescript.join(name))?;
    }
    node.install(&typescript, "the packages of tests/clients/typescript")?;
    Ok(Generators {
        python,
        node,
        typescript,
    })
}

fn python(generators: &Generators, place: &Path, address: &str) -> Result<()> {
    host::say("driving a host by a client in Python that is generated from the document");
    let root = place::root()?;
    let from = root.join("tests/clients/python");
    let program = |name: &str| {
        let mut command = Command::new(generators.python.join(name));
        command.current_dir(place);
        command
    };
    place::run(
        program("openapi-python-client")
            .args([
                "generate",
                "--meta",
                "none",
                "--overwrite",
                "--fail-on-warning",
            ])
            .args(["--output-path", "windlass_client", "--path"])
            .arg(root.join(DOCUMENT))
            .arg("--config")
            .arg(from.join("generator.yaml")),
    )?;
    place::run(program("mypy").args(["--strict", "-p", "windlass_client"]))?;
    std::fs::copy(from.join("drive.py"), place.join("drive.py"))?;
    place::run(program("mypy").args(["--strict", "drive.py"]))?;
    place::run(program("python").args(["drive.py", address]))
}

fn typescript(generators: &Generators, address: &str) -> Result<()> {
    host::say("driving a host by a client in TypeScript that is generated from the document");
    let place = &generators.typescript;
    let package = |name: &str| -> Result<Command> {
        let mut command = generators.node.command("npm", place)?;
        command.args(["exec", "--offline", "--", name]);
        Ok(command)
    };
    let document = place::root()?.join(DOCUMENT);
    place::output(
        package("openapi-typescript")?
            .arg(document)
            .args(["--output", "windlass.d.ts"]),
    )?;
    place::run(package("tsc")?.args(["--project", "."]))?;
    place::run(
        generators
            .node
            .command("node", place)?
            .args(["drive.js", address]),
    )
}
