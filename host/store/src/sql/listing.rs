//! Lists of runs, in the order of their creation.
//!
//! Each list, besides that of owners, walks one index that has this order: of one parent, of one correlation, of one tag, or
//! of all runs. Other conditions are checked run by run, so a list that few runs match looks at many:
//! callers that serve clients bound it by a [`horizon`].

use windlass_model::{Incarnation, RunNo};

use super::row::{int, unsigned};
use super::rows::{self, documents_of_runs, run_columns};
use super::{Param, Row, Source, Sql, params, sql};
use crate::columns::json_tags;
use crate::error::Result;
use crate::read::{RunPlace, RunQuery};
use crate::rows::RunRow;

/// The runs of the origins `o`, each by its key.
macro_rules! runs {
    () => {
        concat!(
            "CROSS JOIN run i ON i.no = {o.run|ANY (ARRAY[o.run])} ",
            documents_of_runs!()
        )
    };
}

/// The rows of a table between two places.
macro_rules! between {
    ($of:literal) => {
        concat!(
            "(",
            $of,
            ".created_ms, ",
            $of,
            ".run) < (?1, ?2) AND (",
            $of,
            ".created_ms, ",
            $of,
            ".run) >= (?3, ?4) "
        )
    };
}

macro_rules! newest_first {
    ($of:literal) => {
        concat!("ORDER BY ", $of, ".created_ms DESC, ", $of, ".run DESC ")
    };
}

/// The conditions of a [`RunQuery`] besides its places. The tags are a JSON object.
macro_rules! conditions {
    () => {
        "AND ({json_array_length(?5) = 0|cardinality(CAST(?5 AS smallint[])) = 0} \
         OR i.status {IN (SELECT value FROM json_each(?5))|= ANY(?5)}) \
         AND (CAST(?6 AS text) IS NULL OR d.name = ?6) \
         AND (CAST(?7 AS text) IS NULL OR o.correlation = ?7) \
         AND (CAST(?8 AS text) IS NULL \
         OR {json_extract(i.failure, '$.code')|CAST(i.failure AS json) ->> 'code'} = ?8) \
         AND (CAST(?9 AS bigint) IS NULL OR o.parent = ?9) \
         AND (CAST(?10 AS text) IS NULL OR NOT EXISTS (\
         SELECT 1 FROM {json_each(?10)|json_each_text(CAST(?10 AS json))} a \
         WHERE NOT EXISTS (SELECT 1 FROM run_tag b WHERE b.name = a.key AND b.value = a.value \
         AND b.created_ms = o.created_ms AND b.run = o.run))) "
    };
}

/// The statements about the runs of one index.
struct Walk {
    /// The runs, the newest first.
    rows: Sql,
    /// The number of these runs.
    count: Sql,
    /// The place of the run at a position of the index.
    place: Sql,
}

/// The statements about the runs that an index finds: the table with its index; the origins, if it
/// is another table; the name of the table; and the condition in the index, for lists and for
/// places.
macro_rules! walk {
    ($table:literal, $origins:literal, $of:literal, $first:literal, $first_of_places:literal) => {
        Walk {
            rows: sql!(concat!(
                "SELECT ",
                run_columns!(),
                $table,
                $origins,
                runs!(),
                "WHERE ",
                $first,
                between!($of),
                conditions!(),
                newest_first!($of),
                "LIMIT ?11"
            )),
            count: sql!(concat!(
                "SELECT count(*) FROM (SELECT 1 ",
                $table,
                $origins,
                runs!(),
                "WHERE ",
                $first,
                between!($of),
                conditions!(),
                newest_first!($of),
                "LIMIT ?11) AS found"
            )),
            place: sql!(concat!(
                "SELECT ",
                $of,
                ".created_ms, ",
                $of,
                ".run ",
                $table,
                "WHERE ",
                $first_of_places,
                between!($of),
                newest_first!($of),
                "LIMIT 1 OFFSET ?5"
            )),
        }
    };
}

const ALL: Walk = walk!(
    "FROM origin o {INDEXED BY origin_created|} ",
    "",
    "o",
    "",
    ""
);
const OF_PARENT: Walk = walk!(
    "FROM origin o {INDEXED BY origin_parent|} ",
    "",
    "o",
    "o.parent = ?9 AND ",
    "o.parent = ?6 AND "
);
const OF_CORRELATION: Walk = walk!(
    "FROM origin o {INDEXED BY origin_correlation|} ",
    "",
    "o",
    "o.correlation = ?7 AND ",
    "o.correlation = ?6 AND "
);
const OF_TAG: Walk = walk!(
    "FROM run_tag t ",
    "CROSS JOIN origin o ON o.run = {t.run|ANY (ARRAY[t.run])} ",
    "t",
    "t.name = ?12 AND t.value = ?13 AND ",
    "t.name = ?6 AND t.value = ?7 AND "
);

/// The children of a run, the oldest first.
const CHILDREN: Sql = sql!(concat!(
    "SELECT ",
    run_columns!(),
    "FROM origin o {INDEXED BY origin_parent|} ",
    runs!(),
    "WHERE o.parent = ?1 AND (o.created_ms, o.run) > (?2, ?3) \
     ORDER BY o.created_ms, o.run LIMIT ?4"
));

/// The runs with an owner, by the owner.
const OWNED: Sql = sql!(concat!(
    "SELECT ",
    run_columns!(),
    "FROM run i {INDEXED BY run_owner|} \
     CROSS JOIN origin o ON o.run = {i.no|ANY (ARRAY[i.no])} ",
    documents_of_runs!(),
    "WHERE i.owner IS NOT NULL AND (i.owner, i.no) > (?1, ?2) \
     ORDER BY i.owner, i.no LIMIT ?3"
));

/// The index that finds the runs of a query, and the key in it.
fn walk_of(query: &RunQuery) -> (Walk, Vec<Param>) {
    let tag = query.tags.iter().next();
    match (query.correlation.as_deref(), query.parent, tag) {
        (Some(correlation), ..) => (OF_CORRELATION, params![correlation]),
        (None, Some(parent), _) => (OF_PARENT, params![parent.0]),
        (None, None, Some((name, value))) => (OF_TAG, params![name, value]),
        (None, None, None) => (ALL, Vec::new()),
    }
}

fn places(query: &RunQuery) -> Vec<Param> {
    let (from, before) = query.places();
    params![before.created_ms, before.no.0, from.created_ms, from.no.0]
}

/// The statements that find the runs of a query, and the parameters of lists.
fn found_by(query: &RunQuery) -> (Walk, Vec<Param>) {
    let (walk, found_by) = walk_of(query);
    let statuses = query.statuses.iter().map(|status| i64::from(*status as u8));
    let mut key = places(query);
    key.extend(params![
        statuses.collect::<Vec<_>>(),
        query.workflow.as_deref(),
        query.correlation.as_deref(),
        query.failure.as_deref(),
        query.parent.map(|parent| parent.0),
        json_tags(&query.tags),
        query.limit
    ]);
    // Correlation and parent are parameters of the conditions; the statements of a tag have its name
    // and its value besides.
    if query.correlation.is_none() && query.parent.is_none() {
        key.extend(found_by);
    }
    (walk, key)
}

pub(crate) fn runs(tables: &impl Source, query: &RunQuery) -> Result<Vec<RunRow>> {
    let (walk, key) = found_by(query);
    tables.all(walk.rows, key, |row| rows::run(row))
}

pub(crate) fn run_count(tables: &impl Source, query: &RunQuery) -> Result<u64> {
    let (walk, key) = found_by(query);
    let count = tables.one(walk.count, key, |row| unsigned(row, 0))?;
    Ok(count.unwrap_or_default())
}

pub(crate) fn horizon(
    tables: &impl Source,
    query: &RunQuery,
    looks: u32,
) -> Result<Option<RunPlace>> {
    let (walk, found_by) = walk_of(query);
    let mut key = places(query);
    key.push(looks.saturating_sub(1).into());
    key.extend(found_by);
    tables.one(walk.place, key, |row| place(row))
}

fn place(row: &dyn Row) -> Result<RunPlace> {
    Ok(RunPlace {
        created_ms: int(row, 0)?,
        no: RunNo(int(row, 1)?),
    })
}

pub(crate) fn children(
    tables: &impl Source,
    parent: RunNo,
    after: Option<RunPlace>,
    limit: u32,
) -> Result<Vec<RunRow>> {
    let after = after.unwrap_or(RunPlace::at(i64::MIN));
    let key = params![parent.0, after.created_ms, after.no.0, limit];
    tables.all(CHILDREN, key, |row| rows::run(row))
}

pub(crate) fn owned(
    tables: &impl Source,
    after: Option<(Incarnation, RunNo)>,
    limit: u32,
) -> Result<Vec<RunRow>> {
    let (owner, no) = after.unwrap_or((Incarnation(i64::MIN), RunNo(i64::MIN)));
    tables.all(OWNED, params![owner.0, no.0, limit], |row| rows::run(row))
}

/// The key of [`OF_TAG`] in PostgreSQL.
#[cfg(test)]
pub(crate) const TAGS: &str = "run_tag_pkey";

/// Every statement of this file, with the index that it walks and the condition in it.
#[cfg(test)]
pub(crate) fn statements() -> Vec<(&'static str, &'static str, Sql)> {
    let walks = [
        ("origin_created", "", ALL),
        ("origin_parent", "parent", OF_PARENT),
        ("origin_correlation", "correlation", OF_CORRELATION),
        (TAGS, "value", OF_TAG),
    ];
    let mut all = vec![
        ("origin_parent", "parent", CHILDREN),
        ("run_owner", "owner", OWNED),
    ];
    for (index, column, walk) in walks {
        all.extend([walk.rows, walk.count, walk.place].map(|sql| (index, column, sql)));
    }
    all
}
