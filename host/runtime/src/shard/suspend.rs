//! Nodes that wait for a bookmark, and the reasons why they continue.

use windlass_engine::Open;
use windlass_model::stimulus::{canonical, hash};
use windlass_model::{
    Bookmark, Class, Failure, JsonText, Payload, Resumption, Seq, TriggerNo, TriggerType, limits,
    valid,
};
use windlass_plugins::Reason;
use windlass_store::Store;
use windlass_store::stimuli::{BookmarkQuery, NewBookmark};

use super::memory::Unread;
use super::owned::OwnedRun;
use crate::codes;
use crate::links::Wait;

/// The failure if the bookmarks of a suspension are invalid.
pub(super) fn refused(bookmarks: &[Bookmark]) -> Option<Failure> {
    let long = |mark: &Bookmark| canonical(&mark.matches).len() > limits::MATCH_BYTES;
    let key = |mark: &Bookmark| {
        let named = valid::BOOKMARK.check(&mark.name);
        let correlated = || valid::CORRELATION.check_optional(mark.correlation.as_deref());
        named.and_then(|()| correlated()).err()
    };
    let reason = if bookmarks.is_empty() {
        "it names no bookmark".to_owned()
    } else if bookmarks.len() > limits::BOOKMARKS {
        format!("it names more than {} bookmarks", limits::BOOKMARKS)
    } else if let Some(wrong) = bookmarks.iter().find_map(key) {
        wrong.to_string()
    } else if bookmarks.iter().any(long) {
        let most = limits::MATCH_BYTES;
        format!("the `match` of a bookmark is over {most} bytes long")
    } else {
        return None;
    };
    let message = format!("the node cannot wait: {reason}");
    Some(Failure::new(Class::Invalid, codes::SUSPENDED, message))
}

/// The earliest expiry of these bookmarks.
pub(super) fn expiry(bookmarks: &[Bookmark]) -> Option<i64> {
    bookmarks.iter().filter_map(|mark| mark.expires_ms).min()
}

impl OwnedRun {
    /// The rows of the bookmarks that an execution made.
    pub(super) fn bookmarks(
        &self,
        bookmarks: &[Bookmark],
        (first, phase): (Seq, u32),
        wait: Wait,
        trigger: TriggerNo,
        now_ms: i64,
    ) -> Vec<NewBookmark> {
        let row = |(at, mark): (usize, &Bookmark)| {
            let matches = canonical(&mark.matches);
            NewBookmark {
                first,
                trigger,
                phase,
                name: mark.name.clone(),
                hash: hash(
                    &mark.name,
                    &matches,
                    mark.private.then_some((self.id, first)),
                ),
                matches: matches.into(),
                correlation: mark.correlation.clone(),
                private: mark.private,
                auto_burn: mark.auto_burn,
                metadata: mark.metadata.as_ref().map(JsonText::to_bytes),
                token: wait.bookmark(at, &mark.name),
                expires_ms: mark.expires_ms,
                created_ms: now_ms,
            }
        };
        bookmarks.iter().enumerate().map(row).collect()
    }

    /// The resumption of a suspended node run, if there is one.
    pub(super) fn given(&self, open: &Open) -> Result<Option<Resumption>, Unread> {
        let held = self.held.get(&open.seq);
        let Some(given) = held.and_then(|held| held.given.as_ref()) else {
            return Ok(None);
        };
        let given = Resumption::decode(given).map_err(|error| {
            let failure = Failure::new(Class::Invalid, codes::SUSPENDED, error.to_string());
            Unread::Value(failure)
        });
        given.map(Some)
    }

    /// Why a node is called again.
    pub(super) fn reason(&self, seq: Seq, store: &dyn Store) -> Result<Reason, Unread> {
        let Some(open) = self.state.run_of(seq) else {
            return Err(super::call::gone());
        };
        match self.given(open)? {
            Some(Resumption::Resumed {
                bookmark,
                input,
                metadata,
            }) => Ok(Reason::Resumed {
                bookmark,
                input,
                metadata: metadata.map(|json| Payload::json(json.to_bytes())),
            }),
            None if open.kind == TriggerType::Resume => self.expired(open, store),
            Some(Resumption::Child { .. }) | None => Ok(Reason::Again),
        }
    }

    /// The expired bookmark of a node run that was not resumed in time.
    fn expired(&self, open: &Open, store: &dyn Store) -> Result<Reason, Unread> {
        let query = BookmarkQuery {
            run: Some(self.no),
            limit: u32::MAX,
            ..BookmarkQuery::default()
        };
        let rows = store.bookmarks(&query)?;
        let own = rows
            .into_iter()
            .filter(|row| row.bookmark.first == open.first);
        let name = own
            .filter_map(|row| Some((row.bookmark.expires_ms?, row.bookmark.name)))
            .min()
            .map_or_else(String::new, |(_, name)| name);
        Ok(Reason::Expired(name))
    }
}
