//! Batches: their bounds, and who may change their progress.

use bytes::Bytes;
use windlass_model::BatchNo;

use super::Harness;
use super::world::Member;
use crate::Writer as _;
use crate::batches::{AddBatch, BYTES, BatchQuery, BatchRow, KEPT, MoveBatch, WORKING};
use crate::codes;
use crate::write::Fenced;

fn add(member: &Member, what: &'static str) -> Result<BatchNo, Fenced> {
    member.write(adding(what))
}

fn adding(what: &'static str) -> AddBatch {
    AddBatch {
        what: Bytes::from_static(what.as_bytes()),
        progress: Bytes::from_static(b"none"),
        at_ms: 5,
    }
}

fn change(row: &BatchRow, progress: &'static str, ends: bool) -> MoveBatch {
    MoveBatch {
        no: row.no,
        revision: row.revision,
        progress: Bytes::from_static(progress.as_bytes()),
        ends,
        at_ms: 9,
    }
}

fn row(member: &Member, no: BatchNo) -> BatchRow {
    member.store.batch(no).unwrap().unwrap()
}

fn listed(member: &Member, query: BatchQuery) -> Vec<BatchNo> {
    let rows = member.store.batches(&query).unwrap();
    rows.iter().map(|row| row.no).collect()
}

pub(super) fn the_progress_of_a_batch_is_changed_by_one_writer(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let no = add(&member, "retry").unwrap();
    let first = row(&member, no);
    let expected = BatchRow {
        no,
        what: Bytes::from_static(b"retry"),
        progress: Bytes::from_static(b"none"),
        revision: 0,
        created_ms: 5,
        ended_ms: None,
    };
    assert_eq!(first, expected);
    assert_eq!(member.write(change(&first, "half", false)), Ok(()));
    assert_eq!(
        other.write(change(&first, "third", false)),
        Err(Fenced),
        "it was changed since"
    );
    let second = row(&other, no);
    assert_eq!((&second.progress[..], second.revision), (&b"half"[..], 1));
    assert_eq!(other.write(change(&second, "all", true)), Ok(()));
    let ended = row(&member, no);
    assert_eq!(ended.ended_ms, Some(9));
    assert_eq!(
        member.write(change(&ended, "more", false)),
        Err(Fenced),
        "it has ended"
    );
    assert_eq!(row(&member, no), ended);
    assert_eq!(member.store.batch(BatchNo(i64::MAX)).unwrap(), None);
}

pub(super) fn few_batches_go_on_and_few_that_ended_are_kept(harness: &dyn Harness) {
    let member = Member::join(harness);
    let long = AddBatch {
        what: Bytes::from(vec![b'x'; BYTES + 1]),
        ..adding("")
    };
    let refused = member.store.write(long);
    assert_eq!(refused.unwrap_err().code, codes::CONTRADICTION);
    let working: Vec<BatchNo> = (0..WORKING)
        .map(|_| add(&member, "go on").unwrap())
        .collect();
    assert_eq!(add(&member, "one more"), Err(Fenced));
    let all = BatchQuery {
        limit: 1_000,
        ..BatchQuery::default()
    };
    let on = BatchQuery {
        working: true,
        ..all
    };
    assert_eq!(listed(&member, on), working);
    let newest: Vec<BatchNo> = working.iter().rev().copied().collect();
    assert_eq!(listed(&member, all), newest);
    let page = BatchQuery {
        before: Some(newest[2]),
        limit: 2,
        ..all
    };
    assert_eq!(listed(&member, page), newest[3..5]);
    // The first one goes on, and the others end one after the other.
    let mut ended = Vec::new();
    for no in &working[1..] {
        let end = change(&row(&member, *no), "done", true);
        assert_eq!(member.write(end), Ok(()));
        ended.push(*no);
    }
    for _ in 0..KEPT {
        let no = add(&member, "brief").unwrap();
        let end = change(&row(&member, no), "done", true);
        assert_eq!(member.write(end), Ok(()));
        ended.push(no);
    }
    assert_eq!(
        listed(&member, on),
        working[..1],
        "it is kept while it goes on"
    );
    let kept = listed(&member, all);
    let expected = ended.iter().rev().take(usize::try_from(KEPT).unwrap());
    let expected: Vec<BatchNo> = expected.chain(&working[..1]).copied().collect();
    assert_eq!(kept, expected);
}
