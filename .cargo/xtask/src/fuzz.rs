//! `cargo xtask fuzz`: libFuzzer on the targets of `tests/fuzz`.

use crate::{host, place};
use anyhow::{Context, Result};

/// Let libFuzzer search for an input that harms a parser of untrusted data.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The target: a folder of `tests/fuzz/corpus`.
    target: String,
    /// How long to search, in minutes.
    #[arg(long, default_value_t = 15)]
    minutes: u64,
    /// Afterwards, write the smallest inputs that reach the same code into the corpus.
    #[arg(long)]
    keep: bool,
}

/// Compiler flags by which libFuzzer sees which code an input reaches.
const COVERAGE: &[&str] = &[
    "--cfg=fuzzing",
    "-Ccodegen-units=1",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Compiles the targets and searches.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut rustc = std::process::Command::new("rustc");
    let triple = place::output(rustc.args(["--print", "host-tuple"]))?;
    let triple = triple.trim();
    let directory = place::target()?.join("fuzz");
    host::say("compiling the fuzz targets");
    let mut command = place::cargo();
    command
        .args(["build", "--package", "windlass-fuzz", "--profile", "fuzz"])
        // With a separate target, the flags do not apply to build scripts.
        .args(["--target", triple, "--target-dir"])
        .arg(&directory)
        .env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\u{1f}"))
        .current_dir(place::root()?);
    place::run(&mut command)?;

    let program = directory.join(triple).join("fuzz/windlass-fuzz");
    let found = directory.join("found").join(&args.target);
    std::fs::create_dir_all(&found)?;
    let corpus = place::root()?.join("tests/fuzz/corpus").join(&args.target);
    std::fs::create_dir_all(&corpus)?;
    let fuzzer = || {
        let mut command = std::process::Command::new(&program);
        command.env("WINDLASS_FUZZ", &args.target);
        command
    };
    host::say(&format!(
        "fuzzing {} for {} minutes",
        args.target, args.minutes
    ));
    let mut command = fuzzer();
    command
        .arg(format!("-max_total_time={}", args.minutes * 60))
        .args(["-timeout=10", "-rss_limit_mb=3072", "-print_final_stats=1"])
        .arg(format!("-artifact_prefix={}/crash-", directory.display()))
        .arg(&found)
        .arg(&corpus);
    let dictionary = place::root()?.join(format!("tests/fuzz/{}.dict", args.target));
    if dictionary.is_file() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    place::run(&mut command)?;
    if args.keep {
        let mut command = fuzzer();
        // The fewest inputs that reach every place; how often each was reached does not count.
        command.args(["-set_cover_merge=1", "-use_counters=0"]);
        command.arg(&corpus).arg(&found);
        place::run(&mut command).context("the corpus could not be merged")?;
    }
    Ok(())
}
