//! The suite, on a real server, and what only PostgreSQL does.
//!
//! Where PostgreSQL is neither installed nor required, the tests say so and do nothing.

use std::sync::Arc;

use windlass_model::Clock;
use windlass_test_servers::PostgreSql;

use super::{PostgresOptions, PostgresStore};
use crate::Store;
use crate::conformance::{Harness, TestClock};

/// A database of its own in the server that all tests of this process share.
struct InDatabase {
    clock: Arc<TestClock>,
    /// None where there is no server.
    url: Option<String>,
}

fn in_database() -> InDatabase {
    let server = PostgreSql::shared().unwrap();
    InDatabase {
        clock: Arc::default(),
        url: server.map(|server| server.database().unwrap()),
    }
}

impl InDatabase {
    fn options(&self) -> PostgresOptions {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        PostgresOptions {
            ahead: Some(Arc::clone(&clock)),
            read_connections: 2,
            ..PostgresOptions::new(clock)
        }
    }

    fn store(&self) -> Arc<PostgresStore> {
        PostgresStore::open(self.url.as_deref().unwrap(), self.options()).unwrap()
    }
}

impl Harness for InDatabase {
    fn open(&self) -> Arc<dyn Store> {
        self.store()
    }

    fn clock(&self) -> &TestClock {
        &self.clock
    }

    fn is_there(&self) -> bool {
        self.url.is_some()
    }
}

/// Makes tests of cases of the suite.
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                crate::conformance::check(stringify!($name), &in_database());
            }
        )+
    };
}

cases! {
    the_same_request_again_finds_what_exists, a_taken_id_leaves_no_trace,
    an_instance_can_be_born_owned, the_dead_give_birth_to_nothing, documents_are_kept_once,
    due_work_is_claimed_with_its_instance, what_is_not_due_is_named,
    an_owned_instance_is_claimed_by_nobody_else, a_claim_is_bounded,
    one_crowded_instance_hides_nobody, work_of_others_hides_nothing,
    a_scope_claims_only_its_instances, threads_never_claim_the_same,
    strangers_claim_nothing,
    a_step_turns_its_trigger_into_the_successor, a_step_is_read_back_whole,
    steps_in_a_row_go_in_one_batch, a_pending_successor_can_be_claimed,
    finishing_leaves_no_triggers, releasing_with_a_step_frees_the_instance,
    unwanted_triggers_are_removed,
    stale_fences_write_nothing, neighbours_of_the_refused_go_on,
    a_contradiction_spoils_only_itself, a_finished_instance_stays_finished,
    the_closed_are_dead_at_once, a_lease_runs_out, renewing_keeps_alive,
    the_buried_are_fenced, burials_are_bounded, marked_ones_count_deliveries,
    leaving_leaves_no_suspicion, incarnations_only_grow,
    releasing_makes_pending, parked_work_waits_until_it_is_unparked,
    marking_needs_the_claim, suspicion_ends_with_the_trigger,
    large_payloads_become_blobs, equal_blobs_are_one, large_batches_are_answered_in_order,
    many_submitters_are_all_answered,
    runs_are_walked_back, instances_are_found_by_prefix, instances_are_listed,
    a_notification_reaches_the_others, the_closed_refuse,
    scopes_come_with_the_claim, a_step_changes_and_closes_scopes,
    items_are_read_in_order, large_items_become_blobs,
}
