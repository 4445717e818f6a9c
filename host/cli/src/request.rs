//! The request of `run` and `runs start`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value};
use windlass_model::{Payload, RunId};
use windlass_runtime::{StartRequest, UnpublishedLookup, published_for};
use windlass_store::Store;

use crate::client::{Api, text, truth};
use crate::codes;
use crate::error::{Expected, or_missing, sentence};
use crate::exit::Exit;
use crate::input;
use crate::output::Output;
use crate::source::{Source, name_in};

/// The workflow and the input of the request.
#[derive(Debug, Args)]
pub(crate) struct RequestArguments {
    /// The workflow file, or the name of a published workflow; `-` is standard input
    workflow: PathBuf,
    /// Input of the run: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT", allow_negative_numbers = true)]
    input: Vec<String>,
    /// The id of the run, a UUID. A second request with the same id returns the same run
    #[arg(long, value_name = "UUID")]
    id: Option<String>,
    /// The subject of the run, for people and for searches
    #[arg(long, value_name = "TEXT")]
    correlation: Option<String>,
}

/// A request whose file and input were read.
pub(crate) struct Request {
    id: Option<RunId>,
    input: Vec<String>,
    correlation: Option<String>,
    workflow: Workflow,
}

/// The workflow of a request.
enum Workflow {
    File(Box<Source>),
    /// A published workflow, by its name.
    Published(String),
}

impl RequestArguments {
    /// Reads the workflow file and the input.
    pub(crate) fn read(&self) -> Result<Request, Expected> {
        let id = self.id.as_deref().map(read_id).transpose()?;
        // A mistake is told before the schema is known.
        input::parse(&self.input)?;
        let workflow = match name_in(&self.workflow) {
            Some(name) => Workflow::Published(name.to_owned()),
            None => Workflow::File(Box::new(Source::read(&self.workflow)?)),
        };
        Ok(Request {
            id,
            input: self.input.clone(),
            correlation: self.correlation.clone(),
            workflow,
        })
    }

    /// Starts the run through the API. The request says when it begins.
    pub(crate) fn begin(
        &self,
        mut members: Map<String, Value>,
        output: &Output,
        api: impl FnOnce() -> anyhow::Result<Api>,
    ) -> anyhow::Result<Begun> {
        let request = self.read()?;
        let api = api()?;
        let (key, workflow, schema) = match &request.workflow {
            Workflow::File(source) => {
                let definition = serde_json::from_slice(&source.row().json);
                let schema = source.definition.input.clone();
                ("definition", definition.unwrap_or_default(), schema)
            }
            Workflow::Published(name) => {
                // A token may allow starts and no reading; then the schema is unknown.
                let shown = (!request.input.is_empty())
                    .then(|| api.get(&["definitions", name]).ok())
                    .flatten();
                let schema = shown.and_then(|shown| shown.pointer("/file/input").cloned());
                ("workflow", Value::from(name.as_str()), schema)
            }
        };
        let input = input::parse_for(&request.input, schema.as_ref())?;
        warn(&input, schema.as_ref(), output);
        members.insert(key.to_owned(), workflow);
        members.insert("input".to_owned(), input);
        let id = request.id.map(|id| id.to_string());
        for (key, value) in [("id", id), ("correlation", request.correlation)] {
            members.extend(value.map(|value| (key.to_owned(), Value::from(value))));
        }
        let begun = api.post(&["runs"], &Value::Object(members));
        let begun = begun.map_err(|error| match &request.workflow {
            Workflow::File(source) => source.place(error),
            Workflow::Published(name) => or_missing(error, || missing(name)),
        })?;
        Ok(Begun {
            id: text(&begun, "id")?.to_owned(),
            existed: truth(&begun, "existed")?,
            api,
        })
    }

    /// Finds the workflows that the run calls in files beside its own: `NAME.yaml`. A published
    /// workflow calls published ones only.
    pub(crate) fn beside(&self) -> Option<UnpublishedLookup> {
        if name_in(&self.workflow).is_some() {
            return None;
        }
        let directory = self.workflow.parent().map(PathBuf::from);
        let directory = directory.unwrap_or_default();
        Some(Box::new(move |name| {
            let file = directory.join(name).with_extension("yaml");
            if !file.is_file() {
                return Ok(None);
            }
            match Source::read(&file) {
                Ok(source) => Ok(Some(source.row())),
                Err(error) => Err(windlass_runtime::Error::Unreadable(error.to_string())),
            }
        }))
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.workflow
    }

    /// The file or the name, as the user gave it.
    pub(crate) fn workflow(&self) -> String {
        self.workflow.display().to_string()
    }
}

impl Request {
    /// The name, if the workflow is a published one.
    pub(crate) fn published(&self) -> Option<&str> {
        match &self.workflow {
            Workflow::File(_) => None,
            Workflow::Published(name) => Some(name),
        }
    }

    /// The request for the runtime of this process. A published workflow is looked up in the store.
    pub(crate) fn on(
        self,
        store: &dyn Store,
        output: &Output,
    ) -> anyhow::Result<(StartRequest, Source)> {
        let source = match self.workflow {
            Workflow::File(source) => *source,
            Workflow::Published(name) => {
                let row = match published_for(store, &name, self.id) {
                    Err(windlass_runtime::Error::NoWorkflow { near, .. }) => {
                        return Err(near_or_missing(&name, near).into());
                    }
                    digest => store.definition(digest?)?,
                };
                Source::stored(row.ok_or_else(|| missing(&name))?)?
            }
        };
        let schema = source.definition.input.as_ref();
        let input = input::parse_for(&self.input, schema)?;
        warn(&input, schema, output);
        let request = StartRequest {
            workflow: source.row().into(),
            input: Payload::of(&input),
            id: self.id,
            correlation: self.correlation,
            trace: None,
        };
        if let Some(id) = self.id {
            windlass_runtime::check_chosen(id)?;
        }
        Ok((request, source))
    }
}

/// Warns of members of an input that its workflow does not know, and that are near to those that it
/// does.
fn warn(input: &Value, schema: Option<&Value>, output: &Output) {
    for text in input::near_members(input, schema) {
        output.note(&text);
    }
}

/// The error for an argument that names neither a file nor a published workflow.
pub(crate) fn missing(name: &str) -> Expected {
    let text = format!("There is no file `{name}`, and no workflow `{name}` is published");
    let files = [format!("{name}.yaml"), format!("workflows/{name}.yaml")];
    let near = files.into_iter().find(|file| PathBuf::from(file).is_file());
    let help = match near {
        Some(file) => format!("Name the file `{file}`, or publish it."),
        None => "`windlass workflow list` shows the published workflows; \
                 `windlass workflow publish FILE` publishes one."
            .to_owned(),
    };
    Expected::new(codes::NO_WORKFLOW, text)
        .help(help)
        .exit(Exit::NotFound)
}

/// As [`missing`], with a published name that is near.
fn near_or_missing(name: &str, near: Option<String>) -> Expected {
    let missing = missing(name);
    match near {
        Some(near) => missing.help(sentence(&near)),
        None => missing,
    }
}

/// The run of a request.
pub(crate) struct Begun {
    /// Its id.
    pub(crate) id: String,
    /// Whether the run existed before, by an earlier request with the same id.
    pub(crate) existed: bool,
    /// The API that answered.
    pub(crate) api: Api,
}

fn read_id(text: &str) -> Result<RunId, Expected> {
    text.parse().map_err(|_| {
        Expected::new(codes::NO_ID, format!("`{text}` is not a UUID")).help(
            "An id looks like 0193c0de-7a1b-7c3d-8e4f-0123456789ab; leave it out for a new one.",
        )
    })
}
