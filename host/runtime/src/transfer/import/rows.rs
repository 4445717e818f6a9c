//! The events that a run waits for: its pending triggers, and its bookmarks.

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use windlass_engine::{Graph, RunState};
use windlass_model::limits::{BOOKMARKS, MATCH_BYTES};
use windlass_model::resumption::About;
use windlass_model::stimulus::{canonical, hash};
use windlass_model::{Resumption, Seq, TriggerNo, TriggerType, valid};
use windlass_store::rows::NewTrigger;
use windlass_store::stimuli::NewBookmark;
use windlass_store::transfer::TriggerName;

use super::{Desk, check_json};
use crate::catalog::Prepared;
use crate::error::Error;
use crate::links::Wait;
use crate::transfer::document::{Bookmark, Row, Trigger};
use crate::transfer::renumber::open;
use crate::transfer::write::waits_for_child;

impl Desk<'_> {
    pub(super) fn triggers(
        &mut self,
        triggers: Vec<Trigger>,
        prepared: &Prepared,
        next_seq: Seq,
    ) -> Result<(Vec<NewTrigger>, Vec<TriggerName>), Error> {
        let (mut new, mut names) = (Vec::new(), Vec::new());
        // A trigger may refer to a later one, so all of them get numbers first.
        for trigger in &triggers {
            let no = self.numbers.trigger().ok_or_else(Error::no_numbers)?;
            if self.rows.insert(trigger.no, no).is_some() {
                return Err(Error::bad_export("two triggers have the same number"));
            }
        }
        let mut seqs = FxHashSet::default();
        for trigger in triggers {
            let no = self.row(trigger.no)?;
            let external = trigger.row.as_ref().is_none_or(|row| row.seq.is_external());
            if let Some(name) = trigger.name {
                if !external {
                    return Err(Error::bad_export("a trigger of the engine has a name"));
                }
                names.push(TriggerName {
                    id: name.id,
                    trigger: no,
                    request: name.request,
                    closed: name.closed,
                });
            }
            let Some(row) = trigger.row else { continue };
            if !seqs.insert(row.seq) {
                return Err(Error::bad_export(
                    "two triggers have the same sequence number",
                ));
            }
            new.push(if external {
                self.given(trigger.no, no, row)?
            } else if row.seq >= next_seq {
                return Err(Error::bad_export("a trigger is newer than its run"));
            } else {
                self.made(no, row, prepared)?
            });
        }
        Ok((new, names))
    }

    fn row(&self, no: TriggerNo) -> Result<TriggerNo, Error> {
        let row = self.rows.get(&no).copied();
        row.ok_or_else(|| Error::bad_export("it names a trigger that is not there"))
    }

    fn made(&self, no: TriggerNo, row: Row, prepared: &Prepared) -> Result<NewTrigger, Error> {
        let payload = row.payload.as_ref().map(|payload| &payload.0);
        if waits_for_child(row.kind, payload) {
            return Err(Error::bad_export(
                "it waits for a child, which does not come with it",
            ));
        }
        if row.kind.is_control() || row.node.is_none() && row.kind != TriggerType::Timer {
            return Err(Error::bad_export(
                "a trigger is of no type that the engine makes",
            ));
        }
        if let Some(payload) = payload {
            self.check_resumption(payload)?;
        }
        let of = (row.seq, row.node, row.kind, row.attempt, row.due_ms);
        let mut detail = row.detail.0.clone();
        if let Some(mut open) = open(&prepared.graph, of, &detail).map_err(Error::bad_export)? {
            let mut to = |no| self.executions.get(&no).copied();
            open.renumber(&mut to).map_err(Error::bad_export)?;
            for payload in open.left.iter().chain(&open.input) {
                self.check_payload(payload)?;
            }
            detail = open.encode_detail().into();
        }
        let seq = row.seq;
        Ok(new_trigger(no, seq, row, detail))
    }

    fn given(&self, old: TriggerNo, no: TriggerNo, row: Row) -> Result<NewTrigger, Error> {
        if row.seq != Seq::external(old) {
            return Err(Error::bad_export("an external trigger has another number"));
        }
        let mut detail = row.detail.0.clone();
        if matches!(row.kind, TriggerType::Resume | TriggerType::Alter) {
            let about = About::decode(&detail).map_err(Error::bad_export)?;
            if let About::Cancel { target } = about
                && let Some(target) = target.external_no()
            {
                let target = self.rows.get(&target).copied().unwrap_or(target);
                let target = Seq::external(target);
                detail = About::Cancel { target }.encode();
            }
        }
        if let (TriggerType::Resume, Some(payload)) = (row.kind, &row.payload) {
            self.check_resumption(&payload.0)?;
        }
        Ok(new_trigger(no, Seq::external(no), row, detail))
    }

    fn check_resumption(&self, document: &[u8]) -> Result<(), Error> {
        match Resumption::decode(document).map_err(Error::bad_export)? {
            Resumption::Resumed { input, .. } => self.check_payload(&input),
            Resumption::Child { output, .. } => output
                .iter()
                .try_for_each(|output| self.check_payload(output)),
        }
    }

    pub(super) fn bookmarks(
        &self,
        bookmarks: Vec<Bookmark>,
        graph: &Graph,
        state: &RunState,
    ) -> Result<Vec<NewBookmark>, Error> {
        let mut groups: FxHashMap<Seq, usize> = FxHashMap::default();
        let mut new = Vec::with_capacity(bookmarks.len());
        for of in bookmarks {
            let group = groups.entry(of.first).or_default();
            *group += 1;
            valid::BOOKMARK.check(&of.name).map_err(Error::bad_export)?;
            let correlation = of.correlation.as_deref();
            valid::CORRELATION
                .check_optional(correlation)
                .map_err(Error::bad_export)?;
            if *group > BOOKMARKS || of.matches.len() > MATCH_BYTES {
                return Err(Error::bad_export("a bookmark is out of bounds"));
            }
            let value = serde_json::from_str(&of.matches).map_err(Error::bad_export)?;
            let matches = canonical(&value);
            if matches != of.matches.as_bytes() {
                return Err(Error::bad_export(
                    "the `match` of a bookmark is not canonical JSON",
                ));
            }
            if let Some(metadata) = &of.metadata {
                check_json("the payload of a bookmark", metadata.as_bytes())?;
            }
            let (first, phase) = (of.first, of.phase);
            let private = of.private.then_some((self.id, first));
            let wait = Wait::of_run(self.id, graph, state, first, phase);
            let token = wait.bookmark(*group - 1, &of.name);
            new.push(NewBookmark {
                first,
                trigger: self.row(of.trigger)?,
                phase,
                hash: hash(&of.name, &matches, private),
                name: of.name,
                matches: matches.into(),
                correlation: of.correlation,
                private: of.private,
                auto_burn: of.auto_burn,
                metadata: of.metadata.map(Bytes::from),
                token,
                expires_ms: of.expires_ms,
                created_ms: of.created_ms,
            });
        }
        Ok(new)
    }
}

fn new_trigger(no: TriggerNo, seq: Seq, row: Row, detail: Bytes) -> NewTrigger {
    NewTrigger {
        no,
        seq,
        kind: row.kind,
        node: row.node,
        due_ms: row.due_ms,
        claimed: false,
        attempt: row.attempt.max(1),
        detail,
        payload: row.payload.map(|payload| payload.0),
        priority: row.priority,
    }
}
