//! The bodies of requests and responses.

use crate::config::Config;
use std::collections::BTreeMap;
use windlass::http::Response;
use windlass::prelude::*;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
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
            return Err(Error::invalid(
                "a request has one body: give only one of json, form and body",
            ));
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

/// The body of a response as a value.
pub(crate) fn decode(response: &Response) -> Result<Value> {
    let content_type = response.header("content-type").unwrap_or_default();
    if response.body.is_empty() {
        return Ok(Value::Null);
    }
    if is_json(content_type) {
        return response.json().map_err(|error| {
            Error::permanent(format!(
                "the response says that it is {content_type}, but it is not JSON: {}",
                error.message()
            ))
        });
    }
    match std::str::from_utf8(&response.body) {
        Ok(text) => Ok(Value::String(text.to_owned())),
        Err(_) => Err(Error::permanent(format!(
            "the response is no text in UTF-8 (content-type: {content_type})"
        ))),
    }
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    essence == JSON || essence.ends_with("+json")
}
