//! The keyring of a host, and what is authenticated by it.
//!
//! A keyring is a list of keys, the newest last. The newest makes; all of them verify, so that
//! what an older key has made stays good until that key is taken out. Each purpose has a key of
//! its own that is derived from the key in the ring, so that nothing made for one purpose is
//! good for another. The keyring is no part of the store: a copy of the store makes no links.

pub mod export;
mod keys;
pub mod link;
pub mod minisign;
mod ring;

pub use keys::{Keys, KeysError};
pub use ring::{BadKeyring, Key, KeyId, Keyring};
