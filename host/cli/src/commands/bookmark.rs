//! `windlass bookmark`: what runs wait for.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_keys::KeysError;
use windlass_keys::link::{self, Target};
use windlass_model::{BookmarkNo, Payload};
use windlass_runtime::client;
use windlass_store::stimuli::{BookmarkQuery, BookmarkRow};

use super::{event, keys};
use crate::app::Context;
use crate::codes;
use crate::commands::{find, moment};
use crate::error::Expected;
use crate::exit::Exit;
use crate::input;
use crate::output::{Output, columns_of};
use crate::wire::Machine;

/// What to do with bookmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List what runs wait for, the oldest first
    List(List),
    /// Let a run go on that waits there
    Resume(Resume),
}

/// The arguments of `bookmark list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only of this run; the beginning of its id will do
    #[arg(long, value_name = "ID")]
    pub(crate) instance: Option<String>,
    /// Only of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Only with this correlation
    #[arg(long, value_name = "TEXT")]
    pub(crate) correlation: Option<String>,
    /// Also give a link for each, which lets its holder resume the run
    #[arg(long)]
    pub(crate) links: bool,
    /// How many
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    pub(crate) limit: u32,
}

/// The arguments of `bookmark resume`.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The number that `bookmark list` shows, or the link or token of the bookmark
    pub(crate) bookmark: String,
    /// What the run is given: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT")]
    pub(crate) input: Vec<String>,
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run(context),
            Self::Resume(resume) => resume.run(context),
        }
    }
}

impl List {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let instance = match &self.instance {
            Some(prefix) => Some(find(store.as_ref(), prefix)?.no),
            None => None,
        };
        let rows = store.bookmarks(&BookmarkQuery {
            instance,
            name: self.name,
            correlation: self.correlation,
            after: None,
            limit: self.limit,
        })?;
        let links = self.links.then(|| machine.links()).transpose()?;
        let items = rows.iter().map(|row| {
            let mut item = item(row);
            if let (Some(links), Some(members)) = (&links, item.as_object_mut()) {
                let link = keyed(links.link(&Target::Row(row.bookmark.token)))?;
                members.insert("link".to_owned(), link.into());
            }
            Ok(item)
        });
        let items = items.collect::<Result<Vec<_>, Expected>>()?;
        tell(&context.output, &items)
    }
}

/// The members of a bookmark.
pub(crate) const ORDER: [&str; 10] = [
    "no",
    "instance",
    "name",
    "match",
    "correlation",
    "private",
    "auto-burn",
    "metadata",
    "created",
    "expires",
];

/// The member that a bookmark has besides, where links were asked for.
pub(crate) const LINK: &str = "link";

/// Shows a list of bookmarks.
pub(crate) fn tell(output: &Output, items: &[Value]) -> anyhow::Result<Exit> {
    let columns = [
        ("no", "no"),
        ("run", "instance"),
        ("name", "name"),
        ("match", "match"),
        ("correlation", "correlation"),
        ("expires", "expires"),
        ("link", "link"),
    ];
    let linked = items
        .iter()
        .any(|item| item.get("link").is_some_and(|link| !link.is_null()));
    let shown = if linked {
        &columns[..]
    } else {
        columns.split_last().map_or(&[][..], |(_, rest)| rest)
    };
    output.list(items, || columns_of(items, shown))?;
    Ok(Exit::Done)
}

/// A bookmark as it is shown: without its token, which only whoever was given it has.
pub(crate) fn item(row: &BookmarkRow) -> Value {
    let bookmark = &row.bookmark;
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    json!({
        "no": row.no,
        "instance": row.instance_id,
        "name": bookmark.name,
        "match": json(&bookmark.matches),
        "correlation": bookmark.correlation,
        "private": bookmark.private,
        "auto-burn": bookmark.auto_burn,
        "metadata": bookmark.metadata.as_deref().map(json),
        "created": moment(bookmark.created_ms),
        "expires": bookmark.expires_ms.map(moment),
    })
}

/// Says what is wrong with the keyring.
fn keyed<T>(read: Result<T, KeysError>) -> Result<T, Expected> {
    read.map_err(|error| keys::unusable(&error))
}

/// There is no such bookmark any more.
pub(crate) fn nobody(bookmark: &str) -> Expected {
    let help = "It was resumed already, it has expired, or the run is over. `windlass bookmark \
                list` shows what runs wait for.";
    Expected::new(codes::NO_BOOKMARK, format!("Nobody waits at `{bookmark}`"))
        .help(help)
        .exit(Exit::NotFound)
}

impl Resume {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let input = Payload::of(&input::parse(&self.input)?);
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let now_ms = machine.clock.wall_ms();
        let sent = match self.bookmark.parse() {
            Ok(no) => client::resume_bookmark(store.as_ref(), now_ms, BookmarkNo(no), input)?,
            Err(_) => {
                let token = self.bookmark.rsplit('/').next().unwrap_or_default();
                let target = keyed(link::read(machine.keys()?.as_ref(), token))?;
                let target = target.ok_or_else(|| nobody(&self.bookmark))?;
                client::resume(store.as_ref(), now_ms, &target, input)?
            }
        };
        store.close();
        if sent.dropped {
            return Err(nobody(&self.bookmark).into());
        }
        let output = &context.output;
        output.show(&event::item(&sent), || event::text(&sent))?;
        Ok(Exit::Done)
    }
}
