//! Lookup of ids by their first digits.

/// The first and the last id that begin with these hexadecimal digits, ignoring hyphens; none if no
/// id can begin so.
pub(crate) fn range(prefix: &str) -> Option<([u8; 16], [u8; 16])> {
    let (mut first, mut last) = ([0x00; 16], [0xff; 16]);
    let digits = prefix.chars().filter(|letter| *letter != '-');
    for (place, letter) in digits.enumerate() {
        let digit = u8::try_from(letter.to_digit(16)?).ok()?;
        let (first, last) = (first.get_mut(place / 2)?, last.get_mut(place / 2)?);
        if place % 2 == 0 {
            *first = digit << 4;
            *last = digit << 4 | 0x0f;
        } else {
            *first |= digit;
            *last = *last & 0xf0 | digit;
        }
    }
    Some((first, last))
}

#[cfg(test)]
mod tests {
    use super::range;

    fn check(prefix: &str, begins: Option<(&[u8], u8)>) {
        let Some((first, last)) = range(prefix) else {
            return assert_eq!(None, begins, "{prefix}");
        };
        let (bytes, last_byte) = begins.expect(prefix);
        assert_eq!(&first[..bytes.len()], bytes, "{prefix}");
        assert_eq!(last[bytes.len() - 1], last_byte, "{prefix}");
        assert!(
            first[bytes.len()..].iter().all(|byte| *byte == 0),
            "{prefix}"
        );
        assert!(
            last[bytes.len()..].iter().all(|byte| *byte == 0xff),
            "{prefix}"
        );
    }

    #[test]
    fn a_prefix_is_a_range_of_ids() {
        check("a", Some((&[0xa0], 0xaf)));
        check("ab", Some((&[0xab], 0xab)));
        check("AB-c", Some((&[0xab, 0xc0], 0xcf)));
        check("xyz", None);
        check(&"0".repeat(33), None);
    }
}
