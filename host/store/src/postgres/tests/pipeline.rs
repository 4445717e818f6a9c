//! Statements that are sent before the answers to earlier ones arrive.

use std::sync::Arc;

use windlass_model::Delivery;
use windlass_test_servers::PostgreSql;

use super::{Keyed, in_database};
use crate::conformance::Harness as _;
use crate::conformance::waiting::stimulus;
use crate::conformance::world::{DONE, Member};
use crate::postgres::connect::Target;
use crate::write::{Commit, Removed};
use crate::{Verb as _, Writer as _};

#[test]
fn outside_of_a_transaction_nothing_is_written() {
    let database = in_database();
    let Some(url) = database.url.as_deref() else {
        return;
    };
    drop(database.store());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let target = Target::new(url, &database.options()).unwrap();
        let connection = target.writer().await.unwrap();
        let client = &connection.client;
        let sql = "INSERT INTO setting (name, value) VALUES ('paused', '1')";
        let refused = client.batch_execute(sql).await.unwrap_err();
        let code = refused.as_db_error().unwrap().code().code();
        // Read-only transaction.
        assert_eq!(code, "25006");
        client.batch_execute("BEGIN READ WRITE").await.unwrap();
        client.batch_execute(sql).await.unwrap();
        client.batch_execute("COMMIT").await.unwrap();
    });
}

#[test]
fn a_deferred_statement_that_fails_undoes_its_transaction() {
    let database = in_database();
    if !database.is_there() {
        return;
    }
    let ask = |sql: &str| database.ask(sql);
    let member = Member::join(&database);
    let held = member.born();
    let mut last = member.last(&held);
    // A step that removes other rows is never part of a batch.
    last.removed = vec![Removed::unused(member.born().trigger.no)];
    // The statement on the reservations is deferred, so its error arrives later.
    ask("ALTER TABLE windlass.reservation RENAME TO elsewhere");
    let refused = member.store.write(last.clone()).unwrap_err();
    assert!(refused.message.contains("reservation"), "{refused:?}");
    let row = member.head(held.fence.run);
    assert_eq!((row.version.0, row.finished_ms), (0, None));
    ask("ALTER TABLE windlass.elsewhere RENAME TO reservation");
    assert_eq!(member.commit(last), DONE);
}

/// The server's message about a violated constraint contains the row; the error must not.
#[test]
fn an_error_shows_nothing_of_the_row_that_is_refused() {
    let database = in_database();
    if !database.is_there() {
        return;
    }
    let member = Member::join(&database);
    let held = member.born();
    database.ask("ALTER TABLE windlass.execution ADD CONSTRAINT none_at_all CHECK (took_us < 0)");
    let refused = member.store.write(member.last(&held)).unwrap_err();
    assert!(refused.message.contains("none_at_all"), "{refused:?}");
    let shows = ["Failing row", "\\x"].map(|text| refused.message.contains(text));
    assert_eq!(shows, [false; 2], "{refused:?}");
}

/// A resumption that changes no waiting row must be repeated, although all earlier statements
/// succeeded.
#[test]
fn a_statement_that_changes_too_few_rows_is_repeated() {
    let database = in_database();
    if !database.is_there() {
        return;
    }
    let ask = |sql: &str| database.ask(sql);
    let member = Member::join(&database);
    let (_, id) = member.waiting("paid");
    // A sequence keeps its value when the transaction that used it is rolled back.
    ask("CREATE SEQUENCE windlass.seen; \
        CREATE FUNCTION windlass.not_at_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
            IF nextval('windlass.seen') = 1 THEN RETURN NULL; END IF; RETURN NEW; END $$; \
        CREATE TRIGGER not_at_first BEFORE UPDATE ON windlass.trigger \
            FOR EACH ROW EXECUTE FUNCTION windlass.not_at_first()");
    // No later statement needs an answer, so the deferred one is sent before COMMIT.
    let sent = member.send(stimulus("paid", Delivery::Resume));
    assert_eq!(sent.resumed, [id]);
    assert_eq!(ask("SELECT last_value FROM windlass.seen"), "2");
    let claims = member.claim(100, 10, 10);
    assert!(claims.runs[0].claimed[0].payload.is_some());
    // The deferred statement is sent with the claim.
    let (_, id) = member.waiting("paid");
    ask("ALTER SEQUENCE windlass.seen RESTART");
    let sent = member.send_and_take(stimulus("paid", Delivery::Resume), member.claim_for(1, 1));
    assert_eq!((&sent.resumed[..], sent.taken.len()), (&[id][..], 1));
    assert_eq!(ask("SELECT last_value FROM windlass.seen"), "3");
    assert!(sent.taken[0].claimed[0].payload.is_some());
}

#[test]
fn unordered_writes_wait_for_no_keyed_ones() {
    let database = in_database();
    if !database.is_there() {
        return;
    }
    let server = PostgreSql::shared().unwrap().unwrap();
    let store = database.store();
    let member = Member::of(Arc::clone(&store) as _);
    let held = member.born();
    let url = database.url.as_deref().unwrap();
    let keyed = Keyed::new(0);
    std::thread::scope(|scope| {
        // Another transaction holds the run until a new run has been created.
        let no = held.fence.run.0;
        let created = format!(
            "BEGIN; SELECT 1 FROM windlass.run WHERE no = {no} FOR UPDATE; \
            INSERT INTO windlass.setting (name, value) VALUES ('held', '1'); \
            DO $$ BEGIN LOOP \
                EXIT WHEN (SELECT count(*) FROM windlass.run) > 1; \
                PERFORM pg_sleep(0.01); \
            END LOOP; END $$; COMMIT"
        );
        let holder = scope.spawn(move || server.execute_in(url, &created).unwrap());
        let held_now = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
            WHERE d.datname = current_database() AND l.relation = 'windlass.setting'::regclass \
            AND l.mode = 'RowExclusiveLock'";
        while server.execute_in(url, held_now).unwrap() == "0" {}
        keyed.submit(&store, vec![(0, member.step(&held).into())]);
        member.create(member.draft(1));
        holder.join().unwrap();
    });
    let (_, answer) = keyed.answers.wait(1).pop().unwrap();
    assert_eq!(Commit::answer(answer).unwrap(), DONE);
}
