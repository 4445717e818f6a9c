//! The plans of each statement when tables are full of dead row versions.
//!
//! While a transaction with an old snapshot is open, tables and indexes keep all versions, and
//! statistics count only the few live rows. A plan that reads a whole table then looks cheap, and
//! costs more with each commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_postgres::SimpleQueryMessage;
use windlass_test_servers::{PostgreSql, Snapshot};

use super::{InDatabase, in_database};
use crate::conformance::{CASES, Case, Harness as _};
use crate::postgres::connect::{Connection, Target};

/// Every statement that a store of this process has prepared, and whether its connection writes.
pub(in crate::postgres) static PREPARED: Mutex<BTreeSet<(bool, &'static str)>> =
    Mutex::new(BTreeSet::new());

/// Dead row versions in each table.
const ROWS: u32 = 20_000;

/// Live rows in each table.
const LIVE: u32 = 23;

/// Fills every table, independent of its columns.
const FILL: &str = "DO $fill$ DECLARE t record; columns text; vals text; BEGIN \
    FOR t IN SELECT c.oid, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
        WHERE n.nspname = 'windlass' AND c.relkind = 'r' AND \
        c.relname NOT IN ('layout', 'requirement') \
    LOOP \
        SELECT string_agg(quote_ident(attname), ', '), string_agg(CASE atttypid \
            WHEN 'int2'::regtype THEN '(n % 3)::int2' WHEN 'int4'::regtype THEN '0' \
            WHEN 'int8'::regtype THEN 'n' WHEN 'bool'::regtype THEN 'false' \
            WHEN 'bytea'::regtype THEN 'sha256(n::text::bytea)' \
            WHEN 'timestamptz'::regtype THEN 'now()' ELSE 'n::text' END, ', ') \
        INTO columns, vals FROM pg_attribute WHERE attrelid = t.oid AND attnum > 0 \
        AND NOT attisdropped AND attgenerated = ''; \
        EXECUTE format('INSERT INTO windlass.%I (%s) SELECT %s FROM generate_series(1, ROWS) n', \
            t.relname, columns, vals); \
        EXECUTE format('DELETE FROM windlass.%I WHERE NOT ctid = ANY (ARRAY(SELECT ctid \
            FROM windlass.%I LIMIT LIVE))', t.relname, t.relname); \
    END LOOP; END $fill$";

/// Tables that steps do not write: they grow with publications and settings.
const QUIET: &[&str] = &[
    "batch",
    "binding",
    "component",
    "component_use",
    "definition",
    "draft",
    "duty",
    "grave",
    "layout",
    "member",
    "pins",
    "publication",
    "publication_text",
    "requirement",
    "schedule",
    "setting",
    "source",
    "trace",
    "upkeep",
];

/// Statements of writing connections that read an index in order instead of by key: a part of the
/// text, and the reason why that is allowed.
const WALKS: &[(&str, &str)] = &[
    (
        "UPDATE trigger SET state = 0, reason = NULL WHERE state = 2",
        "brings back what is parked: once, when a host begins",
    ),
    (
        "WITH RECURSIVE owners",
        "looks for owners that are no members: one reap in several hundred",
    ),
    (
        "WITH RECURSIVE ranks",
        "a claim looks for the priorities of which something is pending",
    ),
    (
        "(SELECT rank FROM trigger WHERE wake_ms IS NOT NULL ORDER BY rank DESC LIMIT 1)",
        "a claim reads what is due in its order",
    ),
    ("FROM bookmark_no_seq", "a sequence has one row"),
    (
        "FROM dead_letter WHERE at_ms < $1 ORDER BY at_ms",
        "a duty deletes old letters, the oldest first",
    ),
    (
        "WHERE ready_ms IS NOT NULL AND at_ms < $1 ORDER BY at_ms",
        "a duty looks for stimuli that wait for too long",
    ),
    (
        "WHERE expires_ms <= $1 ORDER BY expires_ms",
        "a duty looks for stimuli that have expired",
    ),
    (
        "FROM blob_loose l WHERE l.since_ms < $1 ORDER BY",
        "a duty sweeps large values, the oldest first",
    ),
];

/// Cases that repeat the statements of others.
const REPEATS: &[&str] = &[
    "at_once",
    "at_that_moment",
    "crowded",
    "histories",
    "large_batches",
    "many_",
    "never",
    "of_others",
    "races",
];

/// A server with all tables, and a connection with a writer's settings.
struct Bloated {
    server: PostgreSql,
    url: String,
    runtime: Runtime,
    writer: Connection,
}

impl Bloated {
    fn start() -> Option<Self> {
        let server = PostgreSql::for_test().unwrap()?;
        let url = server.database().unwrap();
        let database = InDatabase {
            clock: Arc::default(),
            url: Some(url.clone()),
        };
        drop(database.store());
        let runtime = Runtime::new().unwrap();
        let target = Target::new(&url, &database.options()).unwrap();
        let writer = runtime.block_on(target.writer()).unwrap();
        Some(Self {
            server,
            url,
            writer,
            runtime,
        })
    }

    /// Fills the tables with dead row versions that cannot be vacuumed.
    fn bloat(&self) -> Snapshot {
        let snapshot = self.server.hold_snapshot(&self.url).unwrap();
        let fill = FILL.replace("ROWS", &ROWS.to_string());
        let fill = fill.replace("LIVE", &LIVE.to_string());
        for sql in [fill.as_str(), "VACUUM ANALYZE"] {
            self.server.execute_in(&self.url, sql).unwrap();
        }
        snapshot
    }

    /// The cached plan of a statement of a writer.
    fn plan(&self, sql: &str) -> Value {
        self.plan_for(&self.writer, sql)
    }

    /// The cached plan of a statement on this connection.
    fn plan_for(&self, connection: &Connection, sql: &str) -> Value {
        let statement = self
            .runtime
            .block_on(connection.client.prepare(sql))
            .unwrap();
        let nulls = vec!["NULL"; statement.params().len()].join(", ");
        let nulls = if nulls.is_empty() {
            nulls
        } else {
            format!("({nulls})")
        };
        let all = format!(
            "PREPARE asked AS {sql}; EXPLAIN (FORMAT JSON) EXECUTE asked{nulls}; DEALLOCATE asked"
        );
        let said = self.runtime.block_on(connection.client.simple_query(&all));
        let said = said.unwrap_or_else(|error| panic!("{error:?}: {sql}"));
        let mut rows = said.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        serde_json::from_str(rows.next().unwrap()).unwrap()
    }
}

/// Collects the statements of lists that do not walk one index in its order.
fn look_at_lists(filled: &Bloated, reader: &Connection, state: &str, wrong: &mut Vec<String>) {
    for (index, column, sql) in crate::sql::listing::statements() {
        let mut found = Vec::new();
        steps(&filled.plan_for(reader, sql.postgres), &mut found);
        let bounded = |(kind, by, cond): &(String, String, String)| {
            let of = kind.strip_prefix("Index Scan ");
            let of = of.or_else(|| kind.strip_prefix("Index Only Scan "));
            match of {
                Some("o" | "t" | "i") if by == index => {
                    cond.contains("ROW(") && cond.contains(column)
                }
                Some("o" | "i" | "b") => by.ends_with("_pkey") && cond.contains(" = "),
                // Few rows, each of which is looked for by its number, and the tags of a query.
                _ => ["Scan d", "Scan p", "Scan a"]
                    .iter()
                    .any(|of| kind.ends_with(of)),
            }
        };
        let others: Vec<_> = found.iter().filter(|step| !bounded(step)).collect();
        if !others.is_empty() {
            wrong.push(format!("{state}: {others:?}\n    {}", sql.postgres));
        }
    }
}

/// Collects the parts of a plan that read more of a table than the rows of a key.
fn wide(plan: &Value, found: &mut Vec<String>) {
    match plan {
        Value::Array(parts) => parts.iter().for_each(|part| wide(part, found)),
        Value::Object(node) => {
            let text = |name: &str| node.get(name).and_then(Value::as_str).unwrap_or_default();
            let (kind, table) = (text("Node Type"), text("Relation Name"));
            let cond = text("Index Cond");
            let between = cond.contains("> ROW(") && cond.contains("<= ROW(");
            let by_key = cond.contains(" = ") || between || text("TID Cond").contains('=');
            let loud = !table.is_empty() && !QUIET.contains(&table);
            if loud && kind.contains("Scan") && !by_key {
                let index = text("Index Name");
                found.push(format!("{kind} of {table} by `{index}` ({cond})"));
            }
            if text("Filter").contains("hashed SubPlan") {
                found.push(format!("hashed SubPlan at {kind} of {table}"));
            }
            node.values().for_each(|part| wide(part, found));
        }
        _ => {}
    }
}

/// The documents of 50 workflows.
const DOCUMENTS: &str = "\
    INSERT INTO windlass.definition (no, digest, name, json) \
        SELECT n, sha256(n::text::bytea), n::text, '' FROM generate_series(1, 50) n; \
    INSERT INTO windlass.pins (no, digest, json) VALUES (1, '', '')";

/// Fills a store with the runs `FIRST` to `LAST` of these workflows, of which every tenth has a parent.
const RUNS: &str = "\
    INSERT INTO windlass.run (no, id, definition, pins, status, epoch, version, state) \
        SELECT n, sha256(n::text::bytea), n % 50 + 1, 1, 5, 1, 1, '' \
        FROM generate_series(FIRST, LAST) n; \
    INSERT INTO windlass.origin (run, request, correlation, created_ms, parent) \
        SELECT n, '', (n % 1000)::text, n / 3, CASE WHEN n % 10 = 0 THEN n / 1000 END \
        FROM generate_series(FIRST, LAST) n; \
    INSERT INTO windlass.run_tag (name, value, created_ms, run) \
        SELECT 'customer', (n % 100)::text, n / 3, n FROM generate_series(FIRST, LAST) n";

/// Collects the nodes of a plan that read a table or sort, each with its table, index and condition.
fn steps(plan: &Value, found: &mut Vec<(String, String, String)>) {
    match plan {
        Value::Array(parts) => parts.iter().for_each(|part| steps(part, found)),
        Value::Object(node) => {
            let text = |name: &str| node.get(name).and_then(Value::as_str).unwrap_or_default();
            let kind = text("Node Type");
            if kind.contains("Scan") || kind.contains("Sort") {
                let table = format!("{kind} {}", text("Alias"));
                found.push((table, text("Index Name").into(), text("Index Cond").into()));
            }
            node.values().for_each(|part| steps(part, found));
        }
        _ => {}
    }
}

#[test]
fn each_list_of_runs_walks_one_index_in_its_order() {
    let Some(filled) = Bloated::start() else {
        return;
    };
    let database = InDatabase {
        clock: Arc::default(),
        url: Some(filled.url.clone()),
    };
    let target = Target::new(&filled.url, &database.options()).unwrap();
    let reader = filled.runtime.block_on(target.reader()).unwrap();
    // The values of an `EXPLAIN` are unknown here, and a reader plans for unknown values sooner or later.
    let generic = "SET plan_cache_mode TO force_generic_plan";
    let set = filled
        .runtime
        .block_on(reader.client.batch_execute(generic));
    set.unwrap();
    let mut wrong = Vec::new();
    let runs = |first: u32, last: u32| {
        let sql = RUNS.replace("FIRST", &first.to_string());
        sql.replace("LAST", &last.to_string())
    };
    // Runs that were just made have no statistics, or those from when they were few.
    for (state, sql) in [
        ("empty", DOCUMENTS.to_owned()),
        ("few runs", runs(1, 100)),
        ("few runs that were analyzed", "ANALYZE".to_owned()),
        ("many new runs", runs(101, 20_000)),
        ("analyzed", "VACUUM ANALYZE".to_owned()),
    ] {
        filled.server.execute_in(&filled.url, &sql).unwrap();
        look_at_lists(&filled, &reader, state, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The cases that do not repeat statements.
pub(super) fn once() -> impl Iterator<Item = &'static (&'static str, Case)> {
    let repeats = |name: &str| REPEATS.iter().any(|part| name.contains(part));
    CASES.iter().filter(move |(name, _)| !repeats(name))
}

/// Runs the cases, so that every statement is prepared.
fn run_all_cases() {
    let next = Mutex::new(once());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some((_, case)) = next.lock().next() else {
                        return;
                    };
                    let harness = in_database();
                    if harness.is_there() {
                        case(&harness);
                    }
                }
            });
        }
    });
}

/// Takes up to a minute: it fills tables with dead row versions, and runs all cases of the conformance
/// suite.
#[test]
fn every_statement_finds_its_rows_by_key_under_all_statistics() {
    let Some(bloated) = Bloated::start() else {
        return;
    };
    run_all_cases();
    let statements: Vec<_> = PREPARED.lock().iter().copied().collect();
    let writing = statements.iter().filter(|(writes, _)| *writes);
    let writing: Vec<&str> = writing.map(|(_, sql)| *sql).collect();
    assert!(writing.len() > 120, "{} statements", writing.len());
    for (part, why) in WALKS {
        assert!(
            writing.iter().any(|sql| sql.contains(part)),
            "{part}: {why}"
        );
    }
    let mut wrong = BTreeSet::new();
    let mut look = |state: &str| {
        for sql in &writing {
            if ["BEGIN", "LOCK"].iter().any(|verb| sql.starts_with(verb))
                || WALKS.iter().any(|(part, _)| sql.contains(part))
            {
                continue;
            }
            let mut found = Vec::new();
            wide(&bloated.plan(sql), &mut found);
            wrong.extend(
                found
                    .into_iter()
                    .map(|what| format!("{state}: {what}\n    {sql}")),
            );
        }
    };
    look("new tables");
    let snapshot = bloated.bloat();
    look("dead rows");
    drop(snapshot);
    // The dead versions are vacuumed; the indexes keep their size.
    bloated
        .server
        .execute_in(&bloated.url, "VACUUM ANALYZE")
        .unwrap();
    look("cleared tables");
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
