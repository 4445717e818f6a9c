//! Cases about programs of two versions on one store, which both databases must pass. A later
//! version is simulated by further steps of the layout. The store in memory has one version.

use std::sync::Arc;

use super::Harness;
use super::world::{DONE, LEASE_MS, Member};
use crate::sql::layout::{Kind, PROGRAM, Step};
use crate::upkeep::{Finding, Layout};
use crate::write::{Leave, NewMember, Renew};
use crate::{Error, Result, Store, Writer as _, codes};

/// A step that older programs need not know.
const ADDITIVE: Step = Step {
    sql: "CREATE TABLE later (no INTEGER PRIMARY KEY)",
    kind: Kind::Additive,
};

/// A step without statements, as for a new version of the bytes in a row.
const BREAKING: Step = Step {
    sql: "",
    kind: Kind::Breaking,
};

/// A step that fails, because the table of [`ADDITIVE`] is there.
const FAILING: Step = ADDITIVE;

/// A store that programs of several versions open.
pub(crate) trait Versions: Harness {
    /// Opens the store as a program that knows further steps.
    fn open_as(&self, further: &'static [Step]) -> Result<Arc<dyn Store>>;

    /// As [`Self::open_as`], for a process that does not migrate.
    fn open_unmigrated(&self, further: &'static [Step]) -> Result<Arc<dyn Store>>;

    /// The layout of the store, as a program sees it that knows further steps.
    fn layout_as(&self, further: &'static [Step]) -> Layout;

    /// Checks the store as such a program.
    fn check_as(&self, further: &'static [Step]) -> Result<Vec<Finding>>;

    /// Migrates the store as such a program.
    fn migrate_as(&self, further: &'static [Step]) -> Result<Layout>;

    /// The layout of the store, and the layout that it demands.
    fn layouts(&self) -> (i64, i64);
}

fn error(opened: Result<Arc<dyn Store>>) -> Error {
    opened.err().expect("a store that is refused")
}

pub(crate) fn an_additive_step_is_taken_beside_older_members(versions: &impl Versions) {
    let old = Member::of(versions.open_as(&[]).unwrap());
    let held = old.born();
    let before = versions.layouts();
    let new = Member::of(versions.open_as(&[ADDITIVE]).unwrap());
    assert_eq!(versions.layouts(), (before.0 + 1, before.1));
    assert_eq!(
        old.commit(old.last(&held)),
        DONE,
        "the older member goes on"
    );
    old.born();
    let also_old = Member::of(versions.open_as(&[]).unwrap());
    assert_eq!(versions.layouts().0, before.0 + 1, "it takes no step back");
    // Each version takes over from the other one.
    let pass = |dies: &Member, goes_on: &[&Member]| {
        dies.die();
        versions.clock().advance(LEASE_MS);
        for member in goes_on {
            let incarnation = member.incarnation;
            member.store.write(Renew { incarnation }).unwrap().unwrap();
        }
    };
    pass(&old, &[&new, &also_old]);
    assert_eq!(also_old.reap(10), 1);
    assert_eq!(also_old.claim_all(20).len(), 1);
    pass(&also_old, &[&new]);
    assert_eq!(new.reap(10), 1);
    let held = new.claim_all(20);
    assert_eq!(new.commit(new.last(&held[0])), DONE);
}

pub(crate) fn a_breaking_step_waits_for_older_members_to_leave(versions: &impl Versions) {
    let old = Member::of(versions.open_as(&[]).unwrap());
    let held = old.born();
    let before = versions.layouts();
    let refused = error(versions.open_as(&[ADDITIVE, BREAKING]));
    assert_eq!(refused.code, codes::MEMBERS_BEHIND, "{refused}");
    let named = format!(
        "layout {} while older programs work on it: member {} (case, process {}, Windlass {PROGRAM})",
        before.0 + 2,
        old.incarnation.0,
        std::process::id(),
    );
    assert!(refused.message.contains(&named), "{refused}");
    assert_eq!(versions.layouts(), before, "no step is taken");
    assert_eq!(old.commit(old.last(&held)), DONE);
    let incarnation = old.incarnation;
    old.store.write(Leave { incarnation }).unwrap();
    let new = Member::of(versions.open_as(&[ADDITIVE, BREAKING]).unwrap());
    let after = before.0 + 2;
    assert_eq!(versions.layouts(), (after, after));
    new.born();
}

pub(crate) fn a_program_that_knows_too_little_is_refused_in_words(versions: &impl Versions) {
    // It opens the store before the step, and joins after it.
    let early = versions.open_as(&[]).unwrap();
    let before = versions.layouts();
    Member::of(versions.open_as(&[BREAKING, ADDITIVE]).unwrap());
    let demanded = before.0 + 1;
    assert_eq!(versions.layouts(), (before.0 + 2, demanded));
    let late = error(versions.open_as(&[]));
    let join = NewMember {
        name: "late".into(),
        lease_ms: 1,
        joined_ms: 1,
    };
    for refused in [early.write(join).unwrap_err(), late] {
        assert_eq!(refused.code, codes::NEWER, "{refused}");
        let needs = format!(
            "needs Windlass {PROGRAM} or a newer one: it demands layout {demanded}, and this \
            Windlass {PROGRAM} knows {}",
            before.0
        );
        assert!(refused.message.contains(&needs), "{refused}");
        assert!(refused.help.is_some(), "{refused}");
    }
    // One that knows the demanded step and not the one behind it works.
    Member::of(versions.open_as(&[BREAKING]).unwrap()).born();
}

pub(crate) fn a_process_that_does_not_migrate_leaves_an_older_store_alone(
    versions: &impl Versions,
) {
    // It may create a store.
    let old = Member::of(versions.open_unmigrated(&[]).unwrap());
    let held = old.born();
    let before = versions.layouts();
    for further in [&[ADDITIVE][..], &[ADDITIVE, BREAKING]] {
        let refused = error(versions.open_unmigrated(further));
        assert_eq!(refused.code, codes::NOT_MIGRATED, "{refused}");
        assert!(refused.help.is_some(), "{refused}");
        assert_eq!(versions.layouts(), before, "no step is taken");
    }
    assert_eq!(old.commit(old.last(&held)), DONE);
    Member::of(versions.open_as(&[ADDITIVE]).unwrap());
    Member::of(versions.open_unmigrated(&[ADDITIVE]).unwrap()).born();
    Member::of(versions.open_unmigrated(&[]).unwrap()).born();
}

pub(crate) fn an_older_layout_is_told_and_brought_up(versions: &impl Versions) {
    const NEWER: &[Step] = &[ADDITIVE, BREAKING];
    drop(versions.open_as(&[]).unwrap());
    let found = versions.layout_as(&[]).found;
    let current = found + NEWER.len();
    let before = Layout { found, current };
    assert_eq!(versions.layout_as(NEWER), before);
    let refused = versions.check_as(NEWER).unwrap_err();
    assert_eq!(refused.code, codes::OLDER, "{refused}");
    assert_eq!(versions.migrate_as(NEWER).unwrap(), before);
    let after = Layout {
        found: current,
        current,
    };
    assert_eq!(versions.layout_as(NEWER), after);
    assert_eq!(versions.migrate_as(NEWER).unwrap(), after);
    assert_eq!(versions.check_as(NEWER).unwrap(), []);
}

pub(crate) fn a_migration_that_fails_leaves_the_layout_before_it(versions: &impl Versions) {
    let member = Member::of(versions.open_as(&[]).unwrap());
    let held = member.born();
    let before = versions.layouts();
    assert!(versions.open_as(&[ADDITIVE, FAILING]).is_err());
    assert_eq!(versions.layouts(), before, "no step is taken");
    assert_eq!(member.commit(member.last(&held)), DONE);
    Member::of(versions.open_as(&[ADDITIVE]).unwrap()).born();
    assert_eq!(versions.layouts(), (before.0 + 1, before.1));
}

/// Generates a test for each case.
macro_rules! upgrading {
    ($make:ident) => {
        $crate::conformance::upgrading::upgrading!($make:
            an_additive_step_is_taken_beside_older_members
            a_breaking_step_waits_for_older_members_to_leave
            a_program_that_knows_too_little_is_refused_in_words
            a_process_that_does_not_migrate_leaves_an_older_store_alone
            an_older_layout_is_told_and_brought_up
            a_migration_that_fails_leaves_the_layout_before_it);
    };
    ($make:ident: $($case:ident)+) => {
        $(
            #[test]
            fn $case() {
                let versions = $make();
                if $crate::conformance::Harness::is_there(&versions) {
                    $crate::conformance::upgrading::$case(&versions);
                }
            }
        )+
    };
}
pub(crate) use upgrading;
