//! The cases that every backend must pass unchanged.
//!
//! A backend's tests implement [`Harness`] and call [`crate::conformance!`], which generates one
//! test for each case.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "these are tests, only in a place where other crates can reach them"
)]

mod batching;
mod claiming;
mod creating;
mod delivering;
mod drafting;
mod dying;
mod external;
mod fencing;
pub(crate) mod forgetting;
pub(crate) mod history;
mod history_external;
mod history_kept;
mod history_set;
mod holding;
mod large;
mod listing;
mod living;
mod moving;
mod neighbours;
mod planning;
pub mod power;
pub(crate) mod publishing;
mod reading;
mod reopening;
mod scoping;
mod stepping;
mod taking;
mod told;
pub(crate) mod trees;
mod unheard;
#[cfg(test)]
pub(crate) mod upgrading;
mod values;
pub(crate) mod waiting;
pub(crate) mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use windlass_model::Clock;

pub use self::told::told;
pub use self::world::batch;
use crate::Store;

/// A store under test that several processes share.
pub trait Harness {
    /// Opens the store as one more process. Closing the returned store simulates the death of that
    /// process: it does not leave first.
    fn open(&self) -> Arc<dyn Store>;

    /// The clock that all these processes share.
    fn clock(&self) -> &TestClock;

    /// Whether the store can be reached. If not, no case is run.
    fn is_there(&self) -> bool {
        true
    }

    /// Whether the store has its rows in memory, so that readers need not be bounded.
    fn is_memory(&self) -> bool {
        false
    }
}

/// A clock that only tests advance.
#[derive(Debug, Default)]
pub struct TestClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicU64,
}

impl TestClock {
    /// Advances the wall clock and the monotonic clock.
    pub fn advance(&self, ms: u64) {
        self.wall_ms.fetch_add(ms.cast_signed(), Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic_ms.load(Ordering::SeqCst))
    }
}

/// A property that every store must have.
pub type Case = fn(&dyn Harness);

/// Generates a test for every case, with a new harness from the named function.
#[macro_export]
macro_rules! conformance {
    ($harness:ident) => {
        $crate::conformance!(@with tests [$harness]);
    };
    (@tests [$harness:ident] $($module:ident: $($case:ident),+;)+) => {
        $($(
            #[test]
            fn $case() {
                $crate::conformance::check(stringify!($case), &$harness());
            }
        )+)+
    };
    (@table [] $($module:ident: $($case:ident),+;)+) => {
        &[$($((stringify!($case), $module::$case as Case)),+),+]
    };
    (@with $what:ident $args:tt) => {
        $crate::conformance! { @$what $args
            creating: the_same_request_again_finds_the_existing_run, a_taken_id_leaves_no_trace,
                a_run_keeps_the_trace_that_it_continues,
                a_run_can_be_born_owned, the_dead_give_birth_to_nothing, documents_are_kept_once;
            claiming: due_work_is_claimed_with_its_run, control_triggers_are_claimed_alone, a_claim_ends_with_the_run_that_reaches_its_bytes,
            the_next_due_time_is_named,
                an_owned_run_is_claimed_by_its_owner_alone, a_claim_is_bounded,
                one_crowded_run_hides_no_other, work_of_others_hides_nothing,
                a_scope_claims_only_its_runs, threads_never_claim_the_same,
                strangers_claim_nothing;
            stepping: a_step_turns_its_trigger_into_the_successor, a_step_is_read_back_whole,
                steps_in_a_row_go_in_one_batch, a_pending_successor_can_be_claimed,
                finishing_leaves_no_triggers, releasing_with_a_step_frees_the_run,
                unwanted_triggers_are_removed;
            fencing: stale_fences_write_nothing, neighbours_of_the_refused_go_on,
                a_contradiction_spoils_only_itself, a_finished_run_stays_finished;
            dying: the_closed_are_dead_at_once, a_lease_runs_out, renewing_keeps_alive,
                reaped_members_are_fenced, reaping_is_bounded,
                the_second_death_in_a_row_makes_suspects, a_poisonous_trigger_is_found_by_halves,
                the_last_suspect_is_guilty_unless_work_ran_beside_it, leaving_is_no_death,
                incarnations_only_grow;
            holding: releasing_makes_pending, parked_work_waits_until_it_is_unparked,
                marking_needs_the_claim, suspicion_ends_with_the_trigger;
            large: large_payloads_become_blobs, a_part_of_a_blob_is_read, equal_blobs_are_one, large_batches_are_answered_in_order,
                many_submitters_are_all_answered;
            reading: runs_are_walked_back, large_runs_are_read_in_pages, runs_are_found_by_prefix,
                a_missing_row_is_none, waiting_work_is_counted, a_decision_is_kept_until_it_is_changed, a_component_is_found_by_its_digest_wherever_it_came_from, an_unused_component_is_forgotten, a_notification_reaches_the_others, changed_runs_are_told_to_those_that_attend, the_closed_refuse;
            listing: runs_are_listed_by_their_creation_in_any_process, runs_are_listed_by_every_filter,
                owned_runs_are_listed_by_their_owner,
                a_search_ends_after_so_many_runs, runs_are_found_by_their_tags,
                the_tags_of_a_deleted_run_are_deleted, pages_show_each_run_once_while_others_are_created;
            publishing: publishing_counts_versions, a_definition_is_found_with_the_version_of_a_time, a_version_keeps_the_text_that_it_was_published_as,
                publications_are_listed_by_name,
                unchanged_bindings_keep_their_numbers, one_hash_finds_all_workflows,
                unchanged_schedules_keep_their_numbers, retracting_leaves_nothing_that_starts,
                a_key_that_is_there_twice_publishes_nothing, publishers_at_once_leave_one_version,
                a_run_is_not_created_as_of_an_earlier_edition;
            batching: the_progress_of_a_batch_is_changed_by_one_writer,
                few_batches_go_on_and_few_that_ended_are_kept;
            drafting: a_draft_is_one_text_for_each_name, an_edit_over_another_edit_is_refused,
                publishing_takes_the_draft_that_it_was_made_from,
                publishing_over_another_version_than_expected_is_refused,
                a_place_retracts_only_its_own_publications, requests_wait_until_they_are_done,
                unreferenced_rows_are_swept, a_run_may_be_kept_for_a_time_of_its_own,
                a_start_runs_the_version_published_at_that_moment;
            planning: an_occurrence_is_made_once, planners_at_once_make_one_occurrence,
                an_occurrence_that_exists_moves_the_schedule_on, an_occurrence_can_be_left_out,
                overlap_allow_starts_beside_it, overlap_skip_leaves_out, overlap_queue_waits,
                overlap_cancel_previous_cancels, a_reservation_excludes_until_its_run_ends,
                creators_at_once_reserve_once, a_duty_is_one_members_at_a_time,
                a_schedule_in_trouble_is_put_off_until_it_is_well,
                schedules_in_trouble_hide_none_that_is_well,
                a_paused_schedule_plans_nothing_until_it_is_unpaused,
                each_schedule_is_unpaused_by_itself,
                schedules_are_found_by_their_keys_and_a_page_at_a_time,
                a_run_of_a_schedule_begins_beside_its_plan;
            scoping: scopes_come_with_the_claim, a_step_changes_and_closes_scopes,
                items_are_read_in_order, large_items_become_blobs;
            forgetting: only_the_expired_are_forgotten, the_oldest_expire_first,
                a_run_is_forgotten_whole, shared_blobs_stay_until_the_last_one_goes,
                a_blob_that_is_wanted_again_stays, a_blob_that_stays_hides_none_that_goes;
            waiting: a_stimulus_resumes_the_waiting_run, too_early_is_as_good_as_in_time,
                a_buffered_stimulus_meets_its_bookmark, a_group_is_burned_together,
                without_burning_the_wait_goes_on, a_run_that_does_not_wait_is_resumed_beside_its_work,
                correlation_and_run_narrow, a_match_is_compared_by_its_digits, private_bookmarks_are_resumed_by_their_token,
                a_bookmark_is_heard_until_it_expires,
                an_expired_wait_is_claimed_without_a_payload, large_inputs_are_blobs;
            unheard: an_unheard_resumption_is_a_dead_letter,
                a_resumption_that_is_used_has_to_be_there,
                a_resumption_that_the_end_follows_in_one_batch_is_a_dead_letter;
            delivering: steps_that_wait_go_with_others, a_bookmark_that_is_burned_at_once_was_there, more_than_the_limit_goes_on_later, stimuli_of_nodes_wait_in_the_queue,
                a_waiting_run_keeps_its_place,
                a_stimulus_that_waits_too_long_is_dead, a_stimulus_that_races_its_bookmark_meets_it_once,
                many_stimuli_resume_many_at_the_same_moment;
            taking: a_resumed_run_is_taken, a_run_that_a_token_resumes_is_taken,
                a_started_run_is_taken, a_run_for_later_takes_no_room, strangers_take_nothing,
                no_more_is_taken_than_there_is_room_for, an_owned_run_is_left,
                a_paused_run_is_not_taken, takers_and_claims_never_get_the_same;
            external: scheduling_again_is_answered_alike, touching_moves_unclaimed_triggers,
                control_comes_before_everything, the_highest_priority_is_claimed_first,
                pending_triggers_are_listed_by_their_time, a_childs_end_wakes_its_parent,
                a_child_tells_only_the_parent_that_waits_for_it, a_child_that_cannot_begin_has_failed,
                a_step_cancels_children, dead_letters_are_tried_again_once;
            trees: a_root_has_so_many_descendants, the_workflow_of_the_root_bounds_its_tree,
                a_child_that_is_not_created_is_not_counted,
                a_cancelled_run_has_no_more_descendants,
                a_cancellation_below_the_root_stops_only_the_runs_below_it,
                a_run_that_is_retried_has_descendants_again,
                a_tree_is_counted_until_its_last_run_is_deleted, trees_leave_each_other_alone,
                a_run_in_the_place_of_a_root_has_its_descendants,
                starts_by_stimuli_of_a_run_are_of_its_tree,
                a_start_that_a_stimulus_does_not_create_is_not_counted,
                a_tree_outlives_its_root_while_a_stimulus_has_started_a_run,
                creating_descendants_races_within_the_bound;
            living: a_created_run_begins_when_it_is_begun,
                a_run_for_later_begins_at_once_when_it_is_begun,
                nothing_of_a_paused_run_is_claimed,
                an_execution_is_kept_when_its_run_is_paused,
                of_pausing_and_going_on_the_last_counts,
                a_pause_that_a_claim_passed_by_does_not_undo_its_end, a_deleted_run_is_found_by_no_reader,
                deleting_ends_a_run_that_has_not_ended, deleting_races_the_last_commit,
                cancelling_races_the_last_commit, resuming_races_cancelling;
            reopening: a_failed_run_is_reopened_once,
                a_failed_run_is_reopened_with_other_documents,
                a_failed_run_is_reopened_with_another_input,
                a_child_that_has_reported_is_not_taken_up_again,
                a_dead_letter_takes_its_run_up_again_once;
            moving: an_imported_run_is_as_it_was, an_imported_run_goes_on,
                a_place_is_taken_only_if_it_is_said, the_same_put_in_again_changes_nothing,
                a_run_with_an_owner_keeps_its_place, an_impossible_import_leaves_no_trace,
                families_and_the_deleted_keep_their_places, an_export_is_bounded,
                putting_in_races_a_burst;
            neighbours: a_run_that_takes_a_place_takes_its_own_rows_over,
                a_deleted_run_leaves_neighbours_alone, a_run_that_begins_leaves_neighbours_alone,
                an_unpaused_run_leaves_neighbours_paused, an_execution_stays_when_its_run_is_unpaused,
                a_publication_leaves_other_workflows_alone;
            values: keys_at_their_bounds_are_kept_and_found, any_text_is_kept_where_people_read_it;
            history: random_histories_agree_with_the_model;
        }
    };
}

/// Every case, by name.
pub const CASES: &[(&str, Case)] = crate::conformance!(@with table []);

/// Runs one case.
pub fn check(name: &str, harness: &dyn Harness) {
    let case = CASES.iter().find(|(known, _)| *known == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
    if harness.is_there() {
        case.1(harness);
    }
}
