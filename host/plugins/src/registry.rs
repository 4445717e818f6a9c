//! Which plugins there are now.
//!
//! Readers see one consistent picture, which is swapped as a whole. A plugin that is replaced
//! lives on for those who hold it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use semver::{Version, VersionReq};
use windlass_model::definition::UseRef;
use windlass_model::{Digest, TriggerType};

use crate::codes;
use crate::consumers::Consumers;
use crate::description::NodeType;
use crate::error::Error;
use crate::plugin::Plugin;
use crate::proof::Standing;

/// The plugins that new work is given to.
#[derive(Default)]
pub struct Registry {
    picture: ArcSwap<Picture>,
    /// Held by whoever makes a new picture of an old one.
    change: Mutex<()>,
}

#[derive(Clone, Default)]
struct Picture {
    files: BTreeMap<PathBuf, Arc<Plugin>>,
    packages: BTreeMap<String, BTreeMap<Version, Arc<Plugin>>>,
    consumers: Consumers<Arc<Plugin>>,
}

/// There is no such node type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Missing {
    /// What is missing, and what there is in its place.
    pub message: String,
    /// The nearest name that exists, as `package/name`.
    pub nearest: Option<String>,
}

impl Registry {
    /// The newest plugin that fits, and its node type.
    ///
    /// # Errors
    ///
    /// [`Missing`] says whether it is the package, the version or the name.
    pub fn node(&self, wanted: &UseRef) -> Result<(Arc<Plugin>, Arc<NodeType>), Missing> {
        let picture = self.picture.load();
        let Some(versions) = picture.packages.get(&wanted.package) else {
            let nearest = picture.nearest(wanted);
            let message = format!("there is no plugin `{}`", wanted.package);
            return Err(Missing { message, nearest });
        };
        let fits = |version: &Version| match wanted.requirement.as_deref().map(VersionReq::parse) {
            None => Ok(true),
            Some(Ok(requirement)) => Ok(requirement.matches(version)),
            Some(Err(error)) => Err(Missing {
                message: format!("`{wanted}` names no version that can be read: {error}"),
                nearest: None,
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
        })
    }

    /// Who decides about triggers of this type and route: who names the type before who takes
    /// every type, then by the name of the package, the newest version first. A consumer that
    /// has routes gets triggers of these routes and no others; a route that nobody takes has no
    /// consumer, whoever else there is.
    pub fn consumer(&self, kind: TriggerType, route: Option<&str>) -> Option<Arc<Plugin>> {
        self.picture.load().consumers.get(kind, route).cloned()
    }

    /// A component that would be asked about triggers of this type and route if it were granted
    /// to be a consumer, for messages.
    pub fn kept_out(&self, kind: TriggerType, route: Option<&str>) -> Option<Arc<Plugin>> {
        let all = self.iter();
        let kept_out = all.iter().filter(|plugin| plugin.consumer().is_none());
        let exported = kept_out.filter_map(|plugin| {
            let described = plugin.description.consumer.as_ref()?;
            Some((described, Arc::clone(plugin)))
        });
        Consumers::of(exported).get(kind, route).cloned()
    }

    /// The plugin of this digest, if it is among them.
    pub fn by_digest(&self, digest: &Digest) -> Option<Arc<Plugin>> {
        self.iter()
            .into_iter()
            .find(|plugin| plugin.digest == *digest)
    }

    /// All of them, by package and version.
    pub fn iter(&self) -> Vec<Arc<Plugin>> {
        let picture = self.picture.load();
        picture
            .packages
            .values()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// Takes a plugin in, in place of whatever the same file held before.
    ///
    /// # Errors
    ///
    /// [`codes::CONFLICT`] if another file offers the same version of the same package with
    /// other bytes. Nothing changes then.
    pub fn insert(&self, file: &Path, plugin: &Arc<Plugin>) -> Result<(), Error> {
        let _change = self.change.lock();
        let mut files = self.picture.load().files.clone();
        files.insert(file.to_owned(), Arc::clone(plugin));
        for (other, there) in &files {
            let same = there.description.package == plugin.description.package
                && there.description.version == plugin.description.version;
            if same && there.digest != plugin.digest {
                let message = format!(
                    "{} is offered by {} already",
                    plugin.name(),
                    other.display()
                );
                return Err(Error::new(
                    codes::CONFLICT,
                    file.display().to_string(),
                    message,
                ));
            }
        }
        windlass_model::failpoint::pass("plugin-swap");
        self.picture.store(Arc::new(Picture::of(files)));
        Ok(())
    }

    /// Takes out what this file held, and says what it was.
    pub fn remove(&self, file: &Path) -> Option<Arc<Plugin>> {
        let _change = self.change.lock();
        let mut files = self.picture.load().files.clone();
        let removed = files.remove(file)?;
        self.picture.store(Arc::new(Picture::of(files)));
        Some(removed)
    }

    /// Takes out all but the plugins of these digests, whatever files hold them.
    pub(crate) fn keep(&self, is_kept: impl Fn(&Digest) -> bool) {
        self.rewrite(|files| {
            let before = files.len();
            files.retain(|_, plugin| is_kept(&plugin.digest));
            files.len() < before
        });
    }

    /// Puts a plugin in the place of each that has the same digest. Answers whether there is one.
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

    /// Makes a new picture, if this changes something. Answers whether it does.
    fn rewrite(&self, write: impl FnOnce(&mut BTreeMap<PathBuf, Arc<Plugin>>) -> bool) -> bool {
        let _change = self.change.lock();
        let mut files = self.picture.load().files.clone();
        let is_changed = write(&mut files);
        if is_changed {
            self.picture.store(Arc::new(Picture::of(files)));
        }
        is_changed
    }

    /// The files that hold the component of this digest.
    pub fn files(&self, digest: &Digest) -> Vec<PathBuf> {
        let picture = self.picture.load();
        let files = picture.files.iter();
        let files = files.filter(|(_, plugin)| plugin.digest == *digest);
        files.map(|(file, _)| file.clone()).collect()
    }

    /// What this file holds.
    pub fn file(&self, file: &Path) -> Option<Arc<Plugin>> {
        self.picture.load().files.get(file).cloned()
    }
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
            // The same component twice, and only one of the files proves it.
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
