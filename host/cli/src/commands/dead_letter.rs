//! `windlass dead-letter`: what could not be delivered.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_model::{InstanceNo, LetterNo};
use windlass_runtime::client;
use windlass_store::Store;
use windlass_store::letters::{LetterBody, LetterKind, LetterQuery, LetterRow, Lettered};

use super::event::duration;
use crate::app::Context;
use crate::codes;
use crate::commands::{definition, find, moment, node_name};
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::{Output, columns_of, members};
use crate::wire::Machine;

/// Dead letters that are thrown away in one transaction.
const SLICE: u32 = 1_000;

/// The members of a dead letter, in the order in which they are shown.
pub(crate) const ORDER: [&str; 8] = [
    "no", "kind", "reason", "instance", "died", "replayed", "failure", "body",
];

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List dead letters, the oldest first
    List(List),
    /// Show a dead letter
    Show(One),
    /// Try it again, which can be done once
    Replay(One),
    /// Throw it away
    Delete(Delete),
    /// Throw all away that are older than this
    Purge(Purge),
}

/// The arguments of `dead-letter list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only of this kind: trigger, resume or stimulus
    #[arg(long, value_parser = kind, value_name = "KIND")]
    pub(crate) kind: Option<LetterKind>,
    /// Only of this run; the beginning of its id will do
    #[arg(long, value_name = "ID")]
    pub(crate) instance: Option<String>,
    /// How many
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    pub(crate) limit: u32,
}

/// The arguments of what is done with one.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// Its number
    pub(crate) no: i64,
}

/// The arguments of `dead-letter delete`.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Its number
    pub(crate) no: i64,
    /// Do it: there is no way back
    #[arg(long)]
    pub(crate) yes: bool,
}

/// The arguments of `dead-letter purge`.
#[derive(Debug, Args)]
pub(crate) struct Purge {
    /// How old they are
    #[arg(long, value_parser = duration, default_value = "7d", value_name = "DURATION")]
    pub(crate) older_than: u64,
    /// Do it: there is no way back
    #[arg(long)]
    pub(crate) yes: bool,
}

fn kind(text: &str) -> Result<LetterKind, String> {
    let found = LetterKind::ALL.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| "a kind is trigger, resume or stimulus".to_owned())
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run(context),
            Self::Show(one) => one.show(context),
            Self::Replay(one) => one.replay(context),
            Self::Delete(delete) => delete.run(context),
            Self::Purge(purge) => purge.run(context),
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
        let rows = store.dead_letters(&LetterQuery {
            kind: self.kind,
            instance,
            after: None,
            limit: self.limit,
        })?;
        let items = rows.iter().map(|row| item(store.as_ref(), row));
        let items: Vec<Value> = items.collect::<Result<_, _>>()?;
        tell_all(&context.output, &items)
    }
}

/// Shows a list of dead letters.
pub(crate) fn tell_all(output: &Output, items: &[Value]) -> anyhow::Result<Exit> {
    let columns = [
        ("no", "no"),
        ("kind", "kind"),
        ("reason", "reason"),
        ("run", "instance"),
        ("died", "died"),
        ("replayed", "replayed"),
    ];
    output.list(items, || columns_of(items, &columns))?;
    Ok(Exit::Done)
}

fn item(store: &dyn Store, row: &LetterRow) -> anyhow::Result<Value> {
    let letter = &row.letter;
    let read = |bytes: &[u8]| {
        let text = || Value::from(String::from_utf8_lossy(bytes));
        serde_json::from_slice::<Value>(bytes).unwrap_or_else(|_| text())
    };
    let body = match &letter.body {
        LetterBody::Trigger(dead) => json!({
            "seq": dead.seq,
            "type": dead.kind,
            "node": dead.node.map(|node| node_of(store, dead.instance, node)).transpose()?,
            "priority": dead.priority,
            "payload": dead.payload.as_deref().map(read),
        }),
        LetterBody::Stimulus(stimulus) => json!({
            "id": stimulus.id,
            "name": stimulus.name,
            "match": read(&stimulus.matches),
            "correlation": stimulus.correlation,
            "delivery": stimulus.delivery,
            "input": stimulus.input.inline().map(|bytes| read(bytes)),
        }),
    };
    Ok(json!({
        "no": row.no,
        "kind": letter.body.kind().name(),
        "reason": letter.reason,
        "instance": row.instance_id,
        "died": moment(letter.at_ms),
        "replayed": row.replayed_ms.map(moment),
        "failure": letter.failure,
        "body": body,
    }))
}

/// The name of a node of a run, which may be gone.
fn node_of(store: &dyn Store, instance: InstanceNo, node: u32) -> anyhow::Result<String> {
    let definition = match store.instance_by_no(instance)? {
        Some(row) => definition(store, &row)?,
        None => None,
    };
    Ok(node_name(definition.as_ref(), node))
}

impl One {
    fn show(&self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let row = store.dead_letter(LetterNo(self.no))?;
        let item = item(store.as_ref(), &row.ok_or_else(|| missing(self.no))?)?;
        context.output.show(&item, || members(&item, &ORDER))?;
        Ok(Exit::Done)
    }

    fn replay(&self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let client = machine.client(&store, context.output);
        let replaying = client.replay(LetterNo(self.no));
        let lettered = machine.tokio.block_on(replaying)?;
        store.close();
        tell(context, self.no, lettered, "replayed")
    }
}

impl Delete {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        confirm(self.yes, "throws the dead letter away")?;
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let lettered = client::throw_letter_away(store.as_ref(), LetterNo(self.no))?;
        store.close();
        tell(context, self.no, lettered, "deleted")
    }
}

impl Purge {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        confirm(self.yes, "throws dead letters away")?;
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let before_ms = machine
            .clock
            .wall_ms()
            .saturating_sub_unsigned(self.older_than);
        let mut count = 0_u64;
        loop {
            let slice = client::purge_letters(store.as_ref(), before_ms, SLICE)?;
            count += u64::from(slice);
            if slice < SLICE {
                break;
            }
        }
        store.close();
        tell_purged(&context.output, count)
    }
}

/// Tells how many were thrown away.
pub(crate) fn tell_purged(output: &Output, count: u64) -> anyhow::Result<Exit> {
    let item = json!({ "deleted": count });
    output.show(&item, || format!("{count} deleted"))?;
    Ok(Exit::Done)
}

/// Tells what was done with a dead letter.
pub(crate) fn tell_done(output: &Output, no: i64, done: &str) -> anyhow::Result<Exit> {
    let item = json!({ "no": no, "result": done });
    output.show(&item, || format!("{no} {done}"))?;
    Ok(Exit::Done)
}

/// What cannot be undone is not done by a slip of the fingers.
pub(crate) fn confirm(yes: bool, what: &str) -> Result<(), Expected> {
    if yes {
        return Ok(());
    }
    Err(Expected::new(
        codes::CONFIRM,
        format!("This {what}, and there is no way back"),
    )
    .help("Add `--yes` to do it."))
}

fn tell(context: &Context, no: i64, lettered: Lettered, done: &str) -> anyhow::Result<Exit> {
    let text = match lettered {
        Lettered::Done => return tell_done(&context.output, no, done),
        Lettered::NotFound => return Err(missing(no).into()),
        Lettered::Already => format!("Dead letter {no} was replayed already"),
        Lettered::Closed => {
            format!("The run of dead letter {no} is over, or has gone on without it")
        }
    };
    let help = "`windlass dead-letter show NO` says when, and what is in it.";
    let expected = Expected::new(codes::TOO_LATE, text).help(help);
    Err(expected.exit(Exit::Conflict).into())
}

fn missing(no: i64) -> Expected {
    Expected::new(codes::NO_LETTER, format!("There is no dead letter {no}"))
        .help("`windlass dead-letter list` shows those that there are.")
        .exit(Exit::NotFound)
}
