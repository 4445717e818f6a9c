//! The schema by which editors complete and check workflow files, with the node types of the plugins of
//! a project. `init` writes it, `dev` refreshes it, and `workflow schema` prints it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use windlass_model::file::{JSON_SCHEMA, NodeSchema, json_schema_with};
use windlass_plugins::Host;

use crate::app::Context;
use crate::wire::Machine;
use crate::wire::plugins::leave_unreadable_secrets_out;

/// The file of the schema in a project.
pub(crate) const FILE: &str = ".windlass/workflow.schema.json";

/// The schema with the node types of a host.
pub(crate) fn schema(host: &Host) -> String {
    let plugins = host.registry().iter();
    // Of several versions of a package, the last one counts.
    let nodes = plugins.iter().flat_map(|plugin| &plugin.description.nodes);
    let whole = json_schema_with(nodes.map(|node| NodeSchema {
        id: &node.id,
        title: &node.title,
        description: &node.description,
        config: &node.config,
        input: &node.input,
    }));
    serde_json::to_string_pretty(&whole).unwrap_or_else(|_| JSON_SCHEMA.to_owned()) + "\n"
}

/// The schema for a new project in this directory: with the node types of its plugin folder and of the
/// library. Settings that cannot be read leave those of the format.
pub(crate) fn of_new_project(context: &Context, directory: &Path) -> String {
    let made = || {
        let mut config = context.configure("warn")?;
        leave_unreadable_secrets_out(&mut config, &context.output)?;
        config.plugins.directory = directory.join("plugins");
        let machine = Machine::new(config)?;
        let host = machine.loaded_host(&context.output)?;
        Ok::<_, anyhow::Error>(schema(&host))
    };
    made().unwrap_or_else(|_| JSON_SCHEMA.to_owned())
}

/// The schema file of a project, which `init` has made.
pub(crate) struct SchemaFile {
    path: PathBuf,
    /// The generation of the plugins that are in it.
    generation: Option<u64>,
}

impl SchemaFile {
    /// The file of the project in this directory.
    pub(crate) fn of(directory: &Path) -> Self {
        Self {
            path: directory.join(FILE),
            generation: None,
        }
    }

    /// Writes the schema if the plugins have changed, and the project has the file. Links are not
    /// followed.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(crate) fn refresh(&mut self, host: &Host) -> std::io::Result<()> {
        let generation = Some(host.registry().generation());
        if self.generation == generation {
            return Ok(());
        }
        self.generation = generation;
        let Some(directory) = self.path.parent() else {
            return Ok(());
        };
        let is = |path: &Path, kind: fn(&std::fs::Metadata) -> bool| {
            std::fs::symlink_metadata(path).is_ok_and(|it| kind(&it))
        };
        if !is(directory, std::fs::Metadata::is_dir) || !is(&self.path, std::fs::Metadata::is_file)
        {
            return Ok(());
        }
        let schema = schema(host);
        if std::fs::read(&self.path).is_ok_and(|there| there == schema.as_bytes()) {
            return Ok(());
        }
        let mut new = tempfile::Builder::new();
        let mut new = new.prefix(".schema-").tempfile_in(directory)?;
        new.as_file()
            .set_permissions(std::fs::metadata(&self.path)?.permissions())?;
        new.write_all(schema.as_bytes())?;
        new.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}
