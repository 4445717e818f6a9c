//! Redis.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

use crate::places;
use crate::process::{Farewell, PATIENCE, Server};

/// The variable with the port of a server that test processes share.
pub const REDIS: &str = "WINDLASS_TEST_REDIS_PORT";

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

/// A Redis server without persistence: killing and starting it empties it.
#[derive(Debug)]
pub struct Redis {
    program: PathBuf,
    port: u16,
    server: Mutex<Server>,
}

impl Redis {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// It is not installed, or does not start; the message says which.
    pub fn start() -> Result<Self> {
        let program = places::program("redis-server", &[])
            .context("redis-server is not installed (on Debian: apt-get install redis-server)")?;
        let redis = Self {
            program,
            port: places::free_port()?,
            server: Mutex::new(Server::new("redis", None, Farewell::Term)?),
        };
        redis.start_again()?;
        Ok(redis)
    }

    /// Whether it can be started here.
    pub fn is_installed() -> bool {
        places::program("redis-server", &[]).is_some()
    }

    /// Starts a server for a test; if it is neither installed nor required, prints a message and
    /// returns none.
    ///
    /// # Errors
    ///
    /// It is required and not installed, or does not start.
    pub fn for_test() -> Result<Option<Self>> {
        if !Self::is_installed() {
            places::missing("Redis", "redis-server")?;
            return Ok(None);
        }
        Self::start().map(Some)
    }

    /// The URL of the server that tests share which neither stop nor empty it; none as for
    /// [`Self::for_test`].
    ///
    /// The variable [`REDIS`] names the port of a server that test processes share. Without the
    /// variable, the tests of this process share one.
    ///
    /// # Errors
    ///
    /// As [`Self::for_test`], or the variable is no port.
    pub fn shared() -> Result<Option<String>> {
        static OWN: Mutex<Option<Redis>> = Mutex::new(None);
        if let Some(port) = places::shared_port(REDIS)? {
            return Ok(Some(url(port)));
        }
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        if own.is_none() {
            *own = Self::for_test()?;
        }
        Ok(own.as_ref().map(Self::url))
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its URL, like `redis://127.0.0.1:15001`.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Starts it again after [`Self::stop`] or [`Self::kill`]. It is empty then.
    ///
    /// # Errors
    ///
    /// It runs already, or does not start.
    pub fn start_again(&self) -> Result<()> {
        let mut server = self.server();
        let folder = server.folder().display().to_string();
        let settings = [
            ("--port", self.port.to_string()),
            ("--bind", "127.0.0.1".to_owned()),
            ("--dir", folder),
            ("--save", String::new()),
            ("--appendonly", "no".to_owned()),
        ];
        let arguments: Vec<String> = settings
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect();
        server.start(&self.program, &arguments, &|_| self.answers("PING").is_ok())
    }

    /// Stops it by an orderly shutdown.
    ///
    /// # Errors
    ///
    /// It does not stop.
    pub fn stop(&self) -> Result<()> {
        self.server().end(Signal::TERM)
    }

    /// Kills it (SIGKILL).
    ///
    /// # Errors
    ///
    /// It does not end.
    pub fn kill(&self) -> Result<()> {
        self.server().end(Signal::KILL)
    }

    /// Kills and starts it: connections break, and all its data is gone.
    ///
    /// # Errors
    ///
    /// As [`Self::kill`] and [`Self::start_again`].
    pub fn restart(&self) -> Result<()> {
        self.kill()?;
        self.start_again()
    }

    /// Stops its execution (SIGSTOP), so that it accepts connections but does not answer.
    ///
    /// # Errors
    ///
    /// The signal could not be sent.
    pub fn pause(&self) -> Result<()> {
        self.server().signal(Signal::STOP)
    }

    /// Continues it after [`Self::pause`].
    ///
    /// # Errors
    ///
    /// The signal could not be sent.
    pub fn unpause(&self) -> Result<()> {
        self.server().signal(Signal::CONT)
    }

    /// Deletes all its data.
    ///
    /// # Errors
    ///
    /// It does not answer.
    pub fn empty(&self) -> Result<()> {
        self.answers("FLUSHALL")
    }

    fn answers(&self, command: &str) -> Result<()> {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "{command}\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        ensure!(answer[0] == b'+', "it does not do it");
        Ok(())
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
