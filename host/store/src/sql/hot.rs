//! Statements of the hot path that have the same text in both databases. The code around them
//! belongs to each backend.

use super::{Sql, sql};

/// Finds a member, which remains one until the transaction ends.
pub(crate) const MEMBER: Sql = sql!("SELECT 1 FROM member WHERE incarnation = ?1{| FOR KEY SHARE}");

/// Releases the reservations of a run.
pub(crate) const RELEASE_RESERVATIONS: Sql = sql!("DELETE FROM reservation WHERE run = ?1");

/// Finds a trigger of a run, which stays until the transaction ends.
pub(crate) const TRIGGER_OF: Sql =
    sql!("SELECT 1 FROM trigger WHERE no = ?1 AND run = ?2{| FOR UPDATE}");

/// Adds a resumption next to the waiting row.
pub(crate) const ADD_RESUMPTION: Sql = sql!(
    "INSERT INTO trigger (no, run, seq, kind, node, due_ms, state, token, attempt, \
    deliveries, suspicion, detail, payload, priority) SELECT ?3, run, ?4, 8, \
    node, ?5, 0, 0, 1, 0, 0, ?6, ?7, priority FROM trigger WHERE no = ?1 AND run \
    = ?2"
);

/// The number of a run.
pub(crate) const RUN_NO: Sql = sql!("SELECT no FROM run WHERE id = ?1");

/// The number of a definition, which stays until the transaction ends.
pub(crate) const DEFINITION_NO: Sql =
    sql!("SELECT no FROM definition WHERE digest = ?1{| FOR KEY SHARE}");

/// The number of pins, which stay until the transaction ends.
pub(crate) const PINS_NO: Sql = sql!("SELECT no FROM pins WHERE digest = ?1{| FOR KEY SHARE}");

/// Removes the owner of a run.
pub(crate) const GIVE_BACK: Sql = sql!("UPDATE run SET owner = NULL WHERE no = ?1");

/// Writes a child's answer into the waiting row of its parent.
pub(crate) const TELL: Sql = sql!(
    "UPDATE trigger SET payload = ?4, due_ms = CASE state WHEN 1 THEN due_ms ELSE ?5 \
    END, token = CASE state WHEN 1 THEN token ELSE token + 1 END WHERE no = ?1 AND \
    run = ?2 AND seq = ?3 AND kind = 9 AND payload IS NULL"
);

/// Removes a member.
pub(crate) const REMOVE_MEMBER: Sql = sql!("DELETE FROM member WHERE incarnation = ?1");

/// Removes a claimed trigger by its fence.
pub(crate) const CONSUME: Sql =
    sql!("DELETE FROM trigger WHERE no = ?1 AND token = ?2 AND run = ?3 AND state = 1");

/// Removes a trigger of a run.
pub(crate) const REMOVE_TRIGGER: Sql = sql!("DELETE FROM trigger WHERE no = ?1 AND run = ?2");

/// Removes all triggers of a run.
pub(crate) const CLEAR_TRIGGERS: Sql = sql!("DELETE FROM trigger WHERE run = ?1");

/// Makes the claimed triggers of runs of a dead member pending. [`super::holding::conclude`] has
/// counted the death for the marked ones. Marked ones are left only by members that have left.
pub(crate) const TRY_AGAIN: Sql = sql!(
    "UPDATE trigger SET state = 0, \
    deliveries = CASE suspicion WHEN 0 THEN deliveries + 1 ELSE deliveries END, \
    suspicion = CASE WHEN suspicion = 0 AND deliveries > 0 AND kind NOT BETWEEN 10 AND 14 \
        THEN 1024 ELSE abs(suspicion) END \
    WHERE run = {?1|ANY(?1)} AND state = 1 RETURNING suspicion"
);

/// Makes the claimed triggers of a run pending.
pub(crate) const UNCLAIM: Sql =
    sql!("UPDATE trigger SET state = 0, suspicion = abs(suspicion) WHERE run = ?1 AND state = 1");

/// Removes a scope.
pub(crate) const CLOSE_SCOPE: Sql = sql!("DELETE FROM scope WHERE run = ?1 AND scope = ?2");

/// Removes the variables of a scope.
pub(crate) const CLEAR_VARS: Sql = sql!("DELETE FROM var WHERE run = ?1 AND scope = ?2");

/// Writes a journal entry.
pub(crate) const INSERT_JOURNAL: Sql = sql!(
    "INSERT INTO journal (run, version, place, at_ms, kind, detail) VALUES (?1, \
    ?2, ?3, ?4, ?5, ?6)"
);

/// Removes the outputs of the items of a for-each.
pub(crate) const CLEAR_ITEMS: Sql = sql!("DELETE FROM item WHERE run = ?1 AND list = ?2");

/// Removes the retention time of a run's own.
pub(crate) const UNKEEP: Sql = sql!("DELETE FROM kept WHERE run = ?1");

/// Removes the head of a run.
pub(crate) const REMOVE_RUN: Sql = sql!("DELETE FROM run WHERE no = ?1");

/// Reads whether a run may be deleted, and its newest record.
pub(crate) const FORGETTABLE: Sql = sql!(
    "SELECT status, finished_ms, last_execution, EXISTS (SELECT 1 FROM origin WHERE run \
    = ?1), (SELECT until_ms FROM kept WHERE run = ?1) FROM run WHERE no = \
    ?1{| FOR NO KEY UPDATE}"
);

/// Sets the newest record of a run.
pub(crate) const SET_LAST_RUN: Sql = sql!("UPDATE run SET last_execution = ?2 WHERE no = ?1");

/// Finds the workflows that a stimulus starts.
pub(crate) const STARTED_BY: Sql = sql!(
    "SELECT b.no, d.digest FROM binding b JOIN publication p ON p.name = b.workflow AND \
    p.retracted_ms IS NULL JOIN definition d ON d.no = p.definition WHERE b.hash = ?1"
);

/// The delivery cursor of a queued stimulus, which no other transaction moves in the meantime.
pub(crate) const CURSOR: Sql = sql!(
    "SELECT after_no, until_no FROM stimulus WHERE no = ?1 AND ready_ms IS NOT NULL{| \
    FOR UPDATE}"
);

/// Moves the delivery cursor of a queued stimulus.
pub(crate) const SET_CURSOR: Sql =
    sql!("UPDATE stimulus SET after_no = ?2, until_no = ?3 WHERE no = ?1");

/// Removes older requests to pause or unpause.
pub(crate) const OVERTAKE: Sql = sql!(
    "DELETE FROM trigger WHERE run = ?1 AND kind IN (?2, ?3) AND seq < 0 AND state \
    = 0 AND due_ms < ?4"
);
