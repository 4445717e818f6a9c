//! Checks the bytes before the compiler reads them.

use wasmparser::{Encoding, FunctionBody, Parser, Payload};

use windlass_model::Digest;

use super::outline::Outline;
use super::{exports, wrap};
use crate::codes;
use crate::error::Error;

/// Modules and components inside one component, at any depth.
const MAX_PARTS: u64 = 512;
/// Functions with a body. The largest language runtimes have 20,000.
const MAX_FUNCTIONS: u64 = 100_000;
/// Types, imports, exports, globals, tables, segments and the like, all together. The largest
/// language runtimes have 40,000.
const MAX_ITEMS: u64 = 300_000;
/// The body of one function, in bytes. The interpreter's loop of CPython, the largest known one, has
/// 430,000. The compiler takes up to 2 KiB of memory for a byte,
/// and more time for a byte of a longer function.
const MAX_FUNCTION_BYTES: usize = 1024 * 1024;
/// The local variables of one function. The largest known number is 500.
const MAX_LOCALS: u32 = 10_000;

/// The description of its world in a core module, in bytes. That of the largest known runtimes has
/// 100,000. Making a component reads it into types, which take many times its memory.
const MAX_WORLD_BYTES: usize = 1024 * 1024;

/// A component from these bytes: unchanged, or wrapped.
pub(super) fn component(subject: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    if wasmtime::Engine::detect_precompiled(&bytes).is_some() {
        let message = "it is compiled code; give the component that it was made of";
        return Err(Error::new(codes::PRECOMPILED, subject, message));
    }
    match survey(subject, &bytes)? {
        Encoding::Component => Ok(bytes),
        Encoding::Module => {
            let wrapped = wrap::wrap(bytes).map_err(|error| {
                let message = format!("the core module cannot be made a component: {error:#}");
                Error::new(codes::WRAP, subject, message)
            })?;
            survey(subject, &wrapped)?;
            Ok(wrapped)
        }
    }
}

/// Reads every section header to the end, and counts.
fn survey(subject: &str, bytes: &[u8]) -> Result<Encoding, Error> {
    let malformed = |message: String| Error::new(codes::MALFORMED, subject, message);
    if !bytes.starts_with(b"\0asm") {
        return Err(malformed(
            "it is no WebAssembly: its first bytes are not `\\0asm`".to_owned(),
        ));
    }
    let (mut encoding, mut parts, mut functions, mut items) = (None, 0_u64, 0_u64, 0_u64);
    let mut world = 0_usize;
    // How many modules and components the payload is in.
    let (mut depth, mut outline) = (0_u32, Outline::default());
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| malformed(format!("it is damaged: {error}")))?;
        match &payload {
            Payload::Version {
                encoding: found, ..
            } => {
                encoding.get_or_insert(*found);
                parts += 1;
            }
            Payload::CodeSectionStart { count, .. } => functions += u64::from(*count),
            Payload::CodeSectionEntry(body) => {
                check_function(body).map_err(|fault| {
                    let message = format!("the function at byte {}: {fault}", body.range().start);
                    Error::new(codes::TOO_COMPLEX, subject, message)
                })?;
            }
            Payload::CustomSection(section) if section.name().starts_with(wrap::TYPE) => {
                world = world.saturating_add(section.data().len());
            }
            other => items += count(other),
        }
        if items <= MAX_ITEMS {
            outline.read(depth, &payload);
        }
        match &payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if world > MAX_WORLD_BYTES {
            let message = format!(
                "the description of its world is larger than the {MAX_WORLD_BYTES} bytes that the \
                 host reads"
            );
            return Err(Error::new(codes::TOO_COMPLEX, subject, message));
        }
        if parts > MAX_PARTS || functions > MAX_FUNCTIONS || items > MAX_ITEMS {
            let message = format!(
                "it has more parts than the host compiles: at most {MAX_PARTS} modules, \
                 {MAX_FUNCTIONS} functions and {MAX_ITEMS} other items"
            );
            return Err(Error::new(codes::TOO_COMPLEX, subject, message));
        }
    }
    let encoding = encoding.ok_or_else(|| malformed("it has no header".to_owned()))?;
    let exports = match encoding {
        Encoding::Component => outline.exports(),
        Encoding::Module => None,
    };
    match exports.and_then(|exports| exports::fault(&exports)) {
        Some(message) => Err(Error::new(codes::NO_EXPORT, subject, message)),
        None => Ok(encoding),
    }
}

/// The digest of the largest code section of a component. Components whose language runtime is
/// compiled before them, like those of Python and QuickJS, have it in common, and with it nearly all
/// functions. None: the component has no code, or is damaged.
pub(super) fn runtime(component: &[u8]) -> Option<Digest> {
    let mut largest = 0..0;
    for payload in Parser::new(0).parse_all(component) {
        if let Payload::CodeSectionStart { range, .. } = payload.ok()?
            && range.len() > largest.len()
        {
            largest = range;
        }
    }
    let code = component.get(largest)?;
    (!code.is_empty()).then(|| Digest::of(code))
}

/// Checks the size of a function. A damaged one is left to the compiler.
fn check_function(body: &FunctionBody<'_>) -> Result<(), String> {
    let bytes = body.as_bytes().len();
    if bytes > MAX_FUNCTION_BYTES {
        return Err(format!(
            "it has {bytes} bytes, and the host compiles at most {MAX_FUNCTION_BYTES}"
        ));
    }
    let mut locals = 0_u32;
    for group in body.get_locals_reader().into_iter().flatten() {
        let Ok((count, _)) = group else {
            break;
        };
        locals = locals.saturating_add(count);
    }
    if locals > MAX_LOCALS {
        return Err(format!(
            "it has {locals} local variables, and the host compiles at most {MAX_LOCALS}"
        ));
    }
    Ok(())
}

fn count(payload: &Payload<'_>) -> u64 {
    u64::from(match payload {
        Payload::TypeSection(section) => section.count(),
        Payload::ImportSection(section) => section.count(),
        Payload::FunctionSection(section) => section.count(),
        Payload::TableSection(section) => section.count(),
        Payload::MemorySection(section) => section.count(),
        Payload::GlobalSection(section) => section.count(),
        Payload::ExportSection(section) => section.count(),
        Payload::ElementSection(section) => section.count(),
        Payload::DataSection(section) => section.count(),
        Payload::InstanceSection(section) => section.count(),
        Payload::ComponentTypeSection(section) => section.count(),
        Payload::ComponentInstanceSection(section) => section.count(),
        Payload::ComponentAliasSection(section) => section.count(),
        Payload::ComponentCanonicalSection(section) => section.count(),
        Payload::ComponentImportSection(section) => section.count(),
        Payload::ComponentExportSection(section) => section.count(),
        _ => 0,
    })
}
