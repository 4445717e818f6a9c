//! The process that compiles one component, and ends.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, setrlimit};
use windlass_model::Digest;
use windlass_model::mac::KEY_BYTES;

use super::super::engine;
use super::functions::{Functions, Offer};
use super::{
    CODE, CRASHED, MAGIC, MAX_OFFER_BYTES, REASON_BYTES, REFUSED, WORD, answer, given_back,
};
use crate::error::chain;

/// How much nicer than its host the process is: runs go before compilations.
const NICER: i32 = 5;

/// Files that the process may open: the standard library looks at the machine.
const FILES: u64 = 32;

/// Compiles one component, if the process was started for that; a program calls it before anything
/// else. Reads stdin, writes stdout, and limits the process. None: the arguments do not begin with
/// the program's name and [`WORD`].
pub fn compile_worker(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != WORD {
        return None;
    }
    let limits: Option<Vec<u64>> = arguments
        .map(|argument| argument.to_str().and_then(|text| text.parse().ok()))
        .collect();
    let done = match limits.as_deref() {
        Some(&[memory_bytes, cpu_seconds, compiler]) => work(memory_bytes, cpu_seconds, compiler),
        _ => Err(io::Error::other("a host starts this command by itself")),
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    })
}

fn work(memory_bytes: u64, cpu_seconds: u64, compiler: u64) -> io::Result<()> {
    close_others();
    limit(memory_bytes, cpu_seconds)?;
    let mut key = [0; KEY_BYTES];
    let (mut offer, mut component) = (Vec::new(), Vec::new());
    let mut input = io::stdin().lock();
    input.read_exact(&mut key)?;
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length).min(MAX_OFFER_BYTES);
    (&mut input).take(length.into()).read_to_end(&mut offer)?;
    input.read_to_end(&mut component)?;
    let offer = Offer::decode(&offer)?;
    let functions = offer.as_ref().map(|offer| Arc::new(Functions::open(offer)));
    let engine = engine::compiler(functions.clone()).map_err(io::Error::other)?;
    if engine::compiler_id(&engine) != compiler {
        return Err(io::Error::other("this is another compiler"));
    }
    let compiled =
        std::panic::catch_unwind(AssertUnwindSafe(|| engine.precompile_component(&component)));
    let (kind, body) = match compiled {
        Ok(Ok(code)) => (CODE, code),
        Ok(Err(error)) => (REFUSED, chain(&error).into_bytes()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            (CRASHED, text.unwrap_or_default().as_bytes().to_vec())
        }
    };
    let body = match kind {
        CODE => &body[..],
        _ => body.get(..REASON_BYTES).unwrap_or(&body),
    };
    let mut tag = answer(&key, &Digest::of(&component), kind);
    tag.add(body);
    let mut output = io::stdout().lock();
    output.write_all(MAGIC)?;
    output.write_all(&[kind])?;
    output.write_all(&(body.len() as u64).to_le_bytes())?;
    output.write_all(body)?;
    output.write_all(&tag.tag())?;
    if kind == CODE {
        let given = functions.map(|functions| functions.give_back());
        let (used, file) = given.map_or((0, Vec::new()), |given| (given.used, given.file));
        let mut tag = given_back(&key, used);
        tag.add(&file);
        output.write_all(&used.to_le_bytes())?;
        output.write_all(&(file.len() as u64).to_le_bytes())?;
        output.write_all(&file)?;
        output.write_all(&tag.tag())?;
    }
    output.flush()
}

/// Closes the files that the host itself has inherited and passed on.
fn close_others() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let open: Vec<i32> = names
        .filter_map(|name| name.to_str()?.parse().ok())
        .filter(|file| *file > 2)
        .collect();
    for file in open {
        #[expect(unsafe_code, reason = "nothing of this process owns inherited files")]
        // SAFETY: the process has opened one file so far, the directory, which is closed by now;
        // closing a number that is not open is an error without an effect.
        unsafe {
            rustix::io::close(file);
        }
    }
}

/// Limits this process. None of the limits can be raised again.
fn limit(memory_bytes: u64, cpu_seconds: u64) -> io::Result<()> {
    let between = |resource, soft: u64, hard: u64| {
        let limit = Rlimit {
            current: Some(soft),
            maximum: Some(hard),
        };
        setrlimit(resource, limit)
    };
    let most = |resource, most| between(resource, most, most);
    // The host ends with the process of its user's choice, and this one before it.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    #[cfg(target_os = "linux")]
    {
        let signal = Some(rustix::process::Signal::KILL);
        rustix::process::set_parent_process_death_signal(signal)?;
    }
    let _ = rustix::process::nice(NICER);
    most(Resource::As, memory_bytes.saturating_add(own_memory()))?;
    // The signal of the first limit says what it is about; that of the second is SIGKILL.
    between(Resource::Cpu, cpu_seconds, cpu_seconds.saturating_add(5))?;
    most(Resource::Core, 0)?;
    most(Resource::Nofile, FILES)?;
    most(Resource::Fsize, 0)?;
    Ok(())
}

/// The address space of the program itself, in bytes.
fn own_memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    pages.unwrap_or_default() * rustix::param::page_size() as u64
}
