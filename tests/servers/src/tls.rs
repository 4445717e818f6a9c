//! Certificates for servers with TLS, made by the program `openssl`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::places;

/// The parameters of a key.
const KEY: [&str; 5] = [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
];

/// The extensions of a server's certificate.
const SERVER: &str = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n";

/// A separate authority, which is trusted only where its certificate is configured.
#[derive(Debug)]
pub struct Authority {
    folder: TempDir,
    openssl: PathBuf,
}

impl Authority {
    /// Makes one; if `openssl` is neither installed nor required, prints a message and returns
    /// none.
    ///
    /// # Errors
    ///
    /// It is required and not installed, or fails.
    pub fn for_test() -> Result<Option<Self>> {
        let Some(openssl) = places::program("openssl", &[]) else {
            places::missing("openssl", "openssl")?;
            return Ok(None);
        };
        let folder = tempfile::Builder::new()
            .prefix("windlass-authority-")
            .tempdir()?;
        let authority = Self { folder, openssl };
        let mut arguments = vec!["req", "-x509", "-days", "2", "-subj", "/CN=an authority"];
        arguments.extend(KEY);
        arguments.extend(["-keyout", "authority.key", "-out", "authority.crt"]);
        arguments.extend(["-addext", "keyUsage=critical,keyCertSign"]);
        authority.run(&arguments)?;
        Ok(Some(authority))
    }

    /// The file with its certificate.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("authority.crt")
    }

    /// The files of a certificate for a server at 127.0.0.1, and of its key.
    ///
    /// # Errors
    ///
    /// `openssl` fails.
    pub fn issue(&self) -> Result<(PathBuf, PathBuf)> {
        let mut arguments = vec!["req", "-subj", "/CN=a server"];
        arguments.extend(KEY);
        arguments.extend(["-keyout", "server.key", "-out", "server.csr"]);
        self.run(&arguments)?;
        std::fs::write(self.path("server.ext"), SERVER)?;
        let sign = ["x509", "-req", "-days", "2", "-in", "server.csr"];
        let by = ["-CA", "authority.crt", "-CAkey", "authority.key"];
        let into = [
            "-CAcreateserial",
            "-extfile",
            "server.ext",
            "-out",
            "server.crt",
        ];
        self.run(&[&sign[..], &by, &into].concat())?;
        Ok((self.path("server.crt"), self.path("server.key")))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        let output = Command::new(&self.openssl)
            .args(arguments)
            .current_dir(self.folder.path() as &Path)
            .output()
            .context("cannot run openssl")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "openssl {arguments:?}: {said}");
        Ok(())
    }
}
