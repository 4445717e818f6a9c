//! The request of `run` and `runs start`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value};
use windlass_model::{Payload, RunId};
use windlass_runtime::{StartRequest, UnpublishedLookup};

use crate::api::{Api, text, truth};
use crate::codes;
use crate::error::Expected;
use crate::input;
use crate::source::Source;

/// The workflow and the input of the request.
#[derive(Debug, Args)]
pub(crate) struct RequestArguments {
    /// The workflow file; `-` is standard input
    file: PathBuf,
    /// Input of the run: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT")]
    input: Vec<String>,
    /// The id of the run, a UUID. A second request with the same id returns the same run
    #[arg(long, value_name = "UUID")]
    id: Option<String>,
    /// The subject of the run, for people and for searches
    #[arg(long, value_name = "TEXT")]
    correlation: Option<String>,
}

impl RequestArguments {
    /// Reads the workflow and the input.
    pub(crate) fn read(&self) -> Result<(StartRequest, Source), Expected> {
        let id = self.id.as_deref().map(read_id).transpose()?;
        let input = input::parse(&self.input)?;
        let source = Source::read(&self.file)?;
        let request = StartRequest {
            definition: source.row(),
            input: Payload::of(&input),
            id,
            correlation: self.correlation.clone(),
        };
        Ok((request, source))
    }

    /// Starts the run through the API, with its definition. The request says when it begins.
    pub(crate) fn begin(
        &self,
        mut members: Map<String, Value>,
        api: impl FnOnce() -> anyhow::Result<Api>,
    ) -> anyhow::Result<Begun> {
        let (request, source) = self.read()?;
        let read = |bytes: Option<&bytes::Bytes>| -> Value {
            let value = bytes.and_then(|bytes| serde_json::from_slice(bytes).ok());
            value.unwrap_or_default()
        };
        let definition = read(Some(&request.definition.json));
        members.insert("definition".to_owned(), definition);
        members.insert("input".to_owned(), read(request.input.inline()));
        let id = request.id.map(|id| id.to_string());
        for (key, value) in [("id", id), ("correlation", request.correlation)] {
            members.extend(value.map(|value| (key.to_owned(), Value::from(value))));
        }
        let api = api()?;
        let begun = api.post(&["runs"], &Value::Object(members));
        let begun = begun.map_err(|error| source.place(error))?;
        Ok(Begun {
            id: text(&begun, "id")?.to_owned(),
            existed: truth(&begun, "existed")?,
            api,
        })
    }

    /// Finds the workflows that the run calls in files beside its own: `NAME.yaml`.
    pub(crate) fn beside(&self) -> UnpublishedLookup {
        let directory = self.file.parent().map(PathBuf::from).unwrap_or_default();
        Box::new(move |name| {
            let file = directory.join(name).with_extension("yaml");
            if !file.is_file() {
                return Ok(None);
            }
            match Source::read(&file) {
                Ok(source) => Ok(Some(source.row())),
                Err(error) => Err(windlass_runtime::Error::Unreadable(error.to_string())),
            }
        })
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.file
    }

    /// The file as the user named it.
    pub(crate) fn file(&self) -> String {
        self.file.display().to_string()
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
