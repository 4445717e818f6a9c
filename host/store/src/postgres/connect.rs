//! How connections are made: where to, with which TLS, and what is set on each.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Connect;
use futures::future::BoxFuture;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::Fault;
use super::options::PostgresOptions;
use super::trust::Anyone;
use crate::codes;
use crate::error::{Error, Result};

/// How long one attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(5);

/// Where the store is, and how its connections are set up.
pub(super) struct Target {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    /// Set on every connection.
    common: String,
    /// Set besides on those that write.
    writer: String,
    /// For people: host and database, without the password.
    pub(super) place: String,
}

impl Target {
    /// Reads a URL (`postgresql://…`) or a text of keys and values.
    pub(super) fn new(url: &str, options: &PostgresOptions) -> Result<Self> {
        let (url, verify) = take_verification(url);
        let mut config: Config = url.parse().map_err(|error| {
            // The text may hold a password, so it is not repeated.
            Error::new(codes::BAD_URL, format!("the store's URL is none: {error}"))
                .help("Write it like `postgresql://user@host:5432/database?sslmode=require`.")
        })?;
        if config.get_application_name().is_none() {
            config.application_name("windlass");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        config.keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(Duration::from_secs(30));
        let tls = match (config.get_ssl_mode(), &verify) {
            (SslMode::Disable, None) => None,
            (_, verify) => Some(tls(verify.as_ref())?),
        };
        if verify.is_some() {
            config.ssl_mode(SslMode::Require);
        }
        let schema = quoted(&options.schema);
        Ok(Self {
            place: place(&config),
            config,
            tls,
            common: format!(
                "SET search_path TO {schema}; SET client_min_messages TO warning; \
                 SET statement_timeout TO {}; SET lock_timeout TO {}; \
                 SET idle_in_transaction_session_timeout TO {}; SET jit TO off;",
                options.statement_ms, options.lock_wait_ms, options.idle_in_transaction_ms
            ),
            // The statements that write go through an index each, and lists of numbers whose
            // length the planner does not know. Plans that read whole tables look good to it
            // while those are small, and are kept when they are not any more.
            writer: "SET synchronous_commit TO on; SET plan_cache_mode TO force_generic_plan; \
                SET enable_seqscan TO off; SET enable_hashjoin TO off; \
                SET enable_mergejoin TO off; SET enable_bitmapscan TO off;"
                .to_owned(),
        })
    }

    async fn open(&self, set: &str) -> std::result::Result<(Client, JoinHandle<()>), Fault> {
        let (client, task) = self.dial().await?;
        client.batch_execute(set).await?;
        Ok((client, task))
    }

    /// A bare connection, and what drives it.
    pub(super) async fn dial(&self) -> std::result::Result<(Client, JoinHandle<()>), Fault> {
        // The connection reports its end to the statements that are on their way.
        Ok(match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                let task = tokio::spawn(async move { drop(connection.await) });
                (client, task)
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                let task = tokio::spawn(async move { drop(connection.await) });
                (client, task)
            }
        })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn tls(&self) -> Option<&MakeRustlsConnect> {
        self.tls.as_ref()
    }

    /// A connection that writes.
    pub(super) async fn writer(&self) -> std::result::Result<Connection, Fault> {
        self.connection(&format!("{}{}", self.common, self.writer))
            .await
    }

    /// A connection of its own that reads.
    pub(super) async fn reader(&self) -> std::result::Result<Connection, Fault> {
        self.connection(&self.common).await
    }

    async fn connection(&self, set: &str) -> std::result::Result<Connection, Fault> {
        let (client, task) = self.open(set).await?;
        Ok(Connection {
            client,
            task,
            statements: HashMap::new(),
        })
    }
}

/// Connects for the pool of readers.
pub(super) struct Readers(pub(super) Arc<Target>);

impl Connect for Readers {
    fn connect(
        &self,
        _config: &Config,
    ) -> BoxFuture<'_, std::result::Result<(Client, JoinHandle<()>), Fault>> {
        Box::pin(self.0.open(&self.0.common))
    }
}

/// A connection that keeps what it has prepared.
pub(super) struct Connection {
    pub(super) client: Client,
    task: JoinHandle<()>,
    statements: HashMap<&'static str, Statement>,
}

impl Connection {
    /// The prepared form of a statement.
    pub(super) async fn prepare(
        &mut self,
        sql: &'static str,
    ) -> std::result::Result<Statement, Fault> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    pub(super) async fn rows(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> std::result::Result<Vec<Row>, Fault> {
        let statement = self.prepare(sql).await?;
        self.client.query(&statement, params).await
    }

    pub(super) async fn execute(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> std::result::Result<u64, Fault> {
        let statement = self.prepare(sql).await?;
        self.client.execute(&statement, params).await
    }
}

#[cfg(test)]
impl Connection {
    /// Loses the connection.
    pub(super) async fn cut(&mut self) -> Fault {
        self.task.abort();
        while !self.client.is_closed() {
            tokio::task::yield_now().await;
        }
        let lost = self.client.batch_execute("").await;
        lost.expect_err("a connection that is lost")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is to be verified of the server beyond what `sslmode=require` asks for.
struct Verify {
    roots: Option<PathBuf>,
}

/// Takes `sslmode=verify-ca`, `sslmode=verify-full` and `sslrootcert=…` out of a URL, which
/// tokio-postgres does not know. Both verify everything here.
fn take_verification(url: &str) -> (String, Option<Verify>) {
    let Some((base, query)) = url.split_once('?') else {
        return (url.to_owned(), None);
    };
    let (mut full, mut roots) = (false, None);
    let mut kept = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", "verify-full" | "verify-ca")) => {
                full = true;
                kept.push("sslmode=require");
            }
            Some(("sslrootcert", path)) => roots = Some(PathBuf::from(path.replace("%2F", "/"))),
            _ => kept.push(pair),
        }
    }
    let url = if kept.is_empty() {
        base.to_owned()
    } else {
        format!("{base}?{}", kept.join("&"))
    };
    (url, full.then_some(Verify { roots }))
}

fn tls(verify: Option<&Verify>) -> Result<MakeRustlsConnect> {
    let told = |what: String| {
        Error::new(codes::TLS, what)
            .help("Name the certificate of the server's authority: `sslrootcert=/path/root.crt`.")
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| told(format!("TLS cannot be used: {error}")))?;
    let Some(verify) = verify else {
        // As `sslmode=require` has it: encrypted, whoever is at the other end.
        let config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth();
        return Ok(MakeRustlsConnect::new(config));
    };
    let Some(path) = &verify.roots else {
        return Err(told(
            "there is no certificate to verify the server by".to_owned(),
        ));
    };
    let unreadable = |error: &dyn std::fmt::Display| {
        told(format!(
            "the certificates in {} cannot be read: {error}",
            path.display()
        ))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// An identifier as SQL text.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn place(config: &Config) -> String {
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            tokio_postgres::config::Host::Tcp(name) => name.clone(),
            tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    let ports: Vec<String> = config.get_ports().iter().map(u16::to_string).collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or("?");
    format!("{}:{}/{database}", hosts.join(","), ports.join(","))
}
