//! Exchanges plugins between the processes of a cluster through their store.
//!
//! A process keeps in the store all components that it loads from its folder, and loads the
//! components that other processes keep there, under the grants of its own configuration. A
//! component from the store has no file: its digest, its signature or the library proves that a
//! grant applies to it. A run names its components by digest, so every process that takes the run
//! over finds them.
//!
//! A process prefers its own file to a component of the same version from the store.
//!
//! At intervals each process reports the components of its files and of the published workflows. A
//! component that no process has reported for a week, and that no run uses, is deleted from the
//! store. Then only processes with a file of it have it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use windlass_model::{Clock, Code, Digest};
use windlass_periodic::{Bell, Periodic, Rest};
use windlass_plugins::{Host, Plugin, Signed};
use windlass_store::components::{NewComponent, Stored, SweepComponents};
use windlass_store::published::PublicationQuery;
use windlass_store::{Store, Writer as _};

use crate::catalog;
use crate::error::Error;
use crate::shared::Base;

/// The number of components in one read.
const PAGE: u32 = 64;

/// The shortest time between two rounds.
const PACE: Duration = Duration::from_secs(1);

/// The longest time between two rounds without a notification.
const EVERY: Duration = Duration::from_secs(30);

/// How often used components are reported and unused ones deleted.
const UPKEEP: Duration = Duration::from_secs(3_600);

/// How long an unused component is kept, in milliseconds.
const KEPT_MS: u64 = 7 * 24 * 3_600_000;

/// The store's refusals of a component that are final for every process.
const REFUSALS: [Code; 2] = [
    windlass_store::codes::CONTRADICTION,
    windlass_store::codes::TOO_MANY_COMPONENTS,
];

/// The component with this digest, loaded here or kept in the store. The store is also read if the
/// component is loaded without a proof, since a signature may have arrived. May compile the
/// component.
pub(crate) fn find(
    store: &dyn Store,
    plugins: &Host,
    digest: &Digest,
) -> Result<Arc<Plugin>, Error> {
    let here = match plugins.plugin(digest) {
        Ok(plugin) if plugin.is_unproved() => Ok(plugin),
        Err(error) if error.code == windlass_plugins::codes::NOT_STORED => Err(error),
        found => return Ok(found?),
    };
    match stored(store, plugins, digest)? {
        Some(plugin) => Ok(plugin),
        None => Ok(here?),
    }
}

/// The component with this digest from the store, with the proof of its signature.
fn stored(
    store: &dyn Store,
    plugins: &Host,
    digest: &Digest,
) -> Result<Option<Arc<Plugin>>, Error> {
    let Some(Stored { bytes, signature }) = store.component(*digest)? else {
        return Ok(None);
    };
    // If a file contains the component, that file remains its source.
    let here = plugins.registry().by_digest(digest);
    let name = here.map_or_else(
        || digest.to_string(),
        |plugin| plugin.file.display().to_string(),
    );
    let plugin = plugins.load_signed(&name, bytes.to_vec(), signature.as_deref())?;
    // A component that was damaged on the way has another digest.
    Ok((plugin.digest == *digest).then_some(plugin))
}

/// Begins to exchange components; `changed` is called when plugins have arrived.
///
/// # Errors
///
/// The thread cannot be started.
pub(crate) fn share(
    base: &Base,
    bell: Bell,
    changed: impl Fn() + Send + 'static,
) -> std::io::Result<Periodic> {
    let mut exchange = Exchange::new(
        Arc::clone(&base.store),
        Arc::clone(&base.plugins),
        Arc::clone(&base.clock),
    );
    Periodic::start_with("components", bell, move |_| {
        match exchange.round() {
            Ok(true) => changed(),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(code = %error.code(), %error, "cannot exchange plugins");
            }
        }
        Rest::until_rung(PACE, EVERY)
    })
}

/// The exchange of one process with the store.
struct Exchange {
    store: Arc<dyn Store>,
    plugins: Arc<Host>,
    clock: Arc<dyn Clock>,
    /// The newest generation that was read.
    generation: i64,
    /// The components in the store as far as they were read, whether or not they were loaded, each
    /// with the mark of its signature.
    known: Known,
    /// The signatures that this process vouches for and that the store has had. Each is written
    /// once, so that two processes that trust different keys do not replace each other's signature
    /// for ever.
    vouched: FxHashSet<(Digest, Digest)>,
    /// The components that the store has refused.
    refused: FxHashSet<Digest>,
    /// The components that could not be read or loaded, to be tried again.
    missed: Vec<Offer>,
    /// When to report the used components again.
    upkeep: Duration,
}

/// Components with the mark of their signature: the digest of its text.
type Known = FxHashMap<Digest, Option<Digest>>;

/// A component in the store.
struct Offer {
    digest: Digest,
    name: String,
    version: String,
}

/// The result of an offer.
enum Taking {
    Taken,
    /// This process does not use it.
    Left,
    /// It could not be read or loaded.
    Missed,
}

impl Exchange {
    fn new(store: Arc<dyn Store>, plugins: Arc<Host>, clock: Arc<dyn Clock>) -> Self {
        let upkeep = clock.monotonic();
        Self {
            store,
            plugins,
            clock,
            generation: 0,
            known: Known::default(),
            vouched: FxHashSet::default(),
            refused: FxHashSet::default(),
            missed: Vec::new(),
            upkeep,
        }
    }

    /// Loads new components, and writes those that are missing in the store. Returns whether a
    /// component was loaded.
    fn round(&mut self) -> Result<bool, Error> {
        let now = self.clock.monotonic();
        let mut taken = self.take_missed()?;
        if now < self.upkeep {
            taken |= self.look(&mut Known::default())?;
            self.give_all()?;
            return Ok(taken);
        }
        // Read from the beginning, to find components that were deleted.
        self.generation = 0;
        let mut there = Known::default();
        taken |= self.look(&mut there)?;
        self.known = there;
        self.refused.clear();
        self.drop_forgotten();
        self.give_all()?;
        self.sweep()?;
        self.upkeep = now + UPKEEP;
        Ok(taken)
    }

    /// Loads new components, and adds the components that it has read to `there`.
    fn look(&mut self, there: &mut Known) -> Result<bool, Error> {
        let mut taken = false;
        loop {
            let page = self.store.components(self.generation, PAGE)?;
            for row in &page {
                // A component that was seen before and is not loaded was refused here, or its file
                // was removed.
                let before = self.known.insert(row.digest, row.signature);
                let here = self.plugins.registry().by_digest(&row.digest);
                let is_wanted = match (before, here) {
                    (None, None) => true,
                    // A new signature may prove a component that was loaded without a proof.
                    (before, Some(here)) if row.signature.is_some() => {
                        before != Some(row.signature) && here.is_unproved()
                    }
                    _ => false,
                };
                if is_wanted {
                    taken |= self.take(Offer {
                        digest: row.digest,
                        name: row.name.clone(),
                        version: row.version.clone(),
                    })?;
                }
                self.generation = row.generation;
                there.insert(row.digest, row.signature);
            }
            if page.len() < PAGE as usize {
                return Ok(taken);
            }
        }
    }

    fn give_all(&mut self) -> Result<(), Error> {
        for plugin in self.plugins.registry().iter() {
            let digest = plugin.digest;
            let signed = plugin.signature();
            let mark = signed
                .as_ref()
                .map(|signed| Digest::of(signed.text.as_bytes()));
            let vouched = signed.as_ref().is_some_and(|signed| signed.vouched);
            let once = mark.filter(|_| vouched).map(|mark| (digest, mark));
            let is_there = match self.known.get(&digest) {
                None => false,
                Some(None) => mark.is_none(),
                Some(there) if *there == mark => {
                    self.vouched.extend(once);
                    true
                }
                Some(_) => once.is_none_or(|once| self.vouched.contains(&once)),
            };
            if is_there || self.refused.contains(&digest) {
                continue;
            }
            if self.give(&plugin, signed)? {
                self.known.insert(digest, mark);
                self.vouched.extend(once);
            } else {
                self.refused.insert(digest);
            }
        }
        Ok(())
    }

    /// Unloads components from the store that the store has deleted as unused: a process that takes
    /// a run over would not find them.
    fn drop_forgotten(&self) {
        for plugin in self.plugins.registry().iter() {
            if self.is_from_store(&plugin) && !self.known.contains_key(&plugin.digest) {
                self.plugins.registry().remove(&place(&plugin));
                tracing::info!(plugin = plugin.name(), digest = %plugin.digest, "forgotten by the store");
            }
        }
    }

    /// Whether no file of this process contains it.
    fn is_from_store(&self, plugin: &Plugin) -> bool {
        self.plugins.registry().files(&plugin.digest) == [place(plugin)]
    }

    /// Reports the used components, and lets the store delete unused ones.
    fn sweep(&self) -> Result<(), Error> {
        let plugins = self.plugins.registry().iter().into_iter();
        let own = plugins.filter(|plugin| !self.is_from_store(plugin));
        let mut used: FxHashSet<Digest> = own.map(|plugin| plugin.digest).collect();
        self.add_published(&mut used)?;
        let at_ms = self.clock.wall_ms();
        let mut used: Vec<Digest> = used.into_iter().collect();
        loop {
            let swept = self.store.write(SweepComponents {
                used: std::mem::take(&mut used),
                before_ms: at_ms.saturating_sub_unsigned(KEPT_MS),
                at_ms,
            })?;
            if !swept.more {
                return Ok(());
            }
        }
    }

    /// Adds the components that runs of published workflows would start with now.
    fn add_published(&self, used: &mut FxHashSet<Digest>) -> Result<(), Error> {
        let mut query = PublicationQuery {
            limit: PAGE,
            ..PublicationQuery::default()
        };
        loop {
            let page = self.store.publications(&query)?;
            for row in &page {
                if let Some(definition) = self.store.definition(row.definition)? {
                    used.extend(catalog::uses(&definition, &self.plugins));
                }
            }
            if page.len() < PAGE as usize {
                return Ok(());
            }
            query.after = page.last().map(|row| row.name.clone());
        }
    }

    /// Loads an offered component. Returns whether it was loaded.
    fn take(&mut self, offer: Offer) -> Result<bool, Error> {
        let taking = self.load(&offer);
        if matches!(taking, Ok(Taking::Missed) | Err(_)) {
            self.missed.push(offer);
        }
        taking.map(|taking| matches!(taking, Taking::Taken))
    }

    /// Tries the components again that could not be read or loaded before.
    fn take_missed(&mut self) -> Result<bool, Error> {
        let mut taken = false;
        let mut offers = std::mem::take(&mut self.missed).into_iter();
        while let Some(offer) = offers.next() {
            match self.take(offer) {
                Ok(one) => taken |= one,
                Err(error) => {
                    self.missed.extend(offers);
                    return Err(error);
                }
            }
        }
        Ok(taken)
    }

    /// Loads an offered component. A component that cannot be used is logged once.
    fn load(&self, offer: &Offer) -> Result<Taking, Error> {
        let Offer {
            digest,
            name,
            version,
        } = offer;
        let plugin = match find(self.store.as_ref(), &self.plugins, digest) {
            Ok(plugin) => plugin,
            Err(Error::Store(error)) => return Err(error.into()),
            Err(error) if error.is_compiling() => return Ok(Taking::Missed),
            Err(error) => {
                tracing::warn!(plugin = name, version, %digest, %error, "cannot load a plugin that another process has");
                return Ok(if error.code() == windlass_plugins::codes::FILE {
                    Taking::Missed
                } else {
                    Taking::Left
                });
            }
        };
        let registry = self.plugins.registry();
        if registry.by_digest(digest).is_some() {
            // The component is loaded here; only its signature was new.
            if plugin.is_unproved() || !registry.replace(&plugin) {
                return Ok(Taking::Left);
            }
            tracing::info!(plugin = name, version, %digest, "proved by a signature from the store");
            return Ok(Taking::Taken);
        }
        match registry.insert(&place(&plugin), &plugin) {
            Ok(()) => {
                tracing::info!(plugin = name, version, %digest, "loaded from the store");
                Ok(Taking::Taken)
            }
            Err(error) => {
                tracing::debug!(plugin = name, version, %digest, %error, "a file of this process is used instead");
                Ok(Taking::Left)
            }
        }
    }

    /// Writes a component to the store. Returns whether the store has it.
    fn give(&self, plugin: &Plugin, signed: Option<Signed>) -> Result<bool, Error> {
        let new = NewComponent {
            digest: plugin.digest,
            name: plugin.description.package.clone(),
            version: plugin.description.version.to_string(),
            bytes: self.plugins.component(&plugin.digest)?.into(),
            vouched: signed.as_ref().is_some_and(|signed| signed.vouched),
            signature: signed.map(|signed| signed.text.to_string()),
        };
        match self.store.write(new) {
            Ok(()) => {
                self.store.notify();
                Ok(true)
            }
            Err(error) if REFUSALS.contains(&error.code) => {
                tracing::warn!(plugin = plugin.name(), code = %error.code, %error, "others cannot be given a plugin");
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The registry's path of a component without a file. Of one version, the component that was
/// written last replaces the one before.
fn place(plugin: &Plugin) -> PathBuf {
    let description = &plugin.description;
    PathBuf::from(format!(
        "store:{}@{}",
        description.package, description.version
    ))
}

#[cfg(test)]
mod tests;
