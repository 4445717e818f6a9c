//! `windlass plugin` and `windlass lock`, by asking a host.

use std::path::Path;

use serde_json::Value;

use super::asking::{Asking, picked, taken, text};
use super::not_there;
use crate::commands::{lock, plugin};
use crate::exit::Exit;
use crate::output::members;

/// Plugins that are listed at most.
const LISTED: u32 = 10_000;

/// What a host says of a plugin. Where its file is, and what it is granted, it keeps to itself.
const ORDER: [&str; 8] = [
    "package",
    "version",
    "title",
    "digest",
    "pure",
    "consumer",
    "description",
    "imports",
];

impl Asking<'_> {
    pub(super) fn plugin(&self, command: plugin::Command) -> anyhow::Result<Exit> {
        let output = &self.context.output;
        match command {
            plugin::Command::List => {
                let items = self.server.list(&["plugins"], &[], LISTED)?;
                plugin::tell_remote(output, &items)
            }
            plugin::Command::Inspect(inspect) if !Path::new(&inspect.plugin).is_file() => {
                let mut shown = self.server.get(&["plugins", &inspect.plugin])?;
                let mut item = taken(&mut shown, "plugin");
                if let (Value::Object(item), Value::Object(shown)) = (&mut item, &mut shown) {
                    item.extend(std::mem::take(shown));
                }
                let keys: Vec<&str> = ORDER.into_iter().chain(["nodes"]).collect();
                let item = picked(item, &keys);
                text(&item, "package")?;
                output.show(&item, || members(&item, &keys))?;
                Ok(Exit::Done)
            }
            // A file is looked into here.
            local @ plugin::Command::Inspect(_) => local.run(self.context),
            plugin::Command::Call(_) => Err(not_there().into()),
        }
    }

    pub(super) fn locks(&self, list: &lock::List) -> anyhow::Result<Exit> {
        let items = self.list(&["locks"], &[], list.limit, &lock::ORDER)?;
        lock::tell(&self.context.output, &items)
    }
}
