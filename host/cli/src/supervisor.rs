//! Tells the supervisor of the process (systemd, or a program that speaks its protocol) what the
//! host does: that it is ready, that it stops and how long that may take, and that it is alive.
//!
//! The protocol is a datagram of `KEY=VALUE` lines to the socket that `NOTIFY_SOCKET` names
//! (sd_notify(3)). Without the variable nothing is sent. A supervisor that cannot be reached never
//! harms the host: the first failure is logged, and the host continues.

use std::ffi::OsStr;
use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

/// The time beyond the drain that a stop may take: to answer the last requests, and to close the
/// store.
const AFTER_DRAIN: Duration = Duration::from_secs(30);

/// How long a message may wait until the supervisor has read earlier ones.
const LONGEST_SEND: Duration = Duration::from_secs(1);

/// The supervisor of this process.
pub(crate) struct Supervisor {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// The longest silence that the supervisor accepts.
    patience: Option<Duration>,
    has_failed: AtomicBool,
}

impl Supervisor {
    /// The supervisor that the environment names, if there is one.
    pub(crate) fn of_process() -> Self {
        let patience = watchdog(
            std::env::var("WATCHDOG_USEC").ok().as_deref(),
            std::env::var("WATCHDOG_PID").ok().as_deref(),
        );
        let named = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
        Self::at(named.as_deref(), patience)
    }

    fn at(named: Option<&OsStr>, patience: Option<Duration>) -> Self {
        let socket = named.map(|name| {
            let socket = UnixDatagram::unbound()?;
            // A supervisor that does not read its messages must not stop the host.
            socket.set_write_timeout(Some(LONGEST_SEND))?;
            Ok((socket, address(name)?))
        });
        let socket = socket.transpose().unwrap_or_else(|error: io::Error| {
            tracing::warn!(%error, "the supervisor of $NOTIFY_SOCKET cannot be told anything");
            None
        });
        Self {
            socket,
            patience,
            has_failed: AtomicBool::new(false),
        }
    }

    /// The host accepts work.
    pub(crate) fn ready(&self) {
        self.tell("READY=1");
    }

    /// The host drains, for at most this time.
    pub(crate) fn stopping(&self, drain: Duration) {
        let limit = drain.saturating_add(AFTER_DRAIN).as_micros();
        self.tell(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={limit}"));
    }

    /// Reports that the process is alive, as often as the supervisor demands. Returns at once if it
    /// demands nothing.
    pub(crate) async fn report(&self) {
        let Some(patience) = self.patience.filter(|_| self.socket.is_some()) else {
            return;
        };
        let mut turns = tokio::time::interval(patience / 2);
        // Several reports in a row say no more than one.
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            self.tell("WATCHDOG=1");
        }
    }

    fn tell(&self, text: &str) {
        let Some((socket, address)) = &self.socket else {
            return;
        };
        if let Err(error) = socket.send_to_addr(text.as_bytes(), address)
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "the supervisor of $NOTIFY_SOCKET does not listen");
        }
    }
}

/// The address of a socket: a path, or a name in the abstract namespace after an `@`.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.as_bytes().strip_prefix(b"@") {
        return SocketAddr::from_abstract_name(name);
    }
    if name.as_bytes().first() != Some(&b'/') {
        let text = "NOTIFY_SOCKET is neither a whole path nor an abstract name";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    SocketAddr::from_pathname(name)
}

/// The silence that a watchdog accepts from this process.
fn watchdog(microseconds: Option<&str>, process: Option<&str>) -> Option<Duration> {
    let meant = process.is_none_or(|id| id.parse() == Ok(std::process::id()));
    let silence = microseconds.filter(|_| meant)?.parse().ok()?;
    // Reports more often than this would be work for nothing.
    Some(Duration::from_micros(silence)).filter(|silence| *silence >= Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    fn tells(supervisor: &Supervisor, socket: &UnixDatagram) {
        supervisor.ready();
        assert_eq!(heard(socket), "READY=1");
        supervisor.stopping(Duration::from_secs(30));
        assert_eq!(heard(socket), "STOPPING=1\nEXTEND_TIMEOUT_USEC=60000000");
    }

    #[test]
    fn a_supervisor_at_a_path_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let supervisor = Supervisor::at(Some(path.as_os_str()), None);
        tells(&supervisor, &socket);
        // A supervisor that is gone harms nothing.
        drop(socket);
        supervisor.ready();
        assert!(supervisor.has_failed.load(Ordering::Relaxed));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_supervisor_at_an_abstract_name_is_told() {
        let name = format!("windlass-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        let named = format!("@{name}");
        tells(&Supervisor::at(Some(OsStr::new(&named)), None), &socket);
    }

    #[tokio::test]
    async fn a_watchdog_hears_again_and_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = tokio::net::UnixDatagram::bind(&path).unwrap();
        let patience = Some(Duration::from_millis(2));
        let supervisor = Supervisor::at(Some(path.as_os_str()), patience);
        let three = async {
            for _ in 0..3 {
                let mut bytes = [0; 256];
                let length = socket.recv(&mut bytes).await.unwrap();
                assert_eq!(&bytes[..length], b"WATCHDOG=1");
            }
        };
        tokio::select! {
            () = supervisor.report() => panic!("the reports have ended"),
            () = three => {}
        }
    }

    #[test]
    fn nothing_is_said_without_a_supervisor() {
        for named in ["relative", ""] {
            let supervisor = Supervisor::at(Some(OsStr::new(named)), None);
            assert!(supervisor.socket.is_none());
            supervisor.ready();
        }
        Supervisor::at(None, None).ready();
    }

    #[test]
    fn a_watchdog_of_another_process_is_not_meant() {
        let own = std::process::id().to_string();
        let second = Some(Duration::from_secs(1));
        assert_eq!(watchdog(Some("1000000"), None), second);
        assert_eq!(watchdog(Some("1000000"), Some(&own)), second);
        assert_eq!(watchdog(Some("1000000"), Some("1")), None);
        assert_eq!(watchdog(Some("soon"), None), None);
        assert_eq!(watchdog(Some("0"), None), None);
        assert_eq!(watchdog(None, None), None);
    }
}
