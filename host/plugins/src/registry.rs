//! The registered plugins.
//!
//! Readers see one consistent state, which is replaced as a whole. A replaced plugin lives on for
//! its holders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use semver::{Version, VersionReq};
use windlass_model::definition::UseRef;
use windlass_model::{Digest, TriggerType};

use crate::call::plugin::Plugin;
use crate::codes;
use crate::consumers::Consumers;
use crate::description::{Description, NodeType};
use crate::error::Error;
use crate::grant::proof::Standing;

/// The plugins for new work.
#[derive(Default)]
pub struct Registry {
    picture: ArcSwap<Picture>,
    /// Counts the pictures.
    generation: AtomicU64,
    /// Held while a new state is derived from the old one.
    change: Mutex<()>,
}

#[derive(Clone, Default)]
struct Picture {
    files: BTreeMap<PathBuf, Arc<Plugin>>,
    packages: BTreeMap<String, BTreeMap<Version, Arc<Plugin>>>,
    consumers: Consumers<Arc<Plugin>>,
}

/// The node type does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Missing {
    /// The missing name, and the existing alternatives.
    pub message: String,
    /// The nearest name that exists, as `package/name`.
    pub nearest: Option<String>,
    /// Whether the whole package is missing.
    pub is_package: bool,
}

impl Registry {
    /// The newest plugin that fits, and its node type.
    ///
    /// # Errors
    ///
    /// [`Missing`] says whether the package, the version or the name is missing.
    pub fn node(&self, wanted: &UseRef) -> Result<(Arc<Plugin>, Arc<NodeType>), Missing> {
        let picture = self.picture.load();
        let Some(versions) = picture.packages.get(&wanted.package) else {
            let nearest = picture.nearest(wanted);
            let message = format!("there is no plugin `{}`", wanted.package);
            return Err(Missing {
                message,
                nearest,
                is_package: true,
            });
        };
        let fits = |version: &Version| match wanted.requirement.as_deref().map(VersionReq::parse) {
            None => Ok(true),
            Some(Ok(requirement)) => Ok(requirement.matches(version)),
            Some(Err(error)) => Err(Missing {
                message: format!("`{wanted}` names no version that can be read: {error}"),
                nearest: None,
                is_package: false,
            }),
        };
        let mut fitting = None;
        for (version, plugin) in versions.iter().rev() {
            if !fits(version)? {
                continue;
            }
            if let Some(node) = plugin.node(&wanted.name) {
                return Ok((Arc::clone(plugin), Arc::clone(node)));
            }
            fitting.get_or_insert(version);
        }
        let message = match fitting {
            Some(version) => {
                format!(
                    "`{}` {version} has no node type `{}`",
                    wanted.package, wanted.name
                )
            }
            None => {
                let there: Vec<String> = versions.keys().map(Version::to_string).collect();
                let there = there.join(", ");
                format!(
                    "no version of `{}` fits `{wanted}`: there is {there}",
                    wanted.package
                )
            }
        };
        Err(Missing {
            message,
            nearest: picture.nearest(wanted),
            is_package: false,
        })
    }

    /// The consumer of triggers of this type and route. One that names the type precedes one that
    /// takes every type; then the name of the package decides, and then the newest version. A
    /// consumer with routes gets triggers of these routes only; a route without a consumer has no
    /// substitute.
    pub fn consumer(&self, kind: TriggerType, route: Option<&str>) -> Option<Arc<Plugin>> {
        self.picture.load().consumers.get(kind, route).cloned()
    }

    /// A component that would consume triggers of this type and route if it had a grant to be a
    /// consumer, for messages.
    pub fn kept_out(&self, kind: TriggerType, route: Option<&str>) -> Option<Arc<Plugin>> {
        let all = self.iter();
        let kept_out = all.iter().filter(|plugin| plugin.consumer().is_none());
        let exported = kept_out.filter_map(|plugin| {
            let described = plugin.description.consumer.as_ref()?;
            Some((described, Arc::clone(plugin)))
        });
        Consumers::of(exported).get(kind, route).cloned()
    }

    /// The plugin of this digest, if it is registered.
    pub fn by_digest(&self, digest: &Digest) -> Option<Arc<Plugin>> {
        self.iter()
            .into_iter()
            .find(|plugin| plugin.digest == *digest)
    }

    /// Whether a version of this package is registered.
    pub fn has(&self, package: &str) -> bool {
        self.picture.load().packages.contains_key(package)
    }

    /// All plugins, by package and version.
    pub fn iter(&self) -> Vec<Arc<Plugin>> {
        let picture = self.picture.load();
        picture
            .packages
            .values()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// Registers a plugin, and replaces the previous plugin of the same file.
    ///
    /// # Errors
    ///
    /// [`codes::CONFLICT`] if another file offers the same version of the same package with other
    /// bytes. Nothing changes then.
    pub fn insert(&self, file: &Path, plugin: &Arc<Plugin>) -> Result<(), Error> {
        let _change = self.change.lock();
        self.check(file, &plugin.digest, &plugin.description)?;
        let mut files = self.picture.load().files.clone();
        files.insert(file.to_owned(), Arc::clone(plugin));
        windlass_model::failpoint::pass("plugin-swap");
        self.show(files);
        Ok(())
    }

    /// Whether a component with this digest and description could be registered for this file.
    ///
    /// # Errors
    ///
    /// As [`Self::insert`].
    pub(crate) fn check(
        &self,
        file: &Path,
        digest: &Digest,
        description: &Description,
    ) -> Result<(), Error> {
        let picture = self.picture.load();
        let mut others = picture.files.iter().filter(|(other, _)| *other != file);
        let same = |there: &Plugin| {
            there.description.package == description.package
                && there.description.version == description.version
                && there.digest != *digest
        };
        match others.find(|(_, there)| same(there)) {
            None => Ok(()),
            Some((other, _)) => Err(conflict(file, description, other)),
        }
    }

    /// Removes the plugin of this file, and returns it.
    pub fn remove(&self, file: &Path) -> Option<Arc<Plugin>> {
        let _change = self.change.lock();
        let mut files = self.picture.load().files.clone();
        let removed = files.remove(file)?;
        self.show(files);
        Some(removed)
    }

    /// Removes all but the plugins of these digests, from all files.
    pub(crate) fn keep(&self, is_kept: impl Fn(&Digest) -> bool) {
        self.rewrite(|files| {
            let before = files.len();
            files.retain(|_, plugin| is_kept(&plugin.digest));
            files.len() < before
        });
    }

    /// Replaces all plugins of the same digest. Returns whether there is one.
    pub fn replace(&self, plugin: &Arc<Plugin>) -> bool {
        self.rewrite(|files| {
            let mut some = false;
            for there in files.values_mut() {
                if there.digest == plugin.digest {
                    *there = Arc::clone(plugin);
                    some = true;
                }
            }
            some
        })
    }

    /// Replaces the state if `write` changes it. Returns whether it does.
    fn rewrite(&self, write: impl FnOnce(&mut BTreeMap<PathBuf, Arc<Plugin>>) -> bool) -> bool {
        let _change = self.change.lock();
        let mut files = self.picture.load().files.clone();
        let is_changed = write(&mut files);
        if is_changed {
            self.show(files);
        }
        is_changed
    }

    fn show(&self, files: BTreeMap<PathBuf, Arc<Plugin>>) {
        self.picture.store(Arc::new(Picture::of(files)));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Counts the changes. While it stays, the registry answers each question as before.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The files that contain the component of this digest.
    pub fn files(&self, digest: &Digest) -> Vec<PathBuf> {
        let picture = self.picture.load();
        let files = picture.files.iter();
        let files = files.filter(|(_, plugin)| plugin.digest == *digest);
        files.map(|(file, _)| file.clone()).collect()
    }

    /// The plugin of this file.
    pub fn file(&self, file: &Path) -> Option<Arc<Plugin>> {
        self.picture.load().files.get(file).cloned()
    }
}

/// The error of a file with a version that another file offers.
pub(crate) fn conflict(file: &Path, description: &Description, other: &Path) -> Error {
    let Description {
        package, version, ..
    } = description;
    let other = other.display();
    let message = format!("{package}@{version} is offered by {other} already");
    Error::new(codes::CONFLICT, file.display().to_string(), message)
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Picture {
    fn of(files: BTreeMap<PathBuf, Arc<Plugin>>) -> Self {
        let mut packages: BTreeMap<String, BTreeMap<Version, Arc<Plugin>>> = BTreeMap::new();
        for plugin in files.values() {
            let versions = packages
                .entry(plugin.description.package.clone())
                .or_default();
            let there = versions.entry(plugin.description.version.clone());
            let there = there.or_insert_with(|| Arc::clone(plugin));
            // The same component is in two files, and only one of them proves it.
            if *there.standing() == Standing::Unproved {
                *there = Arc::clone(plugin);
            }
        }
        let newest = packages
            .values()
            .flat_map(|versions| versions.values().rev());
        let consumers = Consumers::of(newest.filter_map(|plugin: &Arc<Plugin>| {
            plugin.consumer().map(|takes| (takes, Arc::clone(plugin)))
        }));
        Self {
            files,
            packages,
            consumers,
        }
    }

    fn newest(&self) -> impl Iterator<Item = &Arc<Plugin>> {
        self.packages
            .values()
            .flat_map(|versions| versions.values().rev())
    }

    fn nearest(&self, wanted: &UseRef) -> Option<String> {
        let wanted = format!("{}/{}", wanted.package, wanted.name);
        self.newest()
            .flat_map(|plugin| plugin.description.nodes.iter())
            .map(|node| (strsim::jaro_winkler(&wanted, &node.id), &node.id))
            .filter(|(likeness, _)| *likeness > 0.7)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, id)| id.to_string())
    }
}
