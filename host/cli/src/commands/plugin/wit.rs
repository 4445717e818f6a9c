//! `windlass plugin wit`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::app::Context;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;

/// The arguments of `plugin wit`.
#[derive(Debug, Args)]
pub(crate) struct Wit {
    /// The folder; files of an earlier version in it are replaced
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The files of the contract, by path in the folder.
static CONTRACT: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/wit.rs"));

impl Wit {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let written = write_contract(&self.directory);
        written.map_err(|(path, error)| {
            let text = format!("cannot write {}: {error}", path.display());
            Expected::new(codes::OUTPUT, text)
        })?;
        let directory = self.directory.display().to_string();
        let files: Vec<_> = CONTRACT.iter().map(|(name, _)| *name).collect();
        let item = json!({ "directory": directory, "files": files });
        let output = &context.output;
        output.show(&item, || {
            format!("{} files are in {directory}", files.len())
        })?;
        Ok(Exit::Done)
    }
}

/// Writes the files of the contract; an error names the path.
fn write_contract(directory: &Path) -> Result<(), (PathBuf, std::io::Error)> {
    for (name, text) in CONTRACT {
        let path = directory.join(name);
        let folder = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
        std::fs::write(&path, text).map_err(|error| (path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wit_parser::{Resolve, WorldItem};

    /// The interfaces that a world imports, without versions.
    fn imports(resolve: &Resolve, world: &str) -> Vec<String> {
        let package = resolve.packages.iter().find(|(_, package)| {
            let name = &package.name;
            (name.namespace.as_str(), name.name.as_str()) == ("windlass", "plugin")
        });
        let (package, _) = package.unwrap();
        let world = resolve.select_world(&[package], Some(world)).unwrap();
        let imports = resolve.worlds[world].imports.values();
        let names = imports.filter_map(|item| match item {
            WorldItem::Interface { id, .. } => resolve.interfaces[*id].name.clone(),
            _ => None,
        });
        let mut names: Vec<_> = names.filter(|name| name != "types").collect();
        names.sort();
        names
    }

    #[test]
    fn tools_for_wit_read_the_written_contract() {
        let directory = tempfile::tempdir().unwrap();
        write_contract(directory.path()).unwrap();
        // A second time, over the files of the first.
        write_contract(directory.path()).unwrap();
        let mut resolve = Resolve::default();
        resolve.push_dir(directory.path()).unwrap();
        let none: [&str; 0] = [];
        assert_eq!(imports(&resolve, "pure"), none);
        assert_eq!(imports(&resolve, "checking"), none);
        assert_eq!(imports(&resolve, "logging"), ["context", "log"]);
        let waiting = ["clock", "context", "log", "random"];
        assert_eq!(imports(&resolve, "waiting"), waiting);
        assert_eq!(
            imports(&resolve, "reading"),
            ["blobs", "context", "log", "memory"]
        );
        assert_eq!(
            imports(&resolve, "net"),
            ["clock", "context", "http", "log", "random"]
        );
        assert_eq!(
            imports(&resolve, "events"),
            ["clock", "context", "events", "log", "random"]
        );
        let full = [
            "blobs", "clock", "context", "events", "http", "log", "memory", "random",
        ];
        assert_eq!(imports(&resolve, "full"), full);
        assert_eq!(
            imports(&resolve, "consumer"),
            ["clock", "context", "log", "memory"]
        );
        assert!(directory.path().join("DESCRIBE.md").is_file());
    }
}
