//! The parts of a request that starts runs.
//!
//! The text of a JSON body goes into the input unchanged, so a number keeps all its digits. A body
//! with a repeated member is written again with the last of the two: otherwise the schema of the
//! input and a node could read different values from one text.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use axum::http::HeaderMap;
use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use windlass_body::header_text;
use windlass_model::http::{Body, Request, value_of_bytes};

use crate::content::{self, Content, Field, Fields};
use crate::extract;
use crate::problem::Problem;

/// Headers that a run does not get: their content is between the sender and this host.
const KEPT_BACK: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// How deep lists and objects may nest in a JSON body: the input of the run is an object around it.
pub(crate) const DEPTH: usize = extract::DEPTH - 1;

/// Reads the parts of a request. The body has no content coding any more.
///
/// # Errors
///
/// The body is not what its media type says, or it nests too deeply.
pub(crate) fn request(
    (method, path): (&str, &str),
    query: Map<String, Value>,
    all: &HeaderMap,
    bytes: &Bytes,
) -> Result<Request, Box<Problem>> {
    Ok(Request {
        method: method.to_owned(),
        path: path.to_owned(),
        query,
        headers: headers(all),
        body: body(all, bytes)?,
    })
}

/// JSON as it is, text as text, a form as its fields, and any other body in Base64.
fn body(headers: &HeaderMap, bytes: &Bytes) -> Result<Body, Box<Problem>> {
    let of = |json: Bytes| Body {
        json,
        payload: None,
        sent: bytes.clone(),
        is_form: false,
    };
    if bytes.is_empty() {
        return Ok(of(Bytes::from_static(b"null")));
    }
    if let Some(fields) = content::fields(headers, bytes)? {
        let is_form = content::is_plain_form(headers)?;
        return Ok(Body {
            payload: is_form.then(|| payload(&fields)).flatten(),
            is_form,
            ..of(written(&Value::Object(content::by_name(fields))))
        });
    }
    Ok(match content::read(headers, bytes)? {
        Content::Json(Cow::Borrowed(text)) if text.len() == bytes.len() => of(json_text(bytes)?),
        Content::Json(text) => of(json_text(&Bytes::copy_from_slice(text.as_bytes()))?),
        Content::Text(text) => of(written(&Value::from(text))),
        Content::Bytes(bytes) => of(written(&value_of_bytes(bytes))),
    })
}

/// The JSON in the only field of a form.
fn payload(fields: &Fields) -> Option<Bytes> {
    match fields.as_slice() {
        [(name, Field::Text(text))] if name == "payload" => {
            json_text(&Bytes::copy_from_slice(text.as_bytes())).ok()
        }
        _ => None,
    }
}

fn written(value: &Value) -> Bytes {
    value.to_string().into()
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
    Ok(written(&extract::json(bytes)?))
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
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;
    use windlass_model::http::{Parameters, Taking};

    use super::*;

    const POST: (&str, &str) = ("POST", "/a");

    fn of_media(media: &str) -> HeaderMap {
        let media = (header::CONTENT_TYPE, media.parse().unwrap());
        [media].into_iter().collect()
    }

    fn text(media: &str, bytes: &[u8]) -> Result<String, Box<Problem>> {
        let body = body(&of_media(media), &Bytes::copy_from_slice(bytes))?;
        Ok(String::from_utf8(body.json.to_vec()).unwrap())
    }

    fn taken(request: &Request, taking: &Taking) -> Value {
        let json = request.taken(&Vec::new(), taking).unwrap();
        serde_json::from_slice(&json).unwrap()
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
        let all = of_media("application/json");
        let request = request(POST, Map::new(), &all, &deep(DEPTH).into()).unwrap();
        taken(&request, &Taking::default());
    }

    #[test]
    fn a_form_of_github_is_its_payload_where_github_is_verified() {
        let github = Taking {
            payload: true,
            ..Taking::default()
        };
        let check = |body: &'static str, taking: &Taking, wanted: Value| {
            let bytes = Bytes::from_static(body.as_bytes());
            let request = request(POST, Map::new(), &of_media(content::FORM), &bytes);
            let read = taken(&request.unwrap(), taking);
            assert_eq!(read["body"], wanted, "{body}");
            assert_eq!(read["raw"], body);
        };
        let other = Taking::default();
        let payload = "payload=%7B%22n%22%3A+1%7D";
        check(payload, &github, json!({ "n": 1 }));
        check(payload, &other, json!({ "payload": "{\"n\": 1}" }));
        check("payload=%7B", &github, json!({ "payload": "{" }));
        check(
            "a=1&payload=2",
            &github,
            json!({ "a": "1", "payload": "2" }),
        );
        check(
            "payload=1&payload=2",
            &github,
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
    fn an_input_is_json_for_every_request() {
        let mut all = HeaderMap::new();
        all.insert("x-quote", "\"}\\".parse().unwrap());
        all.insert(header::COOKIE, "secret".parse().unwrap());
        let query = [("a\"".to_owned(), json!(["1", "2"]))]
            .into_iter()
            .collect();
        let body = Bytes::from_static(b"text \"quoted\"");
        let request = request(("POST", "/a\""), query, &all, &body).unwrap();
        let params = vec![("id".to_owned(), "\"1".to_owned())];
        let text = |params: &Parameters| {
            let plain = request.json(params);
            let taken = request.taken(params, &Taking::default()).unwrap();
            assert_eq!(plain, taken);
            serde_json::from_slice::<Value>(&plain).unwrap()
        };
        let mut wanted = json!({
            "method": "POST", "path": "/a\"", "query": { "a\"": ["1", "2"] },
            "headers": { "x-quote": "\"}\\" }, "body": "text \"quoted\"",
        });
        assert_eq!(text(&Vec::new()), wanted);
        wanted["params"] = json!({ "id": "\"1" });
        assert_eq!(text(&params), wanted);
    }

    #[test]
    fn a_body_is_there_as_it_was_sent_where_the_trigger_says_so() {
        let raw = Taking {
            raw: true,
            ..Taking::default()
        };
        let check = |media: &str, body: &[u8], wanted: Value| {
            let bytes = Bytes::copy_from_slice(body);
            let request = request(POST, Map::new(), &of_media(media), &bytes).unwrap();
            assert_eq!(taken(&request, &raw)["raw"], wanted, "{media}");
            let plain = taken(&request, &Taking::default());
            assert_eq!(
                plain.get("raw").is_some(),
                media == content::FORM,
                "{media}"
            );
        };
        let parts = "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--";
        let media = "multipart/form-data; boundary=b";
        check(media, parts.as_bytes(), json!(parts));
        let file = parts.replace("name=a", "name=a; filename=x").into_bytes();
        let file = [&file[..59], b"\xff", &file[60..]].concat();
        check(media, &file, json!({ "base64": STANDARD.encode(&file) }));
        check("application/json", b" {\"a\" :1.0}", json!(" {\"a\" :1.0}"));
        check(
            "text/plain; charset=latin1",
            b"\xe9",
            json!({ "base64": "6Q==" }),
        );
        check(content::FORM, b"a=1", json!("a=1"));
        check("text/plain", b"", json!(""));
    }
}
