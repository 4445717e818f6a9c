//! Plugins that reach the processes of a cluster through their store.
//!
//! Whatever a process has loaded from its folder it keeps in the store for the others, and what
//! others keep there it loads, under the grants that its own configuration gives. What comes from
//! the store has no file: its digest, its signature or the library proves that a grant is about
//! it. A run names its components by digest, so whichever process takes it over finds them.
//!
//! A file of the process's own is preferred to what the store has of the same version.
//!
//! Now and then each process says which components it has files of, and which the published
//! workflows use. What nobody has named for a week, and no run names, is forgotten, and then
//! nobody has it any more who has no file of it.

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

/// Components that are looked at in one go.
const PAGE: u32 = 64;

/// From one look to the next, at least.
const PACE: Duration = Duration::from_secs(1);

/// From one look to the next, if nobody says that there is something new.
const EVERY: Duration = Duration::from_secs(30);

/// How often it is said what is used, and looked for what is not.
const UPKEEP: Duration = Duration::from_secs(3_600);

/// For how long what nobody uses is kept, in milliseconds.
const KEPT_MS: u64 = 7 * 24 * 3_600_000;

/// What the store says of a component that it will not keep, whoever asks.
const REFUSALS: [Code; 2] = [
    windlass_store::codes::CONTRADICTION,
    windlass_store::codes::TOO_MANY_COMPONENTS,
];

/// The component of this digest: what is here, or what somebody keeps in the store. The store is
/// also asked about what is here without a proof, since a signature may have come. May compile
/// it.
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

/// The component of this digest that somebody keeps in the store, with what its signature proves.
fn stored(
    store: &dyn Store,
    plugins: &Host,
    digest: &Digest,
) -> Result<Option<Arc<Plugin>>, Error> {
    let Some(Stored { bytes, signature }) = store.component(*digest)? else {
        return Ok(None);
    };
    // A file that holds it stays the place where it is from.
    let here = plugins.registry().by_digest(digest);
    let name = here.map_or_else(
        || digest.to_string(),
        |plugin| plugin.file.display().to_string(),
    );
    let plugin = plugins.load_signed(&name, bytes.to_vec(), signature.as_deref())?;
    // What was damaged on its way is another component.
    Ok((plugin.digest == *digest).then_some(plugin))
}

/// Begins to exchange components; `changed` is called when plugins have come.
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

/// What a process has given and taken.
struct Exchange {
    store: Arc<dyn Store>,
    plugins: Arc<Host>,
    clock: Arc<dyn Clock>,
    /// The newest that was looked at.
    generation: i64,
    /// What the store has, as far as it was looked at, and the mark of its signature; whether or
    /// not it was taken.
    known: Known,
    /// The signatures that this process vouches for and that the store has had: each is given
    /// once, so that two processes that trust different keys do not go on in turns.
    vouched: FxHashSet<(Digest, Digest)>,
    /// What the store has not taken.
    refused: FxHashSet<Digest>,
    /// What could not be read or kept here, to be tried again.
    missed: Vec<Offer>,
    /// When to say again what is used.
    upkeep: Duration,
}

/// Components, and by what their signatures are known: the digest of the text.
type Known = FxHashMap<Digest, Option<Digest>>;

/// A component that the store has.
struct Offer {
    digest: Digest,
    name: String,
    version: String,
}

/// What became of an offer.
enum Taking {
    Taken,
    /// It is of no use here.
    Left,
    /// It could not be read or kept.
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

    /// Takes what is new, and gives what nobody has given. Answers whether something was taken.
    fn round(&mut self) -> Result<bool, Error> {
        let now = self.clock.monotonic();
        let mut taken = self.take_missed()?;
        if now < self.upkeep {
            taken |= self.look(&mut Known::default())?;
            self.give_all()?;
            return Ok(taken);
        }
        // From the beginning, to see what is not there any more.
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

    /// Takes what is new, and adds what was looked at to what is there.
    fn look(&mut self, there: &mut Known) -> Result<bool, Error> {
        let mut taken = false;
        loop {
            let page = self.store.components(self.generation, PAGE)?;
            for row in &page {
                // What was seen before and is not used was left, or its file was taken away.
                let before = self.known.insert(row.digest, row.signature);
                let here = self.plugins.registry().by_digest(&row.digest);
                let is_wanted = match (before, here) {
                    (None, None) => true,
                    // A new signature may prove now what was loaded without a proof.
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

    /// Takes what came from the store and was forgotten there out of use: nobody would find it
    /// who takes a run over.
    fn drop_forgotten(&self) {
        for plugin in self.plugins.registry().iter() {
            if self.is_from_store(&plugin) && !self.known.contains_key(&plugin.digest) {
                self.plugins.registry().remove(&place(&plugin));
                tracing::info!(plugin = plugin.name(), digest = %plugin.digest, "forgotten by the store");
            }
        }
    }

    /// Whether no file of this process holds it.
    fn is_from_store(&self, plugin: &Plugin) -> bool {
        self.plugins.registry().files(&plugin.digest) == [place(plugin)]
    }

    /// Says what is used, and lets the store forget what is not.
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

    /// Adds what published workflows run on if they start now.
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

    /// Takes what somebody else has given, and answers whether it did.
    fn take(&mut self, offer: Offer) -> Result<bool, Error> {
        let taking = self.load(&offer);
        if matches!(taking, Ok(Taking::Missed) | Err(_)) {
            self.missed.push(offer);
        }
        taking.map(|taking| matches!(taking, Taking::Taken))
    }

    /// Takes what could not be read or kept before.
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

    /// Loads what somebody else has given. What cannot be used is said once.
    fn load(&self, offer: &Offer) -> Result<Taking, Error> {
        let Offer {
            digest,
            name,
            version,
        } = offer;
        let plugin = match find(self.store.as_ref(), &self.plugins, digest) {
            Ok(plugin) => plugin,
            Err(Error::Store(error)) => return Err(error.into()),
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
            // It is here, and the question was whether its signature proves it.
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

    /// Keeps a component in the store, and answers whether it is there.
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

/// What the registry has in the place of a file: of one version the newest that was given is
/// used, in the place of the one before.
fn place(plugin: &Plugin) -> PathBuf {
    let description = &plugin.description;
    PathBuf::from(format!(
        "store:{}@{}",
        description.package, description.version
    ))
}

#[cfg(test)]
mod tests;
