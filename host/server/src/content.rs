//! The content of a body by its media type: JSON, text, fields of a form, or bytes.
//!
//! Bounds: the caller bounds the body, and no content has more than three times its bytes, or four
//! thirds of them as Base64. A form has at most [`FIELDS`] fields.

use std::borrow::Cow;
use std::convert::Infallible;

use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt as _;
use percent_encoding::percent_decode;
use serde_json::{Map, Value};
use windlass_body::{MediaType, NotText, Uncounted, decode_text, header_text, parameters};

use crate::codes;
use crate::header::one;
use crate::problem::Problem;

/// The media type of a form without files.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";

/// The media type of a form with files.
const MULTIPART: &str = "multipart/form-data";

/// The field of a form that names the charset of its texts (RFC 7578, section 4.6).
const CHARSET: &[u8] = b"_charset_";

/// How many fields a form may have.
pub(crate) const FIELDS: usize = 1000;

/// How long the boundary of a form may be, in bytes (RFC 2046, section 5.1.1).
const BOUNDARY_BYTES: usize = 70;

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
///
/// # Errors
///
/// It occurs with different values.
pub(crate) fn media_text(headers: &HeaderMap) -> Result<Cow<'_, str>, Box<Problem>> {
    let media = one(headers, CONTENT_TYPE.as_str())?;
    Ok(
        media.map_or(Cow::Borrowed(""), |value| match value.to_str() {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(header_text(value.as_bytes())),
        }),
    )
}

/// The content of a body. JSON is decoded, and not read.
///
/// # Errors
///
/// The media type is JSON, and the body is no text in the declared character set.
pub(crate) fn read<'b>(headers: &HeaderMap, bytes: &'b [u8]) -> Result<Content<'b>, Box<Problem>> {
    let declared = media_text(headers)?;
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

/// The fields of a form. None: the media type is not that of a form.
///
/// # Errors
///
/// The body is no form, its character set is unknown, or it has too many fields.
pub(crate) fn fields(headers: &HeaderMap, bytes: &Bytes) -> Result<Option<Fields>, Box<Problem>> {
    let declared = media_text(headers)?;
    let media = MediaType::of(&declared);
    let fields: Result<Fields, _> = match media.essence.as_str() {
        FORM => {
            let pairs = pairs(bytes)?;
            let named = pairs.iter().find(|(name, _)| *name == CHARSET);
            let default = default_charset(&declared, &media, named.map(|(_, value)| &**value))?;
            let pairs = pairs.into_iter();
            pairs.map(|pair| pair_field(pair, &default)).collect()
        }
        MULTIPART => {
            let parts = multipart(&declared, bytes)?;
            let is_charset = |part: &&Part| {
                let name = disposition(&part.headers, "").map(|(name, _)| name);
                name.is_ok_and(|name| name.as_bytes() == CHARSET)
            };
            let named = parts.iter().find(is_charset).map(|part| &*part.bytes);
            let default = default_charset(&declared, &media, named)?;
            let parts = parts.into_iter();
            parts.map(|part| part.field(&default)).collect()
        }
        _ => return Ok(None),
    };
    fields.map(Some)
}

/// The media type by which texts without a charset of their own are read: that of the form, or one
/// with the charset in the field `_charset_`.
fn default_charset<'d>(
    declared: &'d str,
    media: &MediaType,
    named: Option<&[u8]>,
) -> Result<Cow<'d, str>, Box<Problem>> {
    let named = named.and_then(|named| std::str::from_utf8(named).ok());
    let named = named.map(str::trim).filter(|named| !named.is_empty());
    let default = match named.filter(|_| media.charset.is_none()) {
        Some(named) => Cow::Owned(format!("text/plain; charset={named}")),
        None => Cow::Borrowed(declared),
    };
    match decoded(&default, b"a") {
        Ok(_) => Ok(default),
        Err(NotText::Unknown(_)) => text(&default, b"").map(|_| default.clone()),
        // No form is sent in UTF-16: its sender means UTF-8 (Encoding standard, section 4.3).
        Err(_) => Ok(Cow::Borrowed("")),
    }
}

/// Whether a body is a form without files.
///
/// # Errors
///
/// Its media type occurs with different values.
pub(crate) fn is_plain_form(headers: &HeaderMap) -> Result<bool, Box<Problem>> {
    Ok(MediaType::of(&media_text(headers)?).essence == FORM)
}

fn malformed(detail: &str) -> Box<Problem> {
    let detail = format!("the form cannot be read: {detail}");
    Problem::new(StatusCode::BAD_REQUEST, &codes::BODY, detail)
}

fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(40).collect()
}

fn unsupported(detail: &str, help: &str) -> Box<Problem> {
    let detail = format!("the form cannot be read: {detail}");
    let reply = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Problem::new(reply, &codes::MEDIA_TYPE, detail).help(help)
}

fn check_count(before: usize) -> Result<(), Box<Problem>> {
    if before < FIELDS {
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

/// The name and the value of a field of `application/x-www-form-urlencoded`, decoded.
type Pair = (Vec<u8>, Vec<u8>);

/// The fields of `application/x-www-form-urlencoded`, as the URL standard reads them.
fn pairs(bytes: &[u8]) -> Result<Vec<Pair>, Box<Problem>> {
    let plain = |part: &[u8]| -> Vec<u8> {
        let spaced = part
            .iter()
            .map(|byte| if *byte == b'+' { b' ' } else { *byte });
        percent_decode(&spaced.collect::<Vec<u8>>()).collect()
    };
    let mut pairs = Vec::new();
    for pair in bytes.split(|byte| *byte == b'&') {
        if pair.is_empty() {
            continue;
        }
        check_count(pairs.len())?;
        let at = pair.iter().position(|byte| *byte == b'=');
        let (name, value) = pair.split_at(at.unwrap_or(pair.len()));
        let value = value.strip_prefix(b"=").unwrap_or_default();
        pairs.push((plain(name), plain(value)));
    }
    Ok(pairs)
}

/// `default` is the media type whose charset the texts have.
fn pair_field((name, value): Pair, default: &str) -> Result<(String, Field), Box<Problem>> {
    let name = field_text(default, &name);
    let name = name.ok_or_else(|| malformed("the name of a field is no text"))?;
    let text = field_text(default, &value).map(Field::Text);
    Ok((name, text.unwrap_or_else(|| file(&value, []))))
}

/// A part of `multipart/form-data`.
struct Part {
    headers: HeaderMap,
    bytes: Bytes,
}

/// The parts of `multipart/form-data` (RFC 7578).
fn multipart(declared: &str, bytes: &Bytes) -> Result<Vec<Part>, Box<Problem>> {
    let wrong = |error: multer::Error| malformed(&error.to_string());
    let boundary = multer::parse_boundary(declared).map_err(wrong)?;
    if boundary.len() > BOUNDARY_BYTES {
        let detail = format!("its boundary is longer than {BOUNDARY_BYTES} bytes");
        return Err(malformed(&detail));
    }
    let stream = futures::stream::iter([Ok::<_, Infallible>(bytes.clone())]);
    let mut all = multer::Multipart::new(stream, boundary);
    let read = async move {
        let mut parts = Vec::new();
        while let Some(part) = all.next_field().await.map_err(wrong)? {
            check_count(parts.len())?;
            let headers = part.headers().clone();
            let bytes = part.bytes().await.map_err(wrong)?;
            parts.push(Part { headers, bytes });
        }
        Ok(parts)
    };
    // Its bytes are all there, so its reader waits for nothing.
    let read = read.now_or_never();
    read.unwrap_or_else(|| Err(malformed("it has no end")))
}

impl Part {
    /// The field. `default` is the media type of a text that declares no charset.
    fn field(self, default: &str) -> Result<(String, Field), Box<Problem>> {
        let (name, filename) = disposition(&self.headers, default)?;
        let own = media_text(&self.headers)?;
        let media = MediaType::of(&own);
        if media.essence.starts_with("multipart/") {
            let detail = format!("its part `{}` has parts itself", shown(&name));
            return Err(unsupported(
                &detail,
                "Send each file as a part of the form.",
            ));
        }
        let bytes = transferred(&self.headers, &self.bytes)?;
        let declared = media.charset.as_ref().map_or(default, |_| &*own);
        let content_type = match own.as_ref() {
            "" => Value::Null,
            own => Value::from(own),
        };
        let content_type = ("content_type", content_type);
        let field = match filename {
            Some(filename) => {
                let filename = ("filename", Value::from(filename));
                file(&bytes, [filename, content_type])
            }
            None => match field_text(declared, &bytes) {
                Some(text) => Field::Text(text),
                None => file(&bytes, [content_type]),
            },
        };
        Ok((name, field))
    }
}

fn file<const N: usize>(bytes: &[u8], members: [(&str, Value); N]) -> Field {
    let base64 = ("base64", Value::from(STANDARD.encode(bytes)));
    let members = members.into_iter().chain([base64]);
    let members = members.map(|(name, value)| (name.to_owned(), value));
    Field::Bytes(members.collect())
}

/// The name of a part, and that of its file if it is one, in the charset of `default`. A name with
/// a charset of its own, `filename*` (RFC 8187), counts before one without.
fn disposition(
    headers: &HeaderMap,
    default: &str,
) -> Result<(String, Option<String>), Box<Problem>> {
    let value = one(headers, CONTENT_DISPOSITION.as_str())?;
    let value = value.map(HeaderValue::as_bytes).unwrap_or_default();
    let value = field_text(default, value).unwrap_or_else(|| header_text(value));
    let (mut name, mut plain, mut extended) = (None, None, None);
    for (key, value) in parameters(&value) {
        let (place, value) = match key.as_str() {
            "name" => (&mut name, value.into_owned()),
            "filename" => (&mut plain, value.into_owned()),
            "filename*" => (&mut extended, with_charset(&value)?),
            _ => continue,
        };
        if place.replace(value).is_some() {
            return Err(malformed(&format!("a part has two parameters `{key}`")));
        }
    }
    let name = name.ok_or_else(|| malformed("a part has no name"))?;
    Ok((name, extended.or(plain)))
}

/// A text with its charset, like `UTF-8''caf%C3%A9` (RFC 8187).
fn with_charset(value: &str) -> Result<String, Box<Problem>> {
    let mut pieces = value.splitn(3, '\'');
    let text = match (pieces.next(), pieces.next(), pieces.next()) {
        (Some(charset), Some(_), Some(coded)) if !charset.is_empty() => {
            let bytes: Vec<u8> = percent_decode(coded.as_bytes()).collect();
            let declared = format!("text/plain; charset={charset}");
            decoded(&declared, &bytes).ok().map(Cow::into_owned)
        }
        _ => None,
    };
    text.ok_or_else(|| malformed("`filename*` of a part is not like `UTF-8''name`"))
}

/// The bytes of a part without its transfer encoding, which mail programs add.
fn transferred<'b>(headers: &HeaderMap, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, Box<Problem>> {
    let coding = one(headers, "content-transfer-encoding")?;
    let coding = header_text(coding.map(HeaderValue::as_bytes).unwrap_or_default());
    match coding.trim().to_ascii_lowercase().as_str() {
        "" | "7bit" | "8bit" | "binary" => Ok(Cow::Borrowed(bytes)),
        "base64" => {
            let digits = bytes.iter().filter(|byte| !byte.is_ascii_whitespace());
            let decoded = STANDARD.decode(digits.copied().collect::<Vec<u8>>());
            let decoded = decoded.map_err(|_| malformed("a part is not Base64, as it says"))?;
            Ok(Cow::Owned(decoded))
        }
        other => {
            let detail = format!("a part has the transfer encoding `{}`", shown(other));
            Err(unsupported(&detail, "Send it as `binary` or as `base64`."))
        }
    }
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
    use serde_json::json;

    use super::*;

    fn headers(media: &str) -> HeaderMap {
        let media = (CONTENT_TYPE, media.parse().unwrap());
        [media].into_iter().collect()
    }

    #[track_caller]
    fn check(media: &str, body: &[u8], wanted: &Content<'_>) {
        assert_eq!(&read(&headers(media), body).unwrap(), wanted, "{media}");
    }

    #[test]
    fn a_body_is_read_by_its_media_type() {
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
