//! `windlass workflow publish`, `list`, `show` and `retract`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use windlass_runtime::client;
use windlass_store::Store;
use windlass_store::published::{PublicationQuery, PublicationRow, ScheduleQuery};

use crate::app::Context;
use crate::codes;
use crate::commands::moment;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::table;
use crate::source::{self, Source};
use crate::wire::Machine;

/// Versions that are listed at most.
const LISTED: u32 = 10_000;

/// The arguments of `workflow publish`.
#[derive(Debug, Args)]
#[command(
    after_help = "What runs stays on its version. Of what did not change, schedules go \
    on where they were."
)]
pub(crate) struct Publish {
    /// The workflow files, `-` being standard input; or the names of workflows with drafts
    #[arg(required = true, value_name = "FILE|NAME")]
    files: Vec<PathBuf>,
}

/// The arguments of `workflow list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Also versions that are not published any more
    #[arg(long)]
    all: bool,
}

/// The arguments of `workflow show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The name of the workflow
    name: String,
    /// This version, and not the published one
    #[arg(long, value_name = "NUMBER")]
    version: Option<u32>,
}

/// The arguments of `workflow retract`.
#[derive(Debug, Args)]
pub(crate) struct Retract {
    /// The name of the workflow
    name: String,
}

impl Publish {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let output = &context.output;
        // Nothing is published before all files can be read.
        let sources = self.files.iter().map(|file| Given::of(file));
        let sources: Vec<Given> = sources.collect::<Result<_, _>>()?;
        let machine = Machine::new(context.configure("warn")?)?;
        let host = machine.loaded_host(output)?;
        let store = machine.store()?;
        let mut items = Vec::with_capacity(sources.len());
        for source in &sources {
            let now_ms = machine.clock.wall_ms();
            let store = store.as_ref();
            let (file, published) = match source {
                Given::File(source) => {
                    let published = client::publish(store, &host, now_ms, source.row());
                    let published = published.map_err(|error| source.explain(error))?;
                    (Some(&source.name), published)
                }
                Given::Draft(name) => {
                    let published = client::publish_draft(store, &host, now_ms, name, None);
                    (
                        None,
                        published.map_err(|error| of_draft(store, name, error))?,
                    )
                }
            };
            if output.is_text() {
                let how = if published.unchanged {
                    output.data.dim("unchanged")
                } else {
                    output.data.good("published")
                };
                let (name, version) = (&published.name, published.version);
                output.print(&format!("{name} version {version}: {how}"))?;
            }
            items.push(json!({
                "file": file,
                "workflow": published.name,
                "version": published.version,
                "unchanged": published.unchanged,
                "events": published.events,
                "schedules": published.schedules,
            }));
        }
        store.close();
        if !output.is_text() {
            output.list(&items, String::new)?;
        }
        Ok(Exit::Done)
    }
}

/// What is to be published.
enum Given {
    File(Box<Source>),
    /// The name of its workflow.
    Draft(String),
}

impl Given {
    /// A file if there is one, or if it looks like one.
    fn of(given: &Path) -> Result<Self, Expected> {
        let name = given.to_str().filter(|name| {
            let plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
            *name != "-" && name.chars().all(plain)
        });
        match name.filter(|_| !given.exists()) {
            Some(name) => Ok(Self::Draft(name.to_owned())),
            None => Source::read(given).map(|source| Self::File(Box::new(source))),
        }
    }
}

/// An error of publishing a draft, shown in its text where it is about that.
fn of_draft(store: &dyn Store, name: &str, error: windlass_runtime::Error) -> anyhow::Error {
    match (error, store.draft(name)) {
        (windlass_runtime::Error::Definition(problems), Ok(Some(draft))) => {
            let text = String::from_utf8_lossy(&draft.content).into();
            Expected::of_file(source::problems(format!("draft of {name}"), text, problems)).into()
        }
        (error, _) => error.into(),
    }
}

impl List {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let rows = store.publications(&PublicationQuery {
            retracted: self.all,
            limit: LISTED,
            ..PublicationQuery::default()
        })?;
        let items: Vec<_> = rows.iter().map(item).collect();
        context.output.list(&items, || {
            let lines = rows.iter().map(|row| {
                vec![
                    row.name.clone(),
                    row.version.to_string(),
                    moment(row.published_ms),
                    row.retracted_ms.map(moment).unwrap_or_default(),
                ]
            });
            let head = ["workflow", "version", "published", "retracted"];
            table(&head, lines.collect())
        })?;
        Ok(Exit::Done)
    }
}

fn item(row: &PublicationRow) -> Value {
    json!({
        "workflow": row.name,
        "version": row.version,
        "definition": row.definition,
        "published": moment(row.published_ms),
        "retracted": row.retracted_ms.map(moment),
    })
}

impl Show {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let row = self.find(store.as_ref())?;
        let mut item = item(&row);
        let stored = store.definition(row.definition)?;
        let definition =
            stored.and_then(|stored| serde_json::from_slice::<Value>(&stored.json).ok());
        let mut triggers = Vec::new();
        // Only the published version is started by anything.
        if row.retracted_ms.is_none() {
            for binding in store.bindings_of(&row.name)? {
                let matches: Value =
                    serde_json::from_slice(&binding.binding.matches).unwrap_or_default();
                triggers.push(json!({
                    "key": binding.binding.key,
                    "event": binding.binding.name,
                    "match": matches,
                }));
            }
            for schedule in schedules(store.as_ref(), &row.name)? {
                let next = (schedule.next_ms < i64::MAX).then(|| moment(schedule.next_ms));
                triggers.push(json!({
                    "key": schedule.key,
                    "next": next,
                    "last": schedule.last_planned_ms.map(moment),
                    "instance": schedule.last_instance,
                }));
            }
        }
        if let Some(members) = item.as_object_mut() {
            members.insert("triggers".to_owned(), Value::from(triggers));
            members.insert("file".to_owned(), definition.unwrap_or_default());
        }
        context.output.show(&item, || text(&item))?;
        Ok(Exit::Done)
    }

    fn find(&self, store: &dyn Store) -> anyhow::Result<PublicationRow> {
        let Some(version) = self.version else {
            let published = store.published(&self.name)?;
            return published.ok_or_else(|| missing(&self.name).into());
        };
        let rows = store.publications(&PublicationQuery {
            name: Some(self.name.clone()),
            retracted: true,
            after: None,
            limit: LISTED,
        })?;
        let found = rows.into_iter().find(|row| row.version == version);
        found.ok_or_else(|| {
            let text = format!(
                "There is no version {version} of the workflow `{}`",
                self.name
            );
            let help = "`windlass workflow list --all` shows the versions that there are.";
            let expected = Expected::new(codes::NO_WORKFLOW, text).help(help);
            expected.exit(Exit::NotFound).into()
        })
    }
}

impl Retract {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let now_ms = machine.clock.wall_ms();
        let version = client::retract(store.as_ref(), now_ms, &self.name)?;
        store.close();
        let Some(version) = version else {
            return Err(missing(&self.name).into());
        };
        let item = json!({ "workflow": self.name, "version": version, "result": "retracted" });
        context.output.show(&item, || {
            let how = context.output.data.good("retracted");
            format!("{} version {version}: {how}", self.name)
        })?;
        Ok(Exit::Done)
    }
}

/// The schedules of a published workflow.
pub(crate) fn schedules(
    store: &dyn Store,
    workflow: &str,
) -> windlass_store::Result<Vec<windlass_store::published::ScheduleRow>> {
    store.schedules(&ScheduleQuery {
        workflow: Some(workflow.to_owned()),
        until_ms: i64::MAX,
        limit: LISTED,
    })
}

/// No workflow of this name is published.
pub(crate) fn missing(name: &str) -> Expected {
    let text = format!("No workflow `{name}` is published");
    Expected::new(codes::NO_WORKFLOW, text)
        .help("`windlass workflow list` shows what is; `workflow publish FILE` publishes.")
        .exit(Exit::NotFound)
}

fn text(item: &Value) -> String {
    let order = [
        "workflow",
        "version",
        "definition",
        "published",
        "retracted",
        "triggers",
        "file",
    ];
    crate::output::members(item, &order)
}
