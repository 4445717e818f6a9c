//! The input of a run that a request starts.
//!
//! The text of a JSON body goes into the input unchanged, so a number keeps all its digits. A body
//! with a repeated member is written again with the last of the two: otherwise the schema of the
//! input and a node could read different values from one text.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use axum::http::HeaderMap;
use bytes::Bytes;
use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use windlass_body::header_text;
use windlass_model::Payload;
use windlass_model::http::{self, Parameters, Verify};

use crate::content::{self, Content, Field, Fields};
use crate::extract;
use crate::problem::Problem;

/// Headers that a run does not get: their content is between the sender and this host.
const KEPT_BACK: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// How deep lists and objects may nest in a JSON body: the input of the run is an object around it.
pub(crate) const DEPTH: usize = extract::DEPTH - 1;

/// The method and the path of a request.
pub(crate) struct Of<'r> {
    /// The method as it was sent.
    pub(crate) method: &'r str,
    /// The method of the triggers that the request may start: `GET` for a `HEAD`.
    pub(crate) asked: &'r str,
    pub(crate) path: &'r str,
}

/// The parts of a request, without the parameters of its path.
pub(crate) struct Input {
    method: String,
    asked: String,
    path: String,
    query: Map<String, Value>,
    headers: Map<String, Value>,
    body: Body,
}

/// The body of a request, as JSON text.
#[derive(Debug)]
struct Body {
    text: Bytes,
    /// A form without files as it was sent.
    raw: Option<Value>,
    /// The only field of a form, `payload`, if it is JSON: GitHub sends JSON in a form as well.
    payload: Option<Bytes>,
}

impl Input {
    /// Reads the parts of a request. The body has no content coding any more.
    ///
    /// # Errors
    ///
    /// The body is not what its media type says, or it nests too deeply.
    pub(crate) fn new(
        of: &Of<'_>,
        query: Map<String, Value>,
        all: &HeaderMap,
        body: &Bytes,
    ) -> Result<Self, Box<Problem>> {
        Ok(Self {
            method: of.method.to_owned(),
            asked: of.asked.to_owned(),
            path: of.path.to_owned(),
            query,
            headers: headers(all),
            body: Body::read(all, body)?,
        })
    }

    /// The match of the stimulus.
    pub(crate) fn matches(&self) -> Value {
        http::matches(&self.asked, &self.path)
    }

    /// The input of a run that is started with these parameters, by a trigger that verified the
    /// request or not.
    pub(crate) fn payload(&self, params: &Parameters, verify: Option<&Verify>) -> Payload {
        let payload = self.body.payload.as_ref();
        let payload = payload.filter(|_| matches!(verify, Some(Verify::Github { .. })));
        let body = payload.unwrap_or(&self.body.text);
        let mut text = Vec::with_capacity(body.len() + 1024);
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
        member("body", &|text| text.extend_from_slice(body));
        if let Some(raw) = &self.body.raw {
            member("raw", &|text| put(text, raw));
        }
        text.push(b'}');
        Payload::json(text)
    }
}

impl Body {
    /// JSON as it is, text as text, a form as its fields, and any other body in Base64.
    fn read(headers: &HeaderMap, bytes: &Bytes) -> Result<Self, Box<Problem>> {
        if bytes.is_empty() {
            return Ok(Self::of(Bytes::from_static(b"null")));
        }
        if let Some(fields) = content::fields(headers, bytes)? {
            return Ok(Self::form(headers, bytes, fields));
        }
        let value = match content::read(headers, bytes)? {
            Content::Json(text) => {
                let text = match text.len() == bytes.len() {
                    true => bytes.clone(),
                    false => Bytes::copy_from_slice(text.as_bytes()),
                };
                return Ok(Self::of(json_text(&text)?));
            }
            Content::Text(text) => Value::from(text),
            Content::Bytes(bytes) => content::value_of_bytes(bytes),
        };
        Ok(Self::of(written(&value)))
    }

    fn form(headers: &HeaderMap, bytes: &[u8], fields: Fields) -> Self {
        let is_plain = content::is_plain_form(headers);
        let payload = match fields.as_slice() {
            [(name, Field::Text(text))] if is_plain && name == "payload" => {
                json_text(&Bytes::copy_from_slice(text.as_bytes())).ok()
            }
            _ => None,
        };
        let raw = is_plain.then(|| match std::str::from_utf8(bytes) {
            Ok(text) => Value::from(text),
            Err(_) => content::value_of_bytes(bytes),
        });
        Self {
            text: written(&content::by_name(fields)),
            raw,
            payload,
        }
    }

    fn of(text: Bytes) -> Self {
        Self {
            text,
            raw: None,
            payload: None,
        }
    }
}

/// Appends a value whose serialisation cannot fail: texts, and maps of texts as keys.
fn put(text: &mut Vec<u8>, value: &impl Serialize) {
    text.extend(serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec()));
}

fn written(value: &impl Serialize) -> Bytes {
    let mut text = Vec::new();
    put(&mut text, value);
    text.into()
}

/// The headers: text, or a list of texts for a repeated header.
fn headers(headers: &HeaderMap) -> Map<String, Value> {
    let kept = headers
        .iter()
        .filter(|(name, _)| !KEPT_BACK.contains(&name.as_str()));
    content::by_name(kept.map(|(name, value)| (name.to_string(), header_text(value.as_bytes()))))
}

/// The JSON text as it was sent, if no member is repeated in it.
fn json_text(bytes: &Bytes) -> Result<Bytes, Box<Problem>> {
    let (repeats, is_too_deep) = (Cell::new(false), Cell::new(false));
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let members = Members {
        repeats: &repeats,
        is_too_deep: &is_too_deep,
        left: DEPTH,
    };
    let read = members.deserialize(&mut reader);
    if is_too_deep.get() {
        return Err(extract::too_deep(DEPTH));
    }
    if read.and_then(|()| reader.end()).is_ok() && !repeats.get() {
        return Ok(bytes.clone());
    }
    let value: Value = extract::json(bytes)?;
    let mut text = Vec::with_capacity(bytes.len());
    put(&mut text, &value);
    Ok(text.into())
}

/// Reads a value to its end without keeping it.
#[derive(Clone, Copy)]
struct Members<'a> {
    /// Becomes true when an object has a member twice.
    repeats: &'a Cell<bool>,
    /// Becomes true when the value nests too deeply.
    is_too_deep: &'a Cell<bool>,
    /// How much deeper the value may nest.
    left: usize,
}

impl Members<'_> {
    fn inside<E: serde::de::Error>(self) -> Result<Self, E> {
        let Some(left) = self.left.checked_sub(1) else {
            self.is_too_deep.set(true);
            return Err(E::custom("too deep"));
        };
        Ok(Self { left, ..self })
    }
}

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
        let inside = self.inside()?;
        while items.next_element_seed(inside)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let (inside, mut names) = (self.inside()?, HashSet::new());
        while let Some(name) = members.next_key::<String>()? {
            if !names.insert(name) {
                self.repeats.set(true);
            }
            members.next_value_seed(inside)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header;
    use serde_json::json;

    use super::*;

    const POST: Of<'_> = Of {
        method: "POST",
        asked: "POST",
        path: "/a",
    };

    fn text(media: &str, body: &[u8]) -> Result<String, Box<Problem>> {
        let headers = [(header::CONTENT_TYPE, media.parse().unwrap())];
        let headers: HeaderMap = headers.into_iter().collect();
        let body = Body::read(&headers, &Bytes::copy_from_slice(body))?;
        Ok(String::from_utf8(body.text.to_vec()).unwrap())
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
    fn json_nests_as_deeply_as_the_input_around_it_may() {
        let deep = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
        let wrong = text("application/json", &deep(DEPTH + 1)).unwrap_err();
        let wrong = format!("{wrong:?}");
        assert!(wrong.contains("126 levels"), "{wrong}");
        let media = (header::CONTENT_TYPE, "application/json".parse().unwrap());
        let all: HeaderMap = [media].into_iter().collect();
        let input = Input::new(&POST, Map::new(), &all, &deep(DEPTH).into()).unwrap();
        let payload = input.payload(&Vec::new(), None);
        serde_json::from_slice::<Value>(payload.inline().unwrap()).unwrap();
    }

    #[test]
    fn a_form_of_github_is_its_payload_where_github_is_verified() {
        let github = Verify::Github {
            secrets: vec!["k".to_owned()],
        };
        let bearer = Verify::Bearer {
            secrets: vec!["k".to_owned()],
        };
        let media = (header::CONTENT_TYPE, content::FORM.parse().unwrap());
        let all: HeaderMap = [media].into_iter().collect();
        let check = |body: &'static str, verify: Option<&Verify>, wanted: Value| {
            let input = Input::new(
                &POST,
                Map::new(),
                &all,
                &Bytes::from_static(body.as_bytes()),
            );
            let payload = input.unwrap().payload(&Vec::new(), verify);
            let text = payload.inline().unwrap();
            let read: Value = serde_json::from_slice(text).unwrap();
            assert_eq!(read["body"], wanted, "{body}");
            assert_eq!(read["raw"], body);
        };
        let payload = "payload=%7B%22n%22%3A+1%7D";
        check(payload, Some(&github), json!({ "n": 1 }));
        check(payload, Some(&bearer), json!({ "payload": "{\"n\": 1}" }));
        check(payload, None, json!({ "payload": "{\"n\": 1}" }));
        check("payload=%7B", Some(&github), json!({ "payload": "{" }));
        check(
            "a=1&payload=2",
            Some(&github),
            json!({ "a": "1", "payload": "2" }),
        );
        check(
            "payload=1&payload=2",
            Some(&github),
            json!({ "payload": ["1", "2"] }),
        );
    }

    #[test]
    fn a_repeated_header_is_a_list() {
        let mut all = HeaderMap::new();
        for (name, value) in [
            ("x-forwarded-for", &b"1.1.1.1"[..]),
            ("x-forwarded-for", b"2.2.2.2"),
            ("x-latin", b"caf\xe9"),
            ("x-utf", "é".as_bytes()),
            ("cookie", b"a"),
            ("cookie", b"b"),
        ] {
            let name: header::HeaderName = name.parse().unwrap();
            all.append(name, header::HeaderValue::from_bytes(value).unwrap());
        }
        let wanted = json!({
            "x-forwarded-for": ["1.1.1.1", "2.2.2.2"], "x-latin": "café", "x-utf": "é",
        });
        assert_eq!(Value::Object(headers(&all)), wanted);
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
        let of = Of {
            path: "/a\"",
            ..POST
        };
        let input = Input::new(&of, query, &all, &body).unwrap();
        let params = vec![("id".to_owned(), "\"1".to_owned())];
        let text = |params: &Parameters| {
            let payload = input.payload(params, None);
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
