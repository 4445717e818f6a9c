//! The header `tracestate`: what the tracers of a trace tell each other, in a list of members like
//! `vendor=value`.
//!
//! The host has no member of its own and changes none, so it keeps the text. Bounds: 32 members,
//! 512 bytes, both from the specification, which demands that at least so much is passed on.

use std::sync::Arc;

/// The name of the header, and of the attribute of CloudEvents.
pub const TRACE_STATE: &str = "tracestate";

/// The most members of a `tracestate`. A longer list is malformed.
pub const MAX_MEMBERS: usize = 32;

/// The longest `tracestate` that is passed on, in bytes. A longer one loses whole members.
pub const MAX_STATE_BYTES: usize = 512;

/// Members of a `tracestate` over this length, in bytes, are the first that a longer list loses.
const LARGE_BYTES: usize = 128;

/// The longest key and the longest value of a member of a `tracestate`, in bytes.
const MAX_PART_BYTES: usize = 256;

/// A well-formed list of 1 to [`MAX_MEMBERS`] members, of at most [`MAX_STATE_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceState(Arc<str>);

impl TraceState {
    /// The list in the values of the header, in their order. None: it has no member or is malformed,
    /// so nothing of it is passed on.
    pub fn read<'v>(values: impl IntoIterator<Item = &'v str>) -> Option<Self> {
        let mut members = Vec::new();
        for member in values.into_iter().flat_map(|value| value.split(',')) {
            let member = member.trim_matches([' ', '\t']);
            if member.is_empty() {
                continue;
            }
            if members.len() == MAX_MEMBERS || !is_member(member) {
                return None;
            }
            members.push(member);
        }
        shorten(&mut members);
        (!members.is_empty()).then(|| Self(members.join(",").into()))
    }

    /// The value of the header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Removes members as the specification says: large ones, then those at the end.
fn shorten(members: &mut Vec<&str>) {
    let len = |members: &[&str]| members.iter().map(|member| member.len() + 1).sum::<usize>();
    while len(members) > MAX_STATE_BYTES + 1 {
        let large = members
            .iter()
            .rposition(|member| member.len() > LARGE_BYTES);
        members.remove(large.unwrap_or(members.len() - 1));
    }
}

fn is_member(member: &str) -> bool {
    member
        .split_once('=')
        .is_some_and(|(key, value)| is_key(key) && is_value(value))
}

/// A key of level 2, which has those of level 1 among them.
fn is_key(key: &str) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_further = |byte: &u8| is_first(byte) || b"_-*/@".contains(byte);
    key.len() <= MAX_PART_BYTES
        && key.as_bytes().first().is_some_and(is_first)
        && key.as_bytes().iter().all(is_further)
}

/// Printable characters without a comma and an equals sign.
fn is_value(value: &str) -> bool {
    let is_of_value = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    (1..=MAX_PART_BYTES).contains(&value.len()) && value.bytes().all(is_of_value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(values: &[&str], read: Option<&str>) {
        let found = TraceState::read(values.iter().copied());
        assert_eq!(found.as_ref().map(TraceState::as_str), read, "{values:?}");
    }

    #[test]
    fn a_list_is_read_as_the_specification_says() {
        let full = |count: usize| vec!["a=1"; count].join(",");
        check(&["rojo=00f067,congo=t61"], Some("rojo=00f067,congo=t61"));
        check(&["a=1", "b=2"], Some("a=1,b=2"));
        check(&["a=1 ,\t b=2,,"], Some("a=1,b=2"));
        check(
            &["tenant@vendor=x y", "0-_*/=!"],
            Some("tenant@vendor=x y,0-_*/=!"),
        );
        check(&["a=1,a=2"], Some("a=1,a=2"));
        check(&[&full(MAX_MEMBERS)], Some(&full(MAX_MEMBERS)));
        check(&[&full(MAX_MEMBERS + 1)], None);
        for nothing in [&[][..], &[""], &[" , "]] {
            check(nothing, None);
        }
        for wrong in [
            "a", "a=", "=1", "A=1", "a=1=2", "a b=1", "a=é", "a=\u{7f}", "@a=1",
        ] {
            check(&[wrong], None);
            check(&["good=1", wrong], None);
        }
    }

    #[test]
    fn parts_of_a_member_have_256_bytes_at_most() {
        let long = "k".repeat(MAX_PART_BYTES);
        for (member, is_read) in [
            (format!("{long}=1"), true),
            (format!("{long}k=1"), false),
            (format!("a={long}"), true),
            (format!("a={long}k"), false),
        ] {
            check(&[&member], is_read.then_some(&*member));
        }
    }

    #[test]
    fn a_longer_list_loses_large_members_first_and_then_the_last_ones() {
        let small = |key: &str| format!("{key}={}", "v".repeat(98));
        let large = format!("l={}", "v".repeat(LARGE_BYTES));
        let five: Vec<_> = ["a", "b", "c", "d", "e"].map(small).into();
        check(&[&five.join(",")], Some(&five.join(",")));
        check(&[&large, &five.join(",")], Some(&five.join(",")));
        check(&[&five.join(","), &small("f")], Some(&five.join(",")));
    }

    proptest! {
        #[test]
        fn each_list_that_is_read_is_within_its_bounds_and_is_read_again(
            values in proptest::collection::vec("([a-z0-9@]{1,5}=[!-~]{0,200}[,\t ]?){0,40}|.{0,40}", 0..4),
        ) {
            if let Some(state) = TraceState::read(values.iter().map(String::as_str)) {
                prop_assert!(state.as_str().len() <= MAX_STATE_BYTES);
                prop_assert!(state.as_str().split(',').count() <= MAX_MEMBERS);
                prop_assert_eq!(TraceState::read([state.as_str()]), Some(state));
            }
        }
    }
}
