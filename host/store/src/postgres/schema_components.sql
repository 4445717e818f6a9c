-- Components of plugins, for processes that lack the files. They are few, large and never changed;
-- a process reads them when it lacks one and when plugins may have been added.
CREATE TABLE component (
    generation BIGINT PRIMARY KEY,
    digest     BYTEA NOT NULL UNIQUE,
    name       TEXT COLLATE "C" NOT NULL,
    version    TEXT COLLATE "C" NOT NULL,
    bytes      BYTEA NOT NULL
);
