//! Says why a component with these exports can neither execute nodes nor consume triggers.
//!
//! Nothing has to be compiled for it if the exports are known without.

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::bindings::{VERSION, consumer, node};

/// Names of exports that a message lists.
const MAX_LISTED: usize = 8;

/// The interfaces of which a component has to export one, each with its functions.
const INTERFACES: [(&str, [&str; 2]); 2] = [
    (node::INTERFACE, [DESCRIBE, "execute"]),
    (consumer::INTERFACE, [DESCRIBE, "accept"]),
];

const DESCRIBE: &str = "describe";

/// An export of a component.
pub(super) enum Export<'a> {
    /// An instance, with the names of its functions. None: they are not known.
    Instance(&'a str, Option<Vec<&'a str>>),
    Function(&'a str),
    Other,
}

/// What a component with these exports lacks to be a plugin, and what it has instead. None if it
/// lacks nothing, as far as its exports are known.
pub(super) fn fault(exports: &[Export<'_>]) -> Option<String> {
    let (mut faults, mut others, mut functions) = (Vec::new(), Vec::new(), Vec::new());
    for export in exports {
        match export {
            Export::Instance(name, there) => match known(name) {
                None => others.push(format!("`{name}`")),
                Some((interface, _)) if !is_this_version(name) => {
                    faults.push(wrong_version(name, interface));
                }
                Some((_, needed)) => {
                    // Unknown functions are left to the compiler.
                    let there = there.as_ref()?;
                    functions.extend(there.iter().copied().filter(|name| needed.contains(name)));
                    faults.extend(lacking(name, needed, there));
                }
            },
            Export::Function(name) => others.push(format!("the function `{name}`")),
            Export::Other => {}
        }
    }
    let works = functions.iter().any(|name| *name != DESCRIBE);
    if works && functions.contains(&DESCRIBE) {
        return None;
    }
    if !faults.is_empty() {
        return Some(faults.join(", and "));
    }
    let (node, consumer) = (node::INTERFACE, consumer::INTERFACE);
    let there = listed(&others, "nothing");
    Some(format!(
        "it exports neither a node executor (`{node}`) nor a trigger consumer (`{consumer}`), but \
         {there}"
    ))
}

/// The interface of the contract with this name, of any version.
fn known(name: &str) -> Option<&'static (&'static str, [&'static str; 2])> {
    let base = name.split('@').next();
    let mut interfaces = INTERFACES.iter();
    interfaces.find(|(interface, _)| interface.split('@').next() == base)
}

fn wrong_version(name: &str, interface: &str) -> String {
    format!(
        "it exports `{name}`, and this host knows version {VERSION}: use a newer host, or build \
         the component against `{interface}`"
    )
}

/// Whether this is the name of an interface of the version of the contract that this host knows.
fn is_this_version(name: &str) -> bool {
    let version = name.split_once('@').map_or("", |(_, version)| version);
    let patch = version.strip_prefix(VERSION);
    patch.is_some_and(|patch| patch.starts_with('.'))
}

/// As [`fault`], of a component that is compiled.
pub(super) fn missing(engine: &Engine, component: &Component) -> String {
    let ty = component.component_type();
    let all: Vec<_> = ty.exports(engine).collect();
    let instances: Vec<_> = all
        .iter()
        .map(|(_, item)| functions(engine, &item.ty))
        .collect();
    let exports = all.iter().zip(&instances);
    let exports = exports.map(|((name, item), functions)| match (&item.ty, functions) {
        (ComponentItem::ComponentFunc(_), _) => Export::Function(name),
        (_, Some(functions)) => Export::Instance(name, Some(functions.clone())),
        _ => Export::Other,
    });
    fault(&exports.collect::<Vec<_>>()).unwrap_or_else(|| "its exports do not fit".to_owned())
}

/// The names of the functions of an exported instance. None: it is none.
fn functions<'a>(engine: &'a Engine, item: &'a ComponentItem) -> Option<Vec<&'a str>> {
    let ComponentItem::ComponentInstance(instance) = item else {
        return None;
    };
    let exports = instance.exports(engine);
    let functions = exports.filter(|(_, item)| matches!(item.ty, ComponentItem::ComponentFunc(_)));
    Some(functions.map(|(name, _)| name).collect())
}

/// The functions that a component lacks in an interface, and those that it has.
fn lacking(name: &str, needed: &[&str], there: &[&str]) -> Option<String> {
    let absent = needed.iter().filter(|name| !there.contains(name));
    let absent: Vec<String> = absent.map(|name| format!("`{name}`")).collect();
    let there: Vec<String> = there.iter().map(|name| format!("`{name}`")).collect();
    (!absent.is_empty()).then(|| {
        format!(
            "its export `{name}` lacks {}, and has {}",
            absent.join(" and "),
            listed(&there, "no functions")
        )
    })
}

/// The first of these names.
fn listed(names: &[String], none: &str) -> String {
    let more = names.len().saturating_sub(MAX_LISTED);
    let shown = names.get(..names.len() - more).unwrap_or_default();
    match (shown, more) {
        ([], _) => none.to_owned(),
        (shown, 0) => shown.join(", "),
        (shown, more) => format!("{}, and {more} more", shown.join(", ")),
    }
}
