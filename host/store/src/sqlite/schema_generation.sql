-- Counts the groups that may delete rows which bounds in the marker name.
ALTER TABLE own ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
