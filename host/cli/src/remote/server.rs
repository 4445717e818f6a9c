//! Speaks to a host: requests, pages, and problems as our errors.
//!
//! Bounds: [`CONNECT`] for a connection, [`ANSWER`] for the time of an answer beyond what is
//! waited for, and [`LARGEST`] for its size. What answers may be anything: whatever is not
//! understood is an error, and never taken for nothing.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, redirect};
use serde_json::Value;
use windlass_display::Problems;
use windlass_model::Code;
use windlass_model::diagnostic::{Diagnostic, Place};
use windlass_runtime::codes::INPUT_INVALID;

use super::asking::items;
use crate::codes;
use crate::error::{Expected, of_input, sentence};
use crate::exit::Exit;
use crate::token_file;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(90);

/// How large an answer may be, in bytes: a page of the largest payloads.
const LARGEST: usize = 256 << 20;

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
    /// The host at an address. Nothing is sent yet. Without a token, the one that a host on this
    /// machine has made for itself is used.
    pub(crate) fn new(address: &str, mut token: Option<String>) -> anyhow::Result<Self> {
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
        let mut client = Client::builder()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            // A host does not send its clients elsewhere, and the token is for it alone.
            .redirect(redirect::Policy::none());
        if token.is_none()
            && let Some((listens, made)) = token_file::find(&base)
        {
            // What else `localhost` leads to may be another user's, and so may be a proxy.
            base.set_ip_host(listens)
                .map_err(|()| wrong(&"the address has no host"))?;
            client = client.no_proxy();
            token = Some(made);
        }
        Ok(Self {
            base,
            token,
            client: client.build()?,
            tokio: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
        })
    }

    /// A request below `/api/v1`. The parts of the path are names, and are escaped.
    fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<RequestBuilder, Expected> {
        // Dots are taken out of a path on the way, and it would be another one.
        if let Some(dots) = path.iter().find(|part| matches!(**part, "." | ".." | "")) {
            let text = format!("There is nothing of the name `{dots}`");
            return Err(Expected::new(codes::USAGE, text).exit(Exit::NotFound));
        }
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.client.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    /// Asks for something.
    pub(crate) fn ask(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let request = self.request(method, path, query)?;
        self.send(match body {
            Some(body) => request.json(body),
            None => request,
        })
    }

    /// Changes something that has a text and a revision, perhaps only over one.
    pub(crate) fn change(
        &self,
        method: Method,
        path: &[&str],
        over: Option<(&str, String)>,
        text: Option<String>,
    ) -> anyhow::Result<Value> {
        let mut request = self.request(method, path, &[])?;
        if let Some((header, tag)) = over {
            request = request.header(header, tag);
        }
        if let Some(text) = text {
            request = request.header(CONTENT_TYPE, "application/yaml").body(text);
        }
        Ok(self.send(request)?.1)
    }

    fn send(&self, request: RequestBuilder) -> anyhow::Result<(StatusCode, Value)> {
        let (status, bytes) = self.send_raw(request)?;
        let value = match bytes.is_empty() {
            true => Ok(Value::Null),
            false => serde_json::from_slice(&bytes),
        };
        if !status.is_success() {
            return Err(self.problem(status, &value.unwrap_or_default()).into());
        }
        let value = value.map_err(|error| unusable(&format!("it is no JSON: {error}")))?;
        Ok((status, value))
    }

    /// The status and the bytes of an answer.
    fn send_raw(&self, request: RequestBuilder) -> anyhow::Result<(StatusCode, Vec<u8>)> {
        let answer = self.tokio.block_on(async {
            let mut answer = request.send().await?;
            let bytes = whole(&mut answer).await?;
            Ok((answer.status(), bytes))
        });
        let (status, bytes) = answer.map_err(|error: reqwest::Error| self.unreachable(&error))?;
        let bytes = bytes.ok_or_else(|| unusable("it is larger than an answer may be"))?;
        Ok((status, bytes))
    }

    /// Gets one thing byte for byte: what is signed must not be written anew.
    pub(crate) fn get_raw(&self, path: &[&str]) -> anyhow::Result<Vec<u8>> {
        let (status, bytes) = self.send_raw(self.request(Method::GET, path, &[])?)?;
        if !status.is_success() {
            let problem = serde_json::from_slice(&bytes).unwrap_or_default();
            return Err(self.problem(status, &problem).into());
        }
        Ok(bytes)
    }

    /// Sends JSON byte for byte.
    pub(crate) fn post_raw(
        &self,
        path: &[&str],
        query: &[(&str, String)],
        json: Bytes,
    ) -> anyhow::Result<Value> {
        let request = self.request(Method::POST, path, query)?;
        let request = request.header(CONTENT_TYPE, "application/json").body(json);
        Ok(self.send(request)?.1)
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
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        while all.len() < limit as usize {
            let left = limit - u32::try_from(all.len()).unwrap_or(limit);
            let mut query = filter.to_vec();
            query.push(("limit", left.min(PAGE).to_string()));
            query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let (_, mut page) = self.ask(Method::GET, path, &query, None)?;
            let more = items(&mut page, "items")?;
            // An empty page leads nowhere, whatever it says.
            let next = page.get("next").and_then(Value::as_str);
            cursor = next.filter(|_| !more.is_empty()).map(str::to_owned);
            all.extend(more);
            if cursor.is_none() {
                break;
            }
        }
        all.truncate(limit as usize);
        Ok(all)
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
        let found = mistakes(problem, "errors");
        if code == INPUT_INVALID && !found.is_empty() {
            return of_input(code, &found);
        }
        if !found.is_empty() {
            return Expected::of_file(Problems {
                name: "what was sent".to_owned(),
                text: "".into(),
                diagnostics: found,
            });
        }
        let exit = match status {
            StatusCode::NOT_FOUND => Exit::NotFound,
            StatusCode::CONFLICT => Exit::Conflict,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Exit::Unreachable,
            status if status.is_client_error() => match Exit::of(&code) {
                Exit::Plugin => Exit::Plugin,
                _ => Exit::Usage,
            },
            _ => Exit::of(&code),
        };
        let expected = Expected::new(code, sentence(detail)).exit(exit);
        match text("help") {
            Some(help) => expected.help(sentence(help)),
            None => expected,
        }
    }
}

/// An answer as a whole; none if it is larger than it may be.
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

/// An answer that makes no sense.
pub(super) fn unusable(why: &str) -> Expected {
    Expected::new(
        codes::SERVER_ANSWER,
        format!("The answer of the host cannot be used: {why}"),
    )
    .help("Look whether it is a windlass of this version that `--server` names.")
    .exit(Exit::Unreachable)
}

/// What an answer says is wrong with a workflow or an input.
pub(crate) fn mistakes(answer: &Value, key: &str) -> Vec<Diagnostic> {
    let found = answer.get(key).and_then(Value::as_array);
    let mistake = |found: &Value| {
        let text = |key: &str| found.get(key).and_then(Value::as_str);
        let place = Place::at(text("pointer")?);
        let mut read = Diagnostic::new(Code::read(text("code")?), text("detail")?, place);
        read.help = text("help").map(str::to_owned);
        Some(read)
    };
    found.into_iter().flatten().filter_map(mistake).collect()
}
