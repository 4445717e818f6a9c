-- Drafts, sources of versions, upkeep requests, and retention times of single instances.

-- Drafts, one for each workflow. The number is the revision, and is never reused.
CREATE TABLE draft (
    no       INTEGER PRIMARY KEY AUTOINCREMENT,
    name     TEXT    NOT NULL UNIQUE,
    based_on INTEGER,
    saved_ms INTEGER NOT NULL,
    content  BLOB    NOT NULL
) STRICT;

-- The version that was last published from a source, like a file.
CREATE TABLE source (
    name       TEXT    PRIMARY KEY,
    workflow   TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    definition BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX source_workflow ON source (workflow, version);

-- Upkeep requests: refresh all published definitions or some of them (a JSON list of names), or
-- reload the sources.
CREATE TABLE upkeep (
    no    INTEGER PRIMARY KEY AUTOINCREMENT,
    kind  INTEGER NOT NULL,
    names TEXT,
    at_ms INTEGER NOT NULL
) STRICT;

-- Ended instances with a retention time of their own: bit 16 of their `extras` is set. They have
-- their own table, so that a search for instances with the default time skips them.
ALTER TABLE origin ADD COLUMN keep_ms INTEGER;

CREATE TABLE kept (
    instance INTEGER PRIMARY KEY,
    until_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX kept_until ON kept (until_ms);

DROP INDEX instance_finished;
CREATE INDEX instance_finished ON instance (finished_ms)
    WHERE finished_ms IS NOT NULL AND extras & 16 = 0;

-- The instances that use a definition or pins, and when a sweep first found a document unused.
CREATE INDEX instance_definition ON instance (definition);
CREATE INDEX instance_pins ON instance (pins);
CREATE INDEX publication_definition ON publication (definition);
ALTER TABLE definition ADD COLUMN unused_ms INTEGER;
ALTER TABLE pins ADD COLUMN unused_ms INTEGER;

-- The undelivered stimuli of each sending instance, in the order of sending.
CREATE INDEX stimulus_source ON stimulus (source, no)
    WHERE ready_ms IS NOT NULL AND source IS NOT NULL;
