//! The configuration of a request.

use std::collections::BTreeMap;
use windlass::NoDuration;
use windlass::prelude::*;
use windlass::schemars::{Schema, SchemaGenerator, json_schema};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Config {
    /// `GET` if absent.
    #[serde(default)]
    method: Option<String>,
    /// Absolute, with scheme `http` or `https`, and without a user and a password.
    pub(crate) url: String,
    /// Each is a text, or `{ secret: NAME }` for a secret that the host inserts. Default of
    /// `user-agent`: the name and the version of the host.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, HeaderSource>,
    /// Added to the URL; an array repeats its name.
    #[serde(default)]
    query: BTreeMap<String, Value>,
    /// The body, as JSON.
    #[serde(default, deserialize_with = "given")]
    pub(crate) json: Option<Value>,
    /// The body, as a form.
    #[serde(default)]
    pub(crate) form: Option<BTreeMap<String, Value>>,
    /// The body: a text as it is, any other value as JSON.
    #[serde(default, deserialize_with = "given")]
    pub(crate) body: Option<Value>,
    /// How long to wait in total, as `5s`, `200ms`, `1m30s` or `PT5S`.
    #[serde(default)]
    timeout: Option<String>,
    /// The statuses that are not a failure. Default: every 2xx.
    #[serde(default)]
    expect: Option<Vec<u16>>,
    /// The largest response; a larger one is a failure.
    #[serde(default)]
    pub(crate) max_response_bytes: Option<u64>,
    /// Whether redirects are followed, up to ten.
    #[serde(default = "yes")]
    pub(crate) follow_redirects: bool,
}

impl Config {
    pub(crate) fn method(&self) -> String {
        self.method.as_deref().unwrap_or("GET").to_ascii_uppercase()
    }

    /// The URL with its query.
    pub(crate) fn url(&self) -> Result<String> {
        if self.query.is_empty() {
            return Ok(self.url.clone());
        }
        let (url, fragment) = match self.url.split_once('#') {
            Some((url, fragment)) => (url, Some(fragment)),
            None => (self.url.as_str(), None),
        };
        let separator = if url.contains('?') { '&' } else { '?' };
        let query = crate::body::form("query", &self.query)?;
        let mut whole = format!("{url}{separator}{query}");
        if let Some(fragment) = fragment {
            whole.push('#');
            whole.push_str(fragment);
        }
        Ok(whole)
    }

    pub(crate) fn expects(&self, status: u16) -> bool {
        match &self.expect {
            Some(statuses) => statuses.contains(&status),
            None => (200..300).contains(&status),
        }
    }

    /// The expected statuses, for people.
    pub(crate) fn expected(&self) -> String {
        match &self.expect {
            Some(statuses) => {
                let statuses: Vec<_> = statuses.iter().map(u16::to_string).collect();
                statuses.join(" or ")
            }
            None => "2xx".to_owned(),
        }
    }

    pub(crate) fn timeout(&self) -> Result<Option<Duration>> {
        let Some(text) = &self.timeout else {
            return Ok(None);
        };
        let timeout = windlass::parse_duration(text);
        timeout
            .map(Some)
            .map_err(|why| Error::invalid(not_a_duration(text, why)))
    }
}

/// The mistake in a text that is no duration.
pub(crate) fn not_a_duration(text: &str, why: NoDuration) -> String {
    format!("timeout: {text:?} {why}")
}

/// The source of a header's value.
#[derive(Deserialize)]
#[serde(try_from = "Value")]
pub(crate) enum HeaderSource {
    Plain(String),
    Secret(String),
}

impl TryFrom<Value> for HeaderSource {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(Self::Plain(text)),
            Value::Number(number) => Ok(Self::Plain(number.to_string())),
            Value::Object(mut members) if members.len() == 1 => match members.remove("secret") {
                Some(Value::String(name)) => Ok(Self::Secret(name)),
                _ => Err(Self::wanted()),
            },
            _ => Err(Self::wanted()),
        }
    }
}

impl HeaderSource {
    fn wanted() -> String {
        "the value of a header is a text or { secret: NAME }".to_owned()
    }
}

impl JsonSchema for HeaderSource {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Header".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": ["string", "number"] },
                {
                    "type": "object",
                    "properties": { "secret": { "type": "string" } },
                    "required": ["secret"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

/// Distinguishes a body that is null from a missing body.
fn given<'de, D: windlass::serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn yes() -> bool {
    true
}
