//! Collects the outputs of the items of a for-each after the last item.
//!
//! The thread of the shard collects few and small outputs. More of them take many reads, and memory
//! for all of them at once: the step goes aside, and its place counts that memory.

use std::sync::Arc;

use bytes::Bytes;
use windlass_model::{Class, Failure, Payload, RunNo, Seq};
use windlass_store::Store;

use super::execute::size_of_body;
use super::gather::ALONE;
use super::memory::{EXPRESSION_BYTES, Unread, json_of};
use super::owned::OwnedRun;
use crate::codes;
use crate::shared::Base;

/// The number of items in one read. So many are collected on the thread of the shard.
const PAGE: u32 = 256;

/// The items of one list.
#[derive(Clone, Copy)]
struct Items {
    no: RunNo,
    list: Seq,
    count: u32,
}

impl OwnedRun {
    /// The outputs of the items of a list, as a JSON array with one value for each item.
    pub(super) fn collect(
        &mut self,
        list: Seq,
        count: u32,
        base: &Base,
    ) -> Result<Payload, Unread> {
        if let Some(known) = self.evaluations.next() {
            return known.map_err(Unread::Value);
        }
        let (no, store) = (self.no, &base.store);
        let items = Items { no, list, count };
        // With its place and without a result, the step has read in vain: its next error is reported.
        let is_again = self.evaluations.has_place();
        let is_few = count <= PAGE;
        #[cfg(test)]
        let is_few = is_few && !super::evaluate::all_aside();
        if is_few || is_again {
            let kept = |index: u32| self.memory.made_item(list, index);
            let goes_on = |bytes: usize| is_again || bytes <= ALONE;
            if let Some(json) = items.collect(store.as_ref(), kept, goes_on)? {
                return Ok(Payload::json(json));
            }
        }
        let (store, kept) = (Arc::clone(store), self.memory.made_items(list));
        Err(self.evaluations.go_aside(move |evaluations, interrupt| {
            let goes_on = |_: usize| !interrupt.is_raised();
            match items.collect(store.as_ref(), |index| kept.get(&index), goes_on) {
                Ok(Some(json)) => evaluations.found(Ok(Payload::json(json))),
                Ok(None) => return false,
                Err(Unread::Value(failure)) => evaluations.found(Err(failure)),
                Err(Unread::Store(_) | Unread::Aside) => {}
            }
            true
        }))
    }
}

impl Items {
    /// Reads the outputs that are not kept. None if it may not go on with so many bytes.
    fn collect<'a>(
        self,
        store: &dyn Store,
        kept: impl Fn(u32) -> Option<&'a Payload>,
        goes_on: impl Fn(usize) -> bool,
    ) -> Result<Option<Bytes>, Unread> {
        let mut json = vec![b'['];
        let mut page = Vec::new().into_iter().peekable();
        let mut read = 0;
        for index in 0..self.count {
            if index > 0 {
                json.push(b',');
            }
            if index >= read {
                let rows = store.items(self.no, self.list, index, PAGE)?;
                page = rows.into_iter().peekable();
                read = index.saturating_add(PAGE);
            }
            // A page is in the order of the indexes and may have gaps.
            while page.next_if(|(at, _)| *at < index).is_some() {}
            let stored = page.next_if(|(at, _)| *at == index);
            let output = kept(index).or(stored.as_ref().map(|(_, output)| output));
            let Some(output) = output else {
                json.extend_from_slice(b"null");
                continue;
            };
            let bytes = json.len().saturating_add(size_of_body(output));
            if bytes as u64 > EXPRESSION_BYTES {
                return Err(Unread::Value(too_large()));
            }
            if !goes_on(bytes) {
                return Ok(None);
            }
            json.extend_from_slice(&json_of(store, output)?);
        }
        json.push(b']');
        if json.len() as u64 > EXPRESSION_BYTES {
            return Err(Unread::Value(too_large()));
        }
        Ok(Some(json.into()))
    }
}

fn too_large() -> Failure {
    let message = format!(
        "the outputs of the items are together larger than {EXPRESSION_BYTES} bytes, which is the limit of an expression"
    );
    Failure::new(Class::Limit, codes::PAYLOAD_TOO_LARGE, message)
}
