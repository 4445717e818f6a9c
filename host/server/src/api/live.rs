//! The event stream of a run.
//!
//! The events come from the history in the store, in its order; a report of a change only triggers
//! a look at the store. So a stream that was interrupted continues at its position in any process. A slow
//! client delays no other: it gets no more events than it reads, and a `gap` event if some were
//! left out.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures::Stream;
use futures::stream::unfold;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use windlass_model::{ExecutionNo, RunId, Status};
use windlass_runtime::RunWatch;
use windlass_store::rows::{ExecutionRow, RunRow};

use super::runs::find;
use crate::app::{App, AppInner};
use crate::extract::{Named, text_header};
use crate::gate::{Room, Waiting};
use crate::live_feed::{Begun, Watching};
use crate::newer::newer;
use crate::nodes::Nodes;
use crate::pools::Pool;
use crate::problem::Problem;
use crate::raw::Raw;
use crate::rooms::Charge;
use crate::view::{Execution, Failure, optional};

/// Executions that one look sends. If there are more, only the newest are sent.
const AT_ONCE: usize = 1_000;

/// The size of the executions that one look sends, in bytes.
const LOOK_BYTES: usize = 256 * 1024;

/// The size of an execution without its failure, in bytes.
const NODE_BYTES: usize = 256;

/// The room for the events of one look, in bytes: the executions, and the output of the run.
const LOOK_ROOM: usize = 512 * 1024;

/// Names of nodes up to this size, in bytes, are not charged: the number of streams bounds them.
const NAMES_BYTES: usize = 4 * 1024;

/// How long a stream without room for its events waits for room.
const LATE: Duration = Duration::from_secs(1);

/// How often an idle stream sends a comment, so that the client knows that it is alive.
const ALIVE: Duration = Duration::from_secs(15);

/// Follow a run: its executions, its status, its end.
///
/// A stream of server-sent events: `node` for each execution, with its number as `id`; `started`
/// when an execution begins in this process; `status`; `gap` if there were more executions than are
/// sent at once; and `end`, after which the stream ends. `end` has the output, or, if it has over
/// 256 KiB, its size as `left_out_bytes`: `result` returns it. A stream that was interrupted continues
/// after `Last-Event-ID`.
#[utoipa::path(get, path = "/api/v1/runs/{id}/events", operation_id = "followRun", tag = "runs",
    params(("id" = uuid::Uuid, Path, description = "The run."),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client has seen.")),
    responses((status = 200, description = "The events of the run, until it ends.", content_type = "text/event-stream", body = String)))]
pub(crate) async fn events(
    State(app): State<App>,
    room: Option<Extension<Room>>,
    headers: HeaderMap,
    id: Named,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Box<Problem>> {
    let id = RunId(id.uuid()?);
    let last = text_header(&headers, "last-event-id")?
        .map(|text| text.parse().map(ExecutionNo))
        .transpose()
        .map_err(|_| Problem::parameter("`Last-Event-ID` is not an id of this stream: send the id of its last event, or leave the header out"))?;
    let watching = app.live_feed().watch(id);
    let row = app.ask(move |app| find(app, id)).await?;
    // Before the first look of the stream, so that no change is missed in between.
    let changes = app.client.watch(row.no).await?;
    let digest = row.definition;
    let nodes = app.ask(move |app| app.nodes(digest)).await?;
    let names = names_room(&app, nodes.as_deref())?;
    let stream = match room {
        Some(Extension(room)) => Some(room.wait(&app, Pool::Streams)?),
        None => None,
    };
    let follow = Follow {
        closing: app.closing(),
        app,
        id,
        nodes,
        _names: names,
        watching,
        changes,
        last,
        status: None,
        ready: VecDeque::new(),
        bytes: 0,
        charge: None,
        has_room: true,
        ended: false,
        _stream: stream,
    };
    let events = unfold(follow, |mut follow| async move {
        let event = follow.next().await?;
        Some((Ok(event), follow))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)))
}

/// Charges the names of a large workflow for as long as a stream has them.
fn names_room(app: &App, nodes: Option<&Nodes>) -> Result<Option<Charge>, Box<Problem>> {
    match nodes.map_or(0, |nodes| nodes.bytes) {
        ..=NAMES_BYTES => Ok(None),
        bytes => match app.answers.try_keep(bytes) {
            Some(charge) => Ok(Some(charge)),
            None => Err(Problem::busy("answers take all the room for answers")),
        },
    }
}

/// The state of one stream.
struct Follow {
    app: App,
    id: RunId,
    nodes: Option<Arc<Nodes>>,
    /// The charge of the names.
    _names: Option<Charge>,
    watching: Watching,
    changes: RunWatch,
    /// The execution that was sent last.
    last: Option<ExecutionNo>,
    /// The status that was sent last.
    status: Option<Status>,
    /// Events to send, their size in bytes, and the charge of it.
    ready: VecDeque<Event>,
    bytes: usize,
    charge: Option<Charge>,
    /// Whether the events of the last look had room.
    has_room: bool,
    /// No further event comes.
    ended: bool,
    closing: watch::Receiver<bool>,
    _stream: Option<Waiting>,
}

/// The result of a look at the store.
struct Found {
    row: RunRow,
    /// The new executions, the oldest first.
    executions: Vec<ExecutionRow>,
    /// There were more executions than are sent at once.
    gap: bool,
    /// The outcome of the run, if it has ended, as JSON.
    end: Option<String>,
}

/// The outcome of a run.
#[derive(Serialize)]
struct End {
    id: RunId,
    status: &'static str,
    output: Option<Raw>,
    /// The size of an output that is left out because it is large, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out_bytes: Option<u64>,
    failure: Option<Failure>,
}

impl Follow {
    /// The next event; none if the stream has ended.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.ended || *self.closing.borrow() {
                return None;
            }
            let making = self.room().await?;
            let (id, last, status) = (self.id, self.last, self.status);
            match self.app.ask(move |app| look(app, id, last)).await {
                Ok(found) => self.take(found),
                // The run was deleted, or the store failed: the stream ends, and the client can ask
                // again.
                Err(_) => return None,
            }
            drop(making);
            // The events wait in memory until the client reads them. Without room they are read
            // again later.
            self.charge = self.app.answers.try_keep(std::mem::take(&mut self.bytes));
            self.has_room = self.charge.is_some();
            if !self.has_room {
                self.ready.clear();
                (self.last, self.status, self.ended) = (last, status, false);
            }
            if self.ready.is_empty() && !self.ended {
                self.charge = None;
                self.wait().await;
            }
        }
    }

    /// Room for the events of a look; none if there is none in time.
    async fn room(&mut self) -> Option<Charge> {
        self.charge = None;
        self.app.answers.make(LOOK_ROOM).await.ok()
    }

    /// Makes events of the result of a look.
    fn take(&mut self, found: Found) {
        if found.gap {
            let gap = json!({ "left_out": true });
            self.push("gap", None, gap.to_string());
        }
        let nodes = self.nodes.clone();
        for row in &found.executions {
            self.last = Some(row.no);
            let node = Execution::brief(nodes.as_deref(), row);
            let node = serde_json::to_string(&node).unwrap_or_default();
            self.push("node", Some(row.no), node);
        }
        if self.status != Some(found.row.status) {
            self.status = Some(found.row.status);
            let status = json!({ "status": found.row.status.name() });
            self.push("status", None, status.to_string());
        }
        if let Some(end) = found.end {
            self.push("end", None, end);
            self.ended = true;
        }
        self.changes.saw(&found.row);
    }

    fn push(&mut self, name: &str, no: Option<ExecutionNo>, data: String) {
        self.bytes = self.bytes.saturating_add(data.len());
        let event = Event::default().event(name).data(data);
        self.ready.push_back(match no {
            Some(no) => event.id(no.to_string()),
            None => event,
        });
    }

    /// Waits for a change, or for room.
    async fn wait(&mut self) {
        let mut closing = self.closing.clone();
        if !self.has_room {
            let _ = tokio::time::timeout(LATE, closing.changed()).await;
            return;
        }
        tokio::select! {
            begun = self.watching.next() => {
                if let Some(Begun { node, attempt }) = begun {
                    let started = json!({ "node": &*node, "attempt": attempt });
                    self.push("started", None, started.to_string());
                }
            }
            () = self.changes.changed() => {}
            _ = closing.changed() => {}
        }
    }
}

/// The size of a failure in an event, in bytes.
fn weight(failure: &windlass_model::Failure) -> usize {
    let details = failure.details.as_ref();
    let details = details.map_or(0, |details| details.as_str().len());
    let stack = failure
        .origin
        .as_ref()
        .and_then(|origin| origin.stack.as_ref());
    failure.message.len() + details + stack.map_or(0, String::len)
}

/// The state of a run, and its executions after `last`.
fn look(app: &AppInner, id: RunId, last: Option<ExecutionNo>) -> Result<Found, Box<Problem>> {
    // Read the head first: all executions that precede its status are in the store then.
    let row = find(app, id)?;
    let (mut executions, mut gap) = (Vec::new(), false);
    let mut bytes = 0_usize;
    newer(app, row.no, last, |execution| {
        let failure = execution.failure.as_ref();
        bytes = bytes.saturating_add(failure.map_or(0, weight) + NODE_BYTES);
        if executions.len() >= AT_ONCE || bytes > LOOK_BYTES && !executions.is_empty() {
            gap = true;
            return ControlFlow::Break(());
        }
        // Keep only the members that are sent: there may be thousands of executions.
        executions.push(ExecutionRow {
            output: None,
            logs: Vec::new(),
            ..execution
        });
        ControlFlow::Continue(())
    })?;
    executions.reverse();
    let end = match row.status.is_final() {
        false => None,
        true => {
            let output = app.store().output(row.no)?;
            let size = output.as_ref().map_or(0, windlass_model::Payload::len);
            let is_large = size > LOOK_BYTES as u64;
            let output = output.filter(|_| !is_large);
            let end = End {
                left_out_bytes: is_large.then_some(size),
                id,
                status: row.status.name(),
                output: optional(app, output.as_ref())?,
                failure: row.failure.as_ref().map(Failure::from),
            };
            Some(serde_json::to_string(&end).map_err(|error| Problem::bug(&error))?)
        }
    };
    Ok(Found {
        row,
        executions,
        gap,
        end,
    })
}
