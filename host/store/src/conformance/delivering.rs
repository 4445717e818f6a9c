//! Stimuli that arrive in large numbers, wait in the queue, or race the bookmarks that they match.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use windlass_model::{BookmarkNo, Class, Code, Delivery, Failure, Seq, Status, TriggerState};
use windlass_test_seeds::Seeds;

use super::Harness;
use super::waiting::{resumed, stimulus};
use super::world::{DONE, DUE, Held, Member, batch_of};
use crate::letters::LetterBody;
use crate::stimuli::{Cursor, Expire, NewStimulus, QueueOp, Send, SendOutcome, StimulusQuery};
use crate::write::{Commit, Fenced};

pub(super) fn steps_that_wait_go_with_others(harness: &dyn Harness) {
    let member = Member::join(harness);
    let waiting = |held: &Held, name: &str| {
        let bookmarks = vec![member.bookmark(held, name)];
        member.suspending(held, bookmarks)
    };
    let staying = |held: &Held, name: &str| Commit {
        bookmarks: vec![member.bookmark(held, name)],
        ..member.chained(held, 2)
    };
    let submit = |commits: Vec<Commit>| {
        let answers = batch_of(&*member.store, commits).into_iter();
        answers.map(Result::unwrap).collect::<Vec<_>>()
    };
    // This run has a bookmark before the batch, and a stimulus matches it while the run
    // runs.
    let unheard = member.born();
    assert_eq!(member.commit(staying(&unheard, "unheard")), DONE);
    let id = member.head(unheard.fence.run).id;
    let sent = member.send(stimulus("unheard", Delivery::Resume));
    assert_eq!(sent, resumed(id));
    let [plain, over, moved] = [(); 3].map(|()| member.born());
    let mut again = member.suspending(&moved.next(), vec![member.bookmark(&moved, "second")]);
    again.burned = vec![Seq(1)];
    let commits = vec![
        waiting(&plain, "plain"),
        staying(&over, "over"),
        staying(&moved, "first"),
        member.last(&over.next()),
        again,
        member.last(&unheard.next()),
    ];
    for answer in submit(commits) {
        assert_eq!(answer, DONE);
    }
    assert_eq!(member.bookmarks(), 2);
    assert_eq!(member.reasons(), ["stale"]);
    for (name, held) in [("plain", &plain), ("second", &moved)] {
        let id = member.head(held.fence.run).id;
        let sent = member.send(stimulus(name, Delivery::Resume));
        assert_eq!(sent, resumed(id), "{name}");
    }
    // Two steps cannot be batched with the others: a stimulus is buffered for one, the other is
    // stale.
    member.send(stimulus("early", Delivery::Buffer));
    let [before, early, stale, after] = [(); 4].map(|()| member.born());
    let commits = vec![
        waiting(&before, "before"),
        waiting(&early, "early"),
        waiting(&stale.next(), "stale"),
        waiting(&after, "after"),
    ];
    assert_eq!(submit(commits), [DONE, DUE, Err(Fenced), DONE]);
    assert_eq!(member.bookmarks(), 2);
    let row = member.only_trigger(early.fence.run);
    assert!(row.payload.is_some(), "{row:?}");
    assert_eq!(member.head(stale.fence.run).version.0, 0);
}

/// A bookmark meets a buffered stimulus even if the next step in the same batch burns it.
pub(super) fn a_bookmark_that_is_burned_at_once_was_there(harness: &dyn Harness) {
    let member = Member::join(harness);
    for ends in [true, false] {
        let buffered = stimulus("paid", Delivery::Buffer);
        assert!(member.send(buffered).buffered);
        member.create(member.draft(2));
        let held = member.claim_all(100);
        let mut waits = member.suspending(&held[0], vec![member.bookmark(&held[0], "paid")]);
        (waits.release, waits.status) = (false, Status::Running);
        let mut next = match ends {
            true => member.last(&held[1]),
            false => member.step(&held[1]),
        };
        next.fence.version.0 += 1;
        next.burned = vec![Seq(1)];
        let answers = batch_of(&*member.store, [waits, next]).into_iter();
        let answers: Vec<_> = answers.map(Result::unwrap).collect();
        assert_eq!(answers, [DUE, DONE]);
        assert_eq!(member.bookmarks(), 0);
        assert_eq!(member.store.counts().unwrap().buffered, 0);
    }
}

pub(super) fn more_than_the_limit_goes_on_later(harness: &dyn Harness) {
    let member = Member::join(harness);
    let ids: Vec<_> = (0..7).map(|_| member.waiting("all").1).collect();
    let sent = member.send_at_most(stimulus("all", Delivery::Buffer), 3);
    assert_eq!((&sent.resumed[..], sent.more), (&ids[..3], true));
    let late = member.waiting("all").1;
    let query = StimulusQuery {
        limit: 10,
        ready_ms: Some(50),
        ..StimulusQuery::default()
    };
    let mut all = sent.resumed;
    let mut slices = 0;
    loop {
        let queued = member.store.queued(&query).unwrap();
        let Some(row) = queued.into_iter().next() else {
            break;
        };
        let (after, until) = (BookmarkNo(3 + 3 * slices), BookmarkNo(7));
        assert_eq!(row.cursor, Some(Cursor { after, until }));
        let go_on = Send {
            stimulus: row.stimulus.clone(),
            starts: Vec::new(),
            queued: Some(row.no),
            limit: 3,
            claim_for: None,
            descendants: u32::MAX,
            at_ms: 60,
        };
        let sent = member.sent(go_on.clone());
        assert!(!sent.buffered && !sent.dropped);
        all.extend(sent.resumed);
        slices += 1;
        if !sent.more {
            let again = member.write(go_on);
            assert_eq!(again, SendOutcome::Gone);
        }
    }
    assert_eq!((slices, all), (2, ids), "and not {late}, which came later");
    assert_eq!(member.bookmarks(), 1);
}

pub(super) fn stimuli_of_nodes_wait_in_the_queue(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (_, id) = member.waiting("ok");
    let held = member.born();
    let mut step = member.chained(&held, 2);
    step.sends = ["ok", "late", "bad"]
        .map(|name| stimulus(name, Delivery::Resume))
        .to_vec();
    let fenced = Commit {
        fence: crate::write::Fence {
            epoch: windlass_model::Epoch(9),
            ..step.fence
        },
        ..step.clone()
    };
    assert_eq!(member.commit(fenced), Err(Fenced));
    assert_eq!(member.store.counts().unwrap().queued, 0);
    assert_eq!(member.commit(step), DUE);
    let all = StimulusQuery {
        limit: 10,
        ..StimulusQuery::default()
    };
    let rows = member.store.queued(&all).unwrap();
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row.stimulus.name.as_str(), row.source, row.ready_ms))
        .collect();
    let from = Some(held.fence.run);
    assert_eq!(
        told,
        [("ok", from, 40), ("late", from, 40), ("bad", from, 40)]
    );
    let second = StimulusQuery {
        after: Some(rows[0].no),
        limit: 1,
        ..StimulusQuery::default()
    };
    assert_eq!(member.store.queued(&second).unwrap(), rows[1..2]);
    let deliver = Send {
        stimulus: rows[0].stimulus.clone(),
        starts: Vec::new(),
        queued: Some(rows[0].no),
        limit: 10,
        claim_for: None,
        descendants: u32::MAX,
        at_ms: 60,
    };
    assert_eq!(member.sent(deliver.clone()), resumed(id));
    assert_eq!(member.write(deliver), SendOutcome::Gone, "only once");
    let error = Failure::new(Class::Permanent, Code::new("WL-R001"), "no");
    let delay = QueueOp::Delay {
        no: rows[1].no,
        ready_ms: 90,
        error: error.clone(),
    };
    assert_eq!(member.write(delay), Ok(()));
    let fail = QueueOp::Fail {
        no: rows[2].no,
        error: error.clone(),
        at_ms: 70,
    };
    assert_eq!(member.write(fail.clone()), Ok(()));
    assert_eq!(member.write(fail), Err(Fenced));
    let left = member.store.queued(&all).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(
        (
            left[0].attempts,
            left[0].ready_ms,
            left[0].last_error.clone()
        ),
        (1, 90, Some(error.clone()))
    );
    let ready = StimulusQuery {
        ready_ms: Some(89),
        ..all
    };
    assert_eq!(member.store.queued(&ready).unwrap(), []);
    let letters = member.letters();
    let body = LetterBody::Stimulus(Box::new(stimulus("bad", Delivery::Resume)));
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].letter.body, body);
    assert_eq!(
        (
            letters[0].letter.reason.as_str(),
            &letters[0].letter.failure
        ),
        ("failed", &Some(error))
    );
}

pub(super) fn a_stimulus_that_waits_too_long_is_dead(harness: &dyn Harness) {
    let member = Member::join(harness);
    for at_ms in [50, 51, 52] {
        let new = NewStimulus {
            at_ms,
            ..stimulus("q", Delivery::Buffer)
        };
        assert!(member.send(new.clone()).buffered);
        member.write(new);
    }
    let expire = |queued_before_ms, now_ms, limit| {
        member.write(Expire {
            queued_before_ms,
            now_ms,
            limit,
        })
    };
    assert_eq!(expire(50, 149, 10), 0);
    assert_eq!(expire(52, 150, 1), 2);
    assert_eq!(expire(52, 150, 10), 1);
    assert_eq!(expire(100, 1000, 10), 3);
    let counts = member.store.counts().unwrap();
    assert_eq!(
        (counts.queued, counts.buffered, counts.dead_letters),
        (0, 0, 6)
    );
}

/// Instances whose bookmark one thread commits while another thread sends the matching stimulus.
const RACES: Seeds = Seeds::new(500, 1_000);

pub(super) fn a_stimulus_that_races_its_bookmark_meets_it_once(harness: &dyn Harness) {
    let (one, other) = (Member::join(harness), Member::join(harness));
    let chains: Vec<Held> = RACES.range().map(|_| one.born()).collect();
    let barrier = Barrier::new(2);
    let late = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            for held in &chains {
                let name = held.fence.run.to_string();
                let step = one.suspending(held, vec![one.bookmark(held, &name)]);
                let wrote = one.commit(step);
                assert!(wrote.is_ok(), "{wrote:?}");
            }
        });
        scope.spawn(|| {
            barrier.wait();
            for held in &chains {
                let name = held.fence.run.to_string();
                let sent = other.send(stimulus(&name, Delivery::Buffer));
                assert_eq!(sent.resumed.len() + usize::from(sent.buffered), 1);
                late.fetch_add(sent.resumed.len(), Ordering::Relaxed);
            }
        });
    });
    for held in &chains {
        let row = one.only_trigger(held.fence.run);
        assert!(row.payload.is_some(), "none is lost: {row:?}");
        assert_eq!(row.token.0, 2, "none is doubled: {row:?}");
    }
    let counts = one.store.counts().unwrap();
    assert_eq!((counts.bookmarks, counts.buffered), (0, 0));
}

pub(super) fn many_stimuli_resume_many_at_the_same_moment(harness: &dyn Harness) {
    let member = Arc::new(Member::join(harness));
    let waiting: Vec<_> = (0..200)
        .map(|place| member.waiting(&format!("s{place}")))
        .collect();
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (member, barrier) = (Arc::clone(&member), &barrier);
            scope.spawn(move || {
                barrier.wait();
                for place in (0..200).filter(|place| place % 8 == thread) {
                    let sent = member.send(stimulus(&format!("s{place}"), Delivery::Resume));
                    assert_eq!(sent.resumed.len(), 1);
                }
            });
        }
    });
    let claimed = member.claim_all(60);
    assert_eq!(claimed.len(), waiting.len());
    for (no, _) in waiting {
        let row = member.only_trigger(no);
        assert!(row.payload.is_some() && row.state == TriggerState::Claimed);
    }
}

/// A stimulus that waits holds up later stimuli of its own run, and no others.
pub(super) fn a_waiting_run_keeps_its_place(harness: &dyn Harness) {
    let member = Member::join(harness);
    for names in [["a1", "a2", "a3"], ["b1", "b2", "b3"]] {
        let held = member.born();
        let mut step = member.chained(&held, 2);
        step.sends = names.map(|name| stimulus(name, Delivery::Resume)).to_vec();
        assert_eq!(member.commit(step), DUE);
    }
    let other = stimulus("other", Delivery::Resume);
    member.write(other);
    let ready = |ready_ms| {
        let query = StimulusQuery {
            ready_ms: Some(ready_ms),
            limit: 10,
            ..StimulusQuery::default()
        };
        let rows = member.store.queued(&query).unwrap();
        let named = rows.iter().map(|row| row.stimulus.name.clone());
        (named.collect::<Vec<_>>(), rows)
    };
    let (names, rows) = ready(100);
    assert_eq!(names, ["a1", "a2", "a3", "b1", "b2", "b3", "other"]);
    let delay = |at: usize| {
        member.write(QueueOp::Delay {
            no: rows[at].no,
            ready_ms: 200,
            error: Failure::new(Class::Permanent, Code::new("WL-R101"), "no"),
        })
    };
    assert_eq!(delay(1), Ok(()));
    assert_eq!(delay(3), Ok(()));
    assert_eq!(ready(100).0, ["a1", "other"]);
    assert_eq!(ready(200).0, names);
    let no = rows[1].no;
    assert_eq!(member.write(QueueOp::Delete { no }), Ok(()));
    assert_eq!(ready(100).0, ["a1", "a3", "other"]);
}
