//! The exports of a component, read from its sections without validating or compiling it.
//!
//! An interface is exported as an instance. Its functions are known if the component makes the
//! instance of a component inside it, or of parts of its own; that of an import is not.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    ComponentTypeRef, Payload,
};

use super::exports::Export;

/// What the sections so far have.
#[derive(Default)]
pub(super) struct Outline<'a> {
    /// The names of exported functions of the components and instances below.
    lists: Vec<Vec<&'a str>>,
    /// The components by their index, each with the number of its list. None: not known.
    components: Vec<Option<usize>>,
    /// The instances by their index.
    instances: Vec<Option<usize>>,
    exports: Vec<(&'a str, Item)>,
    /// A section could not be read, and the indices after it are not known.
    is_damaged: bool,
}

enum Item {
    Instance(Option<usize>),
    Function,
    Other,
}

impl<'a> Outline<'a> {
    /// Reads a section that is in so many components and modules. Those of the outermost component
    /// and the exports of the components in it matter.
    pub(super) fn read(&mut self, depth: u32, payload: &Payload<'a>) {
        if self.is_damaged || depth > 1 {
            return;
        }
        let read = match depth {
            0 => self.outermost(payload),
            _ => self.inside(payload),
        };
        self.is_damaged = read.is_err();
    }

    /// The exports. None: they are not known.
    pub(super) fn exports(self) -> Option<Vec<Export<'a>>> {
        let functions = |list: Option<usize>| Some(self.lists.get(list?)?.clone());
        let export = |(name, item)| match item {
            Item::Instance(list) => Export::Instance(name, functions(list)),
            Item::Function => Export::Function(name),
            Item::Other => Export::Other,
        };
        (!self.is_damaged).then(|| self.exports.into_iter().map(export).collect())
    }

    fn outermost(&mut self, payload: &Payload<'a>) -> wasmparser::Result<()> {
        match payload {
            Payload::ComponentSection { .. } => {
                let list = self.list(Vec::new());
                self.components.push(Some(list));
            }
            Payload::ComponentImportSection(section) => {
                for import in section.clone() {
                    match import?.ty {
                        ComponentTypeRef::Instance(_) => self.instances.push(None),
                        ComponentTypeRef::Component(_) => self.components.push(None),
                        _ => {}
                    }
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section.clone() {
                    match alias? {
                        ComponentAlias::InstanceExport { kind, .. } => self.unknown(kind),
                        ComponentAlias::Outer {
                            kind: ComponentOuterAliasKind::Component,
                            ..
                        } => self.components.push(None),
                        _ => {}
                    }
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section.clone() {
                    let list = match instance? {
                        ComponentInstance::Instantiate {
                            component_index, ..
                        } => at(&self.components, component_index),
                        ComponentInstance::FromExports(exports) => {
                            let functions = exports
                                .iter()
                                .filter(|export| export.kind == ComponentExternalKind::Func)
                                .map(|export| export.name.name)
                                .collect();
                            Some(self.list(functions))
                        }
                    };
                    self.instances.push(list);
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section.clone() {
                    let export = export?;
                    let item = match export.kind {
                        ComponentExternalKind::Instance => {
                            let list = at(&self.instances, export.index);
                            self.instances.push(list);
                            Item::Instance(list)
                        }
                        ComponentExternalKind::Func => Item::Function,
                        kind => {
                            self.unknown(kind);
                            Item::Other
                        }
                    };
                    self.exports.push((export.name.name, item));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An item of the index space of its kind, without its exports.
    fn unknown(&mut self, kind: ComponentExternalKind) {
        match kind {
            ComponentExternalKind::Instance => self.instances.push(None),
            ComponentExternalKind::Component => self.components.push(None),
            _ => {}
        }
    }

    fn inside(&mut self, payload: &Payload<'a>) -> wasmparser::Result<()> {
        // A core module has no such section.
        if let (Payload::ComponentExportSection(section), Some(list)) =
            (payload, self.lists.last_mut())
        {
            for export in section.clone() {
                let export = export?;
                if export.kind == ComponentExternalKind::Func {
                    list.push(export.name.name);
                }
            }
        }
        Ok(())
    }

    fn list(&mut self, functions: Vec<&'a str>) -> usize {
        self.lists.push(functions);
        self.lists.len() - 1
    }
}

fn at(items: &[Option<usize>], index: u32) -> Option<usize> {
    *items.get(index as usize)?
}
