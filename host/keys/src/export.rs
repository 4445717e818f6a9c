//! The keys that sign exported runs, and the keys whose signatures an import accepts.
//!
//! A host signs with the newest key of its keyring. An import accepts the signatures of every key
//! of the keyring, and of the public keys of other hosts that the operator has listed, at most
//! [`MOST_TRUSTED`].

use std::sync::Arc;

use crate::keys::{Keys, KeysError};
use crate::minisign::{Name, PublicKey, Signature, Signer};
use crate::ring::{Key, Keyring};

/// The purpose of the derived keys.
const PURPOSE: &str = "windlass exports 1";

/// The most public keys of other hosts.
pub const MOST_TRUSTED: usize = 64;

/// The keyring of a host together with the public keys of other hosts that it trusts.
#[derive(Debug)]
pub struct ExportKeys {
    keys: Arc<Keys>,
    trusted: Vec<PublicKey>,
}

impl ExportKeys {
    /// Signs with a keyring, and accepts its signatures and those of the trusted keys.
    pub fn new(keys: Arc<Keys>, trusted: Vec<PublicKey>) -> Self {
        Self { keys, trusted }
    }

    /// Keys of a process without a keyring. They end with the process.
    pub fn of_test() -> Self {
        let keys = Keys::fixed(Keyring::random());
        Self::new(Arc::new(keys), Vec::new())
    }

    /// Signs an exported run with the newest key.
    ///
    /// # Errors
    ///
    /// The keyring cannot be read.
    pub fn sign(&self, document: &[u8], comment: &str) -> Result<Signature, KeysError> {
        let ring = self.keys.ring()?;
        let signer = self.signer(ring.newest())?;
        Ok(signer.sign(document, comment))
    }

    /// The known key that signed this document; none if no known key has.
    ///
    /// # Errors
    ///
    /// The keyring cannot be read.
    pub fn signed_by(
        &self,
        document: &[u8],
        signature: &Signature,
    ) -> Result<Option<Name>, KeysError> {
        let known = self.known(signature.name())?;
        let mut known = known.iter();
        Ok(known
            .any(|key| signature.is_of(key, document))
            .then(|| signature.name()))
    }

    /// Whether there is a known key of this name.
    ///
    /// # Errors
    ///
    /// The keyring cannot be read.
    pub fn knows(&self, name: Name) -> Result<bool, KeysError> {
        Ok(!self.known(name)?.is_empty())
    }

    /// The public keys of the keyring, the one that signs last.
    ///
    /// # Errors
    ///
    /// The keyring cannot be read.
    pub fn own(&self) -> Result<Vec<PublicKey>, KeysError> {
        self.public(&*self.keys.ring()?)
    }

    /// The known keys of a name. A name proves nothing, so there may be several.
    fn known(&self, name: Name) -> Result<Vec<PublicKey>, KeysError> {
        let of_name = |keys: &[PublicKey]| -> Vec<PublicKey> {
            let keys = keys.iter().filter(|key| key.name() == name);
            keys.cloned().collect()
        };
        let mut known = of_name(&self.trusted);
        // Another process may have added a key to the file, or removed one.
        known.append(&mut of_name(&self.public(&*self.keys.verifying()?)?));
        Ok(known)
    }

    fn public(&self, ring: &Keyring) -> Result<Vec<PublicKey>, KeysError> {
        let public = |key| Ok(self.signer(key)?.public().clone());
        ring.keys().map(public).collect()
    }

    fn signer(&self, key: &Key) -> Result<Signer, KeysError> {
        Signer::of(key, PURPOSE).map_err(|error| self.keys.unusable(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ring: &Keyring, trusted: &[PublicKey]) -> ExportKeys {
        ExportKeys::new(Arc::new(Keys::fixed(ring.clone())), trusted.to_vec())
    }

    #[test]
    fn any_key_of_the_ring_and_any_trusted_key_is_known() {
        let mut ring = Keyring::random();
        let old = of(&ring, &[]).sign(b"run", "").unwrap();
        ring.rotate().unwrap();
        let keys = of(&ring, &[]);
        let new = keys.sign(b"run", "").unwrap();
        assert_ne!(old.name(), new.name());
        assert_eq!(keys.own().unwrap().last().unwrap().name(), new.name());
        for signature in [&old, &new] {
            let signer = keys.signed_by(b"run", signature).unwrap();
            assert_eq!(signer, Some(signature.name()));
            assert_eq!(keys.signed_by(b"ran", signature).unwrap(), None);
        }
        let stranger = Keyring::random();
        assert_eq!(of(&stranger, &[]).signed_by(b"run", &new).unwrap(), None);
        assert!(!of(&stranger, &[]).knows(new.name()).unwrap());
        let trusting = of(&stranger, &keys.own().unwrap());
        let signer = trusting.signed_by(b"run", &new).unwrap();
        assert_eq!(signer, Some(new.name()));
    }

    #[test]
    fn a_key_that_another_process_has_taken_out_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keyring");
        let keys = Arc::new(Keys::own(path.clone()));
        let host = ExportKeys::new(Arc::clone(&keys), Vec::new());
        let signature = host.sign(b"run", "").unwrap();
        let first = keys.ring().unwrap().newest().id();
        let user = Keys::own(path);
        user.change(Keyring::rotate).unwrap();
        assert!(user.change(|ring| ring.remove(first)).unwrap());
        keys.age();
        assert_eq!(host.signed_by(b"run", &signature).unwrap(), None);
        assert!(!host.knows(signature.name()).unwrap());
    }

    #[test]
    fn a_key_that_another_process_has_added_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keyring");
        let keys = Arc::new(Keys::own(path.clone()));
        let one = ExportKeys::new(Arc::clone(&keys), Vec::new());
        one.own().unwrap();
        let other = Keys::own(path);
        other.change(Keyring::rotate).unwrap();
        let other = ExportKeys::new(Arc::new(other), Vec::new());
        let signature = other.sign(b"run", "").unwrap();
        keys.age();
        let signer = one.signed_by(b"run", &signature).unwrap();
        assert_eq!(signer, Some(signature.name()));
    }
}
