//! Rules that hold of every store between two transactions, and their check.
//!
//! Each rule is a statement that returns a line for each row that violates it. The statements use
//! only SQL that both SQLite and PostgreSQL understand.

use windlass_model::visible;

use crate::codes;
use crate::error::Error;

/// The number of lines that a finding keeps as examples.
pub(crate) const EXAMPLES: usize = 5;

/// A violated rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: String,
    /// The number of violations.
    pub count: u64,
    /// Examples of violations.
    pub examples: Vec<String>,
}

impl Finding {
    /// A finding with these lines; none if there are no lines.
    pub(crate) fn of(rule: &str, mut lines: Vec<String>) -> Option<Self> {
        let count = lines.len() as u64;
        lines.truncate(EXAMPLES);
        // Names of foreign objects may contain anything.
        for line in &mut lines {
            *line = visible::sentence(std::mem::take(line));
        }
        (count > 0).then(|| Self {
            rule: rule.to_owned(),
            count,
            examples: lines,
        })
    }
}

/// The layout of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number of its layout. May be higher than `current`, if all that this program does not
    /// know is additive.
    pub found: usize,
    /// The number of the newest layout that this program knows.
    pub current: usize,
}

/// A rule that holds of a store between two transactions.
pub(crate) struct Rule {
    /// The text of the rule.
    pub(crate) says: &'static str,
    /// Returns a line for each row that violates it.
    pub(crate) sql: &'static str,
}

macro_rules! rules {
    ($($says:literal: $sql:literal,)+) => {
        &[$(Rule { says: $says, sql: $sql }),+]
    };
}

/// Every rule. The final statuses are those from 4 on.
pub(crate) const RULES: &[Rule] = rules! {
    "a claimed trigger belongs to a run that has an owner":
        "SELECT 'trigger ' || t.no || ' of run ' || t.run FROM trigger t \
         JOIN run i ON i.no = t.run WHERE t.state = 1 AND i.owner IS NULL",
    "a run that has not ended has a trigger":
        "SELECT 'run ' || i.no FROM run i WHERE i.status < 4 \
         AND NOT EXISTS (SELECT 1 FROM trigger t WHERE t.run = i.no)",
    "a run that has ended has no owner and no trigger":
        "SELECT 'run ' || i.no FROM run i WHERE i.status >= 4 AND (i.owner IS NOT NULL \
         OR i.finished_ms IS NULL OR EXISTS (SELECT 1 FROM trigger t WHERE t.run = i.no) \
         OR EXISTS (SELECT 1 FROM bookmark b WHERE b.run = i.no) \
         OR EXISTS (SELECT 1 FROM reservation r WHERE r.run = i.no))",
    "a run has an origin, a definition and pins":
        "SELECT 'run ' || i.no FROM run i WHERE \
         (i.finished_ms IS NULL AND NOT EXISTS (SELECT 1 FROM origin o WHERE o.run = i.no)) \
         OR NOT EXISTS (SELECT 1 FROM definition d WHERE d.no = i.definition) \
         OR NOT EXISTS (SELECT 1 FROM pins p WHERE p.no = i.pins)",
    "a trigger belongs to a run":
        "SELECT 'trigger ' || t.no || ' of run ' || t.run FROM trigger t \
         WHERE NOT EXISTS (SELECT 1 FROM run i WHERE i.no = t.run)",
    "a trigger of the engine is there once":
        "SELECT 'trigger ' || min(t.no) || ' of run ' || t.run FROM trigger t \
         GROUP BY t.run, t.seq HAVING count(*) > 1",
    "a record belongs to a run, and the one before it is there":
        "SELECT 'record ' || r.no || ' of run ' || r.run FROM execution r \
         WHERE NOT EXISTS (SELECT 1 FROM run i WHERE i.no = r.run) \
         OR (r.previous IS NOT NULL \
         AND NOT EXISTS (SELECT 1 FROM execution b WHERE b.no = r.previous AND b.run = r.run))",
    "the newest record of a run is there":
        "SELECT 'run ' || i.no FROM run i WHERE i.last_execution IS NOT NULL \
         AND NOT EXISTS (SELECT 1 FROM execution r WHERE r.no = i.last_execution AND r.run = i.no)",
    "a row of a run has its run":
        "SELECT h.kind || ' of run ' || h.run FROM ( \
         SELECT 'the origin' AS kind, run FROM origin \
         UNION ALL SELECT 'a tag', run FROM run_tag \
         UNION ALL SELECT 'a variable', run FROM var \
         UNION ALL SELECT 'a scope', run FROM scope \
         UNION ALL SELECT 'an item', run FROM item \
         UNION ALL SELECT 'an entry of the journal', run FROM journal \
         UNION ALL SELECT 'a reservation', run FROM reservation \
         UNION ALL SELECT 'an external trigger', run FROM external_trigger \
         UNION ALL SELECT 'a time of its own', run FROM kept \
         UNION ALL SELECT 'a bookmark', run FROM bookmark) h \
         WHERE NOT EXISTS (SELECT 1 FROM run i WHERE i.no = h.run)",
    "a run is found by its tags":
        "SELECT 'run ' || o.run FROM origin o WHERE o.tags IS NOT NULL \
         AND o.run NOT IN (SELECT run FROM run_tag) \
         UNION ALL SELECT 'tag ' || t.name || ' of run ' || t.run FROM run_tag t \
         JOIN origin o ON o.run = t.run WHERE o.tags IS NULL OR o.created_ms <> t.created_ms",
    "a bookmark names a row of its run":
        "SELECT 'bookmark ' || b.no || ' of run ' || b.run FROM bookmark b \
         WHERE NOT EXISTS (SELECT 1 FROM trigger t WHERE t.no = b.trigger \
         AND t.run = b.run)",
    "a stimulus waits either in the queue or for its bookmark":
        "SELECT 'stimulus ' || s.no FROM stimulus s \
         WHERE (s.ready_ms IS NULL) = (s.expires_ms IS NULL)",
    "a row that another row refers to exists":
        "SELECT 'blob ' || r.blob || ' of holder ' || r.run FROM blob_ref r \
         WHERE NOT EXISTS (SELECT 1 FROM blob b WHERE b.no = r.blob)",
    "a published version has its definition":
        "SELECT p.name || ' version ' || p.version FROM publication p \
         WHERE NOT EXISTS (SELECT 1 FROM definition d WHERE d.no = p.definition)",
    "a text belongs to a published version":
        "SELECT 'text ' || t.no FROM publication_text t \
         WHERE NOT EXISTS (SELECT 1 FROM publication p WHERE p.no = t.no)",
    "a start of a workflow belongs to its published version":
        "SELECT s.kind || ' ' || s.key || ' of ' || s.workflow FROM ( \
         SELECT 'trigger' AS kind, key, workflow FROM binding \
         UNION ALL SELECT 'schedule', key, workflow FROM schedule) s \
         WHERE NOT EXISTS (SELECT 1 FROM publication p WHERE p.name = s.workflow \
         AND p.retracted_ms IS NULL)",
};

/// The rule for the objects of the database.
pub(crate) const OBJECTS: &str = "the database has the tables and indexes of its layout alone";

/// The rule for rows that are identified by the digest of their content.
pub(crate) const DIGESTS: &str = "content has the digest that names it";

/// The rule for rows with a checksum.
pub(crate) const SUMS: &str = "a value has the checksum with which it was written";

/// The rule for a store with a marker beside it.
pub(crate) const MARKED: &str = "the store has everything that its marker names";

/// Tables whose rows are identified by the digest of a column: the table, and the column.
pub(crate) const DIGESTED: &[(&str, &str)] = &[
    ("definition", "json"),
    ("pins", "json"),
    ("blob", "content"),
    ("publication_text", "content"),
];

/// The error for a store whose layout must be migrated before it can be checked.
pub(crate) fn older(place: &str, layout: Layout) -> Error {
    let text = format!(
        "{place} has layout {}, and this Windlass looks at layout {}",
        layout.found, layout.current
    );
    Error::new(codes::OLDER, text).help("Bring it up with `windlass store migrate`.")
}
