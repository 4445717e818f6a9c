-- The first layout of a store file. Numbers everywhere; the only UUIDs are in unique indexes of
-- their own. What a step touches is small and lies close together: a head, an execution at the
-- end of its table, a trigger changed in place. See docs/storage.md.

-- `wlas`: marks the file as a store.
PRAGMA application_id = 2003591539;

-- The lowest layout that a program has to know to work on this store, and the version of the
-- program that brought the store there. A program that knows this layout works on the store,
-- whether or not it knows the steps behind it.
CREATE TABLE requirement (
    no      INTEGER PRIMARY KEY CHECK (no = 1),
    layout  INTEGER NOT NULL,
    program TEXT    NOT NULL
) STRICT;

CREATE TABLE member (
    incarnation INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL,
    pid         INTEGER NOT NULL,
    boot        TEXT    NOT NULL,
    lease_ms    INTEGER NOT NULL,
    until_ms    INTEGER NOT NULL,
    joined_ms   INTEGER NOT NULL,
    -- The version of the member's program, and the newest layout that it knows.
    program     TEXT    NOT NULL,
    layout      INTEGER NOT NULL
) STRICT;

CREATE TABLE definition (
    no        INTEGER PRIMARY KEY,
    digest    BLOB    NOT NULL UNIQUE,
    name      TEXT    NOT NULL,
    json      BLOB    NOT NULL,
    -- Since when it is known that nobody uses it.
    unused_ms INTEGER
) STRICT;

CREATE INDEX definition_name ON definition (name);

CREATE TABLE pins (
    no        INTEGER PRIMARY KEY,
    digest    BLOB    NOT NULL UNIQUE,
    json      BLOB    NOT NULL,
    unused_ms INTEGER
) STRICT;

-- The head of a run: rewritten by every step, so it holds nothing that a step does not change,
-- except what finds it.
CREATE TABLE run (
    no             INTEGER PRIMARY KEY,
    id             BLOB    NOT NULL UNIQUE,
    definition     INTEGER NOT NULL,
    pins           INTEGER NOT NULL,
    status         INTEGER NOT NULL,
    owner          INTEGER,
    epoch          INTEGER NOT NULL,
    version        INTEGER NOT NULL,
    last_execution INTEGER,
    state          BLOB    NOT NULL,
    finished_ms    INTEGER,
    failure        TEXT,
    output         BLOB,
    output_meta    TEXT,
    -- Which of the rarer things hang on a run, bit by bit, so that its end looks only for what
    -- there may be.
    extras         INTEGER NOT NULL DEFAULT 0,
    -- Checksums over the key and the content, here and in other tables.
    state_sum      INTEGER NOT NULL,
    output_sum     INTEGER
) STRICT;

CREATE INDEX run_owner ON run (owner) WHERE owner IS NOT NULL;
-- Which runs have ended, in the order in which they did.
CREATE INDEX run_finished ON run (finished_ms) WHERE finished_ms IS NOT NULL AND extras & 16 = 0;
-- Who uses a document.
CREATE INDEX run_definition ON run (definition);
CREATE INDEX run_pins ON run (pins);

-- Finished runs that are kept for a time of their own, so that they are not in the way of those
-- that are kept as long as all. The bit 16 of `extras` says which.
CREATE TABLE kept (
    run      INTEGER PRIMARY KEY,
    until_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX kept_until ON kept (until_ms);

-- What a run was created with; never changed.
CREATE TABLE origin (
    run            INTEGER PRIMARY KEY,
    request        BLOB    NOT NULL,
    correlation    TEXT,
    created_ms     INTEGER NOT NULL,
    input          BLOB,
    input_meta     TEXT,
    parent         INTEGER,
    parent_id      BLOB,
    parent_trigger INTEGER,
    parent_seq     INTEGER,
    -- Negative if the child undoes a node: such a child begins although runs above it are being
    -- cancelled.
    depth          INTEGER,
    keep_ms        INTEGER,
    sum            INTEGER,
    -- The root of the run's tree, unless that is the run; it may have no parent, if a stimulus
    -- of the tree has started it. The name of the root's workflow.
    root           INTEGER,
    flow           TEXT,
    -- A JSON object of texts, if the run has tags.
    tags           TEXT,
    -- The trace that the run continues, if it continues one.
    trace          BLOB
) STRICT;

-- Lists of runs, the newest first: all of them, the children of a run, and those of a subject. The
-- number of the run is the last column of each index.
CREATE INDEX origin_created ON origin (created_ms);
CREATE INDEX origin_parent ON origin (parent, created_ms) WHERE parent IS NOT NULL;
CREATE INDEX origin_correlation ON origin (correlation, created_ms) WHERE correlation IS NOT NULL;
CREATE INDEX origin_root ON origin (root) WHERE root IS NOT NULL;

-- The runs with a tag. `created_ms` is that of the run.
CREATE TABLE run_tag (
    name       TEXT    NOT NULL,
    value      TEXT    NOT NULL,
    created_ms INTEGER NOT NULL,
    run        INTEGER NOT NULL,
    PRIMARY KEY (name, value, created_ms, run)
) STRICT, WITHOUT ROWID;

-- The descendants that a root run has had, and how many its workflow allows. A descendant is counted
-- before it is created, and stays counted when it ends or is deleted. The row is deleted with the
-- last run of the tree.
CREATE TABLE tree (
    root  INTEGER PRIMARY KEY,
    born  INTEGER NOT NULL,
    bound INTEGER NOT NULL
) STRICT;

-- Runs that were asked to end. No descendant of them begins, except to undo a node.
CREATE TABLE ending (
    run INTEGER PRIMARY KEY
) STRICT;

-- Variables by scope: the root is 0.
CREATE TABLE var (
    run   INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    name  TEXT    NOT NULL,
    body  BLOB,
    meta  TEXT,
    sum   INTEGER,
    PRIMARY KEY (run, scope, name)
) STRICT, WITHOUT ROWID;

-- Open scopes besides the root.
CREATE TABLE scope (
    run   INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    state BLOB    NOT NULL,
    sum   INTEGER NOT NULL,
    PRIMARY KEY (run, scope)
) STRICT, WITHOUT ROWID;

-- What came out of the items of a for-each.
CREATE TABLE item (
    run   INTEGER NOT NULL,
    list  INTEGER NOT NULL,
    place INTEGER NOT NULL,
    body  BLOB,
    meta  TEXT,
    sum   INTEGER,
    PRIMARY KEY (run, list, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE trigger (
    no         INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    kind       INTEGER NOT NULL,
    node       INTEGER,
    due_ms     INTEGER NOT NULL,
    state      INTEGER NOT NULL,
    token      INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    deliveries INTEGER NOT NULL,
    suspicion  INTEGER NOT NULL,
    detail     BLOB    NOT NULL,
    reason     TEXT,
    payload    BLOB,
    priority   INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX trigger_run ON trigger (run);
-- Pending triggers in the order in which they are claimed: the priorities that are there are
-- found by one look each, and within one the order is that of the due times. Claimed ones are
-- not in it, so that a chain of steps in one process never touches it.
CREATE INDEX trigger_due ON trigger (priority, due_ms, run) WHERE state = 0;
CREATE INDEX trigger_parked ON trigger (run, no) WHERE state = 2;

-- The log of executions: appended, never changed, read backwards by `previous`.
CREATE TABLE execution (
    no          INTEGER PRIMARY KEY,
    run         INTEGER NOT NULL,
    previous    INTEGER,
    seq         INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    node        INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    started_ms  INTEGER NOT NULL,
    took_us     INTEGER NOT NULL,
    output      BLOB,
    output_meta TEXT,
    failure     TEXT,
    logs        TEXT,
    skipped     TEXT,
    inputs      BLOB,
    event       BLOB,
    sum         INTEGER
) STRICT;

CREATE TABLE journal (
    run     INTEGER NOT NULL,
    version INTEGER NOT NULL,
    place   INTEGER NOT NULL,
    at_ms   INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    detail  BLOB    NOT NULL,
    PRIMARY KEY (run, version, place)
) STRICT, WITHOUT ROWID;

-- What runs that have not ended keep to themselves.
CREATE TABLE reservation (
    key TEXT    NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (key, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX reservation_run ON reservation (run);

CREATE TABLE blob (
    no         INTEGER PRIMARY KEY,
    digest     BLOB    NOT NULL UNIQUE,
    touched_ms INTEGER NOT NULL,
    content    BLOB    NOT NULL,
    sum        INTEGER NOT NULL
) STRICT;

-- Which blobs a run refers to.
CREATE TABLE blob_ref (
    run  INTEGER NOT NULL,
    blob INTEGER NOT NULL,
    PRIMARY KEY (run, blob)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_ref_blob ON blob_ref (blob);

-- Blobs that lost a reference: they are looked at again once the grace period is over.
CREATE TABLE blob_loose (
    blob     INTEGER PRIMARY KEY,
    since_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX blob_loose_since ON blob_loose (since_ms);

CREATE TABLE publication (
    no           INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    definition   INTEGER NOT NULL,
    published_ms INTEGER NOT NULL,
    retracted_ms INTEGER,
    UNIQUE (name, version)
) STRICT;

CREATE INDEX publication_definition ON publication (definition);
-- One published version of each workflow.
CREATE UNIQUE INDEX publication_current ON publication (name) WHERE retracted_ms IS NULL;

-- The text that a version was published as, comments and all. The number is that of the publication.
CREATE TABLE publication_text (
    no      INTEGER PRIMARY KEY,
    digest  BLOB    NOT NULL,
    content BLOB    NOT NULL
) STRICT;

-- The trigger index, of published versions only. A number is never used again.
CREATE TABLE binding (
    no       INTEGER PRIMARY KEY AUTOINCREMENT,
    workflow TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    hash     BLOB    NOT NULL,
    matches  BLOB    NOT NULL,
    node     INTEGER,
    UNIQUE (workflow, key)
) STRICT;

CREATE INDEX binding_hash ON binding (hash);

CREATE TABLE schedule (
    no              INTEGER PRIMARY KEY AUTOINCREMENT,
    workflow        TEXT    NOT NULL,
    key             TEXT    NOT NULL,
    spec            BLOB    NOT NULL,
    since_ms        INTEGER NOT NULL,
    next_ms         INTEGER NOT NULL,
    last_planned_ms INTEGER,
    last_run        BLOB,
    -- How often in a row an occurrence could not be planned. While that is not 0, `next_ms` is
    -- when planning is tried again.
    troubles        INTEGER NOT NULL DEFAULT 0,
    -- Since when it is paused. Then `next_ms` is so late that it is never planned.
    paused_ms       INTEGER,
    UNIQUE (workflow, key)
) STRICT;

CREATE INDEX schedule_next ON schedule (next_ms, no);
CREATE INDEX schedule_key ON schedule (key);
-- Schedules in trouble are looked at apart, so that however many there are, those that are well
-- are found at once.
CREATE INDEX schedule_well ON schedule (next_ms, no) WHERE troubles = 0;
CREATE INDEX schedule_troubled ON schedule (next_ms, no) WHERE troubles > 0;

-- Drafts, one for each workflow. The number is the revision, and is never used again.
CREATE TABLE draft (
    no       INTEGER PRIMARY KEY AUTOINCREMENT,
    name     TEXT    NOT NULL UNIQUE,
    based_on INTEGER,
    saved_ms INTEGER NOT NULL,
    content  BLOB    NOT NULL
) STRICT;

-- What was last published from a place, like a file.
CREATE TABLE source (
    name       TEXT    PRIMARY KEY,
    workflow   TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    definition BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX source_workflow ON source (workflow, version);

-- What is to be looked at again: everything that is published, some of it (a JSON list of
-- names), or the places that definitions are read from.
CREATE TABLE upkeep (
    no    INTEGER PRIMARY KEY AUTOINCREMENT,
    kind  INTEGER NOT NULL,
    names TEXT,
    at_ms INTEGER NOT NULL
) STRICT;

-- Operations on many runs, and how far each of them is.
CREATE TABLE batch (
    no         INTEGER PRIMARY KEY AUTOINCREMENT,
    what       BLOB    NOT NULL,
    progress   BLOB    NOT NULL,
    revision   INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    ended_ms   INTEGER
) STRICT;

-- What one member at a time does now and then.
CREATE TABLE duty (
    name        TEXT    PRIMARY KEY,
    incarnation INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What suspended executions wait for. Numbers grow in the order in which they were made, over
-- all processes, so that what a stimulus may meet is told by a number.
CREATE TABLE bookmark (
    no          INTEGER PRIMARY KEY AUTOINCREMENT,
    run         INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    trigger     INTEGER NOT NULL,
    phase       INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    hash        BLOB    NOT NULL,
    matches     BLOB    NOT NULL,
    correlation TEXT,
    private     INTEGER NOT NULL,
    auto_burn   INTEGER NOT NULL,
    metadata    BLOB,
    token       BLOB    NOT NULL,
    expires_ms  INTEGER,
    created_ms  INTEGER NOT NULL
) STRICT;

CREATE INDEX bookmark_hash ON bookmark (hash);
CREATE INDEX bookmark_correlation ON bookmark (hash, correlation) WHERE correlation IS NOT NULL;
CREATE INDEX bookmark_run ON bookmark (run, first);
CREATE INDEX bookmark_token ON bookmark (token);

-- Stimuli that wait to be delivered (`ready_ms`), or for their bookmark (`expires_ms`).
CREATE TABLE stimulus (
    no          INTEGER PRIMARY KEY AUTOINCREMENT,
    id          BLOB    NOT NULL,
    name        TEXT    NOT NULL,
    matches     BLOB    NOT NULL,
    hash        BLOB    NOT NULL,
    correlation TEXT,
    -- The id of the only run that gets it.
    run         BLOB,
    delivery    INTEGER NOT NULL,
    ttl_ms      INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    input       BLOB,
    input_meta  TEXT,
    expires_ms  INTEGER,
    ready_ms    INTEGER,
    source      INTEGER,
    after_no    INTEGER,
    until_no    INTEGER,
    attempts    INTEGER NOT NULL DEFAULT 0,
    last_error  TEXT,
    -- The root of its sender's tree, and how many descendants the workflow of the root allows.
    root        INTEGER,
    bound       INTEGER,
    -- The trace in which it is sent.
    trace       BLOB
) STRICT;

CREATE INDEX stimulus_ready ON stimulus (ready_ms) WHERE ready_ms IS NOT NULL;
-- What each run has sent and is not delivered, in the order in which it was.
CREATE INDEX stimulus_source ON stimulus (source, no)
    WHERE ready_ms IS NOT NULL AND source IS NOT NULL;
CREATE INDEX stimulus_at ON stimulus (at_ms) WHERE ready_ms IS NOT NULL;
CREATE INDEX stimulus_buffered ON stimulus (hash, run, correlation)
    WHERE expires_ms IS NOT NULL;
CREATE INDEX stimulus_expires ON stimulus (expires_ms) WHERE expires_ms IS NOT NULL;

-- Triggers that clients and components schedule, by the ids that these were given. The rows last
-- as long as their run.
CREATE TABLE external_trigger (
    id      BLOB    PRIMARY KEY,
    trigger INTEGER NOT NULL,
    run     INTEGER NOT NULL,
    request BLOB    NOT NULL,
    closed  INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX external_trigger_run ON external_trigger (run, trigger);

CREATE TABLE dead_letter (
    no          INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        INTEGER NOT NULL,
    reason      TEXT    NOT NULL,
    at_ms       INTEGER NOT NULL,
    failure     TEXT,
    run         INTEGER,
    seq         INTEGER,
    trigger     INTEGER,
    node        INTEGER,
    priority    INTEGER,
    payload     BLOB,
    detail      BLOB,
    stimulus    TEXT,
    input       BLOB,
    input_meta  TEXT,
    replayed_ms INTEGER
) STRICT;

CREATE INDEX dead_letter_at ON dead_letter (at_ms);
CREATE INDEX dead_letter_run ON dead_letter (run, seq) WHERE run IS NOT NULL;

-- Components of plugins, for processes that do not have their files. Few, large, and never
-- changed; looked at when one is missing and when plugins may have come.
CREATE TABLE component (
    generation INTEGER PRIMARY KEY,
    digest     BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    bytes      BLOB NOT NULL,
    -- Since when nobody has said that it is used; none until somebody looks.
    used_ms    INTEGER,
    -- Its signature, as minisign writes it, for processes whose settings name a key.
    signature  TEXT
) STRICT;

-- What operators have decided about the system as a whole: an administrative pause, for one.
-- A handful of rows, looked at when a process starts and when somebody decides anew.
CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- What the store has one of: random bytes that identify it to the marker beside it, the last
-- number that it gave to a trigger itself, below the numbers of all members, and a count of the
-- groups after which what the marker rests on may be gone.
CREATE TABLE own (
    no         INTEGER PRIMARY KEY CHECK (no = 1),
    identity   BLOB    NOT NULL,
    trigger    INTEGER NOT NULL,
    generation INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO own (no, identity, trigger) VALUES (1, randomblob(32), 0);

-- One row, changed where an answer has to rest on a write of its own: a flush.
CREATE TABLE touch (
    no    INTEGER PRIMARY KEY CHECK (no = 1),
    count INTEGER NOT NULL
) STRICT;
INSERT INTO touch VALUES (1, 0);

-- The last group of each process that only its own traces can be told by: see `settle`.
CREATE TABLE trace (
    process INTEGER PRIMARY KEY,
    last    INTEGER NOT NULL,
    place   INTEGER NOT NULL
) STRICT;

CREATE INDEX trace_place ON trace (place);
