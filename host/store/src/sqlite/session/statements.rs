//! The statements of the hot path, prepared once for each connection.
//!
//! Looking a statement up by its text costs about as much as running it. So the statements of a
//! step, a create or a claim are kept here by name. Rare statements use rusqlite's cache.

use rusqlite::{Connection, Error as Fault, Statement};

use crate::sql::rows::{select_run, select_trigger, weight_of};
use crate::sql::{Sql, hot, sql};

/// The due triggers of one priority, after a position.
pub(in crate::sqlite) const DUE: &str = "SELECT due_ms, run, no FROM trigger INDEXED BY trigger_due WHERE state = 0 \
        AND priority = ?6 AND due_ms <= ?1 AND (due_ms, run, no) > (?2, ?3, ?4) \
        ORDER BY due_ms, run, no LIMIT ?5";

/// The highest priority below another one that has pending triggers.
pub(in crate::sqlite) const PRIORITY: Sql = sql!(
    "SELECT priority FROM trigger INDEXED BY trigger_due WHERE state = 0 \
    AND priority < ?1 ORDER BY priority DESC LIMIT 1"
);

/// Binds all parameters of a statement with more parameters than a tuple may have. Each is bound by
/// its own type; a list of `dyn ToSql` would not do that.
macro_rules! bind {
    ($statement:expr, $($value:expr),+ $(,)?) => {{
        let statement = &mut $statement;
        let mut place = 0;
        $(
            place += 1;
            statement.raw_bind_parameter(place, $value)?;
        )+
        debug_assert_eq!(place, statement.parameter_count());
    }};
}
pub(super) use bind;

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: $sql:expr,)*) => {
        pub(super) struct Statements<'c> {
            $($(#[$doc])* pub(super) $name: Statement<'c>,)*
        }

        impl<'c> Statements<'c> {
            pub(super) fn prepare(connection: &'c Connection) -> Result<Self, Fault> {
                Ok(Self { $($name: connection.prepare($sql)?,)* })
            }
        }
    };
}

statements! {
    begin: "BEGIN IMMEDIATE",
    commit: "COMMIT",
    /// Changes when another connection has written.
    data_version: "PRAGMA data_version",
    member: hot::MEMBER.sqlite,

    head: "SELECT status, owner, epoch, version, last_execution, extras FROM run WHERE no = ?1",
    /// The head of a run that keeps its owner.
    step_head: "UPDATE run SET status = ?2, version = ?3, last_execution = ?4, state = ?5, \
        state_sum = ?6 WHERE no = ?1",
    /// The head of a run that ends or is released.
    whole_head: "UPDATE run SET status = ?2, version = ?3, last_execution = ?4, state = ?5, \
        owner = ?6, finished_ms = ?7, failure = ?8, output = ?9, output_meta = ?10, \
        state_sum = ?11, output_sum = ?12 WHERE no = ?1",

    /// Checks the fence of a step and writes its successor in one statement: nothing changes unless
    /// the row matches. `state` is not assigned, so that SQLite reads only one index, which is
    /// empty.
    succeed_claimed: "UPDATE trigger SET token = token + 1, seq = ?4, kind = ?5, node = ?6, \
        due_ms = ?7, attempt = ?8, deliveries = 0, suspicion = 0, detail = ?9, \
        payload = ?10, priority = ?11 \
        WHERE no = ?1 AND token = ?2 AND run = ?3 AND state = 1",
    succeed_pending: "UPDATE trigger SET state = 0, seq = ?4, kind = ?5, node = ?6, \
        due_ms = ?7, attempt = ?8, deliveries = 0, suspicion = 0, detail = ?9, \
        payload = ?10, priority = ?11 \
        WHERE no = ?1 AND token = ?2 AND run = ?3 AND state = 1",
    consume: hot::CONSUME.sqlite,
    insert_trigger: "INSERT INTO trigger (no, run, seq, kind, node, due_ms, state, token, \
        attempt, deliveries, suspicion, detail, payload, priority) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, 0, 0, ?9, ?10, ?11)",
    remove_trigger: hot::REMOVE_TRIGGER.sqlite,
    clear_triggers: hot::CLEAR_TRIGGERS.sqlite,
    unclaim: hot::UNCLAIM.sqlite,
    insert_execution: "INSERT INTO execution (no, run, previous, seq, first, node, kind, attempt, \
        status, started_ms, took_us, failure, logs, skipped, output, output_meta, sum, inputs, \
        event) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, \
        ?18, ?19)",
    put_var: "INSERT INTO var (run, scope, name, body, meta, sum) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
        ON CONFLICT (run, scope, name) DO UPDATE SET body = excluded.body, \
        meta = excluded.meta, sum = excluded.sum",
    put_scope: "INSERT INTO scope (run, scope, state, sum) VALUES (?1, ?2, ?3, ?4) \
        ON CONFLICT (run, scope) DO UPDATE SET state = excluded.state, sum = excluded.sum",
    close_scope: hot::CLOSE_SCOPE.sqlite,
    clear_vars: hot::CLEAR_VARS.sqlite,
    scopes: "SELECT scope, state, NULL, sum FROM scope WHERE run = ?1 ORDER BY scope",
    put_item: "INSERT INTO item (run, list, place, body, meta, sum) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
        ON CONFLICT (run, list, place) DO UPDATE SET body = excluded.body, \
        meta = excluded.meta, sum = excluded.sum",
    put_blob: "INSERT INTO blob (digest, touched_ms, content, sum) VALUES (?1, ?2, ?3, ?4) \
        ON CONFLICT (digest) DO UPDATE SET touched_ms = max(touched_ms, excluded.touched_ms)",
    insert_journal: hot::INSERT_JOURNAL.sqlite,

    insert_run: "INSERT INTO run (no, id, definition, pins, status, owner, epoch, \
        version, state, extras, state_sum) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
        ON CONFLICT (id) DO NOTHING",
    insert_origin: "INSERT INTO origin (run, request, correlation, created_ms, input, \
        input_meta, parent, parent_id, parent_trigger, parent_seq, depth, \
        root, flow, keep_ms, sum, tags, trace) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",

    run_by_no: select_run!("WHERE i.no = ?1").sqlite,
    /// The bytes of a run's triggers and scopes.
    weight: concat!("SELECT ", weight_of!("?1")),
    /// Answered from the index alone.
    due: DUE,
    /// The highest priority below another one that has pending triggers: one index lookup.
    priority: PRIORITY.sqlite,
    trigger: select_trigger!("WHERE no = ?1").sqlite,
    claim: "UPDATE trigger SET state = 1, token = token + 1 WHERE no = ?1",
    take: "UPDATE run SET owner = ?2, epoch = epoch + 1 WHERE no = ?1",
    triggers: select_trigger!("WHERE run = ?1 ORDER BY no").sqlite,
}
