//! Media types, as `Content-Type` writes them (RFC 9110, section 8.3), and other headers with
//! parameters.

use std::borrow::Cow;

/// The parts of a media type that decide how a body is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaType {
    /// The type without parameters, in lower case, like `text/plain`. Empty if the header is.
    pub essence: String,
    /// The parameter `charset`, in lower case.
    pub charset: Option<String>,
}

impl MediaType {
    /// Reads a media type. A malformed one has the parts that can be read.
    pub fn of(content_type: &str) -> Self {
        let mut parts = parts(content_type);
        let essence = parts.next().unwrap_or_default();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let is_charset = name.trim().eq_ignore_ascii_case("charset");
            is_charset.then(|| unquoted(value).to_ascii_lowercase())
        });
        Self {
            essence: essence.trim().to_ascii_lowercase(),
            charset: charset.filter(|charset| !charset.is_empty()),
        }
    }

    /// Whether it is JSON: `application/json`, or a type that ends in `+json`.
    pub fn is_json(&self) -> bool {
        self.essence == "application/json" || self.essence.ends_with("+json")
    }

    /// Whether it is text: JSON, `text/…`, XML and forms.
    pub fn is_text(&self) -> bool {
        self.is_json()
            || self.essence.starts_with("text/")
            || self.essence.ends_with("+xml")
            || matches!(
                self.essence.as_str(),
                "application/xml" | "application/x-www-form-urlencoded"
            )
    }

    /// The media type of the same body after it was written again in UTF-8.
    pub fn in_utf8(content_type: &str) -> String {
        let is_charset = |part: &&str| {
            let name = part.split('=').next().unwrap_or_default().trim();
            name.eq_ignore_ascii_case("charset")
        };
        let kept = parts(content_type).filter(|part| !is_charset(part));
        let mut kept: Vec<&str> = kept
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .collect();
        kept.push("charset=utf-8");
        kept.join("; ")
    }
}

/// The parameters of a header, like those of `Content-Disposition`, in their order: names in lower
/// case, and values without their quotes. A part without `=` is none.
///
/// A backslash before a quotation mark is removed, and any other one stays: browsers write paths
/// of Windows with single backslashes.
pub fn parameters(value: &str) -> impl Iterator<Item = (String, Cow<'_, str>)> {
    parts(value).skip(1).filter_map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = value.trim();
        let inner = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        let value = match inner {
            Some(inner) if inner.contains("\\\"") => Cow::Owned(inner.replace("\\\"", "\"")),
            Some(inner) => Cow::Borrowed(inner),
            None => Cow::Borrowed(value),
        };
        Some((name.trim().to_ascii_lowercase(), value))
    })
}

/// The parts between semicolons that stand in no quoted text.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |c| {
        let ends = c == ';' && !quoted;
        if quoted && !escaped && c == '\\' {
            escaped = true;
            return false;
        }
        quoted ^= c == '"' && !escaped;
        escaped = false;
        ends
    })
}

fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let inner = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    inner.unwrap_or(value).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charset_is_found_among_the_parameters() {
        for (text, essence, charset) in [
            ("text/plain", "text/plain", None),
            (
                "Text/HTML; Charset=ISO-8859-1",
                "text/html",
                Some("iso-8859-1"),
            ),
            (
                "text/plain;charset=\"UTF-16\"",
                "text/plain",
                Some("utf-16"),
            ),
            (
                "text/plain; a=\"; charset=x\"; charset=y",
                "text/plain",
                Some("y"),
            ),
            (
                "text/plain; a=\"\\\"; charset=x\"; charset=y",
                "text/plain",
                Some("y"),
            ),
            ("text/plain; charset=a; charset=b", "text/plain", Some("a")),
            ("text/plain; charset=", "text/plain", None),
            ("text/plain; xcharset=a", "text/plain", None),
            ("", "", None),
            (";;;=", "", None),
            ("text/plain; charset=\"", "text/plain", Some("\"")),
        ] {
            let read = MediaType::of(text);
            assert_eq!(read.essence, essence, "{text}");
            assert_eq!(read.charset.as_deref(), charset, "{text}");
        }
    }

    #[test]
    fn parameters_are_unquoted_and_their_names_in_lower_case() {
        for (value, expected) in [
            ("form-data", vec![]),
            (
                "form-data; Name=a;filename = b",
                vec![("name", "a"), ("filename", "b")],
            ),
            ("x; a=\" b;c \"; d=e=f", vec![("a", " b;c "), ("d", "e=f")]),
            (r#"x; a="\"b\"; c\d""#, vec![("a", r#""b"; c\d"#)]),
            ("x; a; =b; c=", vec![("", "b"), ("c", "")]),
            ("x; a=\"", vec![("a", "\"")]),
        ] {
            let read: Vec<_> = parameters(value).collect();
            let read: Vec<_> = read.iter().map(|(name, it)| (&**name, &**it)).collect();
            assert_eq!(read, expected, "{value}");
        }
    }

    #[test]
    fn only_the_charset_changes_with_the_bytes() {
        for (text, expected) in [
            ("text/plain", "text/plain; charset=utf-8"),
            (
                "Text/X;charset=latin1;  a=\"b;c\"",
                "Text/X; a=\"b;c\"; charset=utf-8",
            ),
        ] {
            assert_eq!(MediaType::in_utf8(text), expected);
        }
    }
}
