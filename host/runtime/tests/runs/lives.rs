//! Runs that are created, started, paused, retried and deleted, by a client in the process that
//! runs them and by one in another.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Clock as _, Payload, RunId, Status};
use windlass_runtime::operations::{Begun, Retry, Standing};
use windlass_runtime::{Error, Operations, StartRequest};
use windlass_store::letters::{LetterQuery, Lettered};
use windlass_store::{MemoryStore, Reader as _};
use windlass_test_seeds::Seeds;

use crate::rig::{Running, Setup, definition, json as read};

const PATIENCE: Duration = Duration::from_secs(120);

const ADD: &str = r#"
workflow: add
nodes:
  add: { set: { sum: "{{ input.a + 1 }}" } }
output: "{{ vars.sum }}"
vars: { sum: 0 }
"#;

const ASK: &str = r#"
workflow: ask
nodes:
  ask: { event: answered }
output: "{{ nodes.ask.output }}"
"#;

const FAILS: &str = r#"
workflow: fails
vars: { tries: 0 }
nodes:
  first: { set: { tries: "{{ vars.tries + 1 }}" } }
  check: { set: { ok: "{{ vars.tries / (vars.tries - 1) }}" } }
  last: { set: { done: true } }
edges: [first -> check, check -> last]
output: "{{ vars.tries }}"
"#;

fn request(workflow: &str, id: u128) -> StartRequest {
    StartRequest {
        workflow: definition(workflow).into(),
        input: Payload::json(r#"{"a":1}"#),
        id: Some(RunId(uuid::Uuid::from_u128(id))),
        correlation: None,
        trace: None,
    }
}

/// Runs the test with either client, each with its own run.
fn check(test: impl Fn(&Running, &Operations, u128)) {
    let running = Setup::default().start();
    for (client, id) in running.clients().iter().zip([7, 8]) {
        test(&running, client, id);
    }
}

fn output(standing: &Standing) -> serde_json::Value {
    let result = standing.result.as_ref().unwrap();
    assert_eq!(result.status, Status::Completed, "{:?}", result.failure);
    read(result.output.as_ref().unwrap())
}

fn answer() -> Stimulus {
    Stimulus {
        name: "answered".to_owned(),
        matches: json!(null),
        correlation: None,
        run: None,
        input: Payload::json("42"),
        delivery: Delivery::Resume,
        ttl_ms: 1_000,
        trace: None,
    }
}

#[test]
fn a_created_run_runs_when_it_is_begun() {
    check(|running, client, id| {
        let request = request(ADD, id);
        let created = running.block_on(client.create(request.clone())).unwrap();
        let again = running.block_on(client.create(request)).unwrap();
        assert_eq!(again.existing.unwrap().status, Status::Pending);
        let look = running.block_on(client.result(created.id, Duration::ZERO));
        let look = look.unwrap();
        assert_eq!((look.status, look.done), (Status::Pending, false));
        assert_eq!(
            running.block_on(client.begin(created.id)).unwrap(),
            Begun::Now
        );
        let ended = running
            .block_on(client.result(created.id, PATIENCE))
            .unwrap();
        assert_eq!(output(&ended), json!(2));
        let over = running.block_on(client.begin(created.id));
        assert!(matches!(over, Err(Error::NotNow { .. })), "{over:?}");
        assert!(running.block_on(client.exists(created.id)).unwrap());
    });
}

#[test]
fn a_run_that_was_only_created_begins_with_a_later_start() {
    check(|running, client, id| {
        let request = request(ADD, id);
        running.block_on(client.create(request.clone())).unwrap();
        let started = running.block_on(client.create_and_run(request)).unwrap();
        assert!(started.existing.is_some());
        let ended = running
            .block_on(client.result(started.id, PATIENCE))
            .unwrap();
        assert_eq!(output(&ended), json!(2));
    });
}

#[test]
fn a_run_for_later_begins_at_its_time_or_when_it_is_begun() {
    check(|running, client, id| {
        let now_ms = running.clock().wall_ms();
        let later = client.create_for(request(ADD, id), now_ms + 3_600_000);
        let later = running.block_on(later).unwrap();
        let soon = client.create_for(request(ADD, id + 100), now_ms + 1);
        let soon = running.block_on(soon).unwrap();
        let ended = running.block_on(client.result(soon.id, PATIENCE)).unwrap();
        assert_eq!(output(&ended), json!(2));
        let look = running.block_on(client.result(later.id, Duration::ZERO));
        assert_eq!(look.unwrap().status, Status::Pending);
        assert_eq!(
            running.block_on(client.begin(later.id)).unwrap(),
            Begun::Now
        );
        let ended = client.result(later.id, PATIENCE);
        assert_eq!(output(&running.block_on(ended).unwrap()), json!(2));
    });
}

#[test]
fn triggers_of_a_paused_run_are_kept() {
    check(|running, client, id| {
        let started = running
            .block_on(client.create_and_run(request(ASK, id)))
            .unwrap();
        running.suspended(started.no);
        let paused = running
            .block_on(client.pause(started.id, PATIENCE))
            .unwrap();
        assert!(paused.done, "{paused:?}");
        let sent = running.send(&answer());
        assert_eq!(sent.resumed.len(), 1, "{sent:?}");
        let parked = |store: &MemoryStore| store.counts().unwrap().parked == 1;
        running.until("the resumption is put aside", parked);
        let again = running
            .block_on(client.pause(started.id, PATIENCE))
            .unwrap();
        assert_eq!(again.status, Status::Paused);
        let goes_on = running
            .block_on(client.unpause(started.id, PATIENCE))
            .unwrap();
        assert!(goes_on.done, "{goes_on:?}");
        let ended = running
            .block_on(client.result(started.id, PATIENCE))
            .unwrap();
        assert_eq!(ended.status, Status::Completed);
    });
}

#[test]
fn a_paused_run_can_be_cancelled() {
    check(|running, client, id| {
        let started = running
            .block_on(client.create_and_run(request(ASK, id)))
            .unwrap();
        running.suspended(started.no);
        running
            .block_on(client.pause(started.id, PATIENCE))
            .unwrap();
        let ended = running
            .block_on(client.cancel(started.id, PATIENCE))
            .unwrap();
        assert_eq!(ended.status, Status::Cancelled);
    });
}

#[test]
fn a_failed_run_can_be_retried() {
    check(|running, client, id| {
        let started = running
            .block_on(client.create_and_run(request(FAILS, id)))
            .unwrap();
        let look = || {
            running
                .block_on(client.result(started.id, PATIENCE))
                .unwrap()
        };
        assert_eq!(look().status, Status::Faulted);
        let retry = |retry| running.block_on(client.retry(started.id, retry, PATIENCE));
        // The cause is not repaired, so the run fails again.
        assert_eq!(retry(Retry::default()).unwrap().status, Status::Faulted);
        let from = |node: &str| Retry {
            from: Some(node.to_owned()),
            ..Retry::default()
        };
        assert!(matches!(retry(from("nothing")), Err(Error::Refused { .. })));
        let ended = retry(from("first")).unwrap();
        assert_eq!(output(&ended), json!(2));
        assert!(matches!(retry(Retry::default()), Err(Error::NotNow { .. })));
        let journal = running.store.journal(started.no).unwrap();
        let retried = journal.iter().filter(|row| row.kind == "retried").count();
        assert_eq!(retried, 2);
    });
}

#[test]
fn a_deleted_run_does_not_come_back() {
    check(|running, client, id| {
        let request = request(ASK, id);
        let started = running
            .block_on(client.create_and_run(request.clone()))
            .unwrap();
        running.suspended(started.no);
        assert!(
            running
                .block_on(client.delete(started.id, PATIENCE))
                .unwrap()
        );
        assert!(!running.block_on(client.exists(started.id)).unwrap());
        let again = running.block_on(client.create_and_run(request));
        assert!(matches!(again, Err(Error::Deleted(_))), "{again:?}");
        let gone = running.block_on(client.result(started.id, Duration::ZERO));
        assert!(matches!(gone, Err(Error::NotFound(_))), "{gone:?}");
        let gone = running.block_on(client.delete(started.id, PATIENCE));
        assert!(matches!(gone, Err(Error::NotFound(_))), "{gone:?}");
        assert_eq!(running.store.executions(started.no, None, 10).unwrap(), []);
        assert_eq!(running.send(&answer()).resumed.len(), 0);
    });
}

/// How often a run meets a request about it. Several rounds try each kind of request.
const LIVES: Seeds = Seeds::new(2_000, 4_000);

/// How often a resumption meets a cancellation.
const RACES: Seeds = Seeds::new(500, 1_000);

/// A run begins and ends while a user pauses, continues, cancels or deletes it at the same moment:
/// the run ends in an allowed status, and no waiter waits for ever.
///
/// Takes half a minute: the race is run some hundred times.
#[test]
fn a_run_ends_once_under_all_interventions() {
    let running = Setup::default().start();
    let clients = running.clients();
    let mut ends = BTreeMap::<_, u32>::new();
    for round in LIVES.range().map(u128::from) {
        let client = &clients[usize::from(round % 8 == 7)];
        let created = client.create(request(ADD, 1_000 + round));
        let id = running.block_on(created).unwrap().id;
        let what = round % 4;
        running.block_on(async {
            let meddle = async {
                match what {
                    0 => allowed(client.cancel(id, Duration::ZERO).await),
                    2 => drop(client.delete(id, PATIENCE).await.unwrap()),
                    _ => allowed(client.pause(id, Duration::ZERO).await),
                }
            };
            let (begun, ()) = tokio::join!(client.begin(id), meddle);
            let over = matches!(begun, Err(Error::NotNow { .. } | Error::NotFound(_)));
            assert!(begun.is_ok() || over, "{begun:?}");
            match what {
                1 => allowed(client.unpause(id, Duration::ZERO).await),
                3 => allowed(client.cancel(id, Duration::ZERO).await),
                _ => {}
            }
        });
        let end = match running.block_on(client.result(id, PATIENCE)) {
            Ok(standing) => {
                assert!(standing.done, "{standing:?}");
                standing.status.name()
            }
            Err(Error::NotFound(_)) => "deleted",
            Err(error) => panic!("{error}"),
        };
        let may = match what {
            1 => &["completed"][..],
            2 => &["deleted"],
            _ => &["completed", "cancelled"],
        };
        assert!(may.contains(&end), "{end} in round {round}");
        *ends
            .entry((
                ["cancel", "pause", "delete", "pause and cancel"][what as usize],
                end,
            ))
            .or_default() += 1;
    }
    println!("{ends:?}");
}

/// A resumption races against a cancellation: the run is completed, or the resumption is one dead
/// letter. In two rounds of three, the sender's clock is ahead of the host's. Then the row is due
/// later than the cancellation, and the host knows of the resumption before it claims it.
#[test]
fn a_resumption_that_races_a_cancellation_is_heard_or_dead() {
    let running = Setup::default().start();
    let [client, _] = running.clients();
    let mut ends = BTreeMap::<_, u32>::new();
    let mut replayed = 0;
    for round in RACES.range().map(u128::from) {
        let started = client.create_and_run(request(ASK, 5_000 + round));
        let started = running.block_on(started).unwrap();
        running.until("it waits", |store| store.counts().unwrap().bookmarks == 1);
        let before = running.store.counts().unwrap().dead_letters;
        let ahead_ms = i64::try_from(round % 3).unwrap();
        let sent = std::thread::scope(|scope| {
            let sent = scope.spawn(|| running.try_send_ahead(ahead_ms, &answer()).unwrap());
            allowed(running.block_on(client.cancel(started.id, Duration::ZERO)));
            sent.join().unwrap()
        });
        let ended = running
            .block_on(client.result(started.id, PATIENCE))
            .unwrap();
        let letters = running.store.counts().unwrap().dead_letters - before;
        let resumed = sent.resumed.len() as u64;
        match ended.status {
            Status::Completed => assert_eq!((resumed, letters), (1, 0), "round {round}"),
            Status::Cancelled => {
                assert_eq!(resumed, letters, "round {round}");
                if letters == 1 && replayed < 3 {
                    replayed += 1;
                    check_replayed(&running, &client, started.id);
                }
            }
            other => panic!("{other}"),
        }
        *ends.entry((ended.status.name(), resumed)).or_default() += 1;
    }
    println!("{ends:?}");
}

/// Replaying the newest dead letter continues its run with the letter's payload, once.
#[track_caller]
fn check_replayed(running: &Running, client: &Operations, id: RunId) {
    let query = LetterQuery {
        limit: u32::MAX,
        ..LetterQuery::default()
    };
    let letters = running.store.dead_letters(&query).unwrap();
    let no = letters.last().unwrap().no;
    let replay = || running.block_on(client.replay(no)).unwrap();
    assert_eq!(replay(), Lettered::Done);
    assert_eq!(replay(), Lettered::Already);
    let ended = running.block_on(client.result(id, PATIENCE)).unwrap();
    assert_eq!(output(&ended), json!(42));
    let rows = running.store.dead_letters(&query).unwrap();
    assert!(rows.last().unwrap().replayed_ms.is_some());
    assert_eq!(rows.len(), letters.len(), "what it was given is heard");
}

fn allowed(asked: Result<Standing, Error>) {
    match asked {
        Ok(_) | Err(Error::NotNow { .. } | Error::NotFound(_)) => {}
        Err(error) => panic!("{error}"),
    }
}
