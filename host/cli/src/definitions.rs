//! Files that cannot be published, as the command line shows them.

use windlass_display::Problems;
use windlass_runtime::definitions::Failed;

use crate::error::{Expected, classify};

/// A file that cannot be published, as people are told of it.
pub(crate) fn expected(failed: Failed) -> Expected {
    let Failed { file, text, error } = failed;
    match error {
        windlass_runtime::Error::Definition(diagnostics) => Expected::of_file(Problems {
            name: file.display().to_string(),
            text,
            diagnostics,
        }),
        other => classify(other.into()),
    }
}
