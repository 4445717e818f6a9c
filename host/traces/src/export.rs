//! The task that sends spans.
//!
//! A batch has at most [`ATTEMPTS`] attempts, with growing delays of at most [`LONGEST_DELAY`], also
//! where the collector asks for more; the queue behind it is bounded and drops what it cannot take.
//! Of an answer at most [`ANSWER_BYTES`] are read. At the end of the process [`Exporter::finish`]
//! sends the queue, for at most [`FLUSH`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use windlass_model::metrics::Metrics;
use windlass_model::span::{Span, SpanSink};

use crate::encode;
use crate::queue::Spans;
use crate::settings::Settings;

/// How long the last spans of a process may take.
pub const FLUSH: Duration = Duration::from_secs(5);

/// How often a batch is sent.
const ATTEMPTS: usize = 5;

/// The longest delay before another attempt.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// The first delay.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// How much of an answer is read, in bytes.
const ANSWER_BYTES: usize = 64 * 1024;

/// The media type of messages.
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// Sends spans until it is finished.
pub struct Exporter {
    spans: Arc<Spans>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    pending: Arc<AtomicU64>,
    metrics: Arc<Metrics>,
}

impl Exporter {
    /// Starts to send. The client follows no redirects.
    pub fn start(settings: Settings, client: Client, metrics: Arc<Metrics>, io: &Handle) -> Self {
        let pending: Arc<AtomicU64> = Arc::default();
        let queue = (settings.queue, settings.sampler);
        let (spans, exit) = Spans::new(queue, Arc::clone(&pending), Arc::clone(&metrics));
        let (stop, stopped) = watch::channel(false);
        let sender = Sender {
            settings,
            client,
            exit,
            stopped,
            pending: Arc::clone(&pending),
            metrics: Arc::clone(&metrics),
            is_failing: false,
        };
        Self {
            spans: Arc::new(spans),
            stop,
            task: io.spawn(sender.run()),
            pending,
            metrics,
        }
    }

    /// The entry for spans.
    pub fn sink(&self) -> Arc<dyn SpanSink> {
        Arc::<Spans>::clone(&self.spans)
    }

    /// Sends the queue, for at most [`FLUSH`]. Spans that are left are counted as dropped.
    pub async fn finish(mut self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(FLUSH, &mut self.task).await.is_err() {
            self.task.abort();
        }
        let left = self.pending.swap(0, Ordering::Relaxed);
        if left > 0 {
            self.metrics.spans_dropped.add(left);
            tracing::warn!(spans = left, "the last spans were not sent");
        }
    }
}

struct Sender {
    settings: Settings,
    client: Client,
    exit: mpsc::Receiver<Span>,
    stopped: watch::Receiver<bool>,
    /// Spans that are taken and neither sent nor dropped.
    pending: Arc<AtomicU64>,
    metrics: Arc<Metrics>,
    /// Whether the last batch was dropped.
    is_failing: bool,
}

/// What the collector says to a batch.
enum Said {
    Taken {
        rejected: u64,
    },
    Refused(String),
    /// The batch may be sent again, after this time.
    Later(String, Option<Duration>),
}

impl Sender {
    async fn run(mut self) {
        let mut batch = Vec::new();
        while self.fill(&mut batch).await {
            self.send(&batch).await;
            self.pending
                .fetch_sub(batch.len() as u64, Ordering::Relaxed);
            batch.clear();
        }
    }

    /// Takes the spans of a request: many, or those that come within the delay after the first. False:
    /// the process ends, and none is left.
    async fn fill(&mut self, batch: &mut Vec<Span>) -> bool {
        let (most, delay) = (self.settings.batch, self.settings.delay);
        if !self.take(batch).await {
            return false;
        }
        let more = async { while batch.len() < most && self.take(batch).await {} };
        // Nothing is lost if it ends in between.
        let _ = tokio::time::timeout(delay, more).await;
        true
    }

    /// Takes spans that have come. False: the process ends, and none is left.
    async fn take(&mut self, batch: &mut Vec<Span>) -> bool {
        let room = self.settings.batch.saturating_sub(batch.len());
        loop {
            tokio::select! {
                biased;
                () = stop(&mut self.stopped), if !self.exit.is_closed() => self.exit.close(),
                taken = self.exit.recv_many(batch, room) => return taken > 0,
            }
        }
    }

    async fn send(&mut self, batch: &[Span]) {
        let spans = batch.len() as u64;
        let body = encode::request(&self.settings.resource, batch);
        let delays = ExponentialBuilder::default()
            .with_jitter()
            .with_min_delay(FIRST_DELAY)
            .with_max_delay(LONGEST_DELAY)
            .with_max_times(ATTEMPTS - 1);
        let mut delays = delays.build();
        let why = loop {
            match self.post(body.clone()).await {
                Said::Taken { rejected } => {
                    let rejected = rejected.min(spans);
                    self.metrics.spans_exported.add(spans - rejected);
                    self.metrics.spans_dropped.add(rejected);
                    if std::mem::take(&mut self.is_failing) {
                        tracing::info!("spans are sent again");
                    }
                    return;
                }
                Said::Refused(why) => break why,
                Said::Later(why, after) => {
                    let Some(delay) = delays.next() else {
                        break why;
                    };
                    let delay = after.unwrap_or(delay).min(LONGEST_DELAY);
                    // At the end of the process the next attempt is the last one.
                    let is_last = *self.stopped.borrow();
                    if is_last {
                        break why;
                    }
                    let _ = tokio::time::timeout(delay, stop(&mut self.stopped)).await;
                }
            }
        };
        self.metrics.spans_dropped.add(spans);
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                spans,
                error = why,
                "spans are dropped, and further ones without a line until they are sent again"
            );
        }
    }

    async fn post(&self, body: Vec<u8>) -> Said {
        let mut headers: HeaderMap = self.settings.headers.clone();
        headers.insert(CONTENT_TYPE, PROTOBUF);
        let request = self
            .client
            .post(self.settings.endpoint.clone())
            .timeout(self.settings.timeout)
            .headers(headers)
            .body(body);
        let answer = match request.send().await {
            Ok(answer) => answer,
            // The address may hold a token.
            Err(error) => return Said::Later(cause(&error.without_url()), None),
        };
        let status = answer.status();
        if status.is_success() {
            return Said::Taken {
                rejected: rejected(answer).await,
            };
        }
        let why = format!("the collector answers {status}");
        match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Said::Later(why, retry_after(answer.headers())),
            _ => Said::Refused(why),
        }
    }
}

/// Completes when the process ends.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    // Without its sender the exporter is gone, which ends the task, too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// The spans that the collector has not taken, if its answer says so. Garbage says nothing.
async fn rejected(mut answer: Response) -> u64 {
    let mut bytes = Vec::new();
    while let Ok(Some(more)) = answer.chunk().await {
        if bytes.len() + more.len() > ANSWER_BYTES {
            return 0;
        }
        bytes.extend_from_slice(&more);
    }
    let answer = ExportTraceServiceResponse::decode(&*bytes);
    let part = answer.ok().and_then(|answer| answer.partial_success);
    part.map_or(0, |part| u64::try_from(part.rejected_spans).unwrap_or(0))
}

/// The delay that the collector asks for, in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(text.trim().parse().ok()?))
}

/// The innermost cause of an error.
fn cause(error: &dyn std::error::Error) -> String {
    let mut why = error;
    while let Some(below) = why.source() {
        why = below;
    }
    why.to_string()
}
