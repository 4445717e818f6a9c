//! Texts in the character set that they declare.

use std::borrow::Cow;

use encoding_rs::{DecoderResult, Encoding, UTF_8};

use crate::media::MediaType;
use crate::memory::{Full, Growing, Memory};

/// The bytes that mark a text in UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// Bytes that are decoded at once.
const CHUNK: usize = 8 * 1024;
/// Characters of a wrong name that an error repeats.
const SHOWN: usize = 40;

/// Why a body is no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// The character set is unknown.
    #[error("there is no charset `{0}`")]
    Unknown(String),
    /// The bytes do not follow the rules of the character set.
    #[error("it is not written in {0}")]
    Malformed(&'static str),
    /// The text has more than this many bytes in UTF-8.
    #[error("it has more than {0} bytes in UTF-8")]
    TooLarge(usize),
    /// There is no memory for the text.
    #[error("there is no memory for it")]
    NoMemory,
}

/// The text of a body without a byte order mark, in the character set that the mark or the media
/// type declares. Default: UTF-8. At most `limit` bytes in UTF-8; memory is charged before it is
/// allocated, and stays charged for the result.
///
/// Character sets have the names and the meaning that browsers give them
/// (<https://encoding.spec.whatwg.org>): `iso-8859-1` is windows-1252, and `us-ascii` is UTF-8.
///
/// # Errors
///
/// The character set is unknown, the bytes do not follow it, or the text is too large.
pub fn decode_text<'a>(
    content_type: Option<&str>,
    bytes: &'a [u8],
    limit: usize,
    memory: &mut dyn Memory,
) -> Result<Cow<'a, str>, NotText> {
    let (encoding, bytes) = match Encoding::for_bom(bytes) {
        Some((encoding, length)) => (encoding, bytes.get(length..).unwrap_or_default()),
        None => (declared(content_type)?, bytes),
    };
    if encoding == UTF_8 {
        let text = std::str::from_utf8(bytes).map_err(|_| NotText::Malformed("UTF-8"))?;
        return match text.len() > limit {
            true => Err(NotText::TooLarge(limit)),
            false => Ok(Cow::Borrowed(text)),
        };
    }
    let mut text = Growing::new(limit, memory);
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut buffer = [0; CHUNK];
    let mut rest = bytes;
    loop {
        let (result, read, written) =
            decoder.decode_to_utf8_without_replacement(rest, &mut buffer, true);
        text.push(buffer.get(..written).unwrap_or_default())
            .map_err(|full| match full {
                Full::Limit => NotText::TooLarge(limit),
                Full::Memory => NotText::NoMemory,
            })?;
        rest = rest.get(read..).unwrap_or_default();
        match result {
            DecoderResult::InputEmpty => break,
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(..) => return Err(NotText::Malformed(encoding.name())),
        }
    }
    let text = String::from_utf8(text.take()).map_err(|_| NotText::Malformed(encoding.name()))?;
    Ok(Cow::Owned(text))
}

fn declared(content_type: Option<&str>) -> Result<&'static Encoding, NotText> {
    let charset = content_type.and_then(|text| MediaType::of(text).charset);
    match charset.as_deref() {
        None | Some("us-ascii" | "ascii") => Ok(UTF_8),
        Some(charset) => Encoding::for_label_no_replacement(charset.as_bytes()).ok_or_else(|| {
            let shown = charset.chars().filter(|c| !c.is_control()).take(SHOWN);
            NotText::Unknown(shown.collect())
        }),
    }
}

/// The bytes without the mark of UTF-8 at their begin.
pub fn strip_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BOM).unwrap_or(bytes)
}

/// The value of a header. Its bytes beyond ASCII are UTF-8 if they can be, and otherwise Latin-1,
/// so that none is lost.
pub fn header_text(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.iter().map(|byte| char::from(*byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Uncounted;

    #[track_caller]
    fn check(content_type: &str, bytes: &[u8], expected: Result<&str, NotText>) {
        let content_type = Some(content_type).filter(|it| !it.is_empty());
        let text = decode_text(content_type, bytes, 64, &mut Uncounted);
        let expected = expected.map(str::to_owned);
        assert_eq!(
            text.map(Cow::into_owned),
            expected,
            "{content_type:?} {bytes:x?}"
        );
    }

    #[test]
    fn a_text_has_the_charset_that_it_declares() {
        check("text/plain; charset=ISO-8859-1", b"caf\xe9", Ok("café"));
        check("text/plain; charset=\"windows-1252\"", b"\x80 5", Ok("€ 5"));
        check("text/plain; charset=UTF-16LE", b"\xe4\0\n\0", Ok("ä\n"));
        check(
            "application/json; charset=Shift_JIS",
            b"\"\x83\x86\"",
            Ok("\"ユ\""),
        );
        check("text/plain; charset=gbk", b"\xc4\xe3", Ok("你"));
        check("text/plain", "café".as_bytes(), Ok("café"));
        check("", "café".as_bytes(), Ok("café"));
        check(
            "text/plain; charset=us-ascii",
            "café".as_bytes(),
            Ok("café"),
        );
    }

    #[test]
    fn a_byte_order_mark_decides_and_is_no_part_of_the_text() {
        check("", b"\xef\xbb\xbf{}", Ok("{}"));
        check("application/json", b"\xff\xfe{\0}\0", Ok("{}"));
        check("application/json", b"\xfe\xff\0{\0}", Ok("{}"));
        check(
            "text/plain; charset=latin1",
            b"\xef\xbb\xbf\xc3\xa9",
            Ok("é"),
        );
        check("", b"\xef\xbb\xbf", Ok(""));
        check("", b"\xef\xbb", Err(NotText::Malformed("UTF-8")));
        assert_eq!(strip_bom(b"\xef\xbb\xbf\xef\xbb\xbfa"), b"\xef\xbb\xbfa");
        assert_eq!(strip_bom(b"\xef\xbb"), b"\xef\xbb");
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        check("image/png", b"\x89PNG", Err(NotText::Malformed("UTF-8")));
        check(
            "text/plain; charset=utf-16",
            b"a",
            Err(NotText::Malformed("UTF-16LE")),
        );
        check(
            "text/plain; charset=utf-16",
            b"\0\xd8a\0",
            Err(NotText::Malformed("UTF-16LE")),
        );
        check(
            "text/plain; charset=shift_jis",
            b"\x83",
            Err(NotText::Malformed("Shift_JIS")),
        );
        let unknown = |name: &str| Err(NotText::Unknown(name.to_owned()));
        check("text/plain; charset=utf-32", b"a\0\0\0", unknown("utf-32"));
        check("text/plain; charset=utf-7", b"a", unknown("utf-7"));
        check(
            "text/plain; charset=hz-gb-2312",
            b"a",
            unknown("hz-gb-2312"),
        );
        check("text/plain; charset=\u{1b}[2J", b"a", unknown("[2j"));
    }

    #[test]
    fn a_text_that_grows_is_bounded_and_charged() {
        struct Little(usize);
        impl Memory for Little {
            fn charge(&mut self, bytes: usize) -> bool {
                let fits = bytes <= self.0;
                self.0 -= if fits { bytes } else { 0 };
                fits
            }
            fn discharge(&mut self, bytes: usize) {
                self.0 += bytes;
            }
        }
        let latin = Some("text/plain; charset=latin1");
        // Each byte becomes three.
        let euros = vec![0x80; 100_000];
        let decode = |limit, memory: &mut Little| {
            let text = decode_text(latin, &euros, limit, memory);
            text.map(|text| text.len())
        };
        let mut memory = Little(1 << 20);
        assert_eq!(decode(300_000, &mut memory), Ok(300_000));
        assert!(memory.0 <= (1 << 20) - 300_000, "{}", memory.0);
        let mut memory = Little(1 << 20);
        assert_eq!(
            decode(299_999, &mut memory),
            Err(NotText::TooLarge(299_999))
        );
        assert_eq!(memory.0, 1 << 20, "what fails returns its memory");
        let mut memory = Little(200_000);
        assert_eq!(decode(300_000, &mut memory), Err(NotText::NoMemory));
        assert_eq!(memory.0, 200_000);
        check("", &[b'a'; 65], Err(NotText::TooLarge(64)));
    }

    #[test]
    fn no_byte_of_a_header_is_lost() {
        assert_eq!(header_text("café".as_bytes()), "café");
        assert_eq!(header_text(b"caf\xe9"), "café");
        assert_eq!(header_text(b"\x80\xff"), "\u{80}ÿ");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(content_type in ".{0,40}", label in 0_usize..6, bytes: Vec<u8>) {
            let labels = ["utf-16", "gb18030", "iso-2022-jp", "big5", "euc-kr", "x-user-defined"];
            let own = format!("text/plain; charset={}", labels[label]);
            for content_type in [&content_type, &own] {
                let _ = decode_text(Some(content_type), &bytes, 1 << 20, &mut Uncounted);
            }
        }
    }
}
