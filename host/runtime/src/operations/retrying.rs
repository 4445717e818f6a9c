//! Retries runs that failed.
//!
//! A run that has ended has no owner and no trigger that could be claimed, so this is one of the
//! few operations that are no trigger. The next state is made here from the final state of the run,
//! and written if the run still has that state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_engine::expr::Values;
use windlass_engine::{Closed, Command, Cx, Graph, NodeIx, PlanKind, Recording, Reopening, reopen};
use windlass_model::nearest::did_you_mean;
use windlass_model::resumption::About;
use windlass_model::{
    ExecutionNo, ExecutionStatus, LetterNo, Numbers, Payload, RunId, RunNo, Seq, Status, TriggerNo,
    TriggerType, Version,
};
use windlass_store::letters::{DeadTrigger, LetterBody};
use windlass_store::lives::{LifeOp, Lived, Reopen};
use windlass_store::rows::{JournalRow, NewBlob, NewTrigger, RunRow};
use windlass_store::{Writer as _, next_rows};

use super::altering::{Altered, WithVersion};
use super::outcome::Standing;
use super::reach::{Operations, OperationsInner};
use crate::catalog::Prepared;
use crate::codes;
use crate::error::Error;
use crate::reserving;
use crate::shard::moved_out;
use crate::starting::fitting;

/// The limit of execution records that are searched for the inputs of a node.
const RECORDS: usize = 100_000;

/// The number of records in one read.
const PAGE: u32 = 500;

/// How to retry a run.
#[derive(Clone, Debug, Default)]
pub struct Retry {
    /// The node to run. `None`: the nodes that failed, and those that were cut off with them. If
    /// the node had completed, the run starts over from it.
    pub from: Option<String>,
    /// The input of that node as JSON, in place of its own input.
    pub input: Option<Payload>,
    /// The input of the run as JSON, in place of the one that it has. Nodes that run from now on read
    /// it; completed nodes keep their outputs, and the run keeps its tags.
    pub run_input: Option<Payload>,
    /// The version of its workflow with which the run continues, on the current plugins. `None`: the
    /// definition and the components that it has.
    pub definition: Option<WithVersion>,
}

impl Operations {
    /// Retries a run that failed or was cancelled. Each node that runs again has a new node run,
    /// with its own idempotency key. Waits for the end of the run for up to `patience`.
    ///
    /// # Errors
    ///
    /// There is no such run; it has not failed; it is a child whose parent has received its result;
    /// its nodes were undone; it has no node to run again, or no such node; another run holds its
    /// reservation; its definition or a component is missing; its state does not fit the named
    /// version, or there is none; or the store fails.
    pub async fn retry(
        &self,
        id: RunId,
        retry: Retry,
        patience: Duration,
    ) -> Result<Standing, Error> {
        self.ask(move |inner| inner.retry(id, &retry)).await?;
        self.until(id, None, patience, Status::is_final).await
    }
}

impl OperationsInner {
    pub(crate) fn retry(&self, id: RunId, retry: &Retry) -> Result<(), Error> {
        self.retry_for(id, retry, None)
    }

    /// Retries a run. If a dead letter is given, the same transaction marks it as replayed.
    fn retry_for(
        &self,
        id: RunId,
        retry: &Retry,
        letter: Option<(LetterNo, &DeadTrigger)>,
    ) -> Result<(), Error> {
        let store = self.store.as_ref();
        let row = store
            .run(id)?
            .ok_or_else(|| Error::NotFound(id.to_string()))?;
        if row.parent.is_some() {
            return Err(no_retry(
                format!("run {id} is a child, and its parent was told how it ended"),
                Some("try the parent again".to_owned()),
            ));
        }
        if !matches!(row.status, Status::Faulted | Status::Cancelled) {
            let status = row.status.name();
            return Err(no_retry(
                format!("run {id} is {status}, and only one that failed is tried again"),
                None,
            ));
        }
        let catalog = self.catalog();
        let own = catalog.load(store, &*self.resources().host()?, row.definition, row.pins)?;
        let altered = match retry.definition {
            Some(with) => {
                let keeps_input = retry.run_input.is_none();
                Some(self.altered(&row, Arc::clone(&own), with, keeps_input)?)
            }
            None => None,
        };
        self.numbered(|numbers| {
            let mut new = self.reopened(&row, &own, altered.as_ref(), retry, numbers)?;
            if let Some((letter, dead)) = letter {
                new.replays = Some(letter);
                new.triggers.extend(given_again(&new, dead, numbers)?);
            }
            match store.write(LifeOp::Reopen(Box::new(new)))? {
                Lived::Done => Ok(()),
                lived => Err(refused(id, lived)),
            }
        })?;
        if let Some(runtime) = self.runtime() {
            runtime.count_retry(&own);
            runtime.adopt(row.no);
        }
        Ok(())
    }

    /// Retries the node of a dead letter if the engine made its trigger and its run ended without
    /// executing it. The node runs again with the same resumption. None for any other letter.
    pub(super) fn retry_letter(&self, no: LetterNo) -> Result<Option<()>, Error> {
        let store = self.store.as_ref();
        let Some(row) = store.dead_letter(no)? else {
            return Ok(None);
        };
        let LetterBody::Trigger(dead) = &row.letter.body else {
            return Ok(None);
        };
        let run = store.run_by_no(dead.run)?.filter(|run| {
            let failed = matches!(run.status, Status::Faulted | Status::Cancelled);
            failed && run.parent.is_none()
        });
        let (Some(run), Some(node), false) = (run, dead.node, dead.seq.is_external()) else {
            return Ok(None);
        };
        let catalog = self.catalog();
        let prepared = catalog.load(store, &*self.resources().host()?, run.definition, run.pins)?;
        let Some(plan) = prepared.graph.node(NodeIx(node)) else {
            let id = run.id;
            let message = format!("run {id} continued with a version that lacks the letter's node");
            return Err(no_retry(message, None));
        };
        let retry = Retry {
            from: Some(plan.name.clone()),
            ..Retry::default()
        };
        self.retry_for(run.id, &retry, Some((no, dead))).map(Some)
    }

    fn reopened(
        &self,
        row: &RunRow,
        own: &Prepared,
        altered: Option<&Altered>,
        retry: &Retry,
        numbers: &Numbers,
    ) -> Result<Reopen, Error> {
        let prepared = altered.map_or(own, |altered| &altered.now);
        let (store, graph) = (self.store.as_ref(), &prepared.graph);
        let at_ms = self.clock.wall_ms();
        let scopes = store.scopes(row.no)?;
        let scopes = scopes.iter().map(|(no, bytes)| (*no, &**bytes));
        let mut state = windlass_engine::RunState::decode(&own.graph, &row.state, scopes)
            .map_err(|error| Error::Unreadable(error.to_string()))?;
        let mut blobs = Vec::new();
        let input = retry
            .run_input
            .as_ref()
            .map(|input| fitting(prepared, input));
        let input = input.transpose()?.map(|(input, _)| input);
        let how = self.how(row.no, graph, retry, &mut blobs)?;
        let mut supplied = Vec::new();
        if let Some(altered) = altered {
            let over = how.node.is_some_and(|node| !state.cut_off(node));
            supplied = self.refit(row, altered, &mut state, over)?;
        }
        let values = Values::new();
        let cx = Cx {
            now_ms: at_ms,
            random: 0,
            values: &values,
            failing: Ok(&values),
            max_steps: self.max_steps(),
        };
        let seq = state.next_seq;
        let to = altered.map(|altered| altered.event(supplied));
        let event = Recording::reopened(&how, to, (at_ms, cx.max_steps));
        let commands = reopen(graph, &mut state, how, &cx).map_err(|closed| why(row.id, closed))?;
        let event = event.after(&state).encode(Version(row.version.0 + 1), 0);
        let mut detail = serde_json::json!({
            "from": retry.from,
            "edited": retry.input.is_some(),
            "run_input": input.is_some(),
            "seq": seq.0,
        });
        if let (Some(altered), Some(detail)) = (altered, detail.as_object_mut()) {
            detail.insert("definition".to_owned(), altered.report());
        }
        let activation = graph.options().activation;
        let correlation = row.correlation.as_deref();
        let (reserves, exclusive) = reserving::of(activation, &prepared.name, correlation);
        let scopes = state.drain_scopes().into_iter();
        Ok(Reopen {
            run: row.no,
            version: row.version,
            documents: altered.map(|altered| {
                let now = &altered.now;
                (Arc::clone(&now.definition), Arc::clone(&now.pins))
            }),
            status: state.status,
            state: Bytes::from(state.encode()),
            triggers: triggers(graph, &commands, numbers, at_ms)?,
            scopes: scopes
                .map(|(no, bytes)| (no, bytes.map(Bytes::from)))
                .collect(),
            reserves,
            exclusive,
            input,
            blobs,
            replays: None,
            journal: vec![
                JournalRow {
                    at_ms,
                    kind: "retried".to_owned(),
                    detail: Bytes::from(detail.to_string()),
                },
                JournalRow::event(at_ms, &event),
            ],
            at_ms,
        })
    }

    /// Translates the request for the engine.
    fn how(
        &self,
        run: RunNo,
        graph: &Graph,
        retry: &Retry,
        blobs: &mut Vec<NewBlob>,
    ) -> Result<Reopening, Error> {
        let Some(name) = &retry.from else {
            return match retry.input {
                Some(_) => Err(no_retry(
                    "an input was given without the node that gets it (`from`)".to_owned(),
                    None,
                )),
                None => Ok(Reopening::default()),
            };
        };
        let names = graph.nodes().map(|(_, plan)| plan.name.as_str());
        let node = graph.find(name).ok_or_else(|| Error::Refused {
            code: codes::NO_SUCH_NODE,
            message: format!("the workflow has no node `{name}`"),
            help: did_you_mean(name, names),
        })?;
        if retry.input.is_some() {
            takes_input(graph, node, name)?;
        }
        Ok(Reopening {
            node: Some(node),
            input: retry.input.clone().map(|input| moved_out(input, blobs)),
            from: self.before(run, graph, node)?,
        })
    }

    /// The latest outputs of the nodes that lead to a node.
    fn before(
        &self,
        run: RunNo,
        graph: &Graph,
        node: NodeIx,
    ) -> Result<Vec<(NodeIx, ExecutionNo)>, Error> {
        let plan = graph.node(node);
        let inbound = plan.into_iter().flat_map(|plan| &plan.inbound);
        let sources = inbound.filter_map(|at| graph.edge(*at).map(|edge| edge.from));
        let mut wanted: BTreeSet<NodeIx> = sources.collect();
        let mut found = BTreeMap::new();
        let (mut before, mut seen) = (None, 0);
        while !wanted.is_empty() && seen < RECORDS {
            let runs = next_rows(PAGE, |most| self.store.executions(run, before, most))?;
            let Some(last) = runs.last() else { break };
            before = Some(last.no);
            seen += runs.len();
            for run in runs {
                let node = NodeIx(run.node);
                if run.status == ExecutionStatus::Completed && wanted.remove(&node) {
                    found.insert(node, run.no);
                }
            }
        }
        Ok(found.into_iter().collect())
    }

    fn max_steps(&self) -> u64 {
        let runtime = self.runtime();
        runtime.map_or(windlass_engine::MAX_STEPS, |runtime| {
            runtime.shared.bursts.max_steps
        })
    }
}

/// Refuses an input for a node that would ignore it.
fn takes_input(graph: &Graph, node: NodeIx, name: &str) -> Result<(), Error> {
    let reads = match graph.node(node).map(|plan| &plan.kind) {
        None | Some(PlanKind::Use { .. } | PlanKind::Workflow { .. }) => return Ok(()),
        Some(PlanKind::ForEach { .. }) => "it is a for-each, which takes its list from `for-each`",
        Some(_) => "the host runs it itself, and it reads its expressions alone",
    };
    Err(no_retry(
        format!("the node `{name}` would ignore an input: {reads}"),
        Some("replace the input of the run (`run_input`, `--run-input`)".to_owned()),
    ))
}

/// A trigger that gives a resumption which was never consumed to the new node run, as soon as that
/// waits.
fn given_again(
    new: &Reopen,
    dead: &DeadTrigger,
    numbers: &Numbers,
) -> Result<Option<NewTrigger>, Error> {
    let again = new
        .triggers
        .iter()
        .find(|trigger| trigger.node == dead.node);
    let (Some(again), Some(payload), TriggerType::Resume) = (again, &dead.payload, dead.kind)
    else {
        return Ok(None);
    };
    let no = numbers.trigger().ok_or_else(Error::no_numbers)?;
    Ok(Some(NewTrigger {
        no,
        seq: Seq::external(no),
        kind: TriggerType::Resume,
        node: dead.node,
        due_ms: new.at_ms,
        claimed: false,
        attempt: 1,
        // A retried node has a new node run, so this trigger is its first.
        detail: About::Resume { first: again.seq }.encode(),
        payload: Some(payload.clone()),
        priority: again.priority,
    }))
}

/// The trigger rows of the commands. They are due now or as the engine says.
fn triggers(
    graph: &Graph,
    commands: &[Command],
    numbers: &Numbers,
    now_ms: i64,
) -> Result<Vec<NewTrigger>, Error> {
    let mut triggers = Vec::new();
    for command in commands {
        let mut trigger = match command {
            Command::Run(open) | Command::Schedule(open) => NewTrigger {
                no: TriggerNo(0),
                seq: open.seq,
                kind: open.kind,
                node: Some(open.node.0),
                due_ms: open.due_ms.unwrap_or(now_ms),
                claimed: false,
                attempt: open.attempt,
                detail: Bytes::from(open.encode_detail()),
                payload: None,
                priority: graph.node(open.node).map_or(0, |plan| plan.priority),
            },
            Command::Timeout { seq, due_ms } => NewTrigger {
                no: TriggerNo(0),
                seq: *seq,
                kind: TriggerType::Timer,
                node: None,
                due_ms: *due_ms,
                claimed: false,
                attempt: 1,
                detail: Bytes::new(),
                payload: None,
                priority: 0,
            },
            _ => continue,
        };
        trigger.no = numbers.trigger().ok_or_else(Error::no_numbers)?;
        triggers.push(trigger);
    }
    Ok(triggers)
}

pub(super) fn no_retry(message: String, help: Option<String>) -> Error {
    Error::NotNow {
        code: codes::NO_RETRY,
        message,
        help,
    }
}

fn why(id: RunId, closed: Closed) -> Error {
    let help = match closed {
        Closed::Nothing => Some("name the node to begin with".to_owned()),
        Closed::Undone => Some("start it anew, as another run".to_owned()),
        Closed::NoNode | Closed::Status | Closed::Steps => None,
    };
    no_retry(format!("run {id} cannot be tried again: {closed}"), help)
}

fn refused(id: RunId, lived: Lived) -> Error {
    match lived {
        Lived::NotFound => Error::NotFound(id.to_string()),
        Lived::Reserved { by } => Error::Reserved { by },
        Lived::Reported => why(id, Closed::Status),
        Lived::Already => no_retry("the dead letter was tried again already".to_owned(), None),
        _ => no_retry(
            format!("run {id} has changed meanwhile: another retry may have come first"),
            None,
        ),
    }
}
