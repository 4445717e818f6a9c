//! `windlass config`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::app::Context;
use crate::config::{Config, Loaded, sample, schema};
use crate::exit::Exit;
use crate::output::{Output, table};
use crate::token_file;
use crate::wire;
use crate::wire::place::without_password;

/// The subcommands of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the effective configuration
    Show(Show),
    /// Print the JSON Schema of windlass.toml
    Schema,
    /// Print a windlass.toml with every setting, its meaning and its default
    Sample,
}

/// The arguments of `config show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Show where each value comes from
    #[arg(long)]
    origin: bool,
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let output = &context.output;
        match self {
            Self::Show(show) => show.run(context)?,
            Self::Schema => output.document(&serde_json::to_string_pretty(&schema::schema())?)?,
            Self::Sample => output.document(&sample::sample())?,
        }
        Ok(Exit::Done)
    }
}

impl Show {
    fn run(&self, context: &Context) -> anyhow::Result<()> {
        let output = &context.output;
        let mut loaded = context.sources.load()?;
        for warning in &loaded.warnings {
            output.warn(warning);
        }
        let refused = wire::check(&loaded.config);
        hide_secrets(&mut loaded.config);
        self.print(&loaded, output)?;
        // The configuration is shown all the same: it says where the refused value comes from.
        Ok(refused?)
    }

    fn print(&self, loaded: &Loaded, output: &Output) -> anyhow::Result<()> {
        if !self.origin {
            let text = toml::to_string(&loaded.config)?;
            return output.show_document(&loaded.config, || text);
        }
        let settings = settings(loaded)?;
        let items: Vec<_> = settings
            .iter()
            .map(|(key, value, origin)| json!({ "key": key, "value": value, "origin": origin }))
            .collect();
        output.list(&items, || {
            let rows = settings
                .iter()
                .map(|(key, value, origin)| vec![key.clone(), value.to_string(), origin.clone()]);
            table(&["setting", "value", "from"], rows.collect())
        })
    }
}

/// Stands in place of a token.
const HIDDEN: &str = "(hidden)";

/// Hides the secrets: people paste the shown configuration into tickets and logs.
pub(super) fn hide_secrets(config: &mut Config) {
    if let Some(token) = &mut config.server.token {
        hide_token(token);
    }
    config.store.url = without_password(&config.store.url);
    for url in [&mut config.locks.url, &mut config.server.public_url] {
        *url = url.as_deref().map(without_password);
    }
}

/// Hides a token. The value `auto`, by which `serve` makes a token, is no secret.
pub(super) fn hide_token(token: &mut String) {
    if token.as_str() != token_file::AUTO {
        HIDDEN.clone_into(token);
    }
}

/// Every setting that has a value: dotted key, value, origin.
pub(super) fn settings(loaded: &Loaded) -> anyhow::Result<Vec<(String, Value, String)>> {
    let Value::Object(sections) = serde_json::to_value(&loaded.config)? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    flatten("", &sections, &mut found);
    let origin = |key: &str| {
        // A value that was set as a whole (a list, a table in one variable) has one origin.
        let mut key = Some(key);
        while let Some(name) = key {
            if let Some(origin) = loaded.origins.get(name) {
                return origin.to_string();
            }
            key = name.rsplit_once('.').map(|(above, _)| above);
        }
        "default".to_owned()
    };
    Ok(found
        .into_iter()
        .map(|(key, value)| {
            let origin = origin(&key);
            (key, value, origin)
        })
        .collect())
}

fn flatten(above: &str, table: &Map<String, Value>, found: &mut Vec<(String, Value)>) {
    for (key, value) in table {
        let key = if above.is_empty() {
            key.clone()
        } else {
            format!("{above}.{key}")
        };
        match value {
            Value::Object(below) => flatten(&key, below, found),
            Value::Null => {}
            value => found.push((key, value.clone())),
        }
    }
}
