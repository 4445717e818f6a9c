//! Compares random workflows with a small interpreter that shares no code with the engine.
//!
//! A seed determines a workflow, the workflows that it calls, its input, its stimuli, and whether
//! it is cancelled. `WINDLASS_SEED=… cargo test -p windlass-runtime --test runs random` repeats
//! one; [`windlass_test_seeds`] has the other variables.

mod check;
mod dice;
mod expr;
mod flow;
mod host;
mod make;
mod model;
mod shape;
mod told;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use check::Report;
use host::{Machine, Process, id_of};
use make::Case;
use model::Mistake;
use told::Told;
use windlass_runtime::BurstBounds;
use windlass_store::{Durability, MemoryStore, SqliteOptions, SqliteStore};
use windlass_test_seeds::Seeds;

const SEEDS: Seeds = Seeds::new(600, 1_500);

/// Seeds with processes that leave in the middle.
const REOPENED: Seeds = Seeds::new(60, 120);

/// The number of concurrent runs.
const AT_ONCE: usize = 24;

/// The number of mistakes that are printed.
const SHOWN: usize = 3;

/// The run of a seed, once it has ended.
fn result(process: &Process<'_>, case: &Case, seed: u64) -> Result<Told, String> {
    process.wait(seed)?;
    let workflows = case.workflows();
    // A cancelled run does not wait for its children.
    loop {
        if let Some(told) = Told::of(process.store.as_ref(), id_of(seed), &workflows) {
            process.compare_inputs(id_of(seed))?;
            return Ok(told);
        }
        std::thread::yield_now();
    }
}

/// Runs these seeds, some at the same time, and returns each with its case and its result.
fn run(process: &Process<'_>, seeds: &[u64]) -> Vec<(u64, Case, Result<Told, String>)> {
    let cases: Vec<(u64, Case)> = seeds.iter().map(|seed| (*seed, Case::of(*seed))).collect();
    for (seed, case) in &cases {
        process.begin(case, *seed);
    }
    for (seed, case) in &cases {
        process.tell(case, *seed);
    }
    let results = cases.into_iter().map(|(seed, case)| {
        let told = result(process, &case, seed);
        (seed, case, told)
    });
    results.collect()
}

/// Compares the result of a seed with the interpreter.
fn verify(
    seed: u64,
    case: &Case,
    told: Result<Told, String>,
    report: &mut Report,
) -> Result<(), String> {
    let workflows = case.workflows();
    let compared = told.and_then(|told| check::check(&told, &workflows, None, report));
    compared.map_err(|wrong| {
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

fn in_memory(machine: &Machine) -> Process<'_> {
    let store = MemoryStore::new(Arc::clone(&machine.clock) as _);
    let burst = BurstBounds {
        steps: 7,
        ..BurstBounds::default()
    };
    machine.start(store, burst)
}

#[test]
fn random_workflows_come_to_the_result_of_the_interpreter() {
    let machine = Machine::new();
    let process = in_memory(&machine);
    let seeds = SEEDS.range();
    let all: Vec<u64> = seeds.clone().collect();
    let (mut report, mut wrong) = (Report::default(), Vec::new());
    for seeds in all.chunks(AT_ONCE) {
        for (seed, case, told) in run(&process, seeds) {
            wrong.extend(verify(seed, &case, told, &mut report).err());
        }
    }
    let (shown, missing) = process.inputs.get();
    process.leave();
    println!(
        "{} seeds from {}: {report:?}, {shown} inputs shown, {missing} not",
        all.len(),
        seeds.start
    );
    none(&wrong, &seeds);
    assert!(
        missing <= shown / 10,
        "{missing} inputs of {shown} are missing"
    );
    let many = report.runs / 20;
    assert!(report.left <= many.max(1), "most are followed: {report:?}");
}

#[test]
fn every_mistake_of_the_interpreter_is_noticed() {
    let machine = Machine::new();
    let process = in_memory(&machine);
    let mut runs = BTreeMap::new();
    for mistake in Mistake::ALL {
        SEEDS.find(mistake, |seed| {
            if !runs.contains_key(&seed) {
                let next: Vec<u64> = (seed..).take(AT_ONCE).collect();
                let results = run(&process, &next).into_iter();
                runs.extend(results.map(|(seed, case, told)| (seed, (case, told.unwrap()))));
            }
            let (case, told) = runs.get(&seed).unwrap();
            let workflows = case.workflows();
            check::check(told, &workflows, Some(mistake), &mut Report::default()).is_err()
        });
    }
    process.leave();
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
    let seeds = REOPENED.range();
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
        let told = result(&process, case, *seed);
        wrong.extend(verify(*seed, case, told, &mut report).err());
    }
    process.leave();
    println!("{} seeds from {}: {report:?}", cases.len(), seeds.start);
    none(&wrong, &seeds);
}
