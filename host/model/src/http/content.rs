//! A request as a run gets it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Parameters, Typed};
use crate::Diagnostic;

/// The parts of a request, without the parameters of its path.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method as it was sent.
    pub method: String,
    /// The path after `/hooks`.
    pub path: String,
    /// Texts by name, or lists of texts.
    pub query: Map<String, Value>,
    /// As the query; the names are in lower case.
    pub headers: Map<String, Value>,
    /// The body.
    pub body: Body,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub struct Body {
    /// The content, as JSON text.
    pub json: Bytes,
    /// The JSON text in `payload`, if that is the only field of a form: GitHub sends JSON in a form
    /// as well.
    pub payload: Option<Bytes>,
    /// The body as it was sent, without a content coding.
    pub sent: Bytes,
    /// Whether it is a form without files: every trigger gets `raw` then.
    pub is_form: bool,
}

/// What a trigger takes of its requests.
#[derive(Debug, Default)]
pub struct Taking {
    /// The types of the query.
    pub query: Option<Typed>,
    /// The types of the parameters.
    pub params: Option<Typed>,
    /// Whether `raw` has the body as it was sent, with any media type.
    pub raw: bool,
    /// Whether the payload of a form is the body.
    pub payload: bool,
}

impl Request {
    /// The request as JSON text, with texts in its query and its parameters.
    pub fn json(&self, params: &Parameters) -> Vec<u8> {
        let params = (!params.is_empty()).then(|| text(&by_name(params)));
        let body = (&*self.body.json, self.body.is_form);
        self.written(&text(&self.query), params.as_deref(), body)
    }

    /// The request as JSON text, as a trigger takes it.
    ///
    /// # Errors
    ///
    /// The query or the parameters do not fit their schemas.
    pub fn taken(&self, params: &Parameters, taking: &Taking) -> Result<Vec<u8>, Vec<Diagnostic>> {
        let mut wrong = Vec::new();
        let mut typed = |of: &Option<Typed>, texts: &Map<String, Value>, pointer: &str| {
            let read = of.as_ref().map(|of| of.read(texts, pointer));
            read.unwrap_or_else(|| Ok(text(texts)))
                .unwrap_or_else(|found| {
                    wrong.extend(found);
                    Vec::new()
                })
        };
        let query = typed(&taking.query, &self.query, "/query");
        let has_params = !params.is_empty();
        let params = has_params.then(|| typed(&taking.params, &by_name(params), "/params"));
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let payload = self.body.payload.as_ref().filter(|_| taking.payload);
        let body = payload.unwrap_or(&self.body.json);
        let has_raw = taking.raw || self.body.is_form;
        Ok(self.written(&query, params.as_deref(), (&**body, has_raw)))
    }

    fn written(
        &self,
        query: &[u8],
        params: Option<&[u8]>,
        (body, has_raw): (&[u8], bool),
    ) -> Vec<u8> {
        let mut json = Vec::with_capacity(body.len() + 1024);
        let mut member = |name: &str, value: &[u8]| {
            json.push(if json.is_empty() { b'{' } else { b',' });
            json.extend(text(&name));
            json.push(b':');
            json.extend_from_slice(value);
        };
        member("method", &text(&self.method));
        member("path", &text(&self.path));
        params
            .into_iter()
            .for_each(|params| member("params", params));
        member("query", query);
        member("headers", &text(&self.headers));
        member("body", body);
        if has_raw {
            member("raw", &text(&as_sent(&self.body.sent)));
        }
        json.push(b'}');
        json
    }
}

/// Bytes as a value: an object with `base64`.
pub fn value_of_bytes(bytes: &[u8]) -> Value {
    json!({ "base64": STANDARD.encode(bytes) })
}

fn as_sent(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| value_of_bytes(bytes), Value::from)
}

fn by_name(params: &Parameters) -> Map<String, Value> {
    let pair = |(name, value): &(String, String)| (name.clone(), Value::from(value.as_str()));
    params.iter().map(pair).collect()
}

/// The JSON text of a text, or of a map with texts as keys: writing it cannot fail.
fn text(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec())
}
