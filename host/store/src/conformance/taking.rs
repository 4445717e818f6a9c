//! A sender that delivers a stimulus may claim the resulting work in the same write.

use std::sync::Arc;

use windlass_model::{Delivery, Digest, RunId, Status, TriggerState, TriggerType};

use super::Harness;
use super::publishing::{draft, publish};
use super::waiting::stimulus;
use super::world::{DONE, Member};
use crate::external::Touched;
use crate::rows::NewRun;
use crate::stimuli::{ClaimFor, NewStimulus, Resume, Send, Sent};
use crate::write::{Commit, Leave, Release};

impl Member {
    pub(crate) fn claim_for(&self, runs: u32, triggers: u32) -> ClaimFor {
        ClaimFor {
            incarnation: self.incarnation,
            runs,
            triggers,
        }
    }

    pub(crate) fn send_and_take(&self, stimulus: NewStimulus, claim_for: ClaimFor) -> Sent {
        let at_ms = stimulus.at_ms;
        let send = Send {
            stimulus,
            starts: Vec::new(),
            queued: None,
            limit: Send::LIMIT,
            claim_for: Some(claim_for),
            descendants: u32::MAX,
            at_ms,
        };
        self.sent(send)
    }

    /// Ends all runs that the send claimed, by the fences that it returned.
    fn end_taken(&self, sent: &Sent) {
        for taken in &sent.taken {
            let held = self.held(&taken.row, &taken.claimed[0]);
            assert_eq!(self.commit(self.last(&held)), DONE);
        }
    }

    fn claims_nothing(&self) {
        let claims = self.claim(1000, 10, 10);
        assert!(claims.runs.is_empty(), "{claims:?}");
    }
}

fn ids(sent: &Sent) -> Vec<RunId> {
    sent.taken.iter().map(|taken| taken.row.id).collect()
}

pub(super) fn a_resumed_run_is_taken(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let (no, id) = member.waiting("paid");
    let before = member.head(no);
    let sent = other.send_and_take(stimulus("paid", Delivery::Resume), other.claim_for(5, 5));
    assert_eq!((&sent.resumed, ids(&sent)), (&vec![id], vec![id]));
    let taken = &sent.taken[0];
    assert!(taken.taken && taken.others.is_empty() && taken.scopes.is_empty());
    assert_eq!(taken.row, other.head(no), "as it stands there");
    assert_eq!(taken.row.owner, Some(other.incarnation));
    assert_eq!(taken.row.epoch.0, before.epoch.0 + 1);
    assert_eq!(taken.claimed, [other.only_trigger(no)]);
    assert_eq!(taken.claimed[0].state, TriggerState::Claimed);
    assert!(taken.claimed[0].payload.is_some());
    member.claims_nothing();
    other.claims_nothing();
    other.end_taken(&sent);
    assert_eq!(member.head(no).status, Status::Completed);
}

pub(super) fn a_run_that_a_token_resumes_is_taken(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let bookmark = member.bookmark(&held, "mine");
    let token = bookmark.token;
    let waits = member.suspending(&held, vec![bookmark]);
    assert_eq!(member.commit(waits), DONE);
    let resume = Resume {
        token,
        input: windlass_model::Payload::json("1"),
        blobs: Vec::new(),
        claim_for: Some(member.claim_for(1, 1)),
        at_ms: 50,
    };
    let sent = member.write(resume.clone());
    assert_eq!(ids(&sent), sent.resumed);
    assert_eq!(sent.taken.len(), 1);
    let again = member.write(resume);
    assert!(again.dropped && again.taken.is_empty());
    member.end_taken(&sent);
}

pub(super) fn a_started_run_is_taken(harness: &dyn Harness) {
    let member = Member::join(harness);
    publish(&member, draft("one"));
    let hash = Digest::of(b"paid");
    let bound = member.store.bindings(hash).unwrap();
    let starts = bound.iter().map(|row| {
        let mut new = member.draft(2);
        let stored = member.store.definition(row.definition).unwrap();
        new.definition = Arc::new(stored.unwrap());
        (row.no, new)
    });
    let mut stimulus = stimulus("paid", Delivery::Start);
    stimulus.hash = hash;
    let mut send = Send {
        stimulus,
        starts: starts.collect(),
        queued: None,
        limit: Send::LIMIT,
        claim_for: Some(member.claim_for(5, 1)),
        descendants: u32::MAX,
        at_ms: 50,
    };
    let sent = member.sent(send.clone());
    assert_eq!((&sent.started, sent.started.len()), (&ids(&sent), 1));
    let taken = &sent.taken[0];
    assert_eq!((taken.claimed.len(), taken.others.len()), (1, 1));
    assert_eq!(taken.others[0].state, TriggerState::Pending);
    // The next claim finds the triggers beyond the bound.
    let claims = member.claim(1000, 10, 10);
    assert!(!claims.runs[0].taken);
    assert_eq!(claims.runs[0].claimed[0].no, taken.others[0].no);
    // A run that was already started is not claimed, even if it has no owner.
    let fence = member.held(&taken.row, &taken.claimed[0]).fence;
    assert_eq!(member.write(Release { fence }), Ok(()));
    for (_, new) in &mut send.starts {
        let (id, request) = (new.id, new.request);
        *new = NewRun {
            id,
            request,
            definition: Arc::clone(&new.definition),
            ..member.draft(1)
        };
    }
    let again = member.sent(send);
    assert_eq!((&again.started, again.taken), (&sent.started, Vec::new()));
    let claims = member.claim(1000, 10, 10);
    assert_eq!((claims.runs.len(), claims.runs[0].claimed.len()), (1, 2));
}

pub(super) fn a_run_for_later_takes_no_room(harness: &dyn Harness) {
    let member = Member::join(harness);
    let stimulus = stimulus("paid", Delivery::StartAndResume);
    let mut new = draft("one");
    new.bindings[0].hash = stimulus.hash;
    publish(&member, new);
    let (_, id) = member.waiting("paid");
    let starts = member.store.bindings(stimulus.hash).unwrap();
    let starts = starts.iter().map(|row| {
        let mut new = member.draft(1);
        new.triggers[0].due_ms = 60;
        let stored = member.store.definition(row.definition).unwrap();
        new.definition = Arc::new(stored.unwrap());
        (row.no, new)
    });
    let send = Send {
        stimulus,
        starts: starts.collect(),
        queued: None,
        limit: Send::LIMIT,
        claim_for: Some(member.claim_for(1, 1)),
        descendants: u32::MAX,
        at_ms: 50,
    };
    let sent = member.sent(send);
    assert_eq!((sent.started.len(), &sent.resumed[..]), (1, &[id][..]));
    assert_eq!(ids(&sent), [id]);
    let row = member.store.run(sent.started[0]).unwrap().unwrap();
    assert_eq!((row.owner, row.epoch), (None, crate::rows::BORN_EPOCH));
}

pub(super) fn strangers_take_nothing(harness: &dyn Harness) {
    let (member, gone) = (Member::join(harness), Member::join(harness));
    let incarnation = gone.incarnation;
    gone.write(Leave { incarnation });
    let (no, id) = member.waiting("paid");
    let sent = member.send_and_take(stimulus("paid", Delivery::Resume), gone.claim_for(5, 5));
    assert_eq!((sent.resumed, sent.taken), (vec![id], Vec::new()));
    assert_eq!(member.only_trigger(no).state, TriggerState::Pending);
    assert_eq!(member.claim(1000, 10, 10).runs[0].row.id, id);
}

pub(super) fn no_more_is_taken_than_there_is_room_for(harness: &dyn Harness) {
    let member = Member::join(harness);
    let all: Vec<RunId> = (0..4).map(|_| member.waiting("paid").1).collect();
    let sent = member.send_and_take(stimulus("paid", Delivery::Resume), member.claim_for(3, 1));
    assert_eq!((&sent.resumed[..], &ids(&sent)[..]), (&all[..], &all[..3]));
    let rest = member.claim(1000, 10, 10);
    assert_eq!(rest.runs.len(), 1);
    assert_eq!(rest.runs[0].row.id, all[3]);
    member.end_taken(&sent);
}

/// A run that has an owner, be it the sender, gets more work. The send does not claim that
/// work: the owner's claims do, after the owner's earlier writes.
pub(super) fn an_owned_run_is_left(harness: &dyn Harness) {
    let (owner, other) = (Member::join(harness), Member::join(harness));
    for claim_for in [&owner, &other] {
        let held = owner.born();
        let step = Commit {
            release: false,
            ..owner.suspending(&held, vec![owner.bookmark(&held, "paid")])
        };
        assert_eq!(owner.commit(step), DONE);
        let before = owner.head(held.fence.run);
        let sent = claim_for.send_and_take(
            stimulus("paid", Delivery::Resume),
            claim_for.claim_for(5, 5),
        );
        assert_eq!(sent.resumed, [before.id]);
        assert_eq!(sent.taken, []);
        assert_eq!(owner.head(before.no), before);
        let claims = owner.claim(1000, 10, 10);
        assert!(!claims.runs[0].taken);
        assert_eq!(claims.runs[0].claimed.len(), 1);
    }
}

pub(super) fn a_paused_run_is_not_taken(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (no, id) = member.waiting("paid");
    assert_eq!(member.asked(id, TriggerType::Pause, 5), Touched::Done);
    member.carry_out(TriggerType::Pause, Status::Paused);
    let sent = member.send_and_take(stimulus("paid", Delivery::Resume), member.claim_for(5, 5));
    assert_eq!((sent.resumed, sent.taken), (vec![id], Vec::new()));
    assert_eq!(member.head(no).owner, None);
    // A claim parks the trigger.
    member.claims_nothing();
    assert_eq!(member.only_trigger(no).state, TriggerState::Parked);
    assert_eq!(member.asked(id, TriggerType::Unpause, 20), Touched::Done);
    member.carry_out(TriggerType::Unpause, Status::Running);
    assert_eq!(member.claim(1000, 10, 10).runs[0].claimed.len(), 1);
}

/// Two members send the same stimulus while a third one claims: each run gets exactly one owner.
pub(super) fn takers_and_claims_never_get_the_same(harness: &dyn Harness) {
    let members: Vec<Member> = (0..3).map(|_| Member::join(harness)).collect();
    for _ in 0..30 {
        let waiting = (0..6).map(|_| members[0].waiting("paid").0);
        let waiting: Vec<_> = waiting.collect();
        let taken = std::thread::scope(|scope| {
            let threads = members.iter().enumerate().map(|(place, member)| {
                scope.spawn(move || match place {
                    0 => member.claim(1000, 10, 10).runs,
                    _ => {
                        let sent = stimulus("paid", Delivery::Resume);
                        member.send_and_take(sent, member.claim_for(4, 4)).taken
                    }
                })
            });
            let threads: Vec<_> = threads.collect();
            let taken = threads.into_iter().map(|thread| thread.join().unwrap());
            taken.collect::<Vec<_>>()
        });
        for (member, taken) in members.iter().zip(taken) {
            for claimed in taken {
                assert_eq!(claimed.row.owner, Some(member.incarnation));
                let held = member.held(&claimed.row, &claimed.claimed[0]);
                assert_eq!(member.commit(member.last(&held)), DONE);
            }
        }
        for held in members[0].claim_all(1000) {
            assert_eq!(members[0].commit(members[0].last(&held)), DONE);
        }
        for no in waiting {
            assert_eq!(members[0].head(no).status, Status::Completed);
        }
    }
}
