//! What `run` and `instance start` are asked for.

use std::path::PathBuf;

use clap::Args;
use windlass_model::{InstanceId, Payload};
use windlass_runtime::{Beside, StartRequest};

use crate::codes;
use crate::error::Expected;
use crate::input;
use crate::source::Source;

/// What to run, and on what.
#[derive(Debug, Args)]
pub(crate) struct RequestArguments {
    /// The workflow file; `-` is standard input
    file: PathBuf,
    /// What it works on: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT")]
    input: Vec<String>,
    /// The id of the run, a UUID. The same id again is the same run
    #[arg(long, value_name = "UUID")]
    id: Option<String>,
    /// What the run is about, for people and for finding it
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

    /// Finds workflows that the run calls in files beside its own: `NAME.yaml`.
    pub(crate) fn beside(&self) -> Beside {
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

    /// As the user named it.
    pub(crate) fn file(&self) -> String {
        self.file.display().to_string()
    }
}

fn read_id(text: &str) -> Result<InstanceId, Expected> {
    text.parse().map_err(|_| {
        Expected::new(codes::NO_ID, format!("`{text}` is not a UUID")).help(
            "An id looks like 0193c0de-7a1b-7c3d-8e4f-0123456789ab; leave it out for a new one.",
        )
    })
}
