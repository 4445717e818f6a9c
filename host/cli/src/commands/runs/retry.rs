//! `windlass runs retry`.

use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::many::Many;
use super::result::Wait;
use crate::app::Context;
use crate::client::{Api, text};
use crate::ended;
use crate::exit::Exit;
use crate::input;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Without a node, those that failed run again, and those that were cut off with \
    them. It is carried out by `windlass serve`.\n\n\
    The run keeps its definition and its components, unless `--definition` names a version. The \
    state of the run has to fit that version: it is refused with the node that prevents it."
)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: Option<String>,
    #[command(flatten)]
    many: Many,
    /// With `--where`: retry the runs, which are only shown otherwise
    #[arg(long, requires = "conditions")]
    yes: bool,
    /// The node to continue from
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    /// Input for that node: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(
        short,
        long,
        value_name = "INPUT",
        requires = "from",
        conflicts_with = "conditions"
    )]
    input: Vec<String>,
    /// Another input for the run: JSON or @FILE; KEY=VALUE alone changes members of the present input.
    /// May be repeated, and is merged. Completed nodes keep their outputs
    #[arg(long, value_name = "INPUT", conflicts_with = "conditions")]
    run_input: Vec<String>,
    /// Continue with another version of the workflow, on the current plugins: `latest` for the
    /// published one, or a number
    #[arg(long, value_name = "VERSION", value_parser = version)]
    definition: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

fn version(text: &str) -> Result<String, String> {
    if text == "latest" || text.parse::<u32>().is_ok() {
        return Ok(text.to_owned());
    }
    Err("it is `latest` or a number, which `windlass workflow list --all` shows".to_owned())
}

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut members = Map::new();
        if let Some(from) = &self.from {
            members.insert("from".to_owned(), Value::from(from.as_str()));
        }
        if !self.input.is_empty() {
            members.insert("input".to_owned(), input::parse(&self.input)?);
        }
        // A mistake is told before the run is looked up.
        let run_input = input::parse(&self.run_input)?;
        if let Some(definition) = &self.definition {
            members.insert("definition".to_owned(), Value::from(definition.as_str()));
        }
        if self.many.is_meant(self.id.as_deref())? {
            return self.many.run(context, "retry", self.yes, members);
        }
        let (api, output) = (context.api()?, &context.output);
        let id = api.id(&self.id.unwrap_or_default())?;
        if !self.run_input.is_empty() {
            let changed = match input::are_pairs(&self.run_input) {
                true => changed(&api, &id, &self.run_input)?,
                false => run_input,
            };
            members.insert("run_input".to_owned(), changed);
        }
        let path = ["runs", &id, "retry"];
        let body = Value::Object(members);
        let (_, outcome) = api.ask(Method::POST, &path, &[], Some(&body))?;
        if output.is_text()
            && let Some(note) = about_definition(&api, &id, self.definition.is_some())
        {
            output.note(&note);
        }
        let patience = self.wait.patience();
        if !patience.is_zero() {
            return ended::await_result(output, &api, &id, patience);
        }
        let item = json!({ "id": id, "status": text(&outcome, "status")? });
        output.show(&item, || id.clone())?;
        Ok(Exit::Done)
    }
}

/// The input of a run with the members that these pairs change.
fn changed(api: &Api, id: &str, pairs: &[String]) -> anyhow::Result<Value> {
    let definition = api.get(&["runs", id, "definition"])?;
    let present = api.get(&["runs", id, "input"])?;
    let present = present.get("input").cloned().unwrap_or_default();
    let pairs = input::parse_for(pairs, definition.pointer("/file/input"))?;
    Ok(input::merged(present, pairs))
}

/// What differs in the new definition of a run, or a hint that there is one. The retry is done, so
/// a failure to find out is no error.
fn about_definition(api: &Api, id: &str, altered: bool) -> Option<String> {
    let shown = api.get(&["runs", id]).ok()?;
    let run = shown.get("run")?;
    let name = run.get("workflow")?.as_str()?;
    let entries = shown.get("journal")?.as_array()?.iter().rev();
    let mut retries = entries.filter_map(|entry| entry.get("detail")?.get("definition"));
    let last = retries.next();
    if altered {
        return last.map(|report| described(name, report));
    }
    let published = api.get(&["definitions", name]).ok()?;
    let published = published.get("version")?;
    let version = published.get("version")?;
    let is_own = published.get("definition") == run.get("definition")
        || last.is_some_and(|report| report.get("version") == Some(version));
    (!is_own).then(|| {
        format!(
            "The run keeps its definition. Version {version} of `{name}` is published since: `windlass \
             runs retry {id} --definition latest` continues with it."
        )
    })
}

fn described(name: &str, report: &Value) -> String {
    let list = |key: &str| {
        let all = report.get(key).and_then(Value::as_array);
        let all = all.into_iter().flatten().filter_map(Value::as_str);
        all.collect::<Vec<_>>().join(", ")
    };
    let mut parts = Vec::new();
    for (what, key) in [
        ("changed nodes", "changed_nodes"),
        ("new nodes", "new_nodes"),
        ("removed nodes", "removed_nodes"),
        ("also changed", "changed"),
    ] {
        let names = list(key);
        if !names.is_empty() {
            parts.push(format!("{what}: {names}"));
        }
    }
    if parts.is_empty() {
        parts.push("nothing differs".to_owned());
    }
    let version = report.get("version").cloned().unwrap_or_default();
    format!(
        "The run continues with version {version} of `{name}`; {}.",
        parts.join("; ")
    )
}
