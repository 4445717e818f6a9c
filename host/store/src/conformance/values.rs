//! Every store keeps all accepted keys unchanged, up to their maximum length, and any JSON as a
//! payload.

use bytes::Bytes;
use windlass_model::limits::{
    CORRELATION_BYTES, MATCH_BYTES, STIMULUS_NAME_BYTES, VARIABLE_NAME_BYTES, WORKFLOW_NAME_BYTES,
};
use windlass_model::{
    Class, Delivery, Digest, Failure, LogLine, Payload, ScopeNo, Status, stimulus, valid,
};

use super::Harness;
use super::waiting::stimulus;
use super::world::{DONE, Held, Member};
use crate::codes;
use crate::rows::{Created, JournalRow, NewRun};
use crate::stimuli::{BookmarkQuery, NewBookmark, NewStimulus};
use crate::write::{Commit, Finish};

/// Text of exactly this many bytes that no index can compress, with all kinds of characters.
fn text(bytes: usize, seed: &str) -> String {
    let mut text = String::from("\u{1}\t\n\r\u{7f}\"\\'%_é😀\u{fffd}\u{ffff}\u{10ffff} ");
    let mut at = 0;
    while text.len() < bytes {
        let Digest(hash) = Digest::of(format!("{seed} {at}").as_bytes());
        text.extend(hash.map(|byte| char::from(b'!' + byte % 90)));
        at += 1;
    }
    while text.len() > bytes {
        text.pop();
    }
    text.extend(std::iter::repeat_n('x', bytes - text.len()));
    text
}

/// JSON with values that a store might change.
fn odd() -> Payload {
    Payload::json(
        r#"{"\u0000":"\u0000\ud83d\ude00 \"","é":[1e308,-0.0,18446744073709551615,null],"":{}}"#,
    )
}

fn odd_failure() -> Failure {
    Failure::new(Class::Invalid, codes::CONTRADICTION, "\0 and \u{1} and é")
}

/// An owned run with keys of maximum length.
fn born(member: &Member, correlation: &str) -> (NewRun, Held) {
    let workflow = "w".repeat(WORKFLOW_NAME_BYTES);
    let mut new = member.draft(1);
    new.owner = Some(member.incarnation);
    new.triggers[0].claimed = true;
    new.correlation = Some(correlation.to_owned());
    new.reserves = vec![
        format!("correlation:{correlation}"),
        format!("correlated:{workflow}:{correlation}"),
    ];
    new.exclusive = new.reserves.last().cloned();
    new.input = odd();
    new.vars = vec![(text(VARIABLE_NAME_BYTES, "variable"), odd())];
    let held = Held::born(&new);
    member.create(new.clone());
    (new, held)
}

pub(super) fn keys_at_their_bounds_are_kept_and_found(harness: &dyn Harness) {
    let member = Member::join(harness);
    let correlation = text(CORRELATION_BYTES, "correlation");
    let name = text(STIMULUS_NAME_BYTES, "name");
    assert!(valid::CORRELATION.check(&correlation).is_ok() && valid::EVENT.check(&name).is_ok());
    let (new, held) = born(&member, &correlation);
    let mut rival = member.draft(1);
    (rival.reserves, rival.exclusive) = (new.reserves.clone(), new.exclusive.clone());
    let refused = member.write(rival);
    assert_eq!(refused, Ok(Created::Reserved { by: new.id }));

    let matches = format!(
        "\"{}\"",
        text(MATCH_BYTES - 40, "match").replace(['"', '\\'], ".")
    );
    let matches: serde_json::Value =
        serde_json::from_str(&matches.replace(char::is_control, " ")).unwrap();
    let matches = Bytes::from(stimulus::canonical(&matches));
    let hash = stimulus::hash(&name, &matches, None);
    let bookmark = NewBookmark {
        matches: matches.clone(),
        hash,
        correlation: Some(correlation.clone()),
        metadata: Some(Bytes::from_static(b"{\"\\u0000\":1}")),
        ..member.bookmark(&held, &name)
    };
    let assigned = text(VARIABLE_NAME_BYTES, "assigned");
    let step = Commit {
        vars: vec![(ScopeNo::ROOT, assigned.clone(), odd())],
        ..member.suspending(&held, vec![bookmark])
    };
    assert_eq!(member.commit(step), DONE);
    let vars = member.store.vars(new.no, ScopeNo::ROOT).unwrap();
    let mut expected = vec![new.vars[0].clone(), (assigned, odd())];
    expected.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(vars, expected);
    let query = BookmarkQuery {
        name: Some(name.clone()),
        correlation: Some(correlation.clone()),
        limit: 9,
        ..BookmarkQuery::default()
    };
    let [found] = &member.store.bookmarks(&query).unwrap()[..] else {
        panic!("the bookmark is found")
    };
    assert_eq!(found.bookmark.correlation.as_ref(), Some(&correlation));

    let sent = |correlation: &str, delivery| NewStimulus {
        matches: matches.clone(),
        hash,
        correlation: Some(correlation.to_owned()),
        input: odd(),
        ..stimulus(&name, delivery)
    };
    let other = text(CORRELATION_BYTES, "another");
    assert!(member.send(sent(&other, Delivery::Buffer)).buffered);
    let resumed = member.send(sent(&correlation, Delivery::Resume)).resumed;
    assert_eq!(resumed, [new.id]);
}

pub(super) fn any_text_is_kept_where_people_read_it(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (new, held) = born(&member, "7");
    let mut run = member.run(&held, None);
    run.output = Some(odd());
    run.failure = Some(odd_failure());
    let line = "\0 \u{1b}[31m é".to_owned();
    run.logs = vec![LogLine {
        level: "info".to_owned(),
        message: line.clone(),
        fields: vec![(line.clone(), line)],
    }];
    let detail = Bytes::from_static(b"{\"message\":\"\\u0000\"}");
    let journal = JournalRow {
        at_ms: 40,
        kind: "incident".to_owned(),
        detail,
    };
    let last = Commit {
        status: Status::Faulted,
        executions: vec![run.clone()],
        journal: vec![journal.clone()],
        finish: Some(Finish {
            output: None,
            failure: Some(odd_failure()),
        }),
        ..member.step(&held)
    };
    assert_eq!(member.commit(last), DONE);
    assert_eq!(member.head(new.no).failure, Some(odd_failure()));
    assert_eq!(member.store.executions(new.no, None, 9).unwrap(), [run]);
    assert_eq!(member.store.input(new.no).unwrap(), Some(odd()));
    assert_eq!(member.store.journal(new.no).unwrap(), [journal]);
}
