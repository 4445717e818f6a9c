//! The token that `serve` makes for itself where `token = "auto"`.
//!
//! The token is in a file that only its user can read, named by the port, so that the command
//! line finds it for `--server http://127.0.0.1:PORT`. Each start makes another one: a program
//! that takes over the port later learns a token that no host accepts any more.

use std::path::{Path, PathBuf};

use url::{Host, Url};

use crate::error::Expected;
use crate::exit::Exit;
use crate::private;

/// What `token` in `[server]` is where the host makes one.
pub(crate) const AUTO: &str = "auto";

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The longest file that is read as a token, in bytes.
const LONGEST: u64 = 1024;

/// The file of a host that listens. Dropping it takes the file away.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    token: String,
}

impl TokenFile {
    /// Writes the token of the host that listens on this port.
    ///
    /// # Errors
    ///
    /// The directory or the file cannot be written.
    pub(crate) fn write(port: u16, token: String) -> Result<Self, Expected> {
        Self::write_in(&directory(), port, token)
    }

    fn write_in(directory: &Path, port: u16, token: String) -> Result<Self, Expected> {
        let path = directory.join(port.to_string());
        windlass_files::write(&path, token.as_bytes()).map_err(|error| {
            let text = format!("The token cannot be written to {}: {error}", path.display());
            Expected::new(windlass_server::codes::SETTING, text)
                .help("Set a token of your own in WINDLASS_SERVER__TOKEN, or XDG_STATE_HOME.")
                .exit(Exit::Usage)
        })?;
        Ok(Self { path, token })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // Another host may listen on the port by now, and the file is that one's.
        if private::read(&self.path, LONGEST).is_ok_and(|token| token == self.token) {
            // A file that stays holds a token that nothing accepts.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A new token: 64 hexadecimal digits.
pub(crate) fn random() -> String {
    let mut bytes = [0_u8; TOKEN_BYTES];
    // The generator of the thread is a cryptographic one that is seeded by the system.
    rand::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The token of the host at an address of this machine, if that host has left one here. It is
/// for no other machine.
pub(crate) fn find(server: &Url) -> Option<String> {
    let is_here = match server.host()? {
        Host::Domain(name) => name.eq_ignore_ascii_case("localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    let port = server.port_or_known_default().filter(|_| is_here)?;
    private::read(&directory().join(port.to_string()), LONGEST).ok()
}

fn directory() -> PathBuf {
    private::state().join("tokens")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_goes_with_the_host_that_it_is_of() {
        let dir = tempfile::tempdir().unwrap();
        let token = random();
        assert_eq!(token.len(), 2 * TOKEN_BYTES);
        assert_ne!(token, random());
        let file = TokenFile::write_in(dir.path(), 7433, token.clone()).unwrap();
        assert_eq!(private::read(file.path(), LONGEST).unwrap(), token);
        // Another host takes the port over, and the file is that one's.
        let other = TokenFile::write_in(dir.path(), 7433, random()).unwrap();
        drop(file);
        assert!(other.path().exists());
        drop(other);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn tokens_are_looked_for_on_this_machine_only() {
        for elsewhere in [
            "http://flows.example:7433",
            "http://10.0.0.1:7433",
            "http://[::2]:1",
        ] {
            assert_eq!(find(&elsewhere.parse().unwrap()), None);
        }
    }
}
