//! The data of a run, read from the store only when an expression needs it.
//!
//! What a step makes stays here at least until its commit is durable, because the store does not have
//! it before. Later it stays while the run holds little.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use windlass_model::limits::INLINE_PAYLOAD_BYTES;
use windlass_model::metrics::Metrics;
use windlass_model::{
    BlobRef, Body, Class, Digest, ExecutionNo, Failure, Payload, RunNo, ScopeNo, Seq,
};
use windlass_store::{Store, within};

use super::list::{List, Pages};
use crate::codes;
use crate::shared::of_runs;

/// The bytes of data that a run keeps although the store has it. None, but for a page of a list, while
/// the runs of the process hold more than they may together.
const KEPT_BYTES: usize = 1024 * 1024;

/// The bytes of lists that a run keeps although the store has them; the list that was read last stays
/// in any case, while the runs of the process hold less than they may together.
const KEPT_LISTS: usize = 16 * 1024 * 1024;

/// The bytes of the places of lists that a run reads in pages. Beyond it, they are found again.
const PLACES_BYTES: usize = 4 * 1024 * 1024;

/// What an entry takes beside its data, about.
const ENTRY_BYTES: usize = 128;

/// The bytes of variables of one scope that are read together to look at some of them.
const TOGETHER: u64 = 1024 * 1024;

/// The bytes of variables of one scope that an expression may read all together. Large values do not
/// count.
const ALL_VARS: u64 = 64 * 1024 * 1024;

/// The largest payload that an expression may read, in bytes.
pub(super) const EXPRESSION_BYTES: u64 = 16 * 1024 * 1024;

/// The data of a run that is in memory.
#[derive(Default)]
pub(crate) struct Memory {
    input: Option<Payload>,
    vars: FxHashMap<ScopeNo, Vars>,
    /// Outputs by execution. Every output whose commit is in progress is here.
    outputs: FxHashMap<ExecutionNo, Made<Payload>>,
    lists: FxHashMap<ExecutionNo, Made<Arc<List>>>,
    /// The lists by their content, so that each is held once.
    known: FxHashMap<Content, Weak<List>>,
    /// The list that was read last.
    last_list: Option<ExecutionNo>,
    /// The lists that are read in pages, because there was no room for them.
    paged: FxHashMap<ExecutionNo, Paged>,
    /// The bytes of their places.
    places: usize,
    /// The page that was read last: the list that it is a part of, its first item, its items.
    page: Option<(Digest, u32, Arc<List>)>,
    /// Outputs of items, by list and index. Every output whose commit is in progress is here.
    items: FxHashMap<Seq, BTreeMap<u32, Made<Payload>>>,
    /// The commits of the run so far.
    submitted: u64,
    /// Those of them that are durable.
    durable: u64,
    /// The bytes of all data but lists.
    bytes: usize,
    /// The bytes of lists, those that are held once counted once.
    list_bytes: usize,
    /// The bytes that were left when data was dropped last.
    kept: usize,
    /// The bytes that the metrics of the process count.
    counted: u64,
    /// The bytes of the run's state and of its triggers, which the metrics count as well.
    pub(super) state: u64,
    /// The same before it was counted last.
    pub(super) state_before: u64,
    pub(super) metrics: Option<Arc<Metrics>>,
}

/// Data, and the commit that makes it durable.
pub(crate) struct Made<T> {
    by: u64,
    pub(super) data: T,
}

/// A list of which only the places of its pages are here.
#[derive(Clone)]
struct Paged {
    /// Where the store has the list. Unknown until the first page is read.
    blob: Option<BlobRef>,
    pages: Arc<Pages>,
}

/// The items of a list.
#[derive(Clone)]
pub(crate) struct Items(Held);

#[derive(Clone)]
enum Held {
    Whole(Arc<List>),
    Paged(BlobRef, Arc<Pages>),
}

impl Items {
    /// The number of items.
    pub(crate) fn len(&self) -> u32 {
        match &self.0 {
            Held::Whole(list) => list.len(),
            Held::Paged(_, pages) => pages.len(),
        }
    }
}

/// The content of a list. A list is alive as long as its text, so no other text has its address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Content {
    Text(usize, usize),
    Blob(Digest),
}

impl Content {
    fn of(payload: &Payload) -> Self {
        match &payload.body {
            Body::Inline(bytes) => Self::Text(bytes.as_ptr() as usize, bytes.len()),
            Body::Blob(blob) => Self::Blob(blob.digest),
        }
    }
}

/// The variables of one scope.
#[derive(Default)]
struct Vars {
    /// Whether these are all variables; otherwise only those assigned since the store was read.
    all: bool,
    /// Whether the store has too many of them to read them all for one.
    many: bool,
    known: FxHashMap<String, Made<Payload>>,
    /// The commit that opens the scope.
    by: u64,
}

/// The bytes that a payload holds.
fn weight(payload: &Payload) -> usize {
    ENTRY_BYTES + payload.inline().map_or(0, Bytes::len)
}

/// Why data could not be read.
pub(crate) enum Unread {
    /// The store fails; the run is not at fault.
    Store(windlass_store::Error),
    /// The value cannot be used.
    Value(Failure),
    /// The step goes aside: it asks again when it has the result of its evaluation.
    Aside,
}

impl From<windlass_store::Error> for Unread {
    fn from(error: windlass_store::Error) -> Self {
        Self::Store(error)
    }
}

impl Memory {
    /// The memory of a run that is being created.
    pub(crate) fn born(input: Payload, vars: &[(String, Payload)]) -> Self {
        let mut memory = Self::default();
        memory.add_input(input);
        memory.open_scope(ScopeNo::ROOT);
        memory.assign(ScopeNo::ROOT, vars);
        memory
    }

    /// Adds a scope without variables.
    pub(crate) fn open_scope(&mut self, scope: ScopeNo) {
        let vars = Vars {
            all: true,
            by: self.submitted + 1,
            ..Vars::default()
        };
        self.bytes += ENTRY_BYTES;
        self.vars.insert(scope, vars);
    }

    /// Removes a scope.
    pub(crate) fn close_scope(&mut self, scope: ScopeNo) {
        if let Some(vars) = self.vars.remove(&scope) {
            self.bytes = self.bytes.saturating_sub(vars.bytes());
        }
    }

    /// The input of the run.
    pub(crate) fn input(&mut self, store: &dyn Store, no: RunNo) -> Result<Payload, Unread> {
        if let Some(input) = &self.input {
            return Ok(input.clone());
        }
        let input = store.input(no)?.unwrap_or_else(Payload::null);
        self.add_input(input.clone());
        Ok(input)
    }

    fn add_input(&mut self, input: Payload) {
        self.bytes += weight(&input);
        self.input = Some(input);
    }

    /// A variable of one scope, without those of the scopes around it. Small variables are read
    /// together, and large ones one by one.
    pub(crate) fn var(
        &mut self,
        store: &dyn Store,
        no: RunNo,
        scope: ScopeNo,
        name: &str,
    ) -> Result<Option<Payload>, Unread> {
        let vars = self.vars.entry(scope).or_default();
        if let Some(made) = vars.known.get(name) {
            return Ok(Some(made.data.clone()));
        }
        if vars.all {
            return Ok(None);
        }
        if !vars.many {
            match within(TOGETHER, || store.vars(no, scope)) {
                Ok(stored) => {
                    let vars = self.know(scope, stored);
                    return Ok(vars.known.get(name).map(|made| made.data.clone()));
                }
                Err(error) if error.exceeds_allowance() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let found = store.var(no, scope, name)?;
        let vars = self.vars.entry(scope).or_default();
        vars.many = true;
        if let Some(data) = &found {
            self.bytes += weight(data);
            let data = data.clone();
            vars.known.insert(name.to_owned(), Made { by: 0, data });
        }
        Ok(found)
    }

    /// Adds the stored variables of a scope. The commits of assignments may still be in progress.
    fn know(&mut self, scope: ScopeNo, stored: Vec<(String, Payload)>) -> &Vars {
        let vars = self.vars.entry(scope).or_default();
        let stored = stored.into_iter();
        let stored = stored.map(|(name, data)| (name, Made { by: 0, data }));
        let mut all: FxHashMap<_, _> = stored.collect();
        all.extend(vars.known.drain());
        self.bytes = self.bytes.saturating_sub(vars.bytes());
        (vars.all, vars.known) = (true, all);
        self.bytes += vars.bytes();
        vars
    }

    /// All variables of one scope, without those of the scopes around it.
    pub(crate) fn vars(
        &mut self,
        store: &dyn Store,
        no: RunNo,
        scope: ScopeNo,
    ) -> Result<&FxHashMap<String, Made<Payload>>, Unread> {
        if !self.vars.entry(scope).or_default().all {
            match within(ALL_VARS, || store.vars(no, scope)) {
                Ok(stored) => drop(self.know(scope, stored)),
                Err(error) if error.exceeds_allowance() => {
                    let message = format!(
                        "the variables of the run are larger together than {} MiB, and the \
                         expression reads all of them",
                        ALL_VARS >> 20
                    );
                    let failure = Failure::new(Class::Limit, codes::PAYLOAD_TOO_LARGE, message);
                    return Err(Unread::Value(failure));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(&self.vars.entry(scope).or_default().known)
    }

    /// Adds assigned variables whose commit is in progress.
    pub(crate) fn assign(&mut self, scope: ScopeNo, assigned: &[(String, Payload)]) {
        if !assigned.is_empty() {
            let vars = self.vars.entry(scope).or_default();
            for (name, payload) in assigned {
                self.bytes += weight(payload);
                let made = Made {
                    by: self.submitted + 1,
                    data: payload.clone(),
                };
                if let Some(before) = vars.known.insert(name.clone(), made) {
                    self.bytes = self.bytes.saturating_sub(weight(&before.data));
                }
            }
        }
    }

    /// Adds an output whose commit is in progress.
    pub(crate) fn keep(&mut self, run: ExecutionNo, output: Payload) {
        self.bytes += weight(&output);
        let made = Made {
            by: self.submitted + 1,
            data: output,
        };
        self.outputs.insert(run, made);
    }

    /// The output of an execution.
    pub(crate) fn output(
        &mut self,
        store: &dyn Store,
        run: ExecutionNo,
    ) -> Result<Payload, Unread> {
        if let Some(output) = self.outputs.get(&run) {
            return Ok(output.data.clone());
        }
        let output = store.execution_output(run)?.unwrap_or_else(Payload::null);
        self.bytes += weight(&output);
        let made = Made {
            by: 0,
            data: output.clone(),
        };
        self.outputs.insert(run, made);
        Ok(output)
    }

    /// One item of a list, as JSON. Without room, only the page that has it is read.
    pub(crate) fn item(
        &mut self,
        store: &dyn Store,
        list: ExecutionNo,
        index: u32,
        has_room: bool,
    ) -> Result<Bytes, Unread> {
        self.last_list = Some(list);
        if let Some(whole) = self.lists.get(&list) {
            return Ok(whole.data.item(index).unwrap_or_default());
        }
        if let Some(item) = self.item_of_page(store, list, index)? {
            return Ok(item);
        }
        let payload = self.output(store, list)?;
        let items = self.list(store, &payload, has_room)?;
        let item = match &items.0 {
            Held::Whole(whole) => whole.item(index),
            Held::Paged(..) => None,
        };
        self.insert_list(list, items, 0);
        match item {
            Some(item) => Ok(item),
            None => match self.item_of_page(store, list, index)? {
                Some(item) => Ok(item),
                // The store returned another text: reading all of it names the damage.
                None => {
                    let whole = List::of(json_of(store, &payload)?).map_err(Unread::Value)?;
                    Ok(whole.item(index).unwrap_or_default())
                }
            },
        }
    }

    /// One item of a list that is read in pages; none if the list is not, or cannot be.
    fn item_of_page(
        &mut self,
        store: &dyn Store,
        list: ExecutionNo,
        index: u32,
    ) -> Result<Option<Bytes>, Unread> {
        let Some(paged) = self.paged.get(&list) else {
            return Ok(None);
        };
        let pages = Arc::clone(&paged.pages);
        let Some(place) = pages.page(index) else {
            return Ok(None);
        };
        let blob = match paged.blob {
            Some(blob) => blob,
            None => {
                let payload = self.output(store, list)?;
                let Body::Blob(blob) = payload.body else {
                    return Ok(None);
                };
                if let Some(paged) = self.paged.get_mut(&list) {
                    paged.blob = Some(blob);
                }
                blob
            }
        };
        if let Some((of, first, items)) = &self.page
            && (*of, *first) == (blob.digest, place.first)
        {
            return Ok(items.item(index - place.first));
        }
        let text = store.blob_part(blob, place.at, place.bytes)?;
        let Some(items) = text.and_then(|text| place.read(&text)) else {
            return Ok(None);
        };
        let item = items.item(index - place.first);
        self.page = Some((blob.digest, place.first, items));
        Ok(item)
    }

    /// Whether a list is here, or its pages.
    pub(crate) fn has_list(&self, payload: &Payload) -> bool {
        let known = self.known.get(&Content::of(payload));
        let paged = |blob: BlobRef| self.paged.values().any(|it| it.blob == Some(blob));
        known.is_some_and(|list| list.strong_count() > 0)
            || matches!(payload.body, Body::Blob(blob) if paged(blob))
    }

    /// The list that a payload is. A list that is here already is not read again. Without room, a
    /// list that the store has is read once, and only the places of its pages stay.
    pub(crate) fn list(
        &mut self,
        store: &dyn Store,
        payload: &Payload,
        has_room: bool,
    ) -> Result<Items, Unread> {
        let content = Content::of(payload);
        if let Some(known) = self.known.get(&content).and_then(Weak::upgrade) {
            return Ok(Items(Held::Whole(known)));
        }
        let stored = match &payload.body {
            Body::Blob(blob) if payload.is_json() => Some(*blob),
            _ => None,
        };
        if let Some(blob) = stored
            && let Some(paged) = self.paged.values().find(|it| it.blob == Some(blob))
        {
            return Ok(Items(Held::Paged(blob, Arc::clone(&paged.pages))));
        }
        let list = List::of(json_of(store, payload)?).map_err(Unread::Value)?;
        if let Some(blob) = stored
            && !has_room
        {
            return Ok(Items(Held::Paged(blob, Arc::new(Pages::of(&list)))));
        }
        self.known.insert(content, Arc::downgrade(&list));
        Ok(Items(Held::Whole(list)))
    }

    /// Adds a list whose commit is in progress.
    pub(crate) fn keep_list(&mut self, list: ExecutionNo, items: Items) {
        self.insert_list(list, items, self.submitted + 1);
    }

    fn insert_list(&mut self, list: ExecutionNo, items: Items, by: u64) {
        match items.0 {
            Held::Whole(items) => {
                // The caller has the other reference of a list that is new here.
                if Arc::strong_count(&items) <= 2 {
                    self.list_bytes += items.bytes();
                }
                self.lists.insert(list, Made { by, data: items });
                if self.list_bytes > KEPT_LISTS {
                    self.drop_lists(Some(list));
                }
            }
            Held::Paged(blob, pages) => {
                let blob = Some(blob);
                let is_new = Arc::strong_count(&pages) == 1;
                self.insert_paged(list, Paged { blob, pages }, is_new);
            }
        }
    }

    fn insert_paged(&mut self, list: ExecutionNo, paged: Paged, is_new: bool) {
        if self.places > PLACES_BYTES {
            self.paged.clear();
            self.places = 0;
        }
        self.places += ENTRY_BYTES;
        if is_new {
            self.places += paged.pages.bytes();
        }
        self.paged.insert(list, paged);
    }

    /// Keeps only the places of the lists that the store has as blobs, and drops the others but the
    /// one that was read last. The store has every text of more bytes than a payload has inline.
    fn page_lists(&mut self) {
        let (durable, last) = (self.durable, self.last_list);
        let is_large = |made: &Made<Arc<List>>| made.data.len_of_text() > INLINE_PAYLOAD_BYTES;
        let gone: Vec<_> = self
            .lists
            .extract_if(|list, made| made.by <= durable && (is_large(made) || Some(*list) != last))
            .collect();
        if gone.is_empty() {
            return;
        }
        // The lists of `gone` are alive, so each has its own address.
        let mut found: FxHashMap<*const List, Arc<Pages>> = FxHashMap::default();
        for (list, made) in &gone {
            if is_large(made) {
                let known = found.get(&Arc::as_ptr(&made.data)).map(Arc::clone);
                let is_new = known.is_none();
                let pages = known.unwrap_or_else(|| Arc::new(Pages::of(&made.data)));
                found.insert(Arc::as_ptr(&made.data), Arc::clone(&pages));
                self.insert_paged(*list, Paged { blob: None, pages }, is_new);
            }
        }
        drop(gone);
        self.drop_lists(last);
    }

    /// Adds the output of an item, whose commit is in progress.
    pub(crate) fn keep_item(&mut self, list: Seq, index: u32, output: Payload) {
        self.bytes += weight(&output);
        let made = Made {
            by: self.submitted + 1,
            data: output,
        };
        self.items.entry(list).or_default().insert(index, made);
    }

    /// The output of an item that is in memory.
    pub(super) fn made_item(&self, list: Seq, index: u32) -> Option<&Payload> {
        let made = self.items.get(&list)?.get(&index)?;
        Some(&made.data)
    }

    /// The outputs of the items of a list that are in memory.
    pub(super) fn made_items(&self, list: Seq) -> BTreeMap<u32, Payload> {
        let items = self.items.get(&list).into_iter().flatten();
        items
            .map(|(index, made)| (*index, made.data.clone()))
            .collect()
    }

    /// Removes the list of a for-each that has ended.
    pub(crate) fn forget_list(&mut self, list: Seq) {
        let items = self.items.remove(&list).into_iter().flatten();
        let bytes = items.map(|(_, made)| weight(&made.data)).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Counts a commit of the run that is submitted.
    pub(crate) fn submits(&mut self) {
        self.submitted += 1;
    }

    /// Counts a commit that is durable. Drops data that the store has, if there is much.
    pub(crate) fn shrink(&mut self, metrics: &Arc<Metrics>, run_data_bytes: u64) {
        self.durable += 1;
        let held = of_runs(metrics);
        let is_much = held >= run_data_bytes;
        let most = if is_much { 0 } else { KEPT_BYTES };
        // Data whose commit is in progress cannot be dropped: it is looked at again when there is
        // that much more.
        if self.durable == self.submitted {
            self.kept = 0;
        }
        if self.bytes > self.kept.saturating_add(most) {
            self.drop_durable();
        }
        if is_much {
            self.page_lists();
        }
        // Pages are small beside lists: they go last.
        if metrics.run_data.get() >= run_data_bytes.saturating_mul(2) {
            self.page = None;
        }
        self.count(metrics);
    }

    /// Tells the metrics of the process how much it holds.
    pub(super) fn count(&mut self, metrics: &Arc<Metrics>) {
        let page = self.page.as_ref().map_or(0, |(_, _, items)| items.bytes());
        let now = self.bytes + self.list_bytes + self.places + page;
        let now = now as u64;
        match now.checked_sub(self.counted) {
            Some(0) => return,
            Some(more) => metrics.run_data.add(more),
            None => metrics.run_data.sub(self.counted - now),
        }
        self.counted = now;
        if now > 0 && self.metrics.is_none() {
            self.metrics = Some(Arc::clone(metrics));
        }
    }

    fn drop_durable(&mut self) {
        let durable = self.durable;
        self.input.take_if(|_| durable > 0);
        self.outputs.retain(|_, made| made.by > durable);
        self.vars.retain(|_, vars| {
            let before = vars.known.len();
            vars.known.retain(|_, made| made.by > durable);
            vars.all &= vars.known.len() == before;
            vars.by > durable || !vars.known.is_empty()
        });
        self.items.retain(|_, items| {
            items.retain(|_, made| made.by > durable);
            !items.is_empty()
        });
        let outputs = self.outputs.values().map(|made| weight(&made.data));
        let items = self.items.values().flat_map(BTreeMap::values);
        let items = items.map(|made| weight(&made.data));
        let vars = self.vars.values().map(Vars::bytes);
        self.bytes = outputs.chain(items).chain(vars).sum();
        self.kept = self.bytes;
    }

    /// Drops the lists that the store has, but for one. A list that is held once is counted once.
    fn drop_lists(&mut self, but: Option<ExecutionNo>) {
        let durable = self.durable;
        self.lists
            .retain(|list, made| Some(*list) == but || made.by > durable);
        self.known.retain(|_, list| list.strong_count() > 0);
        let known = self.known.values().filter_map(Weak::upgrade);
        self.list_bytes = known.map(|list| list.bytes()).sum();
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.run_data.sub(self.counted);
            metrics.run_states.sub(self.state);
        }
    }
}

impl Vars {
    fn bytes(&self) -> usize {
        let known = self.known.values().map(|made| weight(&made.data));
        ENTRY_BYTES + known.sum::<usize>()
    }
}

/// The JSON text of a payload. Text that is not JSON becomes a JSON string.
pub(crate) fn json_of(store: &dyn Store, payload: &Payload) -> Result<Bytes, Unread> {
    let bytes = match &payload.body {
        Body::Inline(bytes) => bytes.clone(),
        Body::Blob(blob) if blob.size > EXPRESSION_BYTES => {
            return Err(Unread::Value(Failure::new(
                Class::Limit,
                codes::PAYLOAD_TOO_LARGE,
                format!(
                    "a payload of {} bytes is too large to be looked into: the bound is {EXPRESSION_BYTES}",
                    blob.size
                ),
            )));
        }
        Body::Blob(blob) => store.blob(*blob)?.unwrap_or_default(),
    };
    if payload.is_json() {
        return Ok(bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(serde_json::to_vec(&text).unwrap_or_default().into())
}
