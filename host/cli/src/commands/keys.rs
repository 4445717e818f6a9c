//! `windlass keys`: looking after the keyring.

use clap::{Args, Subcommand};
use serde_json::json;
use windlass_keys::{Key, KeyId, Keyring, KeysError};

use crate::app::Context;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::wire::Machine;

/// What to do with the keyring.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the names of the keys, the newest last
    Show(Show),
    /// Add a new key, which makes links and signs exports from now on; older keys stay good
    Rotate,
    /// Take an older key out: what it has made is not good any more
    Remove(Remove),
}

/// The arguments of `keys show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Show the keys themselves, as the file or WINDLASS_KEYRING of another host takes them
    #[arg(long)]
    secret: bool,
}

/// The arguments of `keys remove`.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The name of the key
    #[arg(value_name = "KEY")]
    key: String,
}

/// Says what is wrong with the keyring.
pub(crate) fn unusable(error: &KeysError) -> Expected {
    let mut text = error.to_string();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    Expected::new(codes::KEYRING, text)
        .help("The file has to be the user's own, with mode 0600. A copy of another host's is good, too.")
        .exit(Exit::Usage)
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let keys = machine.keys()?;
        let place = || {
            keys.path().map_or_else(
                || "the environment".to_owned(),
                |path| path.display().to_string(),
            )
        };
        match self {
            Self::Show(show) => {
                let ring = keys.ring().map_err(|error| unusable(&error))?;
                if show.secret {
                    let value = json!({ "keyring": ring.to_text() });
                    context.output.show(&value, || ring.to_text())?;
                    return Ok(Exit::Done);
                }
                let ids: Vec<_> = ring.keys().map(|key| key.id().to_string()).collect();
                let value = json!({ "place": place(), "keys": ids });
                context.output.show(&value, || {
                    let newest = ring.newest().id();
                    let line = |key: &Key| match key.id() {
                        id if id == newest => format!("{id}  makes and verifies\n"),
                        id => format!("{id}  verifies\n"),
                    };
                    let lines: String = ring.keys().map(line).collect();
                    format!("{}\n{lines}", place())
                })?;
            }
            Self::Rotate => {
                let id = keys
                    .change(Keyring::rotate)
                    .map_err(|error| unusable(&error))?;
                let value = json!({ "place": place(), "key": id.to_string() });
                context.output.show(&value, || {
                    format!(
                        "{id} is the newest key of {}\nHosts that run use it once they are \
                         started again.\n",
                        place()
                    )
                })?;
            }
            Self::Remove(remove) => {
                let missing = || {
                    let text = format!("The keyring has no key `{}`", remove.key);
                    Expected::new(codes::KEYRING, text)
                        .help("`windlass keys show` shows their names.")
                        .exit(Exit::NotFound)
                };
                let id: KeyId = remove.key.parse().map_err(|_| missing())?;
                let was = keys.change(|ring| ring.remove(id));
                if !was.map_err(|error| unusable(&error))? {
                    return Err(missing().into());
                }
                let value = json!({ "place": place(), "removed": id.to_string() });
                context
                    .output
                    .show(&value, || format!("{id} is not in {} any more\n", place()))?;
            }
        }
        Ok(Exit::Done)
    }
}
