//! Compares random workflows with a small interpreter that shares no code with the engine.
//!
//! A seed determines a workflow, the workflows that it calls, its input, its stimuli, and whether
//! it is cancelled. `WINDLASS_SEED=… cargo test -p windlass-runtime --test runs random` repeats
//! one; `WINDLASS_SEEDS=…` sets how many are tried.

mod check;
mod dice;
mod expr;
mod flow;
mod host;
mod make;
mod model;
mod shape;
mod told;

use std::ops::Range;
use std::sync::Arc;

use check::Report;
use flow::Workflow;
use host::{Machine, Process, id_of};
use make::Case;
use told::Told;
use windlass_runtime::BurstBounds;
use windlass_store::{Durability, MemoryStore, SqliteOptions, SqliteStore};

/// The number of seeds.
const SEEDS: u64 = 1_000;

/// The number of seeds with a process that leaves in the middle.
const REOPENED: u64 = 60;

/// The number of concurrent runs.
const AT_ONCE: usize = 24;

/// The number of mistakes that are printed.
const SHOWN: usize = 3;

/// The requested seeds, or else this number of seeds from the first one on.
fn seeds(count: u64) -> Range<u64> {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = variable("WINDLASS_SEED");
    let count = if first.is_some() { 1 } else { count };
    let count = variable("WINDLASS_SEEDS").unwrap_or(count);
    let first = first.unwrap_or(1);
    first..first + count
}

/// Compares the run of a seed with the interpreter, once it has ended.
fn verify(
    process: &Process<'_>,
    case: &Case,
    seed: u64,
    report: &mut Report,
) -> Result<(), String> {
    let workflows: Vec<&Workflow> = case.children.iter().chain([&case.main]).collect();
    let result = process.wait(seed).and_then(|()| {
        let store = process.store.as_ref();
        // A cancelled run does not wait for its children.
        let told = loop {
            if let Some(told) = Told::of(store, id_of(seed), &workflows) {
                break told;
            }
            std::thread::yield_now();
        };
        check::check(&told, &workflows, report)
    });
    result.map_err(|wrong| {
        let written: Vec<String> = workflows.iter().map(|it| it.written()).collect();
        let (input, cancelled) = (&case.input, case.cancelled);
        format!(
            "WINDLASS_SEED={seed}\n{}\ninput: {input}, cancelled: {cancelled}\n{wrong}",
            written.join("\n")
        )
    })
}

#[track_caller]
fn none(wrong: &[String], seeds: &Range<u64>) {
    let shown = wrong.get(..wrong.len().min(SHOWN)).unwrap_or_default();
    assert!(
        wrong.is_empty(),
        "{} of {} seeds from {} come to something else:\n{}",
        wrong.len(),
        seeds.end - seeds.start,
        seeds.start,
        shown.join("\n\n")
    );
}

#[test]
fn random_workflows_come_to_what_the_interpreter_says() {
    let machine = Machine::new();
    let store = MemoryStore::new(Arc::clone(&machine.clock) as _);
    let burst = BurstBounds {
        steps: 7,
        ..BurstBounds::default()
    };
    let process = machine.start(store, burst);
    let seeds = seeds(SEEDS);
    let all: Vec<u64> = seeds.clone().collect();
    let (mut report, mut wrong) = (Report::default(), Vec::new());
    for seeds in all.chunks(AT_ONCE) {
        let cases: Vec<(u64, Case)> = seeds.iter().map(|seed| (*seed, Case::of(*seed))).collect();
        for (seed, case) in &cases {
            process.begin(case, *seed);
        }
        for (seed, case) in &cases {
            process.tell(case, *seed);
        }
        for (seed, case) in &cases {
            wrong.extend(verify(&process, case, *seed, &mut report).err());
        }
    }
    process.leave();
    println!("{} seeds from {}: {report:?}", all.len(), seeds.start);
    none(&wrong, &seeds);
    let many = report.runs / 20;
    assert!(report.left <= many.max(1), "most are followed: {report:?}");
}

#[test]
fn random_workflows_come_to_the_same_when_their_process_leaves_in_the_middle() {
    let machine = Machine::new();
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let mut options = SqliteOptions::new(Arc::clone(&machine.clock) as _);
        options.durability = Durability::Normal;
        let store = SqliteStore::open(dir.path().join("random.db"), options).unwrap();
        machine.start(store, BurstBounds::default())
    };
    let seeds = seeds(REOPENED);
    let cases: Vec<(u64, Case)> = seeds.clone().map(|seed| (seed, Case::of(seed))).collect();
    let mut process = open();
    for (seed, case) in &cases {
        process.begin(case, *seed);
        process.tell(case, *seed);
        if seed % 8 == 0 {
            process.leave();
            process = open();
        }
    }
    for (seed, _) in cases.iter().rev().step_by(cases.len().div_ceil(4)) {
        process.leave();
        process = open();
        // Runs that time out here are also reported below.
        let _ = process.wait(*seed);
    }
    let (mut report, mut wrong) = (Report::default(), Vec::new());
    for (seed, case) in &cases {
        wrong.extend(verify(&process, case, *seed, &mut report).err());
    }
    process.leave();
    println!("{} seeds from {}: {report:?}", cases.len(), seeds.start);
    none(&wrong, &seeds);
}
