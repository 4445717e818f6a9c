//! Converts errors of the engine into failures.

use wasmtime::Trap;
use wasmtime_wasi::I32Exit;
use windlass_model::limits::MESSAGE_BYTES;
use windlass_model::{Class, Failure, LogLine, visible};

use crate::call::question::WrongType;
use crate::clean::message;
use crate::codes;
use crate::error::chain;
use crate::grant::secrets::Secrets;
use crate::hold::Stop;
use crate::hold::quarantine::Crash;
use crate::offer::imports::NotOffered;
use crate::offer::printed::{self, Stderr};

/// Bytes of the end of a long message that stay when its middle is left out.
const END_BYTES: usize = 500;

/// The failure of a call. `refused` says whether the guest was refused memory or table space during
/// the call: a crash after that is a consequence. The message of a crash has the end of stderr, or
/// without stderr the last line of the log if that is an error.
pub(crate) fn failure(
    error: &wasmtime::Error,
    refused: bool,
    (logs, stderr): (&[LogLine], &Stderr),
    secrets: &Secrets,
) -> Failure {
    let mut failure = classify(error, refused);
    failure.message = secrets.redact(&failure.message);
    if failure.class == Class::Trap {
        let most = MESSAGE_BYTES - printed::MESSAGE_BYTES - END_BYTES;
        let shortened = visible::shortened(&failure.message, most, END_BYTES);
        failure.message = shortened.unwrap_or(failure.message);
        if !stderr.explain(&mut failure.message, secrets)
            && let Some(line) = logs.last().filter(|line| line.level == "error")
        {
            failure.message.push_str("; the last line of its log: ");
            let most = printed::STDERR_BYTES;
            let shortened = visible::shortened(&line.message, most, END_BYTES);
            failure
                .message
                .push_str(shortened.as_deref().unwrap_or(&line.message));
        }
    }
    failure
}

fn classify(error: &wasmtime::Error, refused: bool) -> Failure {
    if let Some(stop) = error.downcast_ref::<Stop>() {
        return stopped(*stop);
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => {
            Failure::new(Class::Trap, codes::STACK, "the guest used up its stack")
        }
        Some(Trap::Interrupt) => stopped(Stop::Deadline),
        _ if refused => {
            let message = "the guest needed more memory or table space than it may have";
            Failure::new(Class::Limit, codes::MEMORY, message)
        }
        Some(trap) => {
            let message = format!("the guest crashed: {trap}{}", place(error));
            Failure::new(Class::Trap, codes::TRAP, message)
        }
        None => match error.downcast_ref::<I32Exit>() {
            Some(I32Exit(status)) => {
                let message = format!("the guest ended its program with the status {status}");
                Failure::new(Class::Trap, codes::TRAP, message)
            }
            None => by_own_type(error).unwrap_or_else(|| by_text(error)),
        },
    }
}

/// How the guest crashed, if its failure has class `trap`.
pub(crate) fn crash(error: &wasmtime::Error) -> Crash {
    match error.downcast_ref::<Trap>() {
        Some(Trap::UnreachableCodeReached) => Crash::Abort,
        Some(Trap::StackOverflow) => Crash::Stack,
        Some(_) => Crash::Fault,
        None if error.is::<I32Exit>() => Crash::Abort,
        None => Crash::Fault,
    }
}

pub(crate) fn stopped(stop: Stop) -> Failure {
    match stop {
        Stop::Deadline => Failure::new(Class::Deadline, codes::DEADLINE, stop.to_string()),
        Stop::Cancelled => Failure::new(Class::Cancelled, codes::CANCELLED, stop.to_string()),
        Stop::NoMemory => Failure::new(Class::Limit, codes::BUDGET, stop.to_string()),
    }
}

/// Errors of functions of the host.
fn by_own_type(error: &wasmtime::Error) -> Option<Failure> {
    if let Some(wrong) = error.downcast_ref::<WrongType>() {
        let message = message(&wrong.to_string());
        return Some(Failure::new(Class::Permanent, codes::WRONG_KIND, message));
    }
    let absent = error.downcast_ref::<NotOffered>()?;
    let message = message(&absent.to_string());
    Some(Failure::new(Class::Trap, codes::TRAP, message))
}

/// Errors of the engine that have no type of their own.
fn by_text(error: &wasmtime::Error) -> Failure {
    let text = chain(error);
    if text.contains("fuel allocated for hostcalls") {
        let message = "the guest handed over more than a payload may hold";
        return Failure::new(Class::Limit, codes::OUTPUT_SIZE, message);
    }
    if text.contains("handle limit exceeded")
        || text.contains("handles") && text.contains("limit")
        || text.contains("resource table has no free keys")
    {
        return Failure::new(
            Class::Limit,
            codes::HANDLES,
            "the guest held too many handles",
        );
    }
    if text.contains("minimum size") && text.contains("exceeds") {
        return Failure::new(Class::Limit, codes::MEMORY, message(&text));
    }
    let cause = message(&error.root_cause().to_string());
    let message = format!("the guest crashed: {cause}{}", place(error));
    Failure::new(Class::Trap, codes::TRAP, message)
}

/// The innermost function that has a name, for the author of the guest.
fn place(error: &wasmtime::Error) -> String {
    let frames = error.downcast_ref::<wasmtime::WasmBacktrace>();
    let name = frames.and_then(|trace| trace.frames().iter().find_map(|f| f.func_name()));
    name.map_or_else(String::new, |name| format!(" (in `{}`)", message(name)))
}
