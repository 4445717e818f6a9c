//! The marker detects stores that lack acknowledged writes, and accepts the others.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use windlass_model::Code;

use super::{OnDisk, on_disk};
use crate::conformance::power::Picture;
use crate::conformance::world::{DONE, Member, batch};
use crate::external::Control;
use crate::retention::Forget;
use crate::settings::Setting;
use crate::sqlite::{Durability, SqliteOptions, SqliteStore, mark};
use crate::upkeep::{Finding, MARKED};
use crate::{Error, Reader as _, Store, codes};

/// Opens a picture at another path.
fn opened(picture: &Picture) -> Result<u64, Error> {
    let elsewhere = on_disk();
    picture.hang(&elsewhere.path());
    let store = SqliteStore::open(elsewhere.path(), elsewhere.options())?;
    let counts = store.counts()?;
    store.close();
    Ok(counts.runs)
}

#[track_caller]
fn check_refused(picture: &Picture, code: &Code) {
    let error = opened(picture).unwrap_err();
    assert_eq!(error.code, *code, "{error}");
    assert!(error.help.is_some() && !error.transient, "{error:?}");
}

/// The files of `old`, with the marker of `new`.
fn with_mark_of(old: &OnDisk, new: &OnDisk, picture: &Picture) -> Picture {
    picture.hang(&old.path());
    fs::copy(mark::path_of(&new.path()), mark::path_of(&old.path())).unwrap();
    Picture::take(&old.path())
}

/// Every kind of group whose loss must be detected: a picture is taken before each.
#[test]
fn a_store_that_lost_the_newest_group_is_refused() {
    type Act = fn(&Member) -> bool;
    let acts: [(&str, Act); 6] = [
        ("a birth", |member| {
            member.create(member.draft(1));
            true
        }),
        ("a step", |member| {
            let held = member.born();
            member.commit(member.chained(&held, 2)) == DONE
        }),
        ("the last step", |member| {
            let held = member.born();
            member.commit(member.last(&held)) == DONE
        }),
        ("a group with a trace", |member| {
            let pending = member.create(member.draft(1));
            let control = Control {
                run: member.head(pending).id,
                no: member.trigger(1).no,
                kind: windlass_model::TriggerType::Cancel,
                at_ms: 5,
            };
            member.write(control);
            true
        }),
        ("a decision", |member| {
            let value = Some(bytes::Bytes::from_static(b"yes"));
            let name = "pause".to_owned();
            member.write(Setting { name, value });
            true
        }),
        ("another process", |member| {
            drop(Member::of(Arc::clone(&member.store)));
            true
        }),
    ];
    for (name, act) in acts {
        let disk = on_disk();
        let member = Member::of(disk.store() as Arc<dyn Store>);
        member.create(member.draft(1));
        let before = Picture::take(&disk.path());
        assert!(act(&member), "{name}");
        let after = Picture::take(&disk.path());
        assert!(opened(&before).is_ok(), "{name}");
        assert!(opened(&after).is_ok(), "{name}");
        let left = with_mark_of(&on_disk(), &disk, &before);
        let error = opened(&left).unwrap_err();
        assert_eq!(error.code, codes::WENT_BACK, "{name}: {error}");
    }
}

#[test]
fn a_marker_that_follows_is_never_ahead_and_catches_up_by_itself() {
    let disk = on_disk();
    let options = SqliteOptions {
        mark_at_once: false,
        ..disk.options()
    };
    let store = SqliteStore::open(disk.path(), options).unwrap();
    let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
    let before = Picture::take(&disk.path());
    for born in 1..=40 {
        member.create(member.draft(1));
        assert_eq!(opened(&Picture::take(&disk.path())).unwrap(), born);
    }
    let is_told = || opened(&with_mark_of(&on_disk(), &disk, &before)).is_err();
    let tries = std::iter::repeat_with(is_told).take(1_000);
    assert!(tries.into_iter().any(|told| told), "it never catches up");
    let newest = Picture::take(&disk.path());
    member.create(member.draft(1));
    store.close();
    check_refused(&with_mark_of(&on_disk(), &disk, &newest), &codes::WENT_BACK);
}

/// A store with writes in its log, as a killed process leaves it.
fn killed() -> OnDisk {
    let (from, to) = (on_disk(), on_disk());
    let member = Member::of(from.store() as Arc<dyn Store>);
    for _ in 0..20 {
        let held = member.born();
        assert_eq!(member.commit(member.chained(&held, 2)), DONE);
    }
    Picture::take(&from.path()).hang(&to.path());
    to
}

/// Flips a bit of a file.
fn flip(path: &Path, at: u64) {
    let file = fs::File::options().write(true).read(true).open(path);
    let (file, mut byte) = (file.unwrap(), [0]);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn a_log_with_a_flipped_byte_or_cut_off_or_gone_is_refused() {
    let log_of = |disk: &OnDisk| crate::sqlite::watch::beside(&disk.path(), "-wal");
    let length = fs::metadata(log_of(&killed())).unwrap().len();
    type Damage<'a> = (&'a Code, &'a dyn Fn(&Path));
    let damages: [Damage<'_>; 4] = [
        (&codes::WENT_BACK, &|log| flip(log, length - 100)),
        (&codes::WENT_BACK, &|log| {
            let file = fs::File::options().write(true).open(log).unwrap();
            file.set_len(length / 2).unwrap();
        }),
        (&codes::WENT_BACK, &|log| {
            let file = fs::File::options().write(true).open(log).unwrap();
            file.set_len(length - 1).unwrap();
        }),
        // Without its log, the file does not even have tables.
        (&codes::LEFT_BEHIND, &|log| fs::remove_file(log).unwrap()),
    ];
    for (code, damage) in damages {
        let disk = killed();
        damage(&log_of(&disk));
        let files = || (fs::read(disk.path()).unwrap(), fs::read(log_of(&disk)).ok());
        let before = files();
        let error = SqliteStore::open(disk.path(), disk.options())
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error.code, *code, "{error}");
        // A check reports the same, and does not change the files either.
        let checked = SqliteStore::check(disk.path());
        if *code == codes::WENT_BACK {
            assert_eq!(rules(&checked.unwrap()), [MARKED], "{error}");
        }
        assert!(files().0 == before.0, "the file is left as it was");
        if before.1.is_some() {
            assert!(files().1 == before.1, "the log is left as it was");
        }
    }
    killed().store().close();
}

fn rules(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|it| it.rule.as_str()).collect()
}

#[test]
fn a_check_compares_a_store_with_its_marker_and_makes_none() {
    let disk = on_disk();
    let member = Member::of(disk.store() as Arc<dyn Store>);
    let before = Picture::take(&disk.path());
    member.create(member.draft(1));
    // The store is in use.
    assert_eq!(SqliteStore::check(disk.path()).unwrap(), []);
    for mark_of in [&disk, &killed()] {
        let left = on_disk();
        with_mark_of(&left, mark_of, &before);
        let findings = SqliteStore::check(left.path()).unwrap();
        assert_eq!(rules(&findings), [MARKED]);
        fs::remove_file(mark::path_of(&left.path())).unwrap();
        assert_eq!(SqliteStore::check(left.path()).unwrap(), []);
        assert!(!mark::path_of(&left.path()).exists());
    }
}

#[test]
fn deleted_rows_are_not_missed() {
    let disk = on_disk();
    let member = Member::of(disk.store() as Arc<dyn Store>);
    let held = member.born();
    let no = held.fence.run;
    assert_eq!(member.commit(member.last(&held)), DONE);
    let forget = Forget {
        run: no,
        before_ms: i64::MAX,
        rows: 10,
        at_ms: i64::MAX,
    };
    while member.write(forget).more {}
    assert_eq!(opened(&Picture::take(&disk.path())).unwrap(), 0);
    // One group ends a run and deletes it.
    let held = member.born();
    let forget = Forget {
        run: held.fence.run,
        before_ms: i64::MAX,
        rows: 100,
        at_ms: i64::MAX,
    };
    let writes = vec![member.last(&held).into(), forget.into()];
    for answer in batch(&*member.store, writes) {
        answer.unwrap();
    }
    assert_eq!(opened(&Picture::take(&disk.path())).unwrap(), 0);
}

#[test]
fn processes_that_take_turns_leave_a_marker_that_holds() {
    let disk = on_disk();
    let members = [0, 1, 2].map(|_| Member::of(disk.store() as Arc<dyn Store>));
    let mut held = members.each_ref().map(Member::born);
    for turn in 0..12 {
        let (member, held) = (&members[turn % 3], &mut held[turn % 3]);
        let before = Picture::take(&disk.path());
        assert_eq!(member.commit(member.chained(held, 2)), DONE);
        *held = held.next();
        let after = Picture::take(&disk.path());
        assert!(opened(&after).is_ok(), "turn {turn}");
        let left = with_mark_of(&on_disk(), &disk, &before);
        check_refused(&left, &codes::WENT_BACK);
    }
}

#[test]
fn the_marker_of_another_store_and_a_damaged_one_say_so() {
    let [one, other] = [killed(), killed()];
    let picture = Picture::take(&one.path());
    check_refused(
        &with_mark_of(&on_disk(), &other, &picture),
        &codes::FOREIGN_MARK,
    );
    fs::write(mark::path_of(&other.path()), [7; 512]).unwrap();
    check_refused(
        &with_mark_of(&on_disk(), &other, &picture),
        &codes::FOREIGN_MARK,
    );
    // A missing marker is created.
    fs::remove_file(mark::path_of(&one.path())).unwrap();
    one.store().close();
    assert_eq!(fs::metadata(mark::path_of(&one.path())).unwrap().len(), 512);
}

#[test]
fn unflushed_data_may_be_missing_after_the_machine_ended() {
    let disk = on_disk();
    let options = SqliteOptions {
        durability: Durability::Normal,
        ..disk.options()
    };
    let store = SqliteStore::open(disk.path(), options).unwrap();
    let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
    let before = Picture::take(&disk.path());
    member.create(member.draft(1));
    let left = on_disk();
    with_mark_of(&left, &disk, &before);
    let connection = rusqlite::Connection::open(left.path()).unwrap();
    let refused = mark::check(&left.path(), &connection, &crate::boot::boot());
    assert_eq!(refused.unwrap_err().code, codes::WENT_BACK);
    mark::check(&left.path(), &connection, "another run of the machine").unwrap();
}

#[test]
fn an_older_store_is_accepted_as_a_new_generation() {
    let disk = on_disk();
    let member = Member::of(disk.store() as Arc<dyn Store>);
    member.create(member.draft(1));
    let backup = disk.directory.path().join("backup.db");
    SqliteStore::backup(disk.path(), &backup).unwrap();
    member.create(member.draft(1));
    let restore = |from| SqliteStore::restore(disk.path(), from, &disk.options());
    let error = restore(Some(&*backup)).unwrap_err();
    assert_eq!(error.code, codes::IN_USE, "{error}");
    member.store.close();
    let newest = Picture::take(&disk.path());
    let restored = restore(Some(&*backup)).unwrap();
    let store = disk.store();
    assert_eq!(store.counts().unwrap().runs, 1);
    store.close();
    // The former store is kept, and it is older than the new generation.
    let before = restored.before.unwrap();
    let counted = |path: &Path| {
        let elsewhere = SqliteStore::open(path, disk.options()).unwrap();
        let counts = elsewhere.counts().unwrap();
        elsewhere.close();
        counts.runs
    };
    assert_eq!(counted(&before), 2);
    let left = with_mark_of(&on_disk(), &disk, &newest);
    check_refused(&left, &codes::WENT_BACK);
    // An explicit restore accepts it.
    let there = on_disk();
    left.hang(&there.path());
    let accepted = SqliteStore::restore(there.path(), None, &there.options()).unwrap();
    assert!(accepted.generation > restored.generation && accepted.before.is_none());
    assert_eq!(counted(&there.path()), 2);
}

#[test]
fn a_backup_that_contradicts_itself_is_not_put_in_place() {
    let (disk, unsound) = (killed(), killed());
    let connection = rusqlite::Connection::open(unsound.path()).unwrap();
    connection
        .execute_batch("DELETE FROM origin; PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    drop(connection);
    let before = fs::read(disk.path()).unwrap();
    let error = SqliteStore::restore(disk.path(), Some(&unsound.path()), &disk.options());
    assert_eq!(error.unwrap_err().code, codes::UNSOUND);
    assert!(fs::read(disk.path()).unwrap() == before);
    let files = fs::read_dir(disk.directory.path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = names.filter(|name| name.contains("restored")).collect();
    assert!(left.is_empty(), "{left:?}");
}
