//! The plugin that a command calls, and the examples of its calls.

use std::path::PathBuf;

use clap::Args;
use windlass_plugins::Plugin;

use super::build;
use super::example::{self, Example};
use crate::app::Context;
use crate::error::Expected;
use crate::wire::{Machine, compile};

/// The arguments of the commands that call a plugin with its examples.
#[derive(Debug, Args)]
pub(super) struct Subject {
    /// The directory of a plugin, or a component
    #[arg(
        value_name = "FILE|DIR",
        default_value = ".",
        hide_default_value = true
    )]
    pub(super) subject: PathBuf,
    /// The folder of the examples [default: `examples` of DIR]
    #[arg(long, value_name = "DIR")]
    pub(super) examples: Option<PathBuf>,
}

/// The component of a subject.
pub(super) struct Component {
    /// Its file.
    pub(super) file: PathBuf,
    /// The folder of its examples.
    folder: Option<PathBuf>,
}

impl Subject {
    /// The component. That of a directory is built.
    pub(super) fn component(
        &self,
        context: &Context,
        machine: &Machine,
    ) -> anyhow::Result<Component> {
        let (subject, folder) = (&self.subject, self.examples.clone());
        if !subject.is_dir() {
            let file = subject.clone();
            return Ok(Component { file, folder });
        }
        let host = machine.host(compile::noted(context.output))?;
        let target = build::folder(context, &machine.config, subject);
        let built = build::build(&host, subject, &target)?;
        built.warnings.iter().for_each(|it| context.output.warn(it));
        Ok(Component {
            file: built.file,
            folder: folder.or_else(|| Some(subject.join(example::FOLDER))),
        })
    }
}

impl Component {
    /// The examples; none without a folder.
    pub(super) fn examples(&self, plugin: &Plugin) -> Result<Vec<Example>, Expected> {
        let folder = self.folder.as_ref();
        folder.map_or_else(|| Ok(Vec::new()), |it| example::read(it, plugin))
    }
}
