//! Compiled code and descriptions by digest.
//!
//! A compiled file is mapped into memory and run, so it has to be trusted: the file and its
//! directory belong to this user alone, it is written atomically and never changed, and its tag,
//! which needs this user's key (`code_key.rs`), is checked before it is mapped. The name of the
//! folder is a hash of the compiler's exact version, its settings and the processor's features:
//! code of another version is compiled again, so a fix in the compiler takes effect.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, SystemTime};

use wasmtime::component::Component;
use windlass_model::Digest;

use super::store;
use crate::codes;
use crate::description;
use crate::error::{Error, chain};
use crate::host::HostShared;
use crate::options::Compiling;

/// The compiled component: from the cache, from the bundle, or compiled now.
pub(super) fn component(
    shared: &HostShared,
    subject: &str,
    digest: &Digest,
    bytes: impl FnOnce() -> Result<Vec<u8>, Error>,
) -> Result<Component, Error> {
    let there = cached(shared, digest, Made::Here);
    if let Some(component) = there.or_else(|| bundled(shared, digest)) {
        return Ok(component);
    }
    let fault = |message: String| Error::new(codes::COMPILE, subject, message);
    let bytes = bytes()?;
    let compiled = reported(shared, subject, bytes.len(), || {
        compile(shared, subject, &bytes)
    })?;
    // Without the cache, the next start is slower; it has no other effect.
    if let Err(error) = keep(shared, digest, Made::Here, &compiled) {
        tracing::warn!(%digest, %error, "compiled code could not be kept");
    } else if let Some(component) = cached(shared, digest, Made::Here) {
        return Ok(component);
    }
    #[expect(
        unsafe_code,
        reason = "code is taken over as bytes, which cannot be checked"
    )]
    // SAFETY: this engine's compiler has just made these bytes.
    let component = unsafe { Component::deserialize(&shared.engine, &compiled) };
    component.map_err(|error| fault(chain(&error)))
}

/// Does the work, and reports it if it takes long.
fn reported<T>(shared: &HostShared, subject: &str, bytes: usize, work: impl FnOnce() -> T) -> T {
    let Some(report) = &shared.options.compiling else {
        return work();
    };
    let tell = |took| {
        (report.tell)(&Compiling {
            subject,
            bytes,
            took,
        });
    };
    let begin = shared.clock.monotonic();
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
        tell(Some(shared.clock.monotonic().saturating_sub(begin)));
    }
    result
}

fn compile(shared: &HostShared, subject: &str, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let fault = |message: String| Error::new(codes::COMPILE, subject, message);
    shared
        .compiles
        .work(|| shared.engine.precompile_component(bytes))
        .ok_or_else(|| fault("the compiler crashed on it".to_owned()))?
        .map_err(|error| fault(format!("it does not compile: {}", chain(&error))))
}

/// Compiles a component of the bundle for this processor and keeps the code. Returns whether there
/// is new code.
pub(super) fn compile_bundled(
    shared: &HostShared,
    subject: &str,
    digest: &Digest,
) -> Result<bool, Error> {
    if place(shared, digest, Made::Here.code()).exists() {
        return Ok(false);
    }
    let Some(bytes) = shared.options.bundle.component(digest) else {
        return Ok(false);
    };
    let compiled = compile(shared, subject, &bytes)?;
    let kept = keep(shared, digest, Made::Here, &compiled);
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
fn bundled(shared: &HostShared, digest: &Digest) -> Option<Component> {
    if !shared.options.bundle.has(digest) {
        return None;
    }
    if let Some(component) = cached(shared, digest, Made::Ahead) {
        return Some(component);
    }
    let code = shared.options.bundle.code(digest)?;
    #[expect(
        unsafe_code,
        reason = "code is taken over as bytes, which cannot be checked"
    )]
    // SAFETY: the code is part of this program. The compiler that is in this program made it for
    // this component, when the program was built.
    let component = unsafe { Component::deserialize(&shared.engine, &code) };
    match component {
        Ok(component) => {
            // Without the cache, the next start is slower; it has no other effect.
            if let Err(error) = keep(shared, digest, Made::Ahead, &code) {
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

fn cached(shared: &HostShared, digest: &Digest, made: Made) -> Option<Component> {
    let file = place(shared, digest, made.code());
    let tag = std::fs::read(place(shared, digest, made.tag())).ok()?;
    let code = std::fs::read(&file).ok()?;
    if !is_own(&file) || !verify(shared, CODE, digest, &code, &tag) {
        tracing::warn!(
            file = %file.display(),
            "compiled code is damaged or was not made by this user, and is made anew"
        );
        return None;
    }
    drop(code);
    #[expect(
        unsafe_code,
        reason = "compiled code is mapped and run, which cannot be checked"
    )]
    // SAFETY: only this user can write the file. Its tag says that `keep` of one of this user's
    // hosts wrote it from the output of this engine's compiler for this component. It is never
    // written again: `keep` replaces it by renaming.
    let component = unsafe { Component::deserialize_file(&shared.engine, &file) };
    match component {
        Ok(component) => Some(component),
        Err(error) => {
            let error = chain(&error);
            tracing::warn!(file = %file.display(), error, "compiled code is made anew");
            None
        }
    }
}

fn keep(shared: &HostShared, digest: &Digest, made: Made, compiled: &[u8]) -> std::io::Result<()> {
    windlass_files::make_directory(&folder(shared))?;
    // The tag is deleted before the code is replaced and written after it, so code with a valid tag
    // is complete.
    let tag = place(shared, digest, made.tag());
    match std::fs::remove_file(&tag) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    store::write(&place(shared, digest, made.code()), compiled)?;
    let made = with_parts(shared, CODE, digest, compiled, |parts| {
        shared.code_key.tag(parts)
    });
    store::write(&tag, &made)
}

/// The purpose of a tag: a tag for one purpose is not valid for another.
const CODE: &[u8] = b"windlass compiled code 1";
const DESCRIPTION: &[u8] = b"windlass description 01 ";

/// Whether a host of this user has made this content for a component, with this compiler.
fn verify(shared: &HostShared, what: &[u8], digest: &Digest, content: &[u8], tag: &[u8]) -> bool {
    with_parts(shared, what, digest, content, |parts| {
        shared.code_key.verify(parts, tag)
    })
}

/// The message of a tag. Every part but the last has a fixed length.
fn with_parts<T>(
    shared: &HostShared,
    what: &[u8],
    digest: &Digest,
    content: &[u8],
    then: impl FnOnce(&[&[u8]]) -> T,
) -> T {
    let compiler = compiler(shared).to_be_bytes();
    then(&[what, &compiler, &digest.0, content])
}

/// Whether only this user can write a file.
fn is_own(file: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let of = |path: &Path| std::fs::symlink_metadata(path);
    of(file).is_ok_and(|about| about.is_file() && about.uid() == user && about.mode() & 0o022 == 0)
}

/// How long a tag is, in bytes.
const TAG_BYTES: usize = 32;

/// The component's description, from the bundle or the cache.
pub(crate) fn description(shared: &HostShared, digest: &Digest) -> Option<Vec<u8>> {
    if let Some(json) = shared.options.bundle.description(digest) {
        return Some(json.to_vec());
    }
    let file = std::fs::File::open(place(shared, digest, "json")).ok()?;
    let longest = (TAG_BYTES + description::MAX_BYTES) as u64;
    let mut kept = Vec::new();
    file.take(longest + 1).read_to_end(&mut kept).ok()?;
    let (tag, json) = kept.split_at_checked(TAG_BYTES)?;
    // If it is damaged or another user's, the component is asked again.
    verify(shared, DESCRIPTION, digest, json, tag).then(|| json.to_vec())
}

/// Stores a component's description.
pub(super) fn keep_description(shared: &HostShared, digest: &Digest, json: &[u8]) {
    let mut kept = with_parts(shared, DESCRIPTION, digest, json, |parts| {
        shared.code_key.tag(parts).to_vec()
    });
    kept.extend_from_slice(json);
    let kept = windlass_files::make_directory(&folder(shared))
        .and_then(|()| store::write(&place(shared, digest, "json"), &kept));
    if let Err(error) = kept {
        tracing::warn!(%digest, %error, "the description could not be kept");
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
pub(crate) fn clean(shared: &HostShared) {
    let own = folder(shared);
    let wall_ms = u64::try_from(shared.clock.wall_ms()).unwrap_or(0);
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
    let Ok(entries) = std::fs::read_dir(&shared.options.cache_dir) else {
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
fn compiler(shared: &HostShared) -> u64 {
    let mut hasher = DefaultHasher::new();
    shared
        .engine
        .precompile_compatibility_hash()
        .hash(&mut hasher);
    hasher.finish()
}

fn folder(shared: &HostShared) -> PathBuf {
    let compiler = compiler(shared);
    shared.options.cache_dir.join(format!("{compiler:016x}"))
}

fn place(shared: &HostShared, digest: &Digest, ending: &str) -> PathBuf {
    folder(shared).join(format!("{}.{ending}", digest.hex()))
}
