-- Components of plugins, for processes that do not have their files. Few, large, and never
-- changed; looked at when one is missing and when plugins may have come.
CREATE TABLE component (
    generation BIGINT PRIMARY KEY,
    digest     BYTEA NOT NULL UNIQUE,
    name       TEXT COLLATE "C" NOT NULL,
    version    TEXT COLLATE "C" NOT NULL,
    bytes      BYTEA NOT NULL
);
