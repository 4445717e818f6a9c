//! The API, as commands speak it: to a host over HTTP, or to the same handlers in this process, on
//! a store.
//!
//! A command has one body. The command chooses between the two where it asks for the API
//! ([`Context::api`](crate::app::Context::api)). Answers are not trusted to have a certain form: an
//! answer that the command does not understand is an error.

mod answer;
mod host;
mod process;
mod runs;

use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde_json::Value;
use windlass_runtime::codes::PLUGIN_MISSING;
use windlass_server::Cause;
use windlass_store::Store;

pub(crate) use answer::{at_ms, items, mistakes, number, picked, taken, text, truth, unusable};
pub(crate) use runs::WAIT;

use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::Output;
use crate::wire::Machine;
use host::Host;
use process::Process;

/// The largest page of a list that a command requests.
pub(crate) const PAGE: u32 = 500;

/// The API of a host, or of this process.
pub(crate) enum Api {
    /// The API of a running host.
    Host(Host),
    /// The API of this process, on a store.
    Process(Process),
}

/// The content of a request: query, headers and body.
#[derive(Default)]
struct Content {
    headers: HeaderMap,
    body: Option<Bytes>,
}

/// An answer: its status and its body.
struct Answer {
    status: StatusCode,
    body: Bytes,
    /// The cause of a problem, if this process has answered.
    cause: Option<Cause>,
}

impl Content {
    fn json(body: impl Into<Bytes>) -> Self {
        Self::of("application/json", body)
    }

    fn of(media: &'static str, body: impl Into<Bytes>) -> Self {
        let media = HeaderValue::from_static(media);
        Self {
            headers: HeaderMap::from_iter([(CONTENT_TYPE, media)]),
            body: Some(body.into()),
        }
    }
}

impl Api {
    /// The API of the host at an address. Sends nothing yet.
    pub(crate) fn of_host(address: &str, token: Option<String>) -> anyhow::Result<Self> {
        Ok(Self::Host(Host::new(address, token)?))
    }

    /// Asks the host at an address whether it accepts work.
    ///
    /// # Errors
    ///
    /// It does not, or does not answer.
    pub(crate) fn ready(address: &str) -> anyhow::Result<()> {
        Self::page(&Host::new(address, None)?, "readyz")?;
        Ok(())
    }

    /// The metrics of the host at an address, in the text format of Prometheus.
    ///
    /// # Errors
    ///
    /// It does not answer, or wants another token.
    pub(crate) fn metrics(address: &str, token: Option<String>) -> anyhow::Result<String> {
        let body = Self::page(&Host::new(address, token)?, "metrics")?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// The body of a page that is no part of the API.
    fn page(host: &Host, name: &str) -> anyhow::Result<Bytes> {
        let mut url = host.base().clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().push(name);
        }
        let answer = host.send(Method::GET, url, Content::default())?;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        Err(answer::problem(host.base(), answer).into())
    }

    /// The API of this process, on a store that is closed when the API is dropped.
    pub(crate) fn of_process(
        machine: Machine,
        store: Arc<dyn Store>,
        output: Output,
    ) -> anyhow::Result<Self> {
        Ok(Self::Process(Process::new(machine, store, output)?))
    }

    /// Whether this process answers.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Self::Process(_))
    }

    /// Sends a request, and returns the status and the answer.
    pub(crate) fn ask(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let content = body.map(|body| Content::json(body.to_string()));
        self.document(method, path, query, content.unwrap_or_default())
    }

    /// Changes a resource that has a text and a revision; on request only if it has a certain
    /// revision.
    pub(crate) fn change(
        &self,
        method: Method,
        path: &[&str],
        over: Option<(&'static str, String)>,
        text: Option<String>,
    ) -> anyhow::Result<Value> {
        let content = text.map(|text| Content::of("application/yaml", text));
        let mut content = content.unwrap_or_default();
        if let Some((header, tag)) = over {
            content.headers.insert(header, HeaderValue::try_from(tag)?);
        }
        Ok(self.document(method, path, &[], content)?.1)
    }

    /// Gets a resource byte for byte: signed bytes must not be serialised again.
    pub(crate) fn get_raw(&self, path: &[&str]) -> anyhow::Result<Bytes> {
        Ok(self.send(Method::GET, path, &[], Content::default())?.body)
    }

    /// Sends JSON byte for byte.
    pub(crate) fn post_raw(
        &self,
        path: &[&str],
        query: &[(&str, String)],
        json: Bytes,
    ) -> anyhow::Result<Value> {
        let content = Content::json(json);
        Ok(self.document(Method::POST, path, query, content)?.1)
    }

    /// Gets one resource.
    pub(crate) fn get(&self, path: &[&str]) -> anyhow::Result<Value> {
        Ok(self.ask(Method::GET, path, &[], None)?.1)
    }

    /// Posts a request to act.
    pub(crate) fn post(&self, path: &[&str], body: &Value) -> anyhow::Result<Value> {
        Ok(self.ask(Method::POST, path, &[], Some(body))?.1)
    }

    /// The first items of a list, reduced to these members.
    pub(crate) fn list(
        &self,
        path: &[&str],
        filter: &[(&str, String)],
        limit: u32,
        keys: &[&str],
    ) -> anyhow::Result<Vec<Value>> {
        let items = self.list_whole(path, filter, limit)?;
        Ok(items.into_iter().map(|item| picked(item, keys)).collect())
    }

    /// The first items of a list.
    pub(crate) fn list_whole(
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
            // An empty page has no next page, even if it names one.
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

    fn document(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        content: Content,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let answer = self.send(method, path, query, content)?;
        if answer.body.is_empty() {
            return Ok((answer.status, Value::Null));
        }
        let value = serde_json::from_slice(&answer.body)
            .map_err(|error| unusable(&format!("it is no JSON: {error}")))?;
        Ok((answer.status, value))
    }

    /// Sends a request below `/api/v1`. The parts of the path are names, and are escaped.
    fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        content: Content,
    ) -> anyhow::Result<Answer> {
        // URL parsing resolves dot segments, so the request would reach another path.
        if let Some(dots) = path.iter().find(|part| matches!(**part, "." | ".." | "")) {
            let text = format!("There is nothing of the name `{dots}`");
            return Err(Expected::new(codes::USAGE, text)
                .exit(Exit::NotFound)
                .into());
        }
        let mut url = self.base().clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let answer = match self {
            Self::Host(host) => host.send(method, url, content)?,
            Self::Process(process) => process.send(method, &url, content)?,
        };
        if answer.status.is_success() {
            return Ok(answer);
        }
        let mut error = answer::problem(self.base(), answer);
        if self.is_here() {
            note_hosts(&mut error);
        }
        Err(error.into())
    }

    fn base(&self) -> &Url {
        match self {
            Self::Host(host) => host.base(),
            Self::Process(process) => process.base(),
        }
    }
}

/// Notes that a plugin which this process does not find may be in use by a host.
fn note_hosts(error: &mut Expected) {
    let found = error.problems.iter().flat_map(|it| &it.diagnostics);
    if found.into_iter().any(|it| it.code == PLUGIN_MISSING) {
        let note = "This command looks into the plugin folder. A host that runs may still have the \
                    plugin: with `--server URL` the host does the work.";
        error.note = Some(note.to_owned());
    }
}
