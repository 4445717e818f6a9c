//! Lost connections and server failures: no acknowledged write is lost, and none is repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use windlass_model::{Clock, Epoch, StimulusNo};
use windlass_test_servers::PostgreSql;

use super::{InDatabase, Keyed, in_database};
use crate::conformance::TestClock;
use crate::conformance::world::{DONE, Held, Member, batch_of};
use crate::drafts::DiscardDraft;
use crate::letters::PurgeLetters;
use crate::postgres::connect::Connection;
use crate::postgres::session::{Done, Session, Trace};
use crate::postgres::{PostgresOptions, PostgresStore};
use crate::read::Reader as _;
use crate::settings::Setting;
use crate::stimuli::QueueOp;
use crate::write::{Fence, Fenced, Release, Unpark};
use crate::{Store as _, Writer as _, codes};

/// A fault of a commit.
#[derive(Clone, Copy, Debug)]
pub(in crate::postgres) enum Trouble {
    /// The transaction is committed, and the connection is lost before the answer.
    Written,
    /// The connection is lost before the COMMIT arrives.
    NotWritten,
}

/// Instances that are stepped in parallel.
const CHAINS: usize = 4;

fn open(url: &str) -> Arc<PostgresStore> {
    let clock: Arc<dyn Clock> = Arc::new(TestClock::default());
    let options = PostgresOptions {
        ahead: Some(Arc::clone(&clock)),
        reconnect_ms: 60_000,
        write_connections: CHAINS,
        ..PostgresOptions::new(clock)
    };
    PostgresStore::open(url, options).unwrap()
}

/// Commits steps of several runs, each over a connection of its own, while `harm` is done to
/// the server repeatedly.
fn check_under(harm: impl Fn(&PostgreSql) + Send + Sync) {
    const STEPS: u64 = 100;
    const STEPS_BETWEEN: u64 = 50;
    let Some(server) = PostgreSql::for_test().unwrap() else {
        return;
    };
    let store = open(&server.database().unwrap());
    let member = Member::of(Arc::<PostgresStore>::clone(&store));
    let firsts: Vec<Held> = (0..CHAINS).map(|_| member.born()).collect();
    let (over, harmed, done) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let steps: Vec<_> = std::thread::scope(|scope| {
        let harming = Arc::new(scope.spawn(|| {
            let mut next = STEPS_BETWEEN;
            while !over.load(Ordering::Acquire) {
                if done.load(Ordering::Acquire) >= next {
                    harm(&server);
                    harmed.fetch_add(1, Ordering::AcqRel);
                    next = done.load(Ordering::Acquire) + STEPS_BETWEEN;
                }
                std::thread::yield_now();
            }
        }));
        let chains: Vec<_> = firsts
            .iter()
            .enumerate()
            .map(|(no, first)| {
                let (store, member, harmed, done) = (&store, &member, &harmed, &done);
                let harming = Arc::clone(&harming);
                scope.spawn(move || {
                    let keyed = Keyed::new(no);
                    let mut held = *first;
                    let mut steps = 0;
                    // Until there was both enough work and enough harm, or the thread that does the
                    // harm has panicked, which the scope reports.
                    while steps < STEPS
                        || (harmed.load(Ordering::Acquire) < 3 && !harming.is_finished())
                    {
                        let step = member.chained(&held, steps + 2);
                        let wrote = keyed.write(store, step).unwrap();
                        assert_eq!(wrote, DONE, "at {steps}");
                        held = held.next();
                        steps += 1;
                        done.fetch_add(1, Ordering::AcqRel);
                    }
                    steps
                })
            })
            .collect();
        let steps = chains.into_iter().map(|chain| chain.join()).collect();
        over.store(true, Ordering::Release);
        steps
    });
    // The server works again.
    let steps: Vec<u64> = steps.into_iter().map(|steps| steps.unwrap()).collect();
    for (first, steps) in firsts.iter().zip(&steps) {
        let head = member.head(first.fence.run);
        assert_eq!(head.version.0.cast_unsigned(), *steps);
    }
    assert_eq!(
        member.store.counts().unwrap().executions,
        steps.iter().sum::<u64>()
    );
}

#[test]
fn terminated_connections_lose_nothing_and_double_nothing() {
    check_under(|server| {
        server.terminate_connections().unwrap();
    });
}

#[test]
fn a_server_that_is_killed_loses_nothing_and_doubles_nothing() {
    check_under(|server| {
        server.kill().unwrap();
        server.start_again().unwrap();
    });
}

/// Injects faults into the commits of one step, and checks the outcome.
fn check_trouble(troubles: &[Trouble]) {
    let harness = in_database();
    if harness.url.is_none() {
        return;
    }
    let store = harness.store();
    let member = Member::of(Arc::<PostgresStore>::clone(&store));
    let held = member.born();
    *store.shared.troubles.lock() = troubles.to_vec();
    let wrote = member.commit(member.chained(&held, 2));
    assert_eq!(wrote, DONE, "{troubles:?}");
    let head = member.head(held.fence.run);
    assert_eq!(head.version.0, 1, "{troubles:?}");
    assert_eq!(member.store.counts().unwrap().executions, 1, "{troubles:?}");
    assert!(store.shared.troubles.lock().is_empty());
}

#[test]
fn a_commit_that_is_cut_off_is_asked_for() {
    check_trouble(&[Trouble::Written]);
    check_trouble(&[Trouble::NotWritten]);
    check_trouble(&[Trouble::Written, Trouble::NotWritten]);
}

/// A server that the test may kill, a store with a short reconnection time on it, and the store's
/// URL.
fn on_a_server_of_its_own() -> Option<(PostgreSql, Arc<PostgresStore>, String)> {
    let server = PostgreSql::for_test().unwrap()?;
    let url = server.database().unwrap();
    let harness = InDatabase {
        clock: Arc::default(),
        url: Some(url.clone()),
    };
    let options = PostgresOptions {
        reconnect_ms: 100,
        ..harness.options()
    };
    let store = PostgresStore::open(&url, options).unwrap();
    Some((server, store, url))
}

#[test]
fn a_write_that_cannot_be_looked_up_is_answered_as_unknown() {
    let Some((server, store, _)) = on_a_server_of_its_own() else {
        return;
    };
    let member = Member::of(Arc::<PostgresStore>::clone(&store));
    let held = member.born();
    *store.shared.before_trouble.lock() = Some(Box::new(move || server.kill().unwrap()));
    *store.shared.troubles.lock() = vec![Trouble::Written];
    let error = store.write(member.chained(&held, 2)).unwrap_err();
    assert_eq!(error.code, codes::UNKNOWN_OUTCOME, "{error}");
    // From now on no COMMIT was sent, so the outcome is known.
    let error = store.write(Unpark).unwrap_err();
    assert_eq!((error.code, error.transient), (codes::UNREACHABLE, true));
    let error = store.counts().unwrap_err();
    assert_eq!((error.code, error.transient), (codes::UNREACHABLE, true));
}

#[test]
fn a_server_that_is_gone_is_looked_for_once_for_all_that_waits() {
    let Some((server, store, url)) = on_a_server_of_its_own() else {
        return;
    };
    let port = url
        .rsplit(':')
        .next()
        .and_then(|rest| rest.split('/').next());
    let port: u16 = port.unwrap().parse().unwrap();
    server.kill().unwrap();
    // Another server listens on the port now, and closes each connection.
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    std::thread::spawn(move || {
        for _ in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    for answer in batch_of(&*store, [Unpark; 200]) {
        assert!(answer.unwrap_err().transient);
    }
    let calls = calls.load(Ordering::SeqCst);
    assert!((1..50).contains(&calls), "{calls} attempts");
}

/// The lane of the transactions in the next test.
const LANE: i64 = 7;

/// A transaction that leaves a trace, up to its COMMIT.
async fn leave<'a>(
    connection: &'a mut Connection,
    store: &'a PostgresStore,
    no: i64,
) -> Done<Session<'a>> {
    let mut session = Session::new(connection, &store.shared);
    session.begin().await?;
    let trace = Trace {
        process: LANE,
        no,
        swept: 0,
    };
    session.leave_trace(trace).await?;
    session.one("SELECT 1", &[]).await?;
    Ok(session)
}

async fn is_written(connection: &mut Connection, store: &PostgresStore, no: i64) -> bool {
    let mut session = Session::new(connection, &store.shared);
    session.is_written(LANE, no).await.unwrap()
}

#[test]
fn a_transaction_that_was_given_up_is_not_written_later() {
    let harness = in_database();
    if harness.url.is_none() {
        return;
    }
    let store = harness.store();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut old = store.shared.target.writer().await.unwrap();
        let mut new = store.shared.target.writer().await.unwrap();
        // The transaction has not reached the server yet, and now it is too late.
        assert!(!is_written(&mut new, &store, 1).await);
        assert!(leave(&mut old, &store, 1).await.is_err());
        old.client.batch_execute("ROLLBACK").await.unwrap();
        assert!(!is_written(&mut new, &store, 1).await);
        // The server still carries the transaction out: the check waits for its end.
        for (no, ends_well) in [(2, true), (3, false)] {
            let mut session = leave(&mut old, &store, no).await.ok().unwrap();
            let end = async {
                let waiting = "select count(*) from pg_locks l join pg_stat_activity a \
                    using (pid) where not l.granted and a.datname = current_database()";
                while harness.ask(waiting) != "1" {
                    tokio::task::yield_now().await;
                }
                if ends_well {
                    session.commit().await.unwrap();
                } else {
                    let client = &session.connection.client;
                    client.batch_execute("ROLLBACK").await.unwrap();
                }
            };
            let asked = is_written(&mut new, &store, no);
            let (written, ()) = futures::future::join(asked, end).await;
            assert_eq!(written, ends_well);
        }
    });
}

#[test]
fn traces_are_swept() {
    const STEPS: u64 = 600;
    let harness = in_database();
    if harness.url.is_none() {
        return;
    }
    let member = Member::of(harness.store());
    let mut held = member.born();
    for seq in 0..STEPS {
        assert_eq!(member.commit(member.chained(&held, seq + 2)), DONE);
        held = held.next();
    }
    let traces = || -> u64 {
        let count = harness.ask("select count(*) from windlass.trail");
        count.parse().unwrap()
    };
    assert!((1..STEPS / 2).contains(&traces()), "{}", traces());
    member.die();
    assert_eq!(traces(), 0);
}

#[test]
fn refused_and_idle_verbs_leave_no_trace() {
    let harness = in_database();
    if harness.url.is_none() {
        return;
    }
    let member = Member::of(harness.store());
    let held = member.born();
    let fence = Fence {
        epoch: Epoch(9),
        ..held.fence
    };
    let traces =
        || harness.ask("select array_agg((process, no) order by process, no) from windlass.trail");
    let before = traces();
    let store = &member.store;
    assert_eq!(store.write(Release { fence }).unwrap(), Err(Fenced));
    let draft = DiscardDraft {
        name: "absent".into(),
        revision: None,
    };
    assert_eq!(store.write(draft).unwrap(), Err(Fenced));
    let gone = QueueOp::Delete { no: StimulusNo(1) };
    assert_eq!(store.write(gone).unwrap(), Err(Fenced));
    let purge = PurgeLetters {
        before_ms: 0,
        limit: 1,
    };
    assert_eq!(store.write(purge).unwrap(), 0);
    assert_eq!(traces(), before);
    store
        .write(Setting {
            name: "written".into(),
            value: None,
        })
        .unwrap();
    assert_ne!(traces(), before);
}

#[test]
fn a_server_that_is_gone_is_told_until_a_write_reaches_it_again() {
    let Some((server, store, _)) = on_a_server_of_its_own() else {
        return;
    };
    store.probe().unwrap();
    server.kill().unwrap();
    // Processes of a killed server may answer until they notice its death.
    let error = loop {
        match store.probe() {
            Ok(()) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code, codes::UNREACHABLE, "{error}");
    server.start_again().unwrap();
    store.write(Unpark).unwrap();
    store.probe().unwrap();
}
