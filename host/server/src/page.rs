//! Lists, a page at a time.
//!
//! A cursor is opaque to the client. It names its list and the last item of the page, so it stays
//! valid while rows are added and removed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use windlass_store::fewer;

use crate::json::size;
use crate::problem::Problem;

/// Items of a page by default.
const USUAL: u32 = 50;

/// Items of a page at most.
const MOST: u32 = 500;

/// A page ends with the item by which it reaches this size.
const BYTES: usize = 4 * 1024 * 1024;

/// The rows of a page have at most so many bytes, unless it is one row. The rest of `answers::READ` is for
/// large values in blobs, and for the answer.
const ROWS_BYTES: u64 = 2 * 1024 * 1024;

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    /// The items of the page.
    pub(crate) items: Vec<T>,
    /// The `cursor` of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) next: Option<String>,
}

/// The cursor of the page that begins after a position of a list.
pub(crate) fn cursor(list: &str, place: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}\n{place}"))
}

/// Selects a page of a list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageAsked {
    /// The most items of the page.
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub(crate) limit: Option<u32>,
    /// `next` of the previous page.
    pub(crate) cursor: Option<String>,
}

impl PageAsked {
    /// Reads the rows of a page: one more than the page shows, which tells whether there is another
    /// page, or fewer if they are large.
    pub(crate) fn rows<R>(
        &self,
        read: impl Fn(u32) -> Result<Vec<R>, Box<Problem>>,
    ) -> Result<(Vec<R>, bool), Box<Problem>> {
        fewer(ROWS_BYTES, self.look()?, read)
    }

    /// How many rows to read.
    pub(crate) fn look(&self) -> Result<u32, Box<Problem>> {
        Ok(self.limit()? + 1)
    }

    fn limit(&self) -> Result<u32, Box<Problem>> {
        let limit = self.limit.unwrap_or(USUAL);
        if (1..=MOST).contains(&limit) {
            return Ok(limit);
        }
        Err(Problem::parameter(format!("`limit` is from 1 to {MOST}")))
    }

    /// The position after which the page begins, as text of the list.
    pub(crate) fn after(&self, list: &str) -> Result<Option<String>, Box<Problem>> {
        let Some(cursor) = self.cursor.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let unreadable = Problem::foreign_cursor;
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| unreadable())?;
        let text = String::from_utf8(bytes).map_err(|_| unreadable())?;
        let (of, place) = text.split_once('\n').ok_or_else(unreadable)?;
        if of != list || place.contains('\0') {
            return Err(unreadable());
        }
        Ok(Some(place.to_owned()))
    }

    /// The number after which the page begins.
    pub(crate) fn after_number(&self, list: &str) -> Result<Option<i64>, Box<Problem>> {
        let after = self.after(list)?;
        let number = after.map(|place| place.parse());
        number.transpose().map_err(|_| Problem::foreign_cursor())
    }

    /// Makes a page of the rows, of which there is one more if the list continues. The page ends
    /// early if it would become too large; the remaining rows are on the next one.
    pub(crate) fn page<R, T: Serialize>(
        &self,
        list: &str,
        rows: Vec<R>,
        place: impl Fn(&R) -> String,
        item: impl FnMut(R) -> Result<T, Box<Problem>>,
    ) -> Result<Page<T>, Box<Problem>> {
        self.part(list, (rows, false), place, item)
    }

    /// As [`Self::page`], of rows behind which there may be more.
    pub(crate) fn part<R, T: Serialize>(
        &self,
        list: &str,
        (rows, mut more): (Vec<R>, bool),
        place: impl Fn(&R) -> String,
        mut item: impl FnMut(R) -> Result<T, Box<Problem>>,
    ) -> Result<Page<T>, Box<Problem>> {
        let limit = self.limit()? as usize;
        let mut rows = rows.into_iter().peekable();
        let (mut items, mut bytes) = (Vec::new(), 0);
        let mut last = String::new();
        while let Some(row) = rows.next_if(|_| items.len() < limit && bytes < BYTES) {
            let at = place(&row);
            let item = match item(row) {
                // The item is the first one of the next page.
                Err(problem) if problem.exceeds_allowance() && !items.is_empty() => {
                    more = true;
                    break;
                }
                item => item?,
            };
            last = at;
            bytes += size(&item);
            items.push(item);
        }
        more |= rows.peek().is_some();
        let next = more.then(|| cursor(list, &last));
        Ok(Page { items, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(limit: Option<u32>, cursor: Option<String>) -> PageAsked {
        PageAsked { limit, cursor }
    }

    #[test]
    fn a_cursor_leads_on_in_its_own_list_only() {
        let first = asked(Some(2), None);
        let page = first.page("a", vec![1, 2, 3], i32::to_string, Ok).unwrap();
        assert_eq!(page.items, [1, 2]);
        let next = asked(None, page.next);
        assert_eq!(next.after_number("a").unwrap(), Some(2));
        assert!(next.after("b").is_err());
        let last = first.page("a", vec![4, 5], i32::to_string, Ok).unwrap();
        assert_eq!(last.next, None);
    }

    #[test]
    fn a_page_ends_before_it_is_too_large() {
        let rows: Vec<usize> = (0..9).collect();
        let large = |row: usize| Ok(format!("{row}").repeat(BYTES / 2));
        let first = asked(Some(9), None);
        let page = first.page("a", rows, usize::to_string, large).unwrap();
        assert_eq!(page.items.len(), 2);
        let next = asked(None, page.next);
        assert_eq!(next.after_number("a").unwrap(), Some(1));
        let page = first.part("a", (vec![1, 2], true), i32::to_string, Ok);
        let page = page.unwrap();
        assert_eq!(page.items, [1, 2]);
        let next = asked(None, page.next);
        assert_eq!(
            next.after_number("a").unwrap(),
            Some(2),
            "there may be more"
        );
        let huge = |_| Ok("x".repeat(2 * BYTES));
        let page = first.page("a", vec![1], usize::to_string, huge).unwrap();
        assert_eq!((page.items.len(), page.next), (1, None));
    }

    fn exceeded() -> Box<Problem> {
        let code = windlass_store::codes::ALLOWANCE;
        windlass_store::Error::new(code, "more than may be read").into()
    }

    #[test]
    fn large_rows_are_read_in_smaller_parts() {
        let most = |most: u32| {
            move |limit: u32| match limit {
                _ if limit > most => Err(exceeded()),
                _ => Ok((0..limit.min(20)).collect::<Vec<_>>()),
            }
        };
        let read = |limit, most_rows| fewer(1, limit, most(most_rows)).unwrap();
        assert_eq!(read(51, 100).0.len(), 20);
        assert!(!read(51, 100).1, "there are no more");
        assert_eq!(read(51, 13), ((0..12).collect(), true));
        assert_eq!(read(51, 1), (vec![0], true));
        let first = asked(None, None);
        let (rows, more) = first.rows(most(13)).unwrap();
        let page = first.part("a", (rows, more), u32::to_string, Ok).unwrap();
        assert_eq!(page.items.len(), 12);
        let next = asked(None, page.next);
        assert_eq!(next.after_number("a").unwrap(), Some(11));
        // Nothing is left out in silence.
        assert!(fewer(1, 51, most(0)).unwrap_err().exceeds_allowance());
    }

    #[test]
    fn a_page_ends_before_an_item_for_which_there_is_no_room() {
        let first = asked(Some(9), None);
        let item = |row: i32| if row < 3 { Ok(row) } else { Err(exceeded()) };
        let page = first.part("a", (vec![1, 2, 3, 4], false), i32::to_string, item);
        let page = page.unwrap();
        assert_eq!(page.items, [1, 2]);
        let next = asked(None, page.next);
        assert_eq!(next.after_number("a").unwrap(), Some(2));
        let page = first.part("a", (vec![3, 4], false), i32::to_string, item);
        assert!(page.unwrap_err().exceeds_allowance());
    }

    #[test]
    fn malformed_cursors_are_refused() {
        for text in ["x", "%%", "AAAA", "YQ"] {
            assert!(
                asked(None, Some(text.to_owned())).after("a").is_err(),
                "{text}"
            );
        }
        for limit in [0, 501, u32::MAX] {
            assert!(asked(Some(limit), None).look().is_err(), "{limit}");
        }
    }
}
