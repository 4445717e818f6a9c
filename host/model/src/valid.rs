//! Validation of keys: texts by which people, systems and components name objects, and by which
//! stores find them.
//!
//! Every key is checked here when it enters the system, so that every store accepts all keys that
//! pass. Two things are refused: the character U+0000, which PostgreSQL cannot keep in a text, and
//! texts that are longer than an index entry may be. Payloads are not keys: they are kept as bytes,
//! and may be any JSON.

use crate::Tags;
use crate::limits::{
    CORRELATION_BYTES, STIMULUS_NAME_BYTES, TAG_BYTES, TAG_NAME_BYTES, TAGS, VARIABLE_NAME_BYTES,
    VARIABLES,
};

/// The reason why a text is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is empty, or too long.
    #[error("{what} has {least} to {most} bytes, and not {bytes}")]
    Length {
        /// The kind of text.
        what: String,
        /// The fewest bytes.
        least: usize,
        /// The most bytes.
        most: usize,
        /// The bytes of the text.
        bytes: usize,
    },
    /// There are too many tags.
    #[error("a run has at most {TAGS} tags, and not {tags}")]
    Tags {
        /// Their number.
        tags: usize,
    },
    /// There are too many variables.
    #[error("at most {VARIABLES} variables are assigned at once, and not {variables}")]
    Variables {
        /// Their number.
        variables: usize,
    },
    /// It contains the character U+0000.
    #[error("{what} has no zero character (U+0000), and this one has one at byte {at}")]
    Zero {
        /// The kind of text.
        what: String,
        /// The position of the first one, counted from 0.
        at: usize,
    },
}

/// A kind of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind<'w> {
    what: &'w str,
    least: usize,
    most: usize,
}

/// The correlation id of a run, a bookmark or a stimulus.
pub const CORRELATION: Kind<'_> = Kind::new("a correlation id", 0, CORRELATION_BYTES);

/// The name of a tag.
pub const TAG_NAME: Kind<'_> = Kind::new("the name of a tag", 1, TAG_NAME_BYTES);

/// The value of a tag.
pub const TAG: Kind<'_> = Kind::new("the value of a tag", 0, TAG_BYTES);

/// The name of a stimulus.
pub const EVENT: Kind<'_> = Kind::new("the name of an event", 1, STIMULUS_NAME_BYTES);

/// The name of a bookmark.
pub const BOOKMARK: Kind<'_> = Kind::new("the name of a bookmark", 1, STIMULUS_NAME_BYTES);

/// The name of a node.
pub const NODE: Kind<'_> = Kind::new("the name of a node", 1, STIMULUS_NAME_BYTES);

/// The name of a variable.
pub const VARIABLE: Kind<'_> = Kind::new("the name of a variable", 0, VARIABLE_NAME_BYTES);

/// Checks the number of tags, their names and their values.
///
/// # Errors
///
/// The reason for the first one that is not valid.
pub fn check_tags(tags: &Tags) -> Result<(), Invalid> {
    if tags.len() > TAGS {
        return Err(Invalid::Tags { tags: tags.len() });
    }
    TAG_NAME.check_all(tags.keys())?;
    TAG.check_all(tags.values())
}

/// Checks the number and the names of variables that are assigned together.
///
/// # Errors
///
/// The reason for the first one that is not valid.
pub fn check_variables<'t>(
    names: impl ExactSizeIterator<Item = &'t String>,
) -> Result<(), Invalid> {
    let variables = names.len();
    if variables > VARIABLES {
        return Err(Invalid::Variables { variables });
    }
    VARIABLE.check_all(names)
}

impl<'w> Kind<'w> {
    /// A kind of texts with so many bytes, whose name is like `a correlation id`.
    pub const fn new(what: &'w str, least: usize, most: usize) -> Self {
        Self { what, least, most }
    }

    /// Checks that a text is of this kind.
    ///
    /// # Errors
    ///
    /// The reason. The text itself is not repeated: it may be long, and untrusted.
    pub fn check(self, text: &str) -> Result<(), Invalid> {
        let Self { what, least, most } = self;
        let (what, bytes) = (|| what.to_owned(), text.len());
        if !(least..=most).contains(&bytes) {
            return Err(Invalid::Length {
                what: what(),
                least,
                most,
                bytes,
            });
        }
        match text.find('\0') {
            Some(at) => Err(Invalid::Zero { what: what(), at }),
            None => Ok(()),
        }
    }

    /// Checks that all texts are of this kind.
    ///
    /// # Errors
    ///
    /// The reason for the first one that is not.
    pub fn check_all<'t>(self, texts: impl IntoIterator<Item = &'t String>) -> Result<(), Invalid> {
        texts.into_iter().try_for_each(|text| self.check(text))
    }

    /// As [`Self::check`], for an optional text.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub fn check_optional(self, text: Option<&str>) -> Result<(), Invalid> {
        text.map_or(Ok(()), |text| self.check(text))
    }
}

/// Foreign text made safe for people: control characters become blanks, and the text is cut after
/// `most` bytes.
pub fn plain(text: &str, most: usize) -> String {
    let mut plain = String::with_capacity(text.len().min(most));
    for char in text.chars() {
        if plain.len() + char.len_utf8() > most {
            plain.push('…');
            break;
        }
        plain.push(if char.is_control() { ' ' } else { char });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Kind<'_>, text: &str, expected: &str) {
        let told = kind.check(text).map_err(|error| error.to_string());
        assert_eq!(told.err().unwrap_or_default(), expected);
        let missing = kind.check_optional(Some(text)).is_err();
        assert_eq!(missing, !expected.is_empty());
    }

    #[test]
    fn keys_are_bounded_and_have_no_zero_character() {
        check(EVENT, "order.placed", "");
        check(EVENT, "\u{1}\n\u{7f}\u{fffd}é😀", "");
        check(
            EVENT,
            "",
            "the name of an event has 1 to 256 bytes, and not 0",
        );
        let long = "é".repeat(129);
        check(
            EVENT,
            &long,
            "the name of an event has 1 to 256 bytes, and not 258",
        );
        check(EVENT, &long[..256], "");
        let zero =
            "a correlation id has no zero character (U+0000), and this one has one at byte 2";
        check(CORRELATION, "7-\0", zero);
        check(CORRELATION, "", "");
        assert_eq!(CORRELATION.check_optional(None), Ok(()));
    }

    #[test]
    fn plain_text_is_cut_and_has_no_control_characters() {
        assert_eq!(plain("a\0b\nc\u{85}", 100), "a b c ");
        assert_eq!(plain("üüü", 6), "üüü");
        assert_eq!(plain("üüü", 5), "üü…");
        assert_eq!(plain("x", 0), "…");
    }
}
