//! Compiled code and descriptions by digest.
//!
//! A compiled file is mapped into memory and run, so it has to be trusted: the file and its
//! directory belong to this user alone, it is written atomically and never changed, and its tag,
//! which needs this user's key (`code_key.rs`), is checked before it is mapped. The name of the
//! folder is a hash of the compiler's exact version, its settings and the processor's features:
//! code of another version is compiled again, so a fix in the compiler takes effect.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use wasmtime::component::Component;
use windlass_model::Digest;
use windlass_model::mac::Message;

use super::LoadShared;
use super::functions::FunctionCache;
use super::report::Compiling;
use super::store;
use crate::codes;
use crate::description;
use crate::error::{Error, chain};
use crate::load::compiler::{self, Compiler, Fault, Output, Patience, Request};
use crate::load::engine;

/// The compiled component: from the cache, from the bundle, or compiled now.
pub(super) fn component<'a>(
    shared: &LoadShared,
    subject: &str,
    digest: &Digest,
    patience: Patience<'_>,
    bytes: impl FnOnce() -> Result<Cow<'a, [u8]>, Error>,
) -> Result<Component, Error> {
    let there = cached(shared, digest, Made::Here);
    if let Some(component) = there.or_else(|| bundled(shared, digest)) {
        return Ok(component);
    }
    if let Some(message) = cut::known(shared, digest) {
        return Err(Error::new(codes::CUT_OFF, subject, message));
    }
    if matches!(patience, Patience::None) {
        let message = "its code is not compiled yet";
        return Err(Error::new(codes::COMPILING, subject, message));
    }
    let bytes = bytes()?;
    // A report is about the work, and not about the wait for a place.
    let compiled = shared.compiles.work(|| {
        reported(shared, subject, bytes.len(), || {
            compile(shared, subject, digest, &bytes, patience)
        })
    });
    let crashed = || Error::new(codes::COMPILE, subject, format!("{CRASHED}: in the host"));
    let code = compiled.ok_or_else(crashed)??;
    drop(bytes);
    let fault = |error: wasmtime::Error| Error::new(codes::COMPILE, subject, chain(&error));
    let kept = |kept: std::io::Result<()>| {
        // Without the cache, the next start is slower; it has no other effect.
        kept.inspect_err(|error| {
            tracing::warn!(%digest, %error, "compiled code could not be kept");
        })
    };
    match code {
        Code::File(file, _) => {
            #[expect(
                unsafe_code,
                reason = "compiled code is mapped and run, which cannot be checked"
            )]
            // SAFETY: the process that compiles, which is this program, has just made the file for
            // this component. Only this user can write it, and it is never written again.
            let component =
                unsafe { Component::deserialize_file(&shared.calls.engine, file.path()) };
            let component = component.map_err(fault)?;
            let _ = kept(keep_file(shared, digest, Made::Here, file));
            Ok(component)
        }
        Code::Memory(code) => {
            if kept(keep_bytes(shared, digest, Made::Here, &code)).is_ok()
                && let Some(component) = cached(shared, digest, Made::Here)
            {
                return Ok(component);
            }
            #[expect(
                unsafe_code,
                reason = "code is taken over as bytes, which cannot be checked"
            )]
            // SAFETY: this engine's compiler has just made these bytes.
            let component = unsafe { Component::deserialize(&shared.calls.engine, &code) };
            component.map_err(fault)
        }
    }
}

/// Does the work, and reports it if it takes long.
fn reported<T>(shared: &LoadShared, subject: &str, bytes: usize, work: impl FnOnce() -> T) -> T {
    let Some(report) = &shared.compiling else {
        return work();
    };
    let tell = |took| {
        (report.tell)(&Compiling {
            subject,
            bytes,
            took,
        });
    };
    let begin = shared.calls.clock.monotonic();
    let told = report.after.is_zero();
    if told {
        tell(None);
    }
    let (working, worked) = channel::<()>();
    let (result, is_late) = std::thread::scope(|scope| {
        let watcher = std::thread::Builder::new().name("compile-watch".to_owned());
        let watcher = watcher.spawn_scoped(scope, move || {
            let late = worked.recv_timeout(report.after) == Err(RecvTimeoutError::Timeout);
            if late && !told {
                tell(None);
            }
            late
        });
        let result = work();
        drop(working);
        // Without the thread, or after its panic, there is only no report.
        let is_late = watcher.ok().and_then(|watcher| watcher.join().ok());
        (result, told || is_late.unwrap_or_default())
    });
    if is_late {
        tell(Some(shared.calls.clock.monotonic().saturating_sub(begin)));
    }
    result
}

/// Compiles a component where the options say.
fn compile(
    shared: &LoadShared,
    subject: &str,
    digest: &Digest,
    bytes: &[u8],
    patience: Patience<'_>,
) -> Result<Code, Error> {
    let Compiler::Worker(worker) = &shared.compiler else {
        return compile_here(shared, subject, bytes).map(Code::Memory);
    };
    let mut code = Code::spool(&folder(shared));
    let mut functions = FunctionCache::open(shared, worker, bytes);
    let offer = functions.as_ref().map(FunctionCache::offer).cloned();
    let request = Request {
        compiler: compiler_of(shared),
        component: bytes,
        offer: offer.as_ref(),
    };
    let mut sink = std::io::sink();
    let mut output = Output {
        code: &mut code,
        functions: match functions.as_mut() {
            Some(functions) => functions,
            None => &mut sink,
        },
    };
    let io = &shared.calls.io;
    let compiled = compiler::compile(io, worker, &request, patience, &mut output);
    let fault = |code, message: String| Err(Error::new(code, subject, message));
    match compiled {
        Ok(used) => {
            if let Some(functions) = functions {
                functions.keep(used);
            }
            Ok(code)
        }
        Err(Fault::Refused(reason)) => fault(codes::COMPILE, not_compiled(&reason)),
        Err(Fault::Crashed(how)) => fault(codes::COMPILE, format!("{CRASHED}: {how}")),
        Err(Fault::CutOff(message)) => {
            cut::keep(shared, digest, &message);
            fault(codes::CUT_OFF, message)
        }
        Err(Fault::Stopped) => fault(codes::COMPILING, "compiling it was stopped".to_owned()),
        Err(Fault::NotStarted(error)) => fault(
            codes::NO_COMPILER,
            format!("the process that compiles it cannot be started: {error}"),
        ),
        Err(Fault::Unwritten(error)) => fault(
            codes::FILE,
            format!("the code that it compiles to cannot be written: {error}"),
        ),
    }
}

const CRASHED: &str = "the compiler crashed on it";

/// Compiles a component in this process.
fn compile_here(shared: &LoadShared, subject: &str, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let fault = |message: String| Error::new(codes::COMPILE, subject, message);
    let compile = || shared.calls.engine.precompile_component(bytes);
    std::panic::catch_unwind(AssertUnwindSafe(compile))
        .map_err(|_| fault(CRASHED.to_owned()))?
        .map_err(|error| fault(not_compiled(&chain(&error))))
}

/// A part of the compiler's reason if a component is asynchronous.
const ASYNC: &str = "component model async";

fn not_compiled(reason: &str) -> String {
    let hint = match reason.contains(ASYNC) {
        true => {
            "it has asynchronous functions, which this host does not run: build it with \
             synchronous ones (`--sync` of componentize-qjs); "
        }
        false => "",
    };
    format!("{hint}it does not compile: {reason}")
}

/// Compiled code that is not in the cache yet.
enum Code {
    /// In a temporary file of the cache, with so many bytes.
    File(NamedTempFile, u64),
    Memory(Vec<u8>),
}

impl Code {
    /// No code so far. It is written to a file, and kept in memory if that is impossible.
    fn spool(folder: &Path) -> Self {
        let file = windlass_files::make_directory(folder).and_then(|()| store::temporary(folder));
        file.map_or_else(|_| Self::Memory(Vec::new()), |file| Self::File(file, 0))
    }
}

impl Write for Code {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Memory(code) => code.extend_from_slice(part),
            Self::File(file, written) => match file.write_all(part) {
                Ok(()) => *written += part.len() as u64,
                // The disk is full.
                Err(_) => {
                    let mut code = Vec::new();
                    file.seek(SeekFrom::Start(0))?;
                    file.as_file().take(*written).read_to_end(&mut code)?;
                    code.extend_from_slice(part);
                    *self = Self::Memory(code);
                }
            },
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Compiles a component of the bundle for this processor and keeps the code. Returns whether there
/// is new code. The bundle is a part of this program, so it is compiled in this process.
pub(super) fn compile_bundled(
    shared: &LoadShared,
    subject: &str,
    digest: &Digest,
) -> Result<bool, Error> {
    if place(shared, digest, Made::Here.code()).exists() {
        return Ok(false);
    }
    let Some(bytes) = shared.bundle.component(digest) else {
        return Ok(false);
    };
    let compiled = shared
        .compiles
        .work(|| compile_here(shared, subject, &bytes));
    let crashed = || Error::new(codes::COMPILE, subject, CRASHED);
    let compiled = compiled.ok_or_else(crashed)??;
    let kept = keep_bytes(shared, digest, Made::Here, &compiled);
    kept.map(|()| true)
        .map_err(|error| Error::file(&folder(shared), "keep compiled code in it", &error))
}

/// Where compiled code was made.
#[derive(Clone, Copy)]
enum Made {
    /// By a host of this user, for this processor.
    Here,
    /// With the program, for every processor of the architecture.
    Ahead,
}

impl Made {
    /// The ending of a file of code.
    fn code(self) -> &'static str {
        match self {
            Self::Here => "cwasm",
            Self::Ahead => "ahead.cwasm",
        }
    }

    /// The ending of the tag of the code.
    fn tag(self) -> &'static str {
        match self {
            Self::Here => "tag",
            Self::Ahead => "ahead.tag",
        }
    }
}

/// The component with the code that is in this program. The code is kept in the cache, which maps
/// it into memory in a fraction of the time that unpacking takes. Other settings of the engine need
/// other code, which is compiled.
fn bundled(shared: &LoadShared, digest: &Digest) -> Option<Component> {
    if !shared.bundle.has(digest) {
        return None;
    }
    if let Some(component) = cached(shared, digest, Made::Ahead) {
        return Some(component);
    }
    let code = shared.bundle.code(digest)?;
    #[expect(
        unsafe_code,
        reason = "code is taken over as bytes, which cannot be checked"
    )]
    // SAFETY: the code is part of this program. The compiler that is in this program made it for
    // this component, when the program was built.
    let component = unsafe { Component::deserialize(&shared.calls.engine, &code) };
    match component {
        Ok(component) => {
            // Without the cache, the next start is slower; it has no other effect.
            if let Err(error) = keep_bytes(shared, digest, Made::Ahead, &code) {
                tracing::debug!(%digest, %error, "the code in this program could not be kept");
            }
            Some(component)
        }
        Err(error) => {
            let error = chain(&error);
            tracing::debug!(%digest, error, "the code in this program does not fit");
            None
        }
    }
}

fn cached(shared: &LoadShared, digest: &Digest, made: Made) -> Option<Component> {
    let file = place(shared, digest, made.code());
    let tag = std::fs::read(place(shared, digest, made.tag())).ok()?;
    let code = File::open(&file).ok()?;
    let is_tagged = || {
        let message = message(shared, CODE, digest);
        with_content(message, code).is_ok_and(|message| message.verify(&tag))
    };
    if !is_own(&file) || !is_tagged() {
        tracing::warn!(
            file = %file.display(),
            "compiled code is damaged or was not made by this user, and is made anew"
        );
        return None;
    }
    #[expect(
        unsafe_code,
        reason = "compiled code is mapped and run, which cannot be checked"
    )]
    // SAFETY: only this user can write the file. Its tag says that `keep` of one of this user's
    // hosts wrote it from the output of this engine's compiler for this component. It is never
    // written again: `keep` replaces it by renaming.
    let component = unsafe { Component::deserialize_file(&shared.calls.engine, &file) };
    match component {
        Ok(component) => Some(component),
        Err(error) => {
            let error = chain(&error);
            tracing::warn!(file = %file.display(), error, "compiled code is made anew");
            None
        }
    }
}

fn keep_bytes(
    shared: &LoadShared,
    digest: &Digest,
    made: Made,
    code: &[u8],
) -> std::io::Result<()> {
    windlass_files::make_directory(&folder(shared))?;
    let mut file = store::temporary(&folder(shared))?;
    file.write_all(code)?;
    keep_file(shared, digest, made, file)
}

fn keep_file(
    shared: &LoadShared,
    digest: &Digest,
    made: Made,
    mut code: NamedTempFile,
) -> std::io::Result<()> {
    code.seek(SeekFrom::Start(0))?;
    let made_tag = with_content(message(shared, CODE, digest), code.as_file())?.tag();
    // The tag is deleted before the code is replaced and written after it, so code with a valid tag
    // is complete.
    let tag = place(shared, digest, made.tag());
    match std::fs::remove_file(&tag) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    store::persist(code, &place(shared, digest, made.code()))?;
    store::write(&tag, &made_tag)
}

/// The purpose of a tag: a tag for one purpose is not valid for another.
const CODE: &[u8; 24] = b"windlass compiled code 1";
const DESCRIPTION: &[u8; 24] = b"windlass description 02 ";
const CUT: &[u8; 24] = b"windlass cut compiling 1";

/// The beginning of the message of a tag, up to the content: that a host of this user has made the
/// content for a component, with this compiler if that matters. Every part has a fixed length.
fn message(shared: &LoadShared, purpose: &[u8; 24], digest: &Digest) -> Message {
    let compiler = match purpose == DESCRIPTION {
        true => 0,
        false => compiler_of(shared),
    };
    let compiler = compiler.to_be_bytes();
    shared.rules.key.message(&[purpose, &compiler, &digest.0])
}

/// A message with the content of a file, which is read in parts.
fn with_content(mut message: Message, mut content: impl Read) -> std::io::Result<Message> {
    let mut part = vec![0; PART_BYTES];
    loop {
        match content.read(&mut part)? {
            0 => return Ok(message),
            count => message.add(part.get(..count).unwrap_or_default()),
        }
    }
}

/// The bytes that are read at once.
const PART_BYTES: usize = 64 * 1024;

/// Whether only this user can write a file.
fn is_own(file: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let of = |path: &Path| std::fs::symlink_metadata(path);
    of(file).is_ok_and(|about| about.is_file() && about.uid() == user && about.mode() & 0o022 == 0)
}

/// How long a tag is, in bytes.
const TAG_BYTES: usize = 32;

/// The component's description, from the bundle or the cache.
pub(crate) fn description(shared: &LoadShared, digest: &Digest) -> Option<Vec<u8>> {
    if let Some(json) = shared.bundle.description(digest) {
        return Some(json.to_vec());
    }
    // If it is damaged or another user's, the component is asked again.
    note(shared, DESCRIPTION, digest, description::MAX_BYTES)
}

/// Stores a component's description.
pub(super) fn keep_description(shared: &LoadShared, digest: &Digest, json: &[u8]) {
    if let Err(error) = keep_note(shared, DESCRIPTION, digest, json) {
        tracing::warn!(%digest, %error, "the description could not be kept");
    }
}

/// The file of a note. A description is that of the component, for every compiler: a host of
/// another version knows the names in a component before it has compiled it.
fn note_place(shared: &LoadShared, purpose: &[u8; 24], digest: &Digest) -> PathBuf {
    if purpose == DESCRIPTION {
        let name = format!("{}.json", digest.hex());
        return shared.cache_dir.join(DESCRIPTIONS).join(name);
    }
    place(shared, digest, "cut")
}

/// The folder of descriptions in the cache.
const DESCRIPTIONS: &str = "descriptions";

/// What a host of this user has noted about a component. None if it is longer than `longest`.
fn note(
    shared: &LoadShared,
    purpose: &[u8; 24],
    digest: &Digest,
    longest: usize,
) -> Option<Vec<u8>> {
    let file = File::open(note_place(shared, purpose, digest)).ok()?;
    let mut kept = Vec::new();
    file.take((TAG_BYTES + longest) as u64 + 1)
        .read_to_end(&mut kept)
        .ok()?;
    let (tag, note) = kept.split_at_checked(TAG_BYTES)?;
    let mut message = message(shared, purpose, digest);
    message.add(note);
    (note.len() <= longest && message.verify(tag)).then(|| note.to_vec())
}

fn keep_note(
    shared: &LoadShared,
    purpose: &[u8; 24],
    digest: &Digest,
    note: &[u8],
) -> std::io::Result<()> {
    let mut message = message(shared, purpose, digest);
    message.add(note);
    let mut kept = message.tag().to_vec();
    kept.extend_from_slice(note);
    let file = note_place(shared, purpose, digest);
    windlass_files::make_directory(file.parent().unwrap_or(&shared.cache_dir))?;
    store::write(&file, &kept)
}

/// Notes about components whose compilation took too much: another start does not try it again at
/// once.
mod cut {
    use super::*;

    /// How long a note counts: what else the machine does may be a cause, too.
    const VALID: Duration = Duration::from_secs(60 * 60);
    /// The longest note, in bytes.
    const LONGEST: usize = 8 * 1024;

    #[derive(Serialize, Deserialize)]
    struct Cut {
        memory_bytes: u64,
        timeout_ms: u64,
        at_ms: i64,
        message: String,
    }

    impl Cut {
        /// A compilation that is cut off now, within the limits of the options.
        fn now(shared: &LoadShared, message: &str) -> Option<Self> {
            let Compiler::Worker(worker) = &shared.compiler else {
                return None;
            };
            Some(Self {
                memory_bytes: worker.memory_bytes,
                timeout_ms: u64::try_from(worker.timeout.as_millis()).unwrap_or(u64::MAX),
                at_ms: shared.calls.clock.wall_ms(),
                message: message.to_owned(),
            })
        }
    }

    /// Why the component was not compiled a while ago, within limits that are no smaller than those
    /// of today.
    pub(super) fn known(shared: &LoadShared, digest: &Digest) -> Option<String> {
        let today = Cut::now(shared, "")?;
        let cut: Cut = serde_json::from_slice(&note(shared, CUT, digest, LONGEST)?).ok()?;
        let age_ms = u64::try_from(today.at_ms.checked_sub(cut.at_ms)?).ok()?;
        let counts = Duration::from_millis(age_ms) < VALID
            && today.memory_bytes <= cut.memory_bytes
            && today.timeout_ms <= cut.timeout_ms;
        counts.then_some(cut.message)
    }

    pub(super) fn keep(shared: &LoadShared, digest: &Digest, message: &str) {
        let Some(json) = Cut::now(shared, message).and_then(|cut| serde_json::to_vec(&cut).ok())
        else {
            return;
        };
        if let Err(error) = keep_note(shared, CUT, digest, &json) {
            tracing::warn!(%digest, %error, "it could not be noted that compiling took too much");
        }
    }
}

/// How long the code of another compiler is kept without use.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The most folders that one start removes, and the most that it looks at.
const REMOVED: usize = 16;
const LOOKED_AT: usize = 1_000;
/// A file whose modification time is the last start of a host that uses the folder.
const MARK: &str = "used";

/// Marks the folder of this compiler as used, and removes folders of other compilers that were not
/// used for long. A failure makes the next start slower or the disk fuller; it has no other effect.
pub(crate) fn clean(shared: &LoadShared) {
    let own = folder(shared);
    let wall_ms = u64::try_from(shared.calls.clock.wall_ms()).unwrap_or(0);
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(wall_ms);
    let marked = windlass_files::make_directory(&own)
        .and_then(|()| {
            let mut options = windlass_files::options();
            options
                .write(true)
                .create(true)
                .truncate(true)
                .open(own.join(MARK))
        })
        .and_then(|mark| mark.set_modified(now));
    if let Err(error) = marked {
        tracing::warn!(folder = %own.display(), %error, "the cache cannot be written");
        return;
    }
    let Ok(entries) = std::fs::read_dir(&shared.cache_dir) else {
        return;
    };
    let folders = entries.flatten().take(LOOKED_AT).map(|entry| entry.path());
    let unused = folders.filter(|path| *path != own && is_unused(path, now));
    for path in unused.take(REMOVED) {
        match std::fs::remove_dir_all(&path) {
            Ok(()) => tracing::info!(folder = %path.display(), "removed unused compiled code"),
            Err(error) => {
                tracing::warn!(folder = %path.display(), %error, "unused compiled code stays");
            }
        }
    }
}

/// Whether this is a folder of compiled code that was last used long ago.
fn is_unused(path: &Path, now: SystemTime) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let is_ours = name
        .is_some_and(|name| name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
    // Versions before the mark only left the time of the folder itself.
    let used = std::fs::symlink_metadata(path.join(MARK))
        .or_else(|_| std::fs::symlink_metadata(path))
        .and_then(|about| about.modified());
    let since = used.ok().and_then(|used| now.duration_since(used).ok());
    is_ours && path.is_dir() && !path.is_symlink() && since.is_some_and(|since| since > UNUSED)
}

/// Identifies the compiler.
pub(super) fn compiler_of(shared: &LoadShared) -> u64 {
    engine::compiler_id(&shared.calls.engine)
}

pub(super) fn folder(shared: &LoadShared) -> PathBuf {
    let compiler = compiler_of(shared);
    shared.cache_dir.join(format!("{compiler:016x}"))
}

fn place(shared: &LoadShared, digest: &Digest, ending: &str) -> PathBuf {
    folder(shared).join(format!("{}.{ending}", digest.hex()))
}
