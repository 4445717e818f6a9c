//! Says why a component with these exports can neither execute nodes nor consume triggers.

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::{ComponentInstance, ComponentItem};

use crate::bindings::{VERSION, consumer, node};

/// Names of exports that a message lists.
const MAX_LISTED: usize = 8;

/// The interfaces of which a component has to export one, each with its functions.
const INTERFACES: [(&str, [&str; 2]); 2] = [
    (node::INTERFACE, ["describe", "execute"]),
    (consumer::INTERFACE, ["describe", "accept"]),
];

/// The fault of a component whose exports have these names, if one is of another version of the
/// contract, and none of this version. Nothing has to be compiled for it.
pub(super) fn of_other_version(names: &[&str]) -> Option<String> {
    let mut other = None;
    for name in names {
        let Some((interface, _)) = known(name) else {
            continue;
        };
        let version = name.split_once('@').map_or("", |(_, version)| version);
        let patch = version.strip_prefix(VERSION);
        if patch.is_some_and(|patch| patch.starts_with('.')) {
            return None;
        }
        other.get_or_insert_with(|| wrong_version(name, interface));
    }
    other
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

/// What a component lacks to be a plugin, and what it has instead.
pub(super) fn missing(engine: &Engine, component: &Component) -> String {
    let ty = component.component_type();
    let (mut faults, mut others) = (Vec::new(), Vec::new());
    for (name, item) in ty.exports(engine) {
        match item.ty {
            ComponentItem::ComponentInstance(instance) => match fault(engine, name, &instance) {
                Some(fault) => faults.push(fault),
                None => others.push(format!("`{name}`")),
            },
            ComponentItem::ComponentFunc(_) => others.push(format!("the function `{name}`")),
            _ => {}
        }
    }
    if !faults.is_empty() {
        return faults.join(", and ");
    }
    let (node, consumer) = (node::INTERFACE, consumer::INTERFACE);
    let there = listed(&others, "nothing");
    format!(
        "it exports neither a node executor (`{node}`) nor a trigger consumer (`{consumer}`), but \
         {there}"
    )
}

/// The fault of an exported interface of the contract. None: it is no such interface.
fn fault(engine: &Engine, name: &str, instance: &ComponentInstance) -> Option<String> {
    let (interface, functions) = known(name)?;
    if name != *interface {
        return Some(wrong_version(name, interface));
    }
    let exports = instance.exports(engine);
    let there: Vec<&str> = exports
        .filter(|(_, item)| matches!(item.ty, ComponentItem::ComponentFunc(_)))
        .map(|(name, _)| name)
        .collect();
    let absent = functions.iter().filter(|name| !there.contains(name));
    let absent: Vec<String> = absent.map(|name| format!("`{name}`")).collect();
    let there: Vec<String> = there.iter().map(|name| format!("`{name}`")).collect();
    Some(format!(
        "its export `{name}` lacks {}, and has {}",
        absent.join(" and "),
        listed(&there, "no functions")
    ))
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
