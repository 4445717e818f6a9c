-- Drafts, where versions were read from, requests to look again, and times of their own.

-- One for each workflow. The number is the revision, and is never used again.
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

-- Finished instances that are kept for a time of their own, so that they are not in the way of
-- those that are kept as long as all. The bit 16 of `extras` says which.
ALTER TABLE origin ADD COLUMN keep_ms INTEGER;

CREATE TABLE kept (
    instance INTEGER PRIMARY KEY,
    until_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX kept_until ON kept (until_ms);

DROP INDEX instance_finished;
CREATE INDEX instance_finished ON instance (finished_ms)
    WHERE finished_ms IS NOT NULL AND extras & 16 = 0;

-- Who uses a document, and since when it is known that nobody does.
CREATE INDEX instance_definition ON instance (definition);
CREATE INDEX instance_pins ON instance (pins);
CREATE INDEX publication_definition ON publication (definition);
ALTER TABLE definition ADD COLUMN unused_ms INTEGER;
ALTER TABLE pins ADD COLUMN unused_ms INTEGER;

-- What each instance has sent and is not delivered, in the order in which it was.
CREATE INDEX stimulus_source ON stimulus (source, no)
    WHERE ready_ms IS NOT NULL AND source IS NOT NULL;
