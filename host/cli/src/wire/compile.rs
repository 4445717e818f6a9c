//! Reports about plugins whose compilation takes long: without them, a program that compiles a
//! large component for the first time looks as if it hung.

use std::sync::Arc;
use std::time::Duration;

use windlass_display::visible::visible;
use windlass_plugins::{CompileReport, Compiling};

use crate::commands::took;
use crate::output::Output;

/// The time without a report.
const AFTER: Duration = Duration::from_secs(1);

/// Reports as lines for the person who typed the command.
pub(crate) fn noted(output: Output) -> CompileReport {
    report(move |compiling| output.note(&line(compiling)))
}

/// Reports in the log of a host.
pub(crate) fn logged() -> CompileReport {
    report(|compiling| {
        let (file, bytes) = (compiling.subject, compiling.bytes);
        match compiling.took {
            None => tracing::info!(file, bytes, "compiling"),
            Some(time) => {
                let took_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                tracing::info!(file, bytes, took_ms, "compiled");
            }
        }
    })
}

/// Passes the reports on.
pub(crate) fn report(tell: impl Fn(&Compiling<'_>) + Send + Sync + 'static) -> CompileReport {
    CompileReport {
        after: AFTER,
        tell: Arc::new(tell),
    }
}

/// A report as one line.
pub(crate) fn line(compiling: &Compiling<'_>) -> String {
    let file = visible(compiling.subject);
    match compiling.took {
        None => format!(
            "Compiling {file} ({} KiB); the next start takes the code from the cache…",
            compiling.bytes.div_ceil(1024)
        ),
        Some(time) => {
            let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            format!("Compiled {file} in {}", took(us))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_file_and_cannot_control_the_terminal() {
        let mut compiling = Compiling {
            subject: "plugins/\u{1b}[2Jbig.wasm",
            bytes: 2049,
            took: None,
        };
        let begun = line(&compiling);
        assert!(
            begun.starts_with("Compiling plugins/␛[2Jbig.wasm (3 KiB)"),
            "{begun}"
        );
        compiling.took = Some(Duration::from_millis(4_210));
        assert_eq!(line(&compiling), "Compiled plugins/␛[2Jbig.wasm in 4.2 s");
    }
}
