//! The fake host: one per thread, set up by a call of the test kit and called
//! by the code under test through the same functions as the real one.

use super::LogLine;
use crate::bindings::node::windlass as wit;
use crate::http::{HttpError, Request, Response};
use crate::{Payload, Scheduled, Stimulus};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Answers requests instead of the network.
pub(crate) type Responder = Box<dyn FnMut(&Request) -> Result<Response, HttpError>>;

/// The environment of the code under test, and its recorded actions.
pub(crate) struct World {
    pub(crate) attempt: u32,
    pub(crate) cancelled: bool,
    pub(crate) node_id: Option<String>,
    pub(crate) now_ms: u64,
    pub(crate) monotonic_ns: u64,
    pub(crate) random: u64,
    pub(crate) resumption: Option<wit::context::context::ResumedCall>,
    pub(crate) memory: BTreeMap<String, Payload>,
    pub(crate) blobs: Vec<Vec<u8>>,
    pub(crate) responder: Option<Responder>,
    pub(crate) done: Done,
}

/// The recorded actions of the code under test.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) logs: Vec<LogLine>,
    pub(crate) progress: Vec<(f64, String)>,
    pub(crate) requests: Vec<Request>,
    pub(crate) sent: Vec<Stimulus>,
    pub(crate) scheduled: Vec<Scheduled>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            attempt: 1,
            cancelled: false,
            node_id: Some("node".to_owned()),
            now_ms: 1_700_000_000_000,
            monotonic_ns: 0,
            random: 0,
            resumption: None,
            memory: BTreeMap::new(),
            blobs: Vec::new(),
            responder: None,
            done: Done::default(),
        }
    }
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

/// Installs a world for the following calls on this thread.
pub(crate) fn enter(world: World) {
    WORLD.set(world);
}

/// Removes the world.
pub(crate) fn leave() -> World {
    WORLD.take()
}

fn with<T>(ask: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(ask)
}

pub(crate) mod log {
    use super::{LogLine, with};
    use crate::Level;

    pub(crate) fn write(level: Level, message: &str, fields: &[(String, String)]) {
        with(|world| {
            world.done.logs.push(LogLine {
                level,
                message: message.to_owned(),
                fields: fields.to_vec(),
            });
        });
    }
}

pub(crate) mod context {
    use super::{wit::context::context::ResumedCall, with};

    pub(crate) fn run_id() -> String {
        "00000000-0000-7000-8000-000000000001".to_owned()
    }
    pub(crate) fn workflow() -> String {
        "testkit".to_owned()
    }
    pub(crate) fn node_id() -> Option<String> {
        with(|world| world.node_id.clone())
    }
    pub(crate) fn trigger_id() -> String {
        format!("{}:1", run_id())
    }
    pub(crate) fn attempt() -> u32 {
        with(|world| world.attempt)
    }
    pub(crate) fn idempotency_key() -> String {
        "testkit-key".to_owned()
    }
    pub(crate) fn deadline() -> u64 {
        with(|world| world.now_ms + 10_000)
    }
    pub(crate) fn correlation_id() -> Option<String> {
        None
    }
    pub(crate) fn trace_parent() -> Option<String> {
        None
    }
    pub(crate) fn resumption() -> Option<ResumedCall> {
        with(|world| world.resumption.clone())
    }
    pub(crate) fn resume_token(bookmark: &str) -> Option<String> {
        Some(format!("token-of-{bookmark}"))
    }
    pub(crate) fn cancelled() -> bool {
        with(|world| world.cancelled)
    }
    pub(crate) fn progress(fraction: f64, note: &str) {
        with(|world| world.done.progress.push((fraction, note.to_owned())));
    }
}

pub(crate) mod clock {
    use super::with;

    pub(crate) fn now() -> u64 {
        with(|world| world.now_ms)
    }
    /// Each reading advances it by a tenth of a millisecond, so that a loop
    /// that waits for time ends.
    pub(crate) fn monotonic_ns() -> u64 {
        with(|world| {
            world.monotonic_ns += 100_000;
            world.monotonic_ns
        })
    }
}

pub(crate) mod random {
    use super::with;

    pub(crate) fn number() -> u64 {
        with(|world| {
            world.random = world.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            world.random
        })
    }
    pub(crate) fn bytes(length: u32) -> Vec<u8> {
        std::iter::repeat_with(number)
            .flat_map(u64::to_le_bytes)
            .take(length as usize)
            .collect()
    }
}

pub(crate) mod memory {
    use super::{wit::memory::memory::MemoryError, with};
    use crate::Payload;

    pub(crate) fn get(path: &str) -> Result<Option<Payload>, MemoryError> {
        Ok(with(|world| world.memory.get(path).cloned()))
    }
}

pub(crate) mod http {
    use super::{HttpError, Request, wit, with};
    use crate::http::Content;

    pub(crate) fn fetch(request: &Request) -> Result<wit::http::http::Response, HttpError> {
        with(|world| {
            world.done.requests.push(request.clone());
            match &mut world.responder {
                Some(responder) => responder(request).map(|response| wit::http::http::Response {
                    status: response.status,
                    headers: response.headers,
                    body: Content::Bytes(response.body),
                }),
                None => Err(HttpError::Denied("the test set no responder".to_owned())),
            }
        })
    }
}

pub(crate) mod events {
    use super::with;
    use crate::{EventError, Scheduled, Stimulus};

    pub(crate) fn send(stimulus: &Stimulus) -> Result<(), EventError> {
        with(|world| world.done.sent.push(stimulus.clone()));
        Ok(())
    }
    pub(crate) fn schedule(trigger: &Scheduled) -> Result<(), EventError> {
        with(|world| world.done.scheduled.push(trigger.clone()));
        Ok(())
    }
}

pub(crate) mod blobs {
    use super::{wit::blobs::blobs::BlobError, with};

    fn find<T>(blob: &str, use_it: impl FnOnce(&mut Vec<u8>) -> T) -> Result<T, BlobError> {
        with(|world| {
            let index = blob.strip_prefix("blob-").and_then(|n| n.parse().ok());
            let index: usize = index.unwrap_or(usize::MAX);
            let found = world.blobs.get_mut(index);
            found
                .map(use_it)
                .ok_or_else(|| BlobError::NotFound(blob.to_owned()))
        })
    }
    pub(crate) fn size(blob: &str) -> Result<u64, BlobError> {
        find(blob, |bytes| bytes.len() as u64)
    }
    pub(crate) fn read(blob: &str, offset: u64, length: u32) -> Result<Vec<u8>, BlobError> {
        find(blob, |bytes| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            bytes
                .iter()
                .skip(start)
                .take(length as usize)
                .copied()
                .collect()
        })
    }
    pub(crate) fn begin() -> Result<u32, BlobError> {
        Ok(with(|world| {
            world.blobs.push(Vec::new());
            u32::try_from(world.blobs.len() - 1).unwrap_or(u32::MAX)
        }))
    }
    pub(crate) fn append(writer: u32, bytes: &[u8]) -> Result<(), BlobError> {
        find(&format!("blob-{writer}"), |blob| {
            blob.extend_from_slice(bytes)
        })
    }
    pub(crate) fn finish(writer: u32) -> Result<String, BlobError> {
        let name = format!("blob-{writer}");
        size(&name).map(|_| name)
    }
}
