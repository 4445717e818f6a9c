//! Hundreds of histories on every durable store.

use std::cell::RefCell;

use windlass_store::Durability;

use super::places::{InDatabase, OnDisk};
use super::torn::Torn;
use super::{Replay, Report};
use crate::sim::history::{History, Written};
use crate::sim::seeds;
use crate::sim::world::World;

/// How many seeds the normal test run tries.
const ON_SQLITE: u64 = 160;
const TORN: u64 = 60;
const IN_POSTGRES: u64 = 16;

fn history(seed: u64) -> Result<History, String> {
    World::new(seed, None).record()
}

fn on_sqlite(seed: u64) -> Result<Report, String> {
    let place = OnDisk::new(Durability::Normal);
    Replay::new(seed, &place).run(&history(seed)?, Replay::change)
}

#[test]
fn sqlite_does_as_memory_does() {
    let all = seeds::run_all(seeds::range(ON_SQLITE), on_sqlite, Report::add);
    assert!(all.writes > 0);
}

#[test]
fn whatever_a_power_cut_leaves_a_history_comes_to_the_same_end() {
    let torn = |seed| {
        let place = Torn::new();
        Replay::new(seed, &place).run(&history(seed)?, Replay::change_or_fail)
    };
    let all = seeds::run_all(seeds::range(TORN), torn, Report::add);
    assert!(seeds::is_one() || all.torn > 0, "nothing was torn");
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
    seeds::run_all(seeds::range(IN_POSTGRES), in_postgres, Report::add);
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
    let noticed = (1..20).filter(|seed| left_out(*seed).is_err()).count();
    assert!(noticed > 9, "of 19 only {noticed} are noticed");
}

#[test]
fn a_disk_that_forgets_what_it_flushed_is_noticed() {
    let lies = |seed| {
        let mut place = Torn::new();
        place.lies = Some(RefCell::default());
        Replay::new(seed, &place).run(&history(seed)?, Replay::change_or_fail)
    };
    assert!((1..40).any(|seed| lies(seed).is_err()), "no check notices");
}
