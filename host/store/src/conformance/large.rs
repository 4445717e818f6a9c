//! Large payloads and large numbers of writes.

use std::sync::Arc;

use bytes::Bytes;
use windlass_model::limits::INLINE_PAYLOAD_BYTES;
use windlass_model::{BlobRef, Body, Digest, Payload, ScopeNo};

use super::Harness;
use super::world::{Answers, DONE, Held, Member, batch};
use crate::rows::NewBlob;
use crate::write::{Commit, Flush};
use crate::{Sink, Ticket, Verb as _, Write};

fn of_length(length: usize, fill: u8) -> (Payload, Payload) {
    let bytes = Bytes::from(vec![fill; length]);
    let digest = Digest::of(&bytes);
    let blob = Body::Blob(BlobRef {
        digest,
        size: length as u64,
    });
    let content_type = Some("application/x-case".to_owned());
    let stored = Payload {
        content_type: content_type.clone(),
        body: blob,
    };
    (
        Payload {
            content_type,
            body: Body::Inline(bytes),
        },
        stored,
    )
}

pub(super) fn large_payloads_become_blobs(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (largest, _) = of_length(INLINE_PAYLOAD_BYTES, b'a');
    let (over, over_stored) = of_length(INLINE_PAYLOAD_BYTES + 1, b'b');
    let (big, big_stored) = of_length(3_000_000, b'c');
    let mut new = member.draft(1);
    new.owner = Some(member.incarnation);
    new.triggers[0].claimed = true;
    new.input = over;
    new.vars = vec![("v".into(), largest.clone())];
    let trigger = new.triggers[0].no;
    let no = member.create(new);
    assert_eq!(member.store.input(no).unwrap(), Some(over_stored));
    assert_eq!(member.store.vars(no, ScopeNo::ROOT).unwrap()[0].1, largest);
    let row = member.head(no);
    let fence = crate::write::Fence {
        incarnation: member.incarnation,
        run: no,
        epoch: row.epoch,
        version: row.version,
    };
    let trigger = crate::write::TriggerFence {
        no: trigger,
        token: windlass_model::Token(1),
    };
    let mut last = member.last(&Held { fence, trigger });
    last.executions[0].output = Some(big.clone());
    last.finish.as_mut().unwrap().output = Some(big.clone());
    last.vars = vec![(ScopeNo::ROOT, "v".into(), big.clone())];
    let run = last.executions[0].no;
    assert_eq!(member.commit(last), DONE);
    assert_eq!(
        member.store.execution_output(run).unwrap(),
        Some(big_stored.clone())
    );
    assert_eq!(member.store.output(no).unwrap(), Some(big_stored.clone()));
    assert_eq!(
        member.store.vars(no, ScopeNo::ROOT).unwrap()[0].1,
        big_stored
    );
    let Body::Blob(blob) = big_stored.body else {
        panic!("it is a blob")
    };
    assert_eq!(member.store.blob(blob).unwrap().as_ref(), big.inline());
    assert_eq!(member.store.counts().unwrap().blobs, 2);
}

pub(super) fn a_part_of_a_blob_is_read(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let mut step = member.chained(&held, 2);
    let content: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
    let content = Bytes::from(content);
    let digest = Digest::of(&content);
    step.executions[0].output = Some(Payload {
        content_type: None,
        body: Body::Inline(content.clone()),
    });
    let output = step.executions[0].output.clone();
    assert_eq!(member.commit(step), DONE);
    let size = content.len() as u32;
    let blob = BlobRef {
        digest,
        size: u64::from(size),
    };
    // Another run has the same value.
    let mut other = member.chained(&member.born(), 2);
    other.executions[0].output = output;
    assert_eq!(member.commit(other), DONE);
    assert_eq!(member.store.counts().unwrap().blobs, 1);
    assert!(member.store.blob(blob).unwrap().as_ref() == Some(&content));
    for (from, limit) in [
        (0, 0),
        (0, 1),
        (0, 65_536),
        (1, 4_096),
        (2_345_678, 70_001),
        (size - 1, 1),
        (size - 1, 9),
        (size, 1),
        (size + 1, 1),
        (u32::MAX >> 1, 5),
        (0, size),
        (3, u32::MAX >> 1),
    ] {
        let end = size.min(from.saturating_add(limit));
        let wanted = content.slice(size.min(from) as usize..end as usize);
        let part = member.store.blob_part(blob, from, limit).unwrap();
        assert!(part == Some(wanted), "{limit} from {from}");
    }
    let digest = Digest::of(b"nothing");
    let none = BlobRef { digest, size: 9 };
    assert_eq!(member.store.blob_part(none, 0, 9).unwrap(), None);
}

pub(super) fn equal_blobs_are_one(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (payload, stored) = of_length(100_000, b'd');
    for _ in 0..3 {
        let held = member.born();
        let mut step = member.step(&held);
        step.executions[0].output = Some(payload.clone());
        assert_eq!(member.commit(step), DONE);
    }
    let held = member.born();
    let mut step = member.step(&held);
    let Body::Blob(blob) = stored.body else {
        panic!("it is a blob")
    };
    let bytes = payload.inline().unwrap().clone();
    step.blobs = vec![NewBlob {
        digest: blob.digest,
        bytes,
    }];
    step.executions[0].output = Some(stored.clone());
    let run = step.executions[0].no;
    assert_eq!(member.commit(step), DONE);
    assert_eq!(member.store.execution_output(run).unwrap(), Some(stored));
    assert_eq!(member.store.counts().unwrap().blobs, 1);
}

pub(super) fn large_batches_are_answered_in_order(harness: &dyn Harness) {
    const CHAINS: usize = 1500;
    let member = Member::join(harness);
    let news: Vec<_> = (0..CHAINS)
        .map(|_| {
            let mut new = member.draft(1);
            new.owner = Some(member.incarnation);
            new.triggers[0].claimed = true;
            new
        })
        .collect();
    let held: Vec<Held> = news
        .iter()
        .map(|new| Held {
            fence: crate::write::Fence {
                incarnation: member.incarnation,
                run: new.no,
                epoch: crate::rows::BORN_EPOCH,
                version: crate::rows::BORN_VERSION,
            },
            trigger: crate::write::TriggerFence {
                no: new.triggers[0].no,
                token: windlass_model::Token(1),
            },
        })
        .collect();
    let creates = news.into_iter().map(Write::from);
    let steps = held.iter().map(|held| member.chained(held, 2).into());
    let lasts = held.iter().map(|held| member.last(&held.next()).into());
    let answers = batch(&*member.store, creates.chain(steps).chain(lasts).collect());
    assert!(answers.iter().all(Result::is_ok));
    assert!(
        answers
            .into_iter()
            .skip(CHAINS)
            .all(|answer| Commit::answer(answer).unwrap() == DONE)
    );
    let counts = member.store.counts().unwrap();
    assert_eq!((counts.unfinished, counts.triggers), (0, 0));
    assert_eq!(counts.executions, 2 * CHAINS as u64);
}

pub(super) fn many_submitters_are_all_answered(harness: &dyn Harness) {
    const THREADS: usize = 4;
    const STEPS: u64 = 100;
    let member = Member::join(harness);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (member, first) = (&member, member.born());
            scope.spawn(move || {
                let answers = Arc::new(Answers::default());
                let sink: Arc<dyn Sink> = Arc::clone(&answers) as Arc<dyn Sink>;
                let mut held = first;
                for seq in 0..STEPS {
                    let step = member.chained(&held, seq + 2);
                    member.store.submit(&sink, vec![(seq, step.into())]);
                    held = held.next();
                }
                let answers = answers.wait(STEPS as usize);
                let tickets: Vec<Ticket> = answers.iter().map(|(ticket, _)| *ticket).collect();
                assert_eq!(tickets, (0..STEPS).collect::<Vec<_>>());
                assert!(
                    answers
                        .into_iter()
                        .all(|(_, answer)| Commit::answer(answer).unwrap() == DONE)
                );
            });
        }
    });
    member.write(Flush);
    assert_eq!(
        member.store.counts().unwrap().executions,
        THREADS as u64 * STEPS
    );
}
