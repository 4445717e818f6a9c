-- The first layout of a store file. Numbers everywhere; the only UUID is in one unique
-- index. What a step touches is small and lies close together: a head, a run record at the
-- end of its table, a trigger changed in place. See docs/storage.md.

-- `wlas`: marks the file as a store.
PRAGMA application_id = 2003591539;

CREATE TABLE member (
    incarnation INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL,
    pid         INTEGER NOT NULL,
    boot        TEXT    NOT NULL,
    lease_ms    INTEGER NOT NULL,
    until_ms    INTEGER NOT NULL,
    joined_ms   INTEGER NOT NULL
) STRICT;

CREATE TABLE definition (
    no     INTEGER PRIMARY KEY,
    digest BLOB    NOT NULL UNIQUE,
    name   TEXT    NOT NULL,
    json   BLOB    NOT NULL
) STRICT;

CREATE INDEX definition_name ON definition (name);

CREATE TABLE pins (
    no     INTEGER PRIMARY KEY,
    digest BLOB    NOT NULL UNIQUE,
    json   BLOB    NOT NULL
) STRICT;

-- The head: rewritten by every step, so it holds nothing that a step does not change,
-- except what finds it.
CREATE TABLE instance (
    no          INTEGER PRIMARY KEY,
    id          BLOB    NOT NULL UNIQUE,
    definition  INTEGER NOT NULL,
    pins        INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    owner       INTEGER,
    epoch       INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    last_run    INTEGER,
    state       BLOB    NOT NULL,
    finished_ms INTEGER,
    failure     TEXT,
    output      BLOB,
    output_meta TEXT
) STRICT;

CREATE INDEX instance_owner ON instance (owner) WHERE owner IS NOT NULL;

-- What an instance was created with; never changed.
CREATE TABLE origin (
    instance    INTEGER PRIMARY KEY,
    request     BLOB    NOT NULL,
    correlation TEXT,
    created_ms  INTEGER NOT NULL,
    input       BLOB,
    input_meta  TEXT
) STRICT;

CREATE TABLE var (
    instance INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    body     BLOB,
    meta     TEXT,
    PRIMARY KEY (instance, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE trigger (
    no         INTEGER PRIMARY KEY,
    instance   INTEGER NOT NULL,
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
    reason     TEXT
) STRICT;

CREATE INDEX trigger_instance ON trigger (instance);
-- Pending triggers in the order in which they come due. Claimed ones are not in it, so that
-- a chain of steps in one process never touches it.
CREATE INDEX trigger_due ON trigger (due_ms, instance) WHERE state = 0;
CREATE INDEX trigger_parked ON trigger (state) WHERE state = 2;

-- The log of executions: appended, never changed, read backwards by `previous`.
CREATE TABLE run (
    no          INTEGER PRIMARY KEY,
    instance    INTEGER NOT NULL,
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
    skipped     TEXT
) STRICT;

CREATE TABLE journal (
    instance INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    place    INTEGER NOT NULL,
    at_ms    INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    detail   BLOB    NOT NULL,
    PRIMARY KEY (instance, version, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE blob (
    no         INTEGER PRIMARY KEY,
    digest     BLOB    NOT NULL UNIQUE,
    touched_ms INTEGER NOT NULL,
    content    BLOB    NOT NULL
) STRICT;

-- One row, changed where an answer has to rest on a write of its own: a flush.
CREATE TABLE touch (
    no    INTEGER PRIMARY KEY CHECK (no = 1),
    count INTEGER NOT NULL
) STRICT;
INSERT INTO touch VALUES (1, 0);
