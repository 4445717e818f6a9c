-- What operators have decided about the system as a whole: an administrative pause, for one.
-- A handful of rows, looked at when a process starts and when somebody decides anew.
CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
