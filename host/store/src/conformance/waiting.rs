//! Bookmarks and stimuli: a stimulus meets a matching bookmark exactly once.

use bytes::Bytes;
use uuid::Uuid;
use windlass_model::limits::INLINE_PAYLOAD_BYTES;
use windlass_model::resumption::About;
use windlass_model::{
    Body, Delivery, Digest, JsonText, Payload, Resumption, RunId, RunNo, Seq, Status, StimulusId,
    TriggerState, TriggerType, stimulus,
};
use windlass_test_seeds::Seeds;
use windlass_test_seeds::json::{self, Mistake, Random};

use super::Harness;
use super::world::{DONE, DUE, Held, Member, trace};
use crate::external::{Reschedule, Touched};
use crate::rows::TriggerRow;
use crate::stimuli::{
    BookmarkQuery, NewBookmark, NewStimulus, Resume, Send, SendOutcome, Sent, StimulusQuery,
};
use crate::write::Commit;

/// The due time of a trigger that waits without a time-out.
const NEVER: i64 = i64::MAX;

impl Member {
    /// A bookmark for the claimed trigger.
    pub(crate) fn bookmark(&self, held: &Held, name: &str) -> NewBookmark {
        let matches = Bytes::from_static(b"{}");
        NewBookmark {
            first: Seq(1),
            trigger: held.trigger.no,
            phase: 1,
            name: name.into(),
            hash: stimulus::hash(name, &matches, None),
            matches,
            correlation: None,
            private: false,
            auto_burn: true,
            metadata: Some(Bytes::from_static(b"{\"m\":1}")),
            token: Digest::of(format!("{name} {}", held.fence.run).as_bytes()),
            expires_ms: None,
            created_ms: 40,
        }
    }

    /// A step that suspends its execution and releases the run.
    pub(crate) fn suspending(&self, held: &Held, bookmarks: Vec<NewBookmark>) -> Commit {
        let mut row = self.trigger(2);
        row.kind = TriggerType::Resume;
        row.due_ms = NEVER;
        Commit {
            status: Status::Suspended,
            triggers: vec![row],
            bookmarks,
            release: true,
            ..self.step(held)
        }
    }

    /// A run that waits for a stimulus of this name.
    pub(crate) fn waiting(&self, name: &str) -> (RunNo, RunId) {
        self.waiting_for(|held| vec![self.bookmark(held, name)])
    }

    pub(super) fn waiting_for(
        &self,
        bookmarks: impl FnOnce(&Held) -> Vec<NewBookmark>,
    ) -> (RunNo, RunId) {
        let held = self.born();
        let step = self.suspending(&held, bookmarks(&held));
        assert_eq!(self.commit(step), DONE);
        (held.fence.run, self.head(held.fence.run).id)
    }

    pub(crate) fn send(&self, stimulus: NewStimulus) -> Sent {
        self.send_at_most(stimulus, Send::LIMIT)
    }

    pub(super) fn send_at_most(&self, stimulus: NewStimulus, limit: u32) -> Sent {
        let at_ms = stimulus.at_ms;
        let send = Send {
            stimulus,
            starts: Vec::new(),
            queued: None,
            limit,
            claim_for: None,
            descendants: u32::MAX,
            at_ms,
        };
        self.sent(send)
    }

    pub(super) fn sent(&self, send: Send) -> Sent {
        match self.write(send) {
            SendOutcome::Sent(sent) => sent,
            other => panic!("{other:?}"),
        }
    }

    fn resume(&self, bookmark: &NewBookmark, at_ms: i64) -> Sent {
        self.write(Resume {
            token: bookmark.token,
            input: Payload::json("\"token\""),
            blobs: Vec::new(),
            claim_for: None,
            at_ms,
        })
    }

    pub(super) fn bookmarks(&self) -> u64 {
        self.store.counts().unwrap().bookmarks
    }
}

/// A stimulus sent at 50.
pub(crate) fn stimulus(name: &str, delivery: Delivery) -> NewStimulus {
    let matches = Bytes::from_static(b"{}");
    NewStimulus {
        id: StimulusId(Uuid::from_u128(9)),
        name: name.into(),
        hash: stimulus::hash(name, &matches, None),
        matches,
        correlation: None,
        run: None,
        input: Payload::json("\"sent\""),
        blobs: Vec::new(),
        delivery,
        ttl_ms: 100,
        at_ms: 50,
        tree: None,
        trace: Some(trace(9).with_state(["a=1"])),
    }
}

fn dropped() -> Sent {
    Sent {
        dropped: true,
        ..Sent::default()
    }
}

fn buffered() -> Sent {
    Sent {
        buffered: true,
        ..Sent::default()
    }
}

pub(super) fn resumed(id: RunId) -> Sent {
    Sent {
        resumed: vec![id],
        ..Sent::default()
    }
}

#[track_caller]
fn check_resumed(row: &TriggerRow, name: &str, input: &str, due_ms: i64) {
    assert_eq!((row.state, row.due_ms), (TriggerState::Pending, due_ms));
    let payload = row.payload.as_deref().unwrap();
    let expected = Resumption::Resumed {
        bookmark: name.into(),
        input: Payload::json(input.to_owned()),
        metadata: JsonText::of(&serde_json::json!({"m": 1})).ok(),
    };
    assert_eq!(Resumption::decode(payload).unwrap(), expected);
}

pub(super) fn a_stimulus_resumes_the_waiting_run(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let (no, id) = member.waiting("ok");
    let (stranger, _) = member.waiting("other");
    assert!(member.claim_all(NEVER - 1).is_empty(), "nothing is due");
    let claims = member.claim(100, 10, 10);
    assert_eq!((claims.more, claims.next_due_ms), (false, None));
    let before = member.only_trigger(no);
    assert!(before.waits());
    assert_eq!(
        other.send(stimulus("ok", Delivery::StartAndResume)),
        resumed(id)
    );
    let after = member.only_trigger(no);
    check_resumed(&after, "ok", "\"sent\"", 50);
    assert_eq!(after.token.0, before.token.0 + 1);
    assert_eq!(after.no, before.no);
    assert_eq!(member.only_trigger(stranger).payload, None);
    assert_eq!(member.bookmarks(), 1);
    // The resumed trigger is claimed like any due trigger, with its resumption.
    let claims = other.claim(60, 10, 10);
    assert_eq!(claims.runs.len(), 1);
    assert_eq!(claims.runs[0].claimed[0].payload, after.payload);
    let held = other.held(&claims.runs[0].row, &claims.runs[0].claimed[0]);
    assert_eq!(other.commit(other.chained(&held, 3)), DONE);
    assert_eq!(other.only_trigger(no).payload, None, "it was used up");
    assert_eq!(
        other.send(stimulus("ok", Delivery::StartAndResume)),
        dropped()
    );
}

pub(super) fn too_early_is_as_good_as_in_time(harness: &dyn Harness) {
    let member = Member::join(harness);
    assert_eq!(member.send(stimulus("ok", Delivery::Buffer)), buffered());
    let listed = member.store.buffered(&StimulusQuery {
        limit: 10,
        ..StimulusQuery::default()
    });
    let listed = listed.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (&listed[0].stimulus, listed[0].expires_ms),
        (&stimulus("ok", Delivery::Buffer), 150)
    );
    let held = member.born();
    let mut other = member.bookmark(&held, "no");
    other.token = Digest::of(b"another");
    let mut step = member.suspending(&held, vec![other, member.bookmark(&held, "ok")]);
    step.at_ms = 60;
    assert_eq!(member.commit(step), DUE);
    let no = held.fence.run;
    check_resumed(&member.only_trigger(no), "ok", "\"sent\"", 60);
    let counts = member.store.counts().unwrap();
    assert_eq!((counts.bookmarks, counts.buffered), (0, 0));
    // A later run with a bookmark of that name finds no buffered stimulus.
    member.waiting("ok");
    assert_eq!(member.bookmarks(), 1);
}

pub(super) fn a_buffered_stimulus_meets_its_bookmark(harness: &dyn Harness) {
    let member = Member::join(harness);
    let about = |text: &str| Some(text.to_owned());
    let with = |correlation: Option<String>, run, ttl_ms| NewStimulus {
        correlation,
        run,
        ttl_ms,
        ..stimulus("ok", Delivery::Buffer)
    };
    let held = member.born();
    let id = member.head(held.fence.run).id;
    let unknown = RunId(Uuid::from_u128(1));
    for buffered in [
        with(about("b"), None, 100),
        with(None, Some(unknown), 100),
        with(None, None, 0),
    ] {
        assert!(member.send(buffered).buffered);
    }
    let bookmark = NewBookmark {
        correlation: about("a"),
        ..member.bookmark(&held, "ok")
    };
    let mut step = member.suspending(&held, vec![bookmark]);
    step.at_ms = 60;
    assert_eq!(member.commit(step), DONE);
    assert_eq!(member.store.counts().unwrap().buffered, 3);
    // The bookmark takes the oldest matching stimulus.
    let late = member.born();
    let late_id = member.head(late.fence.run).id;
    for (buffered, text) in [
        (with(about("c"), Some(late_id), 100), "\"first\""),
        (with(None, Some(late_id), 100), "\"second\""),
    ] {
        let input = Payload::json(text);
        assert!(member.send(NewStimulus { input, ..buffered }).buffered);
    }
    let bookmark = NewBookmark {
        correlation: about("c"),
        ..member.bookmark(&late, "ok")
    };
    let mut step = member.suspending(&late, vec![bookmark]);
    step.at_ms = 60;
    assert_eq!(member.commit(step), DUE);
    let row = member.only_trigger(late.fence.run);
    check_resumed(&row, "ok", "\"first\"", 60);
    assert_eq!(member.store.counts().unwrap().buffered, 4);
    assert_eq!(member.only_trigger(held.fence.run).payload, None);
    // The run has ended and cannot wait again.
    assert_eq!(member.send(with(None, Some(id), 100)), resumed(id));
    for held in member.claim_all(100) {
        assert_eq!(member.commit(member.last(&held)), DONE);
    }
    assert_eq!(member.send(with(None, Some(id), 100)), dropped());
}

pub(super) fn a_group_is_burned_together(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (no, id) = member.waiting_for(|held| {
        vec![
            member.bookmark(held, "yes"),
            member.bookmark(held, "no"),
            member.bookmark(held, "yes"),
        ]
    });
    assert_eq!(member.bookmarks(), 3);
    assert_eq!(
        member.send(stimulus("yes", Delivery::Resume)),
        resumed(id),
        "once, although it meets two of the group"
    );
    assert_eq!(member.bookmarks(), 0);
    assert_eq!(member.send(stimulus("no", Delivery::Resume)), dropped());
    check_resumed(&member.only_trigger(no), "yes", "\"sent\"", 50);
    // The next suspension replaces the bookmarks.
    let held = member.claim_all(60)[0];
    let step = member.suspending(&held, vec![member.bookmark(&held, "yes")]);
    assert_eq!(member.commit(step), DONE);
    let held = Held {
        fence: crate::write::Fence {
            version: windlass_model::Version(2),
            ..held.fence
        },
        ..held
    };
    assert_eq!(
        member.resume(&member.bookmark(&held, "yes"), 70),
        resumed(id)
    );
    let held = member.claim_all(80)[0];
    let mut step = member.suspending(&held, vec![member.bookmark(&held, "no")]);
    step.burned = vec![Seq(1)];
    assert_eq!(member.commit(step), DONE);
    let rows = member.store.bookmarks(&BookmarkQuery {
        run: Some(no),
        limit: 10,
        ..BookmarkQuery::default()
    });
    let names: Vec<_> = rows
        .unwrap()
        .into_iter()
        .map(|row| row.bookmark.name)
        .collect();
    assert_eq!(names, ["no"]);
}

pub(super) fn without_burning_the_wait_goes_on(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (no, id) = member.waiting_for(|held| {
        vec![NewBookmark {
            auto_burn: false,
            ..member.bookmark(held, "tick")
        }]
    });
    for _ in 0..3 {
        assert_eq!(member.send(stimulus("tick", Delivery::Resume)), resumed(id));
    }
    assert_eq!(member.bookmarks(), 1);
    let rows = member.triggers(no);
    let (beside, waits): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.seq.is_external());
    assert_eq!((beside.len(), waits.len()), (3, 1));
    assert!(waits[0].waits() && waits[0].due_ms == NEVER);
    for row in beside {
        check_resumed(row, "tick", "\"sent\"", 50);
        assert_eq!(row.seq, Seq::external(row.no));
        let first = Seq(1);
        assert_eq!(About::decode(&row.detail).unwrap(), About::Resume { first });
    }
    // The resumptions do not keep the run open.
    let held = member.claim_all(60)[0];
    assert_eq!(member.commit(member.last(&held)), DONE);
    let counts = member.store.counts().unwrap();
    assert_eq!((counts.triggers, counts.bookmarks), (0, 0));
}

pub(super) fn a_run_that_does_not_wait_is_resumed_beside_its_work(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (no, id) = member.waiting_for(|held| {
        let mut bookmark = member.bookmark(held, "ok");
        bookmark.expires_ms = Some(200);
        vec![bookmark]
    });
    // The row is claimed as expired before its time.
    let row = member.only_trigger(no);
    let touched = member.write(Reschedule {
        target: crate::external::TriggerTarget::Row(no, row.seq),
        due_ms: 45,
    });
    assert_eq!(touched, Touched::Waiting, "only what it waits for moves it");
    let held = member.claim_all(NEVER)[0];
    assert_eq!(member.send(stimulus("ok", Delivery::Resume)), resumed(id));
    let rows = member.triggers(no);
    assert_eq!(rows.len(), 2);
    assert_eq!(member.commit(member.step(&held)), DONE);
    check_resumed(&member.only_trigger(no), "ok", "\"sent\"", 50);
    assert_eq!(member.bookmarks(), 0);
}

pub(super) fn correlation_and_run_narrow(harness: &dyn Harness) {
    let member = Member::join(harness);
    let about = |text: &str| Some(text.to_owned());
    let mut all = Vec::new();
    for correlation in [about("a"), about("b"), None, about("a")] {
        all.push(member.waiting_for(|held| {
            vec![NewBookmark {
                correlation: correlation.clone(),
                ..member.bookmark(held, "ok")
            }]
        }));
    }
    let narrowed = |correlation: Option<&str>, run| NewStimulus {
        correlation: correlation.map(str::to_owned),
        run,
        ..stimulus("ok", Delivery::Resume)
    };
    assert_eq!(member.send(narrowed(Some("c"), None)), dropped());
    assert_eq!(member.send(narrowed(Some("b"), Some(all[0].1))), dropped());
    let both: Vec<_> = vec![all[0].1, all[3].1];
    assert_eq!(member.send(narrowed(Some("a"), None)).resumed, both);
    assert_eq!(
        member.send(narrowed(None, Some(all[2].1))),
        resumed(all[2].1)
    );
    assert_eq!(member.send(narrowed(None, None)), resumed(all[1].1));
    let mut other = narrowed(None, None);
    other.matches = Bytes::from_static(b"[]");
    other.hash = stimulus::hash("ok", &other.matches, None);
    member.waiting("ok");
    assert_eq!(member.send(other), dropped());
}

/// Random matches.
const MATCHES: Seeds = Seeds::new(300, 10_000);

/// Numbers have no bound of digits, and are the same if their values are.
pub(super) fn a_match_is_compared_by_its_digits(harness: &dyn Harness) {
    let member = Member::join(harness);
    let seeds = MATCHES.range();
    let (mut matched, mut missed) = (0_u64, 0_u64);
    for seed in seeds.clone() {
        let (a, b) = Random::new(seed).pair();
        let same = json::equal(&json::read(&a), &json::read(&b), Mistake::None);
        let matches = |text: &str| {
            let value = serde_json::from_str(text).unwrap();
            let matches = Bytes::from(stimulus::canonical(&value));
            (stimulus::hash("n", &matches, None), matches)
        };
        let (_, id) = member.waiting_for(|held| {
            let mut bookmark = member.bookmark(held, "n");
            (bookmark.hash, bookmark.matches) = matches(&a);
            vec![bookmark]
        });
        let send = |text: &str| {
            let mut sent = stimulus("n", Delivery::Resume);
            (sent.hash, sent.matches) = matches(text);
            // A run that an earlier seed left waiting is not meant.
            sent.run = Some(id);
            member.send(sent)
        };
        let expected = if same { resumed(id) } else { dropped() };
        assert_eq!(send(&b), expected, "WINDLASS_SEED={seed}: {a} and {b}");
        matched += u64::from(same);
        missed += u64::from(!same);
        if !same {
            assert_eq!(send(&a), resumed(id), "WINDLASS_SEED={seed}: {a}");
        }
    }
    if MATCHES.are_all(&seeds) {
        let tried = seeds.end - seeds.start;
        assert!(
            matched > tried / 10 && missed > tried / 10,
            "{matched} of {tried}"
        );
    }
    // The pairs tell whether numbers are rounded or written as they came.
    for mistake in [Mistake::Floats, Mistake::Exponent, Mistake::Members] {
        MATCHES.find(mistake, |seed| {
            let (a, b) = Random::new(seed).pair();
            let (a, b) = (json::read(&a), json::read(&b));
            json::equal(&a, &b, mistake) != json::equal(&a, &b, Mistake::None)
        });
    }
}

pub(super) fn private_bookmarks_are_resumed_by_their_token(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let id = member.head(held.fence.run).id;
    let mut bookmark = member.bookmark(&held, "mine");
    bookmark.private = true;
    bookmark.hash = stimulus::hash("mine", &bookmark.matches, Some((id, Seq(1))));
    bookmark.expires_ms = Some(80);
    let step = member.suspending(&held, vec![bookmark.clone()]);
    assert_eq!(member.commit(step), DONE);
    assert_eq!(member.send(stimulus("mine", Delivery::Resume)), dropped());
    let read = member.store.bookmark_by_token(bookmark.token).unwrap();
    let read = read.unwrap();
    assert_eq!((read.run_id, &read.bookmark), (id, &bookmark));
    assert_eq!(member.store.bookmark(read.no).unwrap(), Some(read));
    assert_eq!(member.resume(&bookmark, 80), dropped(), "it has expired");
    assert_eq!(member.resume(&bookmark, 79), resumed(id));
    let row = member.only_trigger(held.fence.run);
    check_resumed(&row, "mine", "\"token\"", 79);
    assert_eq!(member.resume(&bookmark, 79), dropped());
}

pub(super) fn a_bookmark_is_heard_until_it_expires(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (ok, mine) = (stimulus("ok", Delivery::Resume), "mine");
    let heard = |now_ms| member.store.is_heard(ok.hash, now_ms).unwrap();
    assert!(!heard(50), "no run waits for it");
    let (private, id) = member.waiting_for(|held| {
        let id = member.head(held.fence.run).id;
        let mut bookmark = member.bookmark(held, mine);
        bookmark.private = true;
        bookmark.hash = stimulus::hash(mine, &bookmark.matches, Some((id, Seq(1))));
        vec![bookmark]
    });
    let unsent = stimulus(mine, Delivery::Resume).hash;
    assert!(
        !member.store.is_heard(unsent, 50).unwrap(),
        "{private} {id}"
    );
    member.waiting_for(|held| {
        let mut bookmark = member.bookmark(held, "ok");
        bookmark.expires_ms = Some(80);
        vec![bookmark]
    });
    assert!(heard(79));
    assert!(!heard(80), "it has expired");
    member.waiting("ok");
    assert!(heard(80));
    assert!(member.send(ok.clone()).resumed.len() == 2);
    assert!(!heard(79), "each was resumed once");
}

pub(super) fn an_expired_wait_is_claimed_without_a_payload(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let mut bookmark = member.bookmark(&held, "ok");
    bookmark.expires_ms = Some(50);
    let mut step = member.suspending(&held, vec![bookmark]);
    step.triggers[0].due_ms = 50;
    assert_eq!(member.commit(step), DONE);
    let claims = member.claim(49, 10, 10);
    assert_eq!((claims.runs.len(), claims.next_due_ms), (0, Some(50)));
    assert_eq!(member.send(stimulus("ok", Delivery::Resume)), dropped());
    let claims = member.claim(50, 10, 10);
    assert_eq!(claims.runs[0].claimed[0].payload, None);
}

pub(super) fn large_inputs_are_blobs(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (no, _) = member.waiting("ok");
    let large = Payload::json(format!("\"{}\"", "x".repeat(INLINE_PAYLOAD_BYTES)));
    let sent = NewStimulus {
        input: large.clone(),
        ..stimulus("ok", Delivery::Resume)
    };
    assert!(!member.send(sent).dropped);
    let payload = member.only_trigger(no).payload.unwrap();
    let Resumption::Resumed { input, .. } = Resumption::decode(&payload).unwrap() else {
        panic!("it was resumed")
    };
    let Body::Blob(blob) = input.body else {
        panic!("it is a blob")
    };
    let bytes = member.store.blob(blob).unwrap().unwrap();
    assert_eq!(Some(&bytes), large.inline());
}
