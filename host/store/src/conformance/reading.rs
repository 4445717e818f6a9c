//! Readers, and notifications of other processes.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use uuid::Uuid;
use windlass_model::limits::{COMPONENT_BYTES, SETTING_BYTES};
use windlass_model::{BlobRef, Digest, ExecutionNo, Payload, RunId, RunNo, ScopeNo};

use super::Harness;
use super::world::{DONE, Member};
use crate::components::{NewComponent, SIGNATURE_BYTES, SweepComponents};
use crate::external::DuePlace;
use crate::rows::JournalRow;
use crate::settings::Setting;
use crate::write::Flush;
use crate::{News, Writer as _, codes, passing, rows, within};

pub(super) fn runs_are_walked_back(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (mut held, mut other) = (member.born(), member.born());
    let (no, mut last) = (held.fence.run, None);
    let mut written = Vec::new();
    for seq in 2..8 {
        let mut step = member.chained(&held, seq);
        step.executions[0].previous = last;
        last = Some(step.executions[0].no);
        written.push(step.executions[0].clone());
        assert_eq!(member.commit(step), DONE);
        assert_eq!(member.commit(member.chained(&other, seq)), DONE);
        (held, other) = (held.next(), other.next());
    }
    written.reverse();
    let runs = |before, limit| member.store.executions(no, before, limit).unwrap();
    assert_eq!(runs(None, 100), written);
    assert_eq!(runs(None, 2), written[..2]);
    assert_eq!(runs(Some(written[1].no), 3), written[2..5]);
    assert_eq!(runs(Some(written[5].no), 3), []);
    let foreign = member.head(other.fence.run).last_execution;
    assert_eq!(runs(foreign, 3), []);
}

pub(super) fn a_decision_is_kept_until_it_is_changed(harness: &dyn Harness) {
    let member = Member::join(harness);
    let other = harness.open();
    let set = |name: &str, value: Option<&'static str>| {
        let (name, value) = (name.to_owned(), value.map(bytes::Bytes::from));
        member.write(Setting { name, value });
    };
    let get = |name: &str| other.setting(name).unwrap();
    assert_eq!(get("pause"), None);
    set("pause", Some("one"));
    set("other", Some("two"));
    assert_eq!(get("pause").as_deref(), Some(&b"one"[..]));
    set("pause", Some("three"));
    assert_eq!(get("pause").as_deref(), Some(&b"three"[..]));
    set("pause", None);
    set("pause", None);
    assert_eq!(get("pause"), None);
    assert_eq!(get("other").as_deref(), Some(&b"two"[..]));
    let value = Some(vec![0; SETTING_BYTES + 1].into());
    let name = "other".to_owned();
    let refused = member.store.write(Setting { name, value });
    assert_eq!(refused.unwrap_err().code, codes::CONTRADICTION);
    assert_eq!(get("other").as_deref(), Some(&b"two"[..]));
}

pub(super) fn a_component_is_found_by_its_digest_wherever_it_came_from(harness: &dyn Harness) {
    let member = Member::join(harness);
    let other = harness.open();
    let component = |text: &'static str| NewComponent {
        digest: Digest::of(text.as_bytes()),
        name: "a/b".to_owned(),
        version: "1.0.0".to_owned(),
        bytes: text.into(),
        signature: None,
        vouched: false,
    };
    let keep = |new| member.store.write(new);
    let (one, two) = (component("one"), component("two"));
    assert_eq!(other.component(one.digest).unwrap(), None);
    for new in [&one, &two, &one] {
        keep(new.clone()).unwrap();
    }
    let stored = |digest| other.component(digest).unwrap().unwrap();
    assert_eq!(stored(two.digest).bytes, two.bytes);
    let rows = other.components(0, 10).unwrap();
    let digests: Vec<Digest> = rows.iter().map(|row| row.digest).collect();
    assert_eq!(digests, [one.digest, two.digest]);
    assert_eq!(rows[0].name, "a/b");
    for row in &rows {
        assert_eq!(other.component_row(row.digest).unwrap().as_ref(), Some(row));
    }
    assert_eq!(other.component_row(Digest::of(b"none")).unwrap(), None);
    assert_eq!(other.components(rows[0].generation, 10).unwrap(), rows[1..]);
    assert_eq!(other.components(0, 1).unwrap(), rows[..1]);
    assert_eq!(other.components(rows[1].generation, 10).unwrap(), []);
    // The first signature is kept until a process that trusts its key writes another one.
    let mark = |text: &str| Some(Digest::of(text.as_bytes()));
    assert_eq!(
        (stored(one.digest).signature, rows[0].signature),
        (None, None)
    );
    let signed = |new: &NewComponent, signature: &str| NewComponent {
        signature: Some(signature.to_owned()),
        ..new.clone()
    };
    for signature in ["first", "second"] {
        keep(signed(&one, signature)).unwrap();
    }
    assert_eq!(stored(one.digest).signature.as_deref(), Some("first"));
    let vouched = |new: NewComponent| NewComponent {
        vouched: true,
        ..new
    };
    for signature in ["trusted", "rotated"] {
        let new = vouched(signed(&one, signature));
        keep(new).unwrap();
        assert_eq!(stored(one.digest).signature.as_deref(), Some(signature));
        let rows = other.components(0, 1).unwrap();
        assert_eq!(rows[0].signature, mark(signature), "others see the change");
    }
    for new in [signed(&one, "junk"), vouched(one.clone())] {
        keep(new).unwrap();
        assert_eq!(stored(one.digest).signature.as_deref(), Some("rotated"));
    }
    let three = signed(&component("three"), "third");
    keep(three.clone()).unwrap();
    assert_eq!(stored(three.digest).signature, three.signature);
    let rows = other.components(0, 10).unwrap();
    let marks: Vec<_> = rows.iter().map(|row| row.signature).collect();
    assert_eq!(marks, [mark("rotated"), None, mark("third")]);
    let long = signed(&component("long"), &"s".repeat(SIGNATURE_BYTES + 1));
    assert_eq!(keep(long).unwrap_err().code, codes::CONTRADICTION);
    let large = NewComponent {
        bytes: vec![0; COMPONENT_BYTES + 1].into(),
        ..component("large")
    };
    assert_eq!(keep(large).unwrap_err().code, codes::CONTRADICTION);
}

pub(super) fn an_unused_component_is_forgotten(harness: &dyn Harness) {
    let member = Member::join(harness);
    let keep = |text: &'static str| {
        let new = NewComponent {
            digest: Digest::of(text.as_bytes()),
            name: text.to_owned(),
            version: "1.0.0".to_owned(),
            bytes: text.into(),
            signature: None,
            vouched: false,
        };
        member.write(new);
    };
    let sweep = |used: &[&str], before_ms: i64, at_ms: i64| {
        let used = used.iter().map(|text| Digest::of(text.as_bytes()));
        let swept = member.write(SweepComponents {
            used: used.collect(),
            before_ms,
            at_ms,
        });
        assert!(!swept.more);
        let rows = member.store.components(0, 10).unwrap();
        let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
        names.join(" ")
    };
    for text in ["named", "unused", "pinned", "new"] {
        keep(text);
    }
    let mut run = member.draft(1);
    let json = format!("{{\"uses\":{{\"a\":\"{}\"}}}}", Digest::of(b"pinned"));
    run.pins = Arc::new(rows::PinsRow {
        digest: Digest::of(json.as_bytes()),
        json: json.into(),
    });
    member.create(run);
    // The first sweep records when each component was used.
    assert_eq!(sweep(&[], 1_000, 1_000), "named unused pinned new");
    assert_eq!(sweep(&["named"], 1_000, 2_000), "named unused pinned new");
    assert_eq!(sweep(&["gone"], 2_000, 3_000), "named pinned new");
    assert_eq!(sweep(&[], 2_001, 4_000), "pinned new");
    // The newest component stays because of its generation, until there is a newer one.
    assert_eq!(sweep(&[], 9_000, 9_000), "pinned new");
    let last = member.store.components(0, 10).unwrap()[1].generation;
    keep("newer");
    assert_eq!(member.store.components(last, 10).unwrap()[0].name, "newer");
    assert_eq!(sweep(&[], 9_001, 9_002), "pinned newer");
}

pub(super) fn waiting_work_is_counted(harness: &dyn Harness) {
    let member = Member::join(harness);
    let backlog = |limit| {
        let found = member.store.backlog(1_000, limit).unwrap();
        (found.due, found.pending, found.dead)
    };
    assert_eq!(backlog(10), (0, 0, 0));
    for (place, priority) in [3, -2, 0, 0, 7].into_iter().enumerate() {
        let mut new = member.draft(1);
        // The last trigger is not due yet.
        new.triggers[0].due_ms = if place == 4 { 1_001 } else { 1_000 };
        new.triggers[0].priority = priority;
        member.create(new);
    }
    assert_eq!(backlog(10), (4, 1, 0));
    assert_eq!(backlog(3), (3, 0, 0));
    let claims = member.claim(1_000, 10, 10);
    assert_eq!(claims.runs.len(), 4);
    assert_eq!(backlog(10), (0, 1, 0));
}

pub(super) fn runs_are_found_by_prefix(harness: &dyn Harness) {
    let member = Member::join(harness);
    let ids = [
        "11111111-2222-4333-8444-555555555555",
        "11111111-2229-4333-8444-555555555555",
        "21111111-2222-4333-8444-555555555555",
    ];
    for id in ids {
        let mut new = member.draft(1);
        new.id = RunId(Uuid::parse_str(id).unwrap());
        member.create(new);
    }
    let check = |prefix: &str, limit: u32, found: &[usize]| {
        let rows = member.store.runs_by_prefix(prefix, limit).unwrap();
        let rows: Vec<_> = rows.iter().map(|row| row.id.to_string()).collect();
        assert_eq!(
            rows,
            found.iter().map(|place| ids[*place]).collect::<Vec<_>>(),
            "{prefix}"
        );
    };
    check("", 10, &[0, 1, 2]);
    check("1", 10, &[0, 1]);
    check("1", 1, &[0]);
    check("11111111-222", 10, &[0, 1]);
    check("111111112229", 10, &[1]);
    check(ids[2], 10, &[2]);
    check(&ids[2].to_uppercase(), 10, &[2]);
    check("3", 10, &[]);
    check("no digits", 10, &[]);
    check(&"1".repeat(40), 10, &[]);
}

pub(super) fn a_missing_row_is_none(harness: &dyn Harness) {
    let store = harness.open();
    let no = RunNo(5);
    let digest = Digest::of(b"nothing");
    assert_eq!(store.run(RunId(Uuid::from_u128(5))).unwrap(), None);
    assert_eq!(store.run_by_no(no).unwrap(), None);
    assert_eq!(store.input(no).unwrap(), None);
    assert_eq!(store.output(no).unwrap(), None);
    assert_eq!(store.vars(no, ScopeNo::ROOT).unwrap(), []);
    assert_eq!(store.execution(ExecutionNo(5)).unwrap(), None);
    assert_eq!(store.execution_output(ExecutionNo(5)).unwrap(), None);
    assert_eq!(store.executions(no, None, 5).unwrap(), []);
    assert_eq!(store.journal(no).unwrap(), []);
    assert_eq!(store.triggers(no).unwrap(), []);
    assert_eq!(store.definition(digest).unwrap(), None);
    assert_eq!(store.pins(digest).unwrap(), None);
    assert_eq!(store.blob(BlobRef { digest, size: 7 }).unwrap(), None);
    assert_eq!(
        store.blob_part(BlobRef { digest, size: 7 }, 0, 7).unwrap(),
        None
    );
    assert_eq!(store.members().unwrap(), Vec::<rows::MemberRow>::new());
    assert_eq!(store.counts().unwrap(), crate::read::Counts::default());
}

pub(super) fn a_notification_reaches_the_others(harness: &dyn Harness) {
    let (one, other) = (harness.open(), harness.open());
    let (sender, woken) = channel();
    let own = sender.clone();
    let listening = other
        .listen(Box::new(move |_| sender.send("other").unwrap_or_default()))
        .unwrap();
    let _own = one
        .listen(Box::new(move |_| own.send("own").unwrap_or_default()))
        .unwrap();
    for _ in 0..3 {
        one.notify();
        // Every wait is shorter than this unless the wake-up is lost.
        assert_eq!(woken.recv_timeout(Duration::from_secs(20)), Ok("other"));
    }
    drop(listening);
    other.notify();
    while woken.recv_timeout(Duration::from_secs(20)) != Ok("own") {}
}

pub(super) fn changed_runs_are_told_to_those_that_attend(harness: &dyn Harness) {
    let (one, other) = (harness.open(), harness.open());
    let (sender, heard) = channel();
    let own = sender.clone();
    let long = Duration::from_secs(20);
    let _listening = other
        .listen(Box::new(move |news| {
            // A backend may leave the numbers out.
            let told = match news {
                News::Runs(runs) => runs.contains(&RunNo(7)) && runs.contains(&RunNo(-8)),
                News::SomeRuns => true,
                News::Work => return sender.send("work").unwrap_or_default(),
            };
            let told = if told { "runs" } else { "other runs" };
            sender.send(told).unwrap_or_default();
        }))
        .unwrap();
    let _own = one
        .listen(Box::new(move |_| own.send("own").unwrap_or_default()))
        .unwrap();
    let runs = [RunNo(7), RunNo(-8)];
    // No process attends: the next news is of the work.
    one.changed(&runs);
    one.notify();
    assert_eq!(heard.recv_timeout(long), Ok("work"));
    other.attend();
    // Another process learns of the attention a little later.
    let told = std::iter::repeat_with(|| {
        one.changed(&runs);
        heard.recv_timeout(Duration::from_millis(50))
    });
    let told = told.take(400).find_map(std::result::Result::ok);
    assert_eq!(told, Some("runs"));
    // As many as no single message carries.
    let many: Vec<RunNo> = (0..100_000).map(RunNo).chain(runs).collect();
    one.changed(&many);
    assert_eq!(heard.recv_timeout(long), Ok("runs"));
}

pub(super) fn the_closed_refuse(harness: &dyn Harness) {
    let member = Member::join(harness);
    member.store.close();
    let error = member.store.write(Flush).unwrap_err();
    assert_eq!(error.code, codes::CLOSED);
    member.store.close();
    let again: Arc<dyn crate::Store> = harness.open();
    assert_eq!(again.members().unwrap().len(), 1);
}

pub(super) fn large_runs_are_read_in_pages(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let mut step = member.step(&held);
    let var = |n: u32| {
        let value = Payload::json(format!("\"{n}{}\"", "x".repeat(1000)));
        (ScopeNo::ROOT, format!("v{n}"), value)
    };
    step.vars = (0..9).map(var).collect();
    step.journal = (0..9)
        .map(|n| JournalRow {
            at_ms: n,
            kind: "incident".into(),
            detail: "{}".into(),
        })
        .collect();
    let event = |n: u8| JournalRow::event(8, &[n]);
    for n in 0..9 {
        step.journal.insert(2 * usize::from(n), event(n));
    }
    step.triggers = (2..11).map(|seq| member.trigger(seq)).collect();
    for (row, due_ms) in step.triggers.iter_mut().zip([7, 3, 5, 3, 9, 1, 7, 2, 4]) {
        row.due_ms = due_ms;
    }
    assert_eq!(member.commit(step), DONE);
    let (no, store) = (held.fence.run, &member.store);
    let vars = |after, limit| store.vars_after(no, ScopeNo::ROOT, after, limit).unwrap();
    let all = store.vars(no, ScopeNo::ROOT).unwrap();
    assert_eq!(vars(None, 100), all);
    assert_eq!(vars(None, 2), all[..2]);
    assert!(all.len() >= 9);
    assert_eq!(vars(Some(&all[1].0), 3), all[2..5]);
    assert_eq!(vars(Some("v8"), 3), []);
    let count = all.len();
    let journal = |skip, limit| store.journal_after(no, skip, limit).unwrap();
    let all = store.journal(no).unwrap();
    assert!(all.len() >= 9);
    assert_eq!(journal(0, 100), all);
    assert_eq!(journal(2, 3), all[2..5]);
    assert_eq!(journal(100, 3), []);
    let events = |skip, limit| store.events(no, skip, limit).unwrap();
    let all = events(0, 100);
    assert_eq!(all[all.len() - 9..], (0..9).map(event).collect::<Vec<_>>());
    assert_eq!(events(2, 3), all[2..5]);
    assert_eq!(events(100, 3), []);
    let triggers = |after, limit| store.triggers_after(no, after, limit).unwrap();
    let mut all = store.triggers(no).unwrap();
    all.sort_by_key(|row| (row.due_ms, row.no));
    assert_eq!(all.len(), 9);
    assert_eq!(triggers(None, 100), all);
    let after = Some(DuePlace::from(&all[1]));
    assert_eq!(triggers(after, 3), all[2..5]);

    let read = |bytes| within(bytes, || store.vars(no, ScopeNo::ROOT));
    assert_eq!(read(20_000).unwrap().len(), count);
    if harness.is_memory() {
        return;
    }
    assert!(read(5_000).unwrap_err().exceeds_allowance());
    // Reads add up, failed ones do not count, and neither do those whose rows are dropped.
    let twice = within(15_000, || read(20_000).and_then(|_| read(20_000)));
    assert!(twice.unwrap_err().exceeds_allowance());
    let again = within(15_000, || read(5_000).or_else(|_| read(20_000)));
    assert_eq!(again.unwrap().len(), count);
    let read = || passing(20_000, || store.vars(no, ScopeNo::ROOT));
    let passed = within(15_000, || read().and_then(|_| read()));
    assert_eq!(passed.unwrap().len(), count);
    assert_eq!(store.vars(no, ScopeNo::ROOT).unwrap().len(), count);
}
