-- Components of plugins, for processes that lack the files. They are few, large and never changed;
-- a process reads them when it lacks one and when plugins may have been added.
CREATE TABLE component (
    generation INTEGER PRIMARY KEY,
    digest     BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    bytes      BLOB NOT NULL
) STRICT;
