use std::sync::Arc;

use crate::{Diagnostic, Place, codes, limits};

/// The bytes of a workflow file as text, with the mistake if they are no UTF-8. The text then has
/// U+FFFD in place of the wrong bytes, and is only for showing the mistake.
///
/// A file of more than [`limits::WORKFLOW_BYTES`] is not checked, because its reader may have cut it.
pub fn decode(bytes: &[u8]) -> (Arc<str>, Option<Diagnostic>) {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return (text.into(), None),
        Err(error) => error,
    };
    let text: Arc<str> = String::from_utf8_lossy(bytes).into();
    if bytes.len() > limits::WORKFLOW_BYTES {
        return (text, None);
    }
    let at = error.valid_up_to();
    let byte = bytes.get(at).copied().unwrap_or_default();
    let (message, at) = match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => ("the file is in UTF-16".to_owned(), 0),
        _ => (format!("the byte 0x{byte:02X} is no UTF-8"), at),
    };
    // The text is the same up to there.
    let place = Place::spanning(at..at + char::REPLACEMENT_CHARACTER.len_utf8());
    let help = "a workflow file is text in UTF-8: save the file in that encoding";
    let found = Diagnostic::new(codes::SYNTAX, message, place).help(help);
    (text, Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_another_encoding_is_a_mistake_at_the_first_wrong_byte() {
        let check = |bytes: &[u8], expected: Option<(&str, usize)>| {
            let (text, found) = decode(bytes);
            let found = found.map(|it| (it.message, it.place.span.unwrap().start));
            let found = found.as_ref().map(|(message, at)| (message.as_str(), *at));
            assert_eq!(found, expected, "{text}");
        };
        check("größe".as_bytes(), None);
        check("a\u{fffd}".as_bytes(), None);
        check(b"", None);
        check(b"gr\xf6\xdfe", Some(("the byte 0xF6 is no UTF-8", 2)));
        check(b"a\xc3", Some(("the byte 0xC3 is no UTF-8", 1)));
        check(b"\xff\xfea\0", Some(("the file is in UTF-16", 0)));
        let mut long = vec![b'a'; limits::WORKFLOW_BYTES];
        long.push(0xc3);
        check(&long, None);
    }
}
