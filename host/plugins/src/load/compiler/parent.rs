//! Starts the process that compiles a component, and takes its answer.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};
use windlass_model::Digest;
use windlass_model::mac::{KEY_BYTES, Message};

use super::{
    CODE, CRASHED, HEAD_BYTES, MAGIC, MAX_CODE_BYTES, Offer, Patience, REASON_BYTES, REFUSED,
    Worker, answer, given_back,
};

/// The processor time of any component, in seconds, and that of each further MiB. The slowest
/// known runtime takes a fifth of it.
const CPU_SECONDS: u64 = 10;
const CPU_SECONDS_MIB: u64 = 10;

/// The most threads of a process.
const MAX_THREADS: usize = 4;

/// The bytes that are read at once.
const PART_BYTES: usize = 64 * 1024;

/// The most bytes that are kept of the errors of a process.
const ERRORS_BYTES: u64 = 4 * 1024;

/// Why there is no code.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The component does not compile.
    Refused(String),
    /// The compiler crashed, and said how.
    Crashed(String),
    /// It took too much, or its process died.
    CutOff(String),
    /// The caller waits no longer.
    Stopped,
    /// The process cannot be started.
    NotStarted(String),
    /// The code cannot be written.
    Unwritten(io::Error),
}

/// A component to be compiled.
pub(crate) struct Request<'a> {
    /// The compiler that the code is for.
    pub(crate) compiler: u64,
    pub(crate) component: &'a [u8],
    /// Compiled functions of earlier compilations.
    pub(crate) offer: Option<&'a Offer>,
}

/// Where the answer is written.
pub(crate) struct Output<'a> {
    pub(crate) code: &'a mut (dyn Write + Send),
    /// A file of new functions; an error is ignored.
    pub(crate) functions: &'a mut (dyn Write + Send),
}

/// Compiles a component, and writes the code to the output. Takes as long as the worker's timeout by
/// the clock. Blocks. Returns a bit for each file of the offer whose functions were used.
///
/// # Errors
///
/// There is no code; what the output has is worthless.
pub(crate) fn compile(
    io: &tokio::runtime::Handle,
    worker: &Worker,
    request: &Request<'_>,
    patience: Patience<'_>,
    output: &mut Output<'_>,
) -> Result<u32, Fault> {
    let exchange = exchange(worker, request, patience, output);
    match io.block_on(exchange)? {
        // The compiler may notice by itself that the system gives it no more memory.
        Ended::Answered(Err(Fault::Refused(reason) | Fault::Crashed(reason)))
            if reason.contains(NO_MEMORY) =>
        {
            Err(Fault::CutOff(no_memory(worker)))
        }
        Ended::Answered(answered) => answered,
        Ended::Late => Err(Fault::CutOff(format!(
            "compiling it takes longer than {:?} (`compile-timeout` in [plugins])",
            worker.timeout
        ))),
        Ended::Stopped => Err(Fault::Stopped),
        Ended::Died(status, errors) => Err(Fault::CutOff(died(worker, status, &errors))),
        Ended::TooMuch => Err(Fault::CutOff(format!(
            "its code has more than {MAX_CODE_BYTES} bytes"
        ))),
    }
}

enum Ended {
    Answered(Result<u32, Fault>),
    /// It was ended by the host.
    Late,
    /// It was ended, since the caller waits no longer.
    Stopped,
    /// Without an answer; with its errors.
    Died(ExitStatus, String),
    /// Its answer is too long.
    TooMuch,
}

/// The processor time that a component may take, in seconds.
fn cpu_seconds(component: &[u8]) -> u64 {
    let mib = component.len().div_ceil(1024 * 1024) as u64;
    CPU_SECONDS + CPU_SECONDS_MIB * mib
}

async fn exchange(
    worker: &Worker,
    request: &Request<'_>,
    patience: Patience<'_>,
    taken: &mut Output<'_>,
) -> Result<Ended, Fault> {
    let component = request.component;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let child = Command::new(&worker.program)
        .arg0("windlass")
        .args(&worker.arguments)
        .arg(worker.memory_bytes.to_string())
        .arg(cpu_seconds(component).to_string())
        .arg(request.compiler.to_string())
        .env_clear()
        .env("RAYON_NUM_THREADS", threads.min(MAX_THREADS).to_string())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Signals of a terminal are for the host, which decides.
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let not_started = |error: io::Error| Fault::NotStarted(error.to_string());
    let mut child = child.map_err(not_started)?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(input), Some(mut output), Some(errors)) = (input, output, errors) else {
        return Err(Fault::NotStarted("it has no pipes".to_owned()));
    };
    let key: [u8; KEY_BYTES] = rand::random();
    let component_digest = Digest::of(component);
    let offer = Offer::encode(request.offer);
    let most = request.offer.map_or(0, |offer| offer.most);
    let talking = async {
        let answering = async {
            let received = receive(&mut output, &key, &component_digest, most, taken).await;
            // A process that goes on after its answer, or whose answer is none, is of no use.
            if !matches!(received, Ok(Received::Answer(_))) {
                let _ = child.start_kill();
            }
            drop(output);
            received
        };
        let (_, received, errors) = tokio::join!(
            send(input, &key, &offer, component),
            answering,
            hear(errors)
        );
        (received, errors, child.wait().await)
    };
    let ended = tokio::select! {
        talked = tokio::time::timeout(worker.timeout, talking) => talked.map_err(|_| Ended::Late),
        () = patience.over() => Err(Ended::Stopped),
    };
    let (received, errors, status) = match ended {
        Ok(talked) => talked,
        Err(ended) => {
            // Dropping would kill it as well, but not wait for its end.
            let _ = child.kill().await;
            return Ok(ended);
        }
    };
    let status = status.map_err(not_started)?;
    match received {
        Ok(Received::Answer(answered)) if status.success() => Ok(Ended::Answered(answered)),
        Ok(Received::TooMuch) => Ok(Ended::TooMuch),
        Err(Unread::Unwritten(error)) => Err(Fault::Unwritten(error)),
        Ok(_) | Err(Unread::NoAnswer) => Ok(Ended::Died(status, errors)),
    }
}

/// Sends the request. An error shows in the answer, which is missing then.
async fn send(mut input: ChildStdin, key: &[u8], offer: &[u8], component: &[u8]) -> io::Result<()> {
    input.write_all(key).await?;
    input.write_all(&(offer.len() as u32).to_le_bytes()).await?;
    input.write_all(offer).await?;
    input.write_all(component).await?;
    input.shutdown().await
}

/// Reads everything, so that the process never waits for its reader, and returns the beginning.
async fn hear(errors: impl AsyncRead + Unpin) -> String {
    let mut errors = errors.take(ERRORS_BYTES);
    let mut kept = Vec::new();
    let _ = errors.read_to_end(&mut kept).await;
    let _ = tokio::io::copy(&mut errors.into_inner(), &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).into_owned()
}

enum Received {
    Answer(Result<u32, Fault>),
    TooMuch,
}

enum Unread {
    /// The answer is cut off, or it is not the answer to this request.
    NoAnswer,
    Unwritten(io::Error),
}

impl From<io::Error> for Unread {
    fn from(_: io::Error) -> Self {
        Self::NoAnswer
    }
}

async fn receive(
    output: &mut (impl AsyncRead + Unpin),
    key: &[u8; KEY_BYTES],
    component: &Digest,
    most_functions: u64,
    taken: &mut Output<'_>,
) -> Result<Received, Unread> {
    let mut head = [0; HEAD_BYTES];
    output.read_exact(&mut head).await?;
    let (magic, rest) = head.split_at(MAGIC.len());
    let (kind, length) = rest.split_at(1);
    let (&[kind], Ok(length)) = (kind, length.try_into()) else {
        return Err(Unread::NoAnswer);
    };
    let length = u64::from_le_bytes(length);
    if magic != MAGIC || kind > CRASHED || (kind != CODE && length > REASON_BYTES as u64) {
        return Err(Unread::NoAnswer);
    }
    if length > MAX_CODE_BYTES {
        return Ok(Received::TooMuch);
    }
    let tag = answer(key, component, kind);
    let mut reason = Vec::new();
    let mut unwritten = None;
    tagged(output, length, tag, |part| match kind {
        CODE if unwritten.is_none() => unwritten = taken.code.write_all(part).err(),
        CODE => {}
        _ => reason.extend_from_slice(part),
    })
    .await?;
    if let Some(error) = unwritten {
        return Err(Unread::Unwritten(error));
    }
    let mut used = 0;
    if kind == CODE {
        let mut head = [0; 12];
        output.read_exact(&mut head).await?;
        let (bits, length) = head.split_at(4);
        let (Ok(bits), Ok(length)) = (bits.try_into(), length.try_into()) else {
            return Err(Unread::NoAnswer);
        };
        used = u32::from_le_bytes(bits);
        let length = u64::from_le_bytes(length);
        if length > most_functions {
            return Err(Unread::NoAnswer);
        }
        tagged(output, length, given_back(key, used), |part| {
            let _ = taken.functions.write_all(part);
        })
        .await?;
    }
    if output.read(&mut [0]).await? > 0 {
        return Err(Unread::NoAnswer);
    }
    let reason = String::from_utf8_lossy(&reason).into_owned();
    Ok(Received::Answer(match kind {
        CODE => Ok(used),
        REFUSED => Err(Fault::Refused(reason)),
        _ => Err(Fault::Crashed(reason)),
    }))
}

/// Reads a body of this length, part by part, and checks the tag behind it.
async fn tagged(
    output: &mut (impl AsyncRead + Unpin),
    length: u64,
    mut tag: Message,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Unread> {
    let mut part = vec![0; PART_BYTES];
    let mut left = length;
    while left > 0 {
        let most = usize::try_from(left).map_or(PART_BYTES, |left| left.min(PART_BYTES));
        let count = output
            .read(part.get_mut(..most).unwrap_or_default())
            .await?;
        let read = part.get(..count).unwrap_or_default();
        if read.is_empty() {
            return Err(Unread::NoAnswer);
        }
        tag.add(read);
        take(read);
        left -= count as u64;
    }
    let mut sent = [0; 32];
    output.read_exact(&mut sent).await?;
    match tag.verify(&sent) {
        true => Ok(()),
        false => Err(Unread::NoAnswer),
    }
}

/// A part of the system's error for ENOMEM.
const NO_MEMORY: &str = "os error 12";

fn no_memory(worker: &Worker) -> String {
    let mib = worker.memory_bytes / (1024 * 1024);
    format!("compiling it takes more than {mib} MiB of memory (`compile-memory` in [plugins])")
}

/// How a process died.
fn died(worker: &Worker, status: ExitStatus, errors: &str) -> String {
    let is = |signal: Signal| status.signal() == Some(signal.as_raw());
    if errors.contains("memory allocation of") {
        no_memory(worker)
    } else if is(Signal::XCPU) {
        "compiling it takes more processor time than a component of its size may".to_owned()
    } else if let Some(signal) = status.signal() {
        format!("signal {signal} ended the compiler while it compiled it")
    } else {
        let said = errors.trim();
        format!("the compiler ended without an answer: {status}; {said}")
    }
}
