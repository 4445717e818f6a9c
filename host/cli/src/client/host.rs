//! The API of a running host, over HTTP.
//!
//! Bounds: [`CONNECT`] for a connection, [`ANSWER`] for the time of an answer beyond the wait that
//! the request asks for, and [`LARGEST`] for the size of an answer.

use std::time::Duration;

use reqwest::{Client, Method, Response, Url, redirect};

use super::{Answer, Content, unusable};
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::token_file;
use crate::wire::place::without_password;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(90);

/// How large an answer may be, in bytes: a page of the largest payloads.
const LARGEST: usize = 256 << 20;

/// A running host.
pub(crate) struct Host {
    base: Url,
    token: Option<String>,
    client: Client,
    tokio: tokio::runtime::Runtime,
}

impl Host {
    /// The host at an address. Sends nothing yet. Without a token, it uses the token that a host on
    /// this machine has made for itself.
    pub(super) fn new(address: &str, mut token: Option<String>) -> anyhow::Result<Self> {
        let wrong = |why: &dyn std::fmt::Display| {
            let shown = without_password(address);
            Expected::new(codes::SERVER_URL, format!("`--server {shown}`: {why}"))
                .help("Write it like `http://127.0.0.1:7433`.")
        };
        let mut base: Url = address.parse().map_err(|error| wrong(&error))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(wrong(&"the address is neither http nor https").into());
        }
        if !base.username().is_empty() || base.password().is_some() {
            let why = "the address has a user or a password, which no host asks for";
            return Err(wrong(&why).into());
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        // Another part of the process may have installed a provider; it is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // A proxy would take this machine for itself.
        let mut direct = windlass_plugins::is_this_machine(&base);
        if token.is_none()
            && let Some((listens, made)) = token_file::find(&base)
        {
            // `localhost` may resolve to an address of another user's program, and a proxy may be
            // another user's, too.
            base.set_ip_host(listens)
                .map_err(|()| wrong(&"the address has no host"))?;
            direct = true;
            token = Some(made);
        }
        let client = || {
            let client = Client::builder()
                .connect_timeout(CONNECT)
                .timeout(ANSWER)
                // A host never redirects its clients, and the token is for this host alone.
                .redirect(redirect::Policy::none());
            if direct { client.no_proxy() } else { client }
        };
        // Plain HTTP needs no certificates, and a small container has none.
        let made = match base.scheme() {
            "http" => client().tls_certs_only([]).build()?,
            _ => windlass_plugins::client_with_roots(client).map_err(|error| {
                let text = format!("Servers cannot be verified: {}", cause(&error));
                Expected::new(codes::SERVER_UNREACHABLE, text)
                    .help("SSL_CERT_FILE and SSL_CERT_DIR name the certificates, or unset both.")
                    .exit(Exit::Unreachable)
            })?,
        };
        Ok(Self {
            base,
            token,
            client: made,
            tokio: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
        })
    }

    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    pub(super) fn send(
        &self,
        method: Method,
        url: Url,
        content: Content,
    ) -> anyhow::Result<Answer> {
        let mut request = self.client.request(method, url).headers(content.headers);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = content.body {
            request = request.body(body);
        }
        let answer = self.tokio.block_on(async {
            let mut answer = request.send().await?;
            let bytes = whole(&mut answer).await?;
            Ok((answer.status(), bytes))
        });
        let (status, bytes) = answer.map_err(|error: reqwest::Error| self.unreachable(&error))?;
        let bytes = bytes.ok_or_else(|| unusable("it is larger than an answer may be"))?;
        Ok(Answer {
            status,
            body: bytes.into(),
            cause: None,
        })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Expected {
        if let Some(why) = windlass_plugins::certificate_refused(error) {
            let text = format!("The certificate of {} is refused: {why}", self.base);
            return Expected::new(codes::SERVER_UNREACHABLE, text)
                .help("$SSL_CERT_FILE names a file with the authorities that count.")
                .exit(Exit::Unreachable);
        }
        let text = format!(
            "The host at {} does not answer: {}",
            self.base,
            cause(error)
        );
        Expected::new(codes::SERVER_UNREACHABLE, text)
            .help("`windlass serve` is that host; `--server` or $WINDLASS_SERVER says where it is.")
            .exit(Exit::Unreachable)
    }
}

/// The innermost cause, which says why; the first text only repeats the address.
fn cause(error: &reqwest::Error) -> &dyn std::error::Error {
    let mut why: &dyn std::error::Error = error;
    while let Some(below) = why.source() {
        why = below;
    }
    why
}

/// The whole answer; none if it exceeds the limit.
async fn whole(answer: &mut Response) -> reqwest::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if bytes.len() + chunk.len() > LARGEST {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}
