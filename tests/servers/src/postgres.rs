//! PostgreSQL.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

use crate::places;
use crate::process::{Farewell, Server, User, until_it_works};
use crate::tls::Authority;

/// The superuser of the server. There is no password: it listens on loopback only.
const USER: &str = "windlass";

const MISSING: &str = "PostgreSQL is not installed (on Debian: apt-get install postgresql)";

/// The variable with the port of a server that test processes share.
pub const POSTGRES: &str = "WINDLASS_TEST_POSTGRES_PORT";

/// How a server is started.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether commits survive a power cut. Tests of logic alone can do without.
    pub fsync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { fsync: true }
    }
}

/// A PostgreSQL server that this process has started, and stops.
#[derive(Debug)]
pub struct PostgreSql {
    databases: Databases,
    server: Mutex<Server>,
    options: Options,
    speaks_tls: bool,
}

/// The databases of a running server, which other processes may use as well.
#[derive(Debug)]
pub struct Databases {
    programs: Programs,
    port: u16,
}

impl Deref for PostgreSql {
    type Target = Databases;

    fn deref(&self) -> &Databases {
        &self.databases
    }
}

/// A transaction that is open until this is dropped.
#[derive(Debug)]
pub struct Snapshot(Child);

impl Drop for Snapshot {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The paths of its programs.
#[derive(Debug)]
struct Programs {
    initdb: PathBuf,
    postgres: PathBuf,
    psql: PathBuf,
}

impl Programs {
    fn find() -> Option<Self> {
        let folders = places::versions(Path::new("/usr/lib/postgresql"));
        Some(Self {
            initdb: places::program("initdb", &folders)?,
            postgres: places::program("postgres", &folders)?,
            psql: places::program("psql", &folders)?,
        })
    }
}

impl PostgreSql {
    /// Starts a server that flushes its commits, as in production.
    ///
    /// # Errors
    ///
    /// It is not installed, or does not start; the message says which.
    pub fn start() -> Result<Self> {
        Self::start_with(Options::default())
    }

    /// Starts a server.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn start_with(options: Options) -> Result<Self> {
        Self::start_as(options, None)
    }

    /// Starts a server with TLS, and a certificate of this authority.
    ///
    /// # Errors
    ///
    /// As [`Self::start`], or no certificate can be made.
    pub fn start_trusted_by(authority: &Authority) -> Result<Self> {
        Self::start_as(Options::default(), Some(authority))
    }

    fn start_as(options: Options, authority: Option<&Authority>) -> Result<Self> {
        let programs = Programs::find().context(MISSING)?;
        let server = Server::new("postgres", unprivileged()?, Farewell::Quit)?;
        initialize(&programs, &server)?;
        if let Some(authority) = authority {
            install(authority, &server)?;
        }
        let postgres = Self {
            databases: Databases {
                programs,
                port: places::free_port()?,
            },
            server: Mutex::new(server),
            options,
            speaks_tls: authority.is_some(),
        };
        postgres.start_again()?;
        Ok(postgres)
    }

    /// Whether it can be started here.
    pub fn is_installed() -> bool {
        Programs::find().is_some()
    }

    /// Starts a server for a test; if it is neither installed nor required, prints a message and
    /// returns none.
    ///
    /// # Errors
    ///
    /// It is required and not installed, or does not start.
    pub fn for_test() -> Result<Option<Self>> {
        if !Self::is_installed() {
            places::missing("PostgreSQL", "postgresql")?;
            return Ok(None);
        }
        Self::start().map(Some)
    }

    /// The server that tests share which neither stop it nor change its settings; none as for
    /// [`Self::for_test`]. It does not flush its commits.
    ///
    /// The variable [`POSTGRES`] names the port of a server that test processes share. Without the
    /// variable, the tests of this process share one.
    ///
    /// # Errors
    ///
    /// As [`Self::for_test`], or the variable is no port.
    pub fn shared() -> Result<Option<&'static Databases>> {
        static SHARED: OnceLock<Databases> = OnceLock::new();
        static OWN: OnceLock<PostgreSql> = OnceLock::new();
        static STARTING: Mutex<()> = Mutex::new(());
        let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(databases) = SHARED.get().or_else(|| OWN.get().map(Deref::deref)) {
            return Ok(Some(databases));
        }
        if let Some(port) = places::shared_port(POSTGRES)? {
            let databases = Databases {
                programs: Programs::find().context(MISSING)?,
                port,
            };
            return Ok(Some(SHARED.get_or_init(|| databases)));
        }
        if !Self::is_installed() {
            places::missing("PostgreSQL", "postgresql")?;
            return Ok(None);
        }
        let own = Self::start_with(Options { fsync: false })?;
        Ok(Some(OWN.get_or_init(|| own)))
    }

    /// Closes all connections of clients, and returns their number.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub fn terminate_connections(&self) -> Result<u32> {
        let count = self.execute(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity \
             where backend_type = 'client backend' and pid <> pg_backend_pid()",
        )?;
        Ok(count.parse()?)
    }

    /// Makes the server log each statement from now on.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub fn log_statements(&self) -> Result<()> {
        self.execute("alter system set log_statement = 'all'")?;
        self.execute("select pg_reload_conf()")?;
        // Sessions read the setting before their next statement.
        until_it_works(|| {
            ensure!(self.execute("show log_statement")? == "all", "not yet");
            Ok(())
        })
    }

    /// The statements that were logged since [`Self::log_statements`], the first line of each.
    pub fn statements(&self) -> Vec<String> {
        let log = self.server().said();
        let statements = log.lines().filter_map(|line| {
            let (_, said) = line.split_once("LOG:  ")?;
            let is_statement = said.starts_with("statement: ") || said.starts_with("execute ");
            let (_, statement) = said.split_once(": ").filter(|_| is_statement)?;
            Some(statement.to_owned())
        });
        statements.collect()
    }

    /// Starts it again after [`Self::stop`] or [`Self::kill`].
    ///
    /// # Errors
    ///
    /// It runs already, or does not start.
    pub fn start_again(&self) -> Result<()> {
        let mut server = self.server();
        ensure!(!server.is_running(), "PostgreSQL runs already");
        let data = server.folder().join("data");
        let pid_file = data.join("postmaster.pid");
        let mut arguments = vec!["-D".to_owned(), data.display().to_string()];
        let onoff = |on| if on { "on" } else { "off" };
        for setting in [
            format!("port={}", self.port),
            "listen_addresses=127.0.0.1".to_owned(),
            "unix_socket_directories=".to_owned(),
            "max_connections=300".to_owned(),
            "shared_buffers=64MB".to_owned(),
            format!("fsync={}", onoff(self.options.fsync)),
            format!("full_page_writes={}", onoff(self.options.fsync)),
            format!("ssl={}", onoff(self.speaks_tls)),
        ] {
            arguments.extend(["-c".to_owned(), setting]);
        }
        // Backends of a killed server take a moment to notice, and no new server starts on their
        // data until then.
        until_it_works(|| {
            server.start(&self.programs.postgres, &arguments, &|pid| {
                is_ready(&pid_file, pid)
            })
        })
    }

    /// Stops it by a fast shutdown, which closes connections.
    ///
    /// # Errors
    ///
    /// It does not stop.
    pub fn stop(&self) -> Result<()> {
        self.server().end(Signal::INT)
    }

    /// Kills it (SIGKILL).
    ///
    /// # Errors
    ///
    /// It does not end.
    pub fn kill(&self) -> Result<()> {
        self.server().end(Signal::KILL)
    }

    /// Stops it by a fast shutdown and starts it.
    ///
    /// # Errors
    ///
    /// As [`Self::stop`] and [`Self::start_again`].
    pub fn restart(&self) -> Result<()> {
        self.stop()?;
        self.start_again()
    }

    /// Stops it by a fast shutdown and starts it as a replica, which is read-only. It follows no
    /// other server.
    ///
    /// # Errors
    ///
    /// As [`Self::restart`], or the signal file cannot be written.
    pub fn become_replica(&self) -> Result<()> {
        self.stop()?;
        let signal = self.server().folder().join("data/standby.signal");
        std::fs::write(signal, "").context("cannot make a replica of the server")?;
        self.start_again()
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Databases {
    /// The port of the server on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of its first database, like `postgres://windlass@127.0.0.1:15001/postgres`.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Creates an empty database, and returns its URL.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub fn database(&self) -> Result<String> {
        let name = places::unique();
        self.execute(&format!("create database {name}"))?;
        Ok(self.url_of(&name))
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs statements in the first database, and returns their output: a line for each row, with
    /// `|` between columns.
    ///
    /// # Errors
    ///
    /// A statement failed, or the server does not answer.
    pub fn execute(&self, sql: &str) -> Result<String> {
        self.execute_in(&self.url(), sql)
    }

    /// Runs statements in the database of this URL.
    ///
    /// # Errors
    ///
    /// As [`Self::execute`].
    pub fn execute_in(&self, url: &str, sql: &str) -> Result<String> {
        let output = std::process::Command::new(&self.programs.psql)
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--set", "ON_ERROR_STOP=1", "--dbname", url, "--command"])
            .arg(sql)
            .output()
            .context("cannot run psql")?;
        ensure!(
            output.status.success(),
            "psql: {}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
        Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
    }

    /// Opens an idle transaction with a snapshot in the database of this URL: row versions that it
    /// could still see are not vacuumed.
    ///
    /// # Errors
    ///
    /// As [`Self::execute`].
    pub fn hold_snapshot(&self, url: &str) -> Result<Snapshot> {
        let mut child = std::process::Command::new(&self.programs.psql)
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--set", "ON_ERROR_STOP=1", "--dbname", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run psql")?;
        let mut stdin = child.stdin.take().context("it is piped")?;
        let stdout = child.stdout.take().context("it is piped")?;
        let mut snapshot = Snapshot(child);
        stdin.write_all(b"begin isolation level repeatable read; select 'held';\n")?;
        let mut said = String::new();
        BufReader::new(stdout).read_line(&mut said)?;
        ensure!(said.trim() == "held", "psql has not begun a transaction");
        // psql waits for more input as long as this is open.
        snapshot.0.stdin = Some(stdin);
        Ok(snapshot)
    }
}

/// The user for PostgreSQL if this process is root, as which PostgreSQL refuses to run.
fn unprivileged() -> Result<Option<User>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    let find = |name: &str| {
        let mut fields = users
            .lines()
            .map(|line| line.split(':'))
            .find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(User { uid, gid })
    };
    find("postgres")
        .or_else(|| find("nobody"))
        .context("PostgreSQL refuses root, and there is no user postgres or nobody")
        .map(Some)
}

fn initialize(programs: &Programs, server: &Server) -> Result<()> {
    let output = server
        .command(&programs.initdb)
        .args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"])
        .args(["--username", USER, "--pgdata"])
        .arg(server.folder().join("data"))
        .output()
        .context("cannot run initdb")?;
    ensure!(
        output.status.success(),
        "initdb: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(())
}

/// Installs the certificate and the key of a server, which it accepts only from its own files.
fn install(authority: &Authority, server: &Server) -> Result<()> {
    let (certificate, key) = authority.issue()?;
    for (from, name) in [(certificate, "server.crt"), (key, "server.key")] {
        let to = server.folder().join("data").join(name);
        std::fs::copy(from, &to)?;
        std::fs::set_permissions(&to, Permissions::from_mode(0o600))?;
        if let Some(user) = unprivileged()? {
            std::os::unix::fs::chown(&to, Some(user.uid), Some(user.gid))?;
        }
    }
    Ok(())
}

/// Whether the server reports that it is ready, as `pg_ctl` reads it: in the eighth line of its
/// file.
fn is_ready(pid_file: &Path, pid: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(pid_file) else {
        return false;
    };
    let mut lines = text.lines();
    lines.next() == Some(pid.to_string().as_str())
        && lines
            .nth(6)
            .is_some_and(|line| ["ready", "standby"].contains(&line.trim()))
}
