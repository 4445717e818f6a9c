//! Data about published workflows, kept while their edition is current.
//!
//! A request uses them without reading the store. The transaction that it leads to checks the edition
//! ([`NewRun::as_of`](windlass_store::rows::NewRun::as_of)), so that a publication by any process is
//! noticed in time.

use std::borrow::Borrow;
use std::hash::Hash;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use windlass_store::Store;
use windlass_store::published::Edition;

/// The most kept values; beyond it, all are dropped.
const MOST: usize = 4096;

/// Values that were read in one edition, by key. The caller bounds the size of each.
pub struct OfEdition<K, V> {
    kept: Mutex<(Option<Edition>, FxHashMap<K, V>)>,
}

impl<K, V> Default for OfEdition<K, V> {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
        }
    }
}

impl<K: Hash + Eq, V: Clone> OfEdition<K, V> {
    /// The value of a key, with the edition in which it was read, which is the current one.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, store: &dyn Store, key: &Q) -> Option<(V, Edition)>
    where
        K: Borrow<Q>,
    {
        let edition = store.edition()?;
        let kept = self.kept.lock();
        let value = kept.1.get(key).filter(|_| kept.0 == Some(edition))?;
        Some((value.clone(), edition))
    }

    /// Keeps a value that was read after the edition. Nothing is kept without an edition.
    pub fn keep(&self, edition: Option<Edition>, key: K, value: V) {
        if edition.is_none() {
            return;
        }
        let mut kept = self.kept.lock();
        if kept.0 != edition {
            // A reader that was slow brings an older edition, and no start asks for that any more.
            *kept = (edition, FxHashMap::default());
        }
        if kept.1.len() >= MOST {
            kept.1.clear();
        }
        kept.1.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_an_earlier_edition_are_forgotten() {
        let kept = OfEdition::<&str, u8>::default();
        let len = |kept: &OfEdition<&str, u8>| kept.kept.lock().1.len();
        kept.keep(None, "none", 1);
        assert_eq!(len(&kept), 0);
        kept.keep(Some(Edition(1)), "a", 1);
        kept.keep(Some(Edition(1)), "b", 2);
        assert_eq!(len(&kept), 2);
        kept.keep(Some(Edition(2)), "a", 3);
        assert_eq!(len(&kept), 1);
    }
}
