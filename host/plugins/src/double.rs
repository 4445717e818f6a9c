//! Plugins that only have a description. A simulation of the host answers their calls itself; a
//! call that reaches such a plugin fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use wasmtime::component::Component;
use windlass_model::Digest;

use crate::Host;
use crate::call::plugin::{Entries, Plugin, Purity};
use crate::call::slot::Slots;
use crate::codes;
use crate::description::Description;
use crate::error::{Error, chain};
use crate::grant;
use crate::grant::proof::{Proof, Standing};
use crate::grant::settings::{Isolation, Settings};
use crate::hold::budget::flow::Flows;
use crate::hold::lane::Track;
use crate::hold::quarantine::Quarantine;
use crate::offer::imports::Imports;
use crate::offer::terms::Terms;

/// An empty component.
const EMPTY: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];

impl Host {
    /// Registers a plugin that has only this description.
    ///
    /// # Errors
    ///
    /// The mistakes in the description.
    pub fn double(&self, description: &[u8]) -> Result<Arc<Plugin>, Error> {
        let description = Description::read("double", description)?;
        let shared = &self.load;
        let fault = |error| Error::new(codes::ENGINE, "double", chain(&error));
        let component = Component::new(&shared.calls.engine, EMPTY).map_err(fault)?;
        let imports = Imports::of(&shared.calls.engine, &component, "double")?;
        let settings = Settings::default();
        let standing = Standing::Proved(Proof::Library);
        let terms = Terms {
            name: format!("{}@{}", description.package, description.version),
            limits: grant::limits(&shared.rules, &settings, &standing),
            grants: grant::grants(&settings, &standing, &description, imports.http),
            standing,
            track: Arc::new(Track::new()),
            rules: Some(shared.rules.now()),
        };
        let name = terms.name.clone();
        let calls = shared.metrics.plugin_call(&description.package);
        let flows = Flows::new(terms.track.id, 0);
        let plugin = Arc::new(Plugin {
            digest: Digest::of(name.as_bytes()),
            file: PathBuf::from(&name),
            signature: Mutex::default(),
            description,
            purity: Purity::Pure,
            imports: imports.names,
            shared: Arc::clone(&shared.calls),
            terms: Arc::new(terms),
            pre: shared.plain.instantiate_pre(&component).map_err(fault)?,
            entries: Entries::default(),
            slots: Slots::new(Isolation::Warm),
            flows,
            found_no_room: AtomicBool::new(false),
            quarantine: Quarantine::new(None),
            calls,
            waits: false,
            reads: false,
        });
        let mut plugins = shared.calls.plugins.lock();
        plugins.insert(plugin.digest, Arc::downgrade(&plugin));
        drop(plugins);
        self.registry().insert(Path::new(&name), &plugin)?;
        Ok(plugin)
    }
}
