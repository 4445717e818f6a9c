//! Converts errors of the engine into failures.

use wasmtime::Trap;
use windlass_model::{Class, Failure};

use crate::clean::message;
use crate::codes;
use crate::error::chain;
use crate::hold::Stop;

/// `refused` says whether the guest was refused memory or table space during the call: a crash
/// after that is a consequence.
pub(crate) fn failure(error: &wasmtime::Error, refused: bool) -> Failure {
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
        None => by_text(error),
    }
}

pub(crate) fn stopped(stop: Stop) -> Failure {
    match stop {
        Stop::Deadline => Failure::new(Class::Deadline, codes::DEADLINE, stop.to_string()),
        Stop::Cancelled => Failure::new(Class::Cancelled, codes::CANCELLED, stop.to_string()),
        Stop::NoMemory => Failure::new(Class::Limit, codes::BUDGET, stop.to_string()),
    }
}

/// Errors of the engine that have no type of their own.
fn by_text(error: &wasmtime::Error) -> Failure {
    let text = chain(error);
    if text.contains("fuel allocated for hostcalls") {
        let message = "the guest handed over more than a payload may hold";
        return Failure::new(Class::Limit, codes::OUTPUT_SIZE, message);
    }
    if text.contains("handles") && text.contains("limit")
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
    Failure::new(
        Class::Trap,
        codes::TRAP,
        format!("the guest crashed: {}", message(&text)),
    )
}

/// The innermost function that has a name, for the author of the guest.
fn place(error: &wasmtime::Error) -> String {
    let frames = error.downcast_ref::<wasmtime::WasmBacktrace>();
    let name = frames.and_then(|trace| trace.frames().iter().find_map(|f| f.func_name()));
    name.map_or_else(String::new, |name| format!(" (in `{}`)", message(name)))
}
