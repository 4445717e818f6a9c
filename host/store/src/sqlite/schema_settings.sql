-- Operators' settings of the whole system, for example an administrative pause. The rows are few; a
-- process reads them when it starts and when a setting changes.
CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
