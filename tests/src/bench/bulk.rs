//! Fills a store with runs of one workflow, faster than starting each by a request.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use parking_lot::{Condvar, Mutex};
use windlass_model::{Clock, Digest, Numbers, RunId, RunNo};
use windlass_runtime::StartRequest;
use windlass_store::rows::{Created, NewRun, NewTrigger};
use windlass_store::write::{Leave, NewMember};
use windlass_store::{Sink, Store, Ticket, Verb as _, Writer as _, Wrote};

use super::rig;

/// How many writes are in flight at once.
const WINDOW: usize = 4096;

/// Counts answers.
#[derive(Default)]
struct Answers {
    state: Mutex<(usize, Option<String>)>,
    bell: Condvar,
}

impl Sink for Answers {
    fn answered(&self, answers: Vec<(Ticket, windlass_store::Result<Wrote>)>) {
        let mut state = self.state.lock();
        for (_, answer) in answers {
            state.0 += 1;
            match NewRun::answer(answer) {
                Ok(Ok(Created::New)) => {}
                other => state.1 = Some(format!("{other:?}")),
            }
        }
        self.bell.notify_all();
    }
}

/// Writes `count` runs of a workflow, the n-th of which begins at `due_ms(n)`, and returns their
/// ids in that order. Has to be called on a thread of tokio's that may block.
///
/// # Errors
///
/// The workflow is wrong, or the store fails.
pub fn fill(
    store: &Arc<dyn Store>,
    plugins: &Arc<windlass_plugins::Host>,
    clock: &Arc<dyn Clock>,
    request: &StartRequest,
    count: u64,
    due_ms: &dyn Fn(u64) -> i64,
) -> Result<Vec<RunId>> {
    let now_ms = clock.wall_ms();
    let client = rig::client(store, plugins, clock);
    let io = tokio::runtime::Handle::current();
    let first = io.block_on(client.create_and_run(request.clone()))?;
    let template = Template::of(store.as_ref(), request, first.no)?;
    let member = NewMember {
        name: "fill".to_owned(),
        lease_ms: 600_000,
        joined_ms: now_ms,
    };
    let incarnation = store.write(member)?;
    let numbers = Numbers::new(incarnation);
    let answers = Arc::new(Answers::default());
    let sink: Arc<dyn Sink> = Arc::clone(&answers) as Arc<dyn Sink>;
    let mut ids = Vec::with_capacity(usize::try_from(count)?);
    while (ids.len() as u64) < count {
        let left = count - ids.len() as u64;
        let mut batch = Vec::new();
        for _ in 0..left.min(WINDOW as u64) {
            let at = ids.len() as u64;
            let id = RunId(uuid_of(incarnation.0, at));
            let new = template.new_run(&numbers, id, due_ms(at), now_ms)?;
            batch.push((at, new.into()));
            ids.push(id);
        }
        store.submit(&sink, batch);
        let mut state = answers.state.lock();
        while state.0 < ids.len() {
            answers.bell.wait(&mut state);
        }
        if let Some(other) = state.1.take() {
            bail!("a run could not be written: {other}");
        }
    }
    store.write(Leave { incarnation })?;
    Ok(ids)
}

/// Ids in the order of time, as the host makes them.
fn uuid_of(filler: i64, at: u64) -> uuid::Uuid {
    let mut random = [0; 10];
    for (byte, of_filler) in random.iter_mut().zip(filler.to_le_bytes()) {
        *byte = of_filler;
    }
    uuid::Builder::from_unix_timestamp_millis(1_700_000_000_000 + at, &random).into_uuid()
}

/// A run as the host writes it, to be copied.
struct Template {
    like: NewRun,
}

impl Template {
    fn of(store: &dyn Store, request: &StartRequest, first: RunNo) -> Result<Self> {
        let row = store
            .run_by_no(first)?
            .context("what was written is there")?;
        let definition = store
            .definition(row.definition)?
            .context("the definition is there")?;
        let pins = store.pins(row.pins)?.context("the pins are there")?;
        let triggers = store
            .triggers(row.no)?
            .into_iter()
            .map(|trigger| NewTrigger {
                no: trigger.no,
                seq: trigger.seq,
                kind: trigger.kind,
                node: trigger.node,
                due_ms: trigger.due_ms,
                claimed: false,
                attempt: trigger.attempt,
                detail: trigger.detail,
                payload: trigger.payload,
                priority: trigger.priority,
            });
        let like = NewRun {
            no: row.no,
            id: row.id,
            definition: Arc::new(definition),
            pins: Arc::new(pins),
            correlation: None,
            tags: windlass_model::Tags::new(),
            request: Digest::of(b"bench"),
            owner: None,
            state: row.state,
            input: request.input.clone(),
            vars: Vec::new(),
            triggers: triggers.collect(),
            parent: None,
            tree: None,
            keep_ms: None,
            journal: Vec::new(),
            reserves: Vec::new(),
            exclusive: None,
            blobs: Vec::new(),
            as_of: None,
            created_ms: row.created_ms,
            trace: None,
        };
        Ok(Self { like })
    }

    fn new_run(&self, numbers: &Numbers, id: RunId, due_ms: i64, now_ms: i64) -> Result<NewRun> {
        let mut new = self.like.clone();
        new.no = numbers.run().context("numbers are left")?;
        new.id = id;
        new.created_ms = now_ms;
        for trigger in &mut new.triggers {
            trigger.no = numbers.trigger().context("numbers are left")?;
            trigger.due_ms = due_ms;
        }
        Ok(new)
    }
}
