-- One row for each transaction that leaves a mark, by which it can be told whether it is written.
-- Rows are inserted, looked up by their key, and deleted by ranges of numbers: none is ever
-- updated, so an old snapshot that keeps dead versions does not make a transaction slower.
--
-- `trace` keeps one row per lane: which lanes there are, and since when.
CREATE TABLE trail (
    process BIGINT NOT NULL,
    no      BIGINT NOT NULL,
    -- The transaction of this number is not written, and never will be: its own row would be the
    -- second one of the number.
    void    BOOLEAN NOT NULL DEFAULT false,
    at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (process, no)
);

-- Members that were removed while instances had them as owners. The instances are freed a bounded
-- number at a time; a burial looks here for what is left, and not through all owners.
CREATE TABLE grave (
    incarnation BIGINT PRIMARY KEY
);

-- Bookmarks with a correlation, found by that first: no other index begins with it, so that a
-- statement that names it reads the bookmarks of that correlation alone.
CREATE INDEX bookmark_correlated ON bookmark (correlation, hash, no)
    WHERE correlation IS NOT NULL;
DROP INDEX bookmark_correlation;
