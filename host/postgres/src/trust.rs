//! The trust of a connection, by `sslmode` and `sslrootcert`.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::Verify;

/// Why an address cannot be used. The error does not repeat the address.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It cannot be parsed.
    #[error("{0}")]
    Url(String),
    /// The trusted certificates cannot be read.
    #[error("{0}")]
    Trust(String),
    /// The pool cannot be made.
    #[error("{0}")]
    Pool(String),
}

/// TLS with a verified server, or with any server.
pub(crate) fn tls(verify: Option<&Verify>) -> Result<MakeRustlsConnect, Unusable> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Unusable::Trust(format!("TLS cannot be used: {error}")))?;
    let Some(verify) = verify else {
        // As `sslmode=require` demands: encrypted, with any server.
        let config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth();
        return Ok(MakeRustlsConnect::new(config));
    };
    let Some(path) = &verify.roots else {
        let text = "there is no certificate to verify the server by";
        return Err(Unusable::Trust(text.to_owned()));
    };
    let config = builder
        .with_root_certificates(roots(path)?)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn roots(path: &Path) -> Result<RootCertStore, Unusable> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Unusable::Trust(format!(
            "the certificates in {} cannot be read: {error}",
            path.display()
        ))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    if roots.is_empty() {
        return Err(unreadable(&"there is none"));
    }
    Ok(roots)
}

/// Accepts any certificate, as long as the server has its key.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
