//! The directory of one test: a store, plugins, files, and the program that runs in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;
use windlass_test_servers::PostgreSql;

use super::look::Look;
use super::process::Process;
use super::programs::{cache, component, failpoint_program, program};
use super::wait::until;

/// The directory of one test. It is deleted with the test.
pub struct Place {
    directory: TempDir,
    settings: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    store: PathBuf,
    database: Option<String>,
    look: OnceLock<Look>,
}

/// The output of a command that has ended.
#[derive(Clone, Debug)]
pub struct Said {
    /// Its exit code; none if a signal ended it.
    pub exit: Option<i32>,
    /// Its stdout.
    pub stdout: String,
    /// Its stderr.
    pub stderr: String,
}

impl Place {
    /// A directory with the default consumer and these components as its plugins.
    ///
    /// # Panics
    ///
    /// If it cannot be made, or a component is not built.
    pub fn new(components: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("windlass-").tempdir();
        let directory = directory.expect("a temporary directory can be made");
        for name in ["plugins", "library", "home"] {
            std::fs::create_dir(directory.path().join(name)).expect("a directory can be made");
        }
        let store = directory.path().join("store/windlass.db");
        let place = Self {
            directory,
            settings: Vec::new(),
            variables: Vec::new(),
            store,
            database: None,
            look: OnceLock::new(),
        };
        place.link("library", "chain-executor");
        for name in components {
            place.link("plugins", name);
        }
        place
    }

    /// As [`Place::new`], for hosts of a cluster that share a new PostgreSQL database. None if
    /// there is no server.
    ///
    /// # Panics
    ///
    /// If the database cannot be made.
    pub fn of_cluster(components: &[&str]) -> Option<Self> {
        let server = PostgreSql::shared().expect("PostgreSQL starts")?;
        let url = server.database().expect("a database can be made");
        let place = Self::new(components).with("cluster.enabled", "true");
        Some(place.with_database(&url))
    }

    fn link(&self, directory: &str, name: &str) {
        let to = self.path(directory).join(name).with_extension("wasm");
        std::os::unix::fs::symlink(component(name), to).expect("a link can be made");
    }

    /// Changes a setting for all later commands.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Sets a variable of the environment for all later commands.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lets the component of this name in the plugin folder send requests to this destination.
    #[must_use]
    pub fn with_http(self, name: &str, to: &str) -> Self {
        self.with_proof(name)
            .with(&format!("plugins.grants.{name}.http"), to)
    }

    /// Lets the component of this name in the plugin folder consume triggers.
    #[must_use]
    pub fn with_consumer(self, name: &str) -> Self {
        self.with_proof(name)
            .with(&format!("plugins.grants.{name}.consumer"), "true")
    }

    /// Makes the grants of this name apply to the file of that name in the plugin folder.
    #[must_use]
    pub fn with_proof(self, name: &str) -> Self {
        self.with(
            &format!("plugins.grants.{name}.file"),
            &format!("{name}.wasm"),
        )
    }

    /// Moves the store to another path.
    #[must_use]
    pub fn with_store(mut self, store: PathBuf) -> Self {
        self.store = store;
        self
    }

    /// Uses a store in a PostgreSQL database.
    #[must_use]
    pub fn with_database(mut self, url: &str) -> Self {
        self.database = Some(url.to_owned());
        self.with("store.url", url)
    }

    /// A path in this directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The plugin folder.
    pub fn plugins(&self) -> PathBuf {
        self.path("plugins")
    }

    /// The folder of the node library.
    pub fn library(&self) -> PathBuf {
        self.path("library")
    }

    /// The file of the store.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// Writes a file into this directory, and returns its path.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file can be written");
        path
    }

    /// Writes a workflow into this directory.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn workflow(&self, name: &str, workflow: &Value) -> PathBuf {
        self.file(&format!("{name}.json"), workflow.to_string())
    }

    /// The program, in this directory and with its settings, without the user's environment.
    pub fn windlass(&self) -> Command {
        self.command(&program())
    }

    /// The program with failpoints, armed by `WINDLASS_FAILPOINTS`.
    pub fn armed(&self, failpoints: &str) -> Command {
        let mut command = self.command(&failpoint_program());
        command.env("WINDLASS_FAILPOINTS", failpoints);
        command
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.directory.path()).env_clear();
        command
            .env("HOME", self.path("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let own = [
            ("store.url", format!("sqlite:{}", self.store.display())),
            ("plugins.directory", self.plugins().display().to_string()),
            ("plugins.library", self.library().display().to_string()),
            ("plugins.cache", cache().display().to_string()),
            (
                "plugins.code-key",
                cache().join("code-key").display().to_string(),
            ),
            // A test of another matter begins with all plugins, also if the cache is empty.
            ("plugins.start-wait", "2m".to_owned()),
            ("scheduler.scan-interval", "1s".to_owned()),
            // Any free port: many hosts serve at the same time.
            ("server.listen", "127.0.0.1:0".to_owned()),
        ];
        let own = own.iter().map(|(key, value)| (*key, value.as_str()));
        let changed = self
            .settings
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        for (key, value) in own.chain(changed) {
            // As variables, so that commands look as users write them.
            let name = key
                .to_ascii_uppercase()
                .replace('.', "__")
                .replace('-', "_");
            command.env(format!("WINDLASS_{name}"), value);
        }
        let variables = self.variables.iter();
        command.envs(variables.map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or does not end.
    pub fn say(&self, arguments: &[&str]) -> Said {
        let mut command = self.windlass();
        command.args(arguments);
        Said::of(&mut Process::start(
            &format!("windlass {}", arguments.join(" ")),
            &mut command,
        ))
    }

    /// Runs a command to its successful end, and returns its stdout.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn ask(&self, arguments: &[&str]) -> String {
        let said = self.say(arguments);
        assert_eq!(
            said.exit,
            Some(0),
            "windlass {arguments:?} failed: {said:#?}"
        );
        said.stdout
    }

    /// Starts a command and leaves it running.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(&self, arguments: &[&str]) -> Process {
        let mut command = self.windlass();
        command.args(arguments);
        Process::start(&format!("windlass {}", arguments.join(" ")), &mut command)
    }

    /// Starts `serve`, and waits until it is a member of the store and reports that it serves.
    ///
    /// # Panics
    ///
    /// If it ends instead.
    pub fn serve(&self) -> Process {
        let mut process = self.start(&["serve"]);
        self.until_member(&mut process);
        until("it says that it serves", || {
            process.stderr().contains("serving")
        });
        process
    }

    /// Starts `serve` of the program with failpoints, without waiting: it may be dead before it is
    /// a member.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn serve_armed(&self, failpoints: &str) -> Process {
        Process::start(
            &format!("serve with {failpoints}"),
            self.armed(failpoints).arg("serve"),
        )
    }

    /// Waits until a process is a member of the store.
    ///
    /// # Panics
    ///
    /// If it ends instead.
    pub fn until_member(&self, process: &mut Process) {
        until("a process has joined the store", || {
            if let Some(status) = process.ended() {
                panic!("it ended with {status} instead of joining the store");
            }
            self.look().has_member(process.pid())
        });
    }

    /// Access to the store, which is created if it does not exist.
    pub fn look(&self) -> &Look {
        self.look.get_or_init(|| match &self.database {
            Some(url) => Look::into(url),
            None => Look::open(&self.store),
        })
    }
}

impl Said {
    /// Waits for the end of a process, and returns its output.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub fn of(process: &mut Process) -> Self {
        let (status, stdout, stderr) = process.output();
        Self {
            exit: status.code(),
            stdout,
            stderr,
        }
    }

    /// The only JSON document on stdout.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON ({error}): {self:#?}"))
    }

    /// The error on stderr of a command that was run with `-o jsonl`.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn error(&self) -> Value {
        let error = self.stderr.lines().rev().find_map(|line| {
            let value: Value = serde_json::from_str(line).ok()?;
            value.get("error").cloned()
        });
        error.unwrap_or_else(|| panic!("there is no error on stderr: {self:#?}"))
    }
}
