//! The certificates by which servers are verified: an operator's file, the system's, or, on a
//! system without any, those inside the program.
//!
//! A minimal container has no certificates, and must not fail for that. But certificates that the
//! operator names replace all others, also if they cannot be read: a wrong path must not bring back
//! authorities that the operator has removed.

use std::error::Error as _;

use reqwest::{Certificate, Client, ClientBuilder};

use super::policy::Roots;

/// The variables by which an operator names certificates for all programs of a process.
const NAMED: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Certificates that have been read.
#[derive(Clone)]
pub(super) enum Trusted {
    System,
    Only(Vec<Certificate>),
}

impl Trusted {
    /// Reads the certificates.
    pub(super) fn of(roots: &Roots) -> Result<Self, String> {
        let Roots::Only(pem) = roots else {
            return Ok(Self::System);
        };
        let read = Certificate::from_pem_bundle(pem).map_err(|error| error.to_string())?;
        if read.is_empty() {
            return Err("there is none in the file".to_owned());
        }
        Ok(Self::Only(read))
    }

    /// A client that verifies servers by these certificates.
    pub(super) fn client(&self, builder: impl Fn() -> ClientBuilder) -> reqwest::Result<Client> {
        match self {
            Self::Only(roots) => builder().tls_certs_only(roots.iter().cloned()).build(),
            Self::System => {
                let named = NAMED.iter().any(|name| std::env::var_os(name).is_some());
                match builder().build() {
                    Err(_) if !named => builder().tls_certs_only(inside()).build(),
                    made => made,
                }
            }
        }
    }
}

/// A client of the system's certificates, or of those inside the program on a system without any.
///
/// # Errors
///
/// The client cannot be made, or the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot
/// be read.
pub fn client_with_roots(builder: impl Fn() -> ClientBuilder) -> reqwest::Result<Client> {
    Trusted::System.client(builder)
}

/// The reason why a connection was refused for the certificate of the server, if that is why a
/// request failed. It has no part of the certificate.
pub fn certificate_refused(error: &reqwest::Error) -> Option<&'static str> {
    use rustls::CertificateError as E;
    let mut source = error.source();
    let refused = loop {
        let error = source?;
        if let Some(rustls::Error::InvalidCertificate(refused)) = error.downcast_ref() {
            break refused;
        }
        // The source of an error of input or output is not the error in it, but that one's source.
        let inner = error.downcast_ref::<std::io::Error>();
        source = match inner.and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    };
    Some(match refused {
        E::UnknownIssuer => "its authority is not known",
        E::Expired | E::ExpiredContext { .. } => "it has expired",
        E::NotValidYet | E::NotValidYetContext { .. } => "it is not valid yet",
        E::NotValidForName | E::NotValidForNameContext { .. } => "it is for another name",
        E::Revoked => "it has been revoked",
        _ => "it does not verify",
    })
}

/// The certificates inside the program: those that Mozilla trusts.
fn inside() -> impl Iterator<Item = Certificate> {
    webpki_root_certs::TLS_SERVER_ROOT_CERTS
        .iter()
        .filter_map(|der| Certificate::from_der(der).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificates_inside_the_program_make_a_client() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let all = webpki_root_certs::TLS_SERVER_ROOT_CERTS.len();
        assert!(all > 100, "{all}");
        assert_eq!(inside().count(), all);
        Trusted::Only(inside().collect())
            .client(Client::builder)
            .unwrap();
    }

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        let of = |pem: &[u8]| Trusted::of(&Roots::Only(pem.to_vec())).map(|_| ());
        assert!(of(b"nothing").unwrap_err().contains("none"));
        let broken = b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        assert!(of(broken).is_err());
    }
}
