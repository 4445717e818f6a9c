//! The bodies of requests and responses.

use crate::config::Config;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use windlass::http::Response;
use windlass::prelude::*;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// The mistake of a request with several bodies.
pub(crate) const ONE_BODY: &str = "a request has one body: give only one of json, form and body";
const FORM: &str = "application/x-www-form-urlencoded";

/// The media type and the bytes of the body of a request, if it has one.
pub(crate) fn encode(config: &Config) -> Result<Option<(&'static str, Vec<u8>)>> {
    Ok(match (&config.json, &config.form, &config.body) {
        (None, None, None) => None,
        (Some(value), None, None) => Some((JSON, value.to_string().into_bytes())),
        (None, Some(fields), None) => Some((FORM, form("form", fields)?.into_bytes())),
        (None, None, Some(Value::String(text))) => Some((TEXT, text.clone().into_bytes())),
        (None, None, Some(value)) => Some((JSON, value.to_string().into_bytes())),
        _ => {
            return Err(Error::invalid(ONE_BODY));
        }
    })
}

/// Fields in the encoding that forms and queries share; an array repeats its name.
pub(crate) fn form(what: &str, fields: &BTreeMap<String, Value>) -> Result<String> {
    let mut encoded = form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        for value in values {
            match value {
                Value::Null => {}
                Value::String(text) => {
                    encoded.append_pair(name, text);
                }
                Value::Bool(_) | Value::Number(_) => {
                    encoded.append_pair(name, &value.to_string());
                }
                Value::Array(_) | Value::Object(_) => {
                    return Err(Error::invalid(format!(
                        "{what}.{name}: a field is a text, a number, a boolean, or an array of those"
                    )));
                }
            }
        }
    }
    Ok(encoded.finish())
}

/// The body of a response as a value. The host has removed the content codings that it knows, and
/// has written texts in UTF-8.
pub(crate) fn decode(response: &Response) -> Result<Value> {
    if response.body.is_empty() {
        return Ok(Value::Null);
    }
    // A part of a coded body cannot be decoded by itself.
    if let Some(coding) = response
        .header("content-encoding")
        .filter(|it| is_coded(it))
    {
        return match response.status {
            206 => Ok(base64(response)),
            _ => Err(Error::permanent(format!(
                "the response has the content coding {coding:?}; gzip, deflate, br and zstd are known"
            ))),
        };
    }
    let content_type = response.header("content-type").unwrap_or_default();
    let charset = other_charset(content_type);
    if is_json(content_type) {
        if let Some(charset) = charset {
            return Err(Error::permanent(format!(
                "the response says that it is JSON in the charset {charset:?}, which is unknown or \
                 not that of its bytes"
            )));
        }
        return response.json().map_err(|error| {
            Error::permanent(format!(
                "the response says that it is {content_type}, but it is not JSON: {}",
                error.message()
            ))
        });
    }
    match response.text() {
        Some(text) if charset.is_none() => Ok(Value::String(text.to_owned())),
        _ => Ok(base64(response)),
    }
}

fn base64(response: &Response) -> Value {
    json!({ "base64": STANDARD.encode(&response.body) })
}

fn is_coded(encoding: &str) -> bool {
    let mut names = encoding.split(',').map(str::trim);
    names.any(|name| !name.is_empty() && !name.eq_ignore_ascii_case("identity"))
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    essence == JSON || essence.ends_with("+json")
}

/// The charset of a text that the host could not write in UTF-8.
fn other_charset(content_type: &str) -> Option<&str> {
    let parameters = content_type.split(';').skip(1);
    let charset = parameters
        .filter_map(|it| it.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    let charset = charset?.1.trim().trim_matches('"');
    let is_utf8 = ["utf-8", "utf8", "us-ascii", "ascii", ""]
        .iter()
        .any(|name| charset.eq_ignore_ascii_case(name));
    (!is_utf8).then_some(charset)
}
