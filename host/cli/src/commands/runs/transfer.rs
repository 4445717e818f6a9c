//! `windlass runs export|import`.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use serde_json::json;
use windlass_runtime::transfer::FILE_BYTES;

use crate::app::Context;
use crate::client::text;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;

/// The arguments of `export`.
#[derive(Debug, Args)]
#[command(
    after_help = "The run stays where it is, and as it is. The newest key of the keyring signs the \
    file. docs/runs.md lists the data that goes with it."
)]
pub(crate) struct Export {
    /// The id of the run, or its beginning
    id: String,
    /// The file to write, which must not exist; stdout by default
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// The arguments of `import`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without an option the run gets the id that it had, if no run has that. It is \
    carried out by `windlass serve`. The run has to be signed by a key of the keyring, or by one \
    that [keys] trusted names."
)]
pub(crate) struct Import {
    /// The file that `export` wrote; `-` is stdin
    file: PathBuf,
    /// Replace the run with the same id, which must have no execution in progress
    #[arg(long, conflicts_with = "new_id")]
    replace: bool,
    /// Import the run as a copy with this id, or with a new id if none is given
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    new_id: Option<Option<uuid::Uuid>>,
    /// Also import a run without a signature of a known key: its history may be forged, and the run
    /// stays marked as unsigned
    #[arg(long)]
    unsigned: bool,
}

impl Export {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let id = api.id(&self.id)?;
        let document = api.get_raw(&["runs", &id, "export"])?;
        self.put(context, &id, &document)
    }

    /// Writes the document to the file or to stdout.
    fn put(&self, context: &Context, id: &str, document: &[u8]) -> anyhow::Result<Exit> {
        let Some(path) = &self.file else {
            let mut out = io::stdout().lock();
            let written = out.write_all(document).and_then(|()| out.write_all(b"\n"));
            written.or_else(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => Ok(()),
                _ => Err(error),
            })?;
            return Ok(Exit::Done);
        };
        let mut options = windlass_files::options();
        let file = options.write(true).create_new(true).open(path);
        let mut file = file.map_err(|error| unusable(path, &error))?;
        let written = file.write_all(document).and_then(|()| file.sync_all());
        written.map_err(|error| {
            // An incomplete export is useless, and would make the next attempt fail.
            drop(std::fs::remove_file(path));
            unusable(path, &error)
        })?;
        let item = json!({ "id": id, "file": path, "bytes": document.len() });
        context.output.show(&item, || id.to_owned())?;
        Ok(Exit::Done)
    }
}

impl Import {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let document = self.document()?;
        let place = match self.new_id {
            Some(Some(id)) => Some(("as", id.to_string())),
            Some(None) => Some(("as", windlass_runtime::new_run_id().to_string())),
            None => self.replace.then(|| ("replace", "true".to_owned())),
        };
        let unsigned = self.unsigned.then(|| ("unsigned", "true".to_owned()));
        let query: Vec<_> = place.into_iter().chain(unsigned).collect();
        let api = context.api_and_store()?;
        let item = api.post_raw(&["runs", "import"], &query, document)?;
        let line = format!("{} {}", text(&item, "id")?, text(&item, "result")?);
        context.output.show(&item, || line)?;
        Ok(Exit::Done)
    }

    /// The content of the file, up to one byte more than the limit: the import then refuses it.
    fn document(&self) -> anyhow::Result<Bytes> {
        let (mut bytes, bound) = (Vec::new(), FILE_BYTES as u64 + 1);
        let read = if self.file.as_os_str() == "-" {
            io::stdin().lock().take(bound).read_to_end(&mut bytes)
        } else {
            File::open(&self.file).and_then(|file| file.take(bound).read_to_end(&mut bytes))
        };
        read.map_err(|error| unusable(&self.file, &error))?;
        Ok(bytes.into())
    }
}

fn unusable(path: &Path, error: &io::Error) -> Expected {
    let text = format!("{} cannot be used: {error}", path.display());
    Expected::new(codes::INPUT, text).help("Name a file that can be read, or a new one to write.")
}
