-- Bookmarks, stimuli, triggers from outside, children, dead letters.

ALTER TABLE trigger ADD COLUMN payload BLOB;
ALTER TABLE trigger ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;

-- Pending triggers in the order in which they are claimed: the priorities that are there are
-- found by one look each, and within one the order is that of the due times.
DROP INDEX trigger_due;
CREATE INDEX trigger_due ON trigger (priority, due_ms, instance) WHERE state = 0;

-- Which of the rarer things hang on an instance, bit by bit, so that its end looks only for
-- what there may be.
ALTER TABLE instance ADD COLUMN extras INTEGER NOT NULL DEFAULT 0;

ALTER TABLE origin ADD COLUMN parent INTEGER;
ALTER TABLE origin ADD COLUMN parent_id BLOB;
ALTER TABLE origin ADD COLUMN parent_trigger INTEGER;
ALTER TABLE origin ADD COLUMN parent_seq INTEGER;
ALTER TABLE origin ADD COLUMN depth INTEGER;
CREATE INDEX origin_parent ON origin (parent) WHERE parent IS NOT NULL;

-- What suspended node runs wait for. Numbers grow in the order in which they were made, over
-- all processes, so that what a stimulus may meet is told by a number.
CREATE TABLE bookmark (
    no          INTEGER PRIMARY KEY AUTOINCREMENT,
    instance    INTEGER NOT NULL,
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
CREATE INDEX bookmark_instance ON bookmark (instance, first);
CREATE INDEX bookmark_token ON bookmark (token);

-- Stimuli that wait to be delivered (`ready_ms`), or for their bookmark (`expires_ms`).
CREATE TABLE stimulus (
    no          INTEGER PRIMARY KEY AUTOINCREMENT,
    id          BLOB    NOT NULL,
    name        TEXT    NOT NULL,
    matches     BLOB    NOT NULL,
    hash        BLOB    NOT NULL,
    correlation TEXT,
    instance    BLOB,
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
    last_error  TEXT
) STRICT;

CREATE INDEX stimulus_ready ON stimulus (ready_ms) WHERE ready_ms IS NOT NULL;
CREATE INDEX stimulus_at ON stimulus (at_ms) WHERE ready_ms IS NOT NULL;
CREATE INDEX stimulus_buffered ON stimulus (hash, instance, correlation)
    WHERE expires_ms IS NOT NULL;
CREATE INDEX stimulus_expires ON stimulus (expires_ms) WHERE expires_ms IS NOT NULL;

-- The names that triggers from outside were given. They last as long as their instance.
CREATE TABLE outside (
    id       BLOB    PRIMARY KEY,
    trigger  INTEGER NOT NULL,
    instance INTEGER NOT NULL,
    request  BLOB    NOT NULL,
    closed   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX outside_instance ON outside (instance, trigger);

CREATE TABLE dead_letter (
    no          INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        INTEGER NOT NULL,
    reason      TEXT    NOT NULL,
    at_ms       INTEGER NOT NULL,
    failure     TEXT,
    instance    INTEGER,
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
CREATE INDEX dead_letter_instance ON dead_letter (instance, seq) WHERE instance IS NOT NULL;

-- What the store has one of: the secret of resume tokens, and the last number that it gave to
-- a trigger itself. Those are below the numbers of all members.
CREATE TABLE own (
    no      INTEGER PRIMARY KEY CHECK (no = 1),
    secret  BLOB    NOT NULL,
    trigger INTEGER NOT NULL
) STRICT;
INSERT INTO own VALUES (1, randomblob(32), 0);

-- The last group of each process that only its own traces can be told by: see `settle`.
CREATE TABLE trace (
    process INTEGER PRIMARY KEY,
    last    INTEGER NOT NULL,
    place   INTEGER NOT NULL
) STRICT;

CREATE INDEX trace_place ON trace (place);
