-- Components of plugins, for processes that do not have their files. Few, large, and never
-- changed; looked at when one is missing and when plugins may have come.
CREATE TABLE component (
    generation INTEGER PRIMARY KEY,
    digest     BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    bytes      BLOB NOT NULL
) STRICT;
