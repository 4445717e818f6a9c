-- Published definitions, scopes, and what is needed to forget.

-- Variables by scope: the root is 0.
CREATE TABLE scoped_var (
    instance INTEGER NOT NULL,
    scope    INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    body     BLOB,
    meta     TEXT,
    PRIMARY KEY (instance, scope, name)
) STRICT, WITHOUT ROWID;
INSERT INTO scoped_var SELECT instance, 0, name, body, meta FROM var;
DROP TABLE var;
ALTER TABLE scoped_var RENAME TO var;

-- Open scopes besides the root.
CREATE TABLE scope (
    instance INTEGER NOT NULL,
    scope    INTEGER NOT NULL,
    state    BLOB    NOT NULL,
    PRIMARY KEY (instance, scope)
) STRICT, WITHOUT ROWID;

-- What came out of the items of a for-each.
CREATE TABLE item (
    instance INTEGER NOT NULL,
    list     INTEGER NOT NULL,
    place    INTEGER NOT NULL,
    body     BLOB,
    meta     TEXT,
    PRIMARY KEY (instance, list, place)
) STRICT, WITHOUT ROWID;

-- What instances that have not ended keep to themselves.
CREATE TABLE reservation (
    key      TEXT    NOT NULL,
    instance INTEGER NOT NULL,
    PRIMARY KEY (key, instance)
) STRICT, WITHOUT ROWID;

CREATE INDEX reservation_instance ON reservation (instance);

CREATE TABLE publication (
    no           INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    definition   INTEGER NOT NULL,
    published_ms INTEGER NOT NULL,
    retracted_ms INTEGER,
    UNIQUE (name, version)
) STRICT;

-- One published version of each workflow.
CREATE UNIQUE INDEX publication_current ON publication (name) WHERE retracted_ms IS NULL;

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
    last_instance   BLOB,
    UNIQUE (workflow, key)
) STRICT;

CREATE INDEX schedule_next ON schedule (next_ms, no);

-- What one member at a time does now and then.
CREATE TABLE duty (
    name        TEXT    PRIMARY KEY,
    incarnation INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Which instances have ended, in the order in which they did.
CREATE INDEX instance_finished ON instance (finished_ms) WHERE finished_ms IS NOT NULL;

-- Which blobs an instance refers to.
CREATE TABLE blob_ref (
    instance INTEGER NOT NULL,
    blob     INTEGER NOT NULL,
    PRIMARY KEY (instance, blob)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_ref_blob ON blob_ref (blob);

INSERT INTO blob_ref
SELECT DISTINCT held.instance, blob.no FROM (
    SELECT instance, input_meta AS meta FROM origin WHERE input_meta IS NOT NULL
    UNION ALL SELECT no, output_meta FROM instance WHERE output_meta IS NOT NULL
    UNION ALL SELECT instance, output_meta FROM run WHERE output_meta IS NOT NULL
    UNION ALL SELECT instance, meta FROM var WHERE meta IS NOT NULL
) AS held
JOIN blob ON blob.digest = unhex(substr(json_extract(held.meta, '$.blob.digest'), 8));

-- Blobs that lost a reference: they are looked at again once the grace period is over.
CREATE TABLE blob_loose (
    blob     INTEGER PRIMARY KEY,
    since_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX blob_loose_since ON blob_loose (since_ms);
