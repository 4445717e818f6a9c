//! `windlass keys`: management of the keyring.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use windlass_keys::minisign::PublicKey;
use windlass_keys::{Key, KeyId, Keyring, Keys, KeysError};
use windlass_runtime::keyring;

use crate::app::Context;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::wire::Machine;

/// The subcommands of `keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the names of the keys, each with the public key that verifies its exports
    Show(Show),
    /// Add a new key, which creates links and signs exports from now on; older keys stay valid
    Rotate,
    /// Add the keys of another keyring as older keys, so that their links and exports are accepted
    Learn(Learn),
    /// Remove an older key: its links and exports are not accepted any more
    Remove(Remove),
    /// Require the newest key: from now on, a host without it cannot use the store
    Adopt,
}

/// The arguments of `keys show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Show the keys themselves, in the form that the file or WINDLASS_KEYRING of another host
    /// needs
    #[arg(long)]
    secret: bool,
}

/// The arguments of `keys learn`.
#[derive(Debug, Args)]
pub(crate) struct Learn {
    /// The file of the other keyring, such as one from `windlass store backup --keyring`
    #[arg(value_name = "FILE")]
    from: PathBuf,
}

/// The arguments of `keys remove`.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The name of the key
    #[arg(value_name = "KEY")]
    key: String,
}

/// The error for a keyring that cannot be used.
pub(crate) fn unusable(error: &KeysError) -> Expected {
    let mut text = error.to_string();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    Expected::new(codes::KEYRING, text)
        .help("The file has to be the user's own, with mode 0600. A copy of another host's is good, too.")
        .exit(Exit::Usage)
}

/// The location of a keyring, for people.
fn place(keys: &Keys) -> String {
    keys.path().map_or_else(
        || "the environment".to_owned(),
        |path| path.display().to_string(),
    )
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        match self {
            Self::Show(show) => show.run(context, &machine),
            Self::Rotate => rotate(context, &*machine.keys()?),
            Self::Learn(learn) => learn.run(context, &*machine.keys()?),
            Self::Remove(remove) => remove.run(context, &*machine.keys()?),
            Self::Adopt => adopt(context, &machine),
        }
    }
}

impl Show {
    fn run(self, context: &Context, machine: &Machine) -> anyhow::Result<Exit> {
        let keys = machine.keys()?;
        let ring = keys.ring().map_err(|error| unusable(&error))?;
        if self.secret {
            let value = json!({ "keyring": ring.to_text() });
            context.output.show_document(&value, || ring.to_text())?;
            return Ok(Exit::Done);
        }
        let public = machine.exports()?.own();
        let public = public.map_err(|error| unusable(&error))?;
        let newest = ring.newest().id();
        let all: Vec<(&Key, &PublicKey)> = ring.keys().zip(&public).collect();
        let items: Vec<_> = all
            .iter()
            .map(|(key, public)| {
                json!({
                    "key": key.id().to_string(),
                    "newest": key.id() == newest,
                    "public": public.to_string(),
                    "signs_as": public.name().to_string(),
                })
            })
            .collect();
        let value = json!({ "place": place(&keys), "keys": items });
        context.output.show(&value, || {
            let line = |(key, public): &(&Key, &PublicKey)| {
                let does = match key.id() == newest {
                    true => "makes and verifies",
                    false => "verifies",
                };
                let (key, name) = (key.id(), public.name());
                format!("{key}  {does}; exports signed by {name}: {public}\n")
            };
            let lines: String = all.iter().map(line).collect();
            format!("{}\n{lines}", place(&keys))
        })?;
        Ok(Exit::Done)
    }
}

fn rotate(context: &Context, keys: &Keys) -> anyhow::Result<Exit> {
    let id = keys
        .change(Keyring::rotate)
        .map_err(|error| unusable(&error))?;
    let value = json!({ "place": place(keys), "key": id.to_string() });
    context.output.show(&value, || {
        format!(
            "{id} is the newest key of {}\nHosts that run use it once they are started again.\n",
            place(keys)
        )
    })?;
    Ok(Exit::Done)
}

impl Learn {
    fn run(self, context: &Context, keys: &Keys) -> anyhow::Result<Exit> {
        let other = Keys::given(self.from).ring();
        let other = other.map_err(|error| unusable(&error))?;
        let learnt = keys.change(|ring| ring.learn(&other));
        let learnt = learnt.map_err(|error| unusable(&error))?;
        let value = json!({ "place": place(keys), "learnt": learnt });
        context.output.show(&value, || {
            format!("{learnt} keys are new in {}\n", place(keys))
        })?;
        Ok(Exit::Done)
    }
}

impl Remove {
    fn run(self, context: &Context, keys: &Keys) -> anyhow::Result<Exit> {
        let missing = || {
            let text = format!("The keyring has no key `{}`", self.key);
            Expected::new(codes::KEYRING, text)
                .help("`windlass keys show` shows their names.")
                .exit(Exit::NotFound)
        };
        let id: KeyId = self.key.parse().map_err(|_| missing())?;
        let was = keys.change(|ring| ring.remove(id));
        if !was.map_err(|error| unusable(&error))? {
            return Err(missing().into());
        }
        let value = json!({ "place": place(keys), "removed": id.to_string() });
        context.output.show(&value, || {
            format!("{id} is not in {} any more\n", place(keys))
        })?;
        Ok(Exit::Done)
    }
}

fn adopt(context: &Context, machine: &Machine) -> anyhow::Result<Exit> {
    let keys = machine.keys()?;
    let ring = keys.ring().map_err(|error| unusable(&error))?;
    let store = machine.existing_store()?;
    keyring::adopt(store.as_ref(), &keys)?;
    store.close();
    let id = ring.newest().id();
    let value = json!({ "key": id.to_string() });
    context.output.show(&value, || {
        format!("hosts of this store need the key {id} from now on\n")
    })?;
    Ok(Exit::Done)
}
