//! The input of a run that a request starts.
//!
//! The text of a JSON body goes into the input unchanged, so a number keeps all its digits. A body
//! with a repeated member is written again with the last of the two: otherwise the schema of the
//! input and a node could read different values from one text.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use windlass_model::Payload;
use windlass_model::http::Parameters;

use crate::extract;
use crate::problem::Problem;

/// Headers that a run does not get: their content is between the sender and this host.
const KEPT_BACK: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// The parts of a request, without the parameters of its path.
pub(crate) struct Input {
    method: String,
    path: String,
    query: Map<String, Value>,
    headers: Map<String, Value>,
    /// JSON text.
    body: Bytes,
}

impl Input {
    /// Reads the parts of a request.
    ///
    /// # Errors
    ///
    /// The media type of the body is JSON and the body is not, or it nests too deeply.
    pub(crate) fn new(
        method: &str,
        path: &str,
        query: Map<String, Value>,
        all: &HeaderMap,
        body: &Bytes,
    ) -> Result<Self, Box<Problem>> {
        Ok(Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query,
            headers: headers(all),
            body: body_text(all, body)?,
        })
    }

    /// The method and the path.
    pub(crate) fn of(&self) -> (&str, &str) {
        (&self.method, &self.path)
    }

    /// The input of a run that is started with these parameters.
    pub(crate) fn payload(&self, params: &Parameters) -> Payload {
        let mut text = Vec::with_capacity(self.body.len() + 1024);
        let mut member = |name: &str, write: &dyn Fn(&mut Vec<u8>)| {
            text.push(if text.is_empty() { b'{' } else { b',' });
            put(&mut text, &name);
            text.push(b':');
            write(&mut text);
        };
        member("method", &|text| put(text, &self.method));
        member("path", &|text| put(text, &self.path));
        if !params.is_empty() {
            let params: Map<String, Value> = params
                .iter()
                .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
                .collect();
            member("params", &|text| put(text, &params));
        }
        member("query", &|text| put(text, &self.query));
        member("headers", &|text| put(text, &self.headers));
        member("body", &|text| text.extend_from_slice(&self.body));
        text.push(b'}');
        Payload::json(text)
    }
}

/// Appends a value whose serialisation cannot fail: texts, and maps of texts as keys.
fn put(text: &mut Vec<u8>, value: &impl Serialize) {
    text.extend(serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec()));
}

fn headers(headers: &HeaderMap) -> Map<String, Value> {
    let text = |value: &[u8]| Value::String(String::from_utf8_lossy(value).into_owned());
    headers
        .iter()
        .filter(|(name, _)| !KEPT_BACK.contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
        .collect()
}

/// The body for the workflow: JSON as it is, text as text, and any other in Base64.
fn body_text(headers: &HeaderMap, bytes: &Bytes) -> Result<Bytes, Box<Problem>> {
    if bytes.is_empty() {
        return Ok(Bytes::from_static(b"null"));
    }
    let media = headers.get(header::CONTENT_TYPE);
    let media = media
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = media.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") || essence.ends_with("+json") {
        return json_text(bytes);
    }
    let value = match std::str::from_utf8(bytes) {
        Ok(text) => Value::from(text),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    };
    let mut text = Vec::with_capacity(bytes.len() + 2);
    put(&mut text, &value);
    Ok(text.into())
}

/// The JSON text as it was sent, if no member is repeated in it.
fn json_text(bytes: &Bytes) -> Result<Bytes, Box<Problem>> {
    let repeats = Cell::new(false);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Members(&repeats).deserialize(&mut reader);
    if read.and_then(|()| reader.end()).is_ok() && !repeats.get() {
        return Ok(bytes.clone());
    }
    let value: Value = extract::json(bytes)?;
    let mut text = Vec::with_capacity(bytes.len());
    put(&mut text, &value);
    Ok(text.into())
}

/// Reads a value to its end without keeping it. The parser bounds its depth.
struct Members<'a>(&'a Cell<bool>);

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Members(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !names.insert(name) {
                self.0.set(true);
            }
            members.next_value_seed(Members(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(media: &str, body: &[u8]) -> Result<String, Box<Problem>> {
        let headers = [(header::CONTENT_TYPE, media.parse().unwrap())];
        let headers: HeaderMap = headers.into_iter().collect();
        let text = body_text(&headers, &Bytes::copy_from_slice(body))?;
        Ok(String::from_utf8(text.to_vec()).unwrap())
    }

    #[test]
    fn json_is_handed_on_as_it_was_sent() {
        for body in [
            "9007199254740993",
            "123456789012345678901234567890",
            "{\"a\": 1.10, \"b\": [ 1e400000000000 ]}",
            " { \"b\": 2, \"a\": {\"b\": 0.1000000000000000000000001} } ",
            "\"\\u00e4\"",
        ] {
            let is_read = serde_json::from_str::<Value>(body).is_ok();
            let given = text("application/json", body.as_bytes());
            assert_eq!(given.is_ok(), is_read, "{body}");
            if let Ok(given) = given {
                assert_eq!(given, body);
            }
        }
    }

    #[test]
    fn a_member_that_occurs_twice_has_one_value_for_every_reader() {
        let given = text(
            "application/json",
            br#"{"a":{"x":1,"x":2},"a\u0062":1,"ab":3}"#,
        )
        .unwrap();
        assert_eq!(given, r#"{"a":{"x":2},"ab":3}"#);
    }

    #[test]
    fn bodies_that_are_no_json_are_refused_or_are_no_json() {
        let deep = [vec![b'['; 200], vec![b']'; 200]].concat();
        for body in [
            &b"{"[..],
            b"{} {}",
            b"nan",
            b"\"\xff\"",
            b"\"\\ud800\"",
            &deep,
        ] {
            assert!(text("application/json", body).is_err());
            assert!(text("application/vnd.x+json; charset=utf-8", body).is_err());
        }
        assert_eq!(text("text/plain", b"{").unwrap(), r#""{""#);
        assert_eq!(text("x/y", b"\xff").unwrap(), r#"{"base64":"/w=="}"#);
        assert_eq!(text("application/json", b"").unwrap(), "null");
    }

    #[test]
    fn an_input_is_json_whatever_a_request_brings() {
        let mut all = HeaderMap::new();
        all.insert("x-quote", "\"}\\".parse().unwrap());
        all.insert(header::COOKIE, "secret".parse().unwrap());
        let query = [("a\"".to_owned(), json!(["1", "2"]))]
            .into_iter()
            .collect();
        let body = Bytes::from_static(b"text \"quoted\"");
        let input = Input::new("POST", "/a\"", query, &all, &body).unwrap();
        let params = vec![("id".to_owned(), "\"1".to_owned())];
        let text = |params: &Parameters| {
            let payload = input.payload(params);
            serde_json::from_slice::<Value>(payload.inline().unwrap()).unwrap()
        };
        let mut wanted = json!({
            "method": "POST", "path": "/a\"", "query": { "a\"": ["1", "2"] },
            "headers": { "x-quote": "\"}\\" }, "body": "text \"quoted\"",
        });
        assert_eq!(text(&Vec::new()), wanted);
        wanted["params"] = json!({ "id": "\"1" });
        assert_eq!(text(&params), wanted);
    }
}
