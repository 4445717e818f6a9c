//! Published versions, and the index of their triggers.

use std::sync::Arc;

use bytes::Bytes;
use windlass_model::limits::WORKFLOW_BYTES;
use windlass_model::{BindingNo, Digest, ScheduleNo};

use super::Harness;
use super::world::{DONE, Held, Member, definition};
use crate::published::{
    Edition, NewBinding, NewPublication, NewSchedule, PublicationQuery, PublicationRow, Published,
    Retract, ScheduleQuery, ScheduleRow,
};
use crate::rows::{Created, DefinitionRow, NewRun};
use crate::write::Fenced;
use crate::{Store, Writer as _, codes};

/// A version of the workflow `orders`, identified by its text.
pub(super) fn version(text: &str) -> Arc<DefinitionRow> {
    Arc::new(DefinitionRow {
        name: "orders".into(),
        ..(*definition(text)).clone()
    })
}

pub(super) fn binding(key: &str, stimulus: &str) -> NewBinding {
    NewBinding {
        key: key.into(),
        name: stimulus.into(),
        hash: Digest::of(stimulus.as_bytes()),
        matches: Bytes::from_static(b"{}"),
        node: Some(1),
    }
}

pub(super) fn schedule(key: &str, spec: &'static str) -> NewSchedule {
    NewSchedule {
        key: key.into(),
        spec: Bytes::from_static(spec.as_bytes()),
        next_ms: 100,
    }
}

pub(crate) fn draft(text: &str) -> NewPublication {
    NewPublication {
        definition: version(text),
        bindings: vec![binding("a", "paid"), binding("b", "sent")],
        schedules: vec![
            schedule("daily", "0 0 * * *"),
            schedule("hourly", "0 * * * *"),
        ],
        only: None,
        draft: None,
        source: None,
        text: None,
        at_ms: 50,
    }
}

pub(crate) fn publish(member: &Member, new: NewPublication) -> (u32, bool) {
    let Published { version, unchanged } = member.write(new).unwrap();
    (version, unchanged)
}

pub(super) fn schedules(store: &dyn Store) -> Vec<ScheduleRow> {
    let query = ScheduleQuery {
        limit: 1000,
        ..ScheduleQuery::default()
    };
    store.schedules(&query).unwrap()
}

fn numbers(store: &dyn Store) -> Vec<(String, BindingNo)> {
    let rows = store.bindings_of("orders").unwrap();
    rows.into_iter()
        .map(|row| (row.binding.key, row.no))
        .collect()
}

fn all(store: &dyn Store, retracted: bool) -> Vec<PublicationRow> {
    let query = PublicationQuery {
        retracted,
        limit: 100,
        ..Default::default()
    };
    store.publications(&query).unwrap()
}

pub(super) fn publishing_counts_versions(harness: &dyn Harness) {
    let member = Member::join(harness);
    let store = &*member.store;
    assert_eq!(store.published("orders").unwrap(), None);
    assert_eq!(publish(&member, draft("one")), (1, false));
    assert_eq!(publish(&member, draft("one")), (1, true));
    assert_eq!(publish(&member, draft("two")), (2, false));
    // A definition that was published before becomes a new version when it is published again.
    assert_eq!(publish(&member, draft("one")), (3, false));
    let current = store.published("orders").unwrap().unwrap();
    assert_eq!(
        (current.version, current.definition),
        (3, version("one").digest)
    );
    assert_eq!((current.published_ms, current.retracted_ms), (50, None));
    let kept = store.definition(version("two").digest).unwrap();
    assert_eq!(kept.as_ref(), Some(&*version("two")));
    assert_eq!(all(store, false), [current]);
    let versions: Vec<u32> = all(store, true).iter().map(|row| row.version).collect();
    assert_eq!(versions, [3, 2, 1], "newest first");
}

pub(super) fn a_definition_is_found_with_the_version_of_a_time(harness: &dyn Harness) {
    let member = Member::join(harness);
    let at = |definition: &str, at_ms| NewPublication {
        at_ms,
        ..draft(definition)
    };
    for (definition, at_ms) in [("one", 10), ("two", 20), ("one", 30), ("two", 40)] {
        publish(&member, at(definition, at_ms));
    }
    let found = |name: &str, at_ms| {
        let digest = version(name).digest;
        let row = member.store.published_as(digest, at_ms).unwrap();
        row.map(|row| row.version)
    };
    for (at_ms, one, two) in [(0, 1, 2), (10, 1, 2), (25, 1, 2), (30, 3, 2), (50, 3, 4)] {
        let versions = (found("one", at_ms), found("two", at_ms));
        assert_eq!(versions, (Some(one), Some(two)), "{at_ms}");
    }
    let row = member
        .store
        .published_as(version("two").digest, 50)
        .unwrap();
    assert_eq!(row, member.store.published("orders").unwrap());
    assert_eq!(found("never", 50), None);
}

pub(super) fn a_version_keeps_the_text_that_it_was_published_as(harness: &dyn Harness) {
    let member = Member::join(harness);
    let text = |version| member.store.published_text("orders", version).unwrap();
    let with = |definition: &str, text: Option<&'static str>| NewPublication {
        text: text.map(|text| Bytes::from_static(text.as_bytes())),
        ..draft(definition)
    };
    publish(&member, with("one", Some("# one\n")));
    assert_eq!(text(1).as_deref(), Some(&b"# one\n"[..]));
    publish(&member, with("two", None));
    assert_eq!(text(2), None);
    // The same definition with other comments is the same version, with the newest text.
    assert_eq!(publish(&member, with("two", Some("# two\n"))), (2, true));
    assert_eq!(publish(&member, with("two", Some("# 2\n"))), (2, true));
    assert_eq!(publish(&member, with("two", None)), (2, true));
    assert_eq!(text(2).as_deref(), Some(&b"# 2\n"[..]));
    assert_eq!(text(1).as_deref(), Some(&b"# one\n"[..]));
    assert_eq!((text(0), text(3)), (None, None));
    assert_eq!(member.store.published_text("other", 1).unwrap(), None);
    let large = NewPublication {
        text: Some(vec![b'#'; WORKFLOW_BYTES + 1].into()),
        ..draft("three")
    };
    assert_eq!(
        member.store.write(large).unwrap_err().code,
        codes::CONTRADICTION
    );
    assert_eq!(text(3), None);
}

pub(super) fn publications_are_listed_by_name(harness: &dyn Harness) {
    let member = Member::join(harness);
    for name in ["b", "c", "a"] {
        let mut new = draft(name);
        new.definition = definition(name);
        publish(&member, new);
    }
    let list = |name: Option<&str>, after: Option<&str>, limit| {
        let query = PublicationQuery {
            name: name.map(Into::into),
            after: after.map(Into::into),
            retracted: true,
            limit,
        };
        let rows = member.store.publications(&query).unwrap();
        rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
    };
    assert_eq!(list(None, None, 2), ["a", "b"]);
    assert_eq!(list(None, Some("b"), 9), ["c"]);
    assert_eq!(list(Some("b"), None, 9), ["b"]);
    assert!(list(Some("d"), None, 9).is_empty());
}

pub(super) fn unchanged_bindings_keep_their_numbers(harness: &dyn Harness) {
    let member = Member::join(harness);
    let store = &*member.store;
    publish(&member, draft("one"));
    let before = numbers(store);
    assert_eq!(before.len(), 2);
    let mut next = draft("two");
    next.bindings = vec![
        binding("c", "paid"),
        binding("b", "sent"),
        binding("a", "lost"),
    ];
    publish(&member, next);
    let after = numbers(store);
    assert_eq!(after[1], before[1], "it is the same as before");
    assert_ne!(after[0].1, before[0].1, "it waits for something else");
    let found = store.bindings(Digest::of(b"paid")).unwrap();
    assert_eq!(found.len(), 1);
    assert!(store.is_heard(Digest::of(b"paid"), 0).unwrap());
    assert!(!store.is_heard(Digest::of(b"nothing"), 0).unwrap());
    assert_eq!(
        (found[0].version, found[0].definition),
        (2, version("two").digest)
    );
    assert_eq!(found[0].binding, binding("c", "paid"));
    assert_eq!(store.bindings(Digest::of(b"nothing")).unwrap(), []);
}

pub(super) fn one_hash_finds_all_workflows(harness: &dyn Harness) {
    let member = Member::join(harness);
    for name in ["first", "second"] {
        let mut new = draft(name);
        new.definition = definition(name);
        publish(&member, new);
    }
    let found = member.store.bindings(Digest::of(b"sent")).unwrap();
    let names: Vec<&str> = found.iter().map(|row| &*row.workflow).collect();
    assert_eq!(names, ["first", "second"]);
    assert_ne!(found[0].no, found[1].no);
}

pub(super) fn unchanged_schedules_keep_their_numbers(harness: &dyn Harness) {
    let member = Member::join(harness);
    let store = &*member.store;
    publish(&member, draft("one"));
    let before = schedules(store);
    assert_eq!(before.len(), 2);
    assert_eq!(
        (&*before[0].key, before[0].since_ms, before[0].next_ms),
        ("daily", 50, 100)
    );
    let mut next = draft("two");
    next.at_ms = 60;
    next.schedules = vec![
        schedule("hourly", "30 * * * *"),
        schedule("daily", "0 0 * * *"),
    ];
    next.schedules.iter_mut().for_each(|new| new.next_ms = 200);
    publish(&member, next);
    let after = schedules(store);
    let digest = version("two").digest;
    let unchanged = ScheduleRow {
        definition: digest,
        ..before[0].clone()
    };
    assert_eq!(after[0], unchanged);
    let changed = ScheduleRow {
        definition: digest,
        spec: Bytes::from_static(b"30 * * * *"),
        since_ms: 60,
        next_ms: 200,
        ..before[1].clone()
    };
    assert_eq!(after[1], changed);
    let until = |until_ms, workflow: &str, limit| {
        let workflow = Some(workflow.into());
        let query = ScheduleQuery {
            workflow,
            until_ms,
            limit,
            ..ScheduleQuery::default()
        };
        store.schedules(&query).unwrap().len()
    };
    assert_eq!((until(99, "orders", 9), until(100, "orders", 9)), (0, 1));
    assert_eq!((until(200, "orders", 9), until(200, "orders", 1)), (2, 1));
    assert_eq!(until(200, "others", 9), 0);
    publish(
        &member,
        NewPublication {
            schedules: Vec::new(),
            ..draft("three")
        },
    );
    assert_eq!(schedules(store), []);
    publish(&member, draft("one"));
    let again: Vec<ScheduleNo> = schedules(store).iter().map(|row| row.no).collect();
    assert!(
        again.iter().all(|no| *no > before[1].no),
        "no number is used again"
    );
}

pub(super) fn retracting_leaves_nothing_that_starts(harness: &dyn Harness) {
    let member = Member::join(harness);
    let store = &*member.store;
    publish(&member, draft("one"));
    let mut other = draft("other");
    other.definition = definition("other");
    publish(&member, other);
    let retract = |only| {
        let (name, at_ms) = ("orders".into(), 70);
        member.write(Retract { name, only, at_ms })
    };
    assert_eq!(
        retract(Some(2)),
        Err(Fenced),
        "another version is published"
    );
    assert_eq!(retract(Some(1)), Ok(Some(1)));
    assert_eq!(retract(None), Ok(None));
    assert_eq!(retract(Some(1)), Err(Fenced), "none is published");
    assert_eq!(store.published("orders").unwrap(), None);
    assert_eq!(numbers(store), []);
    assert_eq!(store.bindings(Digest::of(b"paid")).unwrap().len(), 1);
    assert!(schedules(store).iter().all(|row| row.workflow == "other"));
    assert_eq!(all(store, true)[0].retracted_ms, Some(70));
    let (name, only, at_ms) = ("other".into(), None, 70);
    assert!(store.is_heard(Digest::of(b"paid"), 70).unwrap());
    assert_eq!(member.write(Retract { name, only, at_ms }), Ok(Some(1)));
    assert!(!store.is_heard(Digest::of(b"paid"), 70).unwrap());
    assert_eq!(publish(&member, draft("one")), (2, false));
    assert!(store.is_heard(Digest::of(b"paid"), 70).unwrap());
}

pub(super) fn a_key_that_is_there_twice_publishes_nothing(harness: &dyn Harness) {
    let member = Member::join(harness);
    publish(&member, draft("one"));
    let before = numbers(&*member.store);
    let mut twice = draft("two");
    twice.bindings.push(binding("a", "again"));
    let mut schedules = draft("two");
    schedules.schedules.push(schedule("daily", "1 1 * * *"));
    for new in [twice, schedules] {
        let answer = member.store.write(new);
        assert_eq!(answer.unwrap_err().code, codes::CONTRADICTION);
    }
    let current = member.store.published("orders").unwrap().unwrap();
    assert_eq!(
        (current.version, current.definition),
        (1, version("one").digest)
    );
    assert_eq!(numbers(&*member.store), before);
}

/// Several processes publish versions of one workflow at the same time.
pub(super) fn publishers_at_once_leave_one_version(harness: &dyn Harness) {
    const EACH: usize = 8;
    let members: Vec<Member> = (0..2).map(|_| Member::join(harness)).collect();
    publish(&members[0], draft("first"));
    let before = numbers(&*members[0].store);
    let versions: Vec<u32> = std::thread::scope(|scope| {
        let publishers = members.iter().enumerate().map(|(place, member)| {
            scope.spawn(move || {
                let texts = (0..EACH).map(|each| format!("{place} {each}"));
                texts
                    .map(|text| publish(member, draft(&text)).0)
                    .collect::<Vec<_>>()
            })
        });
        let publishers: Vec<_> = publishers.collect();
        publishers
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut sorted = versions.clone();
    sorted.sort_unstable();
    let wanted: Vec<u32> = (2..).take(2 * EACH).collect();
    assert_eq!(
        sorted, wanted,
        "each has a version of its own: {versions:?}"
    );
    let store = &*members[0].store;
    let current = all(store, false);
    assert_eq!(current.len(), 1);
    assert_eq!(current[0].version, 1 + 2 * EACH as u32);
    assert_eq!(numbers(store), before);
}

/// A backend without editions names none, so its runs name none either.
pub(super) fn a_run_is_not_created_as_of_an_earlier_edition(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    publish(&member, draft("one"));
    let Some(first) = member.store.edition() else {
        return;
    };
    let edition = || member.store.edition().unwrap();
    let create = |as_of: Edition| {
        let new = NewRun {
            as_of: Some(as_of),
            ..member.draft(1)
        };
        let (id, created) = (new.id, member.write(new).unwrap());
        let is_there = member.store.run(id).unwrap().is_some();
        assert_eq!(is_there, created == Created::New);
        created
    };
    assert_eq!(create(first), Created::New);
    publish(&member, draft("one"));
    assert_eq!(create(first), Created::New, "nothing has changed");
    // This process may not know yet what another one has published.
    publish(&other, draft("two"));
    assert_eq!(create(first), Created::Moved);
    let second = edition();
    assert_ne!(second, first);
    assert_eq!(create(second), Created::New);
    let retract = Retract {
        name: "orders".into(),
        only: None,
        at_ms: 8,
    };
    assert_eq!(member.write(retract), Ok(Some(2)));
    assert_eq!(create(second), Created::Moved);
    // A run that waits for an event changes nothing, and one that waits for a request does.
    let third = edition();
    let held = member.claim_all(1_000);
    let suspend = |held: &Held, name: &str| {
        let step = member.suspending(held, vec![member.bookmark(held, name)]);
        assert_eq!(member.commit(step), DONE);
    };
    suspend(&held[0], "paid");
    assert_eq!(create(third), Created::New);
    suspend(&held[1], windlass_model::http::STIMULUS);
    assert_eq!(create(third), Created::Moved);
    assert_eq!(create(edition()), Created::New);
}
