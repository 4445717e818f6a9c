//! The token that `serve` makes for itself if `token = "auto"`, and the token in an operator's file.
//!
//! The made token is in a file that only its user can read. The file is named by the address and port of
//! the host, so that the command line finds it for `--server http://127.0.0.1:PORT`. The command
//! line sends the token to that address only: another user's program may listen on the same port of
//! another loopback address. Each start makes a new token: a program that takes over the port later
//! learns one that no host accepts any more.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use url::{Host, Url};

use crate::error::Expected;
use crate::exit::Exit;
use crate::private;

/// The value of `token` in `[server]` that makes `serve` create a token.
pub(crate) const AUTO: &str = "auto";

/// The random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The largest token file that is read, in bytes.
const LONGEST: u64 = 1024;

/// The token file of a listening host. Dropping it deletes the file.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    token: String,
}

impl TokenFile {
    /// Writes the token of the host that listens on this address.
    ///
    /// # Errors
    ///
    /// The directory or the file cannot be written, or the user has no home.
    pub(crate) fn write(address: SocketAddr, token: String) -> Result<Self, Expected> {
        let directory = directory().ok_or_else(|| {
            let instead = "set a token of your own in WINDLASS_SERVER__TOKEN";
            private::no_home(windlass_server::codes::SETTING, "the token", instead)
        })?;
        Self::write_in(&directory, address, token)
    }

    fn write_in(directory: &Path, address: SocketAddr, token: String) -> Result<Self, Expected> {
        let path = directory.join(name(reached(address.ip()), address.port()));
        windlass_files::write(&path, token.as_bytes()).map_err(|error| {
            let text = format!("The token cannot be written to {}: {error}", path.display());
            Expected::new(windlass_server::codes::SETTING, text)
                .help("Set a token of your own in WINDLASS_SERVER__TOKEN, or XDG_STATE_HOME.")
                .exit(Exit::Usage)
        })?;
        Ok(Self { path, token })
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // Another host may listen on the port now, and the file belongs to it.
        if private::read(&self.path, LONGEST).is_ok_and(|token| token == self.token) {
            // If the deletion fails, the file holds a token that no host accepts.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The token in a file of an operator or an orchestrator. A line break at its end does not count.
///
/// # Errors
///
/// The file cannot be read, other users can read or write it, or it holds no text.
pub(crate) fn given(path: &Path) -> Result<String, Expected> {
    let unusable = |why: &dyn std::fmt::Display| {
        let text = format!("The token in {} cannot be used: {why}", path.display());
        Expected::new(windlass_server::codes::SETTING, text)
            .help("`token-file` in [server] names a file of the user or of root, with mode 0400.")
            .exit(Exit::Usage)
    };
    let bytes = windlass_files::read_mounted(path, LONGEST).map_err(|error| unusable(&error))?;
    let token = String::from_utf8(bytes).map_err(|_| unusable(&"it is no text"))?;
    Ok(token.trim_end_matches(['\r', '\n']).to_owned())
}

/// A new token: 64 hexadecimal digits.
pub(crate) fn random() -> String {
    let mut bytes = [0_u8; TOKEN_BYTES];
    // The thread's generator is cryptographic, and seeded by the system.
    rand::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The token of a host on this machine, if it has left one, and the address on which that host
/// listens: the token is for this address only, even if `localhost` resolves to another one.
pub(crate) fn find(server: &Url) -> Option<(IpAddr, String)> {
    find_in(&directory()?, server)
}

fn find_in(directory: &Path, server: &Url) -> Option<(IpAddr, String)> {
    // A host speaks plain HTTP, so a server that speaks TLS is not one.
    let port = server.port_or_known_default();
    let port = port.filter(|_| server.scheme() == "http")?;
    let addresses: Vec<IpAddr> = match server.host()? {
        Host::Domain(name) if name.eq_ignore_ascii_case("localhost") => {
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        }
        Host::Domain(_) => Vec::new(),
        Host::Ipv4(address) => vec![address.into()],
        Host::Ipv6(address) => vec![address.into()],
    };
    let mut here = addresses.into_iter().filter(IpAddr::is_loopback);
    here.find_map(|address| {
        let token = private::read(&directory.join(name(address, port)), LONGEST).ok()?;
        Some((address, token))
    })
}

/// The file with the token of a host on this machine, if that host has left one.
pub(crate) fn place(server: &Url) -> Option<PathBuf> {
    let directory = directory()?;
    let (address, _) = find_in(&directory, server)?;
    Some(directory.join(name(address, server.port_or_known_default()?)))
}

/// The address and port by which this machine reaches a host that listens on this address.
pub(crate) fn local(listens: SocketAddr) -> SocketAddr {
    SocketAddr::new(reached(listens.ip()), listens.port())
}

/// The address by which this machine reaches a host, from the address on which the host listens.
fn reached(listens: IpAddr) -> IpAddr {
    match listens.to_canonical() {
        IpAddr::V4(every) if every.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(every) if every.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// The name of the file of a host.
fn name(address: IpAddr, port: u16) -> String {
    format!("{address}-{port}")
}

fn directory() -> Option<PathBuf> {
    Some(private::state()?.join("tokens"))
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
        let address: SocketAddr = "127.0.0.1:7433".parse().unwrap();
        let file = TokenFile::write_in(dir.path(), address, token.clone()).unwrap();
        assert_eq!(private::read(file.path(), LONGEST).unwrap(), token);
        // Another host takes the port over, and the file belongs to it.
        let other = TokenFile::write_in(dir.path(), address, random()).unwrap();
        drop(file);
        assert!(other.path().exists());
        drop(other);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_token_of_an_operator_is_read_from_a_private_file_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let refused = |why: &str| {
            let error = given(&path).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused("No such file");
        windlass_files::write(&path, b"0123456789abcdef\n").unwrap();
        assert_eq!(given(&path).unwrap(), "0123456789abcdef");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        refused("all users can read it");
        windlass_files::write(&path, &[0xff]).unwrap();
        refused("it is no text");
        windlass_files::write(&path, &[b'x'; 2000]).unwrap();
        refused("cannot be used");
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

    #[test]
    fn a_token_is_for_the_address_that_its_host_listens_on() {
        // The listening address, the URL of the request, and the address that gets the token.
        for (listens, server, gets) in [
            ("127.0.0.1:7433", "http://127.0.0.1:7433", Some("127.0.0.1")),
            ("127.0.0.1:7433", "http://localhost:7433", Some("127.0.0.1")),
            ("127.0.0.1:7433", "http://LOCALHOST:7433", Some("127.0.0.1")),
            ("127.0.0.1:80", "http://localhost", Some("127.0.0.1")),
            ("127.0.0.1:7433", "http://[::1]:7433", None),
            ("127.0.0.1:7433", "http://127.0.0.2:7433", None),
            ("127.0.0.1:7433", "http://127.0.0.1:7434", None),
            ("127.0.0.1:7433", "https://127.0.0.1:7433", None),
            ("127.0.0.2:7433", "http://localhost:7433", None),
            ("127.0.0.2:7433", "http://127.0.0.2:7433", Some("127.0.0.2")),
            ("0.0.0.0:7433", "http://localhost:7433", Some("127.0.0.1")),
            ("[::1]:7433", "http://localhost:7433", Some("::1")),
            ("[::1]:7433", "http://127.0.0.1:7433", None),
            ("[::]:7433", "http://[::1]:7433", Some("::1")),
            ("10.0.0.1:7433", "http://10.0.0.1:7433", None),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let token = random();
            let listens: SocketAddr = listens.parse().unwrap();
            let _file = TokenFile::write_in(dir.path(), listens, token.clone()).unwrap();
            let found = find_in(dir.path(), &server.parse().unwrap());
            let wanted = gets.map(|address| (address.parse::<IpAddr>().unwrap(), token));
            assert_eq!(found, wanted, "{listens} {server}");
        }
    }
}
