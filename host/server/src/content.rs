//! The content of a body by its media type: JSON, text, fields of a form, or bytes.
//!
//! Bounds: the caller bounds the body, and no content has more than three times its bytes, or four
//! thirds of them as Base64. A form has at most [`FIELDS`] fields.

use std::borrow::Cow;
use std::convert::Infallible;

use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt as _;
use percent_encoding::percent_decode;
use serde_json::{Map, Value, json};
use windlass_body::{MediaType, NotText, Uncounted, decode_text, header_text};

use crate::codes;
use crate::problem::Problem;

/// The media type of a form without files.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";

/// The media type of a form with files.
const MULTIPART: &str = "multipart/form-data";

/// How many fields a form may have.
pub(crate) const FIELDS: usize = 1000;

/// How often the bytes of a character can be in UTF-8 what they are in another character set.
const GROWTH: usize = 3;

/// The content of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content<'b> {
    /// JSON in UTF-8, unread.
    Json(Cow<'b, str>),
    Text(Cow<'b, str>),
    /// Content of another kind, or text that does not follow its character set.
    Bytes(&'b [u8]),
}

/// The value of a field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Text(String),
    /// A file, or bytes that are no text: an object with `base64`.
    Bytes(Map<String, Value>),
}

/// The names and values of a form, in their order.
pub(crate) type Fields = Vec<(String, Field)>;

/// The value of `Content-Type`; empty without one.
pub(crate) fn media_text(headers: &HeaderMap) -> Cow<'_, str> {
    let media = headers.get(header::CONTENT_TYPE);
    media.map_or(Cow::Borrowed(""), |value| match value.to_str() {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(header_text(value.as_bytes())),
    })
}

/// The content of a body. JSON is decoded, and not read.
///
/// # Errors
///
/// The media type is JSON, and the body is no text in the declared character set.
pub(crate) fn read<'b>(headers: &HeaderMap, bytes: &'b [u8]) -> Result<Content<'b>, Box<Problem>> {
    let declared = media_text(headers);
    let media = MediaType::of(&declared);
    if media.is_json() {
        return text(&declared, bytes).map(Content::Json);
    }
    let is_declared = media.is_text() || media.essence.is_empty() || media.charset.is_some();
    let text = if is_declared {
        decoded(&declared, bytes).ok()
    } else if is_binary(&media.essence) {
        None
    } else {
        std::str::from_utf8(bytes).ok().map(Cow::Borrowed)
    };
    Ok(text.map_or(Content::Bytes(bytes), Content::Text))
}

/// Whether a media type is of bytes, even if they happen to be text.
fn is_binary(essence: &str) -> bool {
    let (kind, _) = essence.split_once('/').unwrap_or_default();
    ["image", "audio", "video", "font"].contains(&kind) || essence == "application/octet-stream"
}

fn decoded<'b>(media: &str, bytes: &'b [u8]) -> Result<Cow<'b, str>, NotText> {
    let most = bytes.len().saturating_mul(GROWTH);
    decode_text(Some(media), bytes, most, &mut Uncounted)
}

/// The text of a body that has to be text, in the character set that its media type declares, and
/// without a byte order mark.
///
/// # Errors
///
/// The character set is unknown, or the body does not follow it.
pub(crate) fn text<'b>(media: &str, bytes: &'b [u8]) -> Result<Cow<'b, str>, Box<Problem>> {
    decoded(media, bytes).map_err(|error| {
        let (reply, code) = match error {
            NotText::Unknown(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, &codes::MEDIA_TYPE),
            _ => (StatusCode::BAD_REQUEST, &codes::BODY),
        };
        Problem::new(reply, code, format!("the body cannot be read: {error}"))
            .help("Send it in UTF-8.")
    })
}

/// Bytes as a value.
pub(crate) fn value_of_bytes(bytes: &[u8]) -> Value {
    json!({ "base64": STANDARD.encode(bytes) })
}

/// The fields of a form. None: the media type is not that of a form.
///
/// # Errors
///
/// The body is no form, its character set is unknown, or it has too many fields.
pub(crate) fn fields(headers: &HeaderMap, bytes: &Bytes) -> Result<Option<Fields>, Box<Problem>> {
    let declared = media_text(headers);
    let media = MediaType::of(&declared);
    match media.essence.as_str() {
        FORM => pairs(&declared, bytes).map(Some),
        MULTIPART => {
            let boundary = multer::parse_boundary(&*declared);
            let boundary = boundary.map_err(|error| malformed(&error.to_string()))?;
            let read = parts(bytes.clone(), boundary).now_or_never();
            // Its bytes are all there, so its reader waits for nothing.
            read.unwrap_or_else(|| Err(malformed("it has no end")))
                .map(Some)
        }
        _ => Ok(None),
    }
}

/// Whether a body is a form without files.
pub(crate) fn is_plain_form(headers: &HeaderMap) -> bool {
    MediaType::of(&media_text(headers)).essence == FORM
}

fn malformed(detail: &str) -> Box<Problem> {
    let detail = format!("the form cannot be read: {detail}");
    Problem::new(StatusCode::BAD_REQUEST, &codes::BODY, detail)
}

fn check_count(fields: &Fields) -> Result<(), Box<Problem>> {
    if fields.len() < FIELDS {
        return Ok(());
    }
    let detail = format!("the form has more than {FIELDS} fields");
    let reply = StatusCode::PAYLOAD_TOO_LARGE;
    Err(Problem::new(reply, &codes::BODY_TOO_LARGE, detail))
}

/// The text of a field. Without a character set it is UTF-8, and a byte order mark is a part of it.
fn field_text(declared: &str, bytes: &[u8]) -> Option<String> {
    let media = MediaType::of(declared);
    match media.charset.as_deref() {
        None | Some("utf-8" | "utf8") => std::str::from_utf8(bytes).ok().map(str::to_owned),
        Some(_) => decoded(declared, bytes).ok().map(Cow::into_owned),
    }
}

/// The fields of `application/x-www-form-urlencoded`, as the URL standard reads them.
fn pairs(declared: &str, bytes: &[u8]) -> Result<Fields, Box<Problem>> {
    // Refuses an unknown character set.
    text(declared, b"")?;
    let mut fields = Fields::new();
    for pair in bytes.split(|byte| *byte == b'&') {
        if pair.is_empty() {
            continue;
        }
        check_count(&fields)?;
        let at = pair.iter().position(|byte| *byte == b'=');
        let (name, value) = pair.split_at(at.unwrap_or(pair.len()));
        let plain = |part: &[u8]| -> Vec<u8> {
            let spaced = part
                .iter()
                .map(|byte| if *byte == b'+' { b' ' } else { *byte });
            percent_decode(&spaced.collect::<Vec<u8>>()).collect()
        };
        let name = field_text(declared, &plain(name));
        let name = name.ok_or_else(|| malformed("the name of a field is no text"))?;
        let value = plain(value.strip_prefix(b"=").unwrap_or_default());
        let value = match field_text(declared, &value) {
            Some(text) => Field::Text(text),
            None => Field::Bytes(file(&value, [])),
        };
        fields.push((name, value));
    }
    Ok(fields)
}

/// The fields and files of `multipart/form-data` (RFC 7578).
async fn parts(bytes: Bytes, boundary: String) -> Result<Fields, Box<Problem>> {
    let stream = futures::stream::iter([Ok::<_, Infallible>(bytes)]);
    let mut parts = multer::Multipart::new(stream, boundary);
    let mut fields = Fields::new();
    let wrong = |error: multer::Error| malformed(&error.to_string());
    while let Some(part) = parts.next_field().await.map_err(wrong)? {
        check_count(&fields)?;
        let name = part.name().map(str::to_owned);
        let name = name.ok_or_else(|| malformed("a part has no name"))?;
        let filename = part.file_name().map(str::to_owned);
        let media = media_text(part.headers()).into_owned();
        let bytes = part.bytes().await.map_err(wrong)?;
        let shown = match media.as_str() {
            "" => Value::Null,
            media => Value::from(media),
        };
        let value = match filename {
            Some(filename) => {
                let members = [("filename", Value::from(filename)), ("content_type", shown)];
                Field::Bytes(file(&bytes, members))
            }
            None => match field_text(&media, &bytes) {
                Some(text) => Field::Text(text),
                None => Field::Bytes(file(&bytes, [("content_type", shown)])),
            },
        };
        fields.push((name, value));
    }
    Ok(fields)
}

fn file<const N: usize>(bytes: &[u8], members: [(&str, Value); N]) -> Map<String, Value> {
    let base64 = ("base64", Value::from(STANDARD.encode(bytes)));
    let members = members.into_iter().chain([base64]);
    members
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

impl From<Field> for Value {
    fn from(field: Field) -> Self {
        match field {
            Field::Text(text) => Self::String(text),
            Field::Bytes(members) => Self::Object(members),
        }
    }
}

/// Values by name: a list for a name that occurs several times. No value is a list itself.
pub(crate) fn by_name<V: Into<Value>>(
    pairs: impl IntoIterator<Item = (String, V)>,
) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, value) in pairs {
        let value = value.into();
        match all.get_mut(&name) {
            None => drop(all.insert(name, value)),
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(media: &str) -> HeaderMap {
        let media = (header::CONTENT_TYPE, media.parse().unwrap());
        [media].into_iter().collect()
    }

    #[track_caller]
    fn check(media: &str, body: &[u8], wanted: &Content<'_>) {
        assert_eq!(&read(&headers(media), body).unwrap(), wanted, "{media}");
    }

    #[test]
    fn a_body_is_what_its_media_type_says() {
        let text = |text| Content::Text(Cow::Borrowed(text));
        check("text/plain; charset=ISO-8859-1", b"caf\xe9", &text("café"));
        check("text/plain", "café".as_bytes(), &text("café"));
        check("text/csv", b"\xef\xbb\xbfa;b", &text("a;b"));
        check("application/x; charset=latin1", b"\xe9", &text("é"));
        check("application/yaml", b"a: 1", &text("a: 1"));
        check("", b"a", &text("a"));
        check("x/y", b"\xfe\xff\0a", &Content::Bytes(b"\xfe\xff\0a"));
        check("text/plain", b"caf\xe9", &Content::Bytes(b"caf\xe9"));
        check("text/plain; charset=nil", b"a", &Content::Bytes(b"a"));
        check("image/png", b"text", &Content::Bytes(b"text"));
        check(
            "Application/Octet-Stream",
            b"text",
            &Content::Bytes(b"text"),
        );
        let svg = "image/svg+xml";
        check(svg, b"<svg/>", &text("<svg/>"));
        let json = |text| Content::Json(Cow::Borrowed(text));
        check("application/json", b"\xef\xbb\xbf{}", &json("{}"));
        check(
            "Application/X+JSON; charset=latin1",
            b"\"\xe9\"",
            &json("\"é\""),
        );
        check("application/json", b"\xff\xfe1\0", &json("1"));
        let refused = |media: &str, body: &[u8]| read(&headers(media), body).unwrap_err();
        let unknown = refused("application/json; charset=nil", b"1");
        assert!(format!("{unknown:?}").contains("there is no charset `nil`"));
        assert!(format!("{:?}", refused("application/json", b"\"\xe9\"")).contains("UTF-8"));
    }

    fn form(media: &str, body: &[u8]) -> Value {
        let fields = fields(&headers(media), &Bytes::copy_from_slice(body));
        Value::Object(by_name(fields.unwrap().unwrap()))
    }

    #[test]
    fn a_form_is_its_fields() {
        for (body, wanted) in [
            (&b""[..], json!({})),
            (b"a=1&b[]=2", json!({ "a": "1", "b[]": "2" })),
            (
                b"a=1&b=&a=3&c",
                json!({ "a": ["1", "3"], "b": "", "c": "" }),
            ),
            (b"&&a=b=c&", json!({ "a": "b=c" })),
            (b"a+b=%63%20d+e%", json!({ "a b": "c d e%" })),
            (b"n=caf%C3%A9&m=\xc3\xa9", json!({ "n": "café", "m": "é" })),
            (
                b"n=%FF%FE&m=%EF%BB%BFx",
                json!({ "n": { "base64": "//4=" }, "m": "\u{feff}x" }),
            ),
            (b"=1", json!({ "": "1" })),
        ] {
            assert_eq!(form(FORM, body), wanted, "{body:?}");
        }
        let latin = format!("{FORM}; charset=ISO-8859-1");
        assert_eq!(form(&latin, b"n=caf%E9"), json!({ "n": "café" }));
        let wrong = |media: &str, body: &[u8]| {
            fields(&headers(media), &Bytes::copy_from_slice(body)).unwrap_err()
        };
        wrong(FORM, b"%FF=1");
        wrong(&format!("{FORM}; charset=nil"), b"a=1");
        let most = "a=1&".repeat(FIELDS);
        assert!(form(FORM, most.as_bytes())["a"].is_array());
        let more = format!("{most}a=1");
        assert!(format!("{:?}", wrong(FORM, more.as_bytes())).contains("1000 fields"));
        assert_eq!(fields(&headers("text/plain"), &Bytes::new()).unwrap(), None);
    }

    const PARTS: &str = "multipart/form-data; boundary=\"=-b\"";

    fn part(header: &str, body: &str) -> String {
        format!("--=-b\r\nContent-Disposition: form-data; {header}\r\n\r\n{body}\r\n")
    }

    #[test]
    fn a_multipart_form_is_its_fields_and_files() {
        let latin = "name=l\r\nContent-Type: text/plain; charset=latin1";
        let mut body = [
            part("name=\"a\"", "1"),
            part("name=\"a\"", "two\r\nlines"),
            part(
                "name=\"f\"; filename=\"x y.txt\"\r\nContent-Type: text/plain",
                "hi",
            ),
            part("name=\"empty\"; filename=\"\"", ""),
            part("name=\"ö\"", "ä"),
        ]
        .concat()
        .into_bytes();
        body.extend_from_slice(part(latin, "?").replace('?', "").as_bytes());
        body.truncate(body.len() - 2);
        body.extend_from_slice(b"\xe9\r\n");
        body.extend_from_slice(part("name=raw", "").as_bytes());
        body.truncate(body.len() - 2);
        body.extend_from_slice(b"\x80\r\n--=-b--\r\nepilogue");
        let wanted = json!({
            "a": ["1", "two\r\nlines"],
            "f": { "filename": "x y.txt", "content_type": "text/plain", "base64": "aGk=" },
            "empty": { "filename": "", "content_type": null, "base64": "" },
            "ö": "ä",
            "l": "é",
            "raw": { "content_type": null, "base64": "gA==" },
        });
        assert_eq!(form(PARTS, &body), wanted);
    }

    #[test]
    fn a_malformed_multipart_form_is_refused() {
        let good = format!("{}--=-b--", part("name=a", "1"));
        assert_eq!(form(PARTS, good.as_bytes()), json!({ "a": "1" }));
        let many = format!("{}--=-b--", part("name=a", "").repeat(FIELDS + 1));
        let one = part("name=a", "1");
        let nameless = format!("{}--=-b--", part("filename=x", "1"));
        for (media, body) in [
            ("multipart/form-data", good.as_str()),
            ("multipart/form-data; boundary=", good.as_str()),
            ("multipart/form-data; boundary=other", good.as_str()),
            (PARTS, &one),
            (PARTS, ""),
            (PARTS, "--=-b"),
            (PARTS, "--=-b\r\nContent-Disposition: form-data; name=a"),
            (PARTS, "--=-b\r\n\u{ff}: 1\r\n\r\n\r\n--=-b--"),
            (PARTS, &nameless),
            (PARTS, &many),
        ] {
            let body = Bytes::copy_from_slice(body.as_bytes());
            assert!(fields(&headers(media), &body).is_err(), "{media} {body:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_form_makes_it_panic(parts: Vec<u8>, cut in 0_usize..200, extra: Vec<u8>) {
            let mut body = format!("{}{}", part("name=\"a\\\"", "1"), part("filename=\"", "x"));
            body.truncate(cut.min(body.len()));
            let body = [body.as_bytes(), &parts, b"\r\n--=-b", &extra].concat();
            for media in [PARTS, FORM, "multipart/form-data; boundary=a"] {
                let _ = fields(&headers(media), &Bytes::from(body.clone()));
            }
        }
    }
}
