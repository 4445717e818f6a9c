//! Files that are not stores, or not stores for this program.

use std::path::Path;

use serde_json::{Value, json};
use windlass_tests::harness::{Place, Web};

/// Starts a run in a place whose store is in some state, and expects this error; the file must not
/// be changed.
#[track_caller]
fn check(place: &Place, code: &str) {
    let workflow = json!({ "workflow": "one", "nodes": { "it": { "use": "steps/effect" } } });
    let file = place.workflow("one", &workflow).display().to_string();
    let before = std::fs::read(place.store()).ok();
    for command in [
        vec!["run", &file],
        vec!["runs", "start", &file],
        vec!["serve"],
    ] {
        let said = place.say(&[&["-o", "jsonl"], command.as_slice()].concat());
        assert_eq!(said.exit, Some(50), "{command:?}: {said:#?}");
        let error = said.error();
        assert_eq!(error["code"], code, "{command:?}: {error:#}");
        let near = place.store().parent().expect("a file is in a directory");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(
            message.contains(&near.display().to_string()),
            "{command:?} does not say where: {message}"
        );
        assert!(
            error["help"].is_string(),
            "{command:?} does not say what to do: {error:#}"
        );
    }
    assert_eq!(
        std::fs::read(place.store()).ok(),
        before,
        "the file is left as it was"
    );
}

fn place_with_store(content: &[u8]) -> Place {
    let place = Place::new(&["steps"]);
    make_directory(place.store());
    std::fs::write(place.store(), content).expect("a file can be written");
    place
}

fn make_directory(store: &Path) {
    let directory = store.parent().expect("a file is in a directory");
    std::fs::create_dir_all(directory).expect("a directory can be made");
}

/// A store with a finished run in it, closed and in one file.
fn used() -> Place {
    let place = Place::new(&["steps"]);
    let workflow = json!({ "workflow": "one", "nodes": { "it": { "use": "steps/effect" } } });
    let file = place.workflow("one", &workflow).display().to_string();
    place.ask(&["run", &file]);
    place
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    check(
        &place_with_store(
            b"Dear diary, today I hauled a heavy line.\n"
                .repeat(100)
                .as_slice(),
        ),
        "WL-S002",
    );
}

#[test]
fn a_database_of_another_program_is_refused() {
    let other = Place::new(&[]);
    let path = other.path("other.db");
    let connection = rusqlite::Connection::open(&path).expect("a database can be made");
    connection
        .execute_batch("CREATE TABLE song (title TEXT);")
        .expect("a table can be made");
    drop(connection);
    let bytes = std::fs::read(path).expect("a file can be read");
    check(&place_with_store(&bytes), "WL-S002");
}

#[test]
fn a_database_of_a_newer_program_is_refused() {
    let place = used();
    let connection = rusqlite::Connection::open(place.store()).expect("it is a database");
    connection
        .pragma_update(None, "user_version", 9_999)
        .expect("it can be written");
    // A program that knows less than the store demands is refused, not one that knows less than all.
    let demanded = "UPDATE requirement SET layout = 9999, program = '99.0.0'";
    connection.execute(demanded, []).expect("it can be written");
    connection
        .pragma_update(None, "journal_mode", "DELETE")
        .expect("it can be written");
    drop(connection);
    let bytes = std::fs::read(place.store()).expect("a file can be read");
    check(&place_with_store(&bytes), "WL-S003");
}

#[test]
fn a_damaged_database_is_refused() {
    let place = used();
    let connection = rusqlite::Connection::open(place.store()).expect("it is a database");
    connection
        .pragma_update(None, "journal_mode", "DELETE")
        .expect("it can be written");
    drop(connection);
    let mut bytes = std::fs::read(place.store()).expect("a file can be read");
    // The header is kept; the list of tables and everything after it is overwritten.
    for byte in bytes.iter_mut().skip(100) {
        *byte = 0xa5;
    }
    check(&place_with_store(&bytes), "WL-S004");
}

#[test]
fn a_store_below_a_file_is_refused() {
    let place = Place::new(&["steps"]);
    let blocking = place.file("blocking", b"a file");
    check(&place.with_store(blocking.join("windlass.db")), "WL-S001");
}

fn one() -> serde_json::Value {
    json!({
        "workflow": "one",
        "triggers": { "hook": { "http": { "path": "/one" } } },
        "nodes": { "it": { "use": "echo/echo" } },
    })
}

fn beside(place: &Place, ending: &str) -> std::path::PathBuf {
    let mut name = place.store().as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn log_of(place: &Place) -> std::path::PathBuf {
    beside(place, "-wal")
}

fn cut(path: &Path) {
    let file = std::fs::File::options().write(true).open(path);
    let cut = file.and_then(|file| file.set_len(0));
    cut.expect("a file can be cut short");
}

/// Damages the store of a running host, and checks its answers, and the error of the next process
/// on that store.
#[track_caller]
fn check_taken_away(happens: impl FnOnce(&Place), code: &str) {
    let place = Place::new(&["echo"]);
    let web = Web::serve(&place);
    web.publish(&one());
    let run = web.start("one", &json!({}));
    assert_eq!(web.result(&run)["status"], "completed");
    assert_eq!(web.get_any("/readyz").status, 200);
    happens(&place);
    let answer = web.post("/api/v1/runs", &json!({ "workflow": "one" }));
    assert!(answer.status >= 500, "{answer:?}");
    let ready = web.get_any("/readyz");
    assert_eq!(ready.problem(), (503, "WL-H035".to_owned()));
    assert_eq!(web.get_any("/livez").status, 200);
    let Web { process, .. } = web;
    process.kill();
    check(&place, code);
}

#[test]
fn a_host_whose_store_is_removed_acknowledges_nothing_and_makes_no_other() {
    let remove = |place: &Place| std::fs::remove_file(place.store()).expect("it can be removed");
    check_taken_away(remove, "WL-S050");
}

#[test]
fn no_command_takes_a_removed_database_for_a_new_store() {
    let place = Place::new(&["echo"]);
    let file = place.workflow("one", &one()).display().to_string();
    place.ask(&["workflow", "publish", &file]);
    std::fs::remove_file(place.store()).expect("it can be removed");
    for command in [
        &["run", "one"][..],
        &["run", &file],
        &["serve"],
        &["runs", "list"],
        &["runs", "show", "0190"],
        &["event", "send", "go"],
        &["workflow", "list"],
        &["workflow", "publish", &file],
        &["store", "check"],
        &["store", "backup", "copy.db"],
        &["store", "migrate"],
        &["lock", "list"],
    ] {
        let said = place.say(command);
        assert_eq!(said.exit, Some(50), "{command:?}: {said:#?}");
        assert!(said.stderr.contains("WL-S050"), "{command:?}: {said:#?}");
    }
    let doctor = place.say(&["doctor"]);
    assert_eq!(doctor.exit, Some(50), "{doctor:#?}");
    assert!(
        doctor.stdout.contains("shows that there was a store"),
        "{doctor:#?}"
    );
}

#[test]
fn a_host_whose_store_is_cut_short_acknowledges_nothing_and_makes_no_other() {
    check_taken_away(|place| cut(place.store()), "WL-S050");
}

#[test]
fn a_host_whose_log_is_removed_acknowledges_nothing() {
    let place = Place::new(&["echo"]);
    let web = Web::serve(&place);
    web.publish(&one());
    std::fs::remove_file(log_of(&place)).expect("it can be removed");
    let answer = web.post("/api/v1/runs", &json!({ "workflow": "one" }));
    assert!(answer.status >= 500, "{answer:?}");
    assert_eq!(web.get_any("/readyz").status, 503);
}

#[test]
fn a_log_that_lost_its_end_is_refused_until_that_is_accepted() {
    let place = Place::new(&["echo", "steps"]);
    let web = Web::serve(&place);
    web.publish(&one());
    let published = std::fs::metadata(log_of(&place)).expect("the log is there");
    // The marker lags behind: its first change may name the publication, and the second one names
    // later work.
    let mark = || std::fs::read(beside(&place, "-mark")).expect("the marker is there");
    let (mut last, mut changes) = (mark(), 0);
    for _ in 0..10_000 {
        let run = web.start("one", &json!({}));
        assert_eq!(web.result(&run)["status"], "completed");
        let now = mark();
        changes += u32::from(now != last);
        last = now;
        if changes == 2 {
            break;
        }
    }
    assert_eq!(changes, 2, "the marker does not follow");
    let Web { process, .. } = web;
    process.kill();
    // In another place, because SQLite reads the log again only when no process has the store open,
    // and this test has it open.
    let left = Place::new(&["echo", "steps"]);
    make_directory(left.store());
    let mark_of = |place: &Place| beside(place, "-mark");
    for (from, to) in [
        (place.store().to_owned(), left.store().to_owned()),
        (log_of(&place), log_of(&left)),
        (mark_of(&place), mark_of(&left)),
    ] {
        std::fs::copy(from, to).expect("a file can be copied");
    }
    let place = left;
    let mut log = std::fs::read(log_of(&place)).expect("the log is there");
    // In the first page after the publication.
    let at = usize::try_from(published.len()).expect("the log is short") + 100;
    log[at] ^= 1;
    std::fs::write(log_of(&place), log).expect("it can be written");
    check(&place, "WL-S052");
    place.ask(&["store", "restore"]);
    let file = place.workflow("one", &one()).display().to_string();
    place.ask(&["run", &file]);
    place.ask(&["store", "check"]);
}

#[test]
fn a_backup_is_put_in_place_and_the_former_store_is_kept() {
    let place = used();
    let backup = place.path("backup.db").display().to_string();
    place.ask(&["store", "backup", &backup]);
    let serving = place.serve();
    let said = place.say(&["-o", "jsonl", "store", "restore", &backup]);
    assert_eq!(said.error()["code"], "WL-S054", "{said:#?}");
    serving.kill();
    place.ask(&["store", "restore", &backup]);
    place.ask(&["store", "check"]);
    let mut aside = place.store().as_os_str().to_owned();
    aside.push(".before-1");
    assert!(Path::new(&aside).exists());
}

const REPLAYS: &str = "the events of a run lead to its stored state";

/// What `store check --replay` says: its findings, and the counts of its runs.
#[track_caller]
fn replayed(place: &Place) -> (Vec<Value>, Value) {
    let said = place.say(&["-o", "jsonl", "store", "check", "--replay"]);
    let lines = said.stdout.lines();
    let mut items: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .collect();
    let counts = items.pop().expect("the last item has the counts");
    let is_good = said.exit == Some(0);
    assert_eq!(is_good, items.is_empty(), "{said:#?}");
    if !is_good {
        assert_eq!(said.error()["code"], "WL-S017", "{said:#?}");
    }
    (items, counts["replayed"].clone())
}

/// Changes a column of the only row of a table behind the store's back, and expects a run that is not
/// as its events make it.
#[track_caller]
fn check_replay(table: &str, column: &str, change: impl Fn(&mut Vec<u8>), says: &str) {
    let place = used();
    let connection = rusqlite::Connection::open(place.store()).expect("it is a database");
    let read = format!("SELECT {column} FROM {table}");
    let value = connection.query_row(&read, [], |row| row.get(0));
    let mut value: Vec<u8> = value.expect("it has a value");
    change(&mut value);
    let write = format!("UPDATE {table} SET {column} = nullif(?1, x'')");
    let written = connection.execute(&write, [value]);
    assert_eq!(written.expect("it can be written"), 1);
    drop(connection);
    let (findings, counts) = replayed(&place);
    let mut found = findings.iter().filter(|found| found["rule"] == REPLAYS);
    let found = found.next().expect("the run is found");
    assert_eq!(found["count"], 1);
    let example = found["examples"][0].as_str().expect("it has a text");
    assert!(example.contains(says), "{example}");
    assert_eq!(counts["left_out"], 0);
}

#[test]
fn runs_that_are_as_their_events_make_them_have_no_finding() {
    let (findings, counts) = replayed(&used());
    assert_eq!(findings, [] as [Value; 0]);
    assert_eq!(counts["runs"], 1);
    assert_eq!(counts["events"], 1);
    assert_eq!(counts["left_out"], 0);
}

#[test]
fn a_changed_byte_of_an_event_is_found() {
    let change = |event: &mut Vec<u8>| event[2] ^= 4;
    check_replay("execution", "event", change, "its check does not hold");
}

#[test]
fn an_event_that_is_gone_is_found() {
    check_replay("execution", "event", Vec::clear, "has no event");
}

#[test]
fn a_state_that_its_events_do_not_make_is_found() {
    let change = |state: &mut Vec<u8>| state.push(0);
    check_replay("run", "state", change, "its stored state is another one");
}

#[test]
fn a_run_whose_definition_is_gone_is_named() {
    let place = used();
    let connection = rusqlite::Connection::open(place.store()).expect("it is a database");
    let gone = "PRAGMA foreign_keys = OFF; UPDATE pins SET json = x'7b7d'";
    connection.execute_batch(gone).expect("it can be written");
    drop(connection);
    let (_, counts) = replayed(&place);
    assert_eq!(
        (&counts["runs"], &counts["left_out"]),
        (&json!(0), &json!(1))
    );
    assert!(counts["examples"][0].is_string(), "{counts}");
}
