//! Replays every input in the corpus, in a separate process for each target.

use std::path::Path;
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};
use windlass_fuzz::TARGETS;

/// Seconds of processor time for one corpus. Only a hang reaches the bound.
const SECONDS: u64 = 300;

/// Takes a minute: some thousand inputs, many of them made to be slow, under the bounds of the fuzzer.
#[test]
fn no_input_of_a_corpus_does_harm() {
    // The replaying processes inherit it.
    let limit = Rlimit {
        current: Some(SECONDS),
        maximum: None,
    };
    setrlimit(Resource::Cpu, limit).unwrap();
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in TARGETS {
        let corpus = corpora.join(target.name);
        let inputs = std::fs::read_dir(&corpus).unwrap().count();
        assert!(inputs > 0, "the corpus of {} is empty", target.name);
        let output = Command::new(env!("CARGO_BIN_EXE_windlass-fuzz"))
            .arg(target.name)
            .arg(&corpus)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<_> = said.lines().rev().take(20).collect();
        assert!(
            output.status.success(),
            "{}: {}\n{}",
            target.name,
            output.status,
            last.into_iter().rev().collect::<Vec<_>>().join("\n")
        );
        assert!(said.ends_with(&format!("{inputs} inputs\n")));
    }
}
