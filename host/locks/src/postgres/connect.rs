//! Where the server is, and how it is spoken to.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::trust::Anyone;
use crate::provider::Error;

/// How long one attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(5);

/// Where the server is.
pub(super) struct Target {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

impl Target {
    /// Reads a URL (`postgres://…`) or a text of keys and values.
    pub(super) fn read(url: &str) -> Result<Self, Error> {
        let (url, verify) = take_verification(url);
        // The text may hold a password, so it is not repeated.
        let mut config: Config = url
            .parse()
            .map_err(|error| Error::settings(format!("the URL of the locks is none: {error}")))?;
        if config.get_application_name().is_none() {
            config.application_name("windlass-locks");
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
        Ok(Self { config, tls })
    }

    /// Connections, made as they are needed.
    pub(super) fn pool(&self, connections: usize) -> Result<Pool, Error> {
        let settings = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = match &self.tls {
            None => Manager::from_config(self.config.clone(), NoTls, settings),
            Some(tls) => Manager::from_config(self.config.clone(), tls.clone(), settings),
        };
        Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| Error::settings(format!("there is no pool: {error}")))
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

fn tls(verify: Option<&Verify>) -> Result<MakeRustlsConnect, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::settings(format!("TLS cannot be used: {error}")))?;
    let Some(verify) = verify else {
        // As `sslmode=require` has it: encrypted, whoever is at the other end.
        let config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth();
        return Ok(MakeRustlsConnect::new(config));
    };
    let path = verify.roots.as_ref().ok_or_else(|| {
        Error::settings("there is no certificate to verify the server by: name it, like `sslrootcert=/path/root.crt`")
    })?;
    let unreadable = |error: &dyn std::fmt::Display| {
        Error::settings(format!(
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

#[cfg(test)]
mod tests {
    use super::take_verification;

    fn check(url: &str, expected: &str, verified: bool) {
        let (kept, verify) = take_verification(url);
        assert_eq!(kept, expected);
        assert_eq!(verify.is_some(), verified);
    }

    #[test]
    fn verification_is_taken_out_of_the_url() {
        check("postgres://h/d", "postgres://h/d", false);
        check(
            "postgres://h/d?sslmode=require",
            "postgres://h/d?sslmode=require",
            false,
        );
        check(
            "postgres://h/d?sslmode=verify-full&sslrootcert=%2Fa%2Fb&user=u",
            "postgres://h/d?sslmode=require&user=u",
            true,
        );
    }
}
