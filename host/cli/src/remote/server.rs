//! Speaks to a host: requests, pages, and problems as our errors.
//!
//! Bounds: [`CONNECT`] for a connection, [`ANSWER`] for an answer beyond what is waited for.

use std::time::Duration;

use reqwest::{Client, Method, StatusCode, Url};
use serde_json::Value;
use windlass_model::Code;

use crate::codes;
use crate::error::{Expected, sentence};
use crate::exit::Exit;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(60);

/// The largest page of a list that is asked for.
const PAGE: u32 = 500;

/// A host that runs somewhere.
pub(crate) struct Server {
    base: Url,
    token: Option<String>,
    client: Client,
    tokio: tokio::runtime::Runtime,
}

impl Server {
    /// The host at an address. Nothing is sent yet.
    pub(crate) fn new(address: &str, token: Option<String>) -> anyhow::Result<Self> {
        let wrong = |why: &dyn std::fmt::Display| {
            Expected::new(codes::SERVER_URL, format!("`--server {address}`: {why}"))
                .help("Write it like `http://127.0.0.1:7433`.")
        };
        let mut base: Url = address.parse().map_err(|error| wrong(&error))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(wrong(&"the address is neither http nor https").into());
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        // Whoever set one before us has set the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            base,
            token,
            client: Client::builder()
                .connect_timeout(CONNECT)
                .timeout(ANSWER)
                .build()?,
            tokio: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
        })
    }

    /// Asks for something below `/api/v1`. The parts of the path are names, and are escaped.
    pub(crate) fn ask(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.client.request(method, url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = self.tokio.block_on(async {
            let answer = request.send().await?;
            let status = answer.status();
            Ok((status, answer.bytes().await?))
        });
        let (status, bytes) = answer.map_err(|error: reqwest::Error| self.unreachable(&error))?;
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() {
            return Ok((status, value));
        }
        Err(self.problem(status, &value).into())
    }

    /// Gets one thing.
    pub(crate) fn get(&self, path: &[&str]) -> anyhow::Result<Value> {
        Ok(self.ask(Method::GET, path, &[], None)?.1)
    }

    /// Asks for something to be done.
    pub(crate) fn post(&self, path: &[&str], body: &Value) -> anyhow::Result<Value> {
        Ok(self.ask(Method::POST, path, &[], Some(body))?.1)
    }

    /// The first items of a list.
    pub(crate) fn list(
        &self,
        path: &[&str],
        filter: &[(&str, String)],
        limit: u32,
    ) -> anyhow::Result<Vec<Value>> {
        let (mut items, mut cursor) = (Vec::new(), None::<String>);
        while items.len() < limit as usize {
            let left = limit - u32::try_from(items.len()).unwrap_or(limit);
            let mut query = filter.to_vec();
            query.push(("limit", left.min(PAGE).to_string()));
            query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let (_, mut page) = self.ask(Method::GET, path, &query, None)?;
            if let Some(Value::Array(more)) = page.get_mut("items").map(Value::take) {
                items.extend(more);
            }
            match page.get("next").and_then(Value::as_str) {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        Ok(items)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Expected {
        // What lies below says why; the address is said already.
        let mut why: &dyn std::error::Error = error;
        while let Some(below) = why.source() {
            why = below;
        }
        let text = format!("The host at {} does not answer: {why}", self.base);
        Expected::new(codes::SERVER_UNREACHABLE, text)
            .help("`windlass serve` is that host; `--server` or $WINDLASS_SERVER says where it is.")
            .exit(Exit::Unreachable)
    }

    /// A problem of RFC 9457 as one of our errors.
    fn problem(&self, status: StatusCode, problem: &Value) -> Expected {
        let text = |key: &str| problem.get(key).and_then(Value::as_str);
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let detail = format!("The host at {} wants another token", self.base);
            return Expected::new(codes::SERVER_UNAUTHORISED, detail)
                .help("Give it by `--token` or in $WINDLASS_TOKEN.")
                .exit(Exit::Unauthorised);
        }
        let (Some(code), Some(detail)) = (text("code"), text("detail")) else {
            let detail = format!("What is at {} is no windlass: it says {status}", self.base);
            return Expected::new(codes::SERVER_UNREACHABLE, detail).exit(Exit::Unreachable);
        };
        let code = Code::read(code);
        let exit = match status {
            StatusCode::NOT_FOUND => Exit::NotFound,
            StatusCode::CONFLICT => Exit::Conflict,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Exit::Unreachable,
            status if status.is_client_error() => match Exit::of(&code) {
                Exit::Bug => Exit::Usage,
                exit => exit,
            },
            _ => Exit::of(&code),
        };
        let mistakes = problem.get("errors").and_then(Value::as_array);
        let mistakes = mistakes.into_iter().flatten().filter_map(|mistake| {
            let detail = mistake.get("detail")?.as_str()?;
            let pointer = mistake.get("pointer")?.as_str()?;
            Some(format!("\n{pointer}: {detail}"))
        });
        let message = format!("{}{}", sentence(detail), mistakes.collect::<String>());
        let expected = Expected::new(code, message).exit(exit);
        match text("help") {
            Some(help) => expected.help(help),
            None => expected,
        }
    }
}
