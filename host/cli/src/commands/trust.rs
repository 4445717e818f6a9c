//! `windlass trust`: trust in a project's security-sensitive settings.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use toml::Value;

use crate::app::Context;
use crate::codes;
use crate::config::layers::project_at;
use crate::config::trust;
use crate::error::Expected;
use crate::exit::Exit;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Grants, denials, secrets, the library, the cache and the key of compiled code, the \
    archive, and the tokens, names and proxies of [server] count only in a trusted project. \
    Trust is of this file with these values: a change of one of them asks again."
)]
pub(crate) struct Arguments {
    /// The project: a directory, or its windlass.toml [default: the project of this directory]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Revoke the trust
    #[arg(long)]
    revoke: bool,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let (output, sources) = (&context.output, &context.sources);
        let place = self.path.clone().or_else(|| sources.project.clone());
        let place = place.unwrap_or_else(|| sources.directory.clone());
        let found = project_at(&place).ok_or_else(|| {
            let text = format!("There is no windlass.toml at {}", place.display());
            Expected::new(codes::TRUST, text)
                .help("Name the directory that has it.")
                .exit(Exit::NotFound)
        })?;
        let name = found.display().to_string();
        if self.revoke {
            let was = sources.trust.remove(&found)?;
            output.show(
                &json!({ "project": name, "trusted": false, "was": was }),
                || format!("{name} is not trusted\n"),
            )?;
            return Ok(Exit::Done);
        }
        let mut settings = sources.sensitive(&found)?;
        sources.trust.add(&found, &settings)?;
        let server = settings.get_mut("server");
        if let Some(Value::String(token)) = server.and_then(|server| server.get_mut("token")) {
            super::config::hide_token(token);
        }
        let text = toml::to_string(&settings)?;
        let value = json!({ "project": name, "trusted": true, "settings": settings });
        output.show(&value, || {
            if settings.is_empty() {
                let keys = trust::SENSITIVE.join(", ");
                return format!("{name} is trusted; it sets none of {keys}\n");
            }
            format!("{name} is trusted with these settings:\n\n{text}")
        })?;
        Ok(Exit::Done)
    }
}
