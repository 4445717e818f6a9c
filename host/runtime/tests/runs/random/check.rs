//! Compares a run with the result of the interpreter.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::expr::same;
use super::flow::Workflow;
use super::model::{Fault, Gone, Mistake, Net, Seen, Shown, State};
use super::told::Told;

/// The limit of states that are followed at the same time. A run whose records fit more states is
/// not checked further, and counted.
const STATES: usize = 64;

/// The results of the runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) runs: usize,
    pub(crate) called: usize,
    pub(crate) executions: usize,
    /// The number of runs whose records fit too many orders to be followed.
    pub(crate) left: usize,
    pub(crate) statuses: BTreeMap<String, usize>,
}

/// Compares a run with its workflow, and its children with theirs. The interpreter may make a
/// mistake on purpose.
///
/// The error is the difference.
pub(crate) fn check(
    told: &Told,
    workflows: &[&Workflow],
    mistake: Option<Mistake>,
    report: &mut Report,
) -> Result<(), String> {
    let workflow = workflows
        .iter()
        .find(|it| it.name == told.workflow)
        .unwrap();
    let mut net = Net::of(workflow);
    net.mistake = mistake;
    let followed = follow(&net, told).map_err(|wrong| {
        let (name, input, history) = (&told.workflow, &told.input, history(&net, told));
        format!("run of {name} on {input}:\n{wrong}\nIt did this:\n{history}")
    })?;
    report.runs += 1;
    report.left += usize::from(!followed);
    report.executions += told.records.len();
    *report.statuses.entry(told.status.clone()).or_default() += 1;
    for child in &told.children {
        report.called += 1;
        check(child, workflows, mistake, report)?;
    }
    Ok(())
}

/// Shows the interpreter one record after the other. False: there were too many possibilities.
fn follow(net: &Net<'_>, told: &Told) -> Result<bool, String> {
    let mut states = vec![State::begin(net, &told.input)];
    for (at, seen) in told.records.iter().enumerate() {
        let mut wrong = Vec::new();
        let (mut next, mut known) = (Vec::new(), BTreeSet::new());
        for state in with_cancelled(net, told, states) {
            match after(net, &state, seen) {
                Ok(found) => {
                    for state in found {
                        if known.insert(format!("{state:?}")) {
                            next.push(state);
                        }
                    }
                }
                Err(why) => wrong.push(why),
            }
        }
        if next.is_empty() {
            wrong.truncate(3);
            let (number, wrong) = (at + 1, wrong.join("\n"));
            let seen = line(net, seen);
            return Err(format!("record {number} cannot be: {seen}\n{wrong}"));
        }
        if next.len() > STATES {
            return Ok(false);
        }
        states = next;
    }
    let mut wrong = Vec::new();
    for state in with_cancelled(net, told, states) {
        match ended(net, &state, told) {
            Ok(()) => return Ok(true),
            Err(why) => wrong.push(why),
        }
    }
    wrong.truncate(3);
    Err(wrong.join("\n"))
}

/// The states of a cancelled run: the time of its cancellation is not known.
fn with_cancelled(net: &Net<'_>, told: &Told, mut states: Vec<State>) -> Vec<State> {
    if told.status == "cancelled" {
        let ready = states.iter().filter(|state| state.gone.is_empty());
        let cancelled: Vec<State> = ready.filter_map(|state| state.cancelled(net)).collect();
        states.extend(cancelled);
    }
    states
}

/// The states that may follow a record.
fn after(net: &Net<'_>, state: &State, seen: &Seen) -> Result<Vec<State>, String> {
    if !state.gone.is_empty() || seen.shown.status == "cancelled" {
        let position = |first| {
            let fits = |gone: &Gone| {
                gone.node == seen.node && gone.attempt == seen.shown.attempt && gone.first == first
            };
            state.gone.iter().position(fits)
        };
        // The first record identifies an execution that has begun. An execution of the same node in
        // another scope, without a record, also fits.
        let found = position(Some(seen.first)).or_else(|| position(None));
        let found = found.filter(|_| seen.shown.status == "cancelled");
        let Some(found) = found else {
            let gone: Vec<&str> = state.gone.iter().map(|gone| net.name(gone.node)).collect();
            return Err(format!("these had to be cancelled: {gone:?}"));
        };
        let mut state = state.clone();
        state.gone.remove(found);
        return Ok(vec![state]);
    }
    if let Some(end) = &state.ended {
        return Err(format!("the run had ended: {end:?}"));
    }
    let candidates = state.candidates(net, seen);
    if candidates.is_empty() {
        let open = state.told(net).join("; ");
        return Err(format!("this was open: {open}"));
    }
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for number in candidates {
        let mut state = state.clone();
        match state.execute(net, number, seen) {
            Ok(shown) if is(&shown, &seen.shown) => found.push(state),
            Ok(shown) => wrong.push(format!("predicted: {}", shown_line(net, &shown))),
            Err(why) => wrong.push(why),
        }
    }
    if found.is_empty() {
        return Err(wrong.join("\n"));
    }
    Ok(found)
}

fn is(predicted: &Shown, found: &Shown) -> bool {
    let null = Value::Null;
    let output = |shown: &Shown| shown.output.clone();
    // A failed condition has no output in the record.
    let refuted = found.fault.as_ref().is_some_and(|it| it.code == "WL-R001");
    let outputs = match (output(predicted), output(found)) {
        // A failure under `on-error: continue` has no output, or `null`.
        (predicted, None) => predicted.unwrap_or_default() == null || refuted,
        (Some(predicted), Some(found)) => same(&predicted, &found),
        (predicted, found) => predicted == found,
    };
    let faults = match (&predicted.fault, &found.fault) {
        (Some(predicted), Some(found)) => predicted.is(found),
        (predicted, found) => predicted == found,
    };
    outputs
        && faults
        && predicted.kind == found.kind
        && predicted.attempt == found.attempt
        && predicted.status == found.status
        && predicted.skipped == found.skipped
}

/// Compares the end of a run with the predicted end.
fn ended(net: &Net<'_>, state: &State, told: &Told) -> Result<(), String> {
    let Some(end) = &state.ended else {
        return Err(format!("it had to go on: {}", state.told(net).join("; ")));
    };
    if !state.gone.is_empty() {
        return Err(format!("these had to be cancelled: {:?}", state.gone));
    }
    let outputs = match (&end.output, &told.output) {
        (Some(predicted), Some(found)) => same(predicted, found),
        (predicted, found) => predicted == found,
    };
    let faults = match (&end.fault, &told.fault) {
        (Some(predicted), Some(found)) => predicted.is(found),
        (predicted, found) => predicted == found,
    };
    if end.status != told.status || !outputs || !faults {
        let (status, output, fault) = (&told.status, &told.output, &told.fault);
        return Err(format!(
            "predicted: {end:?}\nit ended: {status}, {output:?}, {fault:?}"
        ));
    }
    let vars = state.vars();
    let found = told.vars.iter();
    let equal = found
        .clone()
        .all(|(name, value)| vars.get(name).is_some_and(|it| same(it, value)));
    if !equal || found.count() != vars.len() {
        return Err(format!("predicted: {vars:?}\nvariables: {:?}", told.vars));
    }
    let mut left: Vec<&(usize, Fault)> = state.incidents.iter().collect();
    for (node, fault) in &told.incidents {
        let is = |it: &&(usize, Fault)| net.name(it.0) == node && it.1.is(fault);
        match left.iter().position(is) {
            Some(at) => drop(left.remove(at)),
            None => return Err(format!("not predicted: an incident of {node}, {fault:?}")),
        }
    }
    match left.first() {
        Some((node, fault)) => Err(format!(
            "predicted: an incident of {}, {fault:?}",
            net.name(*node)
        )),
        None => Ok(()),
    }
}

fn history(net: &Net<'_>, told: &Told) -> String {
    let mut text = String::new();
    for (at, seen) in told.records.iter().enumerate() {
        writeln!(text, "{:4} {}", at + 1, line(net, seen)).unwrap();
    }
    let (status, output, fault) = (&told.status, &told.output, &told.fault);
    let output = output.as_ref().map(Value::to_string);
    writeln!(text, "     {status} {output:?} {fault:?}").unwrap();
    text
}

fn line(net: &Net<'_>, seen: &Seen) -> String {
    let shown = shown_line(net, &seen.shown);
    format!("{} ({}) {shown}", net.name(seen.node), seen.first)
}

fn shown_line(net: &Net<'_>, shown: &Shown) -> String {
    let (kind, attempt, status) = (&shown.kind, shown.attempt, &shown.status);
    let mut text = format!("{kind} {attempt} {status}");
    if let Some(output) = &shown.output {
        write!(text, " -> {output}").unwrap();
    }
    if let Some(fault) = &shown.fault {
        let (class, code, details) = (&fault.class, &fault.code, &fault.details);
        write!(text, " fails: {class} {code} {details}").unwrap();
    }
    if !shown.skipped.is_empty() {
        let names: Vec<&str> = shown.skipped.iter().map(|at| net.name(*at)).collect();
        write!(text, " skips {}", names.join(" ")).unwrap();
    }
    text
}
