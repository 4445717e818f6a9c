//! The keyring of a host, and the data that it authenticates.
//!
//! A keyring is a list of keys, the newest last. The newest key creates links and signatures; all
//! keys verify, so the links and signatures of an older key stay valid until that key is removed.
//! Each purpose has a key of its own that is derived from the key in the ring, so data made for one
//! purpose is not valid for another. The keyring is not part of the store: a copy of the store
//! creates no links.

pub mod export;
mod keys;
pub mod link;
pub mod minisign;
mod ring;

pub use keys::{Keys, KeysError};
pub use ring::{BadKeyring, Key, KeyId, Keyring};
