//! Hundreds of histories on every durable store.

use std::cell::RefCell;

use windlass_store::Durability;
use windlass_test_seeds::Seeds;

use super::places::{InDatabase, OnDisk};
use super::torn::Torn;
use super::{Replay, ReplayStores, Report};
use crate::sim::history::{Event, History, Written};
use crate::sim::seeds;
use crate::sim::world::World;

const ON_SQLITE: Seeds = Seeds::new(60, 200);
const TORN: Seeds = Seeds::new(10, 80);
const IN_POSTGRES: Seeds = Seeds::new(16, 24);

/// Simulations of hosts that die of triggers.
const POISONED: Seeds = Seeds::new(8, 24);

/// Kinds of writes of which each changes rows that can be read.
const KINDS: [&str; 10] = [
    "CancelTrigger",
    "Claim",
    "Commit",
    "Control",
    "Create",
    "Forget",
    "Life",
    "Publish",
    "Release",
    "Send",
];

/// Kinds that few histories have.
const RARE: [&str; 2] = ["Plan", "Retract"];

fn history(seed: u64) -> Result<History, String> {
    World::new(seed, None).record()
}

fn on_sqlite(seed: u64) -> Result<Report, String> {
    let place = OnDisk::new(Durability::Normal);
    Replay::new(seed, &place).run(&history(seed)?, Replay::change)
}

#[test]
fn sqlite_does_as_memory_does() {
    let all = seeds::run_all(&ON_SQLITE.range(), on_sqlite, Report::add);
    assert!(all.writes > 0);
}

#[test]
fn a_history_comes_to_the_same_end_after_every_power_cut() {
    let torn = |seed| {
        let place = Torn::new();
        Replay::new(seed, &place).run(&history(seed)?, Replay::change_or_fail)
    };
    let seeds = TORN.range();
    let all = seeds::run_all(&seeds, torn, Report::add);
    assert!(!TORN.are_all(&seeds) || all.torn > 0, "nothing was torn");
}

/// Takes half a minute: each write of 16 histories is a transaction of its own.
#[test]
fn postgres_does_as_sqlite_does() {
    if !InDatabase::can_be() {
        return;
    }
    let in_postgres = |seed| {
        let place = InDatabase::new();
        Replay::new(seed, &place).run(&history(seed)?, Replay::change)
    };
    seeds::run_all(&IN_POSTGRES.range(), in_postgres, Report::add);
}

fn poisoned(seed: u64) -> Result<History, String> {
    World::poisoned(seed, None).record()
}

#[test]
fn sqlite_suspects_the_triggers_that_memory_suspects() {
    let on_sqlite = |seed| {
        let place = OnDisk::new(Durability::Normal);
        Replay::new(seed, &place).run(&poisoned(seed)?, Replay::change)
    };
    seeds::run_all(&POISONED.range(), on_sqlite, Report::add);
}

/// Whether a replay notices that the store gets all writes but those of one kind.
fn reveals<P: ReplayStores>(kind: &str, seed: u64, place: impl Fn() -> P) -> bool {
    let is_one = |written: &Written| format!("{:?}", written.write).starts_with(kind);
    let history = history(seed).unwrap();
    let mut events = history.iter();
    if !events.any(|event| matches!(event, Event::Wrote(written) if is_one(written))) {
        return false;
    }
    let place = place();
    let change = |replay: &mut Replay<'_, P>, group: &[&Written]| {
        let others = group.iter().copied().filter(|written| !is_one(written));
        replay.change_but(group, &others.collect::<Vec<_>>())
    };
    Replay::new(seed, &place).run(&history, change).is_err()
}

#[test]
fn a_store_that_ignores_a_kind_of_write_is_noticed() {
    for kind in KINDS.into_iter().chain(RARE) {
        ON_SQLITE.find(format!("SQLite ignores {kind}"), |seed| {
            reveals(kind, seed, || OnDisk::new(Durability::Normal))
        });
    }
}

#[test]
fn a_database_that_ignores_a_kind_of_write_is_noticed() {
    if !InDatabase::can_be() {
        return;
    }
    for kind in KINDS {
        IN_POSTGRES.find(format!("PostgreSQL ignores {kind}"), |seed| {
            reveals(kind, seed, InDatabase::new)
        });
    }
}

#[test]
fn a_store_that_leaves_rows_out_is_noticed() {
    let left_out = |seed| {
        let place = OnDisk::new(Durability::Normal);
        let mut groups = 0;
        let change = |replay: &mut Replay<'_, OnDisk>, group: &[&Written]| {
            groups += 1;
            let (all, but_one) = (group, group.split_last().map_or(group, |(_, rest)| rest));
            replay.change_but(all, if groups == 60 { but_one } else { all })
        };
        Replay::new(seed, &place).run(&history(seed)?, change)
    };
    ON_SQLITE.find("the last write of the 60th group is left out", |seed| {
        left_out(seed).is_err()
    });
}

#[test]
fn a_disk_that_forgets_flushed_data_is_noticed() {
    let lies = |seed| {
        let mut place = Torn::new();
        place.lies = Some(RefCell::default());
        Replay::new(seed, &place).run(&history(seed)?, Replay::change_or_fail)
    };
    TORN.find("the disk forgets", |seed| lies(seed).is_err());
}
