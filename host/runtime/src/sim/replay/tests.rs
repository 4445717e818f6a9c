//! Hundreds of histories on every durable store.

use std::cell::RefCell;

use windlass_store::Durability;
use windlass_test_seeds::Seeds;

use super::places::{InDatabase, OnDisk};
use super::torn::Torn;
use super::{Replay, ReplayStores, Report};
use crate::sim::history::{History, Written};
use crate::sim::seeds;
use crate::sim::world::World;

const ON_SQLITE: Seeds = Seeds::new(160, 1_600);
const TORN: Seeds = Seeds::new(60, 600);
const IN_POSTGRES: Seeds = Seeds::new(16, 160);

/// Kinds of writes of which each changes rows that can be read.
const KINDS: [&str; 13] = [
    "CancelTrigger",
    "Claim",
    "Commit",
    "Control",
    "Create",
    "Forget",
    "Life",
    "Plan",
    "Publish",
    "PutOff",
    "Release",
    "Retract",
    "Send",
];

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
fn whatever_a_power_cut_leaves_a_history_comes_to_the_same_end() {
    let torn = |seed| {
        let place = Torn::new();
        Replay::new(seed, &place).run(&history(seed)?, Replay::change_or_fail)
    };
    let seeds = TORN.range();
    let all = seeds::run_all(&seeds, torn, Report::add);
    assert!(!TORN.are_all(&seeds) || all.torn > 0, "nothing was torn");
}

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

/// Replays a history on a store that gets all writes but those of one kind.
fn without(kind: &str, seed: u64, place: &impl ReplayStores) -> Result<Report, String> {
    let change = |replay: &mut Replay<'_, _>, group: &[&Written]| {
        let is_other = |written: &&&Written| !format!("{:?}", written.write).starts_with(kind);
        let others: Vec<&Written> = group.iter().filter(is_other).copied().collect();
        replay.change_but(group, &others)
    };
    Replay::new(seed, place).run(&history(seed)?, change)
}

#[test]
fn a_store_that_ignores_a_kind_of_write_is_noticed() {
    for kind in KINDS {
        ON_SQLITE.find(format!("SQLite ignores {kind}"), |seed| {
            without(kind, seed, &OnDisk::new(Durability::Normal)).is_err()
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
            without(kind, seed, &InDatabase::new()).is_err()
        });
    }
}

#[test]
fn a_store_that_leaves_something_out_is_noticed() {
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
fn a_disk_that_forgets_what_it_flushed_is_noticed() {
    let lies = |seed| {
        let mut place = Torn::new();
        place.lies = Some(RefCell::default());
        Replay::new(seed, &place).run(&history(seed)?, Replay::change_or_fail)
    };
    TORN.find("the disk forgets", |seed| lies(seed).is_err());
}
