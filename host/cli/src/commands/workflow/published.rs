//! `windlass workflow publish`, `list`, `show` and `retract`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use windlass_model::Diagnostic;
use windlass_runtime::client;
use windlass_store::Store;
use windlass_store::published::{PublicationQuery, PublicationRow, ScheduleQuery};

use crate::app::Context;
use crate::codes;
use crate::commands::moment;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::{Output, columns_of};
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
    pub(crate) all: bool,
}

/// The arguments of `workflow show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The name of the workflow
    pub(crate) name: String,
    /// This version, and not the published one
    #[arg(long, value_name = "NUMBER")]
    pub(crate) version: Option<u32>,
}

/// The arguments of `workflow retract`.
#[derive(Debug, Args)]
pub(crate) struct Retract {
    /// The name of the workflow
    pub(crate) name: String,
}

impl Publish {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let output = &context.output;
        let sources = self.sources()?;
        let machine = Machine::new(context.configure("warn")?)?;
        let host = machine.loaded_host(output)?;
        let store = machine.store()?;
        let published = self.each(output, &sources, |source| {
            let now_ms = machine.clock.wall_ms();
            let store = store.as_ref();
            let published = match source {
                Given::File(source) => client::publish(store, &host, now_ms, source.row())
                    .map_err(|error| source.explain(error))?,
                Given::Draft(name) => client::publish_draft(store, &host, now_ms, name, None)
                    .map_err(|error| of_draft(store, name, error))?,
            };
            Ok(json!({
                "workflow": published.name,
                "version": published.version,
                "unchanged": published.unchanged,
                "events": published.events,
                "schedules": published.schedules,
                "warnings": warnings(&published.warnings),
            }))
        });
        store.close();
        published
    }

    /// What is to be published. Nothing is before all files can be read.
    pub(crate) fn sources(&self) -> Result<Vec<Given>, Expected> {
        self.files.iter().map(|file| Given::of(file)).collect()
    }

    /// Publishes one after another, and tells what became of each.
    pub(crate) fn each(
        &self,
        output: &Output,
        sources: &[Given],
        publish: impl Fn(&Given) -> anyhow::Result<Value>,
    ) -> anyhow::Result<Exit> {
        let mut items = Vec::with_capacity(sources.len());
        for source in sources {
            let mut item = publish(source)?;
            if output.is_text() {
                let how = if item.get("unchanged") == Some(&Value::Bool(true)) {
                    output.data.dim("unchanged")
                } else {
                    output.data.good("published")
                };
                output.print(&format!("{}: {how}", version_of(&item)))?;
                source.warn(output, &item);
            }
            if let Some(members) = item.as_object_mut() {
                let file = match source {
                    Given::File(source) => Value::from(source.name.as_str()),
                    Given::Draft(_) => Value::Null,
                };
                members.insert("file".to_owned(), file);
            }
            items.push(item);
        }
        if !output.is_text() {
            output.list(&items, String::new)?;
        }
        Ok(Exit::Done)
    }
}

/// Warnings, as a host sends them.
pub(crate) fn warnings(found: &[Diagnostic]) -> Vec<Value> {
    let warning = |found: &Diagnostic| {
        json!({
            "code": found.code,
            "detail": found.message,
            "pointer": found.place.pointer,
            "help": found.help,
        })
    };
    found.iter().map(warning).collect()
}

/// A version, for people.
pub(crate) fn version_of(item: &Value) -> String {
    let name = item.get("workflow").and_then(Value::as_str);
    let version = item.get("version").and_then(Value::as_u64);
    let (name, version) = (name.unwrap_or_default(), version.unwrap_or_default());
    format!("{name} version {version}")
}

/// What is to be published.
pub(crate) enum Given {
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

    /// Prints the warnings of what was published.
    fn warn(&self, output: &Output, published: &Value) {
        let found = crate::remote::mistakes(published, "warnings");
        let found = match self {
            Self::File(source) => source.warnings(found),
            Self::Draft(name) => source::problems(format!("draft of {name}"), "".into(), found),
        };
        crate::report::warn(output, &found);
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
        tell_all(&context.output, &items)
    }
}

/// The members of a version in a list.
pub(crate) const LISTED_KEYS: [&str; 5] = [
    "workflow",
    "version",
    "definition",
    "published",
    "retracted",
];

/// Shows a list of versions.
pub(crate) fn tell_all(output: &Output, items: &[Value]) -> anyhow::Result<Exit> {
    let columns = ["workflow", "version", "published", "retracted"];
    output.list(items, || columns_of(items, &columns.map(|key| (key, key))))?;
    Ok(Exit::Done)
}

/// Shows one version.
pub(crate) fn tell(output: &Output, item: &Value) -> anyhow::Result<Exit> {
    output.show(item, || text(item))?;
    Ok(Exit::Done)
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
        tell(&context.output, &item)
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
        self.tell(&context.output, u64::from(version))
    }

    /// Tells that it was taken back.
    pub(crate) fn tell(&self, output: &Output, version: u64) -> anyhow::Result<Exit> {
        let item = json!({ "workflow": self.name, "version": version, "result": "retracted" });
        output.show(&item, || {
            format!("{}: {}", version_of(&item), output.data.good("retracted"))
        })?;
        Ok(Exit::Done)
    }
}

/// The schedules of a published workflow.
fn schedules(
    store: &dyn Store,
    workflow: &str,
) -> windlass_store::Result<Vec<windlass_store::published::ScheduleRow>> {
    store.schedules(&ScheduleQuery {
        workflow: Some(workflow.to_owned()),
        troubled: None,
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
