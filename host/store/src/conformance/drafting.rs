//! Drafts, sources of versions, upkeep requests, and the documents that sweeps keep.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use windlass_model::{Delivery, Digest};

use super::Harness;
use super::publishing::{draft, publish, version};
use super::waiting::stimulus;
use super::world::{DONE, Held, Member, definition, pins};
use crate::drafts::{
    DiscardDraft, DraftRow, DropSource, NewDraft, RequestUpkeep, UPKEEP_ROWS, Upkeep, UpkeepDone,
};
use crate::published::{NewPublication, Retract};
use crate::retention::{Forget, Forgotten, Sweep, Sweepable, Swept};
use crate::rows::PinsRow;
use crate::stimuli::{Send, SendOutcome};
use crate::write::Fenced;

fn save(member: &Member, name: &str, text: &'static str, expected: Option<u64>) -> Option<u64> {
    let saved = member.write(NewDraft {
        name: name.into(),
        content: Bytes::from_static(text.as_bytes()),
        based_on: Some(3),
        expected,
        at_ms: 70,
    });
    saved.ok()
}

fn discard(member: &Member, name: &str, revision: Option<u64>) -> bool {
    let name = name.into();
    member.write(DiscardDraft { name, revision }).is_ok()
}

fn names(rows: &[DraftRow]) -> Vec<&str> {
    rows.iter().map(|row| &*row.name).collect()
}

pub(super) fn a_draft_is_one_text_for_each_name(harness: &dyn Harness) {
    let member = Member::join(harness);
    let store = &*member.store;
    assert_eq!(store.draft("a").unwrap(), None);
    let first = save(&member, "a", "one: [", None).unwrap();
    let second = save(&member, "a", "two", None).unwrap();
    assert!(second > first);
    let row = store.draft("a").unwrap().unwrap();
    let wanted = DraftRow {
        name: "a".into(),
        revision: second,
        content: Bytes::from_static(b"two"),
        based_on: Some(3),
        saved_ms: 70,
    };
    assert_eq!(row, wanted);
    save(&member, "c", "three", None).unwrap();
    save(&member, "b", "four", None).unwrap();
    assert_eq!(names(&store.drafts(None, 9).unwrap()), ["a", "b", "c"]);
    assert_eq!(names(&store.drafts(Some("a"), 1).unwrap()), ["b"]);
    assert!(discard(&member, "b", None));
    assert!(!discard(&member, "b", None));
    assert_eq!(names(&store.drafts(None, 9).unwrap()), ["a", "c"]);
}

pub(super) fn an_edit_over_another_edit_is_refused(harness: &dyn Harness) {
    let member = Member::join(harness);
    let first = save(&member, "a", "one", Some(0)).unwrap();
    assert_eq!(save(&member, "a", "two", Some(0)), None);
    let second = save(&member, "a", "two", Some(first)).unwrap();
    assert_eq!(save(&member, "a", "three", Some(first)), None);
    assert!(!discard(&member, "a", Some(first)));
    let row = member.store.draft("a").unwrap().unwrap();
    assert_eq!((row.revision, &row.content[..]), (second, &b"two"[..]));
    assert!(discard(&member, "a", Some(second)));
    let third = save(&member, "a", "three", Some(0)).unwrap();
    assert!(third > second, "no revision is used again");
}

pub(super) fn publishing_takes_the_draft_that_it_was_made_from(harness: &dyn Harness) {
    let member = Member::join(harness);
    let store = &*member.store;
    let first = save(&member, "orders", "one", None).unwrap();
    let second = save(&member, "orders", "two", None).unwrap();
    let of = |revision| NewPublication {
        draft: Some(revision),
        ..draft("one")
    };
    let stale = member.write(of(first));
    assert_eq!(stale, Err(Fenced), "{stale:?}");
    assert_eq!(store.published("orders").unwrap(), None);
    assert_eq!(store.definition(version("one").digest).unwrap(), None);
    assert_eq!(publish(&member, of(second)), (1, false));
    assert_eq!(store.draft("orders").unwrap(), None);
}

pub(super) fn publishing_over_another_version_than_expected_is_refused(harness: &dyn Harness) {
    let member = Member::join(harness);
    let store = &*member.store;
    let again = |only| NewPublication {
        only: Some(only),
        ..draft("one")
    };
    let refused = |only| {
        let wrote = member.write(again(only));
        assert_eq!(wrote, Err(Fenced), "{wrote:?}");
    };
    refused(1);
    assert_eq!(publish(&member, again(0)), (1, false));
    refused(0);
    let before = store.bindings_of("orders").unwrap();
    assert_eq!(publish(&member, again(1)), (1, true));
    assert_eq!(store.bindings_of("orders").unwrap(), before);
    publish(&member, draft("two"));
    refused(1);
    let current = store.published("orders").unwrap().unwrap();
    assert_eq!(current.definition, version("two").digest);
}

pub(super) fn a_place_retracts_only_its_own_publications(harness: &dyn Harness) {
    let member = Member::join(harness);
    let store = &*member.store;
    let from = |source: &str, text: &str| NewPublication {
        source: Some(source.into()),
        ..draft(text)
    };
    let drop_it = |name: &str, retract| {
        member.write(DropSource {
            name: name.into(),
            retract,
            at_ms: 80,
        })
    };
    publish(&member, from("a.yaml", "one"));
    let row = store.source("a.yaml").unwrap().unwrap();
    assert_eq!((&*row.workflow, row.version), ("orders", 1));
    assert_eq!(row.definition, version("one").digest);
    assert_eq!(drop_it("other.yaml", true), None);
    assert_eq!(drop_it("a.yaml", true), Some(1));
    assert_eq!(store.published("orders").unwrap(), None);
    assert_eq!(store.source("a.yaml").unwrap(), None);
    // A newer version was published from another source.
    publish(&member, from("a.yaml", "one"));
    publish(&member, draft("two"));
    assert_eq!(drop_it("a.yaml", true), None);
    assert_eq!(store.published("orders").unwrap().unwrap().version, 3);
    // Two sources have published the same version.
    publish(&member, from("a.yaml", "three"));
    publish(&member, from("b.yaml", "three"));
    let sources = store.sources(None, 9).unwrap();
    let versions: Vec<_> = sources
        .iter()
        .map(|row| (&*row.name, row.version))
        .collect();
    assert_eq!(versions, [("a.yaml", 4), ("b.yaml", 4)]);
    assert_eq!(store.sources(Some("a.yaml"), 9).unwrap().len(), 1);
    assert_eq!(drop_it("a.yaml", true), None);
    assert_eq!(drop_it("b.yaml", false), None);
    assert_eq!(store.published("orders").unwrap().unwrap().version, 4);
}

fn ask(member: &Member, what: Upkeep) -> windlass_model::UpkeepNo {
    member.write(RequestUpkeep { what, at_ms: 90 })
}

fn some(name: &str) -> Upkeep {
    Upkeep::Refresh(vec![name.into()])
}

pub(super) fn requests_wait_until_they_are_done(harness: &dyn Harness) {
    let member = Member::join(harness);
    let waiting = || {
        let rows = member.store.upkeep(9).unwrap();
        rows.into_iter().map(|row| row.what).collect::<Vec<_>>()
    };
    let done = |no| member.write(UpkeepDone(vec![no]));
    let first = ask(&member, some("a"));
    ask(&member, Upkeep::Reload);
    ask(&member, some("b"));
    let reload = ask(&member, Upkeep::Reload);
    assert!(reload > first);
    assert_eq!(waiting(), [some("a"), some("b"), Upkeep::Reload]);
    done(first);
    assert_eq!(waiting(), [some("b"), Upkeep::Reload]);
    let all = ask(&member, Upkeep::RefreshAll);
    assert_eq!(waiting(), [Upkeep::Reload, Upkeep::RefreshAll]);
    let after = ask(&member, some("c"));
    done(all);
    done(reload);
    assert_eq!(waiting(), [some("c")]);
    done(after);
    for count in 0..=UPKEEP_ROWS {
        ask(&member, some(&format!("w{count}")));
    }
    assert_eq!(waiting(), [Upkeep::RefreshAll], "too many are all");
}

pub(super) fn unreferenced_rows_are_swept(harness: &dyn Harness) {
    let member = Member::join(harness);
    let store = &*member.store;
    let held = member.born();
    let mut beside = member.draft(1);
    let json = Bytes::from_static(b"{\"pins\":{\"a\":1}}");
    let digest = Digest::of(&json);
    beside.pins = Arc::new(PinsRow { digest, json });
    beside.definition = version("published");
    member.create(beside);
    publish(&member, draft("published"));
    publish(&member, draft("replaced"));
    let used = store.run_by_no(held.fence.run).unwrap().unwrap();
    let sweep = |before_ms, at_ms| {
        let mut swept = 0;
        loop {
            let Swept { count, more } = member.write(Sweep {
                what: Sweepable::Documents,
                before_ms,
                rows: 2,
                at_ms,
            });
            swept += count;
            if !more {
                return swept;
            }
        }
    };
    assert_eq!(sweep(i64::MAX, 100), 0, "all of it is used");
    assert_eq!(sweep(i64::MAX, 200), 0, "it still is");
    assert_eq!(member.commit(member.last(&held)), DONE);
    let forget = Forget {
        run: used.no,
        before_ms: i64::MAX,
        rows: 1000,
        at_ms: 250,
    };
    assert_eq!(member.write(forget), Forgotten { more: false });
    assert_eq!(sweep(250, 300), 0, "it is only noted");
    assert_eq!(sweep(300, 400), 0, "the grace is not over");
    assert_eq!(sweep(301, 400), 2, "the definition and the pins");
    assert_eq!(store.definition(used.definition).unwrap(), None);
    assert_eq!(store.pins(used.pins).unwrap(), None);
    assert!(
        store.pins(digest).unwrap().is_some(),
        "others have pins, too"
    );
    let kept = |text: &str| store.definition(version(text).digest).unwrap().is_some();
    assert!(kept("published") && kept("replaced"), "versions stay");
    // A swept document is written again.
    let again = member.born();
    let row = store.run_by_no(again.fence.run).unwrap().unwrap();
    assert!(store.definition(row.definition).unwrap().is_some());
    assert!(store.pins(row.pins).unwrap().is_some());
    assert_eq!(
        (row.definition, row.pins),
        (definition("case").digest, pins().digest)
    );
}

pub(super) fn a_run_may_be_kept_for_a_time_of_its_own(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut ended = Vec::new();
    for keep_ms in [Some(1000), None, Some(5)] {
        let mut new = member.draft(1);
        new.keep_ms = keep_ms;
        new.owner = Some(member.incarnation);
        new.triggers[0].claimed = true;
        let held = Held::born(&new);
        member.create(new);
        assert_eq!(member.commit(member.last(&held)), DONE);
        ended.push(held.fence.run);
    }
    let expired = |before_ms, now_ms| {
        let rows = member.store.expired(before_ms, now_ms, 9).unwrap();
        rows.into_iter().map(|row| row.no).collect::<Vec<_>>()
    };
    // The runs ended at 40.
    assert_eq!(expired(0, 45), []);
    assert_eq!(expired(0, 46), [ended[2]]);
    assert_eq!(expired(41, 46), [ended[1], ended[2]]);
    assert_eq!(expired(i64::MAX, 1040), [ended[1], ended[2]]);
    assert_eq!(expired(0, 1041), [ended[0], ended[2]]);
    let forget = |no: usize, at_ms| {
        let forget = Forget {
            run: ended[no],
            before_ms: i64::MAX,
            rows: 1000,
            at_ms,
        };
        member.write(forget);
        member.store.run_by_no(ended[no]).unwrap().is_none()
    };
    assert!(!forget(0, 1040));
    assert!(forget(0, 1041));
    assert!(forget(2, 46));
    assert_eq!(expired(i64::MAX, i64::MAX), [ended[1]]);
}

/// State shared between the starter threads and the publisher.
#[derive(Default)]
struct Starting {
    sent: AtomicUsize,
    over: AtomicBool,
}

impl Starting {
    /// Waits until one of `starters` threads has sent a stimulus that it began to prepare after
    /// this call.
    fn wait(&self, starters: usize) {
        let before = self.sent.load(Ordering::Acquire);
        while !self.is_over() && self.sent.load(Ordering::Acquire) <= before + starters {
            std::thread::yield_now();
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Ends the race when a starter panics, so that the publisher does not wait for it.
struct OverOnDrop<'s>(&'s Starting);

impl Drop for OverOnDrop<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
    }
}

/// Stimuli that start runs race the publishing and retracting of their workflow.
pub(super) fn a_start_runs_the_version_published_at_that_moment(harness: &dyn Harness) {
    const ROUNDS: u32 = 200;
    const STARTERS: usize = 2;
    let publisher = Member::join(harness);
    let starters: Vec<Member> = (0..STARTERS).map(|_| Member::join(harness)).collect();
    let race = Starting::default();
    let started: Vec<(u32, u32)> = std::thread::scope(|scope| {
        let sending = starters.iter().map(|member| {
            let race = &race;
            scope.spawn(move || start_until_over(member, race))
        });
        let sending: Vec<_> = sending.collect();
        for round in 0..ROUNDS {
            publish(&publisher, draft(&format!("text {}", round % 3)));
            if round % 4 == 1 {
                race.wait(STARTERS);
            }
            if round % 4 == 3 {
                let retract = Retract {
                    name: "orders".into(),
                    only: None,
                    at_ms: 1,
                };
                publisher.write(retract).unwrap();
            }
        }
        drop(OverOnDrop(&race));
        sending
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let of = |pick: fn(&(u32, u32)) -> u32| started.iter().map(pick).sum::<u32>();
    let counts = publisher.store.counts().unwrap();
    assert_eq!(u64::from(of(|pair| pair.0)), counts.runs);
    let query = crate::published::PublicationQuery {
        retracted: true,
        limit: 10_000,
        ..Default::default()
    };
    let versions = publisher.store.publications(&query).unwrap();
    // Written to stdout directly: a lint forbids `println!` in this library.
    let _ = writeln!(
        std::io::stdout(),
        "{ROUNDS} rounds, {} versions: {} started, {} times what is bound had moved",
        versions.len(),
        of(|pair| pair.0),
        of(|pair| pair.1)
    );
    assert!(of(|pair| pair.0) >= ROUNDS / 4);
    let mut numbers: Vec<u32> = versions.iter().map(|row| row.version).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..).take(numbers.len()).collect::<Vec<u32>>());
    let current = versions.iter().filter(|row| row.retracted_ms.is_none());
    assert!(current.count() <= 1);
}

/// Sends stimuli for the current bindings. Counts the sends that started a run, and the sends
/// that were refused because the binding had changed.
fn start_until_over(member: &Member, race: &Starting) -> (u32, u32) {
    let _over = OverOnDrop(race);
    let (mut started, mut moved) = (0, 0);
    while !race.is_over() {
        let bound = member.store.bindings(Digest::of(b"paid")).unwrap();
        let starts = bound.iter().map(|row| {
            let mut new = member.draft(1);
            let stored = member.store.definition(row.definition).unwrap();
            new.definition = std::sync::Arc::new(stored.unwrap());
            (row.no, new)
        });
        let starts: Vec<_> = starts.collect();
        let wanted: Vec<_> = starts.iter().map(|(_, new)| new.id).collect();
        let mut stimulus = stimulus("paid", Delivery::Start);
        stimulus.hash = Digest::of(b"paid");
        let send = Send {
            stimulus,
            starts,
            queued: None,
            limit: Send::LIMIT,
            claim_for: None,
            descendants: u32::MAX,
            at_ms: 10,
        };
        match member.write(send) {
            SendOutcome::Sent(sent) => {
                assert_eq!(
                    sent.started, wanted,
                    "all that it was told, and nothing else"
                );
                started += u32::try_from(wanted.len()).unwrap();
            }
            SendOutcome::Moved => moved += 1,
            other => panic!("{other:?}"),
        }
        race.sent.fetch_add(1, Ordering::AcqRel);
    }
    (started, moved)
}
