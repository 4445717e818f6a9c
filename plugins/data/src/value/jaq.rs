//! Values as the library `jaq` takes them.

use std::rc::Rc;

use jaq_core::box_iter::{BoxIter, box_once};
use jaq_core::path::Opt;
use jaq_core::val::{Range, ValX};
use jaq_core::{Exn, ValR};

use super::{Result, Val, fail, shown, unique};
use crate::number::Num;

/// Updates are rewritten before a filter is compiled; see `rewrite`.
fn not_rewritten<'a>() -> ValX<'a, Val> {
    Err(Exn::from(fail("an update that is not rewritten")))
}

impl jaq_core::ValT for Val {
    fn from_num(text: &str) -> ValR<Self> {
        match Num::parse(text) {
            Some(number) => Ok(Self::Num(number)),
            None => Err(fail(format!("{text} is not a number"))),
        }
    }

    fn from_map<I: IntoIterator<Item = (Self, Self)>>(members: I) -> ValR<Self> {
        let member = |(key, value): (Self, Self)| match &key {
            Self::Str(key) => Ok((Rc::from(key.as_str()), value)),
            _ => Err(fail(format!("Cannot use {} as object key", shown(&key)))),
        };
        Ok(Self::object(
            members.into_iter().map(member).collect::<Result<_>>()?,
        ))
    }

    fn key_values(self) -> BoxIter<'static, ValR<(Self, Self), Self>> {
        match self {
            Self::Arr(items) => {
                let items = unique(items).into_iter().enumerate();
                Box::new(items.map(|(at, item)| Ok((Self::from(at), item))))
            }
            Self::Obj(members) => {
                let members = unique(members).into_iter();
                Box::new(members.map(|(key, value)| Ok((Self::text(&*key), value))))
            }
            other => box_once(Err(other.not_iterable())),
        }
    }

    fn values(self) -> Box<dyn Iterator<Item = ValR<Self>>> {
        match self {
            Self::Arr(items) => Box::new(unique(items).into_iter().map(Ok)),
            Self::Obj(members) => Box::new(unique(members).into_values().map(Ok)),
            other => box_once(Err(other.not_iterable())),
        }
    }

    fn index(self, key: &Self) -> ValR<Self> {
        self.get(key)
    }

    fn range(self, range: Range<&Self>) -> ValR<Self> {
        self.slice(range.start, range.end)
    }

    fn map_values<'a, I: Iterator<Item = ValX<'a, Self>>>(
        self,
        _: Opt,
        _: impl Fn(Self) -> I,
    ) -> ValX<'a, Self> {
        not_rewritten()
    }

    fn map_index<'a, I: Iterator<Item = ValX<'a, Self>>>(
        self,
        _: &Self,
        _: Opt,
        _: impl Fn(Self) -> I,
    ) -> ValX<'a, Self> {
        not_rewritten()
    }

    fn map_range<'a, I: Iterator<Item = ValX<'a, Self>>>(
        self,
        _: Range<&Self>,
        _: Opt,
        _: impl Fn(Self) -> I,
    ) -> ValX<'a, Self> {
        not_rewritten()
    }

    fn as_bool(&self) -> bool {
        !matches!(self, Self::Null | Self::Bool(false))
    }

    fn into_string(self) -> Self {
        match self {
            Self::Str(_) => self,
            other => Self::text(other.to_json()),
        }
    }
}

/// What jaq's own filters see of a value.
impl jaq_std::ValT for Val {
    fn into_seq<S: FromIterator<Self>>(self) -> std::result::Result<S, Self> {
        match self {
            Self::Arr(items) => Ok(unique(items).into_iter().collect()),
            other => Err(other),
        }
    }

    fn is_int(&self) -> bool {
        matches!(self, Self::Num(number) if number.to_int().is_some())
    }

    fn as_isize(&self) -> Option<isize> {
        match self {
            Self::Num(number) => isize::try_from(number.to_int()?).ok(),
            _ => None,
        }
    }

    fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Num(number) => Some(number.to_f64()),
            _ => None,
        }
    }

    fn is_utf8_str(&self) -> bool {
        matches!(self, Self::Str(_))
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        self.as_text().map(str::as_bytes)
    }

    fn as_sub_str(&self, part: &[u8]) -> Self {
        Self::text(String::from_utf8_lossy(part))
    }

    fn from_utf8_bytes(bytes: impl AsRef<[u8]> + Send + 'static) -> Self {
        Self::text(String::from_utf8_lossy(bytes.as_ref()))
    }
}
