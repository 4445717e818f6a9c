//! Published definitions, schedules, reservations and duties in memory.

use std::cmp::Reverse;

use windlass_model::{BindingNo, Digest, RunId, RunNo, ScheduleNo, failpoint};

use super::data::Data;
use crate::drafts::SourceRow;
use crate::error::Result;
use crate::published::{
    BindingRow, NewPublication, NewSchedule, Overlap, PauseSchedule, Plan, Planned,
    PublicationQuery, PublicationRow, Published, PutOff, Retract, ScheduleQuery, ScheduleRow,
    StartSchedule, StartedNow, UnpauseSchedule, has_moved,
};
use crate::retention::is_given;
use crate::rows::{Created, NewRun, cancellation};
use crate::write::{Duty, Fenced, OrFenced};

impl Data {
    pub(super) fn publish(&mut self, new: &NewPublication) -> Result<OrFenced<Published>> {
        new.check()?;
        let definition = &new.definition;
        let name = &definition.name;
        let current = self.published(name);
        let moved = has_moved(new.only, current.as_ref().map(|row| row.version));
        if moved || !self.take_draft(name, new.draft) {
            return Ok(Err(Fenced));
        }
        self.keep_definition(definition);
        let unchanged = current.filter(|current| current.definition == definition.digest);
        let (version, unchanged) = match unchanged {
            Some(current) => (current.version, true),
            None => {
                self.retire(name, new.at_ms);
                failpoint::pass("publish");
                let version = self.publications.keys().filter(|(of, _)| of == name);
                let version = 1 + version.map(|(_, version)| *version).max().unwrap_or(0);
                let row = PublicationRow {
                    name: name.clone(),
                    version,
                    definition: definition.digest,
                    published_ms: new.at_ms,
                    retracted_ms: None,
                };
                self.publications.insert((name.clone(), version), row);
                (version, false)
            }
        };
        if let Some(text) = &new.text {
            self.texts.insert((name.clone(), version), text.clone());
        }
        self.index(new);
        self.schedule_all(new);
        if let Some(source) = &new.source {
            let row = SourceRow {
                name: source.clone(),
                workflow: name.clone(),
                version,
                definition: definition.digest,
            };
            self.sources.insert(source.clone(), row);
        }
        Ok(Ok(Published { version, unchanged }))
    }

    pub(super) fn retract(&mut self, retract: &Retract) -> OrFenced<Option<u32>> {
        let name = &retract.name;
        let version = self.published(name).map(|current| current.version);
        if has_moved(retract.only, version) {
            return Err(Fenced);
        }
        if version.is_some() {
            self.take_back(name, retract.at_ms);
        }
        Ok(version)
    }

    /// Retracts the published version of a workflow.
    pub(super) fn take_back(&mut self, name: &str, at_ms: i64) {
        self.retire(name, at_ms);
        self.bindings.retain(|_, (of, _)| of != name);
        self.schedules.retain(|_, row| row.workflow != name);
    }

    pub(super) fn published(&self, name: &str) -> Option<PublicationRow> {
        let mut rows = self.publications.values();
        rows.find(|row| row.name == name && row.retracted_ms.is_none())
            .cloned()
    }

    pub(super) fn published_as(&self, definition: Digest, at_ms: i64) -> Option<PublicationRow> {
        let rows = self.publications.values();
        let rows = rows.filter(|row| row.definition == definition);
        let (before, after): (Vec<_>, Vec<_>) = rows.partition(|row| row.published_ms <= at_ms);
        let last = before
            .into_iter()
            .max_by_key(|row| (row.published_ms, row.version));
        let first = || {
            after
                .into_iter()
                .min_by_key(|row| (row.published_ms, Reverse(row.version)))
        };
        last.or_else(first).cloned()
    }

    pub(super) fn publications(&self, query: &PublicationQuery) -> Vec<PublicationRow> {
        let mut rows: Vec<_> = self
            .publications
            .values()
            .filter(|row| query.name.as_ref().is_none_or(|name| row.name == *name))
            .filter(|row| query.after.as_ref().is_none_or(|after| row.name > *after))
            .filter(|row| query.retracted || row.retracted_ms.is_none())
            .cloned()
            .collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name).then(b.version.cmp(&a.version)));
        rows.truncate(query.limit as usize);
        rows
    }

    /// The matching rows of the trigger index, by number.
    pub(super) fn bindings_where(&self, wanted: impl Fn(&BindingRow) -> bool) -> Vec<BindingRow> {
        let rows = self
            .bindings
            .iter()
            .filter_map(|(no, (workflow, binding))| {
                let current = self.published(workflow)?;
                Some(BindingRow {
                    no: *no,
                    workflow: workflow.clone(),
                    version: current.version,
                    definition: current.definition,
                    binding: binding.clone(),
                })
            });
        rows.filter(wanted).collect()
    }

    pub(super) fn schedules(&self, query: &ScheduleQuery) -> Vec<ScheduleRow> {
        let mut rows: Vec<_> = self
            .schedules
            .values()
            .filter(|row| row.next_ms <= query.until_ms)
            .filter(|row| query.troubled.is_none_or(|of| of == (row.troubles > 0)))
            .filter(|row| query.workflow.as_ref().is_none_or(|of| row.workflow == *of))
            .filter(|row| query.key.as_ref().is_none_or(|of| row.key == *of))
            .filter(|row| query.after.is_none_or(|of| (row.next_ms, row.no) > of))
            .cloned()
            .collect();
        rows.sort_by_key(|row| (row.next_ms, row.no));
        rows.truncate(query.limit as usize);
        rows
    }

    fn retire(&mut self, name: &str, at_ms: i64) {
        self.edition += 1;
        let rows = self.publications.values_mut();
        let current = rows.filter(|row| row.name == name && row.retracted_ms.is_none());
        current.for_each(|row| row.retracted_ms = Some(at_ms));
    }

    fn index(&mut self, new: &NewPublication) {
        let name = &new.definition.name;
        let before = self.bindings.len();
        self.bindings
            .retain(|_, (of, row)| of != name || new.bindings.contains(row));
        self.edition += u64::from(self.bindings.len() < before);
        for binding in &new.bindings {
            let mut known = self.bindings.values();
            if known.any(|(of, row)| of == name && row == binding) {
                continue;
            }
            self.edition += 1;
            self.last_binding += 1;
            let no = BindingNo(self.last_binding);
            self.bindings.insert(no, (name.clone(), binding.clone()));
        }
    }

    fn schedule_all(&mut self, new: &NewPublication) {
        let name = &new.definition.name;
        let wanted = |row: &ScheduleRow| new.schedules.iter().any(|s| s.key == row.key);
        self.schedules
            .retain(|_, row| row.workflow != *name || wanted(row));
        for row in self.schedules.values_mut() {
            if row.workflow == *name {
                row.definition = new.definition.digest;
            }
        }
        for schedule in &new.schedules {
            self.put_schedule(name, schedule, new);
        }
    }

    fn put_schedule(&mut self, workflow: &str, new: &NewSchedule, publication: &NewPublication) {
        let mut rows = self.schedules.values_mut();
        let known = rows.find(|row| row.workflow == workflow && row.key == new.key);
        if let Some(row) = known {
            let before_ms = row.next_ms;
            if row.spec != new.spec {
                row.spec = new.spec.clone();
                row.since_ms = publication.at_ms;
                row.next_ms = new.next_ms;
            } else if row.troubles > 0 {
                // The new version may have fixed the schedule.
                row.next_ms = publication.at_ms;
            }
            if row.paused_ms.is_some() {
                row.next_ms = before_ms;
            }
            row.troubles = 0;
            return;
        }
        self.last_schedule += 1;
        let row = ScheduleRow {
            no: ScheduleNo(self.last_schedule),
            workflow: workflow.to_owned(),
            definition: publication.definition.digest,
            key: new.key.clone(),
            spec: new.spec.clone(),
            since_ms: publication.at_ms,
            next_ms: new.next_ms,
            last_planned_ms: None,
            last_run: None,
            troubles: 0,
            paused_ms: None,
        };
        self.schedules.insert(row.no, row);
    }

    pub(super) fn plan(&mut self, plan: &Plan) -> Result<OrFenced<Planned>> {
        let row = self.schedules.get(&plan.schedule);
        let row = row.filter(|row| row.last_planned_ms == plan.expected_last_planned_ms);
        let row = row.filter(|row| row.paused_ms.is_none());
        let Some(last) = row.map(|row| row.last_run) else {
            return Ok(Ok(Planned::Stale));
        };
        let Some(new) = &plan.create else {
            self.move_on(plan, None);
            return Ok(Ok(Planned::Skipped));
        };
        let before = last.and_then(|id| self.unfinished(id));
        if before.is_some() && plan.overlap == Overlap::Skip {
            self.move_on(plan, None);
            return Ok(Ok(Planned::Skipped));
        }
        if before.is_some() && plan.overlap == Overlap::Queue {
            if let Some(row) = self.schedules.get_mut(&plan.schedule) {
                row.next_ms = plan.again_ms;
                row.troubles = 0;
            }
            return Ok(Ok(Planned::Queued));
        }
        match self.create(new)? {
            Ok(Created::New | Created::Exists(_) | Created::Deleted | Created::Moved) => {}
            Ok(Created::Reserved { .. }) => {
                self.move_on(plan, None);
                return Ok(Ok(Planned::Skipped));
            }
            Err(Fenced) => return Ok(Err(Fenced)),
        }
        self.move_on(plan, Some(new.id));
        if let (Some(no), Overlap::CancelPrevious(trigger)) = (before, plan.overlap)
            && last != Some(new.id)
        {
            self.insert_trigger(no, &cancellation(trigger, plan.at_ms), false);
        }
        Ok(Ok(Planned::Created(new.id)))
    }

    fn move_on(&mut self, plan: &Plan, made: Option<RunId>) {
        if let Some(row) = self.schedules.get_mut(&plan.schedule) {
            row.last_planned_ms = Some(plan.planned_ms);
            row.next_ms = plan.next_ms;
            row.last_run = made.or(row.last_run);
            if plan.create.is_some() {
                // A skipped occurrence does not tell whether the next one can be planned.
                row.troubles = 0;
            }
        }
    }

    pub(super) fn put_off(&mut self, put_off: &PutOff) -> Planned {
        let row = self.schedules.get_mut(&put_off.schedule);
        let row = row.filter(|row| row.last_planned_ms == put_off.expected_last_planned_ms);
        let row = row.filter(|row| row.paused_ms.is_none());
        let Some(row) = row else {
            return Planned::Stale;
        };
        row.next_ms = put_off.again_ms;
        row.troubles = row.troubles.saturating_add(1);
        Planned::Queued
    }

    pub(super) fn pause_schedule(&mut self, pause: &PauseSchedule) -> bool {
        let row = self.schedules.get_mut(&pause.schedule);
        let Some(row) = row.filter(|row| row.paused_ms.is_none()) else {
            return false;
        };
        row.paused_ms = Some(pause.at_ms);
        row.next_ms = i64::MAX;
        row.troubles = 0;
        true
    }

    pub(super) fn unpause_schedule(&mut self, unpause: &UnpauseSchedule) -> bool {
        let row = self.schedules.get_mut(&unpause.schedule);
        let row = row.filter(|row| row.since_ms == unpause.expected_since_ms);
        let Some(row) = row.filter(|row| row.paused_ms.is_some()) else {
            return false;
        };
        row.paused_ms = None;
        row.next_ms = unpause.next_ms;
        row.last_planned_ms = unpause.planned_ms.or(row.last_planned_ms);
        true
    }

    pub(super) fn start_schedule(&mut self, start: &StartSchedule) -> Result<OrFenced<StartedNow>> {
        let Some(row) = self.schedules.get(&start.schedule) else {
            return Ok(Ok(StartedNow::Gone));
        };
        let id = start.create.id;
        let last = row.last_run.filter(|last| *last != id);
        let before = last.and_then(|last| Some((last, self.unfinished(last)?)));
        if let (Some((last, _)), Overlap::Skip | Overlap::Queue) = (before, start.overlap) {
            return Ok(Ok(StartedNow::Busy(last)));
        }
        let created = match self.create(&start.create)? {
            Ok(created) => created,
            Err(Fenced) => return Ok(Err(Fenced)),
        };
        if created == Created::New {
            if let Some(row) = self.schedules.get_mut(&start.schedule) {
                row.last_run = Some(id);
            }
            if let (Some((_, before)), Overlap::CancelPrevious(trigger)) = (before, start.overlap) {
                self.insert_trigger(before, &cancellation(trigger, start.at_ms), false);
            }
        }
        Ok(Ok(StartedNow::Created(created)))
    }

    /// Makes schedules in trouble due at once.
    pub(super) fn retry_schedules(&mut self) {
        for row in self.schedules.values_mut().filter(|row| row.troubles > 0) {
            row.next_ms = row.last_planned_ms.unwrap_or(row.since_ms);
        }
    }

    fn unfinished(&self, id: RunId) -> Option<RunNo> {
        let no = self.ids.get(&id)?;
        let run = self.runs.get(no)?;
        (!run.row.status.is_final()).then_some(*no)
    }

    /// A run that reserves a key which the new run needs exclusively.
    pub(super) fn excluded_by(&self, new: &NewRun) -> Option<RunId> {
        self.reserved_by(new.exclusive.as_ref()?)
    }

    /// The first run that reserves the key.
    pub(super) fn reserved_by(&self, key: &str) -> Option<RunId> {
        let key = key.to_owned();
        let first = (key.clone(), RunNo(i64::MIN))..=(key, RunNo(i64::MAX));
        let (_, no) = self.reservations.range(first).next()?;
        Some(self.runs.get(no)?.row.id)
    }

    pub(super) fn duty(&mut self, duty: &Duty) -> bool {
        let (incarnation, at_ms) = (duty.incarnation, duty.at_ms);
        let last = self.duties.get(&duty.name).copied();
        let last = last.map(|(holder, at_ms)| (holder, at_ms, self.members.contains_key(&holder)));
        let given = is_given(duty, last);
        let mine = given && self.members.contains_key(&incarnation);
        if mine {
            self.duties.insert(duty.name.clone(), (incarnation, at_ms));
        }
        mine
    }
}
