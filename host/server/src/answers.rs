//! The memory of answers, from before an answer is made until its last byte is written.
//!
//! A client that does not read keeps its answer in memory. So an answer is charged until the
//! connection has written its bytes or closes, unless it is tiny. There is room of five kinds:
//!
//! * for making answers: a request that reads data takes it before it reads, and returns it when its
//!   answer is made. Requests that wait for it hold no slots, so that requests which need no room
//!   pass at once.
//! * for making answers of data that are larger than [`READ`] allows, and for made answers that wait.
//!   Lists and small data do not wait behind them.
//! * for large answers that are not written yet. An answer that finds no room waits; without room for
//!   waiting, and after a time, its request is answered with 503. While answers wait, `listen.rs`
//!   gives up those that stall.
//! * for small answers, and for those about metrics, so that large ones do not delay them.
//!
//! A connection holds at most one answer: the server does not read the next request of a connection
//! whose client does not read (`listen.rs`), and hyper makes no answer before the previous one is
//! written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use windlass_model::metrics::Metrics;

use crate::pools::Pool;
use crate::problem::Problem;
use crate::rooms::{Charge, Room};

/// Answers up to this size, in bytes, are not charged: the number of connections bounds them.
const TINY: usize = 4 * 1024;

/// The largest small answer, in bytes. The buffers of a socket take it at once, unless its client
/// has left other answers unread.
const SMALL: usize = 64 * 1024;

/// The room for small answers, in bytes: at most a fourth of that for large ones.
const SMALL_ROOM: usize = 32 * 1024 * 1024;

/// The room for answers about metrics, in bytes.
const HEALTH_ROOM: usize = 4 * 1024 * 1024;

/// The room that a request takes before it reads data for its answer, in bytes: a page of a list
/// with its last item, or a run with its data.
pub(crate) const READ: usize = 8 * 1024 * 1024;

/// The most room that a request takes for making an answer, in bytes, unless the host is configured
/// otherwise.
pub const MOST_READ: usize = 192 * 1024 * 1024;

/// How long a request waits for room.
const PATIENCE: Duration = Duration::from_secs(3);

/// The budget of the answers of a server.
pub(crate) struct Answers {
    making: Room,
    making_large: Room,
    large: Room,
    small: Room,
    health: Room,
    /// How long a request waits for room.
    patience: Duration,
    /// Made answers that wait for room.
    waiting: AtomicUsize,
    metrics: Arc<Metrics>,
}

/// Counts a waiting answer until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Answers {
    /// A fourth of the bytes is for making answers, a fourth for making those of large data, and half
    /// for large answers that are made.
    pub(crate) fn new(bytes: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        Self::patient(bytes, PATIENCE, metrics)
    }

    fn patient(bytes: usize, patience: Duration, metrics: Arc<Metrics>) -> Arc<Self> {
        let (half, fourth) = (bytes / 2, bytes / 4);
        let rooms = [fourth, fourth, half, SMALL_ROOM.min(fourth), HEALTH_ROOM]
            .map(|bytes| Room::new(bytes, |metrics| &metrics.http.answers.memory, &metrics));
        let limit = rooms
            .iter()
            .fold(0, |sum: usize, room| sum.saturating_add(room.bytes()));
        metrics.http.answers.memory.set_limit(limit as u64);
        let [making, making_large, large, small, health] = rooms;
        Arc::new(Self {
            making,
            making_large,
            large,
            small,
            health,
            patience,
            waiting: AtomicUsize::new(0),
            metrics,
        })
    }

    /// Whether made answers wait for room.
    pub(crate) fn are_awaited(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Counts an answer that was given up because its client did not read.
    pub(crate) fn given_up(&self) {
        self.metrics.http.answers.given_up.add(1);
    }

    /// Takes room for making an answer, in bytes.
    ///
    /// # Errors
    ///
    /// There was no room in time.
    pub(crate) async fn make(&self, bytes: usize) -> Result<Charge, Box<Problem>> {
        self.in_time(self.making(bytes), bytes).await
    }

    /// Takes room for making an answer, in bytes, if there is room.
    pub(crate) fn try_make(&self, bytes: usize) -> Option<Charge> {
        self.making(bytes).try_take(bytes)
    }

    /// The room for making an answer.
    fn making(&self, bytes: usize) -> &Room {
        if bytes <= READ {
            &self.making
        } else {
            &self.making_large
        }
    }

    /// Takes room for data that wait for a client, if there is room.
    pub(crate) fn try_keep(&self, bytes: usize) -> Option<Charge> {
        self.room_of(bytes).try_take(bytes)
    }

    /// The room of an answer.
    fn room_of(&self, bytes: usize) -> &Room {
        if bytes <= SMALL {
            &self.small
        } else {
            &self.large
        }
    }

    async fn in_time(&self, room: &Room, bytes: usize) -> Result<Charge, Box<Problem>> {
        // Most requests find room at once, and need no timer.
        if let Some(charge) = room.try_take(bytes) {
            return Ok(charge);
        }
        match tokio::time::timeout(self.patience, room.take(bytes)).await {
            Ok(Some(charge)) => Ok(charge),
            _ => Err(self.refused()),
        }
    }

    fn refused(&self) -> Box<Problem> {
        self.metrics.http.answers.refused.add(1);
        Problem::busy("answers that their clients have not read take all the room for answers")
    }

    /// Charges an answer until it is written, in place of the room for making it.
    pub(crate) async fn charge(
        self: &Arc<Self>,
        pool: Pool,
        response: Response,
        making: Option<Charge>,
    ) -> Response {
        let (parts, body) = response.into_parts();
        let Some(size) = body.size_hint().exact() else {
            return Response::from_parts(parts, self.stream(body));
        };
        if size <= TINY as u64 {
            return Response::from_parts(parts, body);
        }
        // The body of a known size is in memory already.
        let Ok(bytes) = to_bytes(body, usize::MAX).await else {
            return Problem::bug(&"an answer has broken off").into_response();
        };
        let bytes = compact(bytes);
        let room = match pool {
            Pool::Health => &self.health,
            _ => self.room_of(bytes.len()),
        };
        let charge = match room.try_take(bytes.len()) {
            Some(charge) => Ok(charge),
            None => {
                self.waiting.fetch_add(1, Ordering::AcqRel);
                let _waits = Waits(&self.waiting);
                let making = making.filter(|making| self.making_large.has(making));
                match making.or_else(|| self.making_large.try_take(bytes.len())) {
                    Some(_held) => self.in_time(room, bytes.len()).await,
                    None => Err(self.refused()),
                }
            }
        };
        match charge {
            Ok(charge) => Response::from_parts(parts, Body::from(charge.hold(bytes))),
            Err(problem) => problem.into_response(),
        }
    }

    /// A stream whose parts are charged until they are written. A part without room waits.
    fn stream(self: &Arc<Self>, body: Body) -> Body {
        let answers = Arc::clone(self);
        Body::from_stream(body.into_data_stream().then(move |part| {
            let answers = Arc::clone(&answers);
            async move {
                let part = part?;
                let charge = answers.room_of(part.len()).take(part.len()).await;
                Ok::<_, axum::Error>(match charge {
                    Some(charge) => charge.hold(part),
                    None => part,
                })
            }
        }))
    }
}

/// The same bytes without the room for more that a growing buffer leaves behind them.
fn compact(bytes: Bytes) -> Bytes {
    match bytes.try_into_mut() {
        Ok(grown) if grown.capacity() - grown.len() > grown.len() / 8 => {
            Bytes::copy_from_slice(&grown)
        }
        Ok(grown) => grown.freeze(),
        Err(bytes) => bytes,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use futures::FutureExt as _;

    use super::*;
    use crate::rooms::UNIT;

    /// A budget with room for one answer of this size in bytes, which is large.
    const LARGE: usize = 100 * UNIT;

    /// The large answers that may wait: there is room for making half of one.
    const MAY_WAIT: usize = 1;

    fn answers(large: usize) -> (Arc<Answers>, Arc<Metrics>) {
        let metrics = Arc::new(Metrics::default());
        let patience = Duration::from_millis(10);
        let answers = Answers::patient(2 * large, patience, Arc::clone(&metrics));
        (answers, metrics)
    }

    fn response(bytes: usize) -> Response {
        vec![b'x'; bytes].into_response()
    }

    fn sent(answers: &Arc<Answers>, bytes: usize) -> Response {
        let sent = answers.charge(Pool::Requests, response(bytes), None);
        sent.now_or_never().expect("there is room")
    }

    fn used(metrics: &Metrics) -> u64 {
        metrics.http.answers.memory.get()
    }

    #[test]
    fn an_answer_is_charged_until_its_last_byte_is_gone() {
        let (answers, metrics) = answers(2 * LARGE);
        let tiny = sent(&answers, TINY);
        assert_eq!(used(&metrics), 0, "the connections bound it");
        drop(tiny);
        let answer = sent(&answers, LARGE + 1);
        assert_eq!(used(&metrics), (LARGE + UNIT) as u64);
        let body = to_bytes(answer.into_body(), usize::MAX).now_or_never();
        let body = body.unwrap().unwrap();
        assert_eq!(body.len(), LARGE + 1);
        let rest = body.slice(LARGE..);
        drop(body);
        assert_eq!(used(&metrics), (LARGE + UNIT) as u64, "a part holds all");
        drop(rest);
        assert_eq!(used(&metrics), 0);
        assert_eq!(metrics.http.answers.memory.peak(), (LARGE + UNIT) as u64);
    }

    #[test]
    fn an_answer_larger_than_the_whole_room_takes_all_of_it() {
        let (answers, metrics) = answers(LARGE);
        let answer = sent(&answers, 5 * LARGE);
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(used(&metrics), LARGE as u64);
        let small = sent(&answers, SMALL);
        assert_eq!(small.status(), StatusCode::OK, "it has its own room");
    }

    #[tokio::test]
    async fn an_answer_without_room_waits_and_is_then_refused_with_a_time() {
        let (answers, metrics) = answers(LARGE);
        let full = sent(&answers, LARGE);
        assert!(!answers.are_awaited());
        let refused = answers.charge(Pool::Requests, response(LARGE), None).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key("retry-after"));
        assert_eq!(metrics.http.answers.refused.get(), 1);
        let scraped = answers.charge(Pool::Health, response(LARGE), None).await;
        assert_eq!(scraped.status(), StatusCode::OK, "it has its own room");
        let mut waits: Vec<_> = (0..=MAY_WAIT)
            .map(|_| Box::pin(answers.charge(Pool::Requests, response(LARGE), None)))
            .collect();
        let mut last = waits.pop().unwrap();
        for wait in &mut waits {
            assert!(wait.as_mut().now_or_never().is_none());
        }
        assert!(answers.are_awaited());
        let refused = last.as_mut().now_or_never().expect("too many wait");
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(full);
        assert_eq!(waits.remove(0).await.status(), StatusCode::OK);
        drop(waits);
        assert!(!answers.are_awaited());
    }

    #[tokio::test]
    async fn an_answer_that_waits_leaves_the_room_for_making_others() {
        let (answers, _) = answers(4 * READ);
        let _full = sent(&answers, 4 * READ);
        let making = answers.make(READ).await.unwrap();
        let _other = answers.make(READ).await.unwrap();
        assert!(answers.try_make(READ).is_none());
        let response = response(READ);
        let mut waits = Box::pin(answers.charge(Pool::Requests, response, Some(making)));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(answers.try_make(READ).is_some());
    }

    #[tokio::test]
    async fn answers_are_made_within_their_room() {
        let (answers, metrics) = answers(4 * READ);
        let large = answers.make(8 * READ).await.unwrap();
        assert!(answers.make(8 * READ).await.is_err());
        let first = answers.make(READ).await.unwrap();
        let second = answers.make(READ).await.unwrap();
        assert!(answers.make(READ).await.is_err());
        assert!(!answers.are_awaited(), "nothing is given up for it");
        drop(first);
        assert!(answers.make(READ).await.is_ok());
        drop((second, large));
        assert_eq!(used(&metrics), 0);
    }

    #[test]
    fn the_parts_of_a_stream_are_charged_one_by_one() {
        let (answers, metrics) = answers(2 * LARGE);
        let part = || Ok::<_, axum::Error>(Bytes::from(vec![b'x'; LARGE]));
        let body = Body::from_stream(futures::stream::iter([part(), part(), part()]));
        let stream = answers.charge(Pool::Requests, Response::new(body), None);
        let stream = stream.now_or_never().unwrap();
        let mut parts = stream.into_body().into_data_stream();
        let first = parts.next().now_or_never().unwrap();
        let second = parts.next().now_or_never().unwrap();
        assert!(first.is_some() && second.is_some());
        assert_eq!(used(&metrics), 2 * LARGE as u64);
        assert!(parts.next().now_or_never().is_none(), "there is no room");
        drop(first);
        assert!(parts.next().now_or_never().unwrap().is_some());
        drop((second, parts));
        assert_eq!(used(&metrics), 0);
    }
}
