//! The records of a run, from the store.

use serde_json::Value;
use windlass_model::{Failure, Payload, RunId, ScopeNo};
use windlass_store::Store;
use windlass_store::rows::{ExecutionRow, RunRow};

use super::flow::Workflow;
use super::model::{Fault, Net, Reported, Seen, Shown};
use crate::rig::json;

/// One run, with its children.
pub(crate) struct Told {
    pub(crate) workflow: String,
    pub(crate) input: Value,
    pub(crate) status: String,
    pub(crate) output: Option<Value>,
    pub(crate) fault: Option<Fault>,
    pub(crate) vars: Vec<(String, Value)>,
    pub(crate) incidents: Vec<(String, Fault)>,
    pub(crate) records: Vec<Seen>,
    pub(crate) children: Vec<Told>,
    /// The number of the trigger that the run reports to, if it is a child.
    reports_to: Option<u64>,
}

fn fault(failure: &Failure) -> Fault {
    let details = failure.details.as_ref().and_then(|details| details.value());
    let fault = Fault::new(failure.class.name(), failure.code.as_str());
    fault.with(details.unwrap_or_default())
}

fn value(payload: Option<Payload>) -> Option<Value> {
    payload.as_ref().map(json)
}

impl Told {
    /// A run by its id; none if it or one of its children has not ended.
    pub(crate) fn of(store: &dyn Store, id: RunId, workflows: &[&Workflow]) -> Option<Self> {
        let row = store.run(id).unwrap().unwrap();
        Self::of_row(store, &row, workflows)
    }

    fn of_row(store: &dyn Store, row: &RunRow, workflows: &[&Workflow]) -> Option<Self> {
        if !row.status.is_final() {
            return None;
        }
        let name = store.definition(row.definition).unwrap().unwrap().name;
        let workflow = workflows.iter().find(|it| it.name == name).unwrap();
        let net = Net::of(workflow);
        let mut children = Vec::new();
        for child in store.children(row.no, None, u32::MAX).unwrap() {
            children.push(Self::of_row(store, &child, workflows)?);
        }
        let mut rows = store.executions(row.no, None, u32::MAX).unwrap();
        rows.reverse();
        let records = rows.into_iter().map(|row| seen(row, &net, &children));
        let vars = store.vars(row.no, ScopeNo::ROOT).unwrap().into_iter();
        let journal = store.journal(row.no).unwrap();
        let incidents = journal.iter().filter(|row| row.kind == "incident");
        Some(Self {
            workflow: name,
            input: value(store.input(row.no).unwrap()).unwrap_or_default(),
            status: row.status.name().to_owned(),
            output: value(store.output(row.no).unwrap()),
            fault: row.failure.as_ref().map(fault),
            vars: vars.map(|(name, value)| (name, json(&value))).collect(),
            incidents: incidents.map(|row| incident(&row.detail)).collect(),
            records: records.collect(),
            children,
            reports_to: row.parent.as_ref().map(|parent| parent.seq.0),
        })
    }
}

fn incident(detail: &[u8]) -> (String, Fault) {
    let detail: Value = serde_json::from_slice(detail).unwrap();
    let text = |place: &str| {
        detail
            .pointer(place)
            .and_then(Value::as_str)
            .unwrap()
            .to_owned()
    };
    let fault = Fault::new(&text("/failure/class"), &text("/failure/code"));
    let details = detail.pointer("/failure/details").cloned();
    let fault = fault.with(details.unwrap_or_default());
    (text("/node"), fault)
}

fn seen(row: ExecutionRow, net: &Net<'_>, children: &[Told]) -> Seen {
    let node = usize::try_from(row.node).unwrap();
    let called = || children.iter().find(|it| it.reports_to == Some(row.seq.0));
    let child = net
        .is_call(node)
        .then(called)
        .flatten()
        .map(|child| Reported {
            workflow: child.workflow.clone(),
            input: child.input.clone(),
            output: child.output.clone(),
            fault: match (child.status.as_str(), &child.fault) {
                ("completed", _) => None,
                (_, Some(fault)) => Some(fault.clone()),
                ("cancelled", None) => Some(Fault::new("cancelled", "WL-R084")),
                (_, None) => Some(Fault::new("permanent", "WL-R084")),
            },
        });
    let mut skipped: Vec<usize> = row
        .skipped
        .iter()
        .map(|at| usize::try_from(*at).unwrap())
        .collect();
    skipped.sort_unstable();
    Seen {
        node,
        first: row.first.0,
        started_ms: row.started_ms,
        child,
        shown: Shown {
            kind: row.kind.name().to_owned(),
            attempt: row.attempt,
            status: row.status.name().to_owned(),
            output: value(row.output),
            fault: row.failure.as_ref().map(fault),
            skipped,
        },
    }
}
