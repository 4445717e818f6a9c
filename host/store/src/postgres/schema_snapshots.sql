-- One row for each transaction that leaves a trace, which shows whether the transaction is
-- committed. Rows are inserted, read by key, and deleted by ranges of numbers, but never updated.
-- So an old snapshot that keeps dead versions does not slow transactions down.
--
-- `trace` keeps one row for each lane, with the time of its last sign of life.
CREATE TABLE trail (
    process BIGINT NOT NULL,
    no      BIGINT NOT NULL,
    -- The transaction with this number is not committed and never will be: its own row would
    -- violate the primary key.
    void    BOOLEAN NOT NULL DEFAULT false,
    at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (process, no)
);

-- Removed members that may still own instances. Reaping frees a bounded number of instances at a
-- time, and finds the remaining owners here instead of searching all owners.
CREATE TABLE grave (
    incarnation BIGINT PRIMARY KEY
);

-- Bookmarks by correlation. No other index begins with the correlation, so a statement that names
-- one reads only the bookmarks of that correlation.
CREATE INDEX bookmark_correlated ON bookmark (correlation, hash, no)
    WHERE correlation IS NOT NULL;
DROP INDEX bookmark_correlation;
