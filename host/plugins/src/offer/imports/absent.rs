//! Stand-ins for the interfaces of WASI that this host does not offer. Toolchains import some of
//! them, HTTP above all, whether their guests need them or not.
//!
//! A function whose error has a case for a refused access answers with this error. Others answer
//! without effect as far as their types allow, so that a guest gets to the function that refuses;
//! the rest ends the call. Resources of these interfaces are handles of nothing.

use wasmtime::StoreContextMut;
use wasmtime::component::types::{ComponentItem, Type};
use wasmtime::component::{
    Component, Linker, LinkerInstance, Resource, ResourceAny, ResourceType, Val,
};
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::p2::pipe::{ClosedInputStream, SinkOutputStream};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, IoError};

use crate::offer::guest::Guest;

/// The interfaces of WASI that this host offers, in versions 0.2.
const OFFERED: [&str; 27] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

/// Whether this host offers an interface of WASI.
pub(crate) fn is_offered(name: &str) -> bool {
    let Some((base, version)) = name.split_once('@') else {
        return false;
    };
    let patch = version.strip_prefix("0.2.");
    let has_version = patch.is_some_and(|patch| patch.bytes().all(|byte| byte.is_ascii_digit()));
    has_version && OFFERED.contains(&base)
}

/// The cases of errors that say that an access is refused.
const REFUSALS: [&str; 3] = ["HTTP-request-denied", "access-denied", "not-supported"];
/// The case of errors with a text.
const OTHER: &str = "other";

/// The resources of all interfaces of WASI in the imports of a component: each is compared with those
/// before it.
const MAX_RESOURCES: usize = 1_000;

/// Values in one answer, at any depth: a short type can have very many.
const MAX_VALUES: usize = 64;

/// A resource of an interface that is not offered.
struct Absent;

/// A guest called a function that this host does not offer.
#[derive(Debug, thiserror::Error)]
#[error("the guest called `{0}`, which this host does not offer")]
pub(crate) struct NotOffered(String);

/// Links stand-ins for all interfaces of WASI that the component imports and the host lacks.
pub(super) fn link(linker: &mut Linker<Guest>, component: &Component) -> wasmtime::Result<()> {
    let engine = component.engine();
    // Each resource is defined by the first import that has it; the others use that one's.
    let mut known: Vec<(ResourceType, ResourceType)> = Vec::new();
    for (name, item) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(interface) = item.ty else {
            continue;
        };
        let base = name.split('@').next().unwrap_or(name);
        let is_absent = base.starts_with("wasi:") && !is_offered(name);
        let mut linked = match is_absent {
            true => Some(linker.instance(name)?),
            false => None,
        };
        for (export, item) in interface.exports(engine) {
            match (item.ty, &mut linked) {
                (ComponentItem::Resource(ty), linked) => {
                    let same = known.iter().find(|(known, _)| *known == ty);
                    let is = match (same, &linked) {
                        (Some((_, is)), _) => *is,
                        (None, Some(_)) => ResourceType::host::<Absent>(),
                        (None, None) => match offered_resource(base, export) {
                            Some(is) => is,
                            // Only interfaces that are offered use it.
                            None => continue,
                        },
                    };
                    if same.is_none() {
                        if known.len() >= MAX_RESOURCES {
                            let message =
                                format!("it imports more than {MAX_RESOURCES} resources of WASI");
                            return Err(wasmtime::Error::msg(message));
                        }
                        known.push((ty, is));
                    }
                    if let Some(linked) = linked {
                        linked.resource(export, is, |_, _| Ok(()))?;
                    }
                }
                (ComponentItem::ComponentFunc(_), Some(linked)) => {
                    link_function(linked, name, export)?;
                }
                (ComponentItem::Type(_), _) | (_, None) => {}
                (_, Some(_)) => {
                    let message = format!("this host cannot stand in for `{export}` of `{name}`");
                    return Err(wasmtime::Error::msg(message));
                }
            }
        }
    }
    Ok(())
}

/// The resources of offered interfaces that interfaces of WASI use.
fn offered_resource(base: &str, name: &str) -> Option<ResourceType> {
    Some(match (base, name) {
        ("wasi:io/error", "error") => ResourceType::host::<IoError>(),
        ("wasi:io/poll", "pollable") => ResourceType::host::<DynPollable>(),
        ("wasi:io/streams", "input-stream") => ResourceType::host::<DynInputStream>(),
        ("wasi:io/streams", "output-stream") => ResourceType::host::<DynOutputStream>(),
        _ => return None,
    })
}

fn link_function(
    linked: &mut LinkerInstance<'_, Guest>,
    interface: &str,
    name: &str,
) -> wasmtime::Result<()> {
    let function = format!("{interface}#{name}");
    linked.func_new(name, move |mut store, ty, arguments, results| {
        // The guest has given these away, and nothing else drops them.
        for argument in arguments {
            discard(&mut store, argument)?;
        }
        for (result, ty) in results.iter_mut().zip(ty.results()) {
            let mut room = MAX_VALUES;
            let answer = answer(&mut store, &ty, &mut room)?;
            *result = answer.ok_or_else(|| NotOffered(function.clone()))?;
        }
        Ok(())
    })
}

/// Releases the resources in an argument.
fn discard(store: &mut StoreContextMut<'_, Guest>, value: &Val) -> wasmtime::Result<()> {
    match value {
        Val::Resource(resource) => release(store, *resource),
        Val::List(values) | Val::Tuple(values) | Val::FixedLengthList(values) => {
            values.iter().try_for_each(|value| discard(store, value))
        }
        Val::Record(fields) => fields
            .iter()
            .try_for_each(|(_, value)| discard(store, value)),
        Val::Variant(_, Some(value))
        | Val::Option(Some(value))
        | Val::Result(Ok(Some(value)) | Err(Some(value))) => discard(store, value),
        _ => Ok(()),
    }
}

fn release(store: &mut StoreContextMut<'_, Guest>, resource: ResourceAny) -> wasmtime::Result<()> {
    /// The rest of a resource of WASI is in the table of the guest.
    fn take<T: Send + 'static>(
        store: &mut StoreContextMut<'_, Guest>,
        resource: ResourceAny,
    ) -> wasmtime::Result<()> {
        let resource: Resource<T> = resource.try_into_resource(&mut *store)?;
        if resource.owned() {
            drop(store.data_mut().ctx().table.delete(resource)?);
        }
        Ok(())
    }
    let ty = resource.ty();
    if ty == ResourceType::host::<Absent>() {
        resource.try_into_resource::<Absent>(&mut *store)?;
        Ok(())
    } else if ty == ResourceType::host::<DynInputStream>() {
        take::<DynInputStream>(store, resource)
    } else if ty == ResourceType::host::<DynOutputStream>() {
        take::<DynOutputStream>(store, resource)
    } else if ty == ResourceType::host::<DynPollable>() {
        take::<DynPollable>(store, resource)
    } else if ty == ResourceType::host::<IoError>() {
        take::<IoError>(store, resource)
    } else {
        Err(wasmtime::Error::msg("it gave away an unknown resource"))
    }
}

/// A value of this type that refuses, or else that means nothing. None: there is none, or it has more
/// than `room` values.
fn answer(
    store: &mut StoreContextMut<'_, Guest>,
    ty: &Type,
    room: &mut usize,
) -> wasmtime::Result<Option<Val>> {
    let Some(left) = room.checked_sub(1) else {
        return Ok(None);
    };
    *room = left;
    Ok(Some(match ty {
        Type::Bool => Val::Bool(false),
        Type::S8 => Val::S8(0),
        Type::U8 => Val::U8(0),
        Type::S16 => Val::S16(0),
        Type::U16 => Val::U16(0),
        Type::S32 => Val::S32(0),
        Type::U32 => Val::U32(0),
        Type::S64 => Val::S64(0),
        Type::U64 => Val::U64(0),
        Type::Float32 => Val::Float32(0.0),
        Type::Float64 => Val::Float64(0.0),
        Type::String => Val::String(String::new()),
        Type::List(_) => Val::List(Vec::new()),
        Type::Option(_) => Val::Option(None),
        Type::Flags(_) => Val::Flags(Vec::new()),
        Type::Own(ty) => return own(store, *ty),
        Type::Result(result) => {
            let refusal = result.err().and_then(|error| refusal(&error));
            if let Some(refusal) = refusal {
                return Ok(Some(Val::Result(Err(Some(Box::new(refusal))))));
            }
            let Some(ok) = result.ok() else {
                return Ok(Some(Val::Result(Ok(None))));
            };
            match answer(store, &ok, room)? {
                Some(value) => Val::Result(Ok(Some(Box::new(value)))),
                None => return Ok(None),
            }
        }
        Type::Tuple(tuple) => {
            let mut values = Vec::new();
            for ty in tuple.types() {
                match answer(store, &ty, room)? {
                    Some(value) => values.push(value),
                    None => return Ok(None),
                }
            }
            Val::Tuple(values)
        }
        Type::Record(record) => {
            let mut fields = Vec::new();
            for field in record.fields() {
                match answer(store, &field.ty, room)? {
                    Some(value) => fields.push((field.name.to_owned(), value)),
                    None => return Ok(None),
                }
            }
            Val::Record(fields)
        }
        _ => return Ok(None),
    }))
}

/// The error of this type that says that an access is refused.
fn refusal(error: &Type) -> Option<Val> {
    let is_refusal = |name: &str| REFUSALS.contains(&name);
    let text = || Val::String("this host does not offer it".to_owned());
    match error {
        Type::String => Some(text()),
        Type::Enum(cases) => {
            let mut names = cases.names();
            let name = names.find(|name| is_refusal(name))?;
            Some(Val::Enum(name.to_owned()))
        }
        Type::Variant(variant) => {
            let mut cases = variant.cases();
            let case = cases.find(|case| is_refusal(case.name) && case.ty.is_none());
            if let Some(case) = case {
                return Some(Val::Variant(case.name.to_owned(), None));
            }
            let has_text = |ty: &Option<Type>| matches!(ty, Some(Type::String));
            let find = |is: &dyn Fn(&str) -> bool| {
                let mut cases = variant.cases();
                cases.find(|case| is(case.name) && has_text(&case.ty))
            };
            let case = find(&|name| name == OTHER).or_else(|| find(&|_| true))?;
            Some(Val::Variant(case.name.to_owned(), Some(Box::new(text()))))
        }
        _ => None,
    }
}

/// A new resource.
fn own(store: &mut StoreContextMut<'_, Guest>, ty: ResourceType) -> wasmtime::Result<Option<Val>> {
    let resource = if ty == ResourceType::host::<Absent>() {
        Resource::<Absent>::new_own(0).try_into_resource_any(&mut *store)?
    } else if ty == ResourceType::host::<DynOutputStream>() {
        let stream: DynOutputStream = Box::new(SinkOutputStream);
        let stream = store.data_mut().ctx().table.push(stream)?;
        stream.try_into_resource_any(&mut *store)?
    } else if ty == ResourceType::host::<DynInputStream>() {
        let stream: DynInputStream = Box::new(ClosedInputStream);
        let stream = store.data_mut().ctx().table.push(stream)?;
        stream.try_into_resource_any(&mut *store)?
    } else {
        return Ok(None);
    };
    Ok(Some(Val::Resource(resource)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_released_versions_of_listed_interfaces_are_offered() {
        for name in OFFERED {
            assert!(is_offered(&format!("{name}@0.2.0")));
            assert!(is_offered(&format!("{name}@0.2.99")));
        }
        for name in [
            "wasi:io/poll",
            "wasi:io/poll@0.3.0",
            "wasi:io/poll@0.2.0-rc-2023-11-10",
            "wasi:http/types@0.2.0",
        ] {
            assert!(!is_offered(name));
        }
    }
}
