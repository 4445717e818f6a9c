//! Lists of runs in the order of their creation, their filters and their pages.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use windlass_model::{Class, Code, Failure, RunNo, Seq, Status, Tags};

use super::Harness;
use super::world::{DONE, Held, Member, definition};
use crate::Store;
use crate::lives::Lived;
use crate::read::{RunPlace, RunQuery};
use crate::rows::{NewRun, Parent, RunRow};
use crate::write::{Commit, Finish};

/// All runs.
fn all() -> RunQuery {
    RunQuery {
        limit: 100,
        ..RunQuery::default()
    }
}

fn numbers(store: &dyn Store, query: &RunQuery) -> Vec<RunNo> {
    let rows = store.runs(query).unwrap();
    assert_eq!(store.run_count(query).unwrap(), rows.len() as u64);
    rows.iter().map(|row| row.no).collect()
}

fn created(member: &Member, created_ms: i64, change: impl FnOnce(&mut NewRun)) -> RunNo {
    let mut new = member.draft(1);
    new.created_ms = created_ms;
    change(&mut new);
    member.create(new)
}

pub(super) fn runs_are_listed_by_their_creation_in_any_process(harness: &dyn Harness) {
    let (first, second) = (Member::join(harness), Member::join(harness));
    let at = |member: &Member, ms| created(member, ms, |_| {});
    let runs = [
        at(&second, 10),
        at(&first, 20),
        at(&second, 20),
        at(&first, 30),
    ];
    let check = |query: RunQuery, found: &[usize]| {
        let found: Vec<_> = found.iter().map(|place| runs[*place]).collect();
        assert_eq!(numbers(&*first.store, &query), found, "{query:?}");
    };
    check(all(), &[3, 2, 1, 0]);
    check(RunQuery { limit: 2, ..all() }, &[3, 2]);
    let place = |place: usize| {
        let row = first.store.run_by_no(runs[place]).unwrap().unwrap();
        Some(row.place())
    };
    let before = |before| RunQuery { before, ..all() };
    check(before(place(3)), &[2, 1, 0]);
    check(before(place(2)), &[1, 0]);
    check(before(place(1)), &[0]);
    let down_to = place(1);
    check(RunQuery { down_to, ..all() }, &[3, 2, 1]);
    let between = |since_ms, until_ms| RunQuery {
        since_ms,
        until_ms,
        ..all()
    };
    check(between(Some(20), None), &[3, 2, 1]);
    check(between(None, Some(20)), &[0]);
    check(between(Some(11), Some(30)), &[2, 1]);
    check(between(Some(31), None), &[]);
    let both = RunQuery {
        down_to: place(2),
        before: place(3),
        ..between(Some(10), Some(25))
    };
    check(both, &[2]);
}

pub(super) fn runs_are_listed_by_every_filter(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let parent = held.fence.run;
    let child = Parent {
        run: parent,
        id: member.head(parent).id,
        trigger: held.trigger.no,
        seq: Seq(2),
        depth: 1,
        root: parent,
        flow: "w".into(),
        undoes: false,
    };
    let runs = [
        created(&member, 10, |new| new.definition = definition("one")),
        created(&member, 20, |new| new.correlation = None),
        created(&member, 30, |new| {
            new.correlation = Some("o'range \u{e9}".into())
        }),
        created(&member, 40, |new| new.parent = Some(child.clone())),
        created(&member, 50, |new| {
            new.parent = Some(child.clone());
            new.definition = definition("one");
        }),
    ];
    let claimed = member.claim_all(10);
    let of = |no: usize| {
        let mut claimed = claimed.iter();
        *claimed.find(|held| held.fence.run == runs[no]).unwrap()
    };
    for (no, code) in [(0, "WL-R001"), (4, "WL-R101")] {
        let failure = Failure::new(Class::Permanent, Code::new(code), "\"it\" \\ failed");
        let finish = Finish {
            output: None,
            failure: Some(failure),
        };
        let step = Commit {
            status: Status::Faulted,
            finish: Some(finish),
            ..member.step(&of(no))
        };
        assert!(member.commit(step).is_ok());
    }
    assert_eq!(member.commit(member.last(&of(2))), DONE);
    let since = RunQuery {
        since_ms: Some(10),
        ..all()
    };
    let check = |query: RunQuery, found: &[usize]| {
        let found: Vec<_> = found.iter().map(|place| runs[*place]).collect();
        assert_eq!(numbers(&*member.store, &query), found, "{query:?}");
    };
    let statuses = |statuses: &[Status]| RunQuery {
        statuses: statuses.to_vec(),
        ..since.clone()
    };
    check(statuses(&[Status::Faulted]), &[4, 0]);
    check(statuses(&[Status::Completed, Status::Faulted]), &[4, 2, 0]);
    check(statuses(&[Status::Cancelled]), &[]);
    let workflow = |name: &str| RunQuery {
        workflow: Some(name.into()),
        ..since.clone()
    };
    check(workflow("one"), &[4, 0]);
    check(workflow("three"), &[]);
    let failure = |code: &str| RunQuery {
        failure: Some(code.into()),
        ..since.clone()
    };
    check(failure("WL-R001"), &[0]);
    check(failure("wl-r001"), &[]);
    let correlation = |text: &str| RunQuery {
        correlation: Some(text.into()),
        ..since.clone()
    };
    check(correlation("order 7"), &[4, 3, 0]);
    check(correlation("o'range \u{e9}"), &[2]);
    check(correlation("order"), &[]);
    let parent = RunQuery {
        parent: Some(parent),
        ..since.clone()
    };
    check(parent.clone(), &[4, 3]);
    check(
        RunQuery {
            correlation: Some("order 7".into()),
            workflow: Some("one".into()),
            failure: Some("WL-R101".into()),
            statuses: vec![Status::Faulted],
            ..parent.clone()
        },
        &[4],
    );
    check(
        RunQuery {
            failure: Some("WL-R001".into()),
            ..parent
        },
        &[],
    );
}

pub(super) fn owned_runs_are_listed_by_their_owner(harness: &dyn Harness) {
    let members = [Member::join(harness), Member::join(harness)];
    let held: Vec<Held> = (0..6).map(|at| members[at % 2].born()).collect();
    members[0].create(members[0].draft(1));
    let owner = |at: usize| members[at % 2].incarnation;
    let mut expected: Vec<_> = (0..6).map(|at| (owner(at), held[at].fence.run)).collect();
    expected.sort_unstable();
    let owned = |after, limit| {
        let rows = members[1].store.owned(after, limit).unwrap();
        let places = rows.iter().map(|row| (row.owner.unwrap(), row.no));
        places.collect::<Vec<_>>()
    };
    assert_eq!(owned(None, 100), expected);
    assert_eq!(owned(None, 2), expected[..2]);
    assert_eq!(owned(Some(expected[1]), 3), expected[2..5]);
    assert_eq!(owned(Some(expected[5]), 3), []);
    // An ended run has no owner.
    assert_eq!(members[0].commit(members[0].last(&held[2])), DONE);
    expected.retain(|(_, run)| *run != held[2].fence.run);
    assert_eq!(owned(None, 100), expected);
}

pub(super) fn a_search_ends_after_so_many_runs(harness: &dyn Harness) {
    let member = Member::join(harness);
    let named = |new: &mut NewRun, name: &str| new.correlation = Some(name.into());
    for at in 1..=10 {
        let name = if at % 2 == 0 { "even" } else { "odd" };
        created(&member, at, |new| named(new, name));
    }
    let horizon = |query: &RunQuery, looks| {
        let place = member.store.horizon(query, looks).unwrap();
        place.map(|place| place.created_ms)
    };
    assert_eq!(horizon(&all(), 1), Some(10));
    assert_eq!(horizon(&all(), 4), Some(7));
    assert_eq!(horizon(&all(), 10), Some(1));
    assert_eq!(horizon(&all(), 11), None);
    let even = RunQuery {
        correlation: Some("even".into()),
        // Does not decide at what a search looks.
        workflow: Some("unknown".into()),
        ..all()
    };
    assert_eq!(horizon(&even, 2), Some(8));
    assert_eq!(horizon(&even, 6), None);
    let before = RunQuery {
        before: Some(RunPlace::at(8)),
        since_ms: Some(3),
        ..even
    };
    assert_eq!(horizon(&before, 2), Some(4));
    assert_eq!(horizon(&before, 3), None);
    let children = RunQuery {
        parent: Some(RunNo(1)),
        ..all()
    };
    assert_eq!(horizon(&children, 1), None);
}

fn tags(all: &[(&str, &str)]) -> Tags {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    all.iter().map(owned).collect()
}

fn with_tags(all: &[(&str, &str)]) -> RunQuery {
    RunQuery {
        tags: tags(all),
        ..self::all()
    }
}

pub(super) fn runs_are_found_by_their_tags(harness: &dyn Harness) {
    let member = Member::join(harness);
    let tagged = |at, all: &[(&str, &str)]| created(&member, at, |new| new.tags = tags(all));
    let runs = [
        tagged(10, &[("customer", "acme"), ("region", "eu")]),
        tagged(20, &[("customer", "acme")]),
        tagged(
            30,
            &[("customer", "Acme \"&\" s\u{f6}hne"), ("region", "eu")],
        ),
        tagged(40, &[]),
        tagged(50, &[("region", "acme"), ("empty", "")]),
    ];
    let row = |place: usize| member.head(runs[place]);
    let both = [("customer", "acme"), ("region", "eu")];
    assert_eq!(row(0).tags, tags(&both));
    assert_eq!(row(3).tags, tags(&[]));
    let check = |query: RunQuery, found: &[usize]| {
        let found: Vec<_> = found.iter().map(|place| runs[*place]).collect();
        assert_eq!(numbers(&*member.store, &query), found, "{query:?}");
    };
    check(with_tags(&[("customer", "acme")]), &[1, 0]);
    check(with_tags(&both), &[0]);
    check(with_tags(&[("region", "eu")]), &[2, 0]);
    check(with_tags(&[("empty", "")]), &[4]);
    check(with_tags(&[("customer", "")]), &[]);
    check(with_tags(&[("customer", "Acme \"&\" s\u{f6}hne")]), &[2]);
    let narrowed = RunQuery {
        correlation: Some("order 7".into()),
        since_ms: Some(20),
        ..with_tags(&[("customer", "acme")])
    };
    check(narrowed.clone(), &[1]);
    let other = Some("order 8".into());
    let correlation = RunQuery {
        correlation: other,
        ..narrowed
    };
    check(correlation, &[]);
    let before = RunQuery {
        before: Some(row(2).place()),
        ..with_tags(&[("region", "eu")])
    };
    check(before, &[0]);
    let horizon = |all: &[(&str, &str)], looks| {
        let place = member.store.horizon(&with_tags(all), looks).unwrap();
        place.map(|place| place.created_ms)
    };
    assert_eq!(horizon(&[("customer", "acme")], 2), Some(10));
    assert_eq!(horizon(&[("customer", "acme")], 3), None);
    // The tag whose name comes first decides.
    assert_eq!(
        horizon(&[("region", "eu"), ("customer", "acme")], 1),
        Some(20)
    );
}

pub(super) fn the_tags_of_a_deleted_run_are_deleted(harness: &dyn Harness) {
    let member = Member::join(harness);
    let born = |at_ms, all: &[(&str, &str)]| {
        let mut new = member.draft(1);
        new.owner = Some(member.incarnation);
        new.triggers[0].claimed = true;
        (new.created_ms, new.tags) = (at_ms, tags(all));
        let held = Held::born(&new);
        member.create(new);
        assert_eq!(member.commit(member.last(&held)), DONE);
        held.fence.run
    };
    let both = [("customer", "acme"), ("region", "eu")];
    let runs = [born(1, &both), born(2, &both), born(3, &[("region", "eu")])];
    // The rows of the index, whether or not their run is there.
    let indexed = |name, value| {
        let query = with_tags(&[(name, value)]);
        let looks = 1..4_u32;
        let mut places = looks.map_while(|looks| member.store.horizon(&query, looks).unwrap());
        places.by_ref().map(|place| place.no).collect::<Vec<_>>()
    };
    assert_eq!(indexed("customer", "acme"), [runs[1], runs[0]]);
    assert_eq!(indexed("region", "eu"), [runs[2], runs[1], runs[0]]);
    assert_eq!(member.delete(member.head(runs[1]).id), Lived::Gone(runs[1]));
    assert_eq!(indexed("customer", "acme"), [runs[0]]);
    assert_eq!(indexed("region", "eu"), [runs[2], runs[0]]);
    let found = numbers(&*member.store, &with_tags(&both));
    assert_eq!(found, [runs[0]]);
}

/// What happens while a client reads pages.
#[derive(Clone, Debug)]
struct Reading {
    /// Runs that exist before: the process, the time, the workflow.
    before: Vec<(usize, i64, usize)>,
    /// Runs that are created before each page.
    between: Vec<Vec<(usize, i64, usize)>>,
    limit: u32,
    looks: u32,
    workflow: bool,
}

fn reading() -> impl Strategy<Value = Reading> {
    let run = || (0..2_usize, 0..4_i64, 0..2_usize);
    let runs = |most| prop::collection::vec(run(), 0..most);
    let rest = (1..4_u32, 1..6_u32, any::<bool>());
    let strategy = (runs(14), prop::collection::vec(runs(3), 0..8), rest);
    strategy.prop_map(|(before, between, (limit, looks, workflow))| Reading {
        before,
        between,
        limit,
        looks,
        workflow,
    })
}

/// Reads all pages, each after a search that is bounded.
fn pages(store: &dyn Store, query: &RunQuery, looks: u32, mut turn: impl FnMut()) -> Vec<RunRow> {
    let (mut rows, mut before) = (Vec::new(), None);
    loop {
        turn();
        let mut query = RunQuery {
            before,
            ..query.clone()
        };
        query.down_to = store.horizon(&query, looks).unwrap();
        let page = store.runs(&query).unwrap();
        assert!(page.len() <= looks as usize);
        before = match page.last() {
            Some(last) if page.len() == query.limit as usize => Some(last.place()),
            _ => query.down_to,
        };
        rows.extend(page);
        if before.is_none() {
            return rows;
        }
    }
}

pub(super) fn pages_show_each_run_once_while_others_are_created(harness: &dyn Harness) {
    let members = [Member::join(harness), Member::join(harness)];
    let config = Config {
        cases: 24,
        failure_persistence: None,
        ..Config::default()
    };
    // Each reading has a time of its own in the store.
    let start = std::cell::Cell::new(0_i64);
    let outcome = TestRunner::new(config).run(&reading(), |reading| {
        start.set(start.get() + 1_000);
        let now = std::cell::Cell::new(start.get());
        let made = std::cell::RefCell::new(BTreeMap::new());
        let make = |&(member, later, workflow): &(usize, i64, usize)| {
            now.set(now.get() + later);
            let name = ["one", "two"][workflow];
            let no = created(&members[member], now.get(), |new| {
                new.definition = definition(name);
            });
            made.borrow_mut().insert(no, workflow);
        };
        reading.before.iter().for_each(make);
        let there: BTreeSet<RunNo> = {
            let made = made.borrow();
            let wanted = made.iter().filter(|(_, of)| !reading.workflow || **of == 1);
            wanted.map(|(no, _)| *no).collect()
        };
        let query = RunQuery {
            since_ms: Some(start.get()),
            workflow: reading.workflow.then(|| "two".into()),
            limit: reading.limit,
            ..RunQuery::default()
        };
        let mut between = reading.between.iter();
        // The first page follows the runs of before at once.
        let mut first = true;
        let rows = pages(&*members[0].store, &query, reading.looks, || {
            if !std::mem::take(&mut first) {
                between.next().into_iter().flatten().for_each(make);
            }
        });
        let seen: BTreeSet<RunNo> = rows.iter().map(|row| row.no).collect();
        prop_assert_eq!(seen.len(), rows.len(), "a run is on two pages");
        prop_assert!(seen.is_superset(&there), "a run is on no page");
        let ordered = rows.is_sorted_by(|one, next| one.place() > next.place());
        prop_assert!(ordered, "the newest run comes first");
        Ok(())
    });
    outcome.unwrap();
}
